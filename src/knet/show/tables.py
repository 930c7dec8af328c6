"""The tables of the report: clusters, what makes them, typical and doubtful rows, agreement with known labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics.cluster import contingency_matrix

from knet.arrays import Floats, Labels
from knet.explore.features import Feature, short_number
from knet.explore.rules import Rule
from knet.explore.samples import Sample
from knet.explore.stability import Stability
from knet.metrics import accuracy, ari, nmi
from knet.show import views

PROFILE_ROWS, ROW_COLUMNS = 20, 6
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
    """A cluster: its size, how sure its labels are, and the rule that describes it."""

    cluster: int
    n_rows: int
    share: str
    width: float  # of a bar, in percent of the largest cluster
    certainty: str
    stability: str
    rule: str
    covers: str
    purity: str
    is_poor: bool


@dataclass(frozen=True)
class ProfileCell:
    """What a cluster has in a column, and the level of its colour, from -4 to 4; 0 has none."""

    cluster: int
    level: int
    text: str


@dataclass(frozen=True)
class Profile:
    """A column, the share of its variance that the clusters explain, its value in all rows, and a cell per cluster."""

    name: str
    explained: str
    overall: str
    cells: list[ProfileCell]


@dataclass(frozen=True)
class ListedRow:
    """A row of the data in a table; `facts` are what the table says about the row."""

    cluster: int
    row: str
    facts: list[str]
    cells: list[str]


@dataclass(frozen=True)
class ClassRow:
    """A known class and its rows in each cluster, as (cluster, count)."""

    name: str
    counts: list[tuple[int, int]]


@dataclass(frozen=True)
class Agreement:
    """How the clusters agree with known labels."""

    nmi: str
    ari: str
    accuracy: str
    clusters: list[int]
    rows: list[ClassRow]


class RowNames:
    """What the rows are called, and their values in the columns that the clusters explain best."""

    def __init__(self, rows: Sample, features: Sequence[Feature], importance: Floats, ids: Sequence[Any] | None):
        self.rows, self.ids = rows, ids
        self.features = [features[j] for j in np.argsort(-importance, kind="stable")[:ROW_COLUMNS]]

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


def cluster_rows(rows: Sample, proba: Floats, stability: Stability | None, rules: Sequence[Rule]) -> list[ClusterRow]:
    """Return the table of the clusters."""
    largest = max(rule.n_rows for rule in rules)
    certainty = proba.max(1)
    return [
        ClusterRow(
            cluster=rule.cluster,
            n_rows=rule.n_rows,
            share=percent(rule.n_rows / len(rows.labels)),
            width=round(100 * rule.n_rows / largest, 1),
            certainty=f"{certainty[rows.labels == rule.cluster].mean():.2f}",
            stability=_cluster_stability(stability, rule.cluster),
            rule=rule.text,
            covers=percent(rule.covers),
            purity=percent(rule.purity),
            is_poor=min(rule.covers, rule.purity) < POOR_RULE,
        )
        for rule in rules
    ]


def _cluster_stability(stability: Stability | None, cluster: int) -> str:
    """Return the stability of a cluster; a dash if it is not known or if there are too few rows to say."""
    if stability is None or cluster in stability.too_small or np.isnan(stability.clusters[cluster]):
        return "-"
    return f"{stability.clusters[cluster]:.2f}"


def profiles(rows: Sample, features: Sequence[Feature], importance: Floats) -> list[Profile]:
    """Return the profiles of the columns that the clusters explain best, each category on a line of its own."""
    clusters, medians, _ = views.profiles(rows.X, rows.labels)
    found: list[Profile] = []
    for number in np.argsort(-importance, kind="stable"):
        feature = features[number]
        if len(found) + len(feature.places) > PROFILE_ROWS and found:
            break
        for place, name in zip(feature.places, feature.names(), strict=True):
            colored = importance[number] >= EXPLAINS_NOTHING
            found.append(
                _profile(rows, feature, place, short(name), float(importance[number]), clusters, medians, colored)
            )
    return found


def _profile(
    rows: Sample,
    feature: Feature,
    place: int,
    name: str,
    explained: float,
    clusters: Labels,
    medians: Floats,
    colored: bool,
) -> Profile:
    """Return a line of the profiles: medians in the units of the data, or shares in percent."""
    values, deviations = rows.X[:, place], medians[:, place]
    own = [values[rows.labels == cluster] for cluster in clusters]
    if feature.is_share:
        texts, overall = [percent(float(part.mean())) for part in own], percent(float(values.mean()))
        deviations = np.array([part.mean() - values.mean() for part in own]) / max(float(values.std()), 1e-12)
    else:
        texts, overall = [_median(part, feature) for part in own], _median(values, feature)
    levels = np.clip(np.round(deviations / COLOR_STEP), -MAX_LEVEL, MAX_LEVEL).astype(int) * colored
    cells = [ProfileCell(*cell) for cell in zip(clusters.tolist(), levels.tolist(), texts, strict=True)]
    return Profile(name, percent(explained), overall, cells)


def _median(values: Floats, feature: Feature) -> str:
    """Return the median as text; of dates, the day."""
    median = float(np.median(values))
    return feature.value(float(np.floor(median))) if feature.kind == "date" else short_number(median)


def typical_rows(names: RowNames, scores: NDArray[np.floating]) -> list[ListedRow]:
    """Return the most familiar rows of each cluster; the embedding draws all rows of a cluster to its centre."""
    rows = names.rows
    clusters = np.unique(rows.labels)
    n_each = TYPICAL_ROWS if len(clusters) <= MANY_CLUSTERS else 1
    found = []
    for cluster in clusters:
        own = np.flatnonzero(rows.labels == cluster)
        found += [names.listed(int(at)) for at in own[np.argsort(-scores[own], kind="stable")[:n_each]]]
    return found


def uncertain_rows(names: RowNames, proba: Floats) -> list[ListedRow]:
    """Return the rows with the smallest largest probability, if it is below `SURE`."""
    if proba.shape[1] == 1:
        return []
    best = np.argsort(-proba, axis=1, kind="stable")[:, :2]
    sure = proba.max(1)
    order = np.argsort(sure, kind="stable")[:DOUBTFUL_ROWS]
    return [
        names.listed(int(i), f"{sure[i]:.2f}", f"{best[i, 1]} ({proba[i, best[i, 1]]:.2f})")
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


def agreement(rows: Sample, target: ArrayLike | None) -> Agreement | None:
    """Compare the clusters with known labels; the table lists the largest classes, at most `MAX_CLASSES`."""
    if target is None:
        return None
    known = np.asarray(target)[rows.rows].astype(str)
    classes, counts = np.unique(known, return_counts=True)
    clusters = np.unique(rows.labels).tolist()
    table = contingency_matrix(known, rows.labels)
    listed = np.sort(np.argsort(-counts, kind="stable")[:MAX_CLASSES])
    listed = listed[np.argsort(table[listed].argmax(1), kind="stable")]  # so that large counts are near the diagonal
    return Agreement(
        nmi=f"{nmi(known, rows.labels):.3f}",
        ari=f"{ari(known, rows.labels):.3f}",
        accuracy=f"{accuracy(known, rows.labels):.3f}",
        clusters=clusters,
        rows=[ClassRow(short(str(classes[i])), list(zip(clusters, table[i].tolist(), strict=True))) for i in listed],
    )


def short(name: str) -> str:
    """Return a name of bounded length."""
    return name if len(name) <= MAX_NAME else name[: MAX_NAME - 3] + "..."


def percent(share: float) -> str:
    """Return a share in percent, with a decimal if it is small; a dash for NaN."""
    if share != share:
        return "-"
    if 0 < share < 0.001:
        return "<0.1%"
    return f"{share:.1%}" if 0 < share < 0.1 else f"{share:.0%}"
