"""How many clusters: which numbers of groups have borders, and which of them the rows support best.

For every number c, the judge picks the best partition, as for the start of a fit. Three things are measured on it:

border
    by how many standard errors the weakest border between two clusters is crossed by fewer links than parallel cuts
    through the clusters, see `knet.start.borders`. The number is **clear**, **plausible** or **a guess**;
gain
    the Gaussian log-likelihood per row over one Gaussian, as in the judge: groups that overlap have no clear border;
jump
    log of the conductance with c + 1 clusters minus that with c. If c is right, one cluster more has to cut through a
    group. In a homogeneous cloud it is about log((c + 1) / c) / 2, which is subtracted.

The largest clear number wins: all its borders are real, and so are those of smaller clear numbers, which are coarser
levels. The number with the largest gain wins over it if its borders hold on average: then borders and likelihood agree.
If there is neither, the largest number wins that is almost clear, and if there is none, all numbers compete by
jump + 2 gain / sqrt(columns), their value. But if one Gaussian describes the rows as well as any number of groups, and
nothing else shows in them, they are one group. In tables that are judged by modularity, it is used instead of gain and
value; its curve is flat near the top, so that the smallest number within one standard error of the largest counts.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NotRequired, TypedDict

import numpy as np

from knet.arrays import Floats, Labels
from knet.prepare.training_rows import Prepared
from knet.start.borders import CLEAR, Border, compare_clusters, weakest_border
from knet.start.candidates import Pool
from knet.start.choice import Choice, Compared, choose_from
from knet.start.columns import comparable_columns
from knet.start.evidence import Evidence
from knet.start.judge import JUDGE_NEIGHBORS, Judge, Verdict, gain_error
from knet.threads import one_blas_thread

FIRST_MAX = 15  # clusters that are compared by default
LAST_MAX = 60  # clusters that are compared by default if there may be more; their number is doubled until there are not
SCAN_ROWS = 2000  # rows on which numbers are compared, at most
GAIN_WEIGHT = 2.0  # of the gain, against a jump in log conductance
AVERAGE_HOLDS = 1.0  # standard errors by which borders hold on average if the likelihood speaks for them
RANK = 10.0  # a step in the score from one number whose borders hold to the next; values differ by less
NEAR_END = 0.75  # of the numbers that were compared: if the best one lies beyond, there may be more groups


@dataclass(frozen=True)
class Number:
    """What speaks for a number of clusters."""

    n_clusters: int
    choice: Choice
    border: Border
    value: float
    value_error: float  # standard error of the value, if it is a modularity
    is_one_cloud: bool  # whether one Gaussian describes the rows as well
    is_agreed: bool = False  # whether the gain or the modularity is the largest, and the borders hold on average

    @property
    def verdict(self) -> str:
        """How well the rows support the number: "clear", "plausible" or "a guess"."""
        by_border = self.border.verdict
        return "plausible" if by_border == "a guess" and self.is_agreed else by_border

    @property
    def gain(self) -> float:
        """The gain of the chosen partition."""
        return self.choice.verdict.gain

    def row(self, best: "Number | None") -> "NumberRow":
        """Return the measurements as a row of a table."""
        return NumberRow(
            n_clusters=self.n_clusters,
            verdict=self.verdict,
            value=self.value,
            border=self.border.strength,
            conductance=self.choice.verdict.conductance,
            gain=self.gain,
            smallest_group=int(np.bincount(self.choice.labels).min()),
            method=self.choice.method,
            next_step=self._next_step(best),
        )

    def _next_step(self, best: "Number | None") -> str:
        """Return what a user can do with the number, in a few words."""
        if self is best:
            return NEXT_STEPS[self.verdict]
        if self.border.falls_apart:
            return f"{self.border.finding}: more clusters"
        if self.verdict == "a guess":
            return f"{self.border.finding}: fewer clusters"
        if best is not None and self.n_clusters < best.n_clusters:
            return f"a coarser level of {best.n_clusters}"
        return f"compare with KNet({self.n_clusters})"


NEXT_STEPS = {
    "clear": "use it",
    "plausible": "use it, and look at a picture",
    "a guess": "choose by the task, or use soft labels",
}


class NumberRow(TypedDict):
    """The measurements of a number of clusters, and what a user can do with it.

    `border` is by how many standard errors the weakest border holds.
    """

    n_clusters: int
    verdict: str
    value: float
    border: float
    conductance: float
    gain: float
    smallest_group: int
    method: str
    next_step: str
    stability: NotRequired[float]


class NumberFound(TypedDict):
    """The number of clusters, how clear it is, it and its coarser levels, all in words, and what was measured."""

    best: int
    verdict: str
    levels: list[int]
    advice: str
    table: list[NumberRow]


Finding = tuple[NumberFound, Compared | None]  # the number of clusters, and what a start can use again


@dataclass(frozen=True)
class Numbers:
    """The numbers of clusters that were compared, on the sample X of prepared rows, and what a start can use again."""

    X: Floats
    numbers: list[Number]
    compared: Compared | None = None


def find_number(
    prepared: Prepared, max_clusters: int | None, rng: np.random.RandomState, show: Callable[[str], object]
) -> Numbers:
    """Measure all numbers from 2 to `max_clusters` on a sample of the prepared rows; `show` gets lines of progress.

    None is `FIRST_MAX`, and more as long as there may be more groups than were compared.
    """
    X = prepared.X[prepared.first(SCAN_ROWS)].astype(np.float64)
    largest = len(np.unique(X, axis=0)) // 2 - 1  # groups have at least two different rows, on average
    limit = min(FIRST_MAX if max_clusters is None else max_clusters, largest)
    if limit < 2:
        return Numbers(X, [])
    with one_blas_thread():
        columns, shares_unit = comparable_columns(X, rng), prepared.preparation.shares_unit
        pool = Pool(columns, range(2, limit + 2), int(rng.randint(2**31 - 1)), shares_unit=shares_unit)
        judge = Judge(columns, pool.near, shares_unit=shares_unit)
        compared = list(_compare(pool, judge, show))
        while max_clusters is None and _may_be_more(_measure(judge, compared)) and limit < min(LAST_MAX, largest):
            first, limit = limit + 2, min(2 * limit, LAST_MAX, largest)
            pool.ask(range(first, limit + 2))
            compared += _compare(pool, judge, show)
    return Numbers(X, _measure(judge, compared), Compared(pool, judge))


def _compare(pool: Pool, judge: Judge, show: Callable[[str], object]) -> Iterator[tuple[Choice, Border]]:
    """Yield the best partition for each number of clusters that the pool is asked for, and its weakest border."""
    for c in pool.counts:
        show(f"comparing {c} of at most {max(pool.counts) - 1} clusters")
        choice = choose_from(pool, judge, c)
        yield choice, weakest_border(judge.graph, choice.labels, JUDGE_NEIGHBORS)


def _measure(judge: Judge, compared: Sequence[tuple[Choice, Border]]) -> list[Number]:
    """Return the numbers from 2 on; the last partition only shows what one cluster more would cost."""
    found = []
    for c, ((choice, border), (following, _)) in enumerate(pairwise(compared), start=2):
        value = _value(choice.verdict, following.verdict, c, judge)
        error = judge.modularity_error(choice.verdict) if judge.uses_modularity else 0.0
        found.append(Number(c, choice, border, value, error, judge.is_one_cloud(choice.verdict)))
    likely = _most_valued(found) if judge.uses_modularity else max(found, key=lambda number: number.gain)
    if likely.border.average >= AVERAGE_HOLDS and not likely.border.falls_apart:
        if judge.uses_modularity or _is_more_likely(likely, _clear(found)):
            found[likely.n_clusters - 2] = replace(likely, is_agreed=True)
    return found


def _value(verdict: Verdict, following: Verdict, n_clusters: int, judge: Judge) -> float:
    """Return the modularity, or jump + 2 gain / sqrt(columns); `following` has one cluster more."""
    if judge.uses_modularity:
        return verdict.modularity
    jump = np.log(following.conductance / verdict.conductance) - np.log((n_clusters + 1) / n_clusters) / 2
    return float(jump + GAIN_WEIGHT * verdict.gain / np.sqrt(judge.X.shape[1]))


def _most_valued(numbers: Sequence[Number]) -> Number:
    """Return the smallest number whose value is within one standard error of the largest."""
    best = max(numbers, key=lambda number: number.value)
    return next(number for number in numbers if number.value >= best.value - best.value_error)


def _is_more_likely(likely: Number, clear: Sequence[Number]) -> bool:
    """Say whether a number has a gain, and a larger one than the largest clear number, by its standard error."""
    if likely.gain <= 0 or not clear or clear[-1].n_clusters >= likely.n_clusters:
        return likely.gain > 0
    first, second = likely.choice.verdict, clear[-1].choice.verdict
    return first.gain - second.gain > gain_error(first, second)


def _may_be_more(numbers: Sequence[Number]) -> bool:
    """Say whether there may be more groups than were compared: the last fall apart, or the best number is near them."""
    last, supported = numbers[-1], _supported(numbers)
    near_end = bool(supported) and supported[-1].n_clusters > NEAR_END * last.n_clusters
    return near_end or last.border.falls_apart > 0


def _clear(numbers: Sequence[Number]) -> list[Number]:
    """Return the numbers whose borders are all clear."""
    return [number for number in numbers if number.verdict == "clear"]


def _supported(numbers: Sequence[Number]) -> list[Number]:
    """Return the numbers that are clear, or on which borders and likelihood agree."""
    return [number for number in numbers if number.verdict == "clear" or number.is_agreed]


def best_number(numbers: Sequence[Number]) -> Number | None:
    """Return the number that the rows support best; None if they are one group."""
    if supported := _supported(numbers):
        return supported[-1]
    if all(number.is_one_cloud for number in numbers):
        return None
    almost = [number for number in numbers if number.border.is_almost_clear]
    return almost[-1] if almost else _most_valued(numbers)


def advise(numbers: Sequence[Number]) -> NumberFound:
    """Return the best number of clusters, how clear it is, its coarser levels, and why."""
    best = best_number(numbers)
    table = [number.row(best) for number in numbers]
    if best is None:
        reason = "no number of groups describes the rows better than a single group does."
        if not numbers:
            reason = "there are too few different rows to compare numbers of clusters."
        return NumberFound(best=1, verdict="plausible", levels=[], advice=f"1 cluster: {reason}", table=table)
    levels = [] if best.verdict == "a guess" else [number.n_clusters for number in (*_coarser(numbers, best), best)]
    advice = f"{about_number(best.n_clusters, best.verdict, best.border)}{_about_others(numbers, best, levels[:-1])}"
    return NumberFound(best=best.n_clusters, verdict=best.verdict, levels=levels, advice=advice, table=table)


def _coarser(numbers: Sequence[Number], best: Number) -> list[Number]:
    """Return the clear numbers below the best that are levels: one cluster more or fewer has a smaller value."""
    values = {number.n_clusters: number.value for number in numbers}
    return [
        number
        for number in _clear(numbers)
        if number.n_clusters < best.n_clusters
        and all(values.get(number.n_clusters + step, -np.inf) <= number.value for step in (-1, 1))
    ]


def _about_others(numbers: Sequence[Number], best: Number, levels: Sequence[int]) -> str:
    """Return sentences about the next number, and about numbers that are almost as good."""
    text, following = "", next((number for number in numbers if number.n_clusters == best.n_clusters + 1), None)
    if best.verdict == "a guess":
        nearest = max(numbers, key=lambda number: number.border.strength)
        return f" The borders of {nearest.n_clusters} clusters hold best." if nearest is not best else ""
    if following is not None and following.verdict == "a guess":
        text += f" With {following.n_clusters}, {following.border.finding}."
    if levels:
        text += f" A coarser level is clear, too: {', '.join(map(str, levels))}."
    others = [number for number in numbers if number.verdict == "plausible" and number is not best]
    if others:
        text += f" Also plausible: {', '.join(str(number.n_clusters) for number in others)}."
    return text


def advise_on(n_clusters: int, border: Border | None) -> NumberFound:
    """Return how clear a number of clusters is that the user has given."""
    if border is None:
        return NumberFound(best=n_clusters, verdict="plausible", levels=[], advice="1 cluster, as asked.", table=[])
    advice = about_number(n_clusters, border.verdict, border)
    return NumberFound(best=n_clusters, verdict=border.verdict, levels=[], advice=advice, table=[])


def guided_number(
    found: NumberFound, prepared: Prepared, evidence: Evidence | None, rng: np.random.RandomState
) -> NumberFound:
    """Return the number of clusters that was found, at least that of the known labels.

    In a refit it is that of the earlier model, unless another one is clearly better: the borders between the earlier
    clusters have to be clear if those of the number that was found are, and otherwise must not fail by more than one
    standard error; and none of the earlier clusters falls apart.
    """
    if evidence is not None and found["best"] < evidence.n_labels:
        return advise_on(evidence.n_labels, None)
    if evidence is None or evidence.earlier is None:
        return found
    earlier = evidence.earlier[prepared.rows]
    n_earlier = int(earlier.max()) + 1
    border = compare_clusters(prepared.X, earlier, n_earlier, rng)[0]
    needed = {"clear": CLEAR, "plausible": -1.0, "a guess": -np.inf}[found["verdict"]]
    if n_earlier == found["best"] or border is None or border.falls_apart or border.strength < needed:
        return found
    return advise_on(n_earlier, None)


def warn_of_guess(found: NumberFound) -> list[str]:
    """Return a message if the number of clusters was found and is a guess."""
    return [found["advice"] + " knet.scan compares other numbers."] if found["verdict"] == "a guess" else []


def about_number(n_clusters: int, verdict: str, border: Border) -> str:
    """Return how clear a number of clusters is, in words."""
    if verdict == "a guess":
        return f"{n_clusters} clusters are a guess: {border.finding}."
    adverb, doubt = ("clearly", "") if verdict == "clear" else ("plausibly", ", but not by much everywhere")
    return f"{n_clusters} clusters, {adverb}: the rows are sparser between any two of them than inside either{doubt}."


def value_of(X: Floats, labels: Labels, rng: np.random.RandomState, *, shares_unit: bool = False) -> float:
    """Return the value of a partition of prepared rows, for `KNet.score`; 0 for a single cluster.

    As in `best_number`, clusters with clear borders rank above others, then those with almost clear borders, and more
    of them above fewer. Otherwise the value decides, together with how well borders hold on average: in the few rows of
    a fold no border is clear.
    """
    groups = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    c = int(groups.max()) + 1
    if c == 1 or len(X) <= c + 1:
        return 0.0
    with one_blas_thread():
        columns = comparable_columns(X.astype(np.float64), rng)
        pool = Pool(columns, range(c + 1, c + 3), int(rng.randint(2**31 - 1)), shares_unit=shares_unit)
        judge = Judge(columns, pool.near, shares_unit=shares_unit)
        following = choose_from(pool, judge, c + 1).verdict
        border = weakest_border(judge.graph, groups, JUDGE_NEIGHBORS)
        rank = LAST_MAX + c if border.verdict == "clear" else c if border.is_almost_clear else 0
        return RANK * rank + border.average + _value(judge.measure(groups), following, c, judge)
