"""The spanning tree of the neighbour graph, and the balanced linkage that cuts it into groups."""

from bisect import bisect_left, insort
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix, csr_matrix
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from knet.arrays import Floats, Labels
from knet.start.neighbors import Indices, Neighbors

BRIDGE_ROWS = 2000  # rows that represent the components of a graph when these are joined
TINY = 1e-300  # replaces a length of 0, which SciPy takes for a missing edge
ROUNDING = 1 + 1e-12  # an inequality of the threshold itself is not above it, whatever its last digit


@dataclass(frozen=True)
class Tree:
    """The edges of a spanning tree, shortest first."""

    heads: Indices
    tails: Indices


def spanning_tree(X: Floats, near: Neighbors) -> Tree:
    """Return the minimum spanning tree of the neighbour graph and of bridges between its components."""
    n, k = near.indices.shape
    floor = max(float(near.distances.max()), TINY) * 1e-12  # scipy takes a length of 0 for a missing edge
    lengths = np.maximum(near.distances.ravel(), floor)
    graph = csr_matrix((lengths, near.indices.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))
    repeated = np.flatnonzero(near.twins > np.arange(n))
    graph = graph + csr_matrix((np.full(len(repeated), floor), (repeated, near.twins[repeated])), shape=(n, n))
    edges = list(_bridges(X, connected_components(graph, directed=False)[1]))
    if edges:
        heads, tails, extra = (np.array(part) for part in zip(*edges, strict=True))
        graph = graph + csr_matrix((np.maximum(extra, floor), (heads, tails)), shape=(n, n))
    tree = minimum_spanning_tree(graph).tocoo()
    order = np.argsort(tree.data, kind="stable")
    return Tree(tree.row[order].astype(np.intp), tree.col[order].astype(np.intp))


def _bridges(X: Floats, component: NDArray[np.integer]) -> Iterator[tuple[int, int, float]]:
    """Yield edges (head, tail, length) that join the components of a graph.

    A few rows of each component decide which pairs to join, by a spanning tree of components; the shortest edge of each
    pair is then found exactly.
    """
    n_components = int(component.max()) + 1
    if n_components == 1:
        return
    members = np.split(np.argsort(component, kind="stable"), np.cumsum(np.bincount(component))[:-1])
    n_each = max(1, BRIDGE_ROWS // n_components)
    chosen = [rows[np.linspace(0, len(rows) - 1, min(n_each, len(rows))).astype(int)] for rows in members]
    starts = np.concatenate([[0], np.cumsum([len(rows) for rows in chosen])[:-1]])
    distances = cdist(X[np.concatenate(chosen)], X[np.concatenate(chosen)])
    distances = np.minimum.reduceat(np.minimum.reduceat(distances, starts, axis=0), starts, axis=1)
    pairs = minimum_spanning_tree(np.maximum(distances, TINY)).tocoo()
    trees: dict[int, cKDTree] = {}
    for pair in zip(pairs.row, pairs.col, strict=True):
        small, large = sorted(pair, key=lambda number: len(members[number]))
        tree = trees.setdefault(large, cKDTree(X[members[large]]))
        lengths, places = tree.query(X[members[small]])
        best = int(lengths.argmin())
        yield int(members[small][best]), int(members[large][places[best]]), float(lengths[best])


def connect(graph: csr_matrix, tree: Tree) -> csr_matrix:
    """Return a graph with the edges of the spanning tree that join its components."""
    component = connected_components(graph, directed=False)[1]
    between = component[tree.heads] != component[tree.tails]
    if not between.any():
        return graph
    heads, tails = tree.heads[between], tree.tails[between]
    extra = coo_matrix((np.full(len(heads), 0.5), (heads, tails)), shape=graph.shape).tocsr()
    return graph + extra + extra.T


def genie(tree: Tree, counts: Collection[int], threshold: float) -> dict[int, Labels]:
    """Return the groups of the balanced linkage of Gagolewski, Bartoszuk and Cena (2016) on a spanning tree.

    Edges join groups, shortest first. While the Gini index of the group sizes is above the threshold, only edges of a
    group of the smallest size are used. One pass gives the groups for all numbers of them in `counts`.
    """
    heads, tails, n = tree.heads.tolist(), tree.tails.tolist(), len(tree.heads) + 1
    forest = _Forest(n)
    following = list(range(1, n + 1))  # unused edges as a linked list: following[e + 1] - 1 comes after edge e
    place, size = 0, 0  # where the last search for an edge of a smallest group ended, and their size
    found = {}
    for n_groups in range(n, min(counts) - 1, -1):
        if n_groups in counts:
            found[n_groups] = forest.labels()
        if n_groups == min(counts):
            break
        before = 0
        if forest.difference > ROUNDING * threshold * n * (n_groups - 1):
            before = place if size == forest.sizes[0] else 0
            size = forest.sizes[0]
            while not forest.is_smallest(heads[following[before] - 1], tails[following[before] - 1]):
                before = following[before]
            place = before
        edge = following[before] - 1
        following[before] = following[edge + 1]
        if place == edge + 1:
            place = 0
        forest.join(heads[edge], tails[edge], n_groups)
    return found


class _Forest:
    """Disjoint groups of rows, and the sum of |difference of sizes| over all pairs of groups."""

    def __init__(self, n: int) -> None:
        self.n, self.parent, self.size = n, list(range(n)), [1] * n
        self.sizes, self.counts = [1], {1: n}  # the sizes of groups, in ascending order, and how many have each
        self.difference = 0

    def root(self, row: int) -> int:
        """Return the row that represents the group of a row."""
        parent = self.parent
        while parent[row] != row:
            parent[row] = row = parent[parent[row]]
        return row

    def is_smallest(self, head: int, tail: int) -> bool:
        """Say whether at least one end of an edge is in a group of the smallest size."""
        return self.sizes[0] in (self.size[self.root(head)], self.size[self.root(tail)])

    def join(self, head: int, tail: int, n_groups: int) -> None:
        """Join the groups of two rows; `n_groups` is the number of groups before."""
        large, small = self.root(head), self.root(tail)
        if self.size[large] < self.size[small]:
            large, small = small, large
        a, b = self.size[large], self.size[small]
        joined = a + b
        self.parent[small], self.size[large] = large, joined
        for size in (a, b):
            self._change(size, -1)
        if not self.sizes or (b <= self.sizes[0] and a >= self.sizes[-1]):
            nearer = b * (n_groups - 2)
        else:
            nearer = 0
            for size in self.sizes:
                if size >= joined:
                    break
                nearer += self.counts[size] * min(size, b, joined - size)
        # |s - a - b| - |s - a| - |s - b| is 2 min(s, b, a + b - s) - s for sizes s below a + b, and -s for others
        self.difference += 2 * nearer - (self.n - joined) - (a - b)
        self._change(joined, 1)

    def _change(self, size: int, by: int) -> None:
        """Change how many groups have a size."""
        count = self.counts.get(size, 0) + by
        if count == 0:
            del self.counts[size]
            self.sizes.pop(bisect_left(self.sizes, size))
            return
        if size not in self.counts:
            insort(self.sizes, size)
        self.counts[size] = count

    def labels(self) -> Labels:
        """Return the groups as whole numbers from 0."""
        roots = [self.root(row) for row in range(len(self.parent))]
        return np.unique(roots, return_inverse=True)[1].astype(np.int64)
