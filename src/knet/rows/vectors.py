"""Columns of vectors: lists of numbers in an Arrow, polars or pandas column, as tables of embeddings store them."""

import numpy as np

from knet.arrays import AnyArray, Column

LISTS = ("list", "large_list", "fixed_size_list", "array")  # how the names of such types begin, in any library


def holds_vectors(column: Column) -> bool:
    """Say whether a column holds lists of numbers."""
    kind = str(getattr(column, "type", None) or getattr(column, "dtype", None)).lower()
    if kind == "object" and hasattr(column, "iloc"):  # pandas
        return len(column) > 0 and isinstance(column.iloc[0], np.ndarray | list | tuple)
    return kind.startswith(tuple(f"{word}{bracket}" for word in LISTS for bracket in "<[("))


def vector_rows(column: Column, width: int | None = None, *, first_row: int = 0) -> AnyArray:
    """Return the vectors of a column as the rows of an array; a `width` is the length that they must have."""
    if hasattr(column, "to_arrow"):  # polars
        column = column.to_arrow()
    elif str(getattr(column, "dtype", "")).endswith("[pyarrow]"):  # pandas
        column = column.array.__arrow_array__()
    chunks = column.chunks if hasattr(column, "chunks") else [column]
    lengths = np.concatenate([np.empty(0), *map(_lengths, chunks)])
    if np.isnan(lengths).any():
        raise ValueError(f"Vectors are missing ({np.isnan(lengths).sum()}). Drop these rows first.")
    if not len(lengths):
        return _no_rows(column, width)
    width = int(lengths[0]) if width is None else width
    if (lengths != width).any():
        at = int((lengths != width).argmax())
        raise ValueError(
            f"All vectors must have the same length. The first has {width} numbers, that of row {first_row + at} "
            f"has {int(lengths[at])}."
        )
    blocks = [_values(chunk).reshape(len(chunk), width) for chunk in chunks if len(chunk)]
    return blocks[0] if len(blocks) == 1 else np.concatenate(blocks)


def _no_rows(column: Column, width: int | None) -> AnyArray:
    """Return the array of an empty column, or raise if nothing says how long its vectors would be."""
    kind = getattr(column, "type", None)  # of Arrow; pandas has none
    width = getattr(kind, "list_size", None) if width is None else width
    if width is None:
        raise ValueError("The column of vectors has no rows, so that the length of its vectors is unknown.")
    return np.empty((0, width), np.float64 if kind is None else kind.value_type.to_pandas_dtype())


def _lengths(chunk: Column) -> AnyArray:
    """Return the length of each vector of an Arrow array or a pandas Series; NaN if it is missing."""
    if hasattr(chunk, "iloc"):
        return np.array([len(vector) if hasattr(vector, "__len__") else np.nan for vector in chunk], dtype=float)
    lengths: AnyArray = chunk.value_lengths().to_numpy(zero_copy_only=False).astype(float)
    return lengths


def _values(chunk: Column) -> AnyArray:
    """Return the numbers of all vectors of an Arrow array or a pandas Series."""
    return np.stack(list(chunk)) if hasattr(chunk, "iloc") else chunk.flatten().to_numpy(zero_copy_only=False)
