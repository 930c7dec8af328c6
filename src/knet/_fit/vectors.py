"""Columns of vectors: lists of numbers in a polars, Arrow or pandas column, as tables of embeddings store them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

LISTS = ("list", "large_list", "fixed_size_list", "array")  # how the names of such types begin, in any library


def expand_vectors(X: Any) -> Any:
    """Return the rows of a column of vectors, or of a table that has only this column, as an array; else X itself."""
    column = _only_column(X)
    if column is None:
        return X
    chunks = column.chunks if hasattr(column, "chunks") else [column]
    rows = [_rows(chunk) for chunk in chunks if len(chunk)]
    widths = {block.shape[1] for block in rows}
    if len(widths) != 1:
        raise ValueError(f"All vectors must have the same length. Got lengths {sorted(widths)}.")
    return rows[0] if len(rows) == 1 else np.concatenate(rows)


def _only_column(X: Any) -> Any:
    """Return the column of vectors that X is or consists of, in Arrow's form or as a pandas Series; None for others."""
    names = getattr(X, "column_names", None) or list(getattr(X, "columns", ()))
    if len(names) > 1 or isinstance(X, np.ndarray | list | tuple):
        if any(_holds_lists(X[name]) for name in names if hasattr(X, "__getitem__")):
            raise ValueError("A column of vectors must be the only column of X. Select it, such as X[['vector']].")
        return None
    column = X[names[0]] if len(names) == 1 else X
    if not _holds_lists(column):
        return None
    return column.to_arrow() if hasattr(column, "to_arrow") else column


def _holds_lists(column: Any) -> bool:
    kind = getattr(column, "type", None) or getattr(column, "dtype", None)
    name = str(kind).lower()
    if name == "object" and hasattr(column, "iloc"):  # pandas
        return len(column) > 0 and isinstance(column.iloc[0], np.ndarray | list)
    return name.startswith(tuple(f"{word}{bracket}" for word in LISTS for bracket in "<[("))


def _rows(chunk: Any) -> NDArray[Any]:
    """Return the vectors of an Arrow array or of a pandas Series as the rows of an array."""
    if hasattr(chunk, "iloc"):
        lengths = chunk.map(len, na_action="ignore").to_numpy()
        flat = None
    else:
        lengths = chunk.value_lengths().to_numpy(zero_copy_only=False)
        flat = chunk.flatten()
    if lengths.dtype.kind == "f" and np.isnan(lengths).any():
        raise ValueError(f"{int(np.isnan(lengths).sum())} vectors are missing. Drop these rows first.")
    if (lengths != lengths[0]).any():
        row = int((lengths != lengths[0]).argmax())
        raise ValueError(
            f"All vectors must have the same length. The first has {int(lengths[0])} numbers, that of row {row} has "
            f"{int(lengths[row])}."
        )
    if flat is None:
        return np.stack([np.asarray(vector) for vector in chunk])
    rows: NDArray[Any] = flat.to_numpy(zero_copy_only=False).reshape(len(lengths), -1)
    return rows
