"""What the report says about a model and its data, as plain data; nothing here knows about HTML.

The time is bounded for any number of rows: everything is computed on samples of at most 50,000 rows, and the
fingerprint of the data reads at most 10,000 rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from knet._math.arrays import Floats
from knet.estimator import KNet
from knet.inspect import views
from knet.inspect.palette import COLORS
from knet.inspect.samples import POOL_ROWS, Sample, column_names, sample_rows
from knet.model_file import versions
from knet.report import tables
from knet.report.canvas import canvas_data
from knet.report.charts import LineChart, SilhouetteChart, line_chart, silhouette_chart
from knet.report.reproduce import reproduce
from knet.report.tables import Agreement, ListedRow, Names, Profile, short
from knet.stability import FAIRLY_STABLE, Stability, sample_stability

# The maximum number of rows in a figure.
SCATTER_ROWS, MATRIX_ROWS, SILHOUETTE_ROWS, SPECTRUM_ROWS = 3000, 220, 1500, 800
CLUSTER_KEPT = 0.5  # Jaccard index from which refits find a cluster again
SMALL_CLUSTER = 0.01  # share of the rows
CERTAIN, MANY = 0.7, 0.05  # a certainty, and the share of rows below it that deserves a warning


@dataclass(frozen=True)
class Findings:
    """Everything that the report says, in the order of the page."""

    source: str
    n_rows: int
    n_columns: int
    n_train: int
    n_iter: int
    size_note: str
    verdict: str
    warnings: list[str]
    sizes: list[tuple[int, int, str]]
    data_note: str
    embedding_note: str
    n_points: int
    n_kernel: int
    n_frames: int
    charts: list[LineChart]
    silhouettes: list[SilhouetteChart]
    profiles: list[Profile]
    more_columns: int
    row_columns: list[str]
    typical: list[ListedRow]
    uncertain: list[ListedRow]
    agreement: Agreement | None
    reproduce: str
    versions: dict[str, str]
    colors: tuple[str, ...]
    canvas: dict[str, Any]  # the data of the page's script


def collect(
    model: KNet,
    X: Any,
    *,
    target: ArrayLike | None,
    ids: Sequence[Any] | None,
    source: str,
    command: str | None,
    labels: ArrayLike | None,
    stability: Stability | None,
    n_refits: int,
    random_state: int,
) -> Findings:
    """Return everything that the report says; the parameters are those of `knet.report.report`."""
    rows = sample_rows(model, X, POOL_ROWS, random_state=random_state, labels=labels)
    proba = model.predictor_.memberships(rows.X)
    names = Names([short(name) for name in column_names(model)], ids)
    profiles, order = tables.profiles(rows, names)
    if stability is None:
        stability = sample_stability(model, rows, n_refits=n_refits, random_state=random_state)
    few = rows.thin(SILHOUETTE_ROWS, random_state)
    silhouettes = [views.silhouettes(values, few.labels) for values in (few.scaled, few.Psi)]
    points, matrix = rows.thin(SCATTER_ROWS, random_state), rows.thin(MATRIX_ROWS, random_state)
    (data_plane, data_note), (embedding_plane, embedding_note) = views.plane(points.scaled), views.plane(points.Psi)
    planes = {"data": data_plane, "embedding": embedding_plane}
    canvas = canvas_data(model, points, planes, matrix, names, order, random_state)
    clusters, counts = np.unique(rows.labels, return_counts=True)
    shares = [f"{count / len(rows.labels):.1%}" for count in counts]
    return Findings(
        source=source,
        n_rows=rows.n_rows,
        n_columns=model.n_features_in_,
        n_train=model.n_train_,
        n_iter=model.n_iter_,
        size_note=rows.size_note,
        verdict=_verdict(rows, stability, [float(values.mean()) for values in silhouettes]),
        warnings=_warnings(model, rows, proba, stability),
        sizes=list(zip(clusters.tolist(), counts.tolist(), shares, strict=True)),
        data_note=data_note,
        embedding_note=embedding_note,
        n_points=len(points.rows),
        n_kernel=len(matrix.rows),
        n_frames=len(canvas["iterations"]),
        charts=_charts(model, rows.thin(SPECTRUM_ROWS, random_state)),
        silhouettes=[
            silhouette_chart(f"In the {space}", values, few.labels)
            for space, values in zip(planes, silhouettes, strict=True)
        ],
        profiles=profiles,
        more_columns=len(order) - len(profiles),
        row_columns=[names.columns[j] for j in order[: tables.ROW_COLUMNS]],
        typical=tables.typical_rows(rows, model.cluster_centers_, order, names),
        uncertain=tables.uncertain_rows(rows, proba, order, names),
        agreement=tables.agreement(rows, target),
        reproduce=reproduce(model, X, command),
        versions=versions(),
        colors=COLORS,
        canvas=canvas,
    )


def _verdict(rows: Sample, stability: Stability | None, silhouettes: list[float]) -> str:
    """Return the result in a few sentences."""
    counts = np.unique(rows.labels, return_counts=True)[1]
    shares = sorted((count / len(rows.labels) for count in counts), reverse=True)
    text = f"{len(counts)} clusters: the largest has {shares[0]:.1%} of the rows, the smallest {shares[-1]:.1%}."
    if len(counts) == 1:
        text = "One cluster contains all rows."
    if stability is not None:
        word, overall = stability.word, stability.overall
        refits = f"{stability.n_refits} refit{'s' * (stability.n_refits != 1)}"
        text += (
            f" The clusters are {word}: their mean adjusted Rand index with {refits} on other rows is {overall:.2f} "
            "(1 = identical)."
        )
    return text + f" Mean silhouette: {silhouettes[0]:.2f} in the data, {silhouettes[1]:.2f} in the embedding."


def _warnings(model: KNet, rows: Sample, proba: Floats, stability: Stability | None) -> list[str]:
    """Return what a reader should know before using the clusters."""
    found = []
    change = model.history_[-1]["u_change"] if model.history_ else 0.0
    from_partition = bool(getattr(model, "selection_", None))  # then training stops on the agreement with it
    if not from_partition and model.n_iter_ >= model.max_iter and change >= model.tol:
        found.append(
            f"Training stopped after {model.n_iter_} iterations, before it converged: U still changed by {change:.2g} "
            f"(tol={model.tol:g}). Increase max_iter."
        )
    clusters, counts = np.unique(rows.labels, return_counts=True)
    if len(clusters) < model.n_clusters:
        found.append(f"Only {len(clusters)} of the {model.n_clusters} clusters contain rows.")
    small = [str(cluster) for cluster, n in zip(clusters, counts, strict=True) if n < SMALL_CLUSTER * len(rows.labels)]
    if small:
        found.append(f"Clusters with less than {SMALL_CLUSTER:.0%} of the rows: {', '.join(small)}.")
    uncertain = float((proba.max(1) < CERTAIN).mean())
    if uncertain > MANY:
        found.append(f"{uncertain:.0%} of the rows belong to their cluster with a certainty below {CERTAIN}.")
    if stability is not None and stability.overall < FAIRLY_STABLE:
        found.append("Refits find other clusters: try other numbers of clusters before you use these.")
    elif stability is not None and (stability.clusters < CLUSTER_KEPT).any():
        unstable = ", ".join(str(cluster) for cluster in np.flatnonzero(stability.clusters < CLUSTER_KEPT))
        found.append(f"Refits do not find these clusters again (overlap below {CLUSTER_KEPT}): {unstable}.")
    return found


def _charts(model: KNet, rows: Sample) -> list[LineChart]:
    """Return the charts of training, of the spectrum and of the choice of the start."""
    n_values = max(10, 2 * model.n_clusters)
    spectra = [views.spectrum(points, model.sigma_, n_values).tolist() for points in (rows.Psi, rows.scaled)]
    series = [(name, list(range(1, len(own) + 1)), own) for name, own in zip(("learned", "data"), spectra, strict=True)]
    c = model.n_clusters
    note = f"expected for {c} separate clusters: {c - 1} near 1, then a gap (dashed line)"
    spectrum = line_chart("Spectrum", series, x_label="eigenvalue", note=note, mark=c - 0.5)
    selection = getattr(model, "selection_", None)
    return [*_training_charts(model), spectrum, *([_selection_chart(selection)] if selection else [])]


def _training_charts(model: KNet) -> list[LineChart]:
    """Return the charts of the objective, with the kept iteration marked, and of the change of U."""
    history, kept = model.history_, model.best_iter_
    if not history:
        return []
    iterations = [row["iteration"] for row in history]
    hsic = {row["iteration"]: row["hsic"] for row in history}
    objective = [("HSIC", iterations, list(hsic.values()))]
    change = [("change of K_U", iterations, [row["u_change"] for row in history])]
    if any(row["reconstruction"] for row in history):
        change.append(("reconstruction error", iterations, [row["reconstruction"] for row in history]))
    note = f"iteration {kept} was kept (dashed line); higher is better" if kept else "the start was kept as it is"
    return [
        line_chart("Objective", objective, x_label="iteration", note=note, mark=kept or None),
        line_chart("Change", change, x_label="iteration", note=f"training stops below {model.tol:g}"),
    ]


def _selection_chart(selection: list[dict[str, Any]]) -> LineChart:
    """Return the chart of the candidates for the start, ordered by conductance."""
    ordered = sorted(selection, key=lambda row: float(row["conductance"]))
    ranks = list(range(1, len(ordered) + 1))
    series = [("conductance", ranks, [row["conductance"] for row in ordered])]
    place = next(rank for rank, row in zip(ranks, ordered, strict=True) if row["chosen"])
    note = f"lower is better; the start comes from '{ordered[place - 1]['method']}' (dashed line)"
    return line_chart("Candidates for the start", series, x_label="rank of the candidate", note=note, mark=place)
