"""Columns of vectors in files: lists of numbers that become one column per number."""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from knet.rows.vectors import vector_rows

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_AT_A_TIME = 8192


def read_vectors(path: str | os.PathLike[str], column: str, out: str | os.PathLike[str] | None = None) -> NDArray[Any]:
    """Read the vectors of a Parquet file as an array, block by block: nothing is in memory twice.

    Parameters
    ----------
    path : path-like
        The Parquet file.
    column : str
        The column of vectors: lists of numbers, all of the same length.
    out : path-like, optional
        A .npy file to write the rows to. The result is then a memory map of this file, so that the rows may be larger
        than memory.

    Returns
    -------
    rows : ndarray of shape (n_samples, n_features)
        The vectors, in the type of the file.
    """
    import pyarrow.parquet as pa_parquet

    with pa_parquet.ParquetFile(path) as file:
        n_rows, done = file.metadata.num_rows, 0
        rows: NDArray[Any] | None = None
        for batch in file.iter_batches(ROWS_AT_A_TIME, columns=[column]):
            block = vector_rows(batch.column(0), None if rows is None else rows.shape[1], first_row=done)
            if rows is None:
                rows = _new_rows((n_rows, block.shape[1]), block.dtype, out)
            rows[done : done + len(block)] = block
            done += len(block)
    if rows is None:
        raise ValueError(f"{os.fspath(path)} has no rows.")
    return rows


def _new_rows(shape: tuple[int, int], dtype: np.dtype[Any], out: str | os.PathLike[str] | None) -> NDArray[Any]:
    """Return an array to fill, in memory or in a file."""
    if out is None:
        return np.empty(shape, dtype)
    mapped: NDArray[Any] = np.lib.format.open_memmap(os.fspath(out), mode="w+", dtype=dtype, shape=shape)
    return mapped


def widths(schema: "pa.Schema", first: "Callable[[], pa.Table | None]") -> dict[str, int]:
    """Return the columns of vectors of an Arrow table, and how long they are; `first` reads the first row.

    Lists of whole numbers are left as they are: they may be keys.
    """
    import pyarrow as pa

    found: dict[str, int] = {}
    for name, kind in zip(schema.names, schema.types, strict=True):
        is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
        if is_list and pa.types.is_floating(kind.value_type):
            if pa.types.is_fixed_size_list(kind):
                found[name] = kind.list_size
            elif (row := first()) is not None:
                found[name] = vector_rows(row[name]).shape[1]
    return found


def numbered(names: list[str], found: Mapping[str, int]) -> list[str]:
    """Return column names in which each column of vectors is replaced by one column per number: v_0, v_1, ..."""
    return [new for name in names for new in ([f"{name}_{j}" for j in range(found[name])] if name in found else [name])]


def flatten(table: "pa.Table", found: Mapping[str, int], first_row: int) -> "pa.Table":
    """Return a table in which each column of vectors is replaced by one column per number."""
    import pyarrow as pa

    columns: list[Any] = []
    for name in table.column_names:
        if name in found:
            try:
                rows = vector_rows(table[name], found[name], first_row=first_row)
            except ValueError as error:
                raise ValueError(f"Column {name!r}: {error}") from error
            columns += [pa.array(np.ascontiguousarray(values)) for values in rows.T]
        else:
            columns.append(table[name])
    return pa.table(columns, names=numbered(table.column_names, found))
