"""What the columns of a model mean: the columns of the table that they come from, and how their values are written."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import groupby

import numpy as np

from knet.arrays import Floats, Json, Labels
from knet.estimator import KNet
from knet.model.drift import short_number

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MINUTES_PER_DAY = 1440
MISSING = "\u2013"  # how a missing value is shown
KINDS = {"number": "", "flag": "flag", "category": "category", "date": "date"}  # those that `knet.tables` stores


@dataclass(frozen=True)
class Feature:
    """A column of the table, and the columns of the model that stand for it."""

    name: str
    kind: str  # number, whole, binary (0 and 1), flag (true and false), category, or date (days since 1970)
    places: tuple[int, ...]  # among the columns of the model: one, or one for each category
    levels: tuple[str, ...] = ()  # the categories

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
            level = self.levels[self.places.index(place)]
            others = [other for other in self.levels if other != level]
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

    def middle(self, median: float) -> str:
        """Return a median as text, with about four digits; of dates, the day; a dash if there is none."""
        if median != median:
            return MISSING
        return self.value(float(np.floor(median))) if self.kind == "date" else short_number(median)

    def cell(self, row: Floats, *, exact: bool = False) -> str:
        """Return what a row of numbers has in this column of the table; a dash if nothing.

        Numbers have about four digits, or if `exact` all that they have.
        """
        own = row[list(self.places)]
        if np.isnan(own).any():
            return MISSING
        if self.kind == "category":
            return self.levels[int(own.argmax())] if own.any() else MISSING
        if self.kind == "flag":
            return self._word(own[0] > 0.5)
        number = float(own[0])
        return self.value(number) if exact or self.kind == "date" else short_number(number)

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


def _digits(number: float) -> Iterator[float]:
    """Yield a number rounded to 1, 2, ... significant digits."""
    return (float(f"{number:.{digits}g}") for digits in range(1, 17))


def describe_columns(model: KNet, X: Floats) -> list[Feature]:
    """Return the columns of the table: as stored with the model, or as their names and their values X suggest.

    0/1 columns with names such as "color=red" and "color=blue" stand together for the categories of "color".
    """
    found = _stored_features((getattr(model, "extra_", None) or {}).get("table"), X)
    if sum(len(feature.places) for feature in found) == X.shape[1]:
        return found
    given = getattr(model, "feature_names_in_", None)
    names = [f"x{j}" for j in range(X.shape[1])] if given is None else [str(name) for name in given]
    kinds = [_kind(column) for column in X.T]
    parts = [name.partition("=") for name in names]  # name, sign, level
    owners = [parts[j][0] if kinds[j] == "binary" and parts[j][1] else j for j in range(len(names))]
    groups = [(owner, tuple(places)) for owner, places in groupby(range(len(names)), owners.__getitem__)]
    return [
        Feature(names[owner], kinds[owner], places)
        if isinstance(owner, int)
        else Feature(owner.strip(), "category", places, tuple(parts[j][2] for j in places))
        for owner, places in groups
    ]


def _stored_features(stored: Json, X: Floats) -> list[Feature]:
    """Return the columns of the table that `knet.tables` stored with a model; none if they are damaged or missing."""
    found: list[Feature] = []
    start = 0
    try:
        for column in stored["columns"]:
            kind, levels = column["kind"], tuple(map(str, column["levels"])) if column["kind"] == "category" else ()
            places = tuple(range(start, start + max(len(levels), 1)))
            found.append(Feature(str(column["name"]), KINDS[kind] or _kind(X[:, start]), places, levels))
            start = places[-1] + 1
    except (IndexError, KeyError, TypeError):
        return []
    return found


def _kind(values: Floats) -> str:
    """Return whether numbers are 0 and 1, whole, or others; missing ones do not count."""
    values = values[~np.isnan(values)]
    if ((values == 0) | (values == 1)).all():
        return "binary"
    return "whole" if (values == np.floor(values)).all() else "number"


def explained_variance(X: Floats, labels: Labels) -> Floats:
    """Return the share of the variance of each column of X that the clusters explain (eta squared, in [0, 1]).

    Only the values that are present count.
    """
    own = [X[labels == cluster] for cluster in np.unique(labels)]
    middle, total = observed_mean(X), observed_mean(np.square(X - observed_mean(X)))
    between = sum((~np.isnan(rows)).sum(0) * np.square(observed_mean(rows) - middle) for rows in own)
    between = between / np.maximum((~np.isnan(X)).sum(0), 1)
    shares: Floats = np.where(total > 0, between / np.where(total > 0, total, 1.0), 0.0)
    return shares


def observed_mean(X: Floats) -> Floats:
    """Return the mean of the values of each column that are present; 0 if there are none."""
    mean: Floats = np.nansum(X, axis=0) / np.maximum((~np.isnan(X)).sum(0), 1)
    return mean


def importance(X: Floats, labels: Labels, features: Sequence[Feature]) -> Floats:
    """Return the share of variance that the clusters explain of each column of the table; categories count together."""
    shares, weights = explained_variance(X, labels), observed_mean(np.square(X - observed_mean(X)))
    places = [list(feature.places) for feature in features]
    return np.array([np.average(shares[own], weights=weights[own]) if weights[own].any() else 0.0 for own in places])
