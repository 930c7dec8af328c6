"""How reliable the labels of a fit are, learned from its training rows without any known label.

A mixture of Gaussians is started from the clusters, each of them made of several Gaussians if it is not round, and
expectation maximisation lets the Gaussians of different clusters overlap, as the rows suggest. The probability of a
row's own cluster, averaged over its nearest rows, is the expected share of right labels there. The memberships of the
model are made to reproduce it [PROBA].

Familiarity is a kernel density in the scaled data, not in the embedding: training moves every training row, also an
unusual one, to the centre of its cluster [FAMILIAR].
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import logsumexp

from knet.arrays import Floats, Labels, squared_distances
from knet.model.certainty import LOG_RANGE, N_QUANTILES, Certainty
from knet.model.landmarks import landmarks
from knet.start.columns import comparable_columns
from knet.start.kmeans import k_means
from knet.start.mixtures import gaussian_mixture
from knet.start.neighbors import neighbors
from knet.threads import one_blas_thread

SAMPLE_ROWS = 2000  # certainty is learned from at most this many training rows
GAUSSIANS = (1, 2, 4, 8)  # Gaussians per cluster; a number is tried if it is at most four times the best one so far
ROWS_PER_PARAMETER = 4  # rows of a part of a cluster per column: fewer tell little about its covariance
HINGES = 64  # log beta is piecewise linear, with so many bends
WIDTH_NEIGHBORS = 10  # the width of the kernel in the data is the median distance to this neighbour
MAX_ITER = 60  # iterations of the optimiser, at most


def learn_certainty(Z: Floats, labels: Labels, gaps: Floats, rng: np.random.RandomState) -> Certainty:
    """Learn the certainty of a model from its training rows.

    Parameters
    ----------
    Z : ndarray of shape (n, d)
        The scaled rows.
    labels : ndarray of shape (n,)
        Their clusters.
    gaps : ndarray of shape (n, c)
        How much farther than its own centre each centre is from a row, in the unit of [PROBA].
    rng : RandomState
        Source of the sample and of the hinges.
    """
    sample = rng.permutation(len(Z))[:SAMPLE_ROWS]
    Z, labels, gaps = Z[sample].astype(np.float64), labels[sample], gaps[sample].astype(np.float64)
    with one_blas_thread():
        directions, offsets = _hinges(Z, rng)
        right = expected_shares_right(Z, labels, gaps.shape[1], rng)
        slopes, level, low, high = _fit_sharpness(np.maximum(Z @ directions - offsets, 0), gaps, right)
        places, counts = landmarks(Z, rng)
        width = _kernel_width(Z)
        scores = _scores_without_own_row(Z, places, counts, width)
    return Certainty(
        hinge_directions=directions,
        hinge_offsets=offsets,
        hinge_slopes=slopes,
        hinge_range=np.array([level, low, high]),
        places=places,
        place_weights=counts.astype(np.float64),
        place_width=np.array([width]),
        score_quantiles=np.quantile(scores, np.linspace(0, 1, N_QUANTILES)),
    )


def expected_shares_right(Z: Floats, labels: Labels, n_clusters: int, rng: np.random.RandomState) -> Floats:
    """Return for every row the expected share of right labels around it, at least 1 / c."""
    groups = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    n_groups = int(groups.max()) + 1
    if n_groups == 1:
        return np.ones(len(Z))
    X = comparable_columns(Z, rng)
    P = _overlapping_clusters(X, groups, rng)
    near = neighbors(X, max(1, round(np.sqrt(len(X) / n_groups)))).indices
    around: Floats = (P + P[near].mean(1)) / 2
    shares: Floats = np.maximum(around[np.arange(len(X)), groups], 1 / n_clusters)
    return shares


def _overlapping_clusters(X: Floats, labels: Labels, rng: np.random.RandomState) -> Floats:
    """Return the probability of every cluster for every row, by the mixture with the largest BIC, (n, c)."""
    (n, d), n_clusters = X.shape, int(labels.max()) + 1
    best, n_best, P = -np.inf, 1, np.eye(n_clusters)[labels]
    for n_parts in GAUSSIANS:
        too_few_rows = n_parts * n_clusters * ROWS_PER_PARAMETER * (d + 1) > n
        if n_parts > 1 and (too_few_rows or 4 * n_best < n_parts):
            break
        start, owners = _parts(X, labels, n_parts, rng)
        found = [_mixture(X, start, len(owners), tied=tied) for tied in (False, True)]
        criterion, members = max(found, key=lambda pair: pair[0])
        if criterion > best:
            best, n_best, P = criterion, n_parts, members @ np.eye(n_clusters)[owners]
    return P


def _parts(X: Floats, labels: Labels, n_parts: int, rng: np.random.RandomState) -> tuple[Labels, Labels]:
    """Cut every cluster into parts by k-means; return the part of each row, and the cluster of each part.

    Clusters with fewer rows get fewer parts, so that a part has more rows than there are columns.
    """
    start = np.zeros_like(labels)
    owners: list[int] = []
    for cluster in range(int(labels.max()) + 1):
        rows = np.flatnonzero(labels == cluster)
        count = max(1, min(n_parts, len(rows) // (X.shape[1] + 1)))
        start[rows] = len(owners) + (k_means(X[rows], count, 3, rng).labels if count > 1 else 0)
        owners += [cluster] * count
    return start, np.array(owners)


def _mixture(X: Floats, start: Labels, n_parts: int, *, tied: bool) -> tuple[float, Floats]:
    """Return the BIC of a mixture (the larger, the better), and the probability of each part for every row."""
    n, d = X.shape
    log_joint = gaussian_mixture(X, start, n_parts, tied=tied).log_joint(X)
    log_density = logsumexp(log_joint, axis=1)
    n_parameters = n_parts - 1 + n_parts * d + (1 if tied else n_parts) * d * (d + 1) / 2
    members: Floats = np.exp(log_joint - log_density[:, None])
    return float(log_density.sum()) - n_parameters * np.log(n) / 2, members


def _hinges(Z: Floats, rng: np.random.RandomState) -> tuple[Floats, Floats]:
    """Return random directions, (d, u), and offsets, (u,): a hinge bends at a random row."""
    directions = rng.standard_normal((Z.shape[1], HINGES))
    directions /= np.linalg.norm(directions, axis=0)
    offsets: Floats = (Z[rng.randint(len(Z), size=HINGES)].T * directions).sum(0)
    return directions, offsets


def _fit_sharpness(hinges: Floats, gaps: Floats, right: Floats) -> tuple[Floats, float, float, float]:
    """Return the slopes, the constant and the range of log beta at which the largest membership predicts `right`.

    The cross-entropy is minimised. A Gaussian prior keeps the deviation of log beta from its mean near 1.
    """
    mean, deviation = hinges.mean(0), hinges.std(0)
    unit = np.where(deviation > 0, deviation, np.inf) * np.sqrt(HINGES)
    F = (hinges - mean) / unit
    start = _mean_level(gaps, right)

    def loss(parameters: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        slopes, level = parameters[:-1], parameters[-1]
        exponents = -gaps * np.exp(np.clip(F @ slopes + level, *LOG_RANGE))[:, None]
        E = np.exp(exponents)
        p = np.clip(1 / E.sum(1), 1e-9, 1 - 1e-9)
        by_log_beta = (p - right) / (p * (1 - p)) * -np.square(p) * (E * exponents).sum(1)
        value = -(right * np.log(p) + (1 - right) * np.log(1 - p)).sum() + np.square(slopes).sum() / 2
        return float(value), np.append(F.T @ by_log_beta + slopes, by_log_beta.sum())

    found = minimize(
        loss, np.append(np.zeros(HINGES), start), jac=True, method="L-BFGS-B", options={"maxiter": MAX_ITER}
    )
    logs = F @ found.x[:-1] + found.x[-1]
    slopes = found.x[:-1] / unit
    return slopes, float(found.x[-1] - mean @ slopes), float(logs.min()), float(logs.max())


def _mean_level(gaps: Floats, right: Floats) -> float:
    """Return the constant log beta at which the mean of the largest memberships is that of `right`, by bisection."""
    low, high = LOG_RANGE
    for _ in range(40):
        middle = (low + high) / 2
        mean = float((1 / np.exp(-gaps * np.exp(middle)).sum(1)).mean())
        low, high = (middle, high) if mean < right.mean() else (low, middle)
    return (low + high) / 2


def _kernel_width(Z: Floats) -> float:
    """Return the median distance to the tenth nearest row; if it is 0, that of the rows where it is not."""
    distances = neighbors(Z, WIDTH_NEIGHBORS).distances[:, -1]
    positive = distances[distances > 0]
    return float(np.median(distances)) or (float(np.median(positive)) if len(positive) else 1.0)


def _scores_without_own_row(Z: Floats, places: Floats, counts: NDArray[np.int64], width: float) -> Floats:
    """Return the familiarity of training rows, as it would be if each row were new.

    A row is taken out of its nearest group: the group has one row less, and its mean moves away from the row.
    """
    D2 = squared_distances(Z, places)
    rows, own = np.arange(len(Z)), D2.argmin(1)
    left = np.maximum(counts[own] - 1, 0.5)
    weights = np.broadcast_to(counts, D2.shape).astype(np.float64)
    weights[rows, own] = left
    D2[rows, own] *= np.square(counts[own] / left)
    scores: Floats = logsumexp(np.log(weights / len(Z)) - D2 / (2 * width**2), axis=1)
    return scores
