"""k-means for tables of a few thousand rows, with its runs computed together.

A fit clusters dozens of small tables. On these, the checks and threads of scikit-learn take several times as long as
the arithmetic, which is the same here: greedy k-means++ starts, and Lloyd's iterations until the centres converge.
Distances are in single precision, and groups are indicators: both are fast products of matrices.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_matrix

from knet.arrays import Floats, Labels, row_blocks

MAX_ITER = 300  # iterations of a run, at most
RACE = 5  # iterations after which the worse half of the runs ends
TOL = 1e-4  # squared movement of the centres in an iteration, as a share of the mean variance of a column
BLOCK_VALUES = 2**17  # distances that are computed at a time: they stay in a cache


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
    terms = distance_terms(X - shift)
    centers = terms[:-2].T[seeds(terms, n_clusters, n_runs, rng)]
    if start is not None and len(counts := np.bincount(start)) == n_clusters and counts.all():
        means = np.eye(n_clusters, dtype=terms.dtype)[start].T @ terms[:-2].T / counts[:, None].astype(terms.dtype)
        centers = np.concatenate([centers, means[None]])
    best = _best_run(terms, centers)
    D2 = _squared_distances(terms, best[None])[0]
    return Clusters(best.astype(X.dtype) + shift, D2.argmin(0), float(D2.min(0).mean()))


def refine(X: Floats, centers: Floats, max_iter: int) -> tuple[Floats, Labels]:
    """Return centres, (c, d), after some iterations from given ones, with the rows nearest to each as its group.

    It is meant for many small groups: their sums are a sparse product. Empty groups keep their centres.
    """
    shift = X.mean(0)
    rows, moved = (X - shift).astype(np.float32), (centers - shift).astype(np.float32)
    ones, ends = np.ones(len(X), dtype=np.float32), np.arange(len(X) + 1)
    for _ in range(max_iter):
        nearness = rows @ (2 * moved.T)
        nearness -= np.square(moved).sum(1)
        labels = nearness.argmax(1)
        members = csc_matrix((ones, labels, ends), shape=(len(moved), len(X)))
        counts = np.bincount(labels, minlength=len(moved))[:, None].astype(np.float32)
        moved = np.where(counts > 0, members @ rows / np.maximum(counts, 1), moved)
    return moved.astype(X.dtype) + shift, labels


def distance_terms(X: Floats) -> Floats:
    """Return (d + 2, n): the columns, ones and the squared lengths of the rows, in single precision.

    Squared distances are linear in them. Rows are centred: data far from zero would lose digits.
    """
    terms = np.ones((X.shape[1] + 2, len(X)), dtype=np.float32)
    terms[:-2] = X.T
    terms[-1] = np.square(X).sum(1)
    return terms


def _squared_distances(terms: Floats, centers: Floats) -> Floats:
    """Return ||x - center||^2, (runs, c, n), up to rounding errors of either sign."""
    factors = np.ones((*centers.shape[:2], len(terms)), dtype=np.float32)
    factors[..., :-2] = -2 * centers
    factors[..., -2] = np.square(centers).sum(2)
    D2: Floats = factors.reshape(-1, len(terms)) @ terms
    return D2.reshape(*centers.shape[:2], -1)


def seeds(terms: Floats, n_clusters: int, n_runs: int, rng: np.random.RandomState) -> NDArray[np.intp]:
    """Return the positions of rows to start from, (runs, c): k-means++, with the best of several draws of each."""
    n_draws, every, n = 2 + int(np.log(n_clusters)), np.arange(n_runs), terms.shape[1]
    chosen, rows = np.empty((n_runs, n_clusters), dtype=np.intp), terms[:-2].T
    chosen[:, 0] = rng.randint(n, size=n_runs)
    nearest = np.maximum(_squared_distances(terms, rows[chosen[:, :1]])[:, 0], 0)
    for k in range(1, n_clusters):
        sums = nearest.cumsum(1)
        aims = rng.uniform(size=(n_runs, n_draws)) * sums[:, -1:]
        drawn = np.stack([own.searchsorted(aim) for own, aim in zip(sums, aims, strict=True)])
        np.minimum(drawn, n - 1, out=drawn)
        left = _squared_distances(terms, rows[drawn])
        np.minimum(left, nearest[:, None], out=left)
        best = left.sum(2).argmin(1)
        chosen[:, k], nearest = drawn[every, best], np.maximum(left[every, best], 0)
    return chosen


def _best_run(terms: Floats, centers: Floats) -> Floats:
    """Move the centres of all runs, (runs, c, d), until they converge; return those of the run with the smallest error.

    The worse half of the runs ends every few iterations: a run that is behind then seldom wins.
    """
    tol, errors = TOL * terms[:-2].var(1).mean(), np.full(len(centers), np.inf)
    centers, moving, n_ahead = centers.copy(), np.arange(len(centers)), len(centers)
    for iteration in range(1, MAX_ITER + 1):
        moved, errors[moving] = _step(terms, centers[moving])
        converged = np.square(moved - centers[moving]).sum((1, 2)) <= tol
        centers[moving] = moved
        moving = moving[~converged]
        if iteration % RACE == 0:
            n_ahead = (n_ahead + 1) // 2
            moving = np.intersect1d(moving, np.argsort(errors, kind="stable")[:n_ahead])
        if len(moving) == 0:
            break
    best: Floats = centers[errors.argmin()]
    return best


def _step(terms: Floats, centers: Floats) -> tuple[Floats, Floats]:
    """Return the means of the groups of every run, (runs, c, d), and the errors of the centres that they come from.

    A row that is equally far from two centres belongs to both groups; empty groups restart at the farthest rows.
    """
    (n_runs, c, d), n = centers.shape, terms.shape[1]
    sums, least = np.zeros((n_runs, c, d + 1), dtype=np.float32), np.empty((n_runs, n), dtype=np.float32)
    for rows in row_blocks(n, n_runs * c, BLOCK_VALUES):
        D2 = _squared_distances(terms[:, rows], centers)
        np.min(D2, axis=1, out=least[:, rows])
        members = (D2 == least[:, None, rows]).astype(np.float32)
        sums += (members.reshape(n_runs * c, -1) @ terms[:-1, rows].T).reshape(sums.shape)
    counts = sums[..., -1:]
    means: Floats = sums[..., :-1] / np.maximum(counts, 1)
    for run in np.flatnonzero((counts == 0).any((1, 2))):
        empty = np.flatnonzero(counts[run] == 0)
        means[run, empty] = terms[:-2, np.argsort(-least[run], kind="stable")[: len(empty)]].T
    return means, least.sum(1)
