"""The geometry of small charts: numbers in, positions out; the template of the page draws them as SVG."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from knet.arrays import Floats, Labels

WIDTH, HEIGHT = 440, 240
LEFT, RIGHT, TOP, BOTTOM = 46, 430, 22, 200
LINE_COLORS = (0, 4, 2, 3)  # numbers of colours
MAX_DOTS = 60  # a line with more points is drawn without dots
SILHOUETTE_LEFT, SILHOUETTE_RIGHT = 26, 410
SILHOUETTE_POINTS = 60  # points in the outline of a cluster
SILHOUETTE_HEIGHT, OUTLINE_HEIGHT = 180, 13  # of all rows, and the minimum of a cluster: room for its number
BAR_LEFT, BAR_RIGHT, BAR_STEP = 178, 380, 19


@dataclass(frozen=True)
class Tick:
    """A position on an axis and its text."""

    at: float
    text: str


@dataclass(frozen=True)
class Line:
    """A line of a chart; `points` is the attribute of an SVG polyline."""

    name: str
    points: str
    dots: list[tuple[float, float]]
    color: int
    dashed: bool


@dataclass(frozen=True)
class LineChart:
    """Lines in a box, with ticks, vertical lines at `marks` and horizontal ones at `levels`."""

    title: str
    label: str  # for screen readers
    note: str
    x_label: str
    series: list[Line]
    x_ticks: list[Tick]
    y_ticks: list[Tick]
    marks: list[float]
    levels: list[float]
    width: int = WIDTH
    height: int = HEIGHT
    left: int = LEFT
    right: int = RIGHT
    top: int = TOP
    bottom: int = BOTTOM


@dataclass(frozen=True)
class Outline:
    """The silhouettes of a cluster; `points` is the attribute of an SVG polygon."""

    cluster: int
    points: str
    middle: float


@dataclass(frozen=True)
class SilhouetteChart:
    """The outlines of all clusters, one below the other, and the mean of all rows."""

    title: str
    mean: str
    mean_at: float
    groups: list[Outline]
    height: int
    ticks: list[Tick]


@dataclass(frozen=True)
class Bar:
    """A bar with its name and its value as text."""

    name: str
    text: str
    top: float
    width: float
    chosen: bool


@dataclass(frozen=True)
class BarChart:
    """Bars from left to right, one below the other."""

    title: str
    note: str
    bars: list[Bar]
    height: int
    left: int = BAR_LEFT


def line_chart(
    title: str,
    series: Sequence[tuple[str, Sequence[float], Sequence[float]]],
    *,
    x_label: str,
    note: str = "",
    mark: float | None = None,
    level: float | None = None,
) -> LineChart:
    """Return the chart of lines (name, x, y); `mark` is the x of a vertical line, `level` the y of a horizontal one."""
    xs = [x for _, own, _ in series for x in own]
    ys = [y for _, _, own in series for y in own] + ([] if level is None else [level])
    to_x = _scale(xs, LEFT, RIGHT)
    low, high = min(0.0, *ys), max(*ys, 1e-12)
    to_y = _scale([low, high], BOTTOM, TOP)
    lines = []
    for number, (name, own_x, own_y) in enumerate(series):
        dots = [(round(to_x(x), 1), round(to_y(y), 1)) for x, y in zip(own_x, own_y, strict=True)]
        points = " ".join(f"{x},{y}" for x, y in dots)
        color = LINE_COLORS[number % len(LINE_COLORS)]
        lines.append(Line(name, points, dots if len(dots) <= MAX_DOTS else [], color, dashed=number > 0))
    return LineChart(
        title=title,
        label=f"{title}: {', '.join(name for name, _, _ in series)}",
        note=note,
        x_label=x_label,
        series=lines,
        x_ticks=[Tick(round(to_x(x), 1), f"{x:.3g}") for x in _every_few(sorted(set(xs)))],
        y_ticks=[Tick(round(to_y(y), 1), f"{y:.3g}") for y in _round_steps(low, high)],
        marks=[] if mark is None else [round(to_x(mark), 1)],
        levels=[] if level is None else [round(to_y(level), 1)],
    )


def silhouette_chart(title: str, values: Floats, labels: Labels) -> SilhouetteChart:
    """Return the outline of each cluster's sorted silhouettes, one below the other."""
    low = min(-0.1, float(values.min()))
    to_x = _scale([low, 1.0], SILHOUETTE_LEFT, SILHOUETTE_RIGHT)
    clusters, counts = np.unique(labels, return_counts=True)
    groups, top, zero = [], 0.0, round(to_x(0.0), 1)
    for cluster, count in zip(clusters.tolist(), counts.tolist(), strict=True):
        own = -np.sort(-values[labels == cluster])
        tall = OUTLINE_HEIGHT + SILHOUETTE_HEIGHT * count / len(labels)
        picked = own[np.linspace(0, len(own) - 1, min(len(own), SILHOUETTE_POINTS)).astype(int)]
        steps = np.linspace(top, top + tall, len(picked)) if len(picked) > 1 else np.array([top])
        outline = [f"{to_x(float(value)):.1f},{y:.1f}" for value, y in zip(picked, steps, strict=True)]
        points = " ".join([f"{zero},{top:.1f}", *outline, f"{zero},{top + tall:.1f}"])
        groups.append(Outline(cluster, points, round(top + tall / 2, 1)))
        top += tall + 2
    mean = float(values.mean())
    return SilhouetteChart(
        title=title,
        mean=f"{mean:.2f}",
        mean_at=round(to_x(mean), 1),
        groups=groups,
        height=round(top) + 20,
        ticks=[Tick(round(to_x(x), 1), f"{x:g}") for x in (-0.5, 0.0, 0.5, 1.0) if x >= low],
    )


def bar_chart(title: str, values: Sequence[tuple[str, float, bool]], note: str) -> BarChart:
    """Return the chart of bars (name, value, chosen), in the given order."""
    largest = max(value for _, value, _ in values) or 1.0
    bars = [
        Bar(name, f"{value:.3g}", BAR_STEP * number + 3, round((BAR_RIGHT - BAR_LEFT) * value / largest, 1), chosen)
        for number, (name, value, chosen) in enumerate(values)
    ]
    return BarChart(title, note, bars, BAR_STEP * len(bars) + 4)


def quantized(points: Floats) -> NDArray[np.uint16]:
    """Return points of the plane as 16-bit numbers, centred, with the same scale on both axes."""
    low, high = points.min(0), points.max(0)
    span = max(float((high - low).max()), np.finfo(float).tiny)
    unit = (points - (low + high) / 2) / span + 0.5
    short: NDArray[np.uint16] = np.round(unit * 65535).astype("<u2")
    return short


def _scale(values: Sequence[float], start: float, end: float) -> Callable[[float], float]:
    """Return the linear map from the range of the values to the range from start to end."""
    low, high = min(values), max(values)
    span = high - low or 1.0
    return lambda value: start + (value - low) / span * (end - start)


def _round_steps(low: float, high: float) -> list[float]:
    """Return about four round numbers between low and high."""
    rough = (high - low) / 4
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough)
    first = math.ceil(low / step)
    return [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]


def _every_few(values: list[float], max_values: int = 8) -> list[float]:
    """Return at most `max_values` of the values, at equal steps."""
    return values[:: max(1, math.ceil(len(values) / max_values))]
