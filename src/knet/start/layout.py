"""A layout of the neighbour graph: rows as points in few dimensions, with neighbours together and other rows apart.

The idea is that of UMAP (McInnes, Healy, Melville, 2018), written in NumPy: the ends of an edge attract each other, as
often as its weight says, and every row is repelled by a few random ones. Time grows with the rows up to
`EPOCH_ROWS / MAX_EPOCHS` of them, and more slowly beyond.
"""

import numpy as np
from scipy.sparse import csr_matrix

from knet.arrays import Floats
from knet.start.graph_embedding import graph_embedding
from knet.start.linkage import Tree, connect, spanning_tree
from knet.start.neighbors import Indices, Neighbors, neighbors

MIN_COLUMNS = 4  # in fewer columns a layout shows no more than its own graph
LAYOUT_NEIGHBORS = 15  # neighbours that attract a row
MAX_EPOCHS, MIN_EPOCHS = 200, 50  # passes over the edges
EPOCH_ROWS = 2_000_000  # rows x epochs, as far as `MIN_EPOCHS` allows
N_BATCHES = 8  # parts of a pass: all points of a batch move at once
N_REPELLING = 2  # random rows that repel a row when a neighbour attracts it
SCALE, POWER = 1.93, 0.79  # two points are as near as 1 / (1 + SCALE distance^(2 POWER))
MAX_MOVE = 4.0  # of a point in one dimension, by one other point
WIDTH = 10.0  # largest coordinate of the first layout
BISECTIONS = 32  # halve an interval of widths until they are exact in single precision


def layout(X: Floats, n_dimensions: int, rng: np.random.RandomState) -> Floats:
    """Return rows as points in few dimensions.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        Scaled rows, more than `n_dimensions` + 1 of them.
    n_dimensions : int
        Two for a map, eight for clustering.
    rng : RandomState
        Source of the edges and of the rows that repel.

    Returns
    -------
    points : ndarray of shape (n, n_dimensions)
        The same for the same seed, on any number of threads.
    """
    near = neighbors(X, LAYOUT_NEIGHBORS)
    return neighbor_layout(near, spanning_tree(X, near), n_dimensions, rng)


def neighbor_layout(near: Neighbors, tree: Tree, n_dimensions: int, rng: np.random.RandomState) -> Floats:
    """Return the layout of rows whose neighbours, and the spanning tree of these, are known."""
    graph, n = fuzzy_graph(near), len(near.indices)
    # Vectors that have not fully converged are a better start: with exact ones, images and texts lose 0.008 of ARI.
    start = graph_embedding(graph, connect(graph, tree), n_dimensions + 1, rng, in_blocks=True)[:, 1:]
    start *= WIDTH / max(float(np.abs(start).max()), 1e-12)
    points = (start + 1e-4 * rng.standard_normal(start.shape)).astype(np.float32)  # equal points would stay equal
    n_epochs = int(np.clip(EPOCH_ROWS // n, MIN_EPOCHS, MAX_EPOCHS))
    edges = graph.tocoo()
    often = (edges.row < edges.col) & (edges.data * n_epochs >= 1)  # the others are hardly ever drawn
    heads, tails, weights = edges.row[often], edges.col[often], edges.data[often]
    for epoch in range(n_epochs):
        drawn = np.flatnonzero(rng.uniform(size=len(weights)) < weights)
        rng.shuffle(drawn)
        rate = np.float32(1 - epoch / n_epochs)
        for batch in np.array_split(drawn, N_BATCHES):
            points += rate * _moves(points, heads[batch], tails[batch], rng)
    return points.astype(np.float64)


def neighbors_preserved(X: Floats, points: Floats) -> float:
    """Return the share of the nearest neighbours of the rows X that are also nearest neighbours of their points."""
    own, shown = (neighbors(rows, LAYOUT_NEIGHBORS).indices for rows in (X, points))
    return float((own[:, :, None] == shown[:, None]).any(2).mean())


def fuzzy_graph(near: Neighbors) -> csr_matrix:
    """Return the symmetric graph of nearest rows, with weights of at most 1.

    Seen from a row, the weight is exp(-(distance - nearest distance) / width), with the width that makes the weights of
    its k neighbours sum to log2(k). The weights a and b that an edge has from its two ends become a + b - a b.
    """
    indices, distances = near.indices[:, :LAYOUT_NEIGHBORS], near.distances[:, :LAYOUT_NEIGHBORS]
    n, k = indices.shape
    beyond = distances - distances.min(1, keepdims=True)
    low, high = np.zeros(n), np.full(n, 1000 * max(float(beyond.max()), 1e-12))
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        is_wide = np.exp(-beyond / middle[:, None]).sum(1) > np.log2(k)
        low, high = np.where(is_wide, low, middle), np.where(is_wide, middle, high)
    weights = np.exp(-beyond / high[:, None])
    directed = csr_matrix((weights.ravel(), indices.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))
    return (directed + directed.T - directed.multiply(directed.T)).tocsr()


def _moves(points: Floats, heads: Indices, tails: Indices, rng: np.random.RandomState) -> Floats:
    """Return how the points move: the ends of edges towards each other, and each end away from random points."""
    n, ends = len(points), np.concatenate([heads, tails])
    difference = points[heads] - points[tails]
    squares = np.maximum(np.square(difference).sum(1), 1e-12)
    nearer = 2 * SCALE * POWER * squares ** (POWER - 1) / (1 + SCALE * squares**POWER)
    towards = np.clip(-nearer[:, None] * difference, -MAX_MOVE, MAX_MOVE)
    moves = np.concatenate([towards, -towards])
    for _ in range(N_REPELLING):
        difference = points[ends] - points[rng.randint(n, size=len(ends))]
        squares = np.square(difference).sum(1)
        farther = 2 * POWER / ((1e-3 + squares) * (1 + SCALE * squares**POWER))
        moves += np.clip(farther[:, None] * difference, -MAX_MOVE, MAX_MOVE)
    places = (ends, np.arange(len(ends)))
    by_row = csr_matrix((np.ones(len(ends), dtype=np.float32), places), shape=(n, len(ends)))
    summed: Floats = by_row @ moves
    return summed
