"""The candidates for the start of a fit: partitions of the rows by methods that see different kinds of groups.

Spectral clustering of neighbour graphs, a layout of such a graph, balanced linkage on the spanning tree (Genie) and
k-means find groups that are separated; Gaussian mixtures find groups that overlap.
"""

from collections.abc import Callable, Sequence
from functools import cached_property, partial

import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage

from knet.arrays import Floats, Labels
from knet.start.graph_embedding import graph_embedding
from knet.start.kmeans import k_means
from knet.start.layout import MIN_COLUMNS, neighbor_layout
from knet.start.linkage import Tree, connect, genie, spanning_tree
from knet.start.mixtures import Gaussians, Products, gaussian_mixture
from knet.start.neighbors import Indices, Neighbors, extend, neighbor_graph, neighbors
from knet.threads import Piece, Result, in_threads

GRAPH_NEIGHBORS = (5, 10, 20)  # each number of neighbours makes a graph, and so a candidate
GINI_THRESHOLDS = (0.1, 0.3, 0.7)  # inequality of group sizes that Genie allows: 0 is equal, 1 very unequal
WARD_ROWS = 1000  # Ward's linkage sees at most this many rows: its time grows with their square
SAMPLE_ROWS = 4000  # k-means and mixtures are fitted to at most this many rows, and then extended to all
K_MEANS_RUNS = 20  # runs of k-means on the rows; the one with the smallest error is taken
SCAN_RUNS = 5  # the same, if numbers of clusters are compared
MANY_CLUSTERS = 15  # if numbers are compared, beyond this one only `MANY_METHODS` are: time grows with the clusters
SPECTRAL_RUNS = 5  # runs on eigenvectors and layouts: these separate the groups, so that fewer are enough
LAYOUT_DIMENSIONS = 8
THREAD_ROWS = 10_000  # rows from which candidates are computed by several threads


class Pool:
    """Partitions of the rows X, each made on demand and only once.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Scaled rows.
    counts : sequence of int
        The numbers of clusters that will be asked for. To compare several, fewer mixtures and runs are enough.
    seed : int
        Every method starts from it, so that the order of the calls has no influence.
    shares_unit : bool
        Whether the columns share a unit: then, from four columns on, a layout of the neighbour graph is a candidate.
    """

    def __init__(self, X: Floats, counts: Sequence[int], seed: int, *, shares_unit: bool = False) -> None:
        self.X, self.counts, self.seed = X, counts, seed
        self.uses_layout = shares_unit and X.shape[1] >= MIN_COLUMNS
        self.order = np.random.RandomState(seed).permutation(len(X))
        self.embeddings: dict[str, Floats] = {}
        self.made: dict[tuple[str, int], Labels] = {}
        self.models: dict[tuple[str, int], Gaussians] = {}  # of the mixtures among them

    @cached_property
    def near(self) -> Neighbors:
        """The nearest neighbours of all rows, as many as the widest graph needs."""
        return neighbors(self.X, max(GRAPH_NEIGHBORS))

    @cached_property
    def tree(self) -> Tree:
        """The spanning tree of the neighbour graph."""
        return spanning_tree(self.X, self.near)

    @cached_property
    def sample(self) -> Indices:
        """Positions of the rows that mixtures are fitted to, in ascending order."""
        return np.sort(self.order[:SAMPLE_ROWS])

    @cached_property
    def products(self) -> Products:
        """The same rows, as mixtures use them."""
        return Products(self.X[self.sample])

    @cached_property
    def ward_tree(self) -> Floats:
        """Ward's linkage of a sample."""
        merges: Floats = linkage(self.X[self.order[:WARD_ROWS]], "ward")
        return merges

    @cached_property
    def layout(self) -> Floats:
        """The rows as points in few dimensions."""
        return neighbor_layout(self.near, self.tree, min(LAYOUT_DIMENSIONS, len(self.X) - 2), self.rng())

    def partition(self, method: str, n_clusters: int) -> Labels:
        """Return the groups that a method finds, numbered from 0; some may be empty."""
        key = method, n_clusters
        if key not in self.made:
            self.made[key] = METHODS[method](self, n_clusters)
        return self.made[key]

    def partitions(self, n_clusters: int) -> dict[str, Labels]:
        """Return the groups that each method finds; methods that do not need each other run on several threads."""
        self.each(partial(getattr, self), ("tree", "ward_tree", "products"))
        first, mixtures = self.methods(n_clusters)
        in_python = [name for name in first if name.startswith("genie")]  # others would wait for its lock
        for methods in ([name for name in first if name not in in_python], mixtures):
            self.each(partial(self.partition, n_clusters=n_clusters), methods)
        return {method: self.partition(method, n_clusters) for method in first + mixtures}

    def each(self, work: Callable[[Piece], Result], pieces: Sequence[Piece]) -> list[Result]:
        """Return `work` of every piece, by several threads if there are many rows.

        Of fewer rows, threads wait for each other at the interpreter's lock longer than they compute.
        """
        if len(self.X) >= THREAD_ROWS:
            return in_threads(work, pieces)
        return [work(piece) for piece in pieces]

    def methods(self, n_clusters: int) -> tuple[list[str], list[str]]:
        """Return the methods that suit the rows, first those that start from no other."""
        first, mixtures = list(FIRST_METHODS), list(MIXTURES)
        few = len(self.sample) < n_clusters * self.X.shape[1]  # groups have fewer rows than a full covariance columns
        if len(self.counts) > 1:
            mixtures = [f"{'tied' if few else 'full'} mixture from k-means"]
            if n_clusters > MANY_CLUSTERS:
                first, mixtures = MANY_METHODS, []
        if few:
            mixtures = [name for name in mixtures if name.startswith("tied")]
        return [name for name in first if name != "layout" or self.uses_layout], mixtures

    def ask(self, counts: Sequence[int]) -> None:
        """Prepare for other numbers of clusters; neighbours, trees and the layout are kept."""
        self.counts, self.embeddings = counts, {}

    def rng(self) -> np.random.RandomState:
        """Return a new generator, the same for every method."""
        return np.random.RandomState(self.seed)


def _graph(pool: Pool, n_clusters: int, *, k: int) -> Labels:
    name = f"graph {k}"
    if name not in pool.embeddings:
        graph = neighbor_graph(pool.near, k)
        connected, in_plane = connect(graph, pool.tree), pool.X.shape[1] <= 2
        pool.embeddings[name] = graph_embedding(graph, connected, max(pool.counts), pool.rng(), in_plane=in_plane)
    return _spectral_labels(pool.embeddings[name], n_clusters, pool.rng())


def _layout(pool: Pool, n_clusters: int) -> Labels:
    return _k_means_labels(pool.layout, n_clusters, SPECTRAL_RUNS, pool.rng())


def _genie(pool: Pool, n_clusters: int, *, threshold: float) -> Labels:
    found = genie(pool.tree, pool.counts, threshold)
    pool.made |= {(f"genie {threshold}", count): labels for count, labels in found.items()}
    return found[n_clusters]


def _k_means(pool: Pool, n_clusters: int) -> Labels:
    return _k_means_labels(pool.X, n_clusters, K_MEANS_RUNS if len(pool.counts) == 1 else SCAN_RUNS, pool.rng())


def _mixture(pool: Pool, n_clusters: int, *, start: str, tied: bool) -> Labels:
    if start == "ward":
        groups = fcluster(pool.ward_tree, n_clusters, "maxclust").astype(np.int64) - 1
        first = extend(groups, np.searchsorted(pool.sample, pool.order[:WARD_ROWS]), pool.X[pool.sample])
    else:
        first = pool.partition(start, n_clusters)[pool.sample]
    model, labels = gaussian_mixture(pool.products, first, n_clusters, tied=tied)
    pool.models[f"{'tied' if tied else 'full'} mixture from {start}", n_clusters] = model
    return labels if len(labels) == len(pool.X) else model.log_joint(pool.X).argmax(1)


def _spectral_labels(V: Floats, n_clusters: int, rng: np.random.RandomState) -> Labels:
    """Return the k-means labels of the first eigenvectors, with rows of length 1."""
    V = V[:, :n_clusters]
    points = V / np.maximum(np.linalg.norm(V, axis=1, keepdims=True), 1e-12)
    return _k_means_labels(points, n_clusters, SPECTRAL_RUNS, rng)


def _k_means_labels(X: Floats, n_clusters: int, n_runs: int, rng: np.random.RandomState) -> Labels:
    """Return the labels of the best of several runs of k-means on a sample, extended to all rows."""
    if len(X) <= SAMPLE_ROWS:
        return k_means(X, n_clusters, n_runs, rng).labels
    centers = k_means(X[rng.permutation(len(X))[:SAMPLE_ROWS]], n_clusters, n_runs, rng).centers
    nearest: Labels = (np.square(centers).sum(1) - 2 * X @ centers.T).argmin(1)
    return nearest


FIRST_METHODS: dict[str, Callable[[Pool, int], Labels]] = {
    **{f"graph {k}": partial(_graph, k=k) for k in GRAPH_NEIGHBORS},
    **{f"genie {threshold}": partial(_genie, threshold=threshold) for threshold in GINI_THRESHOLDS},
    "k-means": _k_means,
    "layout": _layout,
}
MIXTURES: dict[str, Callable[[Pool, int], Labels]] = {  # they start from some of the others
    **{
        f"{kind} mixture from {start}": partial(_mixture, start=start, tied=kind == "tied")
        for start in ("k-means", "graph 10", "ward")
        for kind in ("full", "tied")
    },
}
MANY_METHODS = ["graph 10", "genie 0.3", "k-means", "layout"]
METHODS = FIRST_METHODS | MIXTURES
