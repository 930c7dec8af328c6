"""Samples of rows for plots and reports: of bounded size, from every cluster, with labels, scaled and embedded values.

The time to draw a sample does not grow with the number of rows: at most `POOL_ROWS` of them are validated and embedded.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from knet.arrays import Floats, Labels, RowsLike
from knet.estimator import KNet
from knet.rows.dense import dense_rows
from knet.rows.kinds import take_rows

POOL_ROWS = 50_000  # the maximum number of rows from which a sample is drawn
POOL_VALUES = 10_000_000  # the maximum number of their values: tables with many columns have a smaller pool,
MIN_POOL_ROWS = 5000  # but never a smaller one than this
MIN_CLUSTER_ROWS = 3  # rows of each cluster that a sample contains, if the cluster has as many


@dataclass(frozen=True)
class Sample:
    """Rows in the order of the data."""

    rows: NDArray[np.int64]  # their positions in the data
    X: Floats  # (n, d), as given
    scaled: Floats  # (n, d), scaled by the model
    Psi: Floats  # (n, d'), embedded
    labels: Labels  # their clusters
    n_rows: int  # of the data

    @property
    def size_note(self) -> str:
        """The size of the sample in words; empty if the sample contains all rows."""
        n_drawn = len(self.rows)
        return "" if n_drawn == self.n_rows else f"{n_drawn:,} of {self.n_rows:,} rows"

    def thin(self, max_rows: int, random_state: int = 0) -> "Sample":
        """Return a sample of this sample, with about `max_rows` rows at most."""
        kept = _stratified(self.labels, max_rows, np.random.default_rng(random_state))
        names = ("rows", "X", "scaled", "Psi", "labels")
        return replace(self, **{name: getattr(self, name)[kept] for name in names})


def sample_rows(
    model: KNet, X: RowsLike, max_rows: int, *, random_state: int = 0, labels: ArrayLike | None = None
) -> Sample:
    """Return about `max_rows` rows of X at most: from each cluster in proportion to its size, and at least three.

    Rows without any value belong to no cluster, and to no sample.

    If X has more rows than `POOL_ROWS` (fewer for wide tables), the sample is drawn from a random pool of that size.
    X may be a sample already. `labels` are the labels of X if they are known; otherwise the model predicts those of the
    pool.
    """
    check_is_fitted(model)
    if isinstance(X, Sample):
        return X.thin(max_rows, random_state)
    X, rng, predictor = model._admit(X), np.random.default_rng(random_state), model.predictor_
    n_rows = X.shape[0] if X.shape else 0  # a single number, which `model._rows` refuses
    n_pool = min(POOL_ROWS, max(MIN_POOL_ROWS, POOL_VALUES // model.n_features_in_))
    pool = np.arange(n_rows) if n_rows <= n_pool else np.sort(rng.choice(n_rows, n_pool, replace=False))
    values = model._rows(X if len(pool) == n_rows else take_rows(X, pool))
    known = predictor.assign(values) if labels is None else _checked(labels, n_rows, predictor.n_labels)[pool]
    has_values = np.flatnonzero(known >= 0)  # a row without any value has the label -1: there is nothing to show
    kept = has_values[_stratified(known[has_values], max_rows, rng)]
    values = dense_rows(values[kept]).astype(np.float64)
    scaled, Psi = predictor.preparation(values), predictor.embed(values)
    return Sample(rows=pool[kept], X=values, scaled=scaled, Psi=Psi, labels=known[kept], n_rows=n_rows)


def _checked(labels: ArrayLike, n_rows: int, n_clusters: int) -> Labels:
    """Return labels given by a caller as an array, or raise if they cannot be the model's labels of these rows."""
    given = np.asarray(labels)
    is_whole = given.shape == (n_rows,) and given.dtype.kind in "iu"
    if not is_whole or ((given < -1) | (given >= n_clusters)).any():
        raise ValueError(
            f"'labels' must be those that the model's predict gives to the {n_rows} rows of X: one integer from -1 to "
            f"{n_clusters - 1} for each row. Got an array of shape {given.shape} and type {given.dtype} instead."
        )
    return given.astype(np.int64)


def _stratified(labels: Labels, max_rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return about `max_rows` positions at most, sorted: a share of each cluster, and at least `MIN_CLUSTER_ROWS`."""
    if len(labels) <= max_rows:
        return np.arange(len(labels))
    groups = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    shares = [max(MIN_CLUSTER_ROWS, int(max_rows * len(group) / len(labels))) for group in groups]
    pairs = zip(groups, shares, strict=True)
    return np.sort(np.concatenate([rng.choice(own, min(len(own), share), replace=False) for own, share in pairs]))
