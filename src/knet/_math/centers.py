"""Cluster centres of embedded rows, by k-means of a form that suits their number."""

import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning

from knet._math.kmeans import Labels, k_means
from knet._math.threads import one_blas_thread
from knet.predictor import Floats

ALL_ROWS = 50_000  # up to here k-means looks at all rows in each iteration


ALL_PAIRS = 4_000_000  # and up to this many pairs of a row and a centre it is ours, which keeps all their distances


MINI_BATCH = 4096  # rows it looks at in an iteration beyond


def find_centers(
    Psi: Floats, n_clusters: int, rng: np.random.RandomState, n_runs: int = 10, start: Labels | None = None
) -> Floats:
    """Return the centres of k-means on embedded rows; one thread, so that sums repeat to the bit.

    With a partition to `start` from, one more run begins at the means of its groups: random beginnings seldom find all
    of many clusters.
    """
    with one_blas_thread(), warnings.catch_warnings():
        if len(Psi) <= ALL_ROWS and len(Psi) * n_clusters <= ALL_PAIRS:
            return k_means(Psi, n_clusters, n_runs, rng, start).centers
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters: warned of before
        kind = _large_k_means(len(Psi))
        found = kind(n_clusters, n_init=n_runs, random_state=rng).fit(Psi)
        if start is not None and len(np.unique(start)) == n_clusters:
            means = np.stack([Psi[start == group].mean(0) for group in range(n_clusters)])
            found = min(found, kind(n_clusters, init=means, n_init=1).fit(Psi), key=lambda one: float(one.inertia_))
    centers: Floats = found.cluster_centers_
    return centers


def _large_k_means(n_rows: int) -> Callable[..., KMeans | MiniBatchKMeans]:
    """Return scikit-learn's k-means for many rows or groups, which keeps no distances of all pairs."""
    return KMeans if n_rows <= ALL_ROWS else partial(MiniBatchKMeans, batch_size=MINI_BATCH)
