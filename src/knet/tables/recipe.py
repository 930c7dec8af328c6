"""How the columns of a table become numbers: missing values filled, categories one-hot encoded, dates counted in days.

A recipe is learned once, by the fit, and stored in the model file, so that new files are converted in the same way.
"""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

MAX_LEVELS = 100  # categories per column
MICROSECONDS_PER_DAY = 86_400_000_000
READ_AS = {"number": pa.float64(), "flag": pa.bool_(), "category": pa.string(), "date": pa.timestamp("us")}


@dataclass(frozen=True)
class Column:
    """A column of the table: its kind, the value that replaces missing ones, and its categories."""

    name: str
    kind: str  # number, flag, category or date
    fill: float | None = None
    fills_gaps: bool = False
    levels: tuple[str, ...] = ()

    @property
    def outputs(self) -> list[str]:
        """Return the names of the numeric columns that this one becomes."""
        return [f"{self.name}={level}" for level in self.levels] if self.kind == "category" else [self.name]


@dataclass(frozen=True)
class Choices:
    """The user's choices: which columns to use and how to convert them."""

    columns: Sequence[str] = ()
    drop: Sequence[str] = ()
    id_col: str | None = None
    target: str | None = None
    impute: bool = False
    one_hot: bool = False
    dates: bool = False


@dataclass(frozen=True)
class Recipe:
    """The columns that a model uses, in order; `unseen` counts categories that were not seen in training."""

    columns: tuple[Column, ...]
    id_col: str | None = None
    target: str | None = None
    unseen: dict[str, int] = field(default_factory=dict, compare=False)

    @classmethod
    def learn(cls, table: pa.Table, choices: Choices) -> Self:
        """Return the recipe for a table, or raise an error that names the wrong columns and says what to do."""
        names = feature_names(table.column_names, choices)
        kinds = {name: kind_of(table.schema.field(name).type) for name in names}
        _refuse(kinds, choices)
        _refuse_missing(table, kinds, choices)
        columns = tuple(_learn_column(table[name], name, kind, choices.impute) for name, kind in kinds.items())
        return cls(columns, choices.id_col, choices.target)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Return a recipe from the output of `to_json`."""
        columns = tuple(Column(**{**column, "levels": tuple(column["levels"])}) for column in data["columns"])
        return cls(columns, data["id_col"], data["target"])

    @classmethod
    def of_numbers(cls, names: Iterable[str]) -> Self:
        """Return the recipe of a model that was fitted without one: its columns, as numbers."""
        return cls(tuple(Column(name, "number") for name in names))

    def to_json(self) -> dict[str, Any]:
        """Return the recipe as data for a JSON file."""
        return {"columns": [asdict(column) for column in self.columns], "id_col": self.id_col, "target": self.target}

    @property
    def outputs(self) -> list[str]:
        """Return the names of the numeric columns that the model uses."""
        return [name for column in self.columns for name in column.outputs]

    def types(self, present: Sequence[str], *others: str | None) -> dict[str, Any]:
        """Return the types to read the columns as, `others` as text, or raise an error that names missing columns."""
        missing = [column.name for column in self.columns if column.name not in present]
        if missing:
            quoted, hint = some([repr(name) for name in missing]), near_miss(missing[0], present)
            raise ValueError(f"The model needs the column{_plural(missing)} {quoted}, missing in this file.{hint}")
        return {column.name: READ_AS[column.kind] for column in self.columns} | {
            name: pa.string() for name in others if name is not None
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
            raise ValueError(_missing_message([f"{column.name!r} ({n_missing:,})"], learned=True))
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


def feature_names(present: Sequence[str], choices: Choices) -> list[str]:
    """Return the columns to use, in the order of the file."""
    for name in (*choices.columns, *choices.drop, choices.id_col, choices.target):
        if name is not None and name not in present:
            raise ValueError(f"There is no column {name!r} in this file.{near_miss(name, present)}")
    left_out = {*choices.drop, choices.id_col, choices.target}
    names = [name for name in present if name not in left_out and (not choices.columns or name in choices.columns)]
    if not names:
        raise ValueError("No columns are left to cluster: all are dropped, or are the id or the target.")
    return names


def kind_of(type_: Any) -> str:
    """Return what a column of this Arrow type holds: number, flag, category, date or other."""
    types = pa.types
    if types.is_boolean(type_):
        return "flag"
    if types.is_integer(type_) or types.is_floating(type_) or types.is_decimal(type_) or types.is_null(type_):
        return "number"
    if types.is_string(type_) or types.is_large_string(type_) or types.is_dictionary(type_):
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
    text = values.cast(pa.string())
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)


def _learn_column(values: pa.ChunkedArray, name: str, kind: str, impute: bool) -> Column:
    """Learn how to convert a column."""
    if kind == "category":
        levels = sorted(str(value) for value in pc.unique(to_text(values)).to_pylist() if value is not None)
        if len(levels) > MAX_LEVELS:
            raise ValueError(
                f"Column {name!r} has {len(levels):,} different values, more than the {MAX_LEVELS} that "
                "--one-hot allows. Use --drop to leave it out, or --id-col if it identifies rows."
            )
        return Column(name, kind, fills_gaps=impute, levels=tuple(levels))
    numbers = to_numbers(values, kind)
    known = numbers[~np.isnan(numbers)]
    if not impute:
        return Column(name, kind)
    if not len(known):
        raise ValueError(f"Column {name!r} holds no values. Use --drop to leave it out.")
    return Column(name, kind, fill=float(np.median(known)), fills_gaps=True)


def _refuse(kinds: dict[str, str], choices: Choices) -> None:
    """Raise an error if columns hold text, dates or other values whose conversion was not requested."""
    for kind, allowed, what, advice in (
        ("category", choices.one_hot, "text", "Use --one-hot to convert it to 0/1 columns, or --drop to leave it out."),
        ("date", choices.dates, "dates", "Use --dates to convert them to days, or --drop to leave them out."),
        ("other", False, "values that are not numbers", "Use --drop to leave them out."),
    ):
        found = [name for name, own in kinds.items() if own == kind]
        if found and not allowed:
            quoted = some([repr(name) for name in found])
            raise ValueError(f"Column{_plural(found)} {quoted} hold{'s' * (len(found) == 1)} {what}. {advice}")


def _refuse_missing(table: pa.Table, kinds: dict[str, str], choices: Choices) -> None:
    """Raise an error if values are missing and --impute is not used."""
    if choices.impute:
        return
    counts = {name: count_missing(table[name], kind) for name, kind in kinds.items()}
    found = [f"{name!r} ({count:,})" for name, count in counts.items() if count]
    if found:
        raise ValueError(_missing_message(found))


def count_missing(values: pa.ChunkedArray, kind: str) -> int:
    """Return how many values are missing or NaN."""
    return int(to_text(values).null_count if kind == "category" else np.isnan(to_numbers(values, kind)).sum())


def _missing_message(found: list[str], *, learned: bool = False) -> str:
    """Return the message about missing values."""
    missing = f"Values are missing in column{_plural(found)} {some(found)}"
    if learned:
        return f"{missing}, and the model was fitted without --impute. Fill them first, or refit with --impute median."
    return f"{missing}. Use --impute median to fill them, or --drop to leave the column{_plural(found)} out."


def some(items: Sequence[str], limit: int = 6) -> str:
    """Join items for a message, at most `limit` of them."""
    rest = len(items) - limit
    return ", ".join(items[:limit]) + (f" and {rest} more" if rest > 0 else "")


def near_miss(name: str, present: Sequence[str]) -> str:
    """Return a hint: the most similar name, or the names that exist."""
    close = difflib.get_close_matches(name, present, n=1)
    return f" Did you mean {close[0]!r}?" if close else f" It has {some([repr(other) for other in present])}."


def _plural(items: Sequence[str]) -> str:
    return "s" if len(items) > 1 else ""
