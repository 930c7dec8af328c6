"""Landmarks: a summary of many rows by the means of small groups."""

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from knet.arrays import Floats
from knet.start.kmeans import refine
from knet.threads import one_blas_thread

MAX_LANDMARKS = 256  # many rows are summarised by at most so many means
ROWS_PER_LANDMARK = 4  # a landmark stands for at least so many different rows on average
SAMPLE_ROWS = 4000  # the means are found on at most this many rows
MAX_ITER = 4  # iterations of k-means: a summary need not be the best one
MAX_DRAWN = 64  # rows that are proposed together as starts of groups


def landmarks(X: Floats, rng: np.random.RandomState) -> tuple[Floats, Floats]:
    """Return centres of small groups of rows, and how many rows each stands for."""
    sample = X if len(X) <= SAMPLE_ROWS else X[np.sort(rng.permutation(len(X))[:SAMPLE_ROWS])]
    n_groups = max(1, min(MAX_LANDMARKS, len(np.unique(sample, axis=0)) // ROWS_PER_LANDMARK))
    with one_blas_thread():
        centers, labels = refine(sample, sample[distant_rows(sample, n_groups, rng)], MAX_ITER)
    counts = np.bincount(labels, minlength=len(centers))
    centers, counts = centers[counts > 0], counts[counts > 0]
    large = counts > 1  # the centre of a single row would be that row: it joins the nearest group
    joins = cdist(centers[~large], centers[large]).argmin(1)
    sums = centers[large] * counts[large, None]
    np.add.at(sums, joins, centers[~large])
    totals = counts[large] + np.bincount(joins, minlength=len(sums))
    return sums / totals[:, None], totals * (len(X) / len(sample))


def distant_rows(X: Floats, n_rows: int, rng: np.random.RandomState) -> list[int]:
    """Return positions of rows drawn by k-means++, fewer if the others equal one of them.

    A row is drawn in proportion to its squared distance from those drawn before. Several are proposed at a time, from
    the distances before all of them, and each is kept with the probability by which those that are kept have shortened
    its own: so the result is distributed as if they were drawn one after another, and small far groups keep one row.
    """
    squares, doubled, n_proposed = np.square(X).sum(1), -2 * X.T, 1
    chosen, nearest = list[int](), np.ones(len(X), dtype=X.dtype)
    while len(chosen) < n_rows and nearest.any():
        sums, (aims, shares) = nearest.cumsum(), rng.uniform(size=(2, n_proposed))
        proposed = np.minimum(np.searchsorted(sums, aims * sums[-1], side="right"), len(X) - 1)
        D2 = X[proposed] @ doubled
        D2 += squares[proposed][:, None]
        D2 += squares
        np.maximum(D2, 0, out=D2)
        kept = _kept(D2[:, proposed], nearest[proposed], shares)[: n_rows - len(chosen)]
        nearest = D2[kept].min(0) if not chosen else np.minimum(nearest, D2[kept].min(0))
        chosen += proposed[kept].tolist()
        n_proposed = min(MAX_DRAWN, len(chosen))
    return chosen


def _kept(between: Floats, before: Floats, shares: NDArray[np.float64]) -> list[int]:
    """Return which of the proposed rows are kept, in their order; `between` are the squared distances of all pairs."""
    kept, now, least = list[int](), before.copy(), shares * before
    for i in range(len(before)):
        if now[i] > least[i]:
            kept.append(i)
            np.minimum(now, between[i], out=now)
    return kept
