"""Nearest neighbours of rows, the graph that they form, and votes among them."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from scipy.spatial import cKDTree
from sklearn.neighbors import NearestNeighbors

from knet.arrays import Floats, Labels

Indices = NDArray[np.intp]

TREE_COLUMNS = 10  # columns up to which a k-d tree is faster than all distances
VOTE_NEIGHBORS = 5  # a row outside a sample gets the most frequent label among so many rows of it


@dataclass(frozen=True)
class Neighbors:
    """The nearest other rows of every row, nearest first, and their distances; both (n, k)."""

    indices: Indices
    distances: Floats


def neighbors(X: Floats, k: int) -> Neighbors:
    """Return the k nearest other rows of every row."""
    n, k = len(X), min(k, len(X) - 1)
    indices, distances = nearest(X, X, k + 1)
    own = indices == np.arange(n)[:, None]  # of several equal rows, a row need not find itself first, or at all
    own[~own.any(1), -1] = True
    return Neighbors(indices[~own].reshape(n, k), distances[~own].reshape(n, k))


def nearest(X: Floats, queries: Floats, k: int) -> tuple[Indices, Floats]:
    """Return the k rows of X nearest to each query, and their distances."""
    if X.shape[1] <= TREE_COLUMNS:
        distances, indices = cKDTree(X).query(queries, k)
    else:
        distances, indices = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(X).kneighbors(queries)
    return indices.reshape(len(queries), k), distances.reshape(len(queries), k)


def neighbor_graph(near: Neighbors, k: int) -> csr_matrix:
    """Return the symmetric graph of every row and its k nearest others: weight 1 if mutual, else 1/2."""
    indices = near.indices[:, :k].astype(np.int32)
    n, k = indices.shape
    pointers = np.arange(0, n * k + 1, k, dtype=np.int32)
    directed = csr_matrix((np.full(n * k, 0.5), indices.ravel(), pointers), shape=(n, n))
    return (directed + directed.T).tocsr()


def vote(labels: Labels, X: Floats, queries: Floats) -> Labels:
    """Return for each query the most frequent label among its nearest rows of X."""
    found = labels[nearest(X, queries, min(VOTE_NEIGHBORS, len(X)))[0]]
    votes = np.stack([(found == label).sum(1) for label in range(int(labels.max()) + 1)], axis=1)
    winners: Labels = votes.argmax(1)
    return winners


def extend(labels: Labels, sample: Indices, X: Floats) -> Labels:
    """Return labels of all rows of X: those given for the rows `sample`, and for the others a vote of these."""
    if len(sample) == len(X):
        extended: Labels = np.empty(len(X), dtype=np.int64)
    else:
        extended = vote(labels, X[sample], X)
    extended[sample] = labels
    return extended
