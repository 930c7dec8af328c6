"""Short rules for clusters: at most three conditions on columns, such as "proline > 755 and flavanoids > 2.2".

A rule is found by a beam search. It starts without conditions and adds the condition that increases F1 most, the
harmonic mean of `covers` (the share of the cluster's rows that satisfy the rule) and `purity` (the share of the rows
that satisfy the rule and belong to the cluster). A condition has to increase F1 by at least 0.02, so rules stay short.
Thresholds get as few digits as change F1 by at most 0.005, and `covers` and `purity` are measured with the thresholds
that are printed. A missing value satisfies no condition.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from knet.arrays import Floats, Labels
from knet.explore.features import Feature, explained_variance

MAX_CONDITIONS = 3
MIN_IMPROVEMENT = 0.02  # of F1, by each condition
MAX_LOSS = 0.005  # of F1, for a threshold with fewer digits
BEAM = 3  # rules that are extended
MAX_CUTS = 255  # thresholds per column
MAX_COLUMNS = 60  # columns that are searched: those that the clusters explain best
SEARCH_ROWS = 2000

Mask = NDArray[np.bool_]
Counts = NDArray[np.intp]


@dataclass(frozen=True)
class Condition:
    """A condition on a column of the model: its value is above the threshold, or not above it."""

    place: int
    above: bool
    threshold: float

    def holds(self, X: Floats) -> Mask:
        """Return which rows satisfy the condition; a missing value does not."""
        values = X[:, self.place]
        found: Mask = values > self.threshold if self.above else values <= self.threshold
        return found


@dataclass(frozen=True)
class Rule:
    """What most rows of a cluster have in common.

    Attributes
    ----------
    cluster, n_rows : int
        The cluster, and how many rows it has.
    text : str
        The conditions in words; "all rows" if there are none.
    covers : float
        Share of the cluster's rows that satisfy the rule.
    purity : float
        Share of the rows that satisfy the rule and belong to the cluster; NaN if no row satisfies it.
    conditions : tuple of Condition
        The conditions as data; all have to hold.
    """

    cluster: int
    n_rows: int
    text: str
    covers: float
    purity: float
    conditions: tuple[Condition, ...]

    def holds(self, X: Floats) -> Mask:
        """Return which rows satisfy the rule."""
        return _all_hold(self.conditions, X)


Scored = tuple[float, tuple[Condition, ...], Mask]  # F1, the conditions, and the rows that satisfy them
Owners = dict[int, Feature]  # the column of the table for each column of X


def find_rules(X: Floats, labels: Labels, features: Sequence[Feature], random_state: int = 0) -> list[Rule]:
    """Return a rule for each cluster that has rows; thresholds are searched on at most 2000 of the rows."""
    owners = {place: feature for feature in features for place in feature.places}
    drawn = np.sort(np.random.default_rng(random_state).permutation(len(X))[:SEARCH_ROWS])
    rows, cuts, found = X[drawn], _Cuts(X[drawn], labels[drawn], owners), []
    for cluster in np.unique(labels).tolist():
        own = labels[drawn] == cluster
        conditions = _shortened(cuts.search(own), rows, own, owners)
        found.append(_measured(cluster, conditions, X, labels == cluster, owners))
    return found


class _Cuts:
    """The thresholds of all columns, and the place of every value among those of its column; missing ones come last."""

    def __init__(self, X: Floats, labels: Labels, owners: Owners) -> None:
        order = np.argsort(-explained_variance(X, labels), kind="stable")[:MAX_COLUMNS]
        found = [(int(j), _thresholds(X[:, j], owners[int(j)])) for j in order]
        self.cuts = [(place, thresholds) for place, thresholds in found if len(thresholds)]
        self.n_codes = 2 + max((len(thresholds) for _, thresholds in self.cuts), default=0)
        self.codes: Counts = np.zeros((len(X), len(self.cuts)), np.intp)
        for column, (place, thresholds) in enumerate(self.cuts):
            codes = np.where(np.isnan(X[:, place]), self.n_codes - 1, np.searchsorted(thresholds, X[:, place]))
            self.codes[:, column] = codes + self.n_codes * column

    def search(self, own: Mask) -> tuple[Condition, ...]:
        """Return the conditions of the best rule for the rows `own`."""
        start = np.ones(len(own), dtype=bool)
        beam: list[Scored] = [(float(_f1(own.sum(), start.sum(), own.sum())), (), start)]
        best = beam[0]
        for _ in range(MAX_CONDITIONS):
            longer = [found for _, conditions, rows in beam for found in self._extensions(conditions, rows, own)]
            beam = sorted(longer, key=lambda found: -found[0])[:BEAM]
            if not beam or beam[0][0] < best[0] + MIN_IMPROVEMENT:
                break
            best = beam[0]
        return best[1]

    def _extensions(self, conditions: tuple[Condition, ...], rows: Mask, own: Mask) -> list[Scored]:
        """Return the best longer rules, with their F1 and their rows; the last code of a column is a missing value."""
        size = self.n_codes * len(self.cuts)
        both, everything = (
            np.bincount(self.codes[some].ravel(), minlength=size).reshape(-1, self.n_codes)[:, :-1].cumsum(1)
            for some in (rows & own, rows)
        )
        found = []
        for above in (False, True):
            hits, total = (both[:, -1:] - both, everything[:, -1:] - everything) if above else (both, everything)
            scores = _f1(hits, total, own.sum())
            for column in np.argsort(-scores.max(1, initial=0), kind="stable")[:BEAM]:
                cut, (place, thresholds) = int(scores[column].argmax()), self.cuts[column]
                if cut < len(thresholds):
                    new = Condition(place, above, float(thresholds[cut]))
                    codes = self.codes[:, column] - self.n_codes * column
                    kept = rows & ((codes > cut) & (codes < self.n_codes - 1) if above else codes <= cut)
                    found.append((float(scores[column, cut]), (*conditions, new), kept))
        return found


def _f1(hits: Counts, total: Counts, n_own: int) -> Floats:
    """Return F1 of rules with `hits` right rows among `total`, of `n_own` that should be found."""
    return 2 * hits / (total + n_own)


def _thresholds(values: Floats, feature: Feature) -> Floats:
    """Return short numbers between neighbouring values; at equal ranks if there are many values."""
    values = values[~np.isnan(values)]
    distinct = np.unique(values)
    gaps = np.arange(max(len(distinct) - 1, 0))
    if len(gaps) > MAX_CUTS:
        ends = np.searchsorted(distinct, np.quantile(values, np.linspace(0, 1, MAX_CUTS + 2)[1:-1]))
        gaps = np.unique(np.clip(ends, 0, len(distinct) - 2))
    return np.array([feature.between(float(distinct[i]), float(distinct[i + 1])) for i in gaps])


def _shortened(conditions: tuple[Condition, ...], X: Floats, own: Mask, owners: Owners) -> tuple[Condition, ...]:
    """Return the conditions with fewer digits in their thresholds, as long as F1 hardly changes."""

    def f1(tried: Sequence[Condition]) -> float:
        rows = _all_hold(tried, X)
        return float(_f1((rows & own).sum(), rows.sum(), own.sum()))

    found, least = list(conditions), f1(conditions) - MAX_LOSS
    for number, condition in enumerate(conditions):
        for threshold in owners[condition.place].shorter(condition.threshold):
            tried = [*found[:number], replace(condition, threshold=threshold), *found[number + 1 :]]
            if f1(tried) >= least:
                found = tried
                break
    return tuple(found)


def _measured(cluster: int, conditions: tuple[Condition, ...], X: Floats, own: Mask, owners: Owners) -> Rule:
    """Return a rule with its words and with what it covers of all rows."""
    found = _all_hold(conditions, X)
    n_own, n_found, hits = int(own.sum()), int(found.sum()), int((own & found).sum())
    text = " and ".join(_words(conditions, owners)) or "all rows"
    return Rule(cluster, n_own, text, hits / n_own, hits / n_found if n_found else np.nan, conditions)


def _all_hold(conditions: Sequence[Condition], X: Floats) -> Mask:
    """Return which rows satisfy all conditions."""
    found = np.ones(len(X), dtype=bool)
    for condition in conditions:
        found &= condition.holds(X)
    return found


def _words(conditions: Sequence[Condition], owners: Owners) -> list[str]:
    """Return the conditions in words; two limits of the same column become an interval."""
    limits: dict[int, dict[bool, float]] = {}
    for condition in conditions:  # of two limits on the same side, the narrower one counts
        side = limits.setdefault(condition.place, {})
        narrower = max if condition.above else min
        side[condition.above] = narrower(condition.threshold, side.get(condition.above, condition.threshold))
    texts = []
    for place, side in limits.items():
        feature = owners[place]
        if len(side) == 2 and not feature.is_share:
            texts.append(f"{feature.value(side[True])} < {feature.name} <= {feature.value(side[False])}")
        else:
            texts += [feature.condition(place, above=above, threshold=limit) for above, limit in side.items()]
    return texts
