"""`read_vectors`: a column of vectors of a Parquet file as an array."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knet.files import check_new, whole_file
from knet.rows.vectors import vector_rows

ROWS_AT_A_TIME = 8192


def read_vectors(
    path: str | os.PathLike[str], column: str, out: str | os.PathLike[str] | None = None, *, overwrite: bool = False
) -> NDArray[Any]:
    """Read the vectors of a Parquet file as an array, block by block: nothing is in memory twice.

    Parameters
    ----------
    path : path-like
        The Parquet file.
    column : str
        The column of vectors: lists of numbers, all of the same length.
    out : path-like, optional
        A .npy file to write the rows to; it is complete or absent. The result is then a memory map of this file, so
        that the rows may be larger than memory.
    overwrite : bool, default=False
        Whether an existing file `out` is replaced.

    Returns
    -------
    rows : ndarray of shape (n_samples, n_features)
        The vectors, in the type of the file.
    """
    if out is None:
        return _read(path, column, None)
    target = Path(out)
    check_new(target, overwrite=overwrite)
    with whole_file(target, overwrite=overwrite) as temporary:
        _read(path, column, temporary)
    mapped: NDArray[Any] = np.load(target, mmap_mode="r+")
    return mapped


def _read(path: str | os.PathLike[str], column: str, out: Path | None) -> NDArray[Any]:
    """Read the vectors into a new array, in memory or in a file."""
    import pyarrow.parquet as pa_parquet

    rows: Any = None
    with pa_parquet.ParquetFile(path) as file:
        n_rows, done = file.metadata.num_rows, 0
        for batch in file.iter_batches(ROWS_AT_A_TIME, columns=[column]):
            block = vector_rows(batch.column(0), None if rows is None else rows.shape[1], first_row=done)
            if rows is None:
                shape = (n_rows, block.shape[1])
                rows = np.empty(shape, block.dtype) if out is None else _new_map(out, shape, block.dtype)
            rows[done : done + len(block)] = block
            done += len(block)
    if rows is None:
        raise ValueError(f"{os.fspath(path)} has no rows.")
    if out is not None:
        rows.flush()
    array: NDArray[Any] = rows
    return array


def _new_map(out: Path, shape: tuple[int, int], dtype: np.dtype[Any]) -> Any:
    return np.lib.format.open_memmap(out, mode="w+", dtype=dtype, shape=shape)
