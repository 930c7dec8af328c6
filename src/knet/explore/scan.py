"""The scan: a value, a verdict and a reason for every number of clusters; the rule is that of `knet.start.number`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike

from knet.arrays import Floats, Frame, Labels
from knet.estimator import KNet, RandomState
from knet.metrics import rand_index
from knet.model.display import html_table, text_table, to_frame
from knet.parameters import check_parameters
from knet.prepare.training_rows import ordered_by_content, prepare_rows
from knet.progress import IterationReporter
from knet.rows.weights import rows_that_count
from knet.start.candidates import Pool
from knet.start.choice import choose_from
from knet.start.columns import comparable_columns
from knet.start.judge import Judge
from knet.start.neighbors import Indices, extend
from knet.start.number import FIRST_MAX, NumberRow, advise, find_number
from knet.threads import one_blas_thread
from knet.train.host import random_generator

SHOWN = ("n_clusters", "verdict", "value", "border", "smallest_group", "stability", "next_step")  # columns as text


@dataclass(frozen=True, repr=False)
class Scan:
    """The result of a scan.

    Attributes
    ----------
    best : int
        The number of clusters that the rows support best; 1 if they are one group.
    verdict : {"clear", "plausible", "a guess"}
        How well they support it.
    levels : list of int
        The numbers worth having, coarse to fine: clear coarser levels, and `best`; empty if it is a guess.
    advice : str
        The result in a sentence or two.
    table : list of dict
        One row per number of clusters: n_clusters, verdict, value, border, conductance, gain, smallest_group, method,
        next_step, and with `n_resamples` stability. `border` is by how many standard errors the weakest border between
        two clusters holds. As text, a scan leaves out conductance, gain and method.
    """

    best: int
    verdict: str
    levels: list[int]
    advice: str
    table: list[NumberRow]

    def to_frame(self) -> Frame:
        """Return the table as a pandas DataFrame, with the number of clusters as the index."""
        return to_frame(self.table or {"n_clusters": []}).set_index("n_clusters")

    def __repr__(self) -> str:
        return f"{self.text}\n{self.advice}"

    def _repr_html_(self) -> str:
        return html_table(self.advice, *self._shown)

    @property
    def text(self) -> str:
        """The table as lines of text."""
        return text_table(*self._shown)

    @property
    def _shown(self) -> tuple[list[str], list[list[object]]]:
        """The names of the columns that are shown, and their rows."""
        names = [name for name in SHOWN if self.table and name in self.table[0]] or ["n_clusters"]
        return names, [[dict(row)[name] for name in names] for row in self.table]


def scan(
    X: ArrayLike,
    max_clusters: int | None = None,
    *,
    scale: str = "auto",
    metric: str = "euclidean",
    n_resamples: int = 0,
    n_jobs: int | None = None,
    random_state: RandomState = None,
    verbose: int = 0,
) -> Scan:
    """Compare numbers of clusters: which the rows support, how well, and why.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows, as for `KNet.fit`; many columns are reduced as there. Of many rows a random sample is used.
    max_clusters : int, optional
        The largest number of clusters to compare; None is 15, and up to 60 if there may be more. Numbers that are too
        large for the rows are left out.
    scale : {"auto", "standard", "common", "none"}, default="auto"
        As in `KNet`.
    metric : {"euclidean", "cosine"}, default="euclidean"
        As in `KNet`.
    n_resamples : int, default=0
        Pairs of random halves on which the stability of each number is measured as well; it does not enter the advice.
    n_jobs : int, default=None
        Number of joblib jobs for the halves.
    random_state : int, RandomState, Generator or None, default=None
        The only source of randomness.
    verbose : int, default=0
        1 logs each number that was compared, and shows it on standard error.

    Returns
    -------
    Scan
        `best`, `verdict`, `levels`, `advice` as a sentence, and `table`; `knet.plots.scan` draws it.

    Examples
    --------
    >>> from knet import scan
    >>> from knet.datasets import make_moon
    >>> scan(make_moon(300, random_state=0)[0], random_state=0).best
    2
    """
    model, rng = KNet(max_clusters=max_clusters, scale=scale, metric=metric), random_generator(random_state)
    check_parameters("scan", model.get_params(deep=False))
    rows = model._rows(X, reset=True)
    counted = ordered_by_content(rows, rows_that_count(rows, getattr(model, "feature_names_in_", None), None, rng))
    prepared = prepare_rows(rows if counted is None else rows[counted], model.get_params(deep=False), rng)
    with closing(IterationReporter(verbose)) as show:
        found = find_number(prepared, max_clusters, rng, show.say)
    answer, counts = advise(found.numbers), [number.n_clusters for number in found.numbers]
    if n_resamples and counts:
        stabilities = _stabilities(found.X, counts, rng, n_resamples, n_jobs, prepared.preparation.shares_unit)
        for row, value in zip(answer["table"], stabilities, strict=True):
            row["stability"] = value
    if counts and counts[-1] < (max_clusters or FIRST_MAX):
        answer["advice"] += f" There are too few different rows to compare more than {counts[-1]} clusters."
    return Scan(**answer)


def _stabilities(
    X: Floats, counts: Sequence[int], rng: np.random.RandomState, n_pairs: int, n_jobs: int | None, shares_unit: bool
) -> list[float]:
    """Return for each number how far partitions of two random halves agree, as a mean adjusted Rand index."""
    seed = int(rng.randint(2**31 - 1))
    halves = [half for _ in range(n_pairs) for half in np.array_split(rng.permutation(len(X)), 2)]
    found = Parallel(n_jobs=n_jobs)(delayed(_cluster_half)(X, half, counts, seed, shares_unit) for half in halves)
    pairs = zip(found[::2], found[1::2], strict=True)
    agreements = [[rand_index(a, b) for a, b in zip(first, second, strict=True)] for first, second in pairs]
    means: list[float] = np.mean(agreements, axis=0).tolist()
    return means


def _cluster_half(X: Floats, half: Indices, counts: Sequence[int], seed: int, shares_unit: bool) -> list[Labels]:
    """Return labels of all rows for each number of clusters, found on the rows `half` only."""
    with one_blas_thread():
        columns = comparable_columns(X[half], np.random.RandomState(seed))
        pool = Pool(columns, counts, seed, shares_unit=shares_unit)
        judge = Judge(pool.X, pool.near, shares_unit=shares_unit)
        return [extend(choose_from(pool, judge, c).labels, half, X) for c in counts]
