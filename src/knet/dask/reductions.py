"""Reductions over blocks of rows: a uniform sample, statistics of the clusters, an iteration of Lloyd's algorithm.

Each has a function for a single block and a function that merges the results of several blocks. Results are merged in
the order of the blocks, so they are bit-identical whichever worker computes a block, and when.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from knet.arrays import Floats
from knet.model.blocks import ModelRef, slices
from knet.model.certainty import DOUBTFUL
from knet.rows.kinds import take_rows
from knet.threads import limit_threads

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class Drawn:
    """The rows with the smallest keys so far: a uniform sample, since keys are independent of the rows.

    Attributes
    ----------
    keys : ndarray of shape (n,)
        A random number for every row.
    block, row : ndarrays of shape (n,)
        Position of each row: the number of its block, and its place in the block.
    rows : ndarray or DataFrame of n rows
        The rows themselves.
    lengths : dict
        Number of rows of every block read.
    """

    keys: NDArray[np.uint64]
    block: NDArray[np.int64]
    row: NDArray[np.int64]
    rows: Any
    lengths: dict[int, int]

    @property
    def positions(self) -> NDArray[np.int64]:
        """Return the position of each row among all rows; valid after all blocks are merged."""
        starts = np.cumsum([0, *(self.lengths[i] for i in range(len(self.lengths)))])
        positions: NDArray[np.int64] = starts[self.block] + self.row
        return positions


def draw(block: Any, number: int, size: int, seed: int) -> Drawn:
    """Draw at most `size` rows of a block; the keys depend only on the seed and the number of the block."""
    n_rows = block.shape[0]
    keys = np.random.Generator(np.random.Philox([seed, number])).integers(2**64 - 1, size=n_rows, dtype=np.uint64)
    kept = np.sort(_smallest(keys, size))
    return Drawn(keys[kept], np.full(len(kept), number), kept, take_rows(block, kept), {number: n_rows})


def merge_drawn(parts: Sequence[Drawn], size: int) -> Drawn:
    """Keep the `size` smallest keys of several samples, in the order of the rows."""
    keys, block, row = (np.concatenate([getattr(part, name) for part in parts]) for name in ("keys", "block", "row"))
    place = np.lexsort((row, block))
    kept = place[np.sort(_smallest(keys[place], size))]
    starts = np.cumsum([0, *(len(part.keys) for part in parts)])
    own = [np.sort(kept[(kept >= start) & (kept < end)]) - start for start, end in pairwise(starts)]
    rows = _join([take_rows(part.rows, places) for part, places in zip(parts, own, strict=True)])
    lengths = {number: length for part in parts for number, length in part.lengths.items()}
    return Drawn(keys[kept], block[kept], row[kept], take_rows(rows, kept.argsort().argsort()), lengths)


def _smallest(keys: NDArray[np.uint64], size: int) -> NDArray[np.int64]:
    """Return the places of the `size` smallest keys; the first keys win ties."""
    if len(keys) <= size:
        return np.arange(len(keys))
    bound = np.partition(keys, size - 1)[size - 1]
    below = np.flatnonzero(keys < bound)
    return np.concatenate([below, np.flatnonzero(keys == bound)[: size - len(below)]])


def _join(parts: list[Any]) -> Any:
    """Concatenate tables or arrays; empty ones are left out because their dtypes may be wrong."""
    filled = [part for part in parts if len(part)] or parts[:1]
    if not hasattr(filled[0], "iloc"):
        return np.concatenate(filled)
    from pandas import concat

    return concat(filled)


@dataclass(frozen=True)
class Moments:
    """Per cluster: the number of rows, the mean of each column, and the sum of squared deviations from it.

    `n_doubtful` rows have no membership of at least `DOUBTFUL`; `n_unfamiliar` rows score below a threshold.
    """

    counts: Counts
    means: Floats
    squares: Floats
    n_doubtful: int
    n_unfamiliar: int


def moments(block: Any, ref: ModelRef, dtype: DTypeLike, threads: int, threshold: float) -> Moments:
    """Return the statistics of a block."""
    model = ref.load()
    with limit_threads(threads):
        parts = [_moments(X, model.predictor, threshold) for X in slices(block, model, dtype)]
    n_clusters = len(model.predictor.centers)
    nothing = np.zeros((n_clusters, model.n_features))
    return merge_moments([Moments(np.zeros(n_clusters, np.int64), nothing, nothing, 0, 0), *parts])


def _moments(X: Floats, predictor: Any, threshold: float) -> Moments:
    P = predictor.memberships(X)
    labels, n_clusters = P.argmax(1), P.shape[1]
    unfamiliar = (predictor.familiarity(X) < threshold).sum() if threshold > -np.inf else 0
    counts = np.bincount(labels, minlength=n_clusters)
    means, squares = np.zeros((2, n_clusters, X.shape[1]))
    for cluster in np.flatnonzero(counts):
        own = X[labels == cluster].astype(np.float64)
        means[cluster] = own.mean(0)
        squares[cluster] = np.square(own - means[cluster]).sum(0)
    return Moments(counts, means, squares, int((P.max(1) < DOUBTFUL).sum()), int(unfamiliar))


def merge_moments(parts: Sequence[Moments]) -> Moments:
    """Merge the statistics of several blocks, with the update formula that is exact also if means are large."""
    first, *others = parts
    counts, means, squares = first.counts, first.means, first.squares
    for other in others:
        total = counts + other.counts
        share = (other.counts / np.maximum(total, 1))[:, None]
        step = other.means - means
        squares = squares + other.squares + np.square(step) * counts[:, None] * share
        means, counts = means + step * share, total
    doubtful, unfamiliar = (sum(getattr(part, name) for part in parts) for name in ("n_doubtful", "n_unfamiliar"))
    return Moments(counts, means, squares, doubtful, unfamiliar)


@dataclass(frozen=True)
class LloydSums:
    """Per cluster: the number and the sum of its embedded rows; `inertia` sums all squared distances to the centres."""

    counts: Counts
    sums: Floats
    inertia: float


def lloyd_sums(block: Any, ref: ModelRef, dtype: DTypeLike, threads: int, centers: Floats) -> LloydSums:
    """Assign the rows of a block to given centres, and sum the rows of each centre."""
    model = ref.load()
    with limit_threads(threads):
        parts = [_lloyd_sums(model.predictor.embed(X), centers) for X in slices(block, model, dtype)]
    return merge_lloyd([LloydSums(np.zeros(len(centers), np.int64), np.zeros(centers.shape), 0.0), *parts])


def _lloyd_sums(Psi: Floats, centers: Floats) -> LloydSums:
    Psi = Psi.astype(np.float64)
    distances = np.stack([np.square(Psi - center).sum(1) for center in centers], axis=1)
    labels = distances.argmin(1)
    counts = np.bincount(labels, minlength=len(centers))
    sums = np.array([Psi[labels == cluster].sum(0) for cluster in range(len(centers))])
    return LloydSums(counts, sums, float(distances.min(1).sum()))


def merge_lloyd(parts: Sequence[LloydSums]) -> LloydSums:
    """Add up the sums of several blocks."""
    return LloydSums(
        np.sum([part.counts for part in parts], axis=0),
        np.sum([part.sums for part in parts], axis=0),
        float(sum(part.inertia for part in parts)),
    )
