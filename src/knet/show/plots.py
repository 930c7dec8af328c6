"""Plots of a fitted model, with matplotlib: each function takes (model, X, ax=None) and returns the Axes.

No function calls `show`, and only `animation` writes a file. Large data are sampled, and the note below the title gives
the size of the sample. The eight colours are safe for colour-blind readers; further clusters repeat them with other
markers, and each cluster is labelled with its number.
"""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from sklearn.utils.validation import check_is_fitted

from knet.arrays import Floats, Labels
from knet.estimator import KNet
from knet.explore.explain import explain
from knet.explore.samples import Sample, column_names, sample_rows
from knet.explore.scan import MIN_JUMP, MIN_STABILITY, Scan
from knet.files import whole_file
from knet.show import views
from knet.show.palette import COLORS, MARKERS

# The maximum number of rows in a plot.
SCATTER_ROWS, MATRIX_ROWS, SILHOUETTE_ROWS, SPECTRUM_ROWS = 5000, 400, 2000, 800
RING: dict[str, Any] = {"s": 140, "facecolors": "none", "edgecolors": "black", "zorder": 3}  # marks the best point
WHITE_TO_BLUE = LinearSegmentedColormap.from_list("white_to_blue", ["#ffffff", "#6baed6", "#08306b"])


def color(cluster: int) -> str:
    """Return the colour of a cluster; from the ninth cluster on, the colours repeat with another marker."""
    return COLORS[cluster % len(COLORS)]


def marker(cluster: int) -> str:
    """Return the marker of a cluster."""
    return MARKERS[cluster // len(COLORS) % len(MARKERS)]


def data(model: KNet, X: Any, ax: Axes | None = None, *, max_rows: int = SCATTER_ROWS, random_state: int = 0) -> Axes:
    """Draw the scaled rows, each in the colour of its cluster."""
    drawn = sample_rows(model, X, max_rows, random_state=random_state)
    return _scatter(drawn, drawn.scaled, "Data", _axes(ax))


def embedding(
    model: KNet, X: Any, ax: Axes | None = None, *, max_rows: int = SCATTER_ROWS, random_state: int = 0
) -> Axes:
    """Draw the embedded rows psi(X), each in the colour of its cluster."""
    drawn = sample_rows(model, X, max_rows, random_state=random_state)
    return _scatter(drawn, drawn.Psi, "Embedding", _axes(ax))


def raw_kernel(
    model: KNet, X: Any, ax: Axes | None = None, *, max_rows: int = MATRIX_ROWS, random_state: int = 0
) -> Axes:
    """Draw the Gaussian kernel matrix of the scaled rows, of width `sigma_`, ordered by cluster: 0 is white, 1 blue."""
    drawn = sample_rows(model, X, max_rows, random_state=random_state)
    return _matrix(drawn, drawn.scaled, model.sigma_, "Kernel of the data", _axes(ax))


def learned_kernel(
    model: KNet, X: Any, ax: Axes | None = None, *, max_rows: int = MATRIX_ROWS, random_state: int = 0
) -> Axes:
    """Draw the Gaussian kernel matrix of the embedded rows, ordered by cluster; a dark block per cluster."""
    drawn = sample_rows(model, X, max_rows, random_state=random_state)
    return _matrix(drawn, drawn.Psi, model.sigma_, "Learned kernel", _axes(ax))


def figure1(model: KNet, X: Any, *, title: str | None = None, random_state: int = 0) -> Figure:
    """Return the paper's Figure 1: data and its kernel matrix above, embedding and learned kernel matrix below."""
    figure = Figure(figsize=(8.4, 7.4), layout="constrained")
    axes = figure.subplots(2, 2)
    points = sample_rows(model, X, SCATTER_ROWS, random_state=random_state)
    rows = points.thin(MATRIX_ROWS, random_state)
    _scatter(points, points.scaled, "Data", axes[0, 0])
    _matrix(rows, rows.scaled, model.sigma_, "Kernel of the data", axes[0, 1])
    _scatter(points, points.Psi, "Embedding", axes[1, 0])
    _matrix(rows, rows.Psi, model.sigma_, "Learned kernel", axes[1, 1])
    figure.colorbar(axes[1, 1].images[0], ax=axes[:, 1], shrink=0.6, aspect=40, label="kernel value")
    if title:
        figure.suptitle(title)
    return figure


def history(model: KNet, X: Any = None, ax: Axes | None = None) -> Axes:
    """Draw HSIC, the change of K_U and, if there is a decoder, the reconstruction error over the iterations."""
    check_is_fitted(model)
    ax = _axes(ax)
    iterations = [row["iteration"] for row in model.history_]
    change = ax.twinx()
    lines = ax.plot(iterations, [row["hsic"] for row in model.history_], "o-", color=COLORS[0], label="HSIC (left)")
    lines += change.plot(
        iterations, [row["u_change"] for row in model.history_], "^--", color=COLORS[4], label="change of K_U (right)"
    )
    errors = [row["reconstruction"] for row in model.history_]
    if any(errors):
        lines += change.plot(iterations, errors, "s:", color=COLORS[2], label="reconstruction error (right)")
    change.axhline(model.tol, color=COLORS[4], linewidth=0.8, linestyle=":")
    if model.best_iter_:
        ax.axvline(model.best_iter_, color="#999999", linewidth=0.8, linestyle="--")
    change.set_ylim(bottom=0)
    ax.set_xlabel("iteration")
    ax.set_xlim(0.5, max(1, model.n_iter_) + 0.5)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(handles=lines, fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3)
    kept = f"iteration {model.best_iter_} of {model.n_iter_} was kept (dashed line)"
    _title(ax, "Training", (kept if model.best_iter_ else "the start was kept", f"dotted line: tol={model.tol:g}"))
    return ax


def spectrum(
    model: KNet, X: Any, ax: Axes | None = None, *, n_values: int | None = None, random_state: int = 0
) -> Axes:
    """Draw the largest eigenvalues of the raw and the learned kernel; c clusters give a gap after c - 1 of them."""
    drawn = sample_rows(model, X, SPECTRUM_ROWS, random_state=random_state)
    ax = _axes(ax)
    n_values = max(10, 2 * model.n_clusters) if n_values is None else n_values
    for points, name, line, tint in ((drawn.scaled, "data", "s--", COLORS[1]), (drawn.Psi, "learned", "o-", COLORS[0])):
        values = views.spectrum(points, model.sigma_, n_values)
        ax.plot(np.arange(1, len(values) + 1), values, line, color=tint, label=name)
    ax.axvline(model.n_clusters - 0.5, color="#999999", linewidth=0.8)
    ax.set_xlabel("eigenvalue")
    ax.set_ylim(bottom=0)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(fontsize=8, frameon=False)
    note = f"eigenvalues near 1 expected for {model.n_clusters} separate clusters: {model.n_clusters - 1}"
    _title(ax, "Spectrum", (note, drawn.size_note))
    return ax


def selection(model: KNet, X: Any = None, ax: Axes | None = None) -> Axes:
    """Draw the conductance of every candidate for the start, and mark the chosen one."""
    check_is_fitted(model)
    rows = getattr(model, "selection_", None)
    if not rows:
        raise ValueError(
            "This model has no record of the choice of its start. There is one only if it was fitted with sigma='auto'."
        )
    ax = _axes(ax)
    ordered = sorted(rows, key=lambda row: -float(row["conductance"]))
    tints = [color(0) if row["chosen"] else "0.75" for row in ordered]
    ax.barh([row["method"] for row in ordered], [row["conductance"] for row in ordered], color=tints)
    ax.set_xscale("log")
    ax.set_xlabel("conductance (lower is better)")
    ax.tick_params(axis="y", labelsize=8)
    chosen = next(row for row in rows if row["chosen"])
    _title(ax, "Candidates for the start", (f"chosen: {chosen['method']}",))
    return ax


def scan(result: Scan, ax: Axes | None = None) -> Axes:
    """Draw the result of `knet.scan`: stability of each number of clusters, and the jump in conductance after it."""
    ax = _axes(ax)
    counts, stability, jump = ([row[name] for row in result.table] for name in ("n_clusters", "stability", "jump"))
    jumps = ax.twinx()
    jumps.bar(counts, jump, bottom=1e-3, width=0.5, color=color(5), alpha=0.5)
    jumps.axhline(MIN_JUMP, color=color(5), linestyle=":", linewidth=1)
    jumps.set_yscale("log")
    jumps.set_ylim(0.5, max(10.0, 2 * max(jump)))
    jumps.set_ylabel("jump in conductance (bars)")
    ax.plot(counts, stability, marker=MARKERS[0], color=color(0))
    ax.axhline(MIN_STABILITY, color=color(0), linestyle=":", linewidth=1)
    if result.best is not None:
        ax.scatter([result.best], [stability[counts.index(result.best)]], **RING)
    ax.set_zorder(jumps.get_zorder() + 1)
    ax.patch.set_visible(False)
    ax.set_ylim(min(0.0, *stability), 1.05)
    ax.set_xticks(counts)
    ax.set_xlabel("number of clusters")
    ax.set_ylabel("stability under resampling (line)")
    best = "none supported" if result.best is None else f"best: {result.best}"
    _title(ax, "Number of clusters", (best,))
    return ax


def silhouettes(
    model: KNet, X: Any, ax: Axes | None = None, *, space: str = "embedding", random_state: int = 0
) -> Axes:
    """Draw the silhouettes of the clusters.

    `space="data"` is a stricter test than `space="embedding"`: training makes the silhouettes of the embedding large.
    """
    if space not in ("embedding", "data"):
        raise ValueError(f"The 'space' parameter of silhouettes must be 'embedding' or 'data'. Got {space!r} instead.")
    drawn = sample_rows(model, X, SILHOUETTE_ROWS, random_state=random_state)
    points = drawn.Psi if space == "embedding" else drawn.scaled
    return _silhouettes(drawn, points, f"Silhouettes in the {space}", _axes(ax))


def profiles(
    model: KNet,
    X: Any,
    ax: Axes | None = None,
    *,
    max_columns: int = 30,
    max_rows: int = SCATTER_ROWS,
    random_state: int = 0,
) -> Axes:
    """Draw the median of each cluster in each column, as a difference from that of all rows in standard deviations.

    Columns are sorted by the share of their variance that the clusters explain (eta squared).
    """
    drawn = sample_rows(model, X, max_rows, random_state=random_state)
    ax = _axes(ax)
    clusters, medians, explained = views.profiles(drawn.X, drawn.labels)
    order = np.argsort(-explained, kind="stable")[:max_columns]
    names = column_names(model)
    image = ax.imshow(medians[:, order].T, cmap="RdBu_r", vmin=-2, vmax=2, aspect="auto")
    ax.set_xticks(np.arange(len(clusters)), _names(clusters)[0], fontsize=_names(clusters)[1])
    ax.set_yticks(np.arange(len(order)), [_plain(names[j]) for j in order], fontsize=8 if len(order) <= 15 else 6)
    ax.set_xlabel("cluster")
    figure = ax.get_figure()
    if figure is not None:
        figure.colorbar(image, ax=ax, extend="both", label="median, in standard deviations")
    _title(ax, "Profiles", ("columns sorted by explained variance", _hidden(len(names) - len(order)), drawn.size_note))
    return ax


def explanation(model: KNet, X: Any, ax: Axes | None = None, *, max_columns: int = 12, random_state: int = 0) -> Axes:
    """Draw what makes each cluster: its rule, and how much each column adds to the probability of its rows.

    Contributions are means over the rows of a cluster, see `knet.explore.explain.Explanation`. The columns with the
    largest ones are drawn.
    """
    found = explain(model, X, random_state=random_state)
    ax = _axes(ax)
    clusters = [rule.cluster for rule in found.rules]
    means = np.array([found.contributions[found.labels == cluster].mean(0) for cluster in clusters])
    order = np.argsort(-np.abs(means).max(0), kind="stable")[:max_columns]
    limit = max(float(np.abs(means).max()), 1e-3)
    image = ax.imshow(means[:, order], cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
    names = [_plain(found.columns[j]) for j in order]
    ax.set_xticks(np.arange(len(order)), names, fontsize=8, rotation=40, ha="right", rotation_mode="anchor")
    texts = [f"{rule.cluster}: {_plain(rule.text, 60)} ({rule.covers:.0%})" for rule in found.rules]
    ax.set_yticks(np.arange(len(clusters)), texts, fontsize=8 if len(clusters) <= 20 else 5.5)
    figure = ax.get_figure()
    if figure is not None:
        figure.colorbar(image, ax=ax, label="added to the probability")
    note = "rule, with the share of the cluster that satisfies it"
    _title(ax, "What makes each cluster", (note, _hidden(len(found.columns) - len(order))))
    return ax


def animation(model: KNet, path: str | PathLike[str], *, milliseconds: int = 400, size: int = 480) -> None:
    """Write the embedding after each iteration, as in the paper's Figure 2, to an animated GIF or WebP file.

    The suffix of the path gives the format. The model must have been fitted with
    `advanced=Advanced(keep_embeddings=True)`. Colours are those of the final clusters.
    """
    from PIL import Image

    check_is_fitted(model)
    embeddings = getattr(model, "embeddings_", None)
    if embeddings is None:
        raise ValueError(
            "This model has no embeddings to animate. Fit it with KNet(advanced=Advanced(keep_embeddings=True))."
        )
    flat, labels, note = views.plane_of_iterations(np.asarray(embeddings, dtype=np.float64), model.cluster_centers_)
    names = views.names_of_iterations(len(flat), model.best_iter_)
    frames = [Image.fromarray(_frame(*frame, labels, note, size)) for frame in zip(flat, names, strict=True)]
    durations = [milliseconds] * (len(frames) - 1) + [4 * milliseconds]
    kind = {".gif": "GIF", ".webp": "WEBP"}.get(Path(path).suffix.lower())
    if kind is None:
        raise ValueError(f"An animation must end in .gif or .webp. Got {str(path)!r} instead.")
    with whole_file(Path(path)) as temporary:
        frames[0].save(temporary, kind, save_all=True, append_images=frames[1:], duration=durations, loop=0)


def _frame(points: Floats, name: str, labels: Labels, note: str, size: int) -> Any:
    """Return a frame of the animation as an RGB array; the limits of the axes are those of its own points."""
    figure = Figure(figsize=(size / 100, size / 100), dpi=100, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    ax = figure.subplots()
    for cluster in np.unique(labels):
        own = points[labels == cluster]
        ax.scatter(own[:, 0], own[:, 1], s=8, c=color(cluster), marker=marker(cluster), linewidths=0)
    ax.set_aspect("equal", "datalim")
    ax.tick_params(labelsize=8)
    _title(ax, name, (note,))
    canvas.draw()  # type: ignore[no-untyped-call]
    return np.asarray(canvas.buffer_rgba())[..., :3]  # type: ignore[no-untyped-call]


def _axes(ax: Axes | None) -> Axes:
    """Return the given Axes, or those of a new figure."""
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots(layout="constrained")[1]


def _title(ax: Axes, title: str, notes: Sequence[str]) -> None:
    """Set a title, with notes in a smaller font below."""
    small = "; ".join(note for note in notes if note)
    ax.set_title(title, loc="left", fontsize=11, pad=18 if small else 6)
    if small:
        ax.text(0, 1.015, small, transform=ax.transAxes, fontsize=7.5, color="#555555", va="bottom")


def _hidden(n_columns: int) -> str:
    """Return a note on columns that are not drawn; empty if all are."""
    return f"{n_columns} column{'s' * (n_columns > 1)} not shown" if n_columns else ""


def _plain(name: str, max_length: int = 24) -> str:
    """Return a column's name for matplotlib: of bounded length, with dollar signs that do not start a formula."""
    return (name if len(name) <= max_length else name[: max_length - 3] + "...").replace("$", r"\$")


def _names(clusters: Labels) -> tuple[list[str], float]:
    """Return the numbers of the clusters and a font size; if there are many clusters, only every second number."""
    if len(clusters) <= 20:
        return [str(cluster) for cluster in clusters], 8.0
    return [str(cluster) if place % 2 == 0 else "" for place, cluster in enumerate(clusters)], 6.0


def _scatter(drawn: Sample, points: Floats, title: str, ax: Axes) -> Axes:
    """Draw points in the colours of their clusters, and the number of each cluster."""
    flat, note = views.plane(points)
    clusters = np.unique(drawn.labels)
    size = float(np.clip(6000 / max(len(flat), 1), 2, 25))
    for cluster in clusters:
        own = flat[drawn.labels == cluster]
        ax.scatter(
            own[:, 0], own[:, 1], s=size, c=color(cluster), marker=marker(cluster), linewidths=0, rasterized=True
        )
    for cluster in clusters:
        x, y = _middle(flat[drawn.labels == cluster])
        ax.text(x, y, str(cluster), ha="center", va="center", **_badge(cluster, len(clusters)))
    _title(ax, title, (note, drawn.size_note))
    ax.set_aspect("equal", "datalim")
    ax.tick_params(labelsize=8)
    return ax


def _middle(points: Floats) -> Floats:
    """Return the point nearest to the mean, which is inside the cluster even if the cluster is curved."""
    nearest: Floats = points[np.square(points - points.mean(0)).sum(1).argmin()]
    return nearest


def _badge(cluster: int, n_clusters: int) -> dict[str, Any]:
    """Return the text style of a cluster's number; it is smaller if there are many clusters."""
    box = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": color(cluster), "alpha": 0.8}
    return {"fontsize": 8 if n_clusters <= 20 else 5.5, "color": "black", "bbox": box}


def _matrix(drawn: Sample, points: Floats, sigma: float, title: str, ax: Axes) -> Axes:
    """Draw a kernel matrix ordered by cluster, with a tick at the middle of each block."""
    K = views.kernel_matrix(points, drawn.labels, sigma)
    ax.imshow(K, cmap=WHITE_TO_BLUE, vmin=0, vmax=1, interpolation="nearest")
    clusters, counts = np.unique(drawn.labels, return_counts=True)
    ends = np.cumsum(counts)
    width = 0.4 if len(clusters) <= 20 else 0.1
    for end in ends[:-1]:
        ax.axhline(end - 0.5, color="#999999", linewidth=width)
        ax.axvline(end - 0.5, color="#999999", linewidth=width)
    names, size = _names(clusters)
    ax.set_xticks(ends - counts / 2 - 0.5, names, fontsize=size)
    ax.set_yticks(ends - counts / 2 - 0.5, names, fontsize=size)
    ax.tick_params(length=0)
    _title(ax, title, ("rows ordered by cluster", drawn.size_note))
    return ax


def _silhouettes(drawn: Sample, points: Floats, title: str, ax: Axes) -> Axes:
    """Draw the sorted silhouettes of each cluster, and their mean over all rows as a line."""
    values = views.silhouettes(points, drawn.labels)
    start, gap = 0, max(1, len(values) // 100)
    clusters, ticks = np.unique(drawn.labels), []
    for cluster in clusters:
        own = np.sort(values[drawn.labels == cluster])
        ax.fill_betweenx(np.arange(start, start + len(own)), 0, own, color=color(cluster), linewidth=0.5)
        ticks.append(start + len(own) / 2)
        start += len(own) + gap
    ax.axvline(float(values.mean()), color="black", linewidth=0.8, linestyle="--")
    ax.set_yticks(ticks, _names(clusters)[0], fontsize=_names(clusters)[1])
    ax.invert_yaxis()
    ax.set_xlim(min(-0.1, float(values.min())), 1)
    ax.set_ylabel("cluster")
    _title(ax, title, (f"mean {values.mean():.2f}", drawn.size_note))
    return ax
