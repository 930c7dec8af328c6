"""Plots of a fitted model, with matplotlib: each function takes (model, X, ax=None) and returns the Axes.

No function calls `show`, and only `animation` writes a file. Large data are sampled, and the note below the title gives
the size of the sample. The eight colours are safe for colour-blind readers; further clusters repeat them with other
markers, and each cluster is labelled with its number. The report shows the same figures.
"""

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch

try:
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator
except ImportError as error:
    raise ImportError("Plots need matplotlib. Install it with: pip install 'knet-clustering[plots]'") from error
from sklearn.metrics import silhouette_samples
from sklearn.utils.validation import check_is_fitted

from knet.estimator import KNet
from knet.explore.explain import explain
from knet.explore.features import describe_columns, importance
from knet.explore.samples import sample_rows
from knet.explore.scan import MIN_JUMP, MIN_STABILITY, Scan
from knet.files import check_new, whole_file
from knet.show import drawing
from knet.show.drawing import COLORS, MARKERS, color, marker
from knet.show.planes import data_plane, plane, plane_of_iterations
from knet.show.profiles import profiles as find_profiles
from knet.train.laplacians import DenseLaplacian

__all__ = ["animation", "color", "data", "embedding", "explanation", "figure1", "history", "iteration"]
__all__ += ["learned_kernel", "marker", "profiles", "raw_kernel", "scan", "selection", "silhouettes", "spectrum"]

# The maximum number of rows in a plot.
SCATTER_ROWS, MATRIX_ROWS, SILHOUETTE_ROWS, SPECTRUM_ROWS = 5000, 300, 2000, 800
RING: dict[str, Any] = {"s": 140, "facecolors": "none", "edgecolors": "black", "zorder": 3}  # marks the best point
GREY_LINE: dict[str, Any] = {"color": "#888888", "linewidth": 0.8}


def data(model: KNet, X: Any, ax: Axes | None = None, *, max_rows: int = SCATTER_ROWS, random_state: int = 0) -> Axes:
    """Draw the scaled rows, each in the colour of its cluster."""
    drawn = sample_rows(model, X, max_rows, random_state=random_state)
    flat, note = data_plane(model, drawn)
    return drawing.scatter(drawing.axes(ax), drawn, flat, "Data", note)


def embedding(
    model: KNet, X: Any, ax: Axes | None = None, *, max_rows: int = SCATTER_ROWS, random_state: int = 0
) -> Axes:
    """Draw the embedded rows psi(X), each in the colour of its cluster."""
    drawn = sample_rows(model, X, max_rows, random_state=random_state)
    flat, note = plane(drawn.Psi)
    return drawing.scatter(drawing.axes(ax), drawn, flat, "Embedding", note)


def raw_kernel(
    model: KNet, X: Any, ax: Axes | None = None, *, max_rows: int = MATRIX_ROWS, random_state: int = 0
) -> Axes:
    """Draw the Gaussian kernel matrix of the scaled rows, of width `sigma_`, ordered by cluster: 0 is white, 1 blue."""
    drawn = sample_rows(model, X, max_rows, random_state=random_state)
    return drawing.kernel(drawing.axes(ax), drawn, drawn.scaled, model.sigma_, "Kernel of the data")


def learned_kernel(
    model: KNet, X: Any, ax: Axes | None = None, *, max_rows: int = MATRIX_ROWS, random_state: int = 0
) -> Axes:
    """Draw the Gaussian kernel matrix of the embedded rows, ordered by cluster; a dark block per cluster."""
    drawn = sample_rows(model, X, max_rows, random_state=random_state)
    return drawing.kernel(drawing.axes(ax), drawn, drawn.Psi, model.sigma_, "Learned kernel")


def figure1(model: KNet, X: Any, *, title: str | None = None, random_state: int = 0) -> Figure:
    """Return the paper's Figure 1: data and its kernel matrix above, embedding and learned kernel matrix below."""
    figure = Figure(figsize=(8.4, 7.4), layout="constrained")
    axes = figure.subplots(2, 2)
    rows = sample_rows(model, X, SCATTER_ROWS, random_state=random_state)
    for ax, plot in zip(axes.flat, (data, raw_kernel, embedding, learned_kernel), strict=True):
        plot(model, rows, ax, random_state=random_state)
    figure.colorbar(axes[1, 1].images[0], ax=axes[:, 1], shrink=0.6, aspect=40, label="kernel value")
    if title:
        figure.suptitle(title, parse_math=False)
    return figure


def history(model: KNet, X: Any = None, ax: Axes | None = None) -> Axes:
    """Draw HSIC, the change of K_U and, if there is a decoder, the reconstruction error over the iterations."""
    check_is_fitted(model)
    ax = drawing.axes(ax)
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
        ax.axvline(model.best_iter_, linestyle="--", **GREY_LINE)
    change.set_ylim(bottom=0)
    ax.ticklabel_format(axis="y", useOffset=False)  # an offset would cover the note
    ax.set_xlabel("iteration")
    ax.set_xlim(0.5, max(1, model.n_iter_) + 0.5)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(handles=lines, fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3)
    kept = f"iteration {model.best_iter_} of {model.n_iter_} was kept (dashed line)"
    drawing.title(
        ax, "Training", kept if model.best_iter_ else "the start was kept as it is", f"dotted line: tol={model.tol:g}"
    )
    return ax


def spectrum(
    model: KNet, X: Any, ax: Axes | None = None, *, n_values: int | None = None, random_state: int = 0
) -> Axes:
    """Draw the largest eigenvalues of the raw and the learned kernel; c clusters give a gap after c - 1 of them."""
    drawn = sample_rows(model, X, SPECTRUM_ROWS, random_state=random_state)
    ax, c = drawing.axes(ax), model.n_clusters
    n_values = min(max(10, 2 * c) if n_values is None else n_values, len(drawn.rows) - 1)
    for points, name, line, tint in ((drawn.scaled, "data", "s--", COLORS[1]), (drawn.Psi, "learned", "o-", COLORS[0])):
        values = DenseLaplacian(torch.from_numpy(points), model.sigma_).largest(n_values)[0].numpy()
        ax.plot(np.arange(1, len(values) + 1), values, line, color=tint, label=name)
    ax.axvline(c - 0.5, linestyle="--", **GREY_LINE)
    ax.set_xlabel("eigenvalue")
    ax.set_ylim(bottom=0)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(fontsize=8, frameon=False)
    note = f"{c} separate clusters: {c - 1} near 1, then a gap (dashed line)"
    drawing.title(ax, "Spectrum", note, drawn.size_note)
    return ax


def selection(model: KNet, X: Any = None, ax: Axes | None = None) -> Axes:
    """Draw the conductance of every candidate for the start, and mark the chosen one."""
    check_is_fitted(model)
    rows = getattr(model, "selection_", None)
    if not rows:
        raise ValueError(
            "This model has no record of the choice of its start. There is one only if it was fitted with sigma='auto'."
        )
    ax = drawing.axes(ax)
    ordered = sorted(rows, key=lambda row: -float(row["conductance"]))
    chosen = next(drawing.plain(row["method"], 40) for row in rows if row["chosen"])
    places = np.arange(len(ordered))
    tints = [color(0) if row["chosen"] else "0.75" for row in ordered]
    bars = ax.barh(places, [row["conductance"] for row in ordered], color=tints)
    ax.bar_label(bars, fmt="%.3g", fontsize=7.5, padding=3)
    ax.set_yticks(places, [drawing.plain(row["method"], 40) for row in ordered], fontsize=8)
    ax.set_xlabel("conductance (lower is better; likelihood counts as well)", fontsize=8)
    ax.margins(x=0.25)
    ax.tick_params(axis="x", labelsize=8)
    drawing.title(ax, "Candidates for the start", f"chosen: {chosen}")
    return ax


def scan(result: Scan, ax: Axes | None = None) -> Axes:
    """Draw the result of `knet.scan`: stability of each number of clusters, and the jump in conductance after it."""
    ax = drawing.axes(ax)
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
    drawing.title(ax, "Number of clusters", "none supported" if result.best is None else f"best: {result.best}")
    return ax


def silhouettes(
    model: KNet, X: Any, ax: Axes | None = None, *, space: str = "embedding", random_state: int = 0
) -> Axes:
    """Draw the sorted silhouettes of each cluster, and their mean over all rows; zeros if there is one cluster.

    `space="data"` is a stricter test than `space="embedding"`: training makes the silhouettes of the embedding large.
    """
    if space not in ("embedding", "data"):
        raise ValueError(f"The 'space' parameter of silhouettes must be 'embedding' or 'data'. Got {space!r} instead.")
    drawn = sample_rows(model, X, SILHOUETTE_ROWS, random_state=random_state)
    points, clusters = drawn.Psi if space == "embedding" else drawn.scaled, np.unique(drawn.labels)
    known = 2 <= len(clusters) < len(drawn.labels)
    values = silhouette_samples(points, drawn.labels) if known else np.zeros(len(drawn.labels))
    ax, start, ticks = drawing.axes(ax), 0, []
    for cluster in clusters:
        own = np.sort(values[drawn.labels == cluster])
        ax.fill_betweenx(np.arange(start, start + len(own)), 0, own, color=color(cluster), linewidth=0.5)
        ticks.append(start + len(own) / 2)
        start += len(own) + max(1, len(values) // 100)
    ax.axvline(float(values.mean()), linestyle="--", color="black", linewidth=0.8)
    ax.set_yticks(ticks, **drawing.cluster_ticks(clusters))
    ax.invert_yaxis()
    ax.set_xlim(min(-0.1, float(values.min())), 1)
    ax.set_ylabel("cluster")
    drawing.title(ax, f"Silhouettes in the {space}", f"mean {values.mean():.2f} (dashed line)", drawn.size_note)
    return ax


def profiles(model: KNet, X: Any, ax: Axes | None = None, *, max_columns: int = 30, random_state: int = 0) -> Axes:
    """Draw the median of each cluster in each column, as a difference from that of all rows in standard deviations.

    Of categories and 0/1 columns, it is the share of rows. Columns are sorted by the share of their variance that the
    clusters explain (eta squared).
    """
    drawn = sample_rows(model, X, SCATTER_ROWS, random_state=random_state)
    features, ax = describe_columns(model, drawn.X), drawing.axes(ax)
    found = find_profiles(drawn, features, importance(drawn.X, drawn.labels, features), max_columns)
    names = [drawing.plain(profile.name) for profile in found]
    image = ax.imshow([profile.deviations for profile in found], cmap="RdBu_r", vmin=-2, vmax=2, aspect="auto")
    clusters = np.unique(drawn.labels)
    ax.set_xticks(np.arange(len(clusters)), **drawing.cluster_ticks(clusters))
    ax.set_yticks(np.arange(len(names)), names, fontsize=8 if len(names) <= 15 else 6)
    ax.set_xlabel("cluster")
    ax.figure.colorbar(image, ax=ax, label="difference, in standard deviations", extend="both")
    n_hidden = drawn.X.shape[1] - len(found)
    drawing.title(
        ax, "Profiles", "columns sorted by explained variance", drawing.hidden_columns(n_hidden), drawn.size_note
    )
    return ax


def explanation(model: KNet, X: Any, ax: Axes | None = None, *, max_columns: int = 12, random_state: int = 0) -> Axes:
    """Draw what makes each cluster: its rule, and how much each column adds to the probability of its rows.

    Contributions are means over the rows of a cluster, see `knet.explore.explain.Explanation`. The columns with the
    largest ones are drawn.
    """
    found = explain(model, X, random_state=random_state)
    ax = drawing.axes(ax)
    clusters = [rule.cluster for rule in found.rules]
    means = np.array([found.contributions[found.labels == cluster].mean(0) for cluster in clusters])
    order = np.argsort(-np.abs(means).max(0), kind="stable")[:max_columns]
    limit = max(float(np.abs(means).max()), 1e-3)
    image = ax.imshow(means[:, order], cmap="RdBu_r", vmin=-limit, vmax=limit, aspect="auto")
    names = [drawing.plain(found.columns[j]) for j in order]
    ax.set_xticks(np.arange(len(order)), names, fontsize=8, rotation=40, ha="right", rotation_mode="anchor")
    texts = [f"{rule.cluster}: {drawing.plain(rule.text, 60)} ({rule.covers:.0%})" for rule in found.rules]
    ax.set_yticks(np.arange(len(clusters)), texts, fontsize=8 if len(clusters) <= drawing.MANY_CLUSTERS else 5.5)
    ax.figure.colorbar(image, ax=ax, label="added to the probability")
    note = "rule, with the share of the cluster that satisfies it"
    drawing.title(ax, "What makes each cluster", note, drawing.hidden_columns(len(found.columns) - len(order)))
    return ax


def iteration(model: KNet, X: Any = None, ax: Axes | None = None, *, number: int = -1) -> Axes:
    """Draw one of the embeddings that a fit has stored, by default the last; colours are those of the final clusters.

    The model must have been fitted with `advanced=Advanced(keep_embeddings=True)`. Its `embeddings_` are those before
    training, after the start was followed (if there is one), and after each iteration up to the best.
    """
    _check_embeddings(model)
    flat, labels, note = plane_of_iterations(model)
    before = ["Start", "The start is followed"][: max(1, len(flat) - model.best_iter_)]
    names = before + [f"Iteration {done + 1}" for done in range(len(flat) - len(before))]
    ax = drawing.axes(ax)
    drawing.points(ax, flat[number], labels)
    drawing.title(ax, names[number], note)
    return ax


def animation(
    model: KNet, path: str | PathLike[str], *, milliseconds: int = 400, size: int = 480, overwrite: bool = False
) -> None:
    """Write the stored embeddings (see `iteration`), as in the paper's Figure 2, to an animated GIF or WebP file.

    The suffix of the path gives the format. An existing file is replaced only with `overwrite`.
    """
    from PIL import Image

    _check_embeddings(model)
    kind = {".gif": "GIF", ".webp": "WEBP"}.get(Path(path).suffix.lower())
    if kind is None:
        raise ValueError(f"An animation must end in .gif or .webp. Got {str(path)!r} instead.")
    check_new(Path(path), overwrite=overwrite)
    frames = []
    for number in range(len(model.embeddings_)):
        figure = Figure(figsize=(size / 100, size / 100), dpi=100, layout="constrained")
        canvas = FigureCanvasAgg(figure)
        iteration(model, ax=figure.subplots(), number=number)
        canvas.draw()  # type: ignore[no-untyped-call]
        frames.append(Image.fromarray(np.asarray(canvas.buffer_rgba())[..., :3]))  # type: ignore[no-untyped-call]
    durations = [milliseconds] * (len(frames) - 1) + [4 * milliseconds]
    with whole_file(Path(path), overwrite=overwrite) as temporary:
        frames[0].save(temporary, kind, save_all=True, append_images=frames[1:], duration=durations, loop=0)


def _check_embeddings(model: KNet) -> None:
    """Raise if a model has no stored embeddings."""
    check_is_fitted(model)
    if getattr(model, "embeddings_", None) is None:
        raise ValueError(
            "This model has no stored embeddings to draw. Fit it with KNet(advanced=Advanced(keep_embeddings=True))."
        )
