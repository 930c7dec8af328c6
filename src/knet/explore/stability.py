"""How reliable the labels are: refits on other rows and with other seeds, compared with the model's own clusters."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.base import clone

from knet.arrays import Frame, Labels, RowsLike
from knet.estimator import KNet
from knet.explore.samples import Sample
from knet.metrics import ari, contingency
from knet.model.display import html_table, rounded, to_frame
from knet.rows.kinds import count_rows, take_rows
from knet.start.judge import JUDGE_NEIGHBORS

REFIT_ROWS = 2000  # the maximum number of rows from which the rows of a refit are drawn
FIRST_REFIT_SEED = 1000  # the refits have the seeds 1000, 1001, ...
STABLE, FAIRLY_STABLE = 0.9, 0.7  # adjusted Rand index of the refits
CLUSTER_KEPT = 0.5  # Jaccard index from which refits find a cluster again
MIN_SEEN = JUDGE_NEIGHBORS  # rows of a cluster in a refit: with fewer, a row has no 10 neighbours in its own cluster
HEADER = ("cluster", "n_rows", "stability")


@dataclass(frozen=True, repr=False)
class Stability:
    """Agreement between a model and its refits; 1 = identical.

    Attributes
    ----------
    overall : float
        Mean adjusted Rand index between the model's labels and those of a refit.
    clusters : ndarray of shape (n_clusters,)
        For each cluster, the largest overlap (Jaccard index) with a cluster of a refit, as a mean over the refits; NaN
        if none of the rows belong to the cluster.
    rows : ndarray of shape (n_samples,)
        For each row, the share of refits that assign it to the same cluster.
    sizes : ndarray of shape (n_clusters,)
        Number of rows of each cluster.
    n_refits, n_drawn : int
        Number of refits, and of rows in each of them.
    """

    overall: float
    clusters: NDArray[np.float64]
    rows: NDArray[np.float64]
    sizes: Labels
    n_refits: int
    n_drawn: int

    @property
    def too_small(self) -> Labels:
        """The clusters of which a refit sees fewer than 10 rows: their stability says little."""
        seen = self.sizes * self.n_drawn / max(int(self.sizes.sum()), 1)
        return np.flatnonzero((self.sizes > 0) & (seen < MIN_SEEN))

    @property
    def is_known(self) -> bool:
        """Whether there are enough rows of at least one cluster."""
        return len(self.too_small) < int(np.count_nonzero(self.sizes))

    @property
    def caveat(self) -> str:
        """Which clusters have too few rows; empty if none has."""
        need = f"a refit sees fewer than {MIN_SEEN} rows"
        if not self.is_known:
            return f"There are too few rows to say how stable the clusters are: {need} of each cluster."
        numbers = ", ".join(map(str, self.too_small))
        return f"Too few rows to say how stable these clusters are ({need} of them): {numbers}." if numbers else ""

    @property
    def is_refuted(self) -> bool:
        """Whether refits find other clusters, so that a probability of belonging to these says nothing."""
        return self.is_known and self.overall < FAIRLY_STABLE

    @property
    def lost(self) -> Labels:
        """The clusters that refits do not find again; all of them if refits find others."""
        lost = np.flatnonzero(self.clusters < (np.inf if self.is_refuted else CLUSTER_KEPT))
        return lost if self.is_refuted else np.setdiff1d(lost, self.too_small)

    @property
    def doubts(self) -> list[str]:
        """What refits say against the clusters: that they find others, or do not find some of them again."""
        if self.is_refuted:
            return ["Refits find other clusters: try other numbers of clusters before you use these."]
        if not len(self.lost):
            return []
        lost = ", ".join(map(str, self.lost))
        return [f"Refits do not find these clusters again (overlap below {CLUSTER_KEPT}): {lost}."]

    @property
    def word(self) -> str:
        """The overall stability in words."""
        if self.overall >= STABLE:
            return "stable"
        return "fairly stable" if self.overall >= FAIRLY_STABLE else "not stable"

    def to_frame(self) -> Frame:
        """Return the clusters as a pandas DataFrame: cluster, n_rows, stability."""
        return to_frame(self.table())

    def table(self) -> list[dict[str, float | None]]:
        """Return a line for each cluster: cluster, n_rows, stability; None if none of the rows belong to it."""
        kept = [None if np.isnan(value) else value for value in self.clusters.tolist()]
        columns = range(len(kept)), self.sizes.tolist(), kept
        return [dict(zip(HEADER, line, strict=True)) for line in zip(*columns, strict=True)]

    @property
    def _title(self) -> str:
        return f"stability {self.overall:.2f} over {self.n_refits} refit{'s' * (self.n_refits != 1)}"

    def __repr__(self) -> str:
        clusters = ", ".join(rounded(round(value, 2)) for value in self.clusters.tolist())
        return f"<{self._title}; clusters: {clusters}>" + f" {self.caveat}" * bool(self.caveat)

    def _repr_html_(self) -> str:
        return html_table(
            f"{self._title}. {self.caveat}".strip(), HEADER, [list(line.values()) for line in self.table()]
        )


def stability(
    model: KNet, X: RowsLike, *, n_refits: int = 5, random_state: int = 0, n_jobs: int | None = None
) -> Stability:
    """Refit a model several times and compare the labels of X; see `KNet.stability`."""
    if n_refits < 1:
        raise ValueError(f"n_refits must be at least 1. Got {n_refits} instead.")
    X = model._admit(X)
    labels = model.predictor_.assign(model._rows(X))
    return agreement(model, X, labels, n_refits=n_refits, random_state=random_state, n_jobs=n_jobs)


def agreement(
    model: KNet, X: RowsLike, labels: Labels, *, n_refits: int, random_state: int, n_jobs: int | None = None
) -> Stability:
    """Compare refits with the labels that the model gives to X."""
    n_rows, samples = count_rows(X), []
    size = min(n_rows, max(model.n_clusters_, 2, min(n_rows, REFIT_ROWS) // 2))
    for number in range(n_refits):
        rng = np.random.default_rng([random_state, number])
        pool = np.arange(n_rows) if n_rows <= REFIT_ROWS else rng.choice(n_rows, REFIT_ROWS, replace=False)
        samples.append(take_rows(X, np.sort(rng.choice(pool, size, replace=False))))
    run = Parallel(n_jobs=n_jobs)
    refitted = run(
        delayed(_refit)(model, sample, X, FIRST_REFIT_SEED + number) for number, sample in enumerate(samples)
    )
    return _compare(labels, refitted, model.predictor_.n_labels, size)


def sample_stability(model: KNet, X: RowsLike, rows: Sample, *, n_refits: int, random_state: int) -> Stability | None:
    """Return the stability on at most 2000 rows of a sample of X, for `knet fit` and the report.

    The refits get these rows as X has them: sparse rows stay sparse. None if there are no refits, a single cluster,
    fewer rows than a refit needs, or the user's own encoder, whose training may take long.
    """
    if n_refits == 0 or model.n_clusters_ == 1 or rows.n_rows < model.n_clusters_ or model.encoder is not None:
        return None
    few = rows.thin(REFIT_ROWS, random_state)
    return agreement(model, take_rows(X, few.rows), few.labels, n_refits=n_refits, random_state=random_state)


def _refit(model: KNet, sample: RowsLike, X: RowsLike, seed: int) -> Labels:
    """Return the labels of X by a refit on a sample."""
    refit = clone(model).set_params(
        n_clusters=model.n_clusters_, random_state=seed, callback=None, verbose=0, train_size="auto"
    )
    if refit.advanced is not None:
        refit.set_params(advanced__keep_embeddings=False)
    with warnings.catch_warnings(action="ignore"):  # the user has seen them when the model was fitted
        labels: Labels = refit.fit(sample).predict(X)
    return labels


def _compare(labels: Labels, refitted: Sequence[Labels], n_clusters: int, n_drawn: int) -> Stability:
    """Match the clusters of each refit to the model's clusters and count agreement.

    Rows without any value have the label -1 in every fit; they agree, and count for no cluster.
    """
    overlaps, same = np.zeros((len(refitted), n_clusters)), np.ones((len(refitted), len(labels)))
    has_values = labels >= 0
    labels, refitted = labels[has_values], [other[has_values] for other in refitted]
    sizes = np.bincount(labels, minlength=n_clusters)
    known = np.flatnonzero(sizes)
    for number, other in enumerate(refitted):
        groups, places = np.unique(other, return_inverse=True)
        both = contingency(np.searchsorted(known, labels), places)
        union = both.sum(1, keepdims=True) + both.sum(0) - both
        overlaps[number, known] = (both / union).max(1)
        own, matched = linear_sum_assignment(-both)
        match = dict(zip(groups[matched], known[own], strict=True))
        same[number, has_values] = np.array([match.get(label, -1) for label in range(n_clusters)])[other] == labels
    clusters = np.where(sizes > 0, overlaps.mean(0), np.nan)
    overall = float(np.mean([ari(labels, other) for other in refitted]))
    return Stability(overall, clusters, same.mean(0), sizes, len(refitted), n_drawn)
