"""Training psi to follow a partition, by squared distances to one target per group, before Algorithm 1 runs from there.

A regression on hidden units that bend where the partition changes comes first; gradient steps follow if a vote of
neighbours is better. The gradient of HSIC cannot separate rows that are near each other if the pairs that would move
them are farther away than the width of the kernel. The squared distance to a target has a gradient everywhere.

psi has to label new rows. So a fifth of the rows is held out. How many of these get their own group decides what the
target of a row is, that of its group or an average over its neighbours, and how long psi is trained.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import pdist, squareform

from knet.arrays import Floats, Labels, squared_distances
from knet.start.neighbors import Indices, most_frequent, neighbor_shares
from knet.train.adam import Adam
from knet.train.networks import Encoder, ResidualMLP
from knet.train.pretrain import batches

STAGES = (100, 200, 400, 800, 1600)  # gradient steps; training ends before the first stage that gains nothing
RIDGES = (0.1, 0.01)  # of the regression, as shares of the mean square of a feature
SOLVED_ROWS = 4000  # rows of the regression, at most: more than ten for each of its unknowns
MOST_WRONG = 0.02  # share of the held-out rows of a group, on average, that may be wrong beyond those of a vote
N_CHOICES = 2  # after this many stages, the better kind of target is settled
BATCH_ROWS = 64  # rows of a gradient step
OWN_BATCH_ROWS = 128  # the same for an own network, which may be small and need steadier gradients
LEARNING_RATE = 1e-2  # at the beginning of a stage; it falls to 0 along a cosine
WEIGHT_DECAY = 0.1  # share of the learning rate by which a step shrinks the weights of the default network
MOST_LEFT = 0.5  # a stage also gains if it leaves at most this much of the squared distance of held-out rows
ENOUGH = 0.002  # the same share where longer training would hardly change a label
HELD_OUT = 5  # one of so many rows of each group is held out
MEASURED_ROWS = 200  # trained rows of a group, at most, whose mean is compared with held-out rows
MAX_TURNS = 10  # targets are assigned to groups and rotated towards them at most this many times
REPULSION_STEPS, REPULSION_POWER = 200, 6  # points on a sphere repel each other with a force of 1 / distance^7

Wrong = NDArray[np.bool_]  # for the held-out rows, or for all, whether each gets another group than its own


def follow(
    encoder: Encoder, X: Floats, labels: Labels, near: Indices, side: float, rng: np.random.RandomState
) -> "Followed":
    """Return an encoder that was trained, from the given one, until the rows of X are near the targets of their groups.

    Parameters
    ----------
    encoder : ResidualMLP or OwnEncoder
        The encoder.
    X : ndarray of shape (n, d)
        The rows whose partition is known.
    labels : ndarray of shape (n,)
        Their groups, 0 to c-1, none of them empty.
    near : ndarray of shape (n, k)
        The nearest rows of each row.
    side : float
        Distance between the targets of two groups.
    rng : RandomState
        Source of the batches, and of the rows that are held out.
    """
    split = Split.draw(encoder, X, labels, side, rng)
    averaged = neighbor_shares(labels, near)
    possible = [averaged]
    if (averaged.argmax(1) != labels).any():  # otherwise neighbours only say which rows are near a border
        possible.append(np.eye(averaged.shape[1])[labels])
    best = _longest_that_gains(split, encoder, possible, most_frequent(labels[near]) != labels)
    return Followed(best.encoder, best.shares, best.wrong, split)


def _longest_that_gains(split: "Split", encoder: Encoder, possible: Sequence[Floats], outvoted: Wrong) -> "Attempt":
    """Return the solution by regression if it is good enough, or the network after the last stage that gains.

    It is good enough if it gets hardly more rows wrong than a vote of their neighbours: rows that neighbours get wrong
    are at a border of the partition, which no network has to follow. Of the held-out rows, which are fewer, one
    standard error more may be wrong. If a weaker penalty is better by more than a standard error, psi has to bend more.
    If neighbours get no row wrong, there is no noise to fit, and the weaker penalty is taken. Stages end if they are
    better than the vote by a standard error. The better solution is returned after all if they are worse.
    """
    voted, share_outvoted = outvoted[split.held_out], split.share(outvoted)
    ridges = RIDGES[1:] if share_outvoted <= ENOUGH else RIDGES
    solutions = [preferred(attempts) for attempts in split.solve(encoder, possible, ridges)]
    has_to_bend = gain(solutions[0].wrong, solutions[-1].wrong) > 1  # one row more or fewer says nothing
    solved = solutions[-1] if has_to_bend else solutions[0]
    most = MOST_WRONG if gain(solved.wrong, voted) <= 1 else ENOUGH
    is_close = solved.share_wrong - split.share(voted) <= most and not has_to_bend
    if is_close and split.share(split.everywhere(solved.encoder)) - share_outvoted <= ENOUGH:
        return solved
    attempts = [split.train(encoder, shares, STAGES[0]) for shares in possible]  # from the solution it would be longer
    best = preferred(attempts)
    for stage, n_steps in enumerate(STAGES[1:], start=2):
        if best.share_wrong <= ENOUGH or gain(voted, best.wrong) >= 1:
            break
        kinds = attempts if stage <= N_CHOICES else [best]
        longer = preferred([split.train(kind.encoder, kind.shares, n_steps) for kind in kinds])
        if gain(best.wrong, longer.wrong) < 1 and longer.error > MOST_LEFT * best.error:
            break
        best = longer
    return best if gain(solved.wrong, best.wrong) >= 0 else solved


@dataclass(frozen=True)
class Attempt:
    """An encoder that was trained on averages over the groups, with the given shares, and what it gets wrong."""

    encoder: Encoder
    shares: Floats
    wrong: Wrong
    share_wrong: float  # of the held-out rows of a group, averaged over groups, so that small groups are not lost
    error: float  # mean squared distance of held-out rows to their targets


def preferred(attempts: Sequence[Attempt]) -> Attempt:
    """Return the first attempt, on averaged targets, unless the last one is better by a standard error or equal.

    Averages correct rows at borders; but where psi finds the groups better than neighbours do, they blur them.
    """
    averaged, exact = attempts[0], attempts[-1]
    is_equal = np.array_equal(averaged.wrong, exact.wrong)
    return exact if is_equal or gain(averaged.wrong, exact.wrong) >= 1 else averaged


def gain(before: Wrong, after: Wrong) -> float:
    """Return how many fewer rows are wrong after than before, in standard errors of that number (McNemar's test)."""
    return (int(before.sum()) - int(after.sum())) / math.sqrt(max(1, int((before != after).sum())))


@dataclass(frozen=True)
class Followed:
    """An encoder, what it followed as shares of groups in the target of each row, (n, c), and the held-out rows."""

    encoder: Encoder
    shares: Floats
    wrong: Wrong
    split: "Split"


@dataclass(frozen=True)
class Split:
    """Rows with their groups: some to train on, the others held out; and one target for each group."""

    X: Floats
    groups: Labels
    goals: Floats
    side: float
    trained: Indices
    held_out: Indices
    measured: Indices  # the held-out rows, and then some others of each group
    rng: np.random.RandomState

    @classmethod
    def draw(cls, encoder: Encoder, X: Floats, groups: Labels, side: float, rng: np.random.RandomState) -> "Split":
        """Place the targets, and hold out one of `HELD_OUT` rows of each group; none of a group with fewer rows."""
        means = group_means(encoder(X), groups).astype(np.float64)
        order = np.lexsort([rng.uniform(size=len(X)), groups])
        places = np.arange(len(X)) - np.searchsorted(groups[order], groups[order])  # within the group
        is_held = np.zeros(len(X), dtype=bool)
        is_held[order] = places % HELD_OUT == HELD_OUT - 1
        trained, held_out = np.flatnonzero(~is_held), np.flatnonzero(is_held)
        is_measured = np.zeros(len(X), dtype=bool)
        is_measured[order] = (places - places // HELD_OUT < MEASURED_ROWS) & ~is_held[order]
        measured = np.concatenate([held_out, np.flatnonzero(is_measured)])
        return cls(X, groups, targets(means, side), side, trained, held_out, measured, rng)

    def solve(self, encoder: Encoder, possible: Sequence[Floats], ridges: Sequence[float]) -> list[list[Attempt]]:
        """Fit copies of the default network by regression, for each ridge and kind of shares; other encoders stay."""
        goals = [self._goals(shares) for shares in possible]
        copies: list[Sequence[Encoder]] = [[encoder.copy() for _ in possible]]
        if isinstance(encoder, ResidualMLP):
            rows = self.trained[self.rng.permutation(len(self.trained))[:SOLVED_ROWS]]
            placed = encoder.copy()
            placed.place_hidden(self.X[rows], goals[-1][rows], self.rng)
            copies = [placed.regressed(self.X[rows], [G[rows] for G in goals], ridge) for ridge in ridges]
        return [[self._attempt(*each) for each in zip(fitted, possible, goals, strict=True)] for fitted in copies]

    def train(self, encoder: Encoder, shares: Floats, n_steps: int) -> Attempt:
        """Train a copy of an encoder by steps of Adam on the mean of ||psi(x) - target||^2 / side^2."""
        encoder, goals = encoder.copy(), self._goals(shares)
        n_rows = BATCH_ROWS if isinstance(encoder, ResidualMLP) else OWN_BATCH_ROWS
        steps = batches(len(self.trained), n_rows, n_steps, self.rng)
        optimizer = Adam(encoder.theta, LEARNING_RATE)
        for step, places in enumerate(steps):
            rows = self.trained[places]
            difference = encoder.forward(self.X[rows]) - goals[rows]
            encoder.backward(difference * (2 / (self.side**2 * len(rows))))
            optimizer.learning_rate = LEARNING_RATE * (1 + math.cos(math.pi * step / n_steps)) / 2
            if isinstance(encoder, ResidualMLP):
                encoder.theta *= 1 - WEIGHT_DECAY * optimizer.learning_rate
            optimizer.step(encoder.gradient)
            encoder.store()
        return self._attempt(encoder, shares, goals)

    def _goals(self, shares: Floats) -> Floats:
        """Return the target of every row."""
        goals: Floats = (shares @ self.goals).astype(self.X.dtype)
        return goals

    def _attempt(self, encoder: Encoder, shares: Floats, goals: Floats) -> Attempt:
        Psi, held_out = encoder(self.X[self.measured]), self.held_out
        wrong = self._is_wrong(Psi, self.measured)[: len(held_out)]
        error = float(np.square(Psi[: len(held_out)] - goals[held_out]).sum() / max(1, len(held_out)))
        return Attempt(encoder, shares, wrong, self.share(wrong), error)

    def share(self, wrong: Wrong) -> float:
        """Return the share of wrong rows of a group, averaged over groups; either of the held-out rows or of all."""
        groups = self.groups if len(wrong) == len(self.X) else self.groups[self.held_out]
        sizes, lost = np.bincount(groups), np.bincount(groups, wrong)
        return float((lost[sizes > 0] / sizes[sizes > 0]).mean()) if len(wrong) else 0.0

    def wrong(self, encoder: Encoder) -> Wrong:
        """Return for each held-out row whether the mean of another group is nearer than that of its own."""
        return self._is_wrong(encoder(self.X[self.measured]), self.measured)[: len(self.held_out)]

    def everywhere(self, encoder: Encoder) -> Wrong:
        """Return the same for all rows."""
        return self._is_wrong(encoder(self.X), np.arange(len(self.X)))

    def _is_wrong(self, Psi: Floats, rows: Indices) -> Wrong:
        """Return the same for some rows, from their embedding."""
        groups = self.groups[rows]
        wrong: Wrong = squared_distances(Psi, group_means(Psi, groups)).argmin(1) != groups
        return wrong


def group_means(Psi: Floats, groups: Labels) -> Floats:
    """Return the means of the groups of some rows, (c, d'); that of an empty group is 0."""
    members = np.eye(int(groups.max()) + 1, dtype=Psi.dtype)[groups]
    means: Floats = members.T @ Psi / np.maximum(members.sum(0), 1)[:, None]
    return means


def targets(means: Floats, side: float) -> Floats:
    """Return one point per group, the nearest two at distance `side`, rotated to be as near the means as possible."""
    center = means.mean(0)
    points, means = side * spread_points(*means.shape), means - center
    for _ in range(MAX_TURNS):
        left, _, right = np.linalg.svd(points.T @ means)
        points = points @ (left @ right)
        places = linear_sum_assignment(-means @ points.T)[1]
        points = points[places]
        if np.array_equal(places, np.arange(len(places))):
            break
    placed: Floats = points + center
    return placed


def spread_points(n_points: int, n_components: int) -> Floats:
    """Return points around the origin, the nearest two at distance 1 and the others not much farther.

    A regular simplex if there are enough dimensions, else points that repel each other on a sphere, or equal steps on a
    line.
    """
    if n_points <= n_components + 1:
        corners = np.eye(n_points) - 1 / n_points
        axes = np.linalg.svd(corners)[2][: n_points - 1]
        simplex = np.zeros((n_points, n_components))
        simplex[:, : len(axes)] = corners @ axes.T / math.sqrt(2)
        return simplex
    if n_components == 1:
        return np.arange(n_points)[:, None] - (n_points - 1) / 2
    sphere = _repelled(np.random.default_rng(0).normal(size=(n_points, n_components)))
    scaled: Floats = sphere / pdist(sphere).min()
    return scaled


def _repelled(points: Floats) -> Floats:
    """Return points of the unit sphere after each has moved away from the others."""
    points = points / np.linalg.norm(points, axis=1, keepdims=True)
    for step in range(REPULSION_STEPS):
        distances = squareform(np.maximum(pdist(points), 1e-12))
        np.fill_diagonal(distances, np.inf)
        nearest = distances.min(1).mean()
        pushes = (nearest / distances) ** REPULSION_POWER / distances
        force = pushes.sum(1, keepdims=True) * points - pushes @ points
        force /= np.linalg.norm(force, axis=1, keepdims=True) + np.finfo(float).tiny
        points = points + 0.3 * nearest * (1 - step / REPULSION_STEPS) * force
        points /= np.linalg.norm(points, axis=1, keepdims=True)
    return points
