"""The scan: which number of clusters the data support, if any.

For every number of clusters c, the best partition is found in the same way as the start of a fit. Three things are
measured:

stability
    the mean adjusted Rand index between partitions that are found on two random halves and extended to all rows;
conductance
    the probability that a step to a near neighbour leaves its group;
jump
    the conductance with c + 1 clusters divided by the conductance with c. If c is right, an additional cluster has to
    cut through a group.

A number is supported if its partition is stable, the jump is large, and a single Gaussian does not describe the rows as
well. If the data are one homogeneous cloud, the conductance grows in small steps, and every half gives another
partition. A curved band gives the same partition every time, but its conductance also grows in small steps.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import ArrayLike

from knet.arrays import Floats, Labels
from knet.estimator import KNet
from knet.explore.display import html_table, text_table, to_frame
from knet.metrics import rand_index
from knet.parameters import check_parameters
from knet.prepare.training_rows import prepare_rows
from knet.start.candidates import Pool
from knet.start.choice import Choice, choose_from
from knet.start.columns import comparable_columns
from knet.start.judge import Judge
from knet.start.neighbors import Indices, extend
from knet.threads import one_blas_thread
from knet.train.host import random_generator

SCAN_ROWS = 1000  # the maximum number of rows that a scan uses
ROWS_PER_CLUSTER = 4  # the minimum, so that each half can be clustered
MIN_STABILITY = 0.75
MIN_JUMP = 2.0


@dataclass(frozen=True, repr=False)
class Scan:
    """The result of a scan.

    Attributes
    ----------
    best : int or None
        The number of clusters that the data support best; None if they support none.
    supported : list of int
        All numbers that the data support; nested groups can have several.
    advice : str
        The result as a sentence.
    table : list of dict
        One row per number of clusters: n_clusters, stability, conductance, jump, smallest_group, method, supported.
    """

    best: int | None
    supported: list[int]
    advice: str
    table: list[dict[str, Any]]

    def to_frame(self) -> Any:
        """Return the table as a pandas DataFrame, with the number of clusters as the index."""
        names = list(self.table[0])
        return to_frame({name: [row[name] for row in self.table] for name in names}).set_index(names[0])

    def __repr__(self) -> str:
        return f"{text_table(list(self.table[0]), [list(row.values()) for row in self.table])}\n{self.advice}"

    def _repr_html_(self) -> str:
        return html_table(self.advice, list(self.table[0]), [list(row.values()) for row in self.table])


def scan(
    X: ArrayLike,
    clusters: Iterable[int] = range(2, 11),
    *,
    scale: str = "auto",
    metric: str = "euclidean",
    n_resamples: int = 5,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> Scan:
    """Find the number of clusters that the data support best, or report that they support none.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows, as for `KNet.fit`; many columns are reduced as there. If there are more than 1000 rows, a random sample
        of 1000 is used.
    clusters : iterable of int, default=range(2, 11)
        The numbers of clusters to compare.
    scale : {"auto", "standard", "none"}, default="auto"
        As in `KNet`.
    metric : {"euclidean", "cosine"}, default="euclidean"
        As in `KNet`.
    n_resamples : int, default=5
        Number of pairs of random halves on which stability is measured.
    n_jobs : int, default=None
        Number of joblib jobs.
    random_state : int, RandomState, Generator or None, default=None
        The only source of randomness.

    Returns
    -------
    Scan
        `best` (an int or None), `supported`, `advice` as a sentence, and `table`; `knet.show.plots.scan` draws it.

    Examples
    --------
    >>> from knet import scan
    >>> from knet.datasets import make_moon
    >>> scan(make_moon(300, random_state=0)[0], range(2, 5), random_state=0).best
    2
    """
    model, rng = KNet(1, scale=scale, metric=metric), random_generator(random_state)
    check_parameters("scan", model.get_params(deep=False))
    rows = model._rows(X, reset=True)
    prepared = prepare_rows(rows, model.get_params(deep=False), rng)
    scaled = prepared.X[prepared.first(SCAN_ROWS)].astype(np.float64)
    counts = _check_counts(clusters, scaled)
    table = _compare(scaled, range(counts[0], counts[-1] + 2), rng, n_resamples, n_jobs)  # a jump needs the next count
    return _advise([row for row in table if row["n_clusters"] in counts])


def _check_counts(clusters: Iterable[int], X: Floats) -> list[int]:
    """Return the numbers of clusters in ascending order, or raise if they cannot be compared on these rows."""
    counts = sorted(set(clusters))
    if not counts or not all(isinstance(c, int | np.integer) for c in counts) or counts[0] < 2:
        raise ValueError(
            f"The numbers of clusters to compare must be whole numbers from 2 upwards. Got {counts} instead."
        )
    largest, n_distinct = len(X) // ROWS_PER_CLUSTER - 1, len(np.unique(X, axis=0))
    if counts[-1] > largest:
        raise ValueError(
            f"{len(X)} rows are too few to compare up to {counts[-1]} clusters. The maximum for them is {largest}."
        )
    if counts[-1] + 1 > n_distinct // 2:
        raise ValueError(
            f"The {len(X)} rows of the scan have only {n_distinct} distinct values: too few to compare up to "
            f"{counts[-1]} clusters. Compare fewer."
        )
    return [int(c) for c in counts]


def _compare(
    X: Floats, counts: Sequence[int], rng: np.random.RandomState, n_resamples: int, n_jobs: int | None
) -> list[dict[str, Any]]:
    """Return a row of the table for every number of clusters but the last; joblib runs the halves in parallel.

    For each number of clusters, the judge picks a partition of all rows, and one of each of two random halves.
    """
    X, seed = comparable_columns(X, rng), int(rng.randint(2**31 - 1))
    with one_blas_thread():
        pool = Pool(X, counts[-1], seed)
        judge = Judge(X, pool.near)
        starts = [choose_from(pool, judge, c) for c in counts]
    halves = [half for _ in range(n_resamples) for half in np.array_split(rng.permutation(len(X)), 2)]
    found = Parallel(n_jobs=n_jobs)(delayed(_cluster_half)(X, half, counts, seed) for half in halves)
    agreements = [
        [rand_index(a, b) for a, b in zip(first, second, strict=True)]
        for first, second in zip(found[::2], found[1::2], strict=True)
    ]
    measured = zip(counts, starts, np.mean(agreements, axis=0).tolist(), strict=True)
    return [_table_row(*this, following[1], judge) for this, following in pairwise(measured)]


def _cluster_half(X: Floats, half: Indices, counts: Sequence[int], seed: int) -> list[Labels]:
    """Return labels of all rows for each number of clusters, found on the rows `half` only."""
    with one_blas_thread():
        pool = Pool(X[half], counts[-1], seed)
        judge = Judge(X[half], pool.near)
        return [extend(choose_from(pool, judge, c).labels, half, X) for c in counts]


def _table_row(c: int, start: Choice, stability: float, following: Choice, judge: Judge) -> dict[str, Any]:
    """Return the measurements of a number of clusters as a plain row; those of the next number give the jump."""
    jump = following.verdict.conductance / start.verdict.conductance
    return {
        "n_clusters": c,
        "stability": stability,
        "conductance": start.verdict.conductance,
        "jump": jump,
        "smallest_group": int(np.bincount(start.labels).min()),
        "method": start.method,
        "supported": bool(stability >= MIN_STABILITY and jump >= MIN_JUMP and not judge.is_one_cloud(start.verdict)),
    }


def _advise(table: list[dict[str, Any]]) -> Scan:
    """Return the result for a table: the supported number with the largest product of stability and jump is best."""
    strength = {row["n_clusters"]: row["stability"] * row["jump"] for row in table if row["supported"]}
    supported = list(strength)
    if not supported:
        advice = (
            f"No number of clusters from {table[0]['n_clusters']} to {table[-1]['n_clusters']} is supported: none is "
            "both stable under resampling and better separated than one cluster more. "
            "The data may be a single group, or their clusters overlap."
        )
        return Scan(None, [], advice, table)
    best = max(supported, key=strength.__getitem__)
    others = [str(c) for c in supported if c != best]
    also = f" Also supported: {', '.join(others)}." if others else ""
    return Scan(best, supported, f"{best} clusters are best supported.{also}", table)
