"""Tables and arrays in memory, recognised by their methods: no library of tables is imported."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def table_kind(X: Any) -> str | None:
    """Return "pandas", "arrow" or "other" (such as polars) for a table, and None for anything else.

    A pandas table has its columns as attributes too. It is recognised first, so that its columns may have any name.
    """
    if hasattr(X, "iloc"):
        return "pandas" if X.ndim == 2 else None
    if isinstance(X, np.ndarray | list | tuple):
        return None
    if isinstance(getattr(getattr(X, "schema", None), "names", None), list):  # a method in polars
        return "arrow"
    return "other" if hasattr(X, "columns") else None


def column_names(X: Any) -> list[Any]:
    """Return the columns of a table; none for anything else."""
    kind = table_kind(X)
    if kind is None:
        return []
    return list(X.schema.names if kind == "arrow" else X.columns)


def count_rows(X: Any) -> int:
    """Return the number of rows of an array or a table."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def take_rows(X: Any, rows: NDArray[np.int64]) -> Any:
    """Return the given rows of an array or a table, as the same type; no other row is read."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if table_kind(X) == "arrow":
        return X.take(rows)
    if isinstance(X, list | tuple):
        return [X[row] for row in rows]
    if hasattr(X, "tocsr"):  # a sparse matrix
        return X.tocsr()[rows]
    return X[rows] if hasattr(X, "shape") else np.asarray(X)[rows]  # polars, tensors and arrays; other array-likes
