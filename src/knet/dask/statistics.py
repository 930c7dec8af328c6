"""Statistics over all rows of a Dask collection: the clusters' sizes and means, and drift from the training sample."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knet.arrays import Floats
from knet.dask.lazy import LazyModel, checked_rows
from knet.dask.reductions import Moments, merge_moments, moments
from knet.estimator import KNet
from knet.model.blocks import ModelOrPath, fingerprint
from knet.model.light import LightModel
from knet.rows.dense import dense_rows
from knet.rows.kinds import is_sparse

UNFAMILIAR = 0.01  # share of the training sample that counts as unfamiliar


@dataclass(frozen=True)
class Summary:
    """Statistics of the clusters over all rows.

    Attributes
    ----------
    sizes : ndarray of shape (c,)
        Number of rows in each cluster.
    means, deviations : ndarrays of shape (c, d)
        Mean and standard deviation of each column, per cluster; NaN if a cluster is empty.
    eta_squared : ndarray of shape (d,)
        Share of each column's variance that the clusters explain, from 0 to 1.
    doubtful : float
        Share of the rows whose membership in their cluster is below 0.7.
    """

    sizes: NDArray[np.int64]
    means: Floats
    deviations: Floats
    eta_squared: Floats
    doubtful: float


def summarize(model: ModelOrPath, X: Any, *, threads: int = 1, device: str = "cpu") -> Summary:
    """Return sizes, means and standard deviations of the clusters over all rows, in one pass.

    Parameters are those of `predict`.
    """
    found = _all_moments(LazyModel(model, X, threads, device), -np.inf)
    counts = found.counts[:, None].astype(np.float64)
    filled = np.where(counts > 0, counts, np.nan)
    middle = (counts * found.means).sum(0) / counts.sum()
    between, within = (counts * np.square(found.means - middle)).sum(0), found.squares.sum(0)
    total = between + within
    return Summary(
        sizes=found.counts,
        means=np.where(counts > 0, found.means, np.nan),
        deviations=np.sqrt(found.squares / filled),
        eta_squared=between / np.where(total > 0, total, 1.0),
        doubtful=found.n_doubtful / int(found.counts.sum()),
    )


def _all_moments(lazy: LazyModel, threshold: float) -> Moments:
    found: Moments = lazy.reduce(moments, merge_moments, threshold)
    if not found.counts.sum():
        raise ValueError("X has no rows.")
    return found


@dataclass(frozen=True)
class Drift:
    """Differences between some rows and the training sample of a model.

    Attributes
    ----------
    n_rows : int
        Number of rows compared.
    unfamiliar : float
        Share of the rows that score below 99 % of the training sample: about 0.01 if nothing has changed.
    shares, reference_shares : ndarrays of shape (c,)
        Share of each cluster, in these rows and in the training sample.
    size_shift : float
        Share of the rows that would have to change clusters to restore the sizes of the training sample, from 0 to 1.
    column_shift : ndarray of shape (d,)
        Difference between the means of each column, in standard deviations of the training sample.
    """

    n_rows: int
    unfamiliar: float
    shares: Floats
    reference_shares: Floats
    size_shift: float
    column_shift: Floats


def drift(model: ModelOrPath, X: Any, reference: Any = None, *, threads: int = 1, device: str = "cpu") -> Drift:
    """Compare rows with the training sample, in one pass.

    Parameters
    ----------
    model, X, threads, device
        As in `predict`.
    reference : array-like or sparse matrix in memory, optional
        The training sample, or rows that represent it. Not needed if `knet.dask.fit` fitted the model.
    """
    lazy = LazyModel(model, X, threads, device)
    known = _stored_description(lazy.light) if reference is None else describe_sample(lazy.model, reference)
    found = _all_moments(lazy, known["threshold"])
    n_rows = int(found.counts.sum())
    shares = found.counts / n_rows
    before = np.array(known["sizes"]) / np.sum(known["sizes"])
    means = (found.counts[:, None] * found.means).sum(0) / n_rows
    return Drift(
        n_rows=n_rows,
        unfamiliar=found.n_unfamiliar / n_rows,
        shares=shares,
        reference_shares=before,
        size_shift=float(np.abs(shares - before).sum() / 2),
        column_shift=(means - known["means"]) / np.array(known["deviations"]),
    )


def describe_sample(model: KNet | LightModel, rows: Any) -> dict[str, Any]:
    """Return the description of a training sample that `drift` compares with, as plain data for the model file."""
    X = checked_rows(model, rows)
    X = dense_rows(X) if is_sparse(X) else X
    predictor = model.predictor if isinstance(model, LightModel) else model.predictor_
    sizes = np.bincount(predictor.assign(X), minlength=len(predictor.centers))
    deviations = X.std(0, dtype=np.float64)
    return {
        "model": fingerprint(model),
        "sizes": sizes.tolist(),
        "threshold": float(np.quantile(predictor.familiarity(X), UNFAMILIAR)),
        "means": X.mean(0, dtype=np.float64).tolist(),
        "deviations": np.where(deviations > 0, deviations, 1.0).tolist(),
    }


def _stored_description(model: LightModel) -> dict[str, Any]:
    known: dict[str, Any] = (model.extra or {}).get("reference", {})
    if known.get("model") != fingerprint(model):
        raise ValueError(
            "The model has no description of its training sample: only knet.dask.fit stores it. "
            "Pass the sample, or rows that represent it, as `reference`."
        )
    return known
