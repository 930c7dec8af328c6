"""How partitions are compared without labels.

conductance
    the mean over groups of the probability that a step to one of the 10 nearest neighbours leaves the group; it is
    small for groups of any shape that are separated by sparse regions;
gain
    the log-likelihood per row of one Gaussian per group (full or tied covariances, whichever is better after the
    penalty for its parameters) minus that of one Gaussian for all rows; it is large for groups that overlap, too;
structure
    how far the entropy of the rows, estimated from the distances to neighbours, is below that of one Gaussian for all;
modularity
    the share of the links between nearest neighbours that stay inside a group, minus that share in a random graph with
    the same degrees; it is large for groups of similar size that are separated.

In tables of principal components, and of other columns that share a unit, the largest modularity wins. A Gaussian has
no unit: it gives a direction in which the rows hardly differ the same weight as the first component, and of many such
directions some suit any partition. In the plane and in space there are too few of them to matter.

In all other tables each column has its own unit. If the largest gain is less than half of the structure, Gaussians do
not describe the groups, and the smallest conductance wins. Otherwise -log(conductance) + gain / sqrt(columns) decides,
as far as it can: both are measured on a sample of rows. Candidates within one standard error of the best are equally
good; the one with the largest gain is preferred, and of those whose gain is within one standard error of that, the one
that agrees most with the others. If no gain is positive, one Gaussian describes the rows better than any groups, so
gains rank nothing: of the candidates within one standard error of the smallest conductance, the one that agrees most
with the others is chosen.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from scipy.special import digamma, gammaln

from knet.arrays import Floats, Labels
from knet.metrics import rand_index
from knet.start.layout import MIN_COLUMNS
from knet.start.mixtures import Gaussians, Moments, overall_covariance, rounding_variance, split_groups
from knet.start.neighbors import Neighbors, neighbor_graph

JUDGE_NEIGHBORS = 10  # conductance is measured on the graph of so many nearest neighbours
MIN_EXPLAINED = 0.5  # Gaussians describe the groups if their gain is at least this share of the structure


@dataclass(frozen=True)
class Verdict:
    """The measurements of one partition."""

    conductance: float
    cut: float  # edges between groups, divided by the edges of a row
    gain: float  # the mean over rows
    modularity: float
    score: float  # what the judge compares
    measure_gains: Callable[[], Floats]

    @cached_property
    def gains(self) -> Floats:
        """The gain of every row; few partitions are compared so closely."""
        return self.measure_gains()


class Judge:
    """Measures partitions of the rows X on their neighbour graph and by Gaussians.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Rows as `knet.start.columns.comparable_columns` returns them.
    near : Neighbors
        Their nearest neighbours.
    shares_unit : bool
        Whether the columns share a unit, as principal components do.
    """

    def __init__(self, X: Floats, near: Neighbors, *, shares_unit: bool = False) -> None:
        self.X, self.graph = X, neighbor_graph(near, JUDGE_NEIGHBORS)
        self.uses_modularity = shares_unit and X.shape[1] >= MIN_COLUMNS
        self.degrees: Floats = np.asarray(self.graph.sum(1)).ravel()
        self.rounding = rounding_variance(X)
        self.overall = overall_covariance(X, self.rounding)
        self.baseline = Gaussians.of(Moments.of([X]), self.overall, self.rounding)[1].log_own([X])
        self.structure, self.structure_error = self._structure(near)

    def is_one_cloud(self, verdict: Verdict) -> bool:
        """Say whether one Gaussian describes the rows as well as a partition does, and nothing else shows in them."""
        return verdict.gain <= 0 and self.structure < 2 * self.structure_error

    def modularity_error(self, verdict: Verdict) -> float:
        """Return the standard error of a modularity: that of the share of links that leave a group, counted by rows."""
        share = verdict.cut / (self.degrees.sum() / 2 / JUDGE_NEIGHBORS)
        return float(np.sqrt(share * (1 - share) / len(self.X)))

    def measure(self, labels: Labels) -> Verdict:
        """Measure a partition into groups 0, 1, ..., none of them empty."""
        members = np.eye(int(labels.max()) + 1)[labels]
        volumes = self.degrees @ members
        leaving = volumes - ((self.graph @ members) * members).sum(0)
        shares = volumes / volumes.sum()
        modularity = float(1 - leaving.sum() / volumes.sum() - np.square(shares).sum())
        # One edge is added to each group: less than one edge cannot be measured, and all perfect cuts are equally good.
        conductance = float(np.mean((1 + leaving) / (1 + volumes)))
        gain, gaussians, penalty = self._likeliest(Moments.of(split_groups(self.X, labels)[1]))
        score = float(-np.log(conductance) + gain / np.sqrt(self.X.shape[1]))
        score = modularity if self.uses_modularity else score
        cut = float(leaving.sum()) / 2 / JUDGE_NEIGHBORS
        return Verdict(conductance, cut, gain, modularity, score, partial(self._gains, labels, gaussians, penalty))

    def choose(self, verdicts: Sequence[Verdict], partitions: Sequence[Labels]) -> int:
        """Return the position of the best partition, by the rule at the head of this module."""
        if self.uses_modularity:
            return int(np.argmax([verdict.modularity for verdict in verdicts]))
        return choose(verdicts, partitions, self.structure)

    def _gains(self, labels: Labels, gaussians: Gaussians, penalty: float) -> Floats:
        """Return the gain of every row."""
        order, groups = split_groups(self.X, labels)
        gains = np.empty(len(labels))
        gains[order] = gaussians.log_own(groups) - self.baseline[order] - penalty
        return gains

    def _likeliest(self, groups: Moments) -> tuple[float, Gaussians, float]:
        """Return the gain with full or tied covariances, whichever is better, the Gaussians and their BIC penalty."""
        (n, d), found = self.X.shape, []
        models = Gaussians.of(groups, self.overall, self.rounding)
        for model, n_parameters in zip(models, (1 + d + d * (d + 1) / 2, 1 + d), strict=True):
            penalty = np.log(n) / 2 / n * (len(groups.sizes) - 1) * n_parameters
            found.append((model.mean_log_own(groups) - float(self.baseline.mean()) - penalty, model, penalty))
        return max(found, key=lambda each: each[0])

    def _structure(self, near: Neighbors) -> tuple[float, float]:
        """Return the entropy of one Gaussian minus that of the rows (Kozachenko, Leonenko), and its standard error."""
        (n, d), k = self.X.shape, min(JUDGE_NEIGHBORS, near.distances.shape[1])
        squares = np.square(near.distances[:, :k].max(1)) + 2 * self.rounding.sum()  # of two rounded rows
        log_volumes = d / 2 * np.log(np.pi * np.maximum(squares, 1e-12)) - gammaln(d / 2 + 1)
        is_copy = near.distances[:, :k] == 0
        different = np.where(is_copy, 0, near.copies[near.indices[:, :k]]).sum(1)
        within = different + np.maximum(near.copies - 1, is_copy.sum(1))  # rows that are at most so far away
        entropy = digamma(n) - digamma(within).mean() + log_volumes.mean()
        structure = d / 2 * np.log(2 * np.pi) - self.baseline.mean() - entropy
        return float(structure), float(log_volumes.std() / np.sqrt(n))


def choose(verdicts: Sequence[Verdict], partitions: Sequence[Labels], structure: float) -> int:
    """Return the position of the best partition, by the rule for columns that each have their own unit."""
    gain = max(verdict.gain for verdict in verdicts)
    if 0 <= gain < MIN_EXPLAINED * structure:
        return int(np.argmin([verdict.conductance for verdict in verdicts]))
    scores = [verdict.score if gain >= 0 else -np.log(verdict.conductance) for verdict in verdicts]
    best = int(np.argmax(scores))
    equal = [i for i, score in enumerate(scores) if scores[best] - score <= _score_error(verdicts[best])]
    if gain >= 0:
        favourite = max((verdicts[i] for i in equal), key=lambda verdict: verdict.gain)
        equal = [i for i in equal if _is_as_likely(verdicts[i], favourite)]
    return max(equal, key=lambda i: sum(rand_index(partitions[i], partitions[j]) for j in equal))


def is_as_good(verdict: Verdict, best: Verdict) -> bool:
    """Say whether a partition is within one standard error of the best one, in conductance or in likelihood."""
    is_separated = np.log(verdict.conductance / best.conductance) <= _score_error(best)
    return bool(is_separated or _is_as_likely(verdict, best))


def _is_as_likely(verdict: Verdict, best: Verdict) -> bool:
    """Say whether the gain of a partition is within one standard error of the best one."""
    return verdict.gain >= best.gain or best.gain - verdict.gain <= gain_error(best, verdict)


def _score_error(best: Verdict) -> float:
    """Return the standard error of the difference of two log conductances near the best.

    Cut rows are counts (Poisson). Only the best one counts: the large error of a tiny group must not make it equal.
    """
    return float(np.sqrt(2 / (1 + best.cut)))


def gain_error(first: Verdict, second: Verdict) -> float:
    """Return the standard error of the difference of two mean gains, from the differences of the rows."""
    return float((first.gains - second.gains).std() / np.sqrt(len(first.gains)))
