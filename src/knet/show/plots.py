"""Plots of a fitted model, with matplotlib: each function takes (model, X, ax=None) and returns the Axes.

No function calls `show`, and only `animation` writes a file. Large data are sampled, and the note below the title gives
the size of the sample. The eight colours are safe for colour-blind readers; further clusters repeat them with other
markers, and each cluster is labelled with its number. The report shows the same figures.
"""

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

try:
    from matplotlib.axes import Axes
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator
except ImportError as error:
    raise ImportError("Plots need matplotlib. Install it with: pip install 'knet-clustering[plots]'") from error
from scipy.cluster.hierarchy import dendrogram
from sklearn.metrics import silhouette_samples
from sklearn.utils.validation import check_is_fitted

from knet.arrays import RowsLike
from knet.estimator import KNet
from knet.explore.compare import Comparison
from knet.explore.explain import explain
from knet.explore.features import describe_columns, importance
from knet.explore.samples import sample_rows
from knet.explore.scan import Scan
from knet.files import check_new, whole_file
from knet.show import drawing
from knet.show.drawing import COLORS, color, marker
from knet.show.planes import data_plane, plane, plane_of_iterations
from knet.show.profiles import profiles as find_profiles
from knet.start.borders import CLEAR
from knet.train.laplacians import DenseLaplacian

__all__ = ["animation", "color", "data", "embedding", "explanation", "figure1", "flow", "history", "iteration"]
__all__ += ["learned_kernel", "levels", "marker", "profiles", "raw_kernel", "scan", "selection", "silhouettes"]
__all__ += ["spectrum"]

# The maximum number of rows in a plot.
SCATTER_ROWS, MATRIX_ROWS, SILHOUETTE_ROWS, SPECTRUM_ROWS = 5000, 300, 2000, 800
RING: dict[str, Any] = {"s": 140, "facecolors": "none", "edgecolors": "black", "zorder": 3}  # marks the best point
VERDICTS = ("clear", "plausible", "a guess")
GREY_LINE: dict[str, Any] = {"color": "#888888", "linewidth": 0.8}


def data(
    model: KNet, X: RowsLike, ax: Axes | None = None, *, max_rows: int = SCATTER_ROWS, random_state: int = 0
) -> Axes:
    """Draw the scaled rows, each in the colour of its cluster."""
    drawn = sample_rows(model, X, max_rows, random_state=random_state)
    flat, note = data_plane(model, drawn)
    return drawing.scatter(drawing.axes(ax), drawn, flat, "Data", note)


def embedding(
    model: KNet, X: RowsLike, ax: Axes | None = None, *, max_rows: int = SCATTER_ROWS, random_state: int = 0
) -> Axes:
    """Draw the embedded rows psi(X), each in the colour of its cluster."""
    drawn = sample_rows(model, X, max_rows, random_state=random_state)
    flat, note = plane(drawn.Psi)
    return drawing.scatter(drawing.axes(ax), drawn, flat, "Embedding", note)


def raw_kernel(
    model: KNet, X: RowsLike, ax: Axes | None = None, *, max_rows: int = MATRIX_ROWS, random_state: int = 0
) -> Axes:
    """Draw the Gaussian kernel matrix of the scaled rows, of width `sigma_`, ordered by cluster: 0 is white, 1 blue."""
    drawn = sample_rows(model, X, max_rows, random_state=random_state)
    return drawing.kernel(drawing.axes(ax), drawn, drawn.scaled, model.sigma_, "Kernel of the data")


def learned_kernel(
    model: KNet, X: RowsLike, ax: Axes | None = None, *, max_rows: int = MATRIX_ROWS, random_state: int = 0
) -> Axes:
    """Draw the Gaussian kernel matrix of the embedded rows, ordered by cluster; a dark block per cluster."""
    drawn = sample_rows(model, X, max_rows, random_state=random_state)
    return drawing.kernel(drawing.axes(ax), drawn, drawn.Psi, model.sigma_, "Learned kernel")


def figure1(model: KNet, X: RowsLike, *, title: str | None = None, random_state: int = 0) -> Figure:
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


def history(model: KNet, X: RowsLike = None, ax: Axes | None = None) -> Axes:
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
    model: KNet, X: RowsLike, ax: Axes | None = None, *, n_values: int | None = None, random_state: int = 0
) -> Axes:
    """Draw the largest eigenvalues of the raw and the learned kernel; c clusters give a gap after c - 1 of them."""
    drawn = sample_rows(model, X, SPECTRUM_ROWS, random_state=random_state)
    ax, c = drawing.axes(ax), model.n_clusters_
    n_values = min(max(10, 2 * c) if n_values is None else n_values, len(drawn.rows) - 1)
    for points, name, line, tint in ((drawn.scaled, "data", "s--", COLORS[1]), (drawn.Psi, "learned", "o-", COLORS[0])):
        values = DenseLaplacian(points, model.sigma_).largest(n_values)[0]
        ax.plot(np.arange(1, len(values) + 1), values, line, color=tint, label=name)
    ax.axvline(c - 0.5, linestyle="--", **GREY_LINE)
    ax.set_xlabel("eigenvalue")
    ax.set_ylim(bottom=0)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(fontsize=8, frameon=False)
    note = f"{c} separate clusters: {c - 1} near 1, then a gap (dashed line)"
    drawing.title(ax, "Spectrum", note, drawn.size_note)
    return ax


def selection(model: KNet, X: RowsLike = None, ax: Axes | None = None) -> Axes:
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


def levels(model: KNet, ax: Axes | None = None) -> Axes:
    """Draw how the clusters join into coarser ones, the closest first; dotted lines mark the levels that are clear."""
    check_is_fitted(model)
    ax, c = drawing.axes(ax), len(model.hierarchy_) + 1  # of the fit: merges and splits of the user are not levels
    tree, node = np.zeros((c - 1, 4)), list(range(c))  # the node of the tree that each cluster is part of
    for place, (kept, joined) in enumerate(model.hierarchy_):
        tree[place, :3] = node[kept], node[joined], place + 1
        tree[place, 3] = sum(tree[child - c, 3] if child >= c else 1 for child in (node[kept], node[joined]))
        node[kept] = c + place
    if c > 1:
        dendrogram(tree, ax=ax, color_threshold=0, above_threshold_color=COLORS[0])
    for count in model.number_["levels"]:
        ax.axhline(c - count + 0.5, linestyle=":", **GREY_LINE)
    ax.set_yticks(range(c), [str(c - joins) for joins in range(c)])
    ax.set_ylabel("clusters left")
    ax.set_xlabel("cluster")
    drawing.title(ax, "Levels", "the closest clusters join first")
    return ax


def flow(comparison: Comparison, ax: Axes | None = None) -> Axes:
    """Draw how rows flow from the clusters of one clustering to those of another; see `knet.compare`."""
    ax, counts = drawing.axes(ax), comparison.counts
    gap = 0.02 * counts.sum()
    left, right = (np.concatenate([[0], np.cumsum(counts.sum(axis) + gap)[:-1]]) for axis in (1, 0))
    for x, names, starts, sizes in ((0, comparison.before, left, 1), (1, comparison.after, right, 0)):
        for place, (name, start) in enumerate(zip(names, starts, strict=True)):
            size = counts.sum(sizes)[place]
            ax.bar(x, size, 0.06, start, color=color(place) if x == 0 else "#777777")
            text = f"{drawing.plain(name)} ({size:,})"
            side = "left" if x else "right"
            ax.text(x + (0.05 if x else -0.05), start + size / 2, text, ha=side, va="center", fontsize=8)
    used_left, used_right, steps = left.copy(), right.copy(), np.linspace(0, 1, 30)
    bend = steps**2 * (3 - 2 * steps)  # level at both ends
    for row, column in zip(*np.nonzero(counts), strict=True):
        low = used_left[row] + (used_right[column] - used_left[row]) * bend
        is_match = comparison.matches.get(comparison.before[row]) == comparison.after[column]
        area = ax.fill_between(0.03 + 0.94 * steps, low, low + counts[row, column], linewidth=0)
        area.set(facecolor=color(int(row)), alpha=0.35 if is_match else 0.75)
        used_left[row] += counts[row, column]
        used_right[column] += counts[row, column]
    ax.set_xlim(-0.45, 1.45)
    ax.invert_yaxis()
    ax.set_axis_off()
    note = f"agreement {comparison.agreement:.2f}, {comparison.share_moved:.1%} of the rows moved"
    drawing.title(ax, "From the first clustering to the second", note)
    return ax


def scan(result: Scan, ax: Axes | None = None) -> Axes:
    """Draw the result of `knet.scan`: how well the borders of each number of clusters hold; above the line all do."""
    ax = drawing.axes(ax)
    counts, borders = [row["n_clusters"] for row in result.table], [row["border"] for row in result.table]
    ax.plot(counts, borders, zorder=1, **GREY_LINE)
    ax.axhline(CLEAR, linestyle=":", **GREY_LINE)
    for place, verdict in enumerate(VERDICTS):
        rows = [row for row in result.table if row["verdict"] == verdict]
        if rows:
            x, y = [row["n_clusters"] for row in rows], [row["border"] for row in rows]
            ax.scatter(x, y, color=color(place), marker=marker(place), label=verdict)
    if result.best in counts:
        ax.scatter([result.best], [borders[counts.index(result.best)]], **RING)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("number of clusters")
    ax.set_ylabel("weakest border, in standard errors")
    if counts:
        ax.legend(fontsize=8, frameon=False)
    drawing.title(ax, "Number of clusters", f"best: {result.best}, {result.verdict}")
    return ax


def silhouettes(
    model: KNet, X: RowsLike, ax: Axes | None = None, *, space: str = "embedding", random_state: int = 0
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


def profiles(model: KNet, X: RowsLike, ax: Axes | None = None, *, max_columns: int = 30, random_state: int = 0) -> Axes:
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


def explanation(
    model: KNet, X: RowsLike, ax: Axes | None = None, *, max_columns: int = 12, random_state: int = 0
) -> Axes:
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


def iteration(model: KNet, X: RowsLike = None, ax: Axes | None = None, *, number: int = -1) -> Axes:
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
