"""The tables of the report: profiles of clusters, typical and uncertain rows, agreement with known labels."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.metrics.cluster import contingency_matrix

from knet._math.arrays import Floats
from knet.inspect import views
from knet.inspect.samples import Sample
from knet.metrics import accuracy, ari, nmi

PROFILE_COLUMNS, ROW_COLUMNS = 15, 6
TYPICAL_ROWS, UNCERTAIN_ROWS = 2, 10  # typical rows are counted per cluster
MAX_CLASSES = 30
MAX_NAME = 60  # characters
COLOR_STEP, MAX_LEVEL = 0.5, 4  # a profile's colour changes every half standard deviation, up to two


@dataclass(frozen=True)
class Names:
    """What the columns and rows are called."""

    columns: list[str]
    ids: Sequence[Any] | None

    def row(self, position: int) -> str:
        """Return the name of a row: its id, or its position if there are no ids."""
        return str(position) if self.ids is None else short(str(self.ids[position]))


@dataclass(frozen=True)
class ProfileCell:
    """A cluster's median in a column, and the level of its colour, from -4 to 4."""

    cluster: int
    level: int
    text: str


@dataclass(frozen=True)
class Profile:
    """A column, the share of its variance that the clusters explain, and a cell per cluster."""

    name: str
    share: str
    cells: list[ProfileCell]


@dataclass(frozen=True)
class ListedRow:
    """A row of the data in a table; certainty and next cluster are empty for typical rows."""

    cluster: int
    row: str
    cells: list[str]
    certainty: str = ""
    next_cluster: str = ""


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


def profiles(rows: Sample, names: Names) -> tuple[list[Profile], NDArray[np.intp]]:
    """Return the profiles of the first columns, and the order of all columns, by explained variance."""
    clusters, medians, explained = views.profiles(rows.X, rows.labels)
    order = np.argsort(-explained, kind="stable")
    levels = np.clip(np.round(medians / COLOR_STEP), -MAX_LEVEL, MAX_LEVEL).astype(int)

    def cells(j: int) -> list[ProfileCell]:
        return [
            ProfileCell(int(cluster), int(levels[k, j]), f"{medians[k, j]:+.1f}") for k, cluster in enumerate(clusters)
        ]

    first = [Profile(names.columns[j], f"{explained[j]:.0%}", cells(j)) for j in order[:PROFILE_COLUMNS]]
    return first, order


def typical_rows(rows: Sample, centers: Floats, order: NDArray[np.intp], names: Names) -> list[ListedRow]:
    """Return the rows nearest to each centre."""
    distances = np.square(rows.Psi - centers[rows.labels]).sum(1)
    found = []
    for cluster in np.unique(rows.labels):
        own = np.flatnonzero(rows.labels == cluster)
        for at in own[np.argsort(distances[own], kind="stable")[:TYPICAL_ROWS]]:
            found.append(ListedRow(int(cluster), names.row(rows.rows[at]), _cells(rows, at, order)))
    return found


def uncertain_rows(rows: Sample, proba: Floats, order: NDArray[np.intp], names: Names) -> list[ListedRow]:
    """Return the rows with the smallest difference between the probabilities of the first and the second cluster."""
    if proba.shape[1] == 1:
        return []
    best = np.argsort(-proba, axis=1)[:, :2]
    at = np.arange(len(best))
    margin = proba[at, best[:, 0]] - proba[at, best[:, 1]]
    return [
        ListedRow(
            int(rows.labels[i]),
            names.row(rows.rows[i]),
            _cells(rows, i, order),
            certainty=f"{proba[i].max():.2f}",
            next_cluster=f"{best[i, 1]} ({proba[i, best[i, 1]]:.2f})",
        )
        for i in np.argsort(margin, kind="stable")[:UNCERTAIN_ROWS]
    ]


def agreement(rows: Sample, target: ArrayLike | None) -> Agreement | None:
    """Compare the clusters with known labels; the table lists the largest classes, at most `MAX_CLASSES`."""
    if target is None:
        return None
    known = np.asarray(target)[rows.rows].astype(str)
    classes, counts = np.unique(known, return_counts=True)
    clusters = np.unique(rows.labels).tolist()
    table = contingency_matrix(known, rows.labels)
    listed = np.sort(np.argsort(-counts, kind="stable")[:MAX_CLASSES])
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


def _cells(rows: Sample, at: int, order: NDArray[np.intp]) -> list[str]:
    """Return the values of a row in the first columns."""
    return [f"{rows.X[at, j]:.4g}" for j in order[:ROW_COLUMNS]]
