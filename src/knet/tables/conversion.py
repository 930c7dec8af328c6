"""How the columns of a table become numbers: missing values filled, categories one-hot encoded, dates counted in days.

A conversion is learned once, by the fit, and stored in the model file, so that new files are converted in the same way.
"""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from knet.tables.cells import ReadAs
from knet.tables.dialect import Dialect

MICROSECONDS_PER_DAY = 86_400_000_000
COLUMN_KINDS = ("number", "flag", "category", "date")


@dataclass(frozen=True)
class Column:
    """A column of the table.

    Parameters
    ----------
    name : str
        Its name.
    kind : {"number", "flag", "category", "date"}
        What it holds.
    fill : float, optional
        The value that replaces missing ones.
    fills_gaps : bool
        Whether missing values are allowed.
    levels : tuple of str
        The categories.
    n_missing : int, optional
        How many values were missing in training; None in model files of earlier versions.
    date_form : str
        The form of dates in text, such as "day.month.year".
    missing : tuple of str
        Words for a missing value in this column only.
    """

    name: str
    kind: str
    fill: float | None = None
    fills_gaps: bool = False
    levels: tuple[str, ...] = ()
    n_missing: int | None = None
    date_form: str = "year-month-day"
    missing: tuple[str, ...] = ()

    @property
    def outputs(self) -> list[str]:
        """Return the names of the numeric columns that this one becomes."""
        return [f"{self.name}={level}" for level in self.levels] if self.kind == "category" else [self.name]


@dataclass(frozen=True)
class Conversion:
    """The columns that a model uses, in order; `unseen` counts categories that were not seen in training."""

    columns: tuple[Column, ...]
    id_col: str | None = None
    target: str | None = None
    dialect: Dialect | None = None  # of the text file that the model was fitted on
    unseen: dict[str, int] = field(default_factory=dict, compare=False)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Return a conversion from the output of `to_json`."""
        lists = ("levels", "missing")
        columns = tuple(
            Column(**{**column, **{name: tuple(column.get(name, ())) for name in lists}}) for column in data["columns"]
        )
        dialect = data.get("dialect")
        return cls(columns, data["id_col"], data["target"], dialect and Dialect.from_json(dialect))

    @classmethod
    def of_numbers(cls, names: Iterable[str]) -> Self:
        """Return the conversion of a model that was fitted without one: its columns, as numbers."""
        return cls(tuple(Column(name, "number") for name in names))

    def to_json(self) -> dict[str, Any]:
        """Return the conversion as data for a JSON file."""
        return {
            "columns": [asdict(column) for column in self.columns],
            "id_col": self.id_col,
            "target": self.target,
            "dialect": self.dialect and self.dialect.to_json(),
        }

    @property
    def outputs(self) -> list[str]:
        """Return the names of the numeric columns that the model uses."""
        return [name for column in self.columns for name in column.outputs]

    @property
    def imputed(self) -> list[str]:
        """Return the columns whose missing values were filled in training."""
        return [column.name for column in self.columns if column.fills_gaps and column.n_missing != 0]

    def types(self, present: Sequence[str], *others: str | None) -> dict[str, ReadAs]:
        """Return what to read the columns as, `others` as text, or raise an error that names missing columns."""
        missing = [column.name for column in self.columns if column.name not in present]
        if missing:
            quoted, hint = some([repr(name) for name in missing]), near_miss(missing[0], present)
            raise ValueError(f"The model needs the column{plural(missing)} {quoted}, missing in this file.{hint}")
        return {column.name: ReadAs(column.kind, column.date_form, column.missing) for column in self.columns} | {
            name: ReadAs("text") for name in others if name is not None
        }

    def apply(self, table: pa.Table) -> NDArray[np.float64]:
        """Return the rows as numbers, (n, number of outputs)."""
        return np.column_stack([self._numbers(table[column.name], column) for column in self.columns])

    def _numbers(self, values: pa.ChunkedArray, column: Column) -> NDArray[np.float64]:
        """Return a column as numbers, (n,) or (n, levels)."""
        if kind_of(values.type) == "number" and column.kind == "flag":
            values = pc.not_equal(values, 0)
        if kind_of(values.type) != column.kind and not pa.types.is_null(values.type):
            if {kind_of(values.type), column.kind} != {"number", "flag"}:
                raise ValueError(
                    f"Column {column.name!r} holds {values.type}; the model learned it as a {column.kind}."
                )
        n_missing = count_missing(values, column.kind)
        if n_missing and not column.fills_gaps:
            raise ValueError(
                f"Values are missing in column {column.name!r} ({n_missing:,}), and the model was fitted without "
                "--impute. Fill them first, or refit with --impute median."
            )
        if column.kind == "category":
            return self._one_hot(to_text(values), column)
        numbers = to_numbers(values, column.kind)
        return numbers if column.fill is None else np.where(np.isnan(numbers), column.fill, numbers)

    def _one_hot(self, values: pa.ChunkedArray, column: Column) -> NDArray[np.float64]:
        """Return one 0/1 column per category, zeros for unseen categories and missing values; count the unseen ones."""
        codes = pc.index_in(values, value_set=pa.array(column.levels, pa.string())).to_numpy(zero_copy_only=False)
        out = np.zeros((len(values), len(column.levels)))
        known = ~np.isnan(codes.astype(np.float64))
        out[np.flatnonzero(known), codes[known].astype(np.intp)] = 1.0
        unseen = int((~known).sum()) - values.null_count
        if unseen:
            self.unseen[column.name] = self.unseen.get(column.name, 0) + unseen
        return out


def kind_of(type_: Any) -> str:
    """Return what a column of this Arrow type holds: number, flag, category, date or other."""
    types = pa.types
    if types.is_boolean(type_):
        return "flag"
    if types.is_integer(type_) or types.is_floating(type_) or types.is_decimal(type_) or types.is_null(type_):
        return "number"
    if types.is_string(type_) or types.is_large_string(type_) or types.is_dictionary(type_):
        return "category"
    if types.is_string_view(type_):
        return "category"
    return "date" if types.is_date(type_) or types.is_timestamp(type_) else "other"


def to_numbers(values: pa.ChunkedArray, kind: str) -> NDArray[np.float64]:
    """Return numbers, flags (0 and 1) or dates (days since 1970) as floats, with NaN for missing values."""
    if kind == "date":
        zone_free = values.cast(pa.timestamp("us", tz=getattr(values.type, "tz", None)))
        values = pc.divide(zone_free.cast(pa.int64()).cast(pa.float64()), float(MICROSECONDS_PER_DAY))
    numbers: NDArray[np.float64] = values.cast(pa.float64()).to_numpy()
    return numbers


def to_text(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return categories as text; the empty text is a missing value."""
    if pa.types.is_dictionary(values.type):
        chunks = [chunk.dictionary.cast(pa.string()).take(chunk.indices) for chunk in values.chunks]
        values = pa.chunked_array(chunks, pa.string())
    text = values.cast(pa.string())
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)


def count_missing(values: pa.ChunkedArray, kind: str) -> int:
    """Return how many values are missing or NaN."""
    return int(to_text(values).null_count if kind == "category" else np.isnan(to_numbers(values, kind)).sum())


def some(items: Sequence[str], limit: int = 6) -> str:
    """Join items for a message, at most `limit` of them."""
    rest = len(items) - limit
    return ", ".join(items[:limit]) + (f" and {rest} more" if rest > 0 else "")


def near_miss(name: str, present: Sequence[str]) -> str:
    """Return a hint: the most similar name, or the names that exist."""
    close = difflib.get_close_matches(name, present, n=1)
    return f" Did you mean {close[0]!r}?" if close else f" It has {some([repr(other) for other in present])}."


def plural(items: Sequence[str]) -> str:
    """Return the ending of a noun that goes with these items."""
    return "s" if len(items) > 1 else ""
