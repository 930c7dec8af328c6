"""The start of a fit, chosen from the data alone: which affinity, and so which partition and which kernel width.

Every candidate affinity (Gaussians of many widths, locally scaled Gaussians, nearest-neighbour graphs) proposes one
partition, by spectral clustering. Eigenvalues of different affinities cannot be compared, so the partitions are, all on
the same footing:

conductance
    the mean over groups of the chance that a step to one of the 10 nearest neighbours leaves the group;
reproducibility
    two halves of the rows are clustered apart and each carries its labels to all rows by a vote of neighbours; the
    adjusted Rand index of the two labelings.

A small conductance alone can be a fluke of the sample, and a reproducible partition can cut straight through a dense
region (k-means on two moons does). The smallest conductance / reproducibility wins. As the second is at most 1,
candidates whose conductance exceeds the best score need not be split at all.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse import csr_matrix
from scipy.spatial.distance import pdist, squareform
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import KNeighborsClassifier, kneighbors_graph
from threadpoolctl import threadpool_limits

Array = NDArray[np.float64]
Labels = NDArray[np.int64]
Affinity = Callable[[Array], Array]  # squared distances -> affinity

RATIOS = (*2.0 ** np.arange(-4.5, 1.1, 0.5), 4.0, 8.0)  # sigma / median distance; 8 is the limit of a linear kernel
LOCAL_NEIGHBORS = (7, 15)
GRAPH_NEIGHBORS = (5, 10, 20, 30)
JUDGE_NEIGHBORS = 10  # of the graph on which all partitions are judged
VOTE_NEIGHBORS = 5
N_SPLITS = 2
MIN_REPRODUCIBILITY = 1e-3
TIE = 1.1  # scores within this factor count as equal, and a Gaussian is preferred
SAME_PARTITION = 0.99  # adjusted Rand index from which two partitions count as one


@dataclass(frozen=True)
class Candidate:
    """An affinity and what was measured of the partition it proposes; NaN where it could not win any more."""

    name: str
    ratio: float | None  # sigma / median distance of a Gaussian
    labels: Labels
    conductance: float
    reproducibility: float = np.nan

    @property
    def score(self) -> float:
        """Conductance over reproducibility: smaller is better."""
        return float(self.conductance / np.maximum(self.reproducibility, MIN_REPRODUCIBILITY))


@dataclass(frozen=True)
class Start:
    """The partition to start from, the Gaussian width that goes with it, and all that was considered."""

    labels: Labels
    ratio: float
    considered: list[dict[str, object]]


def choose_start(X: Array, n_clusters: int, rng: np.random.RandomState) -> Start:
    """Choose among the candidate affinities for the rows of X, by their partitions.

    Where the choice is no Gaussian, the width is that of the Gaussian whose partition agrees best with the chosen one.
    """
    D2 = squareform(pdist(X, "sqeuclidean"))
    seed = int(rng.randint(2**31 - 1))
    splits = [rng.permutation(len(X)) for _ in range(N_SPLITS)]
    affinities = dict(_affinities(D2))
    with threadpool_limits(1):
        judge = Judge(X)
        table = []
        for (name, ratio), affinity in affinities.items():
            labels = spectral_labels(affinity(D2), n_clusters, seed)
            table.append(Candidate(name, ratio, labels, judge.conductance(labels)))
        table = _split_the_promising(table, D2, affinities, n_clusters, splits, seed)
    best = min(one.score for one in table if not np.isnan(one.score))
    tied = [one for one in table if one.score <= TIE * best]
    winner = min([one for one in tied if one.ratio is not None] or tied, key=lambda one: one.score)
    chosen = _middle_of_plateau(winner, table)
    return Start(chosen.labels, _nearest_gaussian(chosen, table), [_row(one, chosen) for one in table])


def _split_the_promising(
    table: list[Candidate],
    D2: Array,
    affinities: dict[tuple[str, float | None], Affinity],
    n_clusters: int,
    splits: list[NDArray[np.intp]],
    seed: int,
) -> list[Candidate]:
    """Measure reproducibility, best conductance first, until no candidate left can win."""
    best, measured = np.inf, []
    for one in sorted(table, key=lambda candidate: candidate.conductance):
        if one.conductance < TIE * best:
            affinity = affinities[one.name, one.ratio]
            value = reproducibility(D2, affinity, n_clusters, splits, seed)
            one = replace(one, reproducibility=value)
            best = min(best, one.score)
        measured.append(one)
    return measured


class Judge:
    """The neighbour graph of some rows, on which partitions of them are compared."""

    def __init__(self, X: Array) -> None:
        n_neighbors = min(JUDGE_NEIGHBORS, len(X) - 1)
        graph: csr_matrix = kneighbors_graph(X, n_neighbors)
        self.graph = (graph + graph.T) / 2
        self.volumes: Array = np.asarray(self.graph.sum(1)).ravel()

    def conductance(self, labels: Labels) -> float:
        """Return the mean over groups of the share of a group's edges that leave it, with one edge added to each.

        Less than one edge cannot be measured: of perfect cuts none is better than another.
        """
        indicator = np.eye(labels.max() + 1)[labels]
        volume = self.volumes @ indicator
        inside = ((self.graph @ indicator) * indicator).sum(0)
        return float(np.mean((1 + volume - inside) / (1 + volume)))


def _affinities(D2: Array) -> Iterator[tuple[tuple[str, float | None], Affinity]]:
    """Yield the affinities to try; Gaussians so narrow that most rows have no neighbour are left out."""
    distances = np.sqrt(D2[np.triu_indices(len(D2), 1)])
    median = float(np.median(distances)) or float(distances.mean()) or 1.0  # more than half of the pairs may coincide
    for ratio in RATIOS:
        affinity = gaussian(ratio * median)
        if ratio >= 1 or np.median(affinity(D2).sum(1)) >= 2:
            yield (f"gaussian-{ratio:.3g}", float(ratio)), affinity
    for k in LOCAL_NEIGHBORS:
        yield (f"local-{k}", None), locally_scaled(k, floor=1e-3 * median)
    for k in GRAPH_NEIGHBORS:
        yield (f"neighbors-{k}", None), neighbor_graph(k)


def gaussian(sigma: float) -> Affinity:
    """Return exp(-d^2 / (2 sigma^2)) as a function of d^2."""
    return lambda D2: np.exp(D2 * (-0.5 / sigma**2))


def locally_scaled(k: int, floor: float) -> Affinity:
    """Return exp(-d_ij^2 / (s_i s_j)), where s is the distance to the k-th neighbour."""

    def affinity(D2: Array) -> Array:
        kth = min(k, len(D2) - 1)
        scale = np.maximum(np.sqrt(np.partition(D2, kth, axis=1)[:, kth]), floor)
        return np.exp(-D2 / scale[:, None] / scale)

    return affinity


def neighbor_graph(k: int) -> Affinity:
    """Return the symmetric graph of each row and its k - 1 nearest others."""

    def affinity(D2: Array) -> Array:
        others = D2 + np.diag(np.full(len(D2), np.inf))
        n_others = min(k - 1, len(D2) - 1)
        A = np.zeros_like(D2)
        np.put_along_axis(A, np.argpartition(others, n_others - 1, axis=1)[:, :n_others], 1.0, axis=1)
        return (A + A.T) / 2 + np.eye(len(D2))

    return affinity


def spectral_labels(W: Array, n_clusters: int, seed: int, n_init: int = 10) -> Labels:
    """Return k-means labels of the row-normalised top eigenvectors of D^-1/2 W D^-1/2.

    By a direct solver: a graph in several pieces has repeated eigenvalues, of which Lanczos may lose copies.
    """
    n = len(W)
    root = 1 / np.sqrt(W.sum(1))
    V = eigh(W * root[:, None] * root, subset_by_index=(n - n_clusters, n - 1), check_finite=False)[1]
    V = V / np.maximum(np.linalg.norm(V, axis=1, keepdims=True), 1e-12)
    labels: Labels = KMeans(n_clusters, n_init=n_init, random_state=seed).fit_predict(V).astype(np.int64)
    return labels


def reproducibility(D2: Array, affinity: Affinity, n_clusters: int, splits: list[NDArray[np.intp]], seed: int) -> float:
    """Return how alike two labelings of all rows are, each found on one half alone; 1 where halves are too small."""
    if len(D2) // 2 < 2 * n_clusters:
        return 1.0
    indices = []
    for order in splits:
        labelings = []
        for rows in np.array_split(order, 2):
            own = spectral_labels(affinity(D2[np.ix_(rows, rows)]), n_clusters, seed, n_init=3)
            vote = KNeighborsClassifier(VOTE_NEIGHBORS, metric="precomputed").fit(D2[np.ix_(rows, rows)], own)
            labels = vote.predict(D2[:, rows])
            labels[rows] = own
            labelings.append(labels)
        indices.append(adjusted_rand_score(*labelings))
    return float(np.mean(indices))


def extend(labels: Labels, X: Array, X_new: Array) -> Labels:
    """Return for each new row the label that most of its nearest rows of X have."""
    vote = KNeighborsClassifier(min(VOTE_NEIGHBORS, len(X))).fit(X, labels)
    extended: Labels = vote.predict(X_new)
    return extended


def _middle_of_plateau(best: Candidate, table: list[Candidate]) -> Candidate:
    """Return the middle of the longest unbroken range of Gaussians that propose what `best` does, or `best`."""
    gaussians = sorted((one for one in table if one.ratio is not None), key=lambda one: one.ratio or 0.0)
    same = np.array([adjusted_rand_score(best.labels, one.labels) >= SAME_PARTITION for one in gaussians], dtype=bool)
    runs = np.split(np.arange(len(same)), np.flatnonzero(np.diff(same)) + 1)
    longest = max((run for run in runs if len(run) and same[run[0]]), key=len, default=np.arange(0))
    return gaussians[longest[len(longest) // 2]] if len(longest) else best


def _nearest_gaussian(chosen: Candidate, table: list[Candidate]) -> float:
    """Return the ratio of the Gaussian whose partition agrees best with the chosen one."""
    if chosen.ratio is not None:
        return chosen.ratio
    gaussians = [(adjusted_rand_score(chosen.labels, one.labels), one.ratio) for one in table if one.ratio is not None]
    return max(gaussians)[1]


def _row(one: Candidate, chosen: Candidate) -> dict[str, object]:
    """Return a candidate as a plain row of the selection table."""
    return {
        "affinity": one.name.split("-")[0],
        "ratio": one.ratio,
        "neighbors": None if one.ratio is not None else int(one.name.split("-")[1]),
        "conductance": one.conductance,
        "reproducibility": None if np.isnan(one.reproducibility) else one.reproducibility,
        "score": None if np.isnan(one.score) else one.score,
        "smallest_group": int(np.bincount(one.labels).min()),
        "chosen": one is chosen,
    }
