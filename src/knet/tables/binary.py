"""Table files with typed columns: Parquet, Feather, NPY and NPZ."""

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.feather as pa_feather
import pyarrow.parquet as pa_parquet
from numpy.lib.npyio import NpzFile

from knet.arrays import AnyArray, row_blocks
from knet.rows.vectors import vector_rows
from knet.tables.formats import OpenTable

ROWS_AT_A_TIME = 65_536
VALUES_AT_A_TIME = 2**24  # maximum, for tables with many columns
Read = Callable[[int], Iterator[pa.Table]]  # yields all columns, at most this many rows at a time


def open_binary(path: str, suffix: str, groups: tuple[int, int] | None = None) -> OpenTable:
    """Open a file; `groups` are the first row group of a Parquet file to read, and the one after the last."""
    schema, n_rows, read = _open(path, suffix, groups)
    widths = _vector_widths(schema, read)
    names = [
        new
        for j, name in enumerate(schema.names)
        for new in ([f"{name}_{i}" for i in range(widths[j])] if j in widths else [name])
    ]
    step = min(ROWS_AT_A_TIME, max(1, VALUES_AT_A_TIME // max(1, len(names))))
    n_read = 0

    def tables(positions: list[int]) -> Iterator[pa.Table]:
        nonlocal n_read
        for table in read(step):
            flat = _flatten(table, widths, n_read) if widths else table
            n_read += len(table)
            yield flat.select(positions)

    return OpenTable(names, tables, lambda: n_read / n_rows if n_rows else None)


def _open(path: str, suffix: str, groups: tuple[int, int] | None) -> tuple[pa.Schema, int, Read]:
    """Return the columns of a file, its number of rows, and a function that reads them."""
    if suffix == ".parquet":
        with pa_parquet.ParquetFile(path) as file:
            return file.schema_arrow, file.metadata.num_rows, lambda step: _read_parquet(path, groups, step)
    if suffix == ".feather":
        table = pa_feather.read_table(path, memory_map=True)
        table.validate(full=True)  # the offsets in a damaged file could point outside of the memory
        return table.schema, len(table), lambda step: (table[rows] for rows in row_blocks(len(table), max_rows=step))
    array = _read_array(path)
    schema = pa.schema([(f"x{j}", pa.from_numpy_dtype(array.dtype)) for j in range(array.shape[1])])

    def read(step: int) -> Iterator[pa.Table]:
        for rows in row_blocks(len(array), max_rows=step):
            yield pa.table([pa.array(np.ascontiguousarray(x)) for x in np.asarray(array[rows]).T], schema=schema)

    return schema, len(array), read


def _read_parquet(path: str, groups: tuple[int, int] | None, step: int) -> Iterator[pa.Table]:
    with pa_parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(step, row_groups=None if groups is None else range(*groups)):
            yield pa.Table.from_batches([batch])


def _vector_widths(schema: pa.Schema, read: Read) -> dict[int, int]:
    """Return the positions of columns of vectors, and how long these are.

    Lists of whole numbers are left as they are: they may be keys.
    """
    found: dict[int, int] = {}
    for j, kind in enumerate(schema.types):
        is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
        if is_list and pa.types.is_floating(kind.value_type):
            if pa.types.is_fixed_size_list(kind):
                found[j] = kind.list_size
            elif (row := next(read(1), None)) is not None:
                found[j] = vector_rows(row.column(j)).shape[1]
    return found


def _flatten(table: pa.Table, widths: Mapping[int, int], first_row: int) -> pa.Table:
    """Return a table in which each column of vectors is replaced by one column per number."""
    columns: list[pa.Array] = []
    for j, column in enumerate(table.columns):
        if j in widths:
            try:
                rows = vector_rows(column, widths[j], first_row=first_row)
            except ValueError as error:
                raise ValueError(f"Column {table.column_names[j]!r}: {error}") from error
            columns += [pa.array(np.ascontiguousarray(values)) for values in rows.T]
        else:
            columns.append(column)
    return pa.table(columns, names=[str(j) for j in range(len(columns))])


def _read_array(path: str) -> AnyArray:
    """Return the two-dimensional array of numbers of a NumPy file; rows of a large NPY file stay on disk."""
    try:
        loaded = np.load(path, mmap_mode="r", allow_pickle=False)
        if isinstance(loaded, NpzFile):
            with loaded as file:
                wanted = [name for name in file.files if file[name].ndim == 2]
                if len(wanted) != 1 and "X" not in wanted:
                    raise ValueError(f"{path} must hold one two-dimensional array, or one named X. Found {file.files}.")
                loaded = file["X" if "X" in wanted else wanted[0]]
    except (OSError, ValueError):
        raise
    except Exception as error:  # NumPy raises errors of many types for a damaged file
        raise ValueError(f"{path} is not a NumPy file, or it is damaged: {error}") from error
    array: AnyArray = loaded
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise ValueError(f"{path} must hold a two-dimensional array of numbers. Got {array.dtype} of {array.shape}.")
    return array
