"""What rows come in: tables, arrays, sparse matrices, tensors, columns of vectors and Dask collections."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from knet.rows.vectors import holds_vectors, vector_rows


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


def column_types(X: Any) -> list[Any]:
    """Return the type of each column of a table, in the words of its library."""
    return list(X.schema.types if table_kind(X) == "arrow" else X.dtypes)


def is_collection(X: Any) -> bool:
    """Say whether X is a Dask array, a Dask DataFrame or another collection of Dask, which is not imported for this."""
    return any(base.__module__.partition(".")[0] == "dask" for base in type(X).__mro__)


def is_sparse(X: Any) -> bool:
    """Say whether X is a sparse matrix."""
    return hasattr(X, "toarray")


def is_half(X: Any) -> bool:
    """Say whether X is an array of half-precision numbers: float16, or bfloat16 of the package ml_dtypes."""
    return isinstance(X, np.ndarray) and X.dtype.name in ("float16", "bfloat16")


def admit(X: Any) -> Any:
    """Return rows as a table, an array or a CSR matrix, or raise if they are not in memory or not sound.

    Tensors and columns of vectors become arrays. Values and column types are not looked at: see `numbers.to_numbers`.
    """
    if type(X).__name__ == "LazyFrame":
        raise TypeError("X is a polars LazyFrame, which holds no rows yet. Call X.collect() first.")
    if is_collection(X):
        raise TypeError(
            "This method needs rows in memory, and X is a Dask collection. Pass X.compute(), or some of its rows: "
            "knet.dask.sample(X, 10_000)."
        )
    if hasattr(X, "detach"):  # a tensor of torch; NumPy has no bfloat16
        X = X.detach().cpu()
        X = X.float() if str(X.dtype) == "torch.bfloat16" else X
        return X.numpy()
    if is_sparse(X):
        return _sound_csr(X)
    _refuse_masked(X)
    names = column_names(X)
    if len(names) > 1:
        if any(holds_vectors(X[name]) for name in _distinct(names)):
            raise ValueError("A column of vectors must be the only column of X. Select it, such as X[['vector']].")
        return X
    column = X[names[0]] if names else X
    if holds_vectors(column):
        return vector_rows(column)
    return X if names or isinstance(X, np.ndarray) else np.asarray(X)


def _distinct(names: list[Any]) -> list[Any]:
    """Return the names that occur once: pandas returns a table for a name that occurs twice."""
    return [name for name in names if names.count(name) == 1] if len(set(names)) < len(names) else names


def _sound_csr(X: Any) -> Any:
    """Return a sparse matrix in CSR form; indices beyond its shape would make SciPy read outside of the memory."""
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got a sparse array of {X.ndim} dimension(s) instead.")
    if hasattr(X, "check_format"):  # CSR, CSC and BSR store indices
        try:
            X.check_format(full_check=True)
        except ValueError as error:
            raise ValueError(f"X is a damaged sparse matrix: {error}.") from error
    return X.tocsr()


def _refuse_masked(X: Any) -> None:
    """Raise if X has masked values: as a plain array it would contain the numbers behind the mask."""
    parts = X if isinstance(X, list | tuple) else [X]
    if any(isinstance(part, np.ma.MaskedArray) and np.ma.is_masked(part) for part in parts):
        raise ValueError(
            "X is a masked array with masked values, and KNet would use the numbers behind the mask. Replace them "
            "first, for example with X.filled(np.nan) and sklearn's SimpleImputer, or pass X.data to use these numbers."
        )


def count_rows(X: Any) -> int:
    """Return the number of rows of an admitted table or array."""
    return int(X.shape[0]) if is_sparse(X) else len(X)


def take_rows(X: Any, rows: NDArray[np.integer] | slice) -> Any:
    """Return the given rows of an admitted table or array, as the same type; no other row is read."""
    kind = table_kind(X)
    if kind == "pandas":
        return X.iloc[rows]
    if kind == "arrow":
        return X.slice(rows.start, rows.stop - rows.start) if isinstance(rows, slice) else X.take(rows)
    return X[rows]


def select_columns(X: Any, names: list[str]) -> Any:
    """Return the columns of a table in the given order, or raise an error that names those that are missing."""
    present = column_names(X)
    missing = [repr(name) for name in names if name not in present]
    if missing:
        raise ValueError(f"The table lacks the model's columns {some(missing)}. It has {present}.")
    return X.select(names) if table_kind(X) == "arrow" else X[names]


def quoted(names: Any, column: int) -> str:
    """Return a column's name in quotes, or its number if the columns have no names."""
    return repr(str(list(names)[column])) if names is not None and len(names) else str(column)


def some(items: list[str], most: int = 5) -> str:
    """Join items for a message, at most `most` of them."""
    rest = len(items) - most
    return ", ".join(items[:most]) + (f" and {rest} more" if rest > 0 else "")
