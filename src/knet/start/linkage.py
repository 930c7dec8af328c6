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
    forest, limit, last = _Forest(n), ROUNDING * threshold * n, min(counts)
    root, sizes, size_of = forest.root, forest.sizes, forest.size
    following = list(range(1, n + 1))  # unused edges as a linked list: following[e + 1] - 1 comes after edge e
    place, size = 0, 0  # where the last search for an edge of a smallest group ended, and their size
    found = {}
    for n_groups in range(n, last - 1, -1):
        if n_groups in counts:
            found[n_groups] = forest.labels()
        if n_groups == last:
            break
        is_unequal = forest.difference > limit * (n_groups - 1)
        if is_unequal and size != sizes[0]:
            place, size = 0, sizes[0]
        before = place if is_unequal else 0
        while True:
            edge = following[before] - 1
            head, tail = root(heads[edge]), root(tails[edge])
            if not is_unequal or size_of[head] == size or size_of[tail] == size:
                break
            before = edge + 1
        if is_unequal:
            place = before
        following[before] = following[edge + 1]
        if place == edge + 1:
            place = 0
        forest.join(head, tail, n_groups)
    return found


class _Forest:
    """Disjoint groups of rows, and the sum of |difference of sizes| over all pairs of groups."""

    def __init__(self, n: int) -> None:
        self.n, self.parent, self.size = n, list(range(n)), [1] * n
        self.sizes, self.counts = [1], [0, n] + [0] * n  # sizes of groups, ascending, and how many have each size
        self.difference = 0

    def root(self, row: int) -> int:
        """Return the row that represents the group of a row."""
        parent = self.parent
        while (above := parent[row]) != row:
            parent[row] = row = parent[above]
        return row

    def join(self, first: int, second: int, n_groups: int) -> None:
        """Join the groups that two rows represent; `n_groups` is the number of groups before."""
        sizes, counts, size = self.sizes, self.counts, self.size
        large, small = (first, second) if size[first] >= size[second] else (second, first)
        a, b = size[large], size[small]
        joined = a + b
        self.parent[small], size[large] = large, joined
        counts[a] -= 1
        counts[b] -= 1
        if b <= sizes[0] and a >= sizes[-1]:
            nearer = b * (n_groups - 2)
        else:
            nearer = 0
            for other in sizes:
                if other >= joined:
                    break
                nearer += counts[other] * (b if b <= other <= a else min(other, joined - other))
        # |s - a - b| - |s - a| - |s - b| is 2 min(s, b, a + b - s) - s for sizes s below a + b, and -s for others
        self.difference += 2 * nearer - (self.n - joined) - (a - b)
        if not counts[a]:
            sizes.pop(bisect_left(sizes, a))
        if a != b and not counts[b]:
            sizes.pop(bisect_left(sizes, b))
        if not counts[joined]:
            insort(sizes, joined)
        counts[joined] += 1

    def labels(self) -> Labels:
        """Return the groups as whole numbers from 0."""
        roots = np.array(self.parent)
        while not np.array_equal(above := roots[roots], roots):
            roots = above
        return np.unique(roots, return_inverse=True)[1].astype(np.int64)
