"""What the report says about a model and its data, as plain data; nothing here knows about HTML.

The time is bounded for any number of rows: everything is computed on samples of at most 50,000 rows, and the
fingerprint of the data reads at most 10,000 rows.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from knet.estimator import KNet
from knet.explore.explain import importance
from knet.explore.features import describe_columns
from knet.explore.rules import find_rules
from knet.explore.samples import POOL_ROWS, Sample, sample_rows
from knet.explore.stability import Stability, sample_stability
from knet.model.file import versions
from knet.show import notes, tables, views
from knet.show.canvas import canvas_data
from knet.show.charts import BarChart, LineChart, SilhouetteChart, bar_chart, line_chart, silhouette_chart
from knet.show.palette import CORNERS
from knet.show.reproduce import reproduce
from knet.show.tables import Agreement, ClusterRow, ListedRow, Profile, RowNames

# The maximum number of rows in a figure.
SCATTER_ROWS, MATRIX_ROWS, SILHOUETTE_ROWS, SPECTRUM_ROWS = 3000, 220, 1500, 800


@dataclass(frozen=True)
class Findings:
    """Everything that the report says, in the order of the page."""

    source: str
    n_rows: int
    n_columns: int
    n_train: int
    n_iter: int
    size_note: str
    verdict: list[str]
    warnings: list[str]
    clusters: list[ClusterRow]
    profiles: list[Profile]
    more_columns: int
    row_columns: list[str]
    typical: list[ListedRow]
    uncertain: list[ListedRow]
    n_uncertain: int
    unfamiliar: list[ListedRow]
    data_note: str
    embedding_note: str
    n_points: int
    agreement: Agreement | None
    n_kernel: int
    sigma: str
    n_frames: int
    training_note: str
    charts: list[LineChart]
    selection: BarChart | None
    silhouettes: list[SilhouetteChart]
    reproduce: str
    versions: dict[str, str]
    corners: Sequence[Sequence[tuple[float, float]]]
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
    """Return everything that the report says; the parameters are those of `knet.show.page.report`."""
    rows = sample_rows(model, X, POOL_ROWS, random_state=random_state, labels=labels)
    if stability is None:
        stability = sample_stability(model, X, rows, n_refits=n_refits, random_state=random_state)
    predictor = model.predictor_
    proba, scores = predictor.memberships(rows.X), predictor.familiarity(rows.X)
    features = describe_columns(model, rows.X)
    shares = importance(rows.X, rows.labels, features)
    clusters = tables.cluster_rows(rows, proba, stability, find_rules(rows.X, rows.labels, features, random_state))
    profiles = tables.profiles(rows, features, shares)
    names = RowNames(rows, features, shares, ids)
    few = rows.thin(SILHOUETTE_ROWS, random_state)
    points, matrix = rows.thin(SCATTER_ROWS, random_state), rows.thin(MATRIX_ROWS, random_state)
    (data_plane, data_note), (embedding_plane, embedding_note) = views.plane(points.scaled), views.plane(points.Psi)
    data_note = _of_components(model, data_note)
    planes = {"data": data_plane, "embedding": embedding_plane}
    canvas = canvas_data(model, points, planes, matrix, names, random_state)
    certainty = proba.max(1)
    return Findings(
        source=source,
        n_rows=rows.n_rows,
        n_columns=len(features),
        n_train=model.n_train_,
        n_iter=model.n_iter_,
        size_note=rows.size_note,
        verdict=notes.verdict(clusters, rows.n_rows, float(certainty.mean()), stability),
        warnings=notes.warnings(model, rows, proba, stability, random_state),
        clusters=clusters,
        profiles=profiles,
        more_columns=sum(len(feature.places) for feature in features) - len(profiles),
        row_columns=names.columns,
        typical=tables.typical_rows(names, scores),
        uncertain=tables.uncertain_rows(names, proba),
        n_uncertain=int((certainty < tables.SURE).sum()),
        unfamiliar=tables.unfamiliar_rows(names, scores),
        data_note=data_note,
        embedding_note=embedding_note,
        n_points=len(points.rows),
        agreement=tables.agreement(rows, target),
        n_kernel=len(matrix.rows),
        sigma=f"{model.sigma_:.4g}",
        n_frames=len(canvas["iterations"]),
        training_note=_training_note(model),
        charts=[*_training_charts(model), _spectrum_chart(model, rows.thin(SPECTRUM_ROWS, random_state))],
        selection=_selection_chart(getattr(model, "selection_", None)),
        silhouettes=[
            silhouette_chart(f"In the {space}", views.silhouettes(values, few.labels), few.labels)
            for space, values in (("data", few.scaled), ("embedding", few.Psi))
        ],
        reproduce=reproduce(model, X, command),
        versions=versions(),
        corners=CORNERS,
        canvas=canvas,
    )


def _spectrum_chart(model: KNet, rows: Sample) -> LineChart:
    """Return the chart of the eigenvalues of the kernels."""
    c = model.n_clusters
    spectra = [views.spectrum(points, model.sigma_, max(10, 2 * c)).tolist() for points in (rows.Psi, rows.scaled)]
    series = [(name, list(range(1, len(own) + 1)), own) for name, own in zip(("learned", "data"), spectra, strict=True)]
    note = f"expected for {c} separate clusters: {c - 1} near 1, then a gap (dashed line)"
    return line_chart("Spectrum", series, x_label="eigenvalue", note=note, mark=c - 0.5)


def _training_note(model: KNet) -> str:
    """Return how training went, in a sentence."""
    if not model.history_:
        return "The encoder was not trained."
    last = model.history_[-1]
    kept = f"iteration {model.best_iter_} was kept" if model.best_iter_ else "the start was kept as it is"
    count = f"{model.n_iter_} iteration{'s' * (model.n_iter_ != 1)}"
    return f"{count}; {kept}; HSIC {last['hsic']:.3g}, change of K_U {last['u_change']:.2g} in the last one."


def _training_charts(model: KNet) -> list[LineChart]:
    """Return the charts of the objective and of the change of U, with the kept iteration marked."""
    history, kept = model.history_, model.best_iter_
    if len(history) < 2:  # the sentence says it
        return []
    iterations = [row["iteration"] for row in history]
    objective = [("HSIC", iterations, [row["hsic"] for row in history])]
    change = [("change of K_U", iterations, [row["u_change"] for row in history])]
    if any(row["reconstruction"] for row in history):
        change.append(("reconstruction error", iterations, [row["reconstruction"] for row in history]))
    note = f"iteration {kept} was kept (dashed line); higher is better" if kept else "the start was kept as it is"
    stops = f"training stops below {model.tol:g} (dotted line)"
    if getattr(model, "selection_", None):
        stops += ", or if the clusters no longer agree with the start"
    return [
        line_chart("Objective", objective, x_label="iteration", note=note, mark=kept or None),
        line_chart("Change", change, x_label="iteration", note=stops, mark=kept or None, level=model.tol),
    ]


def _of_components(model: KNet, note: str) -> str:
    """Return the note on the picture of the data, which shows principal components if the columns were projected."""
    projection = model.predictor_.preparation.projection
    if projection is None:
        return note
    components = f"{projection.shape[1]} principal components of {projection.shape[0]} columns"
    return f"{note}; these are {components}" if note else components


def _selection_chart(selection: list[dict[str, Any]] | None) -> BarChart | None:
    """Return the chart of the candidates for the start, the smallest conductance first, with the chosen one marked."""
    if not selection:
        return None
    ordered = sorted(selection, key=lambda row: float(row["conductance"]))
    bars = [(tables.short(row["method"]), float(row["conductance"]), bool(row["chosen"])) for row in ordered]
    chosen = next(row["method"] for row in ordered if row["chosen"])
    note = f"conductance (lower is better); likelihood counts as well; the start comes from '{chosen}'"
    return bar_chart("Candidates for the start", bars, note)
