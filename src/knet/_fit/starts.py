"""The start of a fit, chosen from the data alone: which affinity, and so which partition and which kernel width.

Every candidate affinity proposes one partition. Eigenvalues of different affinities cannot be compared, so the
partitions are, all by the same two measures:

conductance
    the mean over groups of the chance that a step to one of the 10 nearest neighbours leaves the group;
reproducibility
    two halves of the rows are clustered separately, and the labels of each are extended to all rows by a vote of
    neighbours; the adjusted Rand index of the two labelings.

A small conductance alone can be due to chance, and a reproducible partition can cut straight through a dense
region (k-means on two moons does). The smallest conductance / reproducibility wins. Halves are cheap to cluster, so all
candidates are judged on halves first, and only the best of them cluster all the rows, Gaussians first. A candidate is
skipped if another one has made its partition already.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import KNeighborsClassifier

from knet._fit.affinities import Affinity, candidates, partitions, squared_distances
from knet._fit.judge import SAME_PARTITION, Candidate, Judge
from knet._math.arrays import Floats, Labels
from knet._math.threads import one_blas_thread

VOTE_NEIGHBORS = 5
FINALISTS = 5  # candidates that cluster all the rows
TIE = 1.1  # scores within this factor count as equal, and a Gaussian is preferred


@dataclass(frozen=True)
class Start:
    """The partition to start from, the Gaussian width that goes with it, and all that was considered."""

    labels: Labels
    ratio: float
    considered: list[dict[str, object]]


def choose_start(X: Floats, n_clusters: int, median: float, rng: np.random.RandomState) -> Start:
    """Choose among the candidate affinities for the rows of X, by their partitions.

    The width is the middle of the longest range of Gaussians that propose what the chosen affinity does, or, if none
    does, that of the Gaussian which agrees with it best.
    """
    seed = int(rng.randint(2**31 - 1))
    with one_blas_thread():
        D2 = squared_distances(X)
        judge, halves = Judge(X), Halves(D2, n_clusters, rng)
        table = [
            judge.screen(affinity, *halves.cluster(affinity, [n_clusters], seed)[0])
            for affinity in candidates(D2, median)
        ]
        table.sort(key=lambda candidate: candidate.score)
        made: list[Labels] = []
        for place, candidate in sorted(enumerate(table[:FINALISTS]), key=lambda pair: pair[1].affinity.ratio is None):
            if not any(candidate.proposes(labels) for labels in made):
                made.append(partitions(candidate.affinity.embed(D2, n_clusters)[1], [n_clusters], seed)[0])
                table[place] = judge.finish(candidate, made[-1])
    winner = best_of([candidate for candidate in table if candidate.labels is not None])
    assert winner.labels is not None
    return Start(winner.labels, _width(winner, table), [_row(candidate, winner) for candidate in table])


class Halves:
    """Two random halves of the rows, each with the nearest of its rows to every row.

    If halves would be too small for the number of clusters, both are all the rows.
    """

    def __init__(self, D2: Floats, n_clusters: int, rng: np.random.RandomState) -> None:
        n = len(D2)
        order = rng.permutation(n)
        parts = np.array_split(order, 2) if n // 2 >= 2 * n_clusters else [order, order]
        self.parts = [
            (rows, D2[np.ix_(rows, rows)], np.argpartition(D2[:, rows], min(VOTE_NEIGHBORS, len(rows)) - 1, axis=1))
            for rows in parts
        ]

    def cluster(self, affinity: Affinity, counts: Sequence[int], seed: int) -> list[tuple[Labels, Labels]]:
        """Return, for each number of clusters, the labels that each half finds alone and carries to all rows."""
        found = []
        for rows, D2, nearest in self.parts:
            owns = partitions(affinity.embed(D2, max(counts))[1], counts, seed)
            found.append([_vote(own, rows, nearest[:, :VOTE_NEIGHBORS]) for own in owns])
        return list(zip(found[0], found[1], strict=True))


def _vote(own: Labels, rows: NDArray[np.intp], nearest: NDArray[np.intp]) -> Labels:
    """Return labels of all rows: those of the clustered rows, and for others what most of their nearest have."""
    votes = np.eye(own.max() + 1)[own][nearest].sum(1)
    labels: Labels = votes.argmax(1)
    labels[rows] = own
    return labels


def extend(labels: Labels, sample: NDArray[np.intp], X: Floats) -> Labels:
    """Return labels of all rows of X: those given for the rows `sample`, and the vote of the nearest of them."""
    vote = KNeighborsClassifier(min(VOTE_NEIGHBORS, len(sample))).fit(X[sample], labels)
    extended: Labels = vote.predict(X)
    extended[sample] = labels
    return extended


def best_of(finalists: list[Candidate]) -> Candidate:
    """Return the finalist with the smallest score; of scores that count as equal, a Gaussian's."""
    best = min(candidate.final_score for candidate in finalists)
    tied = [candidate for candidate in finalists if candidate.final_score <= TIE * best]
    gaussians = [candidate for candidate in tied if candidate.affinity.ratio is not None]
    return min(gaussians or tied, key=lambda candidate: candidate.final_score)


def _width(winner: Candidate, table: list[Candidate]) -> float:
    """Return the ratio in the middle of the longest unbroken range of Gaussians that propose what the winner does."""
    gaussians = [(candidate.affinity.ratio, candidate) for candidate in table]
    agreements = {ratio: winner.agreement(candidate) for ratio, candidate in gaussians if ratio is not None}
    ratios = sorted(agreements)
    same = np.array([agreements[ratio] >= SAME_PARTITION for ratio in ratios], dtype=bool)
    runs = np.split(np.arange(len(same)), np.flatnonzero(np.diff(same)) + 1)
    longest = max((run for run in runs if same[run[0]]), key=len, default=np.arange(0))
    return ratios[longest[len(longest) // 2]] if len(longest) else max(ratios, key=agreements.__getitem__)


def _row(candidate: Candidate, winner: Candidate) -> dict[str, object]:
    """Return a candidate as a plain row of the selection table."""
    return {
        "affinity": candidate.affinity.kind,
        "ratio": candidate.affinity.ratio,
        "neighbors": candidate.affinity.neighbors,
        "conductance": candidate.conductance,
        "reproducibility": candidate.reproducibility,
        "score": candidate.score,
        "final_score": None if candidate.labels is None else candidate.final_score,
        "chosen": candidate is winner,
    }
