"""Cluster centres of embedded rows, by the form of k-means that suits their number."""

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from knet.arrays import Floats, Labels
from knet.start.kmeans import k_means
from knet.threads import one_blas_thread

ALL_ROWS = 50_000  # rows up to which k-means uses all of them in each iteration
MINI_BATCH = 4096  # rows that it uses in an iteration beyond that
ALL_PAIRS = 4_000_000  # pairs of a row and a centre up to which our own k-means is used: it stores all distances


def find_centers(
    Psi: Floats, n_clusters: int, rng: np.random.RandomState, n_runs: int = 10, start: Labels | None = None
) -> Floats:
    """Return the centres of k-means on embedded rows; one thread, so that sums repeat to the bit.

    With a partition to `start` from, one more run begins at the means of its groups: random starts seldom find all of
    many clusters.
    """
    with one_blas_thread(), warnings.catch_warnings():
        if len(Psi) <= ALL_ROWS and len(Psi) * n_clusters <= ALL_PAIRS:
            return k_means(Psi, n_clusters, n_runs, rng, start).centers
        from sklearn.exceptions import ConvergenceWarning

        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters: `fit` has warned
        kind = large_k_means(len(Psi))
        runs = [kind(n_clusters, n_init=n_runs, random_state=rng)] if n_runs else []
        if start is not None and len(np.unique(start)) == n_clusters:
            means = np.stack([Psi[start == group].mean(0) for group in range(n_clusters)])
            runs.append(kind(n_clusters, init=means, n_init=1, random_state=rng))
        found = min([run.fit(Psi) for run in runs], key=lambda run: float(run.inertia_))
    centers: Floats = found.cluster_centers_
    return centers


def recluster(Psi: Floats, centers: Floats, rng: np.random.RandomState) -> Labels:
    """Return k-means clusters of embedded rows, numbered like the nearest of the given centres, one to one."""
    if len(Psi) < len(centers):
        raise ValueError(f"{len(Psi)} rows are too few to recluster into n_clusters={len(centers)} groups.")
    moved = find_centers(Psi, len(centers), rng)
    numbers = linear_sum_assignment(cdist(moved, centers, "sqeuclidean"))[1]
    labels: Labels = numbers[cdist(Psi, moved).argmin(1)]
    return labels


def large_k_means(n_rows: int) -> Callable[..., Any]:
    """Return scikit-learn's k-means for many rows or groups, which does not store the distances of all pairs."""
    from sklearn.cluster import KMeans, MiniBatchKMeans  # slow, and seldom needed

    return KMeans if n_rows <= ALL_ROWS else partial(MiniBatchKMeans, batch_size=MINI_BATCH)
