"""`read_vectors`: a column of vectors of a Parquet file as an array."""

import os
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from knet.arrays import AnyArray
from knet.files import check_new, whole_file
from knet.rows.vectors import vector_rows

ROWS_AT_A_TIME = 8192


def read_vectors(
    path: str | os.PathLike[str], column: str, out: str | os.PathLike[str] | None = None, *, overwrite: bool = False
) -> AnyArray:
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
    import pyarrow.parquet as pa_parquet

    if out is not None:
        check_new(Path(out), overwrite=overwrite)
    rows: Any = None
    target = nullcontext() if out is None else whole_file(Path(out), overwrite=overwrite)
    with pa_parquet.ParquetFile(path) as file, target as temporary:
        n_rows, done = file.metadata.num_rows, 0
        for batch in file.iter_batches(ROWS_AT_A_TIME, columns=[column]):
            block = vector_rows(batch.column(0), None if rows is None else rows.shape[1], first_row=done)
            if rows is None:
                new = np.empty if temporary is None else partial(np.lib.format.open_memmap, temporary, "w+")
                rows = new(shape=(n_rows, block.shape[1]), dtype=block.dtype)
            rows[done : done + len(block)] = block
            done += len(block)
        if rows is None:
            raise ValueError(f"{os.fspath(path)} has no rows.")
        if temporary is not None:
            rows.flush()
    array: AnyArray = rows if out is None else np.load(out, mmap_mode="r+")
    return array
