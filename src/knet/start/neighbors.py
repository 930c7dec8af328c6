"""Nearest neighbours of rows, the graph that they form, and votes among them."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

from knet.arrays import Floats, Labels
from knet.start.nearest import Indices as Indices
from knet.start.nearest import nearest

VOTE_NEIGHBORS = 5  # a row outside a sample gets the most frequent label among so many rows of it


@dataclass(frozen=True)
class Neighbors:
    """The nearest rows of every row, first of all different ones.

    A row that occurs many times would have no neighbours but its copies, and so be a group of its own. Its neighbours
    are therefore different rows, as long as it is a neighbour of theirs, too; the others are replaced by copies.

    Attributes
    ----------
    indices, distances : ndarray of shape (n, k)
        The rows, and how far they are; nearest first, except for copies. Of a neighbour that occurs several times one
        copy is taken, a different one for each copy of the row.
    copies : ndarray of shape (n,)
        How often each row occurs.
    twins : ndarray of shape (n,)
        The next copy of each row; after the last one, the first. A row that occurs once is its own twin.
    """

    indices: Indices
    distances: Floats
    copies: Indices
    twins: Indices

    def first(self, k: int) -> "Neighbors":
        """Return the k nearest of the neighbours."""
        return replace(self, indices=self.indices[:, :k], distances=self.distances[:, :k])


def neighbors(X: Floats, k: int) -> Neighbors:
    """Return the k nearest rows of every row, or fewer if there are not so many.

    If there are few different rows, all of them would be neighbours of each other: then copies are neighbours.
    """
    every = np.arange(len(X))
    if len(X) <= 2 * k or not _may_repeat(X):
        return Neighbors(*_others(X, min(k, len(X) - 1)), copies=np.ones_like(every), twins=every)
    distinct, value, copies = np.unique(X, axis=0, return_inverse=True, return_counts=True)
    value = value.ravel()
    if len(distinct) <= 2 * k:
        return Neighbors(*_others(X, min(k, len(X) - 1)), copies=np.ones_like(every), twins=every)
    indices, distances = _others(distinct, k)
    by_value, starts = np.argsort(value, kind="stable"), np.cumsum(copies) - copies
    number = np.empty(len(X), dtype=np.intp)  # of a row among its copies
    number[by_value] = every - starts[value[by_value]]
    repeated, one_sided = np.flatnonzero(copies > 1), np.zeros(indices.shape, dtype=bool)
    one_sided[repeated] = ~_is_mutual(indices, repeated)
    n_one_sided = np.cumsum(one_sided, axis=1)  # the first of these is replaced by the next copy, and so on
    to_copy = (one_sided & (n_one_sided < copies[:, None]))[value]
    target = np.where(to_copy, value[:, None], indices[value])
    place = number[:, None] + np.where(to_copy, n_one_sided[value], np.arange(k))
    twins = by_value[starts[value] + (number + 1) % copies[value]]
    return Neighbors(
        indices=by_value[starts[target] + place % copies[target]],
        distances=np.where(to_copy, 0.0, distances[value]),
        copies=copies[value],
        twins=twins,
    )


def _may_repeat(X: Floats) -> bool:
    """Say whether some rows may be equal: those have equal sums of their columns, times different numbers."""
    sums = np.zeros(len(X))
    for number, column in enumerate(X.T, start=2):
        sums += column * np.sqrt(number)  # in the same order for every row, which a product does not promise
    return len(np.unique(sums)) < len(X)


def _others(X: Floats, k: int) -> tuple[Indices, Floats]:
    """Return the k nearest other rows of every row, and their distances."""
    indices, distances = nearest(X, X, k + 1)
    own = indices == np.arange(len(X))[:, None]  # of equal rows, a row need not find itself first, or at all
    own[~own.any(1), -1] = True
    return indices[~own].reshape(len(X), k), distances[~own].reshape(len(X), k)


def _is_mutual(indices: Indices, rows: Indices) -> NDArray[np.bool_]:
    """Say for each neighbour of some rows whether the row is one of its neighbours, too."""
    mutual: NDArray[np.bool_] = (indices[indices[rows]] == rows[:, None, None]).any(2)
    return mutual


def neighbor_graph(near: Neighbors, k: int) -> csr_matrix:
    """Return the symmetric graph of every row and its k nearest others: weight 1 if mutual, else 1/2."""
    indices = near.indices[:, :k].astype(np.int32)
    n, k = indices.shape
    pointers = np.arange(0, n * k + 1, k, dtype=np.int32)
    directed = csr_matrix((np.full(n * k, 0.5), indices.ravel(), pointers), shape=(n, n))
    return (directed + directed.T).tocsr()


def neighbor_shares(labels: Labels, near: Indices) -> Floats:
    """Return the share of each group among a row and its nearest rows, (n, c): one step of diffusion on their graph.

    A group of m rows counts at most (m - 1) / 2 neighbours of its rows, so that others cannot outvote a small group.
    """
    (n, k), sizes = near.shape, np.bincount(labels)
    counted = np.arange(k) < ((sizes - 1) // 2)[labels][:, None]
    cells = np.arange(n)[:, None] * len(sizes) + labels[near]
    counts = np.bincount(cells[counted], minlength=n * len(sizes)).reshape(n, -1) + np.eye(len(sizes))[labels]
    shares: Floats = counts / counts.sum(1, keepdims=True)
    return shares


def vote(labels: Labels, X: Floats, queries: Floats) -> Labels:
    """Return for each query the most frequent label among its nearest rows of X."""
    return most_frequent(labels[nearest(X, queries, min(VOTE_NEIGHBORS, len(X)))[0]])


def most_frequent(found: Labels) -> Labels:
    """Return the most frequent label of each row, the smallest one of several."""
    votes = np.stack([(found == label).sum(1) for label in range(int(found.max(initial=0)) + 1)], axis=1)
    winners: Labels = votes.argmax(1)
    return winners


def extend(labels: Labels, sample: Indices, X: Floats) -> Labels:
    """Return labels of all rows of X: those given for the rows `sample`, and for the others a vote of these."""
    extended: Labels = np.empty(len(X), dtype=np.int64)
    extended[sample] = labels
    if len(sample) < len(X):
        others = np.ones(len(X), dtype=bool)
        others[sample] = False
        extended[others] = vote(labels, X[sample], X[others])
    return extended
