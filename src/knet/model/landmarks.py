"""Landmarks: a summary of many rows by the means of small groups."""

import numpy as np
from scipy.spatial.distance import cdist

from knet.arrays import Floats
from knet.start.kmeans import refine
from knet.threads import one_blas_thread

MAX_LANDMARKS = 256  # many rows are summarised by at most so many means
ROWS_PER_LANDMARK = 4  # a landmark stands for at least so many different rows on average
SAMPLE_ROWS = 4000  # the means are found on at most this many rows
ROUNDS = 8  # the rows that the means start from are drawn in so many rounds
MAX_ITER = 8  # iterations of k-means: a summary need not be the best one


def landmarks(X: Floats, rng: np.random.RandomState) -> tuple[Floats, Floats]:
    """Return centres of small groups of rows, and how many rows each stands for."""
    sample = X if len(X) <= SAMPLE_ROWS else X[np.sort(rng.permutation(len(X))[:SAMPLE_ROWS])]
    n_groups = max(1, min(MAX_LANDMARKS, len(np.unique(sample, axis=0)) // ROWS_PER_LANDMARK))
    with one_blas_thread():
        centers, labels = refine(sample, _spread(sample, n_groups, rng), MAX_ITER)
    counts = np.bincount(labels, minlength=n_groups)
    centers, counts = centers[counts > 0], counts[counts > 0]
    large = counts > 1  # the centre of a single row would be that row: it joins the nearest group
    joins = cdist(centers[~large], centers[large]).argmin(1)
    sums = centers[large] * counts[large, None]
    np.add.at(sums, joins, centers[~large])
    totals = counts[large] + np.bincount(joins, minlength=len(sums))
    return sums / totals[:, None], totals * (len(X) / len(sample))


def _spread(X: Floats, n_rows: int, rng: np.random.RandomState) -> Floats:
    """Return rows that cover X: a row is the likelier drawn, the farther it is from those of earlier rounds."""
    weights, chosen = np.ones(len(X)), X[:0]
    for part in np.array_split(np.arange(n_rows), min(ROUNDS, n_rows)):
        drawn = X[rng.choice(len(X), len(part), replace=False, p=weights / weights.sum())]
        D2 = cdist(X, drawn, "sqeuclidean").min(1)
        weights = np.minimum(weights, D2) if len(chosen) else D2
        chosen = np.concatenate([chosen, drawn])
    return chosen
