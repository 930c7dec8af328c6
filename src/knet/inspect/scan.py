"""Advice on the number of clusters, from the data alone, and an honest "no answer" where the data give none.

For every number of clusters c the best partition is found as at the start of a fit. Three things are measured of it:

stability
    how alike the partitions of two random halves are, carried to all rows: a mean of adjusted Rand indices;
conductance
    the chance that a step to a near neighbour leaves its group;
jump
    conductance with c + 1 clusters over conductance with c. Where c is right, one cluster more has to cut through a
    group.

A number is supported where its partition is stable and the jump is large. A homogeneous cloud is cut ever worse in
small steps and differently in every half; a curved band is cut in the same places every time, but in small steps too.
The eigengap is reported and not used: it depends on the width of the kernel more than on the data.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state

from knet._fit.affinities import Affinity, candidates, partitions, squared_distances
from knet._fit.judge import Candidate, Judge, rand_index
from knet._fit.starts import FINALISTS, Halves, best_of
from knet._math.kmeans import Floats
from knet._math.threads import one_blas_thread
from knet._network.scaling import column_scale
from knet.estimator import KNet
from knet.predictor import standardize

SCAN_ROWS = 1000  # rows that a scan looks at
ROWS_PER_CLUSTER = 4  # at least, for halves to be clustered
MIN_STABILITY = 0.75
MIN_JUMP = 2.0


@dataclass(frozen=True)
class Scan:
    """What a scan found.

    Attributes
    ----------
    best : int or None
        The number of clusters that the data support best; None where they support none.
    supported : list of int
        All numbers that they support: nested groups can have several.
    advice : str
        The same in a sentence.
    table : list of dict
        One row per number of clusters: n_clusters, stability, conductance, jump, eigengap, smallest_group, affinity,
        ratio, neighbors, supported.
    """

    best: int | None
    supported: list[int]
    advice: str
    table: list[dict[str, Any]]


def scan_rows(
    X: Floats, counts: Iterable[int], rng: np.random.RandomState, *, n_resamples: int = 5, n_jobs: int | None = None
) -> Scan:
    """Compare numbers of clusters for scaled rows; the candidates are shared out by joblib."""
    wanted = check_counts(counts, X)
    steps = range(wanted[0], wanted[-1] + 2)  # the jump looks one further
    seed = int(rng.randint(2**31 - 1))
    D2 = squared_distances(X)
    judge = Judge(X)
    halves = [Halves(D2, steps[-1], rng) for _ in range(n_resamples)]
    run, affinities = Parallel(n_jobs=n_jobs), list(candidates(D2))
    proposed = run(delayed(_screen)(one, judge, halves[0], steps, seed) for one in affinities)
    ranked = [sorted(range(len(affinities)), key=lambda k: proposed[k][step].score) for step in range(len(steps))]
    finalists = sorted({k for order in ranked for k in order[:FINALISTS]})
    embedded = dict(zip(finalists, run(delayed(_embed)(affinities[k], D2, steps[-1]) for k in finalists), strict=True))
    found = run(
        delayed(_measure)([(proposed[k][step], *embedded[k]) for k in order[:FINALISTS]], c, judge, halves[1:], seed)
        for step, (c, order) in enumerate(zip(steps, ranked, strict=True))
    )
    rows = [_row(*pair) for pair in pairwise(found)]
    return _judged([row for row in rows if row["n_clusters"] in wanted])


def check_counts(counts: Iterable[int], X: Floats) -> list[int]:
    """Return the numbers of clusters in ascending order, or say why they cannot be compared on these rows."""
    wanted = sorted(set(counts))
    if not wanted or not all(isinstance(c, int | np.integer) for c in wanted) or wanted[0] < 2:
        raise ValueError(f"The numbers of clusters to compare must be whole numbers from 2. Got {wanted} instead.")
    most, n_distinct = len(X) // ROWS_PER_CLUSTER - 1, len(np.unique(X, axis=0))
    if wanted[-1] > most:
        raise ValueError(f"{len(X)} rows are too few to compare up to {wanted[-1]} clusters; at most {most}.")
    if wanted[-1] + 1 > n_distinct // 2:
        raise ValueError(f"The rows scanned hold only {n_distinct} distinct ones: too few for {wanted[-1]} clusters.")
    return [int(c) for c in wanted]


def _screen(affinity: Affinity, judge: Judge, halves: Halves, steps: Sequence[int], seed: int) -> list[Candidate]:
    """Cluster both halves by one affinity, for every number of clusters."""
    with one_blas_thread():
        return [judge.screen(affinity, *pair) for pair in halves.cluster(affinity, steps, seed)]


def _embed(affinity: Affinity, D2: Floats, most: int) -> tuple[Floats, Floats]:
    """Return eigenvalues and eigenvectors for up to `most` clusters, and one eigenvalue more for the gap."""
    with one_blas_thread():
        return affinity.embed(D2, most + 1)


@dataclass(frozen=True)
class _Found:
    """The best partition into c groups, and what was measured of it."""

    c: int
    best: Candidate
    stability: float
    eigengap: float


def _measure(
    finalists: Sequence[tuple[Candidate, Floats, Floats]], c: int, judge: Judge, halves: Sequence[Halves], seed: int
) -> _Found:
    """Let the finalists, each with its eigenvalues and eigenvectors, cluster all rows; resample the best of them."""
    with one_blas_thread():
        finished = [judge.finish(one, partitions(V, [c], seed)[0]) for one, _, V in finalists]
        best = best_of(finished)
        again = [rand_index(*pair.cluster(best.affinity, [c], seed)[0]) for pair in halves]
    values = next(values for one, (_, values, _) in zip(finished, finalists, strict=True) if one is best)
    return _Found(c, best, float(np.mean([best.reproducibility, *again])), float(values[c - 1] - values[c]))


def _row(this: _Found, next_one: _Found) -> dict[str, Any]:
    """Return a number of clusters as a plain row; the conductance of the next one gives the jump."""
    affinity, labels = this.best.affinity, this.best.labels
    jump = next_one.best.final_conductance / this.best.final_conductance
    return {
        "n_clusters": this.c,
        "stability": this.stability,
        "conductance": this.best.final_conductance,
        "jump": jump,
        "eigengap": this.eigengap,
        "smallest_group": int(np.bincount(labels).min()) if labels is not None else 0,
        "affinity": affinity.kind,
        "ratio": affinity.ratio,
        "neighbors": affinity.neighbors,
        "supported": bool(this.stability >= MIN_STABILITY and jump >= MIN_JUMP),
    }


def _judged(table: list[dict[str, Any]]) -> Scan:
    """Return the advice that goes with a table: the supported number with the largest stability x jump."""
    strength = {row["n_clusters"]: row["stability"] * row["jump"] for row in table if row["supported"]}
    supported = list(strength)
    numbers = f"{table[0]['n_clusters']} to {table[-1]['n_clusters']}"
    if not supported:
        advice = (
            f"No number of clusters from {numbers} is supported: none is both stable under resampling and better "
            "separated than with one cluster more. The data may form one cloud, or clusters that overlap."
        )
        return Scan(None, [], advice, table)
    best = max(supported, key=strength.__getitem__)
    others = [str(c) for c in supported if c != best]
    advice = f"{best} clusters are best supported" + (f"; {', '.join(others)} as well." if others else ".")
    return Scan(best, supported, advice, table)


def scan(
    X: ArrayLike,
    clusters: Iterable[int] = range(2, 11),
    *,
    scale: str = "standard",
    n_resamples: int = 5,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> Scan:
    """Advise on the number of clusters of X, or say that the data give no answer.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows, as for `KNet.fit`; of more than 1000 a random sample is looked at.
    clusters : iterable of int, default=range(2, 11)
        The numbers to compare.
    scale : {"standard", "none"}, default="standard"
        As in `KNet`.
    n_resamples : int, default=5
        Pairs of random halves that stability is measured on.
    n_jobs : int, default=None
        As in joblib.
    random_state : int, RandomState or None, default=None
        The only source of randomness.

    Returns
    -------
    Scan
        `best` (an int or None), `supported`, `advice` in words, and `table`; draw it with `knet.plots.scan`.

    Examples
    --------
    >>> from knet import scan
    >>> from knet.datasets import make_moon
    >>> scan(make_moon(300, random_state=0)[0], range(2, 5), random_state=0).best
    2
    """
    rows, rng = KNet(scale=scale)._validate(X, reset=True), check_random_state(random_state)
    shift, factor = column_scale(rows, scale)
    chosen = np.sort(rng.permutation(len(rows))[:SCAN_ROWS])
    scaled = standardize(rows[chosen], shift, factor, like=torch.empty(0, dtype=torch.float64)).numpy()
    return scan_rows(scaled, clusters, rng, n_resamples=n_resamples, n_jobs=n_jobs)
