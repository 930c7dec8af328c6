"""Rows to draw: a sample of bounded size from every cluster, raw, scaled and embedded."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knet.estimator import KNet
from knet.inspect.views import Floats, Labels

SCATTER_ROWS = 5000  # points in a scatter


POOL_ROWS = 50_000  # rows that are labelled in order to draw from every cluster


POOL_VALUES = 10_000_000  # and the values in them, which bounds the rows of wide tables


@dataclass(frozen=True)
class Sample:
    """Rows to draw, in the order of the data: raw, scaled as the model scales them, embedded, and their clusters."""

    rows: NDArray[np.int64]
    X: Floats
    scaled: Floats
    Psi: Floats
    labels: Labels
    n_rows: int

    @property
    def rate(self) -> str:
        """Say how many of the rows are drawn; nothing where all are."""
        drawn = len(self.rows)
        return "" if drawn == self.n_rows else f"{drawn:,} of {self.n_rows:,} rows"

    def thin(self, max_rows: int, seed: int = 0) -> "Sample":
        """Return at most about `max_rows` of these rows."""
        kept = _stratified(self.labels, max_rows, np.random.default_rng(seed))
        names = ("rows", "X", "scaled", "Psi", "labels")
        return replace(self, **{name: getattr(self, name)[kept] for name in names})


def sample(model: KNet, X: Any, max_rows: int = SCATTER_ROWS, seed: int = 0) -> Sample:
    """Return at most about `max_rows` rows of X, from each cluster its share and at least a few.

    Of more than `POOL_ROWS` rows (fewer where rows are wide), a random pool of that size stands for all.
    """
    rng = np.random.default_rng(seed)
    n_rows = count_rows(X)
    n_pool = min(POOL_ROWS, max(SCATTER_ROWS, POOL_VALUES // model.n_features_in_))
    pool = np.arange(n_rows) if n_rows <= n_pool else np.sort(rng.choice(n_rows, n_pool, replace=False))
    table = X if len(pool) == n_rows else take_rows(X, pool)
    labels = model.predict(table)
    kept = _stratified(labels, max_rows, rng)
    table = table if len(kept) == len(pool) else take_rows(table, kept)
    values = np.asarray(table, dtype=np.float64)
    predictor = model.predictor_
    return Sample(
        rows=pool[kept],
        X=values,
        scaled=(values - predictor.shift) / predictor.scale,
        Psi=predictor.embed(values),
        labels=labels[kept],
        n_rows=n_rows,
    )


def take_rows(X: Any, rows: NDArray[np.integer[Any]]) -> Any:
    """Return the given rows of an array or a table, in its own kind."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if hasattr(X, "column_names") and hasattr(X, "take"):  # an Arrow table
        return X.take(rows)
    if hasattr(X, "columns"):  # polars
        return X[rows]
    return np.asarray(X)[rows]


def count_rows(X: Any) -> int:
    """Return the number of rows of an array or a table."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def column_names(model: KNet) -> list[str]:
    """Return the names of the columns, or x0, x1, ... where the model knows none."""
    names = getattr(model, "feature_names_in_", None)
    return [f"x{j}" for j in range(model.n_features_in_)] if names is None else [str(name) for name in names]


def _stratified(labels: Labels, max_rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return at most about `max_rows` positions, sorted, from each cluster in proportion and at least three."""
    if len(labels) <= max_rows:
        return np.arange(len(labels))
    groups = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    sizes = [min(len(group), max(3, int(max_rows * len(group) / len(labels)))) for group in groups]
    return np.sort(np.concatenate([rng.choice(g, n, replace=False) for g, n in zip(groups, sizes, strict=True)]))
