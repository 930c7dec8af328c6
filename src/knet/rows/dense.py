"""Rows of an array or a sparse matrix as dense blocks, of length 1 if asked for."""

import numpy as np

from knet.arrays import AnyArray, Floats, Rows, row_blocks
from knet.exceptions import ZeroRowError
from knet.rows.kinds import is_sparse
from knet.rows.numbers import float_dtype

CHECKED_ROWS = 8192  # rows whose length is computed at a time


class DenseRows:
    """Rows of an array or a sparse matrix, read on request as dense arrays, of length 1 if asked for."""

    def __init__(self, X: Rows, *, unit_length: bool = False) -> None:
        self.X, self.unit_length = X, unit_length
        self.shape: tuple[int, int] = X.shape
        self.dtype = float_dtype(X)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: slice | AnyArray) -> Floats:
        block: Floats = dense_rows(self.X[rows], unit_length=self.unit_length)
        return block


def dense_rows(X: Rows, *, unit_length: bool = False) -> AnyArray:
    """Return rows as a dense array, half precision as single, of length 1 if asked for; other types stay."""
    rows: AnyArray = X.toarray() if is_sparse(X) else X
    rows = rows.astype(np.float32, copy=False) if float_dtype(rows) == np.float32 else rows
    if not unit_length:
        return rows
    dtype = float_dtype(rows)
    lengths = row_lengths(rows).astype(dtype)
    return np.divide(rows, lengths[:, None], dtype=dtype)


def row_lengths(X: Rows) -> Floats:
    """Return the Euclidean length of every row, or raise a ZeroRowError."""
    with np.errstate(over="ignore", under="ignore"):
        if is_sparse(X):
            squares: Floats = np.asarray(X.multiply(X).sum(1)).ravel()
        else:
            squares = np.einsum("ij,ij->i", X, X, dtype=float_dtype(X))
    unsafe = ~((squares > np.finfo(squares.dtype).tiny * 1e8) & np.isfinite(squares))  # squares that lost digits
    lengths = np.sqrt(squares)
    if unsafe.any():
        values = dense_rows(X[np.flatnonzero(unsafe)])
        largest = np.abs(values).max(1)
        if not largest.all():
            raise ZeroRowError(int(np.flatnonzero(unsafe)[largest.argmin()]))
        lengths[unsafe] = np.sqrt(np.square(values / largest[:, None]).sum(1)) * largest
    return lengths


def check_directions(X: Rows) -> None:
    """Raise a ZeroRowError if a row has no direction."""
    for rows in row_blocks(X.shape[0], max_rows=CHECKED_ROWS):
        try:
            row_lengths(X[rows])
        except ZeroRowError as error:
            raise ZeroRowError(rows.start + error.row) from None
