"""DataFrames of pandas, polars and other libraries as Arrow tables."""

from typing import Any

import numpy as np
import pyarrow as pa

from knet.tables.rows import to_cell


def to_arrow(X: Any) -> tuple[pa.Table, list[str]]:
    """Return a table in memory as an Arrow table, and its columns of mixed Python values, which become text cells.

    Parameters
    ----------
    X : DataFrame, pyarrow.Table or array
        A pandas or polars DataFrame, an Arrow table, any object with the Arrow interface, or a two-dimensional array,
        whose columns are called x0, x1, ...
    """
    if type(X).__name__ == "LazyFrame":
        raise TypeError("X is a polars LazyFrame, which holds no rows yet. Call X.collect() first.")
    if hasattr(X, "iloc") and hasattr(X, "columns"):
        return _from_pandas(X)
    if isinstance(X, pa.RecordBatch):
        return pa.Table.from_batches([X]), []
    if isinstance(X, pa.Table) or hasattr(X, "__arrow_c_stream__"):
        return pa.table(X), []
    array = np.asarray(X)
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise TypeError(
            "X must be a pandas or polars DataFrame, an Arrow table, or a two-dimensional array of numbers. "
            f"Got {type(X).__name__} instead."
        )
    return pa.table({f"x{j}": np.ascontiguousarray(column) for j, column in enumerate(array.T)}), []


def _from_pandas(X: Any) -> tuple[pa.Table, list[str]]:
    """Return a pandas DataFrame as an Arrow table; columns of mixed objects become text cells."""
    names = [str(name) for name in X.columns]
    repeated = [name for name in names if names.count(name) > 1]
    if repeated:
        raise ValueError(f"X has more than one column {repeated[0]!r}. Rename them first.")
    columns, text = {}, []
    for j, name in enumerate(names):
        values = X.iloc[:, j]
        try:
            columns[name] = _column(values)
        except (pa.ArrowInvalid, pa.ArrowTypeError):
            columns[name] = pa.chunked_array([pa.array([to_cell(value) for value in values], pa.string())])
            text.append(name)
    return pa.table(columns), text


def _column(values: Any) -> pa.ChunkedArray:
    """Return a column of pandas, with null for NaN in columns of objects."""
    found = pa.array(values, from_pandas=True)
    return found if isinstance(found, pa.ChunkedArray) else pa.chunked_array([found])
