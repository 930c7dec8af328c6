"""What rows come in: tables, arrays, sparse matrices, tensors, columns of vectors and Dask collections."""

import re
import sys
from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from knet.arrays import AnyArray, Frame, Rows, RowsLike
from knet.rows.vectors import holds_vectors, vector_rows

# The types of columns of real numbers, in the words of NumPy, pandas, polars and Arrow.
NUMBERS = re.compile(
    r"(u?int\d+|float\d*|double|halffloat|bool|boolean|decimal.*?)(\[pyarrow\])?|sparse\[(u?int|float|bool).*"
)


def table_kind(X: RowsLike) -> str | None:
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


def column_names(X: RowsLike) -> list[str]:
    """Return the columns of a table; none for anything else."""
    kind = table_kind(X)
    if kind is None:
        return []
    return list(X.schema.names if kind == "arrow" else X.columns)


def column_types(X: RowsLike) -> list[str]:
    """Return the type of each column of a table, in the words of its library."""
    return list(X.schema.types if table_kind(X) == "arrow" else X.dtypes)


def is_number_type(kind: object) -> bool:
    """Say whether a column of this type holds real numbers; a column of Python objects may hold anything."""
    return NUMBERS.fullmatch(str(kind).lower()) is not None


def is_collection(X: RowsLike) -> bool:
    """Say whether X is a Dask array, a Dask DataFrame or another collection of Dask, which is not imported for this."""
    return any(base.__module__.partition(".")[0] == "dask" for base in type(X).__mro__)


def is_sparse(X: RowsLike) -> bool:
    """Say whether X is a sparse matrix."""
    return hasattr(X, "toarray")


def is_half(X: RowsLike) -> bool:
    """Say whether X is an array of half-precision numbers: float16, or bfloat16 of the package ml_dtypes."""
    return isinstance(X, np.ndarray) and X.dtype.name in ("float16", "bfloat16")


def admit(X: RowsLike, columns: list[str] | None = None) -> RowsLike:
    """Return rows as a table, an array or a CSR matrix, or raise if they are not in memory or not sound.

    Tensors and columns of vectors become arrays. Of a table, `columns` are taken, if given, in this order. Values and
    column types are not looked at: see `numbers.to_numbers`.
    """
    if type(X).__name__ == "LazyFrame":
        raise TypeError("X is a polars LazyFrame, which holds no rows yet. Call X.collect() first.")
    if is_collection(X):
        raise TypeError(
            "This method needs rows in memory, and X is a Dask collection. Pass X.compute(), or some of its rows: "
            "knet.dask.sample(X, 10_000)."
        )
    if table_kind(X):  # first, because a column of a pandas table may have any name
        return _admit_table(X, columns)
    if hasattr(X, "detach"):  # a tensor of torch; NumPy has no bfloat16
        X = X.detach().cpu()
        return (X.float() if str(X.dtype) == "torch.bfloat16" else X).numpy()
    if is_sparse(X):
        return _sound_csr(X)
    return vector_rows(X) if holds_vectors(X) else _to_array(X)


def _admit_table(X: RowsLike, columns: list[str] | None) -> RowsLike:
    """Return a table with the given columns, or the vectors of its only column."""
    if table_kind(X) == "arrow" and not hasattr(X, "to_batches"):  # scikit-learn sees no names in a record batch
        X = sys.modules["pyarrow"].Table.from_batches([X])
    names = column_names(X)
    if len(set(names)) < len(names):
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"X has more than one column {repeated!r}. Rename them first.")
    X, names = (X, names) if columns is None else (select_columns(X, columns), columns)
    others = [name for name, kind in zip(names, column_types(X), strict=True) if not is_number_type(kind)]
    if not any(holds_vectors(X[name]) for name in others):
        return X
    if len(names) > 1:
        raise ValueError("A column of vectors must be the only column of X. Select it, such as X[['vector']].")
    return vector_rows(X[names[0]])


def _to_array(X: RowsLike) -> AnyArray:
    """Return a list, an array or an object with `__array__` as an array; a file on disk stays one."""
    _refuse_masked(X)
    try:
        array = X if isinstance(X, np.memmap) else np.asarray(X)
    except ValueError as error:
        raise ValueError(f"X must have rows of one length: {error}") from error
    if not array.ndim and not isinstance(X, np.ndarray):
        raise TypeError(f"X must be an array, a table or a list of rows. Got {type(X).__name__} instead.")
    return array


def _sound_csr(X: RowsLike) -> Rows:
    """Return a sparse matrix in CSR form; indices beyond its shape would make SciPy read outside of the memory."""
    if X.ndim != 2:
        raise ValueError(f"Expected 2D array, got a sparse array of {X.ndim} dimension(s) instead.")
    try:
        if X.format == "coo":
            X = type(X)((X.data, (X.row, X.col)), X.shape)  # its constructor checks the indices
        elif X.format in ("csc", "bsr"):
            X.check_format(full_check=True)
        X = X.tocsr()
        X.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(f"X is a damaged sparse matrix: {error}.") from error
    return X


def _refuse_masked(X: RowsLike) -> None:
    """Raise if X has masked values: as a plain array it would contain the numbers behind the mask."""
    parts = X if isinstance(X, list | tuple) else [X]
    if any(isinstance(part, np.ma.MaskedArray) and np.ma.is_masked(part) for part in parts):
        raise ValueError(
            "X is a masked array with masked values, and KNet would use the numbers behind the mask. Replace them "
            "first, for example with X.filled(np.nan) and sklearn's SimpleImputer, or pass X.data to use these numbers."
        )


def count_rows(X: RowsLike) -> int:
    """Return the number of rows of an admitted table or array."""
    return int(X.shape[0]) if is_sparse(X) else len(X)


def take_rows(X: RowsLike, rows: NDArray[np.integer] | slice) -> RowsLike:
    """Return the given rows of an admitted table or array, as the same type; no other row is read."""
    kind = table_kind(X)
    if kind == "pandas":
        return X.iloc[rows]
    if kind == "arrow":
        return X.slice(rows.start, rows.stop - rows.start) if isinstance(rows, slice) else X.take(rows)
    return X[rows]


def select_columns(X: Frame, names: list[str]) -> Frame:
    """Return the columns of a table in the given order, or raise an error that names those that are missing."""
    present = column_names(X)
    missing = [repr(name) for name in names if name not in present]
    if missing:
        raise ValueError(f"The table lacks the model's columns {some(missing)}. It has {present}.")
    return X.select(names) if table_kind(X) == "arrow" else X[names]


def quoted(names: Collection[str] | None, column: int) -> str:
    """Return a column's name in quotes, or its number if the columns have no names."""
    return repr(str(list(names)[column])) if names is not None and len(names) else str(column)


def some(items: list[str], most: int = 5) -> str:
    """Join items for a message, at most `most` of them."""
    rest = len(items) - most
    return ", ".join(items[:most]) + (f" and {rest} more" if rest > 0 else "")
