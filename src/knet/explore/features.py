"""What the columns of a model mean: the columns of the table that they come from, and how their values are written."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

import numpy as np

from knet.arrays import Floats
from knet.estimator import KNet
from knet.explore.samples import column_names

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MINUTES_PER_DAY = 1440
KINDS = ("number", "flag", "category", "date")  # those of a stored table, see `knet.tables`


@dataclass(frozen=True)
class Feature:
    """A column of the table, and the columns of the model that stand for it.

    Attributes
    ----------
    name : str
        Its name in the table.
    kind : {"number", "whole", "binary", "flag", "category", "date"}
        What it holds: numbers, whole numbers, 0 and 1, true and false, categories, or days since 1970.
    places : tuple of int
        Positions among the columns of the model: one, or one for each category.
    levels : tuple of str
        The categories.
    """

    name: str
    kind: str
    places: tuple[int, ...]
    levels: tuple[str, ...] = ()

    @property
    def is_share(self) -> bool:
        """Whether the mean of a column of the model is the share of rows that have a property."""
        return self.kind in ("binary", "flag", "category")

    def names(self) -> list[str]:
        """Return a name for each column of the model, as a property of a row if its mean is a share."""
        if self.kind == "category":
            return [f"{self.name} = {level}" for level in self.levels]
        return [f"{self.name} = {self._word(True)}" if self.is_share else self.name]

    def condition(self, place: int, *, above: bool, threshold: float) -> str:
        """Return "column > threshold" or "column <= threshold" in words; the threshold may be an end of an interval."""
        if self.kind == "category":
            level, others = self.levels[self.places.index(place)], [*self.levels]
            others.remove(level)
            if above or len(others) != 1:
                return f"{self.name} {'=' if above else '!='} {level}"
            return f"{self.name} = {others[0]}"
        if self.is_share:
            return f"{self.name} = {self._word(above)}"
        return f"{self.name} {'>' if above else '<='} {self.value(threshold)}"

    def value(self, number: float) -> str:
        """Return a value of the column as text, with all digits that it has."""
        if self.kind == "date":
            moment = EPOCH + timedelta(days=number)
            return moment.strftime("%Y-%m-%d" if float(number).is_integer() else "%Y-%m-%d %H:%M")
        return f"{number:.0f}" if float(number).is_integer() and abs(number) < 1e7 else f"{number:.12g}"

    def cell(self, row: Floats) -> str:
        """Return what a row of numbers has in this column of the table, with about four digits."""
        own = row[list(self.places)]
        if self.kind == "category":
            return self.levels[int(own.argmax())] if own.any() else "-"
        if self.kind == "flag":
            return self._word(own[0] > 0.5)
        return self.value(float(own[0])) if self.kind == "date" else short_number(float(own[0]))

    def between(self, low: float, high: float) -> float:
        """Return a short number t with low <= t < high, near their middle; whole if the values are whole."""
        middle = low + (high - low) / 2
        if self.is_share:
            return middle
        if self.kind == "date":
            days = [np.floor(middle), np.floor(middle * MINUTES_PER_DAY) / MINUTES_PER_DAY]
            return next((float(day) for day in days if low <= day < high), middle)
        if self.kind == "whole":
            middle = float(np.floor(middle))
        return next((number for number in _digits(middle) if low <= number < high), low)

    def shorter(self, threshold: float) -> list[float]:
        """Return the same number with fewer digits, the shortest first; only if values are not whole."""
        return list(_digits(threshold)) if self.kind == "number" else []

    def _word(self, yes: bool) -> str:
        return ("yes" if yes else "no") if self.kind == "flag" else str(int(yes))


def short_number(number: float) -> str:
    """Return a number with about four digits, and large ones without an exponent."""
    return f"{number:,.0f}" if 1e4 <= abs(number) < 1e12 else f"{number:.4g}"


def _digits(number: float) -> Iterator[float]:
    """Yield a number rounded to 1, 2, ... significant digits."""
    return (float(f"{number:.{digits}g}") for digits in range(1, 17))


def describe_columns(model: KNet, X: Floats) -> list[Feature]:
    """Return the columns of the table: as stored with the model, or as their names and their values X suggest.

    0/1 columns with names such as "color=red" and "color=blue" stand together for the categories of "color".
    """
    stored = (getattr(model, "extra_", None) or {}).get("table")
    if isinstance(stored, Mapping):
        found = _stored_features(stored, X)
        if sum(len(feature.places) for feature in found) == X.shape[1]:
            return found
    names = column_names(model)
    binary = [_kind(column) == "binary" for column in X.T]
    groups = groupby(range(len(names)), lambda j: names[j].partition("=")[0] if binary[j] and "=" in names[j] else j)
    return [_named_feature(names, list(places), X) for _, places in groups]


def _named_feature(names: list[str], places: list[int], X: Floats) -> Feature:
    """Return the column of the table that these columns of the model stand for, by their names and values."""
    name, sign, _ = names[places[0]].partition("=")
    kind = _kind(X[:, places[0]])
    if sign and kind == "binary":
        return Feature(name.strip(), "category", tuple(places), tuple(names[j].partition("=")[2] for j in places))
    return Feature(names[places[0]], kind, tuple(places))


def _stored_features(stored: Mapping[str, Any], X: Floats) -> list[Feature]:
    """Return the columns of the table that `knet.tables` stored with a model; none if they are damaged."""
    found: list[Feature] = []
    start = 0
    columns = stored.get("columns")
    for column in columns if isinstance(columns, list) else []:
        if not isinstance(column, Mapping) or column.get("kind") not in KINDS:
            return []
        kind, levels = column["kind"], column.get("levels") if column["kind"] == "category" else [""]
        if not isinstance(levels, list | tuple) or start + len(levels) > X.shape[1]:
            return []
        places = tuple(range(start, start + len(levels)))
        if kind == "category":
            found.append(Feature(str(column.get("name")), kind, places, tuple(map(str, levels))))
        else:
            found.append(Feature(str(column.get("name")), _kind(X[:, start]) if kind == "number" else kind, places))
        start += len(levels)
    return found


def _kind(values: Floats) -> str:
    """Return whether numbers are 0 and 1, whole, or others."""
    if ((values == 0) | (values == 1)).all():
        return "binary"
    return "whole" if (values == np.floor(values)).all() else "number"
