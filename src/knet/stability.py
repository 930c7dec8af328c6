"""How far to trust the labels: refits on other rows and other seeds, compared with a model's own clusters."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone
from sklearn.metrics.cluster import contingency_matrix

from knet.estimator import KNet
from knet.inspect.samples import count_rows, take_rows
from knet.metrics import ari

REFIT_ROWS = 2000  # rows that a refit draws from


@dataclass(frozen=True)
class Stability:
    """Agreement of refits with a model, from 0 to 1.

    Attributes
    ----------
    overall : float
        Mean adjusted Rand index between the model's labels and those of a refit.
    clusters : ndarray of shape (n_clusters,)
        For each cluster, the mean over refits of the largest overlap (Jaccard index) with one of theirs; NaN where the
        rows given hold none of it.
    rows : ndarray of shape (n_samples,)
        For each row, the share of refits that put it into the same cluster.
    """

    overall: float
    clusters: NDArray[np.float64]
    rows: NDArray[np.float64]


def stability(model: KNet, X: Any, *, n_refits: int = 5, seed: int = 0, n_jobs: int | None = None) -> Stability:
    """Refit a model on random four fifths of (a sample of) X and compare the labels of all rows.

    Every refit chooses its own start, width and rows. Refits are shared out by joblib.
    """
    if n_refits < 1:
        raise ValueError(f"n_refits must be at least 1. Got {n_refits} instead.")
    return agreement(model, X, model.predict(X), n_refits=n_refits, seed=seed, n_jobs=n_jobs)


def agreement(
    model: KNet, X: Any, labels: NDArray[np.int64], *, n_refits: int, seed: int, n_jobs: int | None = None
) -> Stability:
    """Compare refits with the labels that the model gives to X."""
    n_rows, parts = count_rows(X), []
    for number in range(n_refits):
        rng = np.random.default_rng([seed, number])
        pool = np.arange(n_rows) if n_rows <= REFIT_ROWS else rng.choice(n_rows, REFIT_ROWS, replace=False)
        size = min(n_rows, max(model.n_clusters, 2, 4 * len(pool) // 5))
        parts.append(take_rows(X, np.sort(rng.choice(pool, size, replace=False))))
    run = Parallel(n_jobs=n_jobs)
    found = run(delayed(_refit)(model, part, X, 1000 + number) for number, part in enumerate(parts))
    return _compared(labels, found, model.n_clusters)


def _refit(model: KNet, part: Any, X: Any, seed: int) -> NDArray[np.int64]:
    """Return labels of X by a new fit on `part`."""
    again = clone(model).set_params(random_state=seed, callback=None, verbose=0, keep_rounds=False, train_size="auto")
    with warnings.catch_warnings(action="ignore"):  # the model's own fit has said it all before
        labels: NDArray[np.int64] = again.fit(part).predict(X)
    return labels


def _compared(labels: NDArray[np.int64], found: Sequence[NDArray[np.int64]], n_clusters: int) -> Stability:
    """Match the clusters of each refit to the model's own and count agreement."""
    overlaps, same = np.zeros((len(found), n_clusters)), np.zeros((len(found), len(labels)))
    present = np.bincount(labels, minlength=n_clusters) > 0
    known = np.flatnonzero(present)
    for number, other in enumerate(found):
        both = contingency_matrix(labels, other)
        union = both.sum(1, keepdims=True) + both.sum(0) - both
        overlaps[number, known] = (both / union).max(1)
        own, theirs = linear_sum_assignment(-both)
        match = dict(zip(np.unique(other)[theirs], known[own], strict=True))
        same[number] = np.array([match.get(label, -1) for label in range(n_clusters)])[other] == labels
    clusters = np.where(present, overlaps.mean(0), np.nan)
    return Stability(float(np.mean([ari(labels, other) for other in found])), clusters, same.mean(0))
