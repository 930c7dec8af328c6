"""The rules for parameters and input rows, and their messages."""

import difflib
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rule = Callable[[Any], bool]

CHECKED_ROWS = 65_536  # rows checked at a time,
CHECKED_VALUES = 2**23  # and the maximum of their values


def _is_int(value: Any) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool | np.bool_)


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_) and math.isfinite(value)


def integer(minimum: int) -> tuple[Rule, str]:
    """Allow whole numbers from `minimum` on."""
    return lambda value: _is_int(value) and value >= minimum, f"an integer >= {minimum}"


def positive_number() -> tuple[Rule, str]:
    """Allow finite numbers above zero."""
    return lambda value: _is_number(value) and value > 0, "a number > 0"


def nonnegative_number() -> tuple[Rule, str]:
    """Allow finite numbers from zero on."""
    return lambda value: _is_number(value) and value >= 0, "a number >= 0"


def fraction() -> tuple[Rule, str]:
    """Allow floats in (0, 1]."""
    return lambda value: _is_number(value) and not _is_int(value) and 0 < value <= 1, "a fraction in (0, 1]"


def sizes() -> tuple[Rule, str]:
    """Allow tuples and lists of whole numbers from 1 on, not empty."""
    return lambda value: _are_sizes(value), "a tuple of integers >= 1"


def _are_sizes(value: Any) -> bool:
    return isinstance(value, tuple | list) and len(value) > 0 and all(_is_int(n) and n >= 1 for n in value)


def nothing() -> tuple[Rule, str]:
    """Allow None."""
    return lambda value: value is None, "None"


def function() -> tuple[Rule, str]:
    """Allow anything that can be called."""
    return callable, "a callable"


def instance(kind: type, name: str) -> tuple[Rule, str]:
    """Allow instances of `kind`."""
    return lambda value: isinstance(value, kind), name


def check_parameter(owner: str, name: str, value: Any, choices: Collection[str], rules: list[tuple[Rule, str]]) -> None:
    """Raise unless `value` is one of the strings in `choices` or passes one of `rules`."""
    if (isinstance(value, str) and value in choices) or any(rule(value) for rule, _ in rules):
        return
    allowed = [repr(choice) for choice in choices] + [text for _, text in rules]
    listed = " or ".join(filter(None, [", ".join(allowed[:-1]), allowed[-1]]))
    close = difflib.get_close_matches(value.lower(), choices, n=1) if isinstance(value, str) else []
    hint = f"; did you mean {close[0]!r}?" if close else "."
    raise ValueError(f"The {name!r} parameter of {owner} must be {listed}. Got {value!r} instead{hint}")


def check_parameters(owner: str, params: Mapping[str, Any], rules: Mapping[str, tuple[Any, ...]]) -> None:
    """Check each parameter in `rules`; an entry lists allowed strings and (rule, text) pairs."""
    for name, allowed in rules.items():
        choices = [item for item in allowed if isinstance(item, str)]
        check_parameter(owner, name, params[name], choices, [item for item in allowed if not isinstance(item, str)])


def check_columns(X: Any) -> None:
    """Raise a message that names the columns that are not real numbers, and says what to do about them."""
    check_unmasked(X)
    if isinstance(X, np.ndarray | list | tuple) or hasattr(X, "toarray"):
        kind = X.dtype.kind if hasattr(X, "toarray") else np.asarray(X).dtype.kind if len(X) else "f"
        if kind == "c":
            raise ValueError("Complex data not supported: KNet needs real numbers. Split them into two columns each.")
        if kind in "mM":
            raise ValueError("KNet needs numbers, and X holds dates. Convert them to days since a date first.")
        return
    bad = [f"{name!r} ({dtype})" for name, dtype, values in _table_columns(X) if not _holds_numbers(dtype, values)]
    if bad:
        raise ValueError(
            f"KNet needs numbers in every column, but {some(bad)} hold{'s' if len(bad) == 1 else ''} other values. "
            "Drop these columns or encode them first, for example with "
            "knet.tables.Recipe(one_hot=True, dates=True) in a Pipeline."
        )


def check_unmasked(X: Any) -> None:
    """Raise if X has masked values: as a plain array it would contain the numbers behind the mask."""
    parts = X if isinstance(X, list | tuple) else [X]
    if any(isinstance(part, np.ma.MaskedArray) and np.ma.is_masked(part) for part in parts):
        raise ValueError(
            "X is a masked array with masked values, and KNet would use the numbers behind the mask. Replace them "
            "first, for example with X.filled(np.nan) and sklearn's SimpleImputer, or pass X.data to use these numbers."
        )


def _table_columns(X: Any) -> list[tuple[str, Any, Any]]:
    """Return (name, dtype, values) of each column of a pandas, polars or Arrow table; nothing for anything else."""
    if hasattr(X, "iloc") and hasattr(X, "columns"):  # pandas: columns may have any name, and names may repeat
        return [(name, X.dtypes.iloc[i], X.iloc[:, i]) for i, name in enumerate(X.columns)]
    if hasattr(X, "schema") and hasattr(X, "column_names"):  # Arrow
        return [(name, X.schema.types[i], X.column(i)) for i, name in enumerate(X.column_names)]
    if not hasattr(X, "dtypes") or not hasattr(X, "columns"):
        return []
    return [(name, X[name].dtype, X[name]) for name in X.columns]


def _holds_numbers(dtype: Any, values: Any) -> bool:
    """Say whether a column holds real numbers; object columns are tried."""
    name = str(dtype).lower()
    if name == "object":
        try:
            np.asarray(values, dtype=np.float64)
        except (TypeError, ValueError):
            return False
        return True
    return name.startswith(("int", "uint", "float", "double", "half", "bool", "decimal", "sparse"))


def check_finite(X: Any, names: Collection[str] | None) -> None:
    """Raise a message that counts NaN and infinite values and names their columns.

    X is an array, or a sparse matrix in CSR form; one that is not finite is made dense in blocks.
    """
    is_float = X.dtype.kind == "f" or X.dtype.name == "bfloat16"  # NumPy does not know the latter
    if (
        not is_float
        or (hasattr(X, "toarray") and np.isfinite(X.data).all())
        or all(_surely_finite(block) for block in _row_blocks(X))
    ):
        return
    for test, what, advice in (
        (np.isnan, "NaN", "Impute or drop them first, for example with sklearn's SimpleImputer in a Pipeline."),
        (np.isinf, "infinite", "Replace or drop them first."),
    ):
        counts = sum(test(block).sum(0) for block in _row_blocks(X))
        if np.any(counts):
            columns = [names_of(names, int(j)) + f" ({counts[j]})" for j in np.flatnonzero(counts)]
            plural = "s" if len(columns) > 1 else ""
            raise ValueError(
                f"Input X contains NaN or infinity: {counts.sum()} {what} value{'s' if counts.sum() > 1 else ''} "
                f"in column{plural} {some(columns)}. {advice}"
            )


def _row_blocks(X: Any) -> Iterator[NDArray[np.floating]]:
    """Yield the rows in blocks, so that a file on disk is never in memory as a whole."""
    step = min(CHECKED_ROWS, max(1, CHECKED_VALUES // X.shape[1]))
    for start in range(0, X.shape[0], step):
        block = X[start : start + step]
        yield block.toarray() if hasattr(block, "toarray") else block


def _surely_finite(block: NDArray[np.floating]) -> bool:
    """Say whether a sum over the squares is finite; if that of finite values overflows, they are counted."""
    values = block.ravel() if block.dtype.itemsize > 2 else block.astype(np.float32).ravel()
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(np.dot(values, values)))


def names_of(names: Collection[str] | None, column: int) -> str:
    """Return a column's name in quotes, or its number."""
    return repr(str(list(names)[column])) if names is not None else str(column)


def some(items: list[str], most: int = 5) -> str:
    """Join items for a message, at most `most` of them."""
    rest = len(items) - most
    return ", ".join(items[:most]) + (f" and {rest} more" if rest > 0 else "")
