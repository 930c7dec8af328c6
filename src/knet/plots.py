"""Pictures of a fitted model, with matplotlib: each function takes (model, X, ax=None) and returns the Axes.

Nothing here calls `show` or saves. Large data is sampled, and the title says at what rate. Colours are safe for colour
blind readers; from the ninth cluster on the marker changes as well, and clusters carry their number.
"""

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from knet.estimator import KNet
from knet.inspect import views
from knet.inspect.samples import SCATTER_ROWS, Sample, column_names, sample
from knet.inspect.scan import MIN_JUMP, MIN_STABILITY, Scan
from knet.inspect.views import COLORS, MATRIX_ROWS, PAIR_ROWS, SPECTRUM_ROWS, Floats, Labels

MARKERS = ("o", "^", "s", "D", "v")
WHITE_TO_BLUE = LinearSegmentedColormap.from_list("white_to_blue", ["#ffffff", "#6baed6", "#08306b"])


def color(cluster: int) -> str:
    """Return the colour of a cluster; colours repeat every eight, with another marker."""
    return COLORS[cluster % len(COLORS)]


def marker(cluster: int) -> str:
    """Return the marker of a cluster."""
    return MARKERS[cluster // len(COLORS) % len(MARKERS)]


def data(model: KNet, X: Any, ax: Axes | None = None, *, max_rows: int = SCATTER_ROWS, seed: int = 0) -> Axes:
    """Draw the rows as the model sees them, scaled, each in the colour of its cluster."""
    drawn = sample(model, X, max_rows, seed)
    return _scatter(drawn, drawn.scaled, "Data", _axes(ax))


def embedding(model: KNet, X: Any, ax: Axes | None = None, *, max_rows: int = SCATTER_ROWS, seed: int = 0) -> Axes:
    """Draw the embedded rows psi(X), each in the colour of its cluster."""
    drawn = sample(model, X, max_rows, seed)
    return _scatter(drawn, drawn.Psi, "Embedding", _axes(ax))


def raw_kernel(model: KNet, X: Any, ax: Axes | None = None, *, max_rows: int = MATRIX_ROWS, seed: int = 0) -> Axes:
    """Draw the Gaussian kernel matrix of the scaled rows, of width `sigma_`, ordered by cluster; white 0, blue 1."""
    drawn = sample(model, X, max_rows, seed)
    return _matrix(drawn, drawn.scaled, model.sigma_, "Kernel of the data", _axes(ax))


def learned_kernel(model: KNet, X: Any, ax: Axes | None = None, *, max_rows: int = MATRIX_ROWS, seed: int = 0) -> Axes:
    """Draw the Gaussian kernel matrix of the embedded rows, ordered by cluster; one dark block per cluster."""
    drawn = sample(model, X, max_rows, seed)
    return _matrix(drawn, drawn.Psi, model.sigma_, "Learned kernel", _axes(ax))


def figure1(model: KNet, X: Any, *, title: str | None = None, seed: int = 0) -> Figure:
    """Return the paper's Figure 1: data and its kernel matrix above, embedding and learned kernel matrix below."""
    figure = Figure(figsize=(8.4, 7.4), layout="constrained")
    axes = figure.subplots(2, 2)
    points = sample(model, X, SCATTER_ROWS, seed)
    rows = points.thin(MATRIX_ROWS, seed)
    _scatter(points, points.scaled, "Data", axes[0, 0])
    _matrix(rows, rows.scaled, model.sigma_, "Kernel of the data", axes[0, 1])
    _scatter(points, points.Psi, "Embedding", axes[1, 0])
    _matrix(rows, rows.Psi, model.sigma_, "Learned kernel", axes[1, 1])
    figure.colorbar(axes[1, 1].images[0], ax=axes[:, 1], shrink=0.6, aspect=40, label="kernel value")
    if title:
        figure.suptitle(title)
    return figure


def history(model: KNet, X: Any = None, ax: Axes | None = None) -> Axes:
    """Draw HSIC, the change of K_U and, where there is a decoder, the reconstruction error over the rounds."""
    ax = _axes(ax)
    rounds = [row["round"] for row in model.history_]
    change = ax.twinx()
    lines = ax.plot(rounds, [row["hsic"] for row in model.history_], "o-", color=COLORS[0], label="HSIC (left)")
    lines += change.plot(
        rounds, [row["u_change"] for row in model.history_], "^--", color=COLORS[4], label="change of K_U (right)"
    )
    errors = [row["reconstruction"] for row in model.history_]
    if any(errors):
        lines += change.plot(rounds, errors, "s:", color=COLORS[2], label="reconstruction error (right)")
    change.axhline(model.tol, color=COLORS[4], linewidth=0.6, alpha=0.6)
    change.set_ylim(bottom=0)
    ax.set_xlabel("round")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(handles=lines, fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=3)
    _title(ax, "Training", (f"{model.n_iter_} rounds; the thin line is tol={model.tol:g}",))
    return ax


def spectrum(model: KNet, X: Any, ax: Axes | None = None, *, n_values: int | None = None, seed: int = 0) -> Axes:
    """Draw the largest eigenvalues of the kernel before and after; a gap after c (or c-1) speaks for c clusters."""
    ax, drawn = _axes(ax), sample(model, X, SPECTRUM_ROWS, seed)
    n_values = max(10, 2 * model.n_clusters) if n_values is None else n_values
    for points, name, line, tint in ((drawn.scaled, "data", "s--", COLORS[1]), (drawn.Psi, "learned", "o-", COLORS[0])):
        values = views.spectrum(points, model.sigma_, n_values)
        ax.plot(np.arange(1, len(values) + 1), values, line, color=tint, label=name)
    ax.axvline(model.n_clusters - 0.5, color="#999999", linewidth=0.8)
    ax.set_xlabel("eigenvalue")
    ax.set_ylim(bottom=0)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.legend(fontsize=8, frameon=False)
    note = f"after centring, {model.n_clusters} clusters show as {model.n_clusters - 1} values near 1"
    _title(ax, "Spectrum", (note, drawn.rate))
    return ax


def sigma_selection(model: KNet, X: Any = None, ax: Axes | None = None) -> Axes:
    """Draw the conductance of the partition that each affinity proposed, and mark the one that was taken."""
    rows = getattr(model, "selection_", None)
    if not rows:
        raise ValueError("This model holds no record of the choice of sigma; it was given, or fixed by a rule.")
    ax = _axes(ax)
    gaussians = sorted((row for row in rows if row["ratio"] is not None), key=lambda row: float(row["ratio"]))
    ratios, cut = [row["ratio"] for row in gaussians], [row["conductance"] for row in gaussians]
    ax.plot(ratios, cut, marker=MARKERS[0], color=color(0), label="gaussian")
    others = [row for row in rows if row["ratio"] is None]
    for number, row in enumerate(others, start=1):
        label = f"{row['affinity']}, {row['neighbors']}" + (" (taken)" if row["chosen"] else "")
        style = "-" if row["chosen"] else "--"
        ax.axhline(row["conductance"], color=color(number), linestyle=style, linewidth=1, label=label)
    taken = [row for row in gaussians if row["chosen"]]
    ring: dict[str, Any] = {"s": 140, "facecolors": "none", "edgecolors": "black", "zorder": 3}
    ax.scatter([row["ratio"] for row in taken], [row["conductance"] for row in taken], **ring)
    ax.set_xscale("log")
    ticks = [2.0**power for power in range(-4, 4) if ratios[0] <= 2.0**power <= ratios[-1]]
    ax.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    ax.minorticks_off()
    ax.set_xlabel("width of the kernel, relative to the median distance")
    ax.set_ylabel("share of neighbours cut off (conductance)")
    ax.legend(fontsize=8, frameon=False)
    _title(ax, "Choice of sigma", (f"sigma_ = {model.sigma_:.3g}",))
    return ax


def scan(result: Scan, ax: Axes | None = None) -> Axes:
    """Draw what a scan over numbers of clusters found: stability, and the jump in conductance after each number."""
    ax = _axes(ax)
    counts, stability, jump = ([row[name] for row in result.table] for name in ("n_clusters", "stability", "jump"))
    jumps = ax.twinx()
    jumps.bar(counts, jump, bottom=1e-3, width=0.5, color=color(5), alpha=0.5)
    jumps.axhline(MIN_JUMP, color=color(5), linestyle=":", linewidth=1)
    jumps.set_yscale("log")
    jumps.set_ylim(0.5, max(10.0, 2 * max(jump)))
    jumps.set_ylabel("jump in conductance at one cluster more (bars)")
    ax.plot(counts, stability, marker=MARKERS[0], color=color(0))
    ax.axhline(MIN_STABILITY, color=color(0), linestyle=":", linewidth=1)
    ring: dict[str, Any] = {"s": 140, "facecolors": "none", "edgecolors": "black", "zorder": 3}
    if result.best is not None:
        ax.scatter([result.best], [stability[counts.index(result.best)]], **ring)
    ax.set_zorder(jumps.get_zorder() + 1)
    ax.patch.set_visible(False)
    ax.set_ylim(min(0.0, *stability), 1.05)
    ax.set_xticks(counts)
    ax.set_xlabel("number of clusters")
    ax.set_ylabel("stability under resampling (line)")
    best = "none supported" if result.best is None else f"best: {result.best}"
    _title(ax, "Number of clusters", (best,))
    return ax


def silhouettes(model: KNet, X: Any, ax: Axes | None = None, *, space: str = "embedding", seed: int = 0) -> Axes:
    """Draw the silhouettes of the clusters; judge by `space="data"`: the embedding was trained to make them large."""
    if space not in ("embedding", "data"):
        raise ValueError(f"The 'space' parameter of silhouettes must be 'embedding' or 'data'. Got {space!r} instead.")
    drawn = sample(model, X, PAIR_ROWS, seed)
    points = drawn.Psi if space == "embedding" else drawn.scaled
    return _silhouettes(drawn, points, f"Silhouettes in the {space}", _axes(ax))


def profiles(
    model: KNet, X: Any, ax: Axes | None = None, *, max_columns: int = 30, max_rows: int = SCATTER_ROWS, seed: int = 0
) -> Axes:
    """Draw what makes each cluster: its medians in the most telling columns, in deviations from those of all rows."""
    ax, drawn = _axes(ax), sample(model, X, max_rows, seed)
    clusters, medians, telling = views.profiles(drawn.X, drawn.labels)
    order = np.argsort(-telling, kind="stable")[:max_columns]
    names = column_names(model)
    image = ax.imshow(medians[:, order].T, cmap="RdBu_r", vmin=-2, vmax=2, aspect="auto")
    ax.set_xticks(np.arange(len(clusters)), _names(clusters)[0], fontsize=_names(clusters)[1])
    ax.set_yticks(np.arange(len(order)), [_plain(names[j]) for j in order], fontsize=8 if len(order) <= 15 else 6)
    ax.set_xlabel("cluster")
    figure = ax.get_figure()
    if figure is not None:
        figure.colorbar(image, ax=ax, extend="both", label="standardised median")
    rest = len(telling) - len(order)
    _title(ax, "Profiles", ("most telling columns first", f"{rest} more columns" if rest else "", drawn.rate))
    return ax


def animation(model: KNet, path: str | PathLike[str], *, milliseconds: int = 400, size: int = 480) -> None:
    """Write the embedding over the rounds, the paper's Figure 2, as an animated GIF or WebP (by the path's suffix).

    The model must have been fitted with `keep_rounds=True`. Colours are those of the final clusters.
    """
    from PIL import Image

    kept = getattr(model, "rounds_", None)
    if kept is None:
        raise ValueError("This model kept no rounds to animate. Fit it with KNet(keep_rounds=True).")
    rounds = np.asarray(kept, dtype=np.float64)
    directions, center, note = views.plane_map(rounds[-1])
    flat = (rounds - center) @ directions
    flat = flat if flat.shape[2] == 2 else np.concatenate([flat, np.zeros_like(flat)], axis=2)
    last = np.square(rounds[-1][:, None] - model.cluster_centers_).sum(2).argmin(1)
    frames = [Image.fromarray(_frame(points, last, index, note, size)) for index, points in enumerate(flat)]
    durations = [milliseconds] * (len(frames) - 1) + [4 * milliseconds]
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=durations, loop=0)


def _frame(points: Floats, labels: Labels, index: int, note: str, size: int) -> Any:
    """Return one frame of the animation as an RGB array; each frame fills the picture, its scale is on the axes."""
    figure = Figure(figsize=(size / 100, size / 100), dpi=100, layout="constrained")
    canvas = FigureCanvasAgg(figure)
    ax = figure.subplots()
    for cluster in np.unique(labels):
        own = points[labels == cluster]
        ax.scatter(own[:, 0], own[:, 1], s=8, c=color(cluster), marker=marker(cluster), linewidths=0)
    ax.set_aspect("equal", "datalim")
    ax.tick_params(labelsize=8)
    _title(ax, "Start" if index == 0 else f"Round {index}", (note,))
    canvas.draw()  # type: ignore[no-untyped-call]
    return np.asarray(canvas.buffer_rgba())[..., :3]  # type: ignore[no-untyped-call]


def _axes(ax: Axes | None) -> Axes:
    """Return the Axes given, or fresh ones."""
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots(layout="constrained")[1]


def _title(ax: Axes, title: str, notes: Sequence[str]) -> None:
    """Set a title, with notes in small print below."""
    small = "; ".join(note for note in notes if note)
    ax.set_title(title, loc="left", fontsize=11, pad=18 if small else 6)
    if small:
        ax.text(0, 1.015, small, transform=ax.transAxes, fontsize=7.5, color="#555555", va="bottom")


def _plain(name: str, most: int = 24) -> str:
    """Return a column's name as matplotlib should print it: short, and no mathematics between dollar signs."""
    return (name if len(name) <= most else name[: most - 3] + "...").replace("$", r"\$")


def _names(clusters: Labels) -> tuple[list[str], float]:
    """Return the numbers of the clusters and a font size; of many clusters only every second number."""
    if len(clusters) <= 20:
        return [str(cluster) for cluster in clusters], 8.0
    return [str(cluster) if place % 2 == 0 else "" for place, cluster in enumerate(clusters)], 6.0


def _scatter(drawn: Sample, points: Floats, title: str, ax: Axes) -> Axes:
    """Draw points by cluster, each cluster with its number."""
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
    _title(ax, title, (note, drawn.rate))
    ax.set_aspect("equal", "datalim")
    ax.tick_params(labelsize=8)
    return ax


def _middle(points: Floats) -> Floats:
    """Return the point nearest to the mean, which lies on the cluster even where the cluster is bent."""
    nearest: Floats = points[np.square(points - points.mean(0)).sum(1).argmin()]
    return nearest


def _badge(cluster: int, n_clusters: int) -> dict[str, Any]:
    """Return the style of a cluster's number; among many clusters it is small."""
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
    _title(ax, title, ("rows ordered by cluster", drawn.rate))
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
    _title(ax, title, (f"mean {values.mean():.2f}", drawn.rate))
    return ax
