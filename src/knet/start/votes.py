"""How far the candidates for the start agree with the chosen partition, row by row.

Each candidate is matched to the chosen partition, one group to one, and votes for a group of every row. A Gaussian
mixture votes by its probabilities: it alone knows how far groups overlap, so it counts as several of the others. A
candidate counts the less, the worse it is than the chosen one, in conductance or in gain: where one method is right and
the others fail, their disagreement says nothing.
"""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment

from knet.arrays import Floats, Labels
from knet.start.candidates import Pool
from knet.start.neighbors import Indices, Neighbors

POWER = 3.0  # a candidate with twice the conductance of the chosen one has a weight of 2 ** -POWER
GAIN = 3.0  # what a loss of gain / sqrt(columns) weighs, compared with the same loss of log conductance
MIXTURE = 4.0  # a mixture counts as so many other candidates


@dataclass(frozen=True)
class Votes:
    """The votes on some of the training rows.

    Attributes
    ----------
    rows : ndarray of int
        Positions within the training rows.
    shares : ndarray of shape (n, c)
        The share of the candidates that vote for each group, by weight; a row sums to 1 at most.
    near : Neighbors, optional
        The nearest of these rows to each, if they are all training rows and the candidates saw their columns as they
        are.
    """

    rows: Indices
    shares: Floats
    near: Neighbors | None = None


def count_votes(
    pool: Pool,
    considered: list[dict[str, object]],
    partitions: list[Labels],
    labels: Labels,
    n_clusters: int,
    rows: Indices,
) -> Floats:
    """Return the share of the candidates that vote for each group, for some rows of a pool, (n, n_clusters).

    Parameters
    ----------
    pool : Pool
        The models of the mixtures.
    considered, partitions : list of dict, list of ndarray
        The candidates: their measurements and their partitions of the rows of the pool, the chosen one first.
    labels : ndarray of shape (n_pool,)
        The partition that the model follows: the chosen one, or what known labels have made of it.
    n_clusters : int
        The number of its groups, which some rows may not have.
    rows : ndarray of int
        Positions of the rows within the pool.
    """
    followed, total, weights = labels[rows], np.zeros((len(rows), n_clusters)), 0.0
    for row, partition in zip(considered, partitions, strict=True):
        n_groups = int(partition.max()) + 1
        model = pool.models.get((str(row["method"]), n_groups))
        members = np.eye(n_groups)[partition[rows]] if model is None else model.probabilities(pool.X[rows])
        weight = _plausibility(row, considered[0], pool.X.shape[1]) * (1 if model is None else MIXTURE)
        total += weight * match_groups(members, followed, n_clusters)
        weights += weight
    return total / weights


def match_groups(members: Floats, labels: Labels, n_clusters: int) -> Floats:
    """Return memberships in groups as memberships in those clusters with which the groups agree most, (n, n_clusters).

    A group is matched to one cluster at most; memberships in groups without a cluster are left out.
    """
    own, other = linear_sum_assignment(-members.T @ np.eye(n_clusters)[labels])
    matched = np.zeros((len(members), n_clusters))
    matched[:, other] = members[:, own]
    return matched


def _plausibility(row: dict[str, object], chosen: dict[str, object], n_columns: int) -> float:
    """Return the weight of a candidate: 1 if it is as good as the chosen one, towards 0 if it is worse."""
    conductance, gain = (float(str(row[name])) for name in ("conductance", "gain"))
    best_conductance, best_gain = (float(str(chosen[name])) for name in ("conductance", "gain"))
    loss = max(0.0, np.log(conductance / best_conductance)) + GAIN * max(0.0, best_gain - gain) / np.sqrt(n_columns)
    return float(np.exp(-POWER * loss))
