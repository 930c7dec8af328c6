"""Landmarks: a summary of many rows by the means of small groups."""

import warnings

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning

from knet.arrays import Floats
from knet.start.centers import large_k_means
from knet.threads import one_blas_thread

MAX_LANDMARKS = 256  # many rows are summarised by at most so many means
ROWS_PER_LANDMARK = 4  # a landmark stands for at least so many different rows on average


def landmarks(X: Floats, rng: np.random.RandomState) -> tuple[Floats, NDArray[np.int64]]:
    """Return centres of small groups of rows, and how many rows each stands for."""
    n_groups = max(1, min(MAX_LANDMARKS, len(np.unique(X, axis=0)) // ROWS_PER_LANDMARK))
    with one_blas_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # rows that differ by rounding only
        groups = large_k_means(len(X))(n_groups, n_init=1, max_iter=20, random_state=rng).fit(X)
    counts = np.bincount(groups.labels_, minlength=n_groups)
    centers, counts = groups.cluster_centers_[counts > 0], counts[counts > 0]
    large = counts > 1  # the centre of a single row would be that row: it joins the nearest group
    joins = cdist(centers[~large], centers[large]).argmin(1)
    sums = centers[large] * counts[large, None]
    np.add.at(sums, joins, centers[~large])
    totals = counts[large] + np.bincount(joins, minlength=len(sums))
    return sums / totals[:, None], totals
