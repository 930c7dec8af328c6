"""The nearest rows of queries: by a k-d tree in few columns, else among the rows of cells near each query.

Cells are those of a few iterations of k-means. The queries of a cell are compared with all rows of the cells that may
have neighbours of one of them, in one product in single precision, which finds a few more rows than asked for; exact
distances then decide. So neighbours among the compared rows are exact.

A row of another cell is at least as far as the plane between the two centres. To compare all cells whose plane is
nearer than the k-th neighbour would miss nothing, but in many columns these are most cells, nearly all for nothing: a
step to a neighbour hardly ever points straight at the plane, and some query of a cell is nearer to the plane than the
others. A share of the distance is enough for 997 of 1,000 neighbours and more; it is larger for fewer queries, and at
least 1 for one or two. Few rows are one cell, which misses none.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree

from knet.arrays import Floats, squared_distances
from knet.threads import allowed_threads, in_threads

Indices = NDArray[np.intp]

THREAD_VALUES = 250_000  # values of the queries from which threads help: for fewer, they wait at the interpreter's lock
TREE_COLUMNS = 5  # columns up to which a k-d tree is faster
ONE_CELL = 1500  # rows up to which there is one cell
CELL_ROWS = 128  # rows of a cell, on average
CELL_ITERATIONS = 2  # of k-means
QUERIES = (128, 256)  # bounds of the queries of a cell that are compared at once
PAIR_VALUES = 2**16  # values of their neighbours, within these bounds: the system is slow to provide larger arrays
MIN_REACH = 0.25  # share of the distance to the k-th neighbour within which planes of cells count, for many queries
FIRST_ROWS = 4  # of the nearest cells, times the neighbours: their distances say how far neighbours are, at most
GROUPS = 8  # groups of rows, times the neighbours: their largest scores bound the score of the last neighbour
MANY = 20  # times the neighbours: if rounding leaves so many rows, single precision cannot tell them apart


def nearest(X: Floats, queries: Floats, k: int) -> tuple[Indices, Floats]:
    """Return the k rows of X nearest to each query, nearest first, and their distances.

    The results are the same on any number of threads.
    """
    if X.shape[1] <= TREE_COLUMNS:
        leaf = max(16, 8 * X.shape[1])  # rows of a leaf: in more columns, a tree excludes fewer of them
        distances, indices = cKDTree(X, leafsize=leaf).query(queries, k, workers=allowed_threads())
        return indices.reshape(len(queries), k), distances.reshape(len(queries), k)
    largest = max(float(np.abs(X).max()), float(np.abs(queries).max()))
    unit = 2.0 ** np.frexp(largest)[1]  # squares of numbers below 1 do not overflow
    cells, queries = _Cells.of(X / unit), queries / unit
    step = int(np.clip(PAIR_VALUES // (k * X.shape[1]), *QUERIES))
    blocks = [
        (cell, rows[first : first + step])
        for cell, rows in enumerate(_members(queries, cells.centers))
        for first in range(0, len(rows), step)
    ]

    def search(block: tuple[int, Indices]) -> tuple[Indices, Floats]:
        return cells.search(block[0], queries.take(block[1], axis=0), k)

    found = in_threads(search, blocks) if queries.size >= THREAD_VALUES else [search(block) for block in blocks]
    indices, distances = np.empty((len(queries), k), dtype=np.intp), np.empty((len(queries), k))
    for (_, rows), (near, squares) in zip(blocks, found, strict=True):
        indices[rows], distances[rows] = near, np.sqrt(squares) * unit
    return indices, distances


@dataclass(frozen=True)
class _Cells:
    """Rows in cells: those nearest to each of some centres."""

    rows: Floats
    centers: Floats
    order: Indices  # the rows of the first cell, of the second, and so on
    sizes: Indices
    single: Floats  # in this order, with a column of ones; the last one is a row infinitely far away

    @classmethod
    def of(cls, X: Floats) -> "_Cells":
        """Return the cells of rows; with several of them, none is empty."""
        n, d = X.shape
        n_cells = 1 if n <= ONE_CELL else n // CELL_ROWS
        centers = X[np.linspace(0, n - 1, n_cells).astype(int)]
        for _ in range(CELL_ITERATIONS):
            centers = np.stack([X.take(rows, axis=0).mean(0) for rows in _members(X, centers) if len(rows)])
        members = _members(X, centers)
        order, single = np.concatenate(members), np.zeros((n + 1, d + 1), dtype=np.float32)
        single[:n, :d], single[:n, d], single[n, d] = X.take(order, axis=0), 1, np.inf
        return cls(X, centers, order, np.array([len(rows) for rows in members]), single)

    def search(self, cell: int, queries: Floats, k: int) -> tuple[Indices, Floats]:
        """Return the k nearest rows of queries in a cell, and their squared distances."""
        U = queries - self.centers[cell]
        query, place = self._candidates(cell, U, self._compared(cell, U, k), k)
        rows = self.order.take(place)
        gaps = self.rows.take(rows, axis=0)
        gaps -= queries.take(query, axis=0)
        return _smallest(query, rows, np.einsum("ij,ij->i", gaps, gaps), len(U), k)

    def _compared(self, cell: int, U: Floats, k: int) -> Indices:
        """Return the places of the rows that may be neighbours of queries U, seen from the centre of their cell."""
        steps = self.centers - self.centers[cell]
        lengths = np.sqrt(np.square(steps).sum(1))
        by_distance = np.argsort(lengths, kind="stable")
        n_first = np.searchsorted(np.cumsum(self.sizes[by_distance]), FIRST_ROWS * k) + 1
        is_near = np.zeros(len(lengths), dtype=bool)
        is_near[by_distance[:n_first]] = True
        if not is_near.all():
            scores = self._scores(cell, U, np.flatnonzero(np.repeat(is_near, self.sizes)))
            radii = _radii(np.square(U).sum(1), _kth_largest(scores, k))
            toward = U @ (steps / np.maximum(lengths, 1e-300)[:, None]).T
            reach = max(MIN_REACH, (2 / len(U)) ** (1 / 3))
            is_near |= (toward + reach * radii[:, None]).max(0) >= lengths / 2
        return np.flatnonzero(np.repeat(is_near, self.sizes))

    def _scores(self, cell: int, U: Floats, places: Indices) -> Floats:
        """Return x'y - y'y / 2 of rows y and queries x from the centre of a cell: the nearest row has the largest."""
        P, V = self.single.take(places, axis=0), np.ones((len(U), U.shape[1] + 1), dtype=np.float32)
        V[:, :-1], rows = U, P[:, :-1]
        rows -= self.centers[cell].astype(np.float32)
        P[:, -1] *= np.einsum("ij,ij->i", rows, rows) / -2
        scores: Floats = P @ V.T
        return scores

    def _candidates(self, cell: int, U: Floats, places: Indices, k: int) -> tuple[Indices, Indices]:
        """Return pairs of a query and a place, by query: the k nearest rows of every query, and a few more.

        The k-th largest of the largest scores of groups of rows is a bound: so many rows have at least this score.
        """
        n, m, squares = len(places), len(U), np.square(U).sum(1)
        n_groups = min(GROUPS * k, n)
        padded = np.pad(places, (0, -n % n_groups), constant_values=len(self.order))
        scores = self._scores(cell, U, padded).reshape(-1, n_groups * m)
        bound = _kth_largest(scores.max(0).reshape(n_groups, m), k)
        reach = np.sqrt(squares) + _radii(squares, bound)  # from the centre, of all rows that matter
        relative = 8 * (U.shape[1] + 2) * np.finfo(np.float32).eps
        bound = bound - relative * reach * (reach + np.linalg.norm(self.centers[cell]))
        found = np.flatnonzero(scores >= np.tile(bound.astype(np.float32), n_groups))
        if len(found) > MANY * k * m:
            D2 = squared_distances(U, self.rows.take(self.order.take(places), axis=0) - self.centers[cell])
            return np.repeat(np.arange(m), k), places.take(np.argpartition(D2, k - 1, axis=1)[:, :k].ravel())
        place, query = np.divmod(found, m)
        by_query = np.argsort(query.astype(np.uint16), kind="stable")  # the sort of short numbers is faster
        return query[by_query], padded.take(place[by_query])


def _members(X: Floats, centers: Floats) -> list[Indices]:
    """Return for each centre the rows that are nearest to it."""
    scores = X.astype(np.float32) @ centers.T.astype(np.float32)
    scores -= (np.square(centers).sum(1) / 2).astype(np.float32)
    own = scores.argmax(1)
    return np.split(np.argsort(own, kind="stable"), np.cumsum(np.bincount(own, minlength=len(centers)))[:-1])


def _kth_largest(scores: Floats, k: int) -> Floats:
    """Return the k-th largest value of every column."""
    by_column = np.ascontiguousarray(scores.T)
    by_column.partition(len(scores) - k, axis=1)
    return by_column[:, -k].astype(np.float64)


def _radii(squares: Floats, scores: Floats) -> Floats:
    """Return the distances that belong to scores of queries whose squares are given."""
    distances: Floats = np.sqrt(np.maximum(squares - 2 * scores, 0))
    return distances


def _smallest(query: Indices, place: Indices, squares: Floats, m: int, k: int) -> tuple[Indices, Floats]:
    """Return of pairs by query the places with the k smallest squares of every query, and these."""
    counts = np.bincount(query, minlength=m)
    width = int(counts.max())
    cells = np.arange(len(query)) + np.repeat(np.arange(0, m * width, width) - (np.cumsum(counts) - counts), counts)
    places, table = np.zeros(m * width, dtype=np.intp), np.full(m * width, np.inf)
    places[cells], table[cells] = place, squares
    order = np.argsort(table.reshape(m, width), axis=1, kind="stable")[:, :k] + np.arange(0, m * width, width)[:, None]
    return places.take(order), table.take(order)
