"""Training psi to follow a partition, by squared distances to one target per group, before Algorithm 1 runs from there.

The gradient of HSIC cannot separate rows that are near each other if the pairs that would move them are farther away
than the width of the kernel. The squared distance to a target has a gradient everywhere.

psi has to label new rows. So a fifth of the rows is held out. How many of these get their own group decides what the
target of a row is, that of its group or an average over its neighbours, and how long psi is trained.
"""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import pdist, squareform
from torch import Tensor, nn

from knet.arrays import Floats, Labels
from knet.start.neighbors import Indices, neighbor_shares
from knet.threads import one_thread
from knet.train.adam import Adam
from knet.train.backprop import ManualBackprop, trainable
from knet.train.networks import ResidualMLP
from knet.train.pretrain import batches

STAGES = (100, 200, 400, 800, 1600)  # gradient steps; training ends before the first stage that gains nothing
RIDGE = 1e-2  # of the regression, as a share of the mean square of a feature
MOST_WRONG = 0.02  # share of the held-out rows of a group, on average, that a solution by regression may get wrong
N_CHOICES = 2  # after this many stages, the better kind of target is settled
BATCH_ROWS = 64  # rows of a gradient step
OWN_BATCH_ROWS = 128  # the same for an own network, which may be small and need steadier gradients
LEARNING_RATE = 1e-2  # at the beginning of a stage; it falls to 0 along a cosine
WEIGHT_DECAY = 0.1  # share of the learning rate by which a step shrinks the weights of the default network
MOST_LEFT = 0.5  # a stage also gains if it leaves at most this much of the squared distance of held-out rows
ENOUGH = 0.002  # the same share that ends training: longer training would hardly change a label
HELD_OUT = 5  # one of so many rows of each group is held out
MAX_TURNS = 10  # targets are assigned to groups and rotated towards them at most this many times
REPULSION_STEPS, REPULSION_POWER = 200, 6  # points on a sphere repel each other with a force of 1 / distance^7

Wrong = NDArray[np.bool_]  # for each held-out row, whether it gets another group than its own


def follow(
    encoder: nn.Module, X: Tensor, labels: Labels, near: Indices, side: float, generator: torch.Generator
) -> "Followed":
    """Train the encoder in place until the rows of X are near the targets of their groups.

    Parameters
    ----------
    encoder : nn.Module
        The encoder.
    X : Tensor of shape (n, d)
        The rows whose partition is known.
    labels : ndarray of shape (n,)
        Their groups, 0 to c-1, none of them empty.
    near : ndarray of shape (n, k)
        The nearest rows of each row.
    side : float
        Distance between the targets of two groups.
    generator : torch.Generator
        Source of the batches, and of the rows that are held out.
    """
    split = Split.draw(encoder, X, labels, side, generator)
    averaged = neighbor_shares(labels, near)
    possible = [averaged]
    if (averaged.argmax(1) != labels).any():  # otherwise neighbours only say which rows are near a border
        possible.append(np.eye(averaged.shape[1])[labels])
    with one_thread():  # gradient steps are too small for several
        best = _longest_that_gains(split, encoder, possible)
    encoder.load_state_dict(best.encoder.state_dict())
    encoder.eval()
    return Followed(torch.from_numpy(best.shares).to(X.device), split)


def _longest_that_gains(split: "Split", encoder: nn.Module, possible: Sequence[Floats]) -> "Attempt":
    """Return the network after the last stage that gains, or the solution if it is as good as the first stage."""
    solved = preferred([split.solve(encoder, shares) for shares in possible])
    if solved.share_wrong <= ENOUGH:
        return solved
    attempts = [split.train(encoder, shares, STAGES[0]) for shares in possible]  # from the solution it would be longer
    best = preferred(attempts)
    if solved.share_wrong <= MOST_WRONG and gain(solved.wrong, best.wrong) < 1:
        return solved
    for stage, n_steps in enumerate(STAGES[1:], start=2):
        if best.share_wrong <= ENOUGH:
            break
        longer = split.train(best.encoder, best.shares, n_steps)
        if gain(best.wrong, longer.wrong) < 1 and longer.error > MOST_LEFT * best.error:
            break
        if stage <= N_CHOICES:
            longer = preferred(
                [longer if kind is best else split.train(kind.encoder, kind.shares, n_steps) for kind in attempts]
            )
        best = longer
    return best


@dataclass(frozen=True)
class Attempt:
    """An encoder that was trained on averages over the groups, with the given shares, and what it gets wrong."""

    encoder: nn.Module
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
    """What psi followed, as shares of the groups in the target of each row, (n, c), and the rows held out."""

    shares: Tensor
    split: "Split"


@dataclass(frozen=True)
class Split:
    """Rows with their groups: some to train on, the others held out; and one target for each group."""

    X: Tensor
    groups: Tensor
    goals: Floats
    side: float
    trained: Tensor
    held_out: Tensor
    generator: torch.Generator

    @classmethod
    def draw(cls, encoder: nn.Module, X: Tensor, labels: Labels, side: float, generator: torch.Generator) -> "Split":
        """Place the targets, and hold out one of `HELD_OUT` rows of each group; none of a group with fewer rows."""
        groups = torch.from_numpy(labels).to(X.device)
        with torch.no_grad():
            means = group_means(encoder(X), groups).cpu().double().numpy()
        noise = torch.rand(len(X), generator=generator, dtype=torch.float64).numpy()
        order = np.lexsort([noise, labels])
        places = np.arange(len(X)) - np.searchsorted(labels[order], labels[order])  # within the group
        is_held = np.zeros(len(X), dtype=bool)
        is_held[order] = places % HELD_OUT == HELD_OUT - 1
        trained, held_out = (torch.from_numpy(np.flatnonzero(rows)).to(X.device) for rows in (~is_held, is_held))
        return cls(X, groups, targets(means, side), side, trained, held_out, generator)

    def solve(self, encoder: nn.Module, shares: Floats) -> Attempt:
        """Set the last layer of a copy of the default network by ridge regression; other networks stay as they are."""
        encoder, goals = copy.deepcopy(encoder).eval(), torch.from_numpy(shares @ self.goals).to(self.X)
        if isinstance(encoder, ResidualMLP):
            X = self.X[self.trained]
            encoder.regress(X, goals[self.trained] - X @ encoder.skip, RIDGE)
        return self._attempt(encoder, shares, goals)

    def train(self, encoder: nn.Module, shares: Floats, n_steps: int) -> Attempt:
        """Train a copy of an encoder by steps of Adam on the mean of ||psi(x) - target||^2 / side^2."""
        encoder = copy.deepcopy(encoder).train()
        goals = torch.from_numpy(shares @ self.goals).to(self.X)
        n_rows = BATCH_ROWS if isinstance(encoder, ResidualMLP) else OWN_BATCH_ROWS
        steps = list(batches(len(self.trained), n_rows, n_steps, self.generator))
        self._approach(encoder, self.X[self.trained], goals[self.trained], steps)
        return self._attempt(encoder.eval(), shares, goals)

    @torch.no_grad()
    def _attempt(self, encoder: nn.Module, shares: Floats, goals: Tensor) -> Attempt:
        error = float((encoder(self.X[self.held_out]) - goals[self.held_out]).square().sum(1).mean())
        wrong, groups = self.wrong(encoder), self.groups[self.held_out].cpu().numpy()
        sizes = np.bincount(groups)
        lost = np.bincount(groups, wrong)[sizes > 0] / sizes[sizes > 0]
        return Attempt(encoder, shares, wrong, float(lost.mean()) if len(lost) else 0.0, error)

    @torch.no_grad()
    def _approach(self, encoder: nn.Module, X: Tensor, goals: Tensor, steps: list[Tensor]) -> None:
        psi = trainable(encoder)
        optimizer = Adam(psi.parameters, LEARNING_RATE)
        for step, rows in enumerate(steps):
            difference = psi.forward(X[rows]).sub_(goals[rows])
            psi.backward(difference.mul_(2 / (self.side**2 * len(rows))))
            optimizer.learning_rate = LEARNING_RATE * (1 + math.cos(math.pi * step / len(steps))) / 2
            if isinstance(psi, ManualBackprop):
                psi.theta.mul_(1 - WEIGHT_DECAY * optimizer.learning_rate)
            optimizer.step()
        psi.restore()

    @torch.no_grad()
    def wrong(self, encoder: nn.Module) -> Wrong:
        """Return for each held-out row whether the mean of another group is nearer than that of its own."""
        Psi = encoder(self.X)
        nearest = torch.cdist(Psi[self.held_out], group_means(Psi, self.groups)).argmin(1)
        wrong: Wrong = (nearest != self.groups[self.held_out]).cpu().numpy()
        return wrong


def group_means(Psi: Tensor, groups: Tensor) -> Tensor:
    """Return the means of the groups of some rows, (c, d'); that of an empty group is 0."""
    members = torch.nn.functional.one_hot(groups).to(Psi)
    means: Tensor = members.mT @ Psi / members.sum(0).clamp_min(1)[:, None]
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
