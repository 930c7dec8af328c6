"""Rows as checked numbers: real, finite, in two dimensions; every message names the columns at fault."""

from collections.abc import Collection

import numpy as np
from numpy.typing import DTypeLike

from knet.arrays import Column, Frame, Rows, RowsLike, row_blocks
from knet.rows.kinds import column_names, column_types, is_half, is_number_type, is_sparse, quoted, some, table_kind

NO_GAPS = "Fill or drop them first: sparse rows and metric='cosine' allow no missing values."
CHECKED_ROWS = 65_536  # rows checked at a time, so that a file on disk is never in memory as a whole


def to_numbers(
    X: RowsLike,
    names: Collection[str] | None = None,
    *,
    dtype: DTypeLike | None = None,
    min_rows: int = 1,
    gaps: bool = False,
) -> Rows:
    """Return rows from `kinds.admit` as an array of two dimensions, or a CSR matrix, without infinite values.

    `names` of the columns are for messages, if X has none. Without a `dtype`, single precision stays and other numbers
    become doubles; a file on disk and half precision stay as they are and are converted block by block later. Fewer
    than `min_rows` rows are an error; with `gaps`, cells of an array or a table may be missing (NaN).
    """
    array = _from_table(X, dtype) if table_kind(X) else _from_array(X, dtype)
    _check_shape(array, min_rows)
    check_finite(array, column_names(X) or names, gaps=gaps and not is_sparse(array))
    return array


def float_dtype(X: RowsLike) -> np.dtype[np.floating]:
    """Return the dtype of computations with X: single for single and half precision, else double."""
    return np.dtype(np.float32 if X.dtype == np.float32 or is_half(X) else np.float64)


def is_single(table: Frame) -> bool:
    """Say whether all columns of a table have single precision."""
    return all(str(kind).lower().removesuffix("[pyarrow]") in ("float", "float32") for kind in column_types(table))


def check_column_types(table: Frame) -> None:
    """Raise a message that names the columns of a table that are not real numbers, and says what to do about them."""
    bad = [
        f"{name!r} ({kind})"
        for j, (name, kind) in enumerate(zip(column_names(table), column_types(table), strict=True))
        if not (is_number_type(kind) or (str(kind) == "object" and _converts(table.iloc[:, j])))
    ]
    if bad:
        raise ValueError(
            f"KNet needs numbers in every column, but {some(bad)} hold{'s' if len(bad) == 1 else ''} other values. "
            "Drop these columns or encode them first, for example with "
            "knet.tables.Recipe(one_hot=True, dates=True) in a Pipeline."
        )


def _converts(column: Column) -> bool:
    """Say whether all objects of a pandas column are numbers or missing."""
    try:
        np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    return True


def _from_table(table: Frame, dtype: DTypeLike | None) -> Rows:
    """Return the columns of a table as an array, with NaN for missing values; only sparse columns stay sparse."""
    check_column_types(table)
    names, kind = column_names(table), table_kind(table)
    dtype = (np.float32 if is_single(table) else np.float64) if dtype is None else dtype
    if kind == "pandas":
        if names and all(getattr(column, "fill_value", None) == 0 for column in table.dtypes):
            return table.sparse.to_coo().tocsr().astype(dtype)
        return table.to_numpy(dtype=dtype, na_value=np.nan)
    out = np.empty((len(table), len(names)), dtype)
    for j, name in enumerate(names):
        out[:, j] = (table.column(j) if kind == "arrow" else table[name]).to_numpy()
    return out


def _from_array(X: RowsLike, dtype: DTypeLike | None) -> Rows:
    kind = X.dtype.kind
    if kind == "c":
        raise ValueError("Complex data not supported: KNet needs real numbers. Split them into two columns each.")
    if kind in "mM":
        raise ValueError("KNet needs numbers, and X holds dates. Convert them to days since a date first.")
    if kind in "SU":
        raise ValueError(f"KNet needs numbers, and X holds text{f', such as {str(X.flat[0])!r}' if X.size else ''}.")
    if dtype is None:
        dtype = X.dtype if isinstance(X, np.memmap) or is_half(X) else float_dtype(X)
    return X.astype(dtype, copy=False)


def _check_shape(X: RowsLike, min_rows: int) -> None:
    if X.ndim != 2:
        advice = " Reshape your data with X.reshape(-1, 1) if it is one column, or X.reshape(1, -1) if it is one row."
        raise ValueError(
            f"Expected 2D array, got {X.ndim}D array instead, of shape {X.shape}: X must have rows and columns."
            + advice * (X.ndim == 1)
        )
    for count, minimum, what in ((X.shape[0], min_rows, "sample"), (X.shape[1], 1, "feature")):
        if count < minimum:
            raise ValueError(f"X has {count} {what}(s) (shape={X.shape}) while a minimum of {minimum} is required.")


def check_finite(X: RowsLike, names: Collection[str] | None, *, gaps: bool) -> None:
    """Raise a message that counts infinite values, and without `gaps` also NaN, and names their columns."""
    if X.dtype.kind != "f" and X.dtype.name != "bfloat16":  # NumPy does not know the latter
        return
    blocks = row_blocks(X.shape[0], X.shape[1], max_rows=CHECKED_ROWS)
    parts = [X.data] if is_sparse(X) else [X[rows] for rows in blocks]
    if all(np.isfinite(part).all() for part in parts):
        return
    names = names if names is not None and len(names) == X.shape[1] else None
    for test, what, advice in (
        (np.isnan, "NaN", "" if gaps else NO_GAPS),
        (np.isinf, "infinite", "Replace or drop them first."),
    ):
        if is_sparse(X):
            counts = np.bincount(X.indices[test(X.data)], minlength=X.shape[1])
        else:
            counts = np.sum([test(part).sum(0) for part in parts], axis=0)
        if counts.any() and advice:
            columns = [quoted(names, int(j)) + f" ({counts[j]})" for j in np.flatnonzero(counts)]
            raise ValueError(
                f"Input X contains NaN or infinity: {counts.sum()} {what} value{'s' if counts.sum() > 1 else ''} "
                f"in column{'s' if len(columns) > 1 else ''} {some(columns)}. {advice}"
            )
