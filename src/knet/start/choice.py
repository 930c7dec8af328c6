"""The start of a fit, chosen from the data alone: many candidates propose a partition, and the judge picks one."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from knet.arrays import Floats, Labels
from knet.prepare.training_rows import MAX_ROWS, ROWS_PER_CLUSTER, Prepared
from knet.start.candidates import Pool
from knet.start.caveats import about_partition
from knet.start.columns import MAX_COLUMNS, comparable_columns
from knet.start.evidence import Evidence
from knet.start.guide import guide, most_supported
from knet.start.judge import JUDGE_NEIGHBORS, Judge, Verdict, is_as_good
from knet.start.mixtures import Gaussians, Moments, overall_covariance, rounding_variance, split_groups
from knet.start.neighbors import Indices, Neighbors, extend
from knet.start.votes import Votes, count_votes
from knet.threads import one_blas_thread

START_PAIRS = 1_000_000  # the start is chosen on at most so many pairs of a row and a cluster: time grows with them
VOTE_ROWS = 2000  # the candidates vote on at most this many rows
SMALL_DATA = 2000  # the start is chosen on at least this many rows, or 30 per cluster if that is more
CORE_ROWS, CORE_ROWS_PER_CLUSTER = 500, 10  # the same for the rows that Algorithm 1 runs on
EARLIER = "earlier clusters"  # the candidate of a refit
FOLLOW_WIDTH = 0.5  # width of the kernel after following a start, as a share of the median distance


@dataclass(frozen=True)
class Start:
    """Where training starts.

    Attributes
    ----------
    rows : ndarray of shape (n_train,)
        Positions of the training rows, in ascending order.
    X : ndarray of shape (n_train, d)
        The training rows, prepared.
    core : ndarray of int
        Positions, within `rows`, of the rows that Algorithm 1 runs on.
    sigma : float
        Width of the kernel in the prepared rows.
    labels : ndarray of shape (n_train,), or None
        The partition that psi follows first; None if U starts from the eigenvectors of the kernel.
    near : ndarray of shape (n_train, k), or None
        Positions, within `rows`, of the nearest rows of each; a row that the choice did not see, or whose label is
        known, has itself.
    selection : list of dict
        The candidates that were compared, the chosen one first.
    caveats : list of str
        What the user should know about the partition.
    votes : Votes, or None
        How far the candidates agree with the partition; None if there were none.
    """

    rows: NDArray[np.intp]
    X: Floats
    core: NDArray[np.intp]
    sigma: float
    labels: Labels | None
    near: Indices | None
    selection: list[dict[str, object]]
    caveats: list[str]
    votes: Votes | None = None

    @property
    def near_all(self) -> Neighbors | None:
        """The nearest rows of all training rows, with distances, if the candidates saw them as they are."""
        return None if self.votes is None else self.votes.near


class Compared(NamedTuple):
    """Candidates and judge of a comparison of numbers of clusters."""

    pool: Pool
    judge: Judge


def choose_start(
    prepared: Prepared,
    n_clusters: int,
    sigma_scale: float,
    rng: np.random.RandomState,
    evidence: Evidence | None = None,
    *,
    is_exact: bool = True,
    compared: Compared | None = None,
) -> Start:
    """Choose a partition of the prepared rows into groups.

    The time of the choice grows with rows and clusters, that of following it with neither: psi follows it on more rows.
    What is known about the rows corrects the partition; unless `is_exact`, it may have another number of groups. If
    numbers were `compared` on the same rows, their candidates are used.
    """
    n_train = min(len(prepared.rows), MAX_ROWS) if prepared.n_train is None else prepared.n_train
    enough = max(SMALL_DATA, ROWS_PER_CLUSTER * n_clusters)
    n_start = min(n_train, MAX_ROWS, max(enough, START_PAIRS // n_clusters))
    drawn = prepared.first(n_train)
    X = prepared.X if len(drawn) == len(prepared.X) else prepared.X[drawn]
    n_core = min(n_train, max(CORE_ROWS, CORE_ROWS_PER_CLUSTER * n_clusters))
    sample, core = (np.searchsorted(drawn, prepared.first(n)) for n in (n_start, n_core))
    with one_blas_thread():
        if compared is None or len(compared.pool.X) != len(sample):  # else they are the first rows of the same draw
            compared = _candidates(prepared, X[sample], n_clusters, rng)
        pool, judge = compared
        pool.ask([n_clusters])
        known = None if evidence is None else evidence.of(prepared.rows[drawn[sample]])
        chosen = choose_from(pool, judge, n_clusters, known)
        caveats = about_partition(pool, judge, chosen.labels, chosen.verdict)
        if known is None or len(known.rows) == 0:
            labels = chosen.extended(sample, X)
        else:
            guided = guide(pool, chosen.labels, chosen.partitions, known, n_clusters, is_exact=is_exact)
            labels = extend(guided, sample, X)
        voted, found = (
            np.sort(pool.order[:VOTE_ROWS]),
            n_clusters if is_exact or known is None else int(labels.max()) + 1,
        )
        shares = count_votes(pool, chosen.considered, chosen.partitions, labels[sample], found, voted)
        near = np.repeat(np.arange(n_train)[:, None], min(JUDGE_NEIGHBORS, n_start - 1), axis=1)
        near[sample] = sample[pool.near.indices[:, : near.shape[1]]]
        if known is not None:  # neighbours do not correct what is known
            near[sample[known.rows]] = sample[known.rows][:, None]
    is_whole = len(voted) == n_train and np.array_equal(pool.X, X)  # no column was spread or left out
    votes = Votes(sample[voted], shares, pool.near if is_whole else None)
    width = sigma_scale * FOLLOW_WIDTH * prepared.median
    return Start(prepared.rows[drawn], X, core, width, labels, near, chosen.considered, caveats, votes)


def _candidates(prepared: Prepared, X: Floats, n_clusters: int, rng: np.random.RandomState) -> Compared:
    """Return candidates for groups of the rows X, and their judge."""
    columns = comparable_columns(X.astype(np.float64), rng)
    shares_unit = prepared.preparation.shares_unit
    pool = Pool(columns, [n_clusters], int(rng.randint(2**31 - 1)), shares_unit=shares_unit)
    return Compared(pool, Judge(columns, pool.near, shares_unit=shares_unit))


@dataclass(frozen=True)
class Choice:
    """The chosen partition of some rows, the method that proposed it, its measurements, and those of all candidates."""

    labels: Labels
    method: str
    verdict: Verdict
    considered: list[dict[str, object]]
    partitions: list[Labels]

    def extended(self, sample: Indices, X: Floats) -> Labels:
        """Return labels of all rows X by the method's own idea of a group, if the partition is that of a `sample`.

        A mixture is extended by its Gaussians, any other method by a vote of neighbours.
        """
        if "mixture" not in self.method or len(sample) == len(X) or X.shape[1] > MAX_COLUMNS:
            return extend(self.labels, sample, X)
        rows = X[sample].astype(np.float64)
        groups, rounding = split_groups(rows, self.labels)[1], rounding_variance(rows)
        full, tied = Gaussians.of(Moments.of(groups), overall_covariance(rows, rounding), rounding)
        model = tied if self.method.startswith("tied") else full
        labels: Labels = model.log_joint(X.astype(np.float64)).argmax(1)
        labels[sample] = self.labels
        return labels


def choose_from(pool: Pool, judge: Judge, n_clusters: int, evidence: Evidence | None = None) -> Choice:
    """Choose among the partitions that all methods make of the rows of a pool; equal ones are measured once.

    The clusters of an earlier model are one of the candidates, and preferred if they are as good as the best. Pairs
    that are known to belong together or apart choose another candidate if they speak for it clearly.
    """
    proposed = pool.partitions(n_clusters)
    if evidence is not None and evidence.earlier is not None:
        earlier = np.unique(evidence.earlier, return_inverse=True)[1].astype(np.int64)
        proposed = proposed | ({EARLIER: earlier} if earlier.max() == n_clusters - 1 else {})
    found = {method: labels for method, labels in proposed.items() if np.bincount(labels, minlength=n_clusters).all()}
    if not found:  # there are too few distinct rows for so many groups
        found = {"k-means": np.unique(proposed["k-means"], return_inverse=True)[1].astype(np.int64)}
    methods, partitions = list(found), [_numbered_by_appearance(labels) for labels in found.values()]
    different = {labels.tobytes(): labels for labels in partitions}
    measured = dict(zip(different, pool.each(judge.measure, list(different.values())), strict=True))
    verdicts = [measured[labels.tobytes()] for labels in partitions]
    best = judge.choose(verdicts, partitions)
    if EARLIER in found and is_as_good(verdicts[methods.index(EARLIER)], verdicts[best]):
        best = methods.index(EARLIER)
    if evidence is not None:
        best = most_supported(partitions, best, evidence)
    order = sorted(range(len(methods)), key=lambda i: (i != best, -verdicts[i].score))
    considered: list[dict[str, object]] = [
        {
            "method": methods[i],
            "conductance": verdicts[i].conductance,
            "gain": verdicts[i].gain,
            "score": verdicts[i].score,
            "chosen": i == best,
        }
        for i in order
    ]
    return Choice(partitions[best], methods[best], verdicts[best], considered, [partitions[i] for i in order])


def _numbered_by_appearance(labels: Labels) -> Labels:
    """Return the same groups, numbered in the order in which they appear."""
    _, first, groups = np.unique(labels, return_index=True, return_inverse=True)
    numbered: Labels = first.argsort().argsort()[groups].astype(np.int64)
    return numbered
