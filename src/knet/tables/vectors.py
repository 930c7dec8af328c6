"""Columns of vectors: lists of numbers in an Arrow, polars or pandas column, as tables of embeddings store them.

Arrow is imported only to read files; other objects are recognised by their methods.
"""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from knet.tables.in_memory import column_names

if TYPE_CHECKING:
    import pyarrow as pa

LISTS = ("list", "large_list", "fixed_size_list", "array")  # how the names of such types begin, in any library
ROWS_AT_A_TIME = 8192


def expand_vectors(X: Any) -> Any:
    """Return the rows of a column of vectors, or of a table that has only this column, as an array; else X itself."""
    names = column_names(X)
    if len(names) > 1:
        if any(_holds_lists(X[name]) for name in names):
            raise ValueError("A column of vectors must be the only column of X. Select it, such as X[['vector']].")
        return X
    column = X[names[0]] if names else X
    return vector_rows(column) if _holds_lists(column) else X


def vector_rows(column: Any, width: int | None = None, *, first_row: int = 0) -> NDArray[Any]:
    """Return the vectors of a column as the rows of an array; a `width` is the length that they must have."""
    column = column.to_arrow() if hasattr(column, "to_arrow") else column  # polars
    blocks: list[NDArray[Any]] = []
    for chunk in column.chunks if hasattr(column, "chunks") else [column]:
        lengths = _lengths(chunk)
        if not len(lengths):
            continue
        width = int(lengths[0]) if width is None else width
        if (lengths != width).any():
            at = int((lengths != width).argmax())
            raise ValueError(
                f"All vectors must have the same length. The first has {width} numbers, that of row {first_row + at} "
                f"has {int(lengths[at])}."
            )
        blocks.append(_stacked(chunk, width))
        first_row += len(lengths)
    if not blocks:
        return _no_rows(column, width)
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)


def _no_rows(column: Any, width: int | None) -> NDArray[Any]:
    """Return the array of an empty column, or raise if nothing says how long its vectors would be."""
    kind = getattr(column, "type", None)
    width = getattr(kind, "list_size", None) if width is None else width
    if width is None:
        raise ValueError("The column of vectors has no rows, so that the length of its vectors is unknown.")
    value_type = getattr(kind, "value_type", None)
    return np.empty((0, width), np.float64 if value_type is None else value_type.to_pandas_dtype())


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


def _holds_lists(column: Any) -> bool:
    kind = str(getattr(column, "type", None) or getattr(column, "dtype", None)).lower()
    if kind == "object" and hasattr(column, "iloc"):  # pandas
        return len(column) > 0 and isinstance(column.iloc[0], np.ndarray | list)
    return kind.startswith(tuple(f"{word}{bracket}" for word in LISTS for bracket in "<[("))


def _lengths(chunk: Any) -> NDArray[Any]:
    """Return the length of each vector of an Arrow array or a pandas Series; raise if some are missing."""
    if hasattr(chunk, "iloc"):
        lengths: NDArray[Any] = np.array([len(v) if hasattr(v, "__len__") else np.nan for v in chunk], dtype=float)
    else:
        lengths = chunk.value_lengths().to_numpy(zero_copy_only=False).astype(float)
    n_missing = int(np.isnan(lengths).sum())
    if n_missing:
        raise ValueError(f"Vectors are missing ({n_missing}). Drop these rows first.")
    return lengths


def _stacked(chunk: Any, width: int) -> NDArray[Any]:
    """Return vectors of one length as the rows of an array."""
    if hasattr(chunk, "iloc"):
        return np.stack([np.asarray(vector) for vector in chunk])
    rows: NDArray[Any] = chunk.flatten().to_numpy(zero_copy_only=False).reshape(len(chunk), width)
    return rows
