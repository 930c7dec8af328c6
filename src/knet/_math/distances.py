"""Distances between rows of arrays, and the blocks in which large tables of pairs are computed."""

from collections.abc import Iterator

import numpy as np

from knet._math.arrays import Floats

BLOCK_BYTES = 8 * 2**20  # working set of one block of rows of a kernel, which should stay in a cache
LOG_FLOOR = -60.0  # exp(-60) + 1 equals 1; smaller values become denormal numbers, which cost 20 times more


def squared_distances(X: Floats, Y: Floats) -> Floats:
    """Return ||x_i - y_j||^2 for all pairs; rows are shifted first, so that far-away data loses no digits."""
    shift = Y.mean(0)
    X, Y = X - shift, Y - shift
    D2: Floats = X @ (-2 * Y.T)
    D2 += np.square(X).sum(1)[:, None]
    D2 += np.square(Y).sum(1)
    return np.maximum(D2, 0, out=D2)


def row_blocks(n_rows: int, n_columns: int, itemsize: int, block_bytes: int = BLOCK_BYTES) -> Iterator[slice]:
    """Yield slices that cut `n_rows` so that a block with `n_columns` columns stays within `block_bytes`."""
    step = max(1, block_bytes // max(1, n_columns * itemsize))
    for start in range(0, n_rows, step):
        yield slice(start, min(start + step, n_rows))


def log_sum_exp(terms: Floats) -> Floats:
    """Return log sum_j exp(t_ij) for every row, without overflow."""
    largest = terms.max(1)
    sums: Floats = largest + np.log(np.exp(terms - largest[:, None]).sum(1))
    return sums
