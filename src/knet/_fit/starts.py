"""The start of a fit, chosen from the data alone: many candidates propose a partition, and the judge picks one."""

from dataclasses import dataclass

import numpy as np

from knet._fit.candidates import Pool
from knet._fit.caveats import about_partition, warn_about
from knet._fit.columns import MAX_COLUMNS, comparable_columns
from knet._fit.judge import Judge, Verdict, choose
from knet._math.arrays import Floats, Labels
from knet._math.mixtures import Gaussians, overall_covariance, rounding_variance
from knet._math.neighbors import Indices, extend
from knet._math.threads import in_threads, one_blas_thread


@dataclass(frozen=True)
class Start:
    """The chosen partition of all rows, the method that proposed it, its measurements, and those of all candidates."""

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


def choose_start(X: Floats, n_clusters: int, rng: np.random.RandomState) -> Start:
    """Choose a partition of scaled rows into `n_clusters` groups, fewer than there are rows; warn if it is doubtful."""
    with one_blas_thread():
        X = comparable_columns(X, rng)
        pool = Pool(X, n_clusters, int(rng.randint(2**31 - 1)))
        judge = Judge(X, pool.near)
        start = choose_from(pool, judge, n_clusters)
    warn_about(about_partition(pool, judge, start.labels, start.verdict))
    return start


def choose_from(pool: Pool, judge: Judge, n_clusters: int) -> Start:
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
    return Start(partitions[best], methods[best], verdicts[best], considered)


def _numbered_by_appearance(labels: Labels) -> Labels:
    """Return the same groups, numbered in the order in which they appear."""
    _, first, groups = np.unique(labels, return_index=True, return_inverse=True)
    numbered: Labels = first.argsort().argsort()[groups].astype(np.int64)
    return numbered
