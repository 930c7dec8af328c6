"""How reliable the labels of a fit are, learned from its training rows without any known label.

The candidates for the start have voted on the rows (`knet.start.votes`). The share of them that agree with the label of
a row, averaged over its nearest rows, is the expected share of right labels there. The memberships of the model are
made to reproduce it [PROBA].

Familiarity is a kernel density in the scaled data, not in the embedding: training moves every training row, also an
unusual one, to the centre of its cluster [FAMILIAR].
"""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from knet.arrays import Floats, Labels, log_sum_exp, squared_distances
from knet.model.certainty import LOG_RANGE, N_QUANTILES, Certainty
from knet.model.landmarks import landmarks
from knet.start.neighbors import Indices, Neighbors, neighbors
from knet.start.votes import Votes, match_groups
from knet.threads import one_blas_thread

SAMPLE_ROWS = 2000  # certainty is learned from at most this many training rows
HINGES = 64  # log beta is piecewise linear, with so many bends
NEAREST = 10  # rows over which votes are averaged; the kernel in the data is as wide as the distance to the last one
NEW_RANGE = (-3.0, 3.0)  # how far rows that are as good as new change log beta: few of them may all be right
PRECISION = 1e-3  # of a level of log beta
MAX_ITER = 60  # iterations of the optimiser, at most
SOLVED = 1e-5  # relative gain in an iteration that ends it: about 0.01 in the log-likelihood of all rows
CONSTANT = 0.25  # column of the constant, near the deviation of the hinges: the optimiser needs a third fewer steps


def learn_certainty(
    Z: Floats, labels: Labels, gaps: Floats, votes: Votes | None, held_out: Indices | None, rng: np.random.RandomState
) -> Certainty:
    """Learn the certainty of a model from its training rows: scaled, (n, d), with their labels.

    `gaps`, (n, c), say how much farther than its own centre each centre is from a row, in the unit of [PROBA]. `votes`
    are those of the candidates for the start; without them, only the nearest rows of a row can disagree with it.
    `held_out` are positions of rows that psi was not trained on: like new rows, they are farther from their centre than
    others.
    """
    sample = rng.permutation(len(Z))[:SAMPLE_ROWS] if votes is None else votes.rows
    Z, labels, gaps = Z[sample].astype(np.float64), labels[sample], gaps[sample].astype(np.float64)
    with one_blas_thread():
        directions, offsets = _hinges(Z, rng)
        near = neighbors(Z, NEAREST) if votes is None or votes.near is None else votes.near.first(NEAREST)
        shares = np.eye(gaps.shape[1])[labels] if votes is None else votes.shares
        right = expected_shares_right(shares, labels, near)
        is_new = np.zeros(len(Z), dtype=bool) if held_out is None else np.isin(sample, held_out)
        slopes, level, low, high = _fit_sharpness(np.maximum(Z @ directions - offsets, 0), gaps, right, is_new)
        places, counts = landmarks(Z, rng)
        width = _kernel_width(near)
        scores = _scores_without_own_row(Z, places, counts, width)
    return Certainty(
        hinge_directions=directions,
        hinge_offsets=offsets,
        hinge_slopes=slopes,
        hinge_range=np.array([level, low, high]),
        places=places,
        place_weights=counts,
        place_width=np.array([width]),
        score_quantiles=np.quantile(scores, np.linspace(0, 1, N_QUANTILES)),
    )


def expected_shares_right(shares: Floats, labels: Labels, near: Neighbors) -> Floats:
    """Return for every row the expected share of right labels around it, at least 1 / c, from the votes (n, c)."""
    P = match_groups(shares, labels, shares.shape[1])
    around = (P + P[near.indices].mean(1)) / 2
    expected: Floats = np.maximum(around[np.arange(len(P)), labels], 1 / P.shape[1])
    return expected


def _hinges(Z: Floats, rng: np.random.RandomState) -> tuple[Floats, Floats]:
    """Return random directions, (d, u), and offsets, (u,): a hinge bends at a random row."""
    directions = rng.standard_normal((Z.shape[1], HINGES))
    directions /= np.linalg.norm(directions, axis=0)
    offsets: Floats = (Z[rng.randint(len(Z), size=HINGES)].T * directions).sum(0)
    return directions, offsets


def _fit_sharpness(
    hinges: Floats, gaps: Floats, right: Floats, is_new: NDArray[np.bool_]
) -> tuple[Floats, float, float, float]:
    """Return the slopes, the constant and the range of log beta at which the largest membership predicts `right`.

    The cross-entropy is minimised. A Gaussian prior keeps the deviation of log beta from its mean near 1. Then the
    constant is set so that the mean is right on the rows that are as good as new, if there are any.
    """
    mean, deviation = hinges.mean(0), hinges.std(0)
    unit = np.where(deviation > 0, deviation, np.inf) * np.sqrt(HINGES)
    F = np.column_stack([(hinges - mean) / unit, np.full(len(gaps), CONSTANT)])
    prior = np.append(np.ones(HINGES), 0.0)

    def loss(slopes: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        exponents = -gaps * np.exp(np.clip(F @ slopes, *LOG_RANGE))[:, None]
        E = np.exp(exponents)
        p = np.clip(1 / E.sum(1), 1e-9, 1 - 1e-9)
        by_log_beta = (p - right) / (p * (1 - p)) * -np.square(p) * (E * exponents).sum(1)
        value = -(right * np.log(p) + (1 - right) * np.log(1 - p)).sum() + (prior * np.square(slopes)).sum() / 2
        return float(value), F.T @ by_log_beta + prior * slopes

    start = np.append(np.zeros(HINGES), _level(gaps, right, np.zeros(len(gaps)), LOG_RANGE) / CONSTANT)
    found = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": MAX_ITER, "ftol": SOLVED}).x
    logs, slopes = F @ found, found[:-1] / unit
    shift = _level(gaps[is_new], right[is_new], logs[is_new], NEW_RANGE) if is_new.any() else 0.0
    level = float(found[-1] * CONSTANT - mean @ slopes)
    return slopes, level + shift, float(logs.min()) + shift, float(logs.max()) + shift


def _level(gaps: Floats, right: Floats, logs: Floats, bounds: tuple[float, float]) -> float:
    """Return what to add to log beta so that the mean of the largest memberships is that of `right`, by bisection."""
    (low, high), wanted = bounds, right.mean()
    while high - low > PRECISION:
        middle = (low + high) / 2
        beta = np.exp(np.clip(logs + middle, *LOG_RANGE))
        mean = float((1 / np.exp(-gaps * beta[:, None]).sum(1)).mean())
        low, high = (middle, high) if mean < wanted else (low, middle)
    return (low + high) / 2


def _kernel_width(near: Neighbors) -> float:
    """Return the median distance to the tenth nearest row; if it is 0, that of the rows where it is not."""
    distances = near.distances[:, -1]
    positive = distances[distances > 0]
    return float(np.median(distances)) or (float(np.median(positive)) if len(positive) else 1.0)


def _scores_without_own_row(Z: Floats, places: Floats, counts: Floats, width: float) -> Floats:
    """Return the familiarity of training rows, as it would be if each row were new.

    A row is taken out of its nearest group: the group has one row less, and its mean moves away from the row.
    """
    terms = squared_distances(Z, places)
    rows, own = np.arange(len(Z)), terms.argmin(1)
    left = np.maximum(counts[own] - 1, 0.5)
    terms[rows, own] *= np.square(counts[own] / left)
    terms /= -2 * width**2
    terms += np.log(counts / len(Z))
    terms[rows, own] += np.log(left / counts[own])
    return log_sum_exp(terms)
