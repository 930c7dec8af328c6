"""k-means for tables of a few thousand rows, with all its runs computed together.

A fit clusters dozens of small tables. On these, the checks and threads of scikit-learn take several times as long as
the arithmetic, which is the same here: greedy k-means++ starts, and Lloyd's iterations until the centres converge.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_matrix

from knet.arrays import Floats, Labels

MAX_ITER = 300  # iterations of a run, at most
RACE = 5  # iterations after which the worse half of the runs ends
TOL = 1e-4  # squared movement of the centres in an iteration, as a share of the mean variance of a column
RUN_BYTES = 64 * 2**20  # runs are computed together as far as their distances fit into this many bytes


@dataclass(frozen=True)
class Clusters:
    """The best of several runs: its centres, (c, d), the nearest of them to each row, and the mean squared distance."""

    centers: Floats
    labels: Labels
    error: float


def k_means(
    X: Floats, n_clusters: int, n_runs: int, rng: np.random.RandomState, start: Labels | None = None
) -> Clusters:
    """Return the best of `n_runs` runs, and of one more from the means of the groups of a partition to `start` from."""
    shift = X.mean(0)
    rows = X - shift  # data far from zero would lose digits
    centers = seeds(rows, n_clusters, n_runs, rng)
    if start is not None and len(counts := np.bincount(start)) == n_clusters and counts.all():
        means = np.eye(n_clusters, dtype=rows.dtype)[start].T @ rows / counts[:, None].astype(rows.dtype)
        centers = np.concatenate([centers, means[None]])
    n_together = max(1, RUN_BYTES // (n_clusters * len(rows) * rows.itemsize))
    groups = [centers[i : i + n_together] for i in range(0, len(centers), n_together)]
    best = min((_best_run(rows, group) for group in groups), key=lambda run: run.error)
    return Clusters(best.centers + shift, best.labels, best.error)


def refine(X: Floats, centers: Floats, max_iter: int) -> tuple[Floats, Labels]:
    """Return centres, (c, d), after some iterations from given ones, with the rows nearest to each as its group."""
    for _ in range(max_iter):
        labels = _offsets(X, centers[None]).argmin(2)
        centers = _means(X, labels, centers[None])[0]
    return centers, labels[0]


def seeds(X: Floats, n_clusters: int, n_runs: int, rng: np.random.RandomState, n_draws: int | None = None) -> Floats:
    """Return rows of X to start from, (runs, c, d): k-means++, with the best of several draws of each row (greedy)."""
    n_draws, every = n_draws or 2 + int(np.log(n_clusters)), np.arange(n_runs)
    squares, doubled = np.square(X).sum(1), -2 * X.T

    def squared_distances(chosen: NDArray[np.intp]) -> Floats:
        D2: Floats = X[chosen] @ doubled
        D2 += squares[chosen][..., None]
        D2 += squares
        return np.maximum(D2, 0, out=D2)

    chosen = np.empty((n_runs, n_clusters), dtype=np.intp)
    chosen[:, 0] = rng.randint(len(X), size=n_runs)
    nearest = squared_distances(chosen[:, 0])
    for k in range(1, n_clusters):
        sums = nearest.cumsum(1)
        aims = rng.uniform(size=(n_runs, n_draws)) * sums[:, -1:]
        drawn = np.minimum((sums[:, None] < aims[..., None]).sum(2), len(X) - 1)
        left = squared_distances(drawn)
        np.minimum(left, nearest[:, None], out=left)
        best = left.sum(2).argmin(1)
        chosen[:, k], nearest = drawn[every, best], left[every, best]
    return X[chosen]


def _best_run(X: Floats, centers: Floats) -> Clusters:
    """Move the centres of all runs until they converge, and return the run with the smallest error.

    The worse half of the runs ends every few iterations: a run that is behind then seldom wins.
    """
    tol, labels = TOL * X.var(0).mean(), None
    for iteration in range(1, MAX_ITER + 1):
        offsets = _offsets(X, centers)
        before, labels = labels, offsets.argmin(2)
        if before is not None and np.array_equal(before, labels):
            break
        if iteration % RACE == 0 and len(centers) > 1:
            errors = np.take_along_axis(offsets, labels[..., None], 2).sum((1, 2))
            ahead = np.sort(np.argsort(errors, kind="stable")[: (len(errors) + 1) // 2])
            centers, labels = centers[ahead], labels[ahead]
        old, centers = centers, _means(X, labels, centers)
        if np.square(centers - old).sum((1, 2)).max() <= tol:
            break
    offsets = _offsets(X, centers)
    errors = offsets.min(2).mean(1)
    best = int(errors.argmin())
    return Clusters(centers[best], offsets[best].argmin(1), float(errors[best] + np.square(X).sum(1).mean()))


def _offsets(X: Floats, centers: Floats) -> Floats:
    """Return ||x - center||^2 - ||x||^2, (runs, n, c)."""
    offsets: Floats = X @ (-2 * centers.transpose(0, 2, 1))
    offsets += np.square(centers).sum(2)[:, None]
    return offsets


def _means(X: Floats, labels: Labels, centers: Floats) -> Floats:
    """Return the means of the groups of every run, (runs, c, d); empty groups restart at the farthest rows."""
    n_runs, n_clusters, _ = centers.shape
    group = labels + n_clusters * np.arange(n_runs)[:, None]  # of all runs together
    counts = np.bincount(group.ravel(), minlength=n_runs * n_clusters).reshape(n_runs, n_clusters)
    ones, ends = np.ones(group.size, dtype=X.dtype), np.arange(0, group.size + 1, n_runs)
    members = csc_matrix((ones, group.T.ravel(), ends), shape=(n_runs * n_clusters, len(X)))
    means: Floats = (members @ X).reshape(centers.shape) / np.maximum(counts, 1)[..., None].astype(X.dtype)
    for run in np.flatnonzero((counts == 0).any(1)):
        empty = np.flatnonzero(counts[run] == 0)
        misplaced = np.square(X - centers[run][labels[run]]).sum(1)
        means[run, empty] = X[np.argsort(-misplaced, kind="stable")[: len(empty)]]
    return means
