"""Landmarks: a summary of many rows by the means of small groups."""

import numpy as np
from scipy.spatial.distance import cdist

from knet.arrays import Floats
from knet.start.kmeans import refine, seeds
from knet.threads import one_blas_thread

MAX_LANDMARKS = 256  # many rows are summarised by at most so many means
ROWS_PER_LANDMARK = 4  # a landmark stands for at least so many different rows on average
SAMPLE_ROWS = 4000  # the means are found on at most this many rows
MAX_ITER = 8  # iterations of k-means: a summary need not be the best one


def landmarks(X: Floats, rng: np.random.RandomState) -> tuple[Floats, Floats]:
    """Return centres of small groups of rows, and how many rows each stands for."""
    sample = X if len(X) <= SAMPLE_ROWS else X[np.sort(rng.permutation(len(X))[:SAMPLE_ROWS])]
    n_groups = max(1, min(MAX_LANDMARKS, len(np.unique(sample, axis=0)) // ROWS_PER_LANDMARK))
    with one_blas_thread():
        centers, labels = refine(sample, seeds(sample, n_groups, 1, rng, n_draws=1)[0], MAX_ITER)
    counts = np.bincount(labels, minlength=n_groups)
    centers, counts = centers[counts > 0], counts[counts > 0]
    large = counts > 1  # the centre of a single row would be that row: it joins the nearest group
    joins = cdist(centers[~large], centers[large]).argmin(1)
    sums = centers[large] * counts[large, None]
    np.add.at(sums, joins, centers[~large])
    totals = counts[large] + np.bincount(joins, minlength=len(sums))
    return sums / totals[:, None], totals * (len(X) / len(sample))
