"""The tables of the report: clusters, typical and doubtful rows, agreement with known labels."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.cluster import contingency_matrix

from knet.arrays import AnyArray, Floats, Labels
from knet.explore.features import Feature
from knet.explore.rules import Rule
from knet.explore.samples import Sample
from knet.explore.stability import Stability
from knet.metrics import accuracy, ari, nmi
from knet.show.profiles import Profile, percent

ROW_COLUMNS = 6
TYPICAL_ROWS, MANY_CLUSTERS = 2, 12  # per cluster, and one if there are many clusters
DOUBTFUL_ROWS = 10
SURE = 0.9  # a largest probability from which a row is not doubtful
FAMILIAR = 0.5  # a density, relative to the cluster's median, from which a row is not doubtful
MAX_CLASSES = 30
MAX_NAME = 60  # characters
COLOR_STEP, MAX_LEVEL = 0.5, 4  # a profile's colour changes every half standard deviation, up to two
EXPLAINS_NOTHING = 0.05  # eta squared below which a column has no colours
POOR_RULE = 0.5  # covers or purity of a rule that describes its cluster badly


@dataclass(frozen=True)
class ClusterRow:
    """A cluster: its rule, its number and share of the rows, its mean probability and its stability, NaN if unknown.

    The probability of a cluster that refits do not find is unknown, whatever the model claims.
    """

    rule: Rule
    n_rows: int
    share: float
    certainty: float
    stability: float

    @property
    def is_poor(self) -> bool:
        """Whether the rule describes the cluster badly."""
        return min(self.rule.covers, self.rule.purity) < POOR_RULE


@dataclass(frozen=True)
class ListedRow:
    """A row of the data in a table; `facts` are what the table says about the row."""

    cluster: int
    row: str
    facts: list[str]
    cells: list[str]


@dataclass(frozen=True)
class Agreement:
    """How the clusters agree with known labels; `counts` are the rows of each class in each cluster."""

    nmi: float
    ari: float
    accuracy: float
    counts: list[tuple[str, list[int]]]


class RowNames:
    """What the rows are called, and their values in the columns that the clusters explain best."""

    def __init__(self, rows: Sample, features: Sequence[Feature], importance: Floats, ids: Sequence[object] | None):
        self.rows, self.ids = rows, ids
        self.sorted = [features[j] for j in np.argsort(-importance, kind="stable")]
        self.features = self.sorted[:ROW_COLUMNS]

    @property
    def columns(self) -> list[str]:
        """The names of these columns."""
        return [short(feature.name) for feature in self.features]

    def name(self, position: int) -> str:
        """Return the name of a row of the data: its id, or its position if there are no ids."""
        return str(position) if self.ids is None else short(str(self.ids[position]))

    def listed(self, at: int, *facts: str) -> ListedRow:
        """Return a row of the sample for a table."""
        cells = [short(feature.cell(self.rows.X[at])) for feature in self.features]
        return ListedRow(int(self.rows.labels[at]), self.name(int(self.rows.rows[at])), list(facts), cells)


def cluster_rows(
    rows: Sample, sizes: Labels, proba: Floats, stability: Stability | None, rules: Sequence[Rule]
) -> list[ClusterRow]:
    """Return the table of the clusters."""
    found, lost = [], [] if stability is None else stability.lost.tolist()
    for rule in rules:
        own = rows.labels == rule.cluster
        kept = np.nan
        if stability is not None and rule.cluster not in stability.too_small:
            kept = float(stability.clusters[rule.cluster])
        certainty = np.nan if rule.cluster in lost else float(proba[own].max(1).mean())
        size = int(sizes[rule.cluster])
        found.append(ClusterRow(rule, size, size / int(sizes.sum()), certainty, kept))
    return found


def color_levels(profile: Profile) -> list[int]:
    """Return the level of the colour of each cluster in a profile, from -4 to 4; 0 has none."""
    levels = np.clip(np.round(profile.deviations / COLOR_STEP), -MAX_LEVEL, MAX_LEVEL)
    return [int(level) for level in levels * (profile.explained >= EXPLAINS_NOTHING)]


def typical_rows(names: RowNames, scores: NDArray[np.floating]) -> list[ListedRow]:
    """Return the most familiar rows of each cluster, of those with the fewest gaps: gaps have expected values."""
    rows = names.rows
    clusters, gaps = np.unique(rows.labels), np.isnan(rows.X).sum(1)
    n_each = TYPICAL_ROWS if len(clusters) <= MANY_CLUSTERS else 1
    found = []
    for cluster in clusters:
        own = np.flatnonzero(rows.labels == cluster)
        found += [names.listed(int(at)) for at in own[np.lexsort([-scores[own], gaps[own]])[:n_each]]]
    return found


def uncertain_rows(names: RowNames, proba: Floats) -> list[ListedRow]:
    """Return the rows with the smallest largest probability, if it is below `SURE`."""
    if proba.shape[1] == 1:
        return []
    following = np.argsort(-proba, axis=1, kind="stable")[:, 1]
    sure = proba.max(1)
    order = np.argsort(sure, kind="stable")[:DOUBTFUL_ROWS]
    return [
        names.listed(int(i), f"{sure[i]:.2f}", f"{following[i]} ({proba[i, following[i]]:.2f})")
        for i in order
        if sure[i] < SURE
    ]


def unfamiliar_rows(names: RowNames, scores: NDArray[np.floating]) -> list[ListedRow]:
    """Return the rows whose density (`score_samples`) is less than half of the median of their cluster."""
    labels = names.rows.labels
    typical = {int(cluster): float(np.median(scores[labels == cluster])) for cluster in np.unique(labels)}
    relative = np.exp(np.minimum(scores - np.array([typical[int(label)] for label in labels]), 0))
    order = np.argsort(relative, kind="stable")[:DOUBTFUL_ROWS]
    return [names.listed(int(i), percent(float(relative[i]))) for i in order if relative[i] < FAMILIAR]


def agreement(rows: Sample, target: AnyArray | None) -> Agreement | None:
    """Compare the clusters with known labels; the table lists the largest classes, at most `MAX_CLASSES`."""
    if target is None:
        return None
    known = target[rows.rows].astype(str)
    classes, counts = np.unique(known, return_counts=True)
    table = contingency_matrix(known, rows.labels)
    listed = np.sort(np.argsort(-counts, kind="stable")[:MAX_CLASSES])
    listed = listed[np.argsort(table[listed].argmax(1), kind="stable")]  # so that large counts are near the diagonal
    scores = nmi(known, rows.labels), ari(known, rows.labels), accuracy(known, rows.labels)
    return Agreement(*scores, [(short(str(classes[i])), table[i].tolist()) for i in listed])


def short(name: str) -> str:
    """Return a name of bounded length."""
    return name if len(name) <= MAX_NAME else name[: MAX_NAME - 3] + "..."
