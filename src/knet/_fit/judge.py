"""How partitions are compared without labels: conductance on the neighbour graph, and reproducibility on halves."""

from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.neighbors import kneighbors_graph

from knet._fit.affinities import Affinity
from knet._math.agreement import rand_index
from knet._math.arrays import Floats, Labels

JUDGE_NEIGHBORS = 10  # of the graph on which all partitions are judged
MIN_REPRODUCIBILITY = 1e-3
SAME_PARTITION = 0.99  # adjusted Rand index from which two partitions count as one


@dataclass(frozen=True)
class Candidate:
    """An affinity, its partitions and their measurements; NaN if it did not cluster all rows."""

    affinity: Affinity
    halves: tuple[Labels, Labels]  # of all rows, each found on one half alone
    conductance: float  # mean of the two
    reproducibility: float
    labels: Labels | None = None  # found on all rows
    final_conductance: float = np.nan

    @property
    def score(self) -> float:
        """Conductance over reproducibility, of the partitions found on halves: smaller is better."""
        return self.conductance / max(self.reproducibility, MIN_REPRODUCIBILITY)

    @property
    def final_score(self) -> float:
        """The same of the partition found on all rows."""
        return self.final_conductance / max(self.reproducibility, MIN_REPRODUCIBILITY)

    def agreement(self, other: "Candidate") -> float:
        """Return the agreement of the partitions of two candidates, as an adjusted Rand index."""
        return float(np.mean([rand_index(*pair) for pair in zip(self.halves, other.halves, strict=True)]))

    def proposes(self, labels: Labels) -> bool:
        """Say whether the partition of all rows would be this one, as far as the halves can tell."""
        return float(np.mean([rand_index(half, labels) for half in self.halves])) >= SAME_PARTITION


class Judge:
    """The neighbour graph of some rows, on which partitions of them are compared."""

    def __init__(self, X: Floats) -> None:
        n_neighbors = min(JUDGE_NEIGHBORS, len(X) - 1)
        graph: csr_matrix = kneighbors_graph(X, n_neighbors)
        self.graph = (graph + graph.T) / 2
        self.volumes: Floats = np.asarray(self.graph.sum(1)).ravel()

    def conductance(self, labels: Labels) -> float:
        """Return the mean over groups of the share of a group's edges that leave it, with one edge added to each.

        Less than one edge cannot be measured: all perfect cuts are equally good.
        """
        indicator = np.eye(labels.max() + 1)[labels]
        volume = self.volumes @ indicator
        inside = ((self.graph @ indicator) * indicator).sum(0)
        return float(np.mean((1 + volume - inside) / (1 + volume)))

    def screen(self, affinity: Affinity, first: Labels, second: Labels) -> Candidate:
        """Measure two labelings of all rows, each found on one half."""
        conductance = (self.conductance(first) + self.conductance(second)) / 2
        return Candidate(affinity, (first, second), conductance, rand_index(first, second))

    def finish(self, candidate: Candidate, labels: Labels) -> Candidate:
        """Measure the partition that a candidate makes of all rows."""
        return replace(candidate, labels=labels, final_conductance=self.conductance(labels))
