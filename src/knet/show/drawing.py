"""Parts that plots share: colours and markers of clusters, axes, titles, ticks, points and kernel matrices."""

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap

from knet.arrays import Floats, Labels
from knet.explore.samples import Sample
from knet.show.planes import identical_rows
from knet.train.kernels import gaussian_kernel

# The eight colours of Okabe and Ito, safe for colour-blind readers; the yellow is darker, to be visible on white.
# From the ninth cluster on, the colours repeat with another marker.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000", "#B8A800")
MARKERS = ("o", "^", "s", "D", "v")
MAX_AREA = 16  # times the area of a point: that of so many identical rows, or more
SMALL = 0.03  # standard deviation of a cluster whose number would cover it, relative to the width of the plot
MANY_CLUSTERS = 20  # from which numbers of clusters are smaller, and some are left out
WHITE_TO_BLUE = LinearSegmentedColormap.from_list("white_to_blue", ["#ffffff", "#6baed6", "#08306b"])


def color(cluster: int) -> str:
    """Return the colour of a cluster; from the ninth cluster on, the colours repeat with another marker."""
    return COLORS[cluster % len(COLORS)]


def marker(cluster: int) -> str:
    """Return the marker of a cluster."""
    return MARKERS[cluster // len(COLORS) % len(MARKERS)]


def axes(ax: Axes | None) -> Axes:
    """Return the given Axes, or those of a new figure."""
    if ax is not None:
        return ax
    from matplotlib import pyplot

    return pyplot.subplots(layout="constrained")[1]


def title(ax: Axes, title: str, *notes: str) -> None:
    """Set a title, with notes in a smaller font below; the label of the Axes is both, for readers who cannot see it."""
    small = "; ".join(note for note in notes if note)
    ax.set_title(title, loc="left", fontsize=11, pad=18 if small else 6)
    if small:
        ax.text(0, 1.015, small, transform=ax.transAxes, fontsize=7.5, color="#555555", va="bottom")
    ax.set_label(f"{title}: {small}" if small else title)


def hidden_columns(n_columns: int) -> str:
    """Return a note on columns that are not drawn; empty if all are."""
    return f"{n_columns} column{'s' * (n_columns > 1)} not shown" if n_columns else ""


def plain(name: str, max_length: int = 24) -> str:
    """Return a name for matplotlib: of bounded length, with dollar signs that do not start a formula."""
    return (name if len(name) <= max_length else name[: max_length - 3] + "...").replace("$", r"\$")


def cluster_ticks(clusters: Labels) -> dict[str, Any]:
    """Return the numbers of the clusters as labels of ticks; if there are many clusters, only every second number."""
    if len(clusters) <= MANY_CLUSTERS:
        return {"labels": [str(cluster) for cluster in clusters], "fontsize": 8.0}
    return {"labels": [str(c) if place % 2 == 0 else "" for place, c in enumerate(clusters)], "fontsize": 6.0}


def points(ax: Axes, flat: Floats, labels: Labels) -> None:
    """Draw points in the colours of their clusters; the area of a point says how many rows are at its place."""
    size = float(np.clip(6000 / max(len(flat), 1), 2, 25))
    sizes = size * np.minimum(identical_rows(flat), MAX_AREA)
    for cluster in np.unique(labels):
        own = labels == cluster
        x, y = flat[own].T
        ax.scatter(x, y, s=sizes[own], c=color(cluster), marker=marker(cluster), linewidths=0, rasterized=True)
    ax.set_aspect("equal", "datalim")
    ax.tick_params(labelsize=8)


def scatter(ax: Axes, drawn: Sample, flat: Floats, heading: str, note: str) -> Axes:
    """Draw points in the colours of their clusters, and the number of each cluster at the point nearest to its mean.

    That point is inside the cluster even if the cluster is curved. The number of a small cluster is beside it.
    """
    points(ax, flat, drawn.labels)
    clusters = np.unique(drawn.labels)
    style: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": 8 if len(clusters) <= MANY_CLUSTERS else 5.5}
    for cluster in clusters:
        own = flat[drawn.labels == cluster]
        place = own[np.square(own - own.mean(0)).sum(1).argmin()]
        is_small = float(own.std(0).max()) < SMALL * float(np.ptp(flat, axis=0).max())
        box = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": color(cluster), "alpha": 0.8}
        beside = (14 if place[0] < flat[:, 0].mean() else -14, 8) if is_small else (0, 0)
        ax.annotate(str(cluster), place, beside, textcoords="offset points", bbox=box, **style)
    title(ax, heading, note, drawn.size_note)
    return ax


def kernel(ax: Axes, drawn: Sample, values: Floats, sigma: float, heading: str) -> Axes:
    """Draw a kernel matrix ordered by cluster, with a tick at the middle of each block."""
    ordered = values[np.argsort(drawn.labels, kind="stable")]
    K = gaussian_kernel(ordered, ordered, sigma)
    ax.imshow(K, cmap=WHITE_TO_BLUE, vmin=0, vmax=1, interpolation="none")
    clusters, counts = np.unique(drawn.labels, return_counts=True)
    ends = np.cumsum(counts)
    for end in ends[:-1]:
        for line in (ax.axhline, ax.axvline):
            line(end - 0.5, color="#999999", linewidth=0.4 if len(clusters) <= MANY_CLUSTERS else 0.1)
    ax.set_xticks(ends - counts / 2 - 0.5, **cluster_ticks(clusters))
    ax.set_yticks(ends - counts / 2 - 0.5, **cluster_ticks(clusters))
    ax.tick_params(length=0)
    title(ax, heading, "rows ordered by cluster", drawn.size_note)
    return ax
