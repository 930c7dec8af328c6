"""Types that many modules share, distances between rows, and the blocks in which many rows are processed."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Labels = NDArray[np.int64]
AnyArray = NDArray[Any]  # of numbers, texts or objects

# What a type checker cannot know: these come from libraries without types, or from users.
RowsLike = Any  # rows as users pass them: array, list, DataFrame, Arrow table, tensor, sparse matrix, Dask collection
Rows = Any  # rows as `knet.rows` returns them: an array of numbers, or a sparse matrix in CSR form
Frame = Any  # a table with named columns: of pandas, polars or Arrow
Column = Any  # of such a table, or a part of it
Json = Any  # a value read from JSON, or ready to be written: None, bool, number, text, list or dict

BLOCK_VALUES = 2**23  # values of a block of rows
LOG_FLOOR = -60.0  # exp(-60) + 1 equals 1; smaller values become denormal numbers, which cost 20 times more


def squared_distances(X: Floats, Y: Floats) -> Floats:
    """Return ||x_i - y_j||^2 for all pairs; rows are shifted first, so that far-away data loses no digits."""
    shift = Y.mean(0)
    X, Y = X - shift, Y - shift
    D2: Floats = X @ (-2 * Y.T)
    D2 += np.square(X).sum(1)[:, None]
    D2 += np.square(Y).sum(1)
    return np.maximum(D2, 0, out=D2)


def row_blocks(n_rows: int, width: int = 1, max_values: int = BLOCK_VALUES, max_rows: int | None = None) -> list[slice]:
    """Cut rows into blocks of at most `max_rows` rows and, with `width` values per row, at most `max_values` values."""
    step = max(1, min(max_values // max(1, width), n_rows if max_rows is None else max_rows))
    return [slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]


def log_sum_exp(terms: Floats) -> Floats:
    """Return log sum_j exp(t_ij) for every row, without overflow."""
    largest = terms.max(1)
    sums: Floats = largest + np.log(np.exp(terms - largest[:, None]).sum(1))
    return sums
