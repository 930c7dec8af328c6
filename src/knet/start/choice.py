"""The start of a fit, chosen from the data alone: many candidates propose a partition, and the judge picks one."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from knet.arrays import Floats, Labels
from knet.prepare.training_rows import MAX_ROWS, ROWS_PER_CLUSTER, Prepared
from knet.start.candidates import Pool
from knet.start.caveats import about_partition
from knet.start.columns import MAX_COLUMNS, comparable_columns
from knet.start.judge import Judge, Verdict, choose
from knet.start.mixtures import Gaussians, overall_covariance, rounding_variance
from knet.start.neighbors import Indices, extend
from knet.threads import in_threads, one_blas_thread

START_PAIRS = 200_000  # the start is chosen on at most so many pairs of a row and a cluster: time grows with them
SMALL_DATA = 2000  # Algorithm 1 uses this many rows, or 30 per cluster if that is more
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
    selection : list of dict
        The candidates that were compared, the chosen one first.
    caveats : list of str
        What the user should know about the partition.
    """

    rows: NDArray[np.intp]
    X: Floats
    core: NDArray[np.intp]
    sigma: float
    labels: Labels | None
    selection: list[dict[str, object]]
    caveats: list[str]


def choose_start(prepared: Prepared, n_clusters: int, sigma_scale: float, rng: np.random.RandomState) -> Start:
    """Choose a partition of the prepared rows into groups.

    The time of the choice grows with rows and clusters, that of following it with neither: psi follows it on more rows.
    """
    n_train = min(len(prepared.rows), MAX_ROWS) if prepared.n_train is None else prepared.n_train
    enough = max(SMALL_DATA, ROWS_PER_CLUSTER * n_clusters)
    n_start = min(n_train, MAX_ROWS, max(enough, START_PAIRS // n_clusters))
    drawn = prepared.first(n_train)
    X = prepared.X if len(drawn) == len(prepared.X) else prepared.X[drawn]
    sample, core = (np.searchsorted(drawn, prepared.first(n)) for n in (n_start, min(n_train, enough)))
    with one_blas_thread():
        columns = comparable_columns(X[sample].astype(np.float64), rng)
        pool = Pool(columns, n_clusters, int(rng.randint(2**31 - 1)))
        judge = Judge(columns, pool.near)
        chosen = choose_from(pool, judge, n_clusters)
        caveats = about_partition(pool, judge, chosen.labels, chosen.verdict)
        labels = chosen.extended(sample, X)
    sigma = sigma_scale * FOLLOW_WIDTH * prepared.median
    return Start(prepared.rows[drawn], X, core, sigma, labels, chosen.considered, caveats)


@dataclass(frozen=True)
class Choice:
    """The chosen partition of some rows, the method that proposed it, its measurements, and those of all candidates."""

    labels: Labels
    method: str
    verdict: Verdict
    considered: list[dict[str, object]]

    def extended(self, sample: Indices, X: Floats) -> Labels:
        """Return labels of all rows X by the method's own idea of a group, if the partition is that of a `sample`.

        A mixture is extended by its Gaussians, any other method by a vote of neighbours.
        """
        if "mixture" not in self.method or len(sample) == len(X) or X.shape[1] > MAX_COLUMNS:
            return extend(self.labels, sample, X)
        rows = X[sample].astype(np.float64)
        members, rounding = np.eye(int(self.labels.max()) + 1)[self.labels], rounding_variance(rows)
        overall = overall_covariance(rows, rounding)
        model = Gaussians.fit(rows, members, overall, rounding, tied=self.method.startswith("tied"))
        labels: Labels = model.log_joint(X.astype(np.float64)).argmax(1)
        labels[sample] = self.labels
        return labels


def choose_from(pool: Pool, judge: Judge, n_clusters: int) -> Choice:
    """Choose among the partitions that all methods make of the rows of a pool; equal ones are measured once."""
    proposed = pool.partitions(n_clusters)
    found = {method: labels for method, labels in proposed.items() if np.bincount(labels, minlength=n_clusters).all()}
    if not found:  # there are too few distinct rows for so many groups
        found = {"k-means": np.unique(proposed["k-means"], return_inverse=True)[1].astype(np.int64)}
    methods, partitions = list(found), [_numbered_by_appearance(labels) for labels in found.values()]
    different = {labels.tobytes(): labels for labels in partitions}
    measured = dict(zip(different, in_threads(judge.measure, list(different.values())), strict=True))
    verdicts = [measured[labels.tobytes()] for labels in partitions]
    best = choose(verdicts, partitions, judge.structure)
    considered = [
        {
            "method": method,
            "conductance": verdict.conductance,
            "gain": verdict.gain,
            "score": verdict.score,
            "chosen": position == best,
        }
        for position, (method, verdict) in enumerate(zip(methods, verdicts, strict=True))
    ]
    considered.sort(key=lambda row: (not row["chosen"], -float(str(row["score"]))))
    return Choice(partitions[best], methods[best], verdicts[best], considered)


def _numbered_by_appearance(labels: Labels) -> Labels:
    """Return the same groups, numbered in the order in which they appear."""
    _, first, groups = np.unique(labels, return_index=True, return_inverse=True)
    numbered: Labels = first.argsort().argsort()[groups].astype(np.int64)
    return numbered
