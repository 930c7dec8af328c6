"""Training psi to follow a partition, by squared distances to one target per group, before Algorithm 1 runs from there.

The gradient of HSIC cannot separate rows that are near each other if the pairs that would move them are farther away
than the width of the kernel. The squared distance to a target has a gradient everywhere.
"""

import math

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import pdist, squareform
from torch import Tensor, nn

from knet.arrays import Floats, Labels
from knet.metrics import rand_index
from knet.threads import one_thread
from knet.train.adam import Adam
from knet.train.backprop import ManualBackprop, Trainable, trainable
from knet.train.pretrain import batches

STAGES = (100, 200, 400, 800, 1600)  # gradient steps; training ends after the first stage that is good enough
BATCH_ROWS = 128  # rows of a gradient step
LEARNING_RATE = 1e-2  # at the beginning of a stage; it falls to 0 along a cosine
WEIGHT_DECAY = 0.1  # share of the learning rate by which a step shrinks the weights of the default network
FOLLOWED = 0.99  # agreement with the partition at which it counts as followed
NEARLY = 0.97  # agreement at which a stage that closes less than half of the gap is the last one
CHECKED_ROWS = 4000  # rows that the agreement is measured on
MAX_TURNS = 10  # targets are assigned to groups and rotated towards them at most this many times
REPULSION_STEPS, REPULSION_POWER = 200, 6  # points on a sphere repel each other with a force of 1 / distance^7


def follow(encoder: nn.Module, X: Tensor, labels: Labels, side: float, generator: torch.Generator) -> float:
    """Train the encoder in place until the rows of X are near the targets of their groups.

    Parameters
    ----------
    encoder : nn.Module
        The encoder.
    X : Tensor of shape (n, d)
        The rows whose partition is known.
    labels : ndarray of shape (n,)
        Their groups, 0 to c-1, none of them empty.
    side : float
        Distance between the targets of two groups.
    generator : torch.Generator
        Source of the batches.

    Returns
    -------
    agreement : float
        Adjusted Rand index of the partition and the nearest group mean in the embedding.
    """
    groups = torch.from_numpy(labels).to(X.device)
    with torch.no_grad():
        means = group_means(encoder(X), groups).cpu().double().numpy()
    goals = torch.from_numpy(targets(means, side)).to(X)
    checked = torch.linspace(0, len(X) - 1, min(len(X), CHECKED_ROWS), dtype=torch.float64).long()
    agreement, psi = 0.0, trainable(encoder)
    optimizer = Adam(psi.parameters, LEARNING_RATE)
    for n_steps in STAGES:
        encoder.train()
        steps = list(batches(len(X), BATCH_ROWS, n_steps, generator))
        with one_thread():  # steps are too small for several
            _approach(psi, optimizer, X, goals, groups, steps, side)
        encoder.eval()
        before, agreement = agreement, _agreement(encoder, X[checked], groups[checked])
        slow = 1 - agreement > (1 - before) / 2
        if agreement >= FOLLOWED or (agreement >= NEARLY and slow):
            break
    return agreement


@torch.no_grad()
def _approach(
    psi: Trainable, optimizer: Adam, X: Tensor, goals: Tensor, groups: Tensor, steps: list[Tensor], side: float
) -> None:
    """Take one step of Adam on the mean of ||psi(x) - goal||^2 / side^2 for each batch of rows."""
    for step, rows in enumerate(steps):
        difference = psi.forward(X[rows]).sub_(goals[groups[rows]])
        psi.backward(difference.mul_(2 / (side**2 * len(rows))))
        optimizer.learning_rate = LEARNING_RATE * (1 + math.cos(math.pi * step / len(steps))) / 2
        if isinstance(psi, ManualBackprop):
            psi.theta.mul_(1 - WEIGHT_DECAY * optimizer.learning_rate)
        optimizer.step()
    psi.restore()


@torch.no_grad()
def _agreement(encoder: nn.Module, X: Tensor, groups: Tensor) -> float:
    """Return the adjusted Rand index of a partition and the nearest group mean."""
    Psi = encoder(X)
    nearest = torch.cdist(Psi, group_means(Psi, groups)).argmin(1)
    return rand_index(groups.cpu().numpy(), nearest.cpu().numpy())


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
