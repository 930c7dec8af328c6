"""The geometry of small charts, for the report's template to draw as SVG: plain numbers in, plain numbers out."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knet.inspect.views import COLORS, Floats, Labels

WIDTH, HEIGHT = 440, 240
LEFT, RIGHT, TOP, BOTTOM = 46, 430, 22, 200
SILHOUETTE_LEFT, SILHOUETTE_RIGHT = 26, 410
SILHOUETTE_POINTS = 60  # points of a silhouette's outline, per cluster


def line_chart(
    title: str,
    series: Sequence[tuple[str, Sequence[float], Sequence[float]]],
    *,
    x_label: str,
    note: str = "",
    mark: float | None = None,
    log_x: bool = False,
) -> dict[str, Any]:
    """Return lines (name, x, y) as points in a box, with ticks; `mark` is the place of a vertical line."""
    xs = [x for _, own, _ in series for x in own]
    ys = [y for _, _, own in series for y in own]
    to_x = _scale(xs, LEFT, RIGHT, log=log_x)
    low, high = min(0.0, *ys), max(*ys, 1e-12)
    to_y = _scale([low, high], BOTTOM, TOP)
    drawn = []
    for number, (name, own_x, own_y) in enumerate(series):
        dots = [(round(to_x(x), 1), round(to_y(y), 1)) for x, y in zip(own_x, own_y, strict=True)]
        points = " ".join(f"{x},{y}" for x, y in dots)
        tint = (COLORS[0], COLORS[4], COLORS[2], COLORS[3])[number % 4]
        few = dots if len(dots) <= 60 else []
        drawn.append({"name": name, "points": points, "dots": few, "color": tint, "dashed": number > 0})
    return {
        "title": title,
        "label": f"{title}: {', '.join(name for name, _, _ in series)}",
        "note": note,
        "x_label": x_label,
        "series": drawn,
        "y_ticks": [{"at": round(to_y(y), 1), "text": f"{y:.3g}"} for y in _round_steps(low, high)],
        "x_ticks": [{"at": round(to_x(x), 1), "text": f"{x:.3g}"} for x in _some_of(sorted(set(xs)))],
        "marks": [] if mark is None else [round(to_x(mark), 1)],
        **{"width": WIDTH, "height": HEIGHT, "left": LEFT, "right": RIGHT, "top": TOP, "bottom": BOTTOM},
    }


def silhouette_chart(title: str, values: Floats, labels: Labels) -> dict[str, Any]:
    """Return the outline of each cluster's sorted silhouettes, stacked."""
    low = min(-0.1, float(values.min()))
    to_x = _scale([low, 1.0], SILHOUETTE_LEFT, SILHOUETTE_RIGHT)
    clusters, counts = np.unique(labels, return_counts=True)
    height = max(200, 12 * len(clusters))
    groups, top, zero = [], 0.0, round(to_x(0.0), 1)
    for cluster, count in zip(clusters.tolist(), counts.tolist(), strict=True):
        own = -np.sort(-values[labels == cluster])
        tall = max(2.0, (height - 2.0 * len(clusters)) * count / len(labels))
        picked = own[np.linspace(0, len(own) - 1, min(len(own), SILHOUETTE_POINTS)).astype(int)]
        steps = np.linspace(top, top + tall, len(picked)) if len(picked) > 1 else np.array([top])
        outline = [f"{to_x(float(value)):.1f},{y:.1f}" for value, y in zip(picked, steps, strict=True)]
        points = " ".join([f"{zero},{top:.1f}", *outline, f"{zero},{top + tall:.1f}"])
        groups.append({"cluster": cluster, "points": points, "middle": round(top + tall / 2, 1), "name": tall >= 9})
        top += tall + 2
    mean = float(values.mean())
    return {
        "title": title,
        "mean": f"{mean:.2f}",
        "mean_at": round(to_x(mean), 1),
        "groups": groups,
        "height": round(top) + 20,
        "ticks": [{"at": round(to_x(x), 1), "text": f"{x:g}"} for x in (-0.5, 0.0, 0.5, 1.0) if x >= low],
    }


def quantized(points: Floats) -> NDArray[np.uint16]:
    """Return points of the plane as 16-bit numbers, both axes on one scale and in the middle."""
    low, high = points.min(0), points.max(0)
    span = max(float((high - low).max()), np.finfo(float).tiny)
    unit = (points - (low + high) / 2) / span + 0.5
    short: NDArray[np.uint16] = np.round(unit * 65535).astype("<u2")
    return short


def _scale(values: Sequence[float], start: float, end: float, *, log: bool = False) -> Any:
    """Return the linear (or logarithmic) map of the values' range to the range from start to end."""
    change = math.log10 if log else float
    low, high = change(min(values)), change(max(values))
    span = high - low or 1.0
    return lambda value: start + (change(value) - low) / span * (end - start)


def _round_steps(low: float, high: float) -> list[float]:
    """Return about four round numbers between low and high."""
    rough = (high - low) / 4
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough)
    first = math.ceil(low / step)
    return [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]


def _some_of(values: list[float], most: int = 8) -> list[float]:
    """Return at most `most` of the values, evenly."""
    return values[:: max(1, math.ceil(len(values) / most))]
