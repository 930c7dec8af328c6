"""How the columns of a table become numbers: which ones, gaps filled, categories spread out, dates counted in days.

A recipe is learned once, at the fit, and travels with the model, so that new files are treated the same.
"""

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

MAX_LEVELS = 100  # categories of one column
MICROSECONDS_PER_DAY = 86_400_000_000
READ_AS = {"number": pa.float64(), "flag": pa.bool_(), "category": pa.string(), "date": pa.timestamp("us")}


@dataclass(frozen=True)
class Column:
    """One column of the table: what it holds, what fills its gaps, and its categories."""

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
    """What the user asked for."""

    columns: Sequence[str] = ()
    drop: Sequence[str] = ()
    id_col: str | None = None
    target: str | None = None
    impute: bool = False
    one_hot: bool = False
    dates: bool = False


@dataclass(frozen=True)
class Recipe:
    """The columns a model is made from, in order."""

    columns: tuple[Column, ...]
    id_col: str | None = None
    target: str | None = None
    unseen: dict[str, int] = field(default_factory=dict, compare=False)

    @classmethod
    def learn(cls, table: pa.Table, choices: Choices) -> Self:
        """Return the recipe for a table, or raise a message that names the columns at fault and says what to do."""
        names = feature_names(table.column_names, choices)
        kinds = {name: kind_of(table.schema.field(name).type) for name in names}
        _refuse(kinds, choices)
        _refuse_gaps(table, kinds, choices)
        columns = tuple(_learn_column(table[name], name, kind, choices.impute) for name, kind in kinds.items())
        return cls(columns, choices.id_col, choices.target)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Return a recipe that `to_json` wrote."""
        columns = tuple(Column(**{**column, "levels": tuple(column["levels"])}) for column in data["columns"])
        return cls(columns, data["id_col"], data["target"])

    @classmethod
    def of_numbers(cls, names: Iterable[str]) -> Self:
        """Return the recipe of a model that was fitted elsewhere: its columns, as numbers."""
        return cls(tuple(Column(name, "number") for name in names))

    def to_json(self) -> dict[str, Any]:
        """Return the recipe as plain data."""
        return {"columns": [asdict(column) for column in self.columns], "id_col": self.id_col, "target": self.target}

    @property
    def outputs(self) -> list[str]:
        """Return the names of the numeric columns that the model sees."""
        return [name for column in self.columns for name in column.outputs]

    def types(self, present: Sequence[str], *others: str | None) -> dict[str, Any]:
        """Return how to read the columns, `others` as text, or raise a message that names the ones that are missing."""
        missing = [column.name for column in self.columns if column.name not in present]
        if missing:
            quoted, hint = some([repr(name) for name in missing]), near_miss(missing[0], present)
            raise ValueError(f"The model needs the column{_plural(missing)} {quoted}, not in this file.{hint}")
        return {column.name: READ_AS[column.kind] for column in self.columns} | {
            name: pa.string() for name in others if name is not None
        }

    def apply(self, table: pa.Table) -> NDArray[np.float64]:
        """Return the rows as numbers, (n, number of outputs)."""
        return np.column_stack([self._numbers(table[column.name], column) for column in self.columns])

    def _numbers(self, values: pa.ChunkedArray, column: Column) -> NDArray[np.float64]:
        """Return one column as numbers, (n,) or (n, levels)."""
        if kind_of(values.type) == "number" and column.kind == "flag":
            values = pc.not_equal(values, 0)
        if kind_of(values.type) != column.kind and not pa.types.is_null(values.type):
            if {kind_of(values.type), column.kind} != {"number", "flag"}:
                raise ValueError(
                    f"Column {column.name!r} holds {values.type}; the model learned it as a {column.kind}."
                )
        n_gaps = count_gaps(values, column.kind)
        if n_gaps and not column.fills_gaps:
            raise ValueError(_gaps([f"{column.name!r} ({n_gaps:,})"], learned=True))
        if column.kind == "category":
            return self._spread(to_text(values), column)
        numbers = to_numbers(values, column.kind)
        return numbers if column.fill is None else np.where(np.isnan(numbers), column.fill, numbers)

    def _spread(self, values: pa.ChunkedArray, column: Column) -> NDArray[np.float64]:
        """Return one 0/1 column per category; a new category, or a gap, is all zeros, and new ones are counted."""
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
        raise ValueError("No columns are left to cluster by: all are dropped, or are the id or the target.")
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
    """Return numbers, flags (0 and 1) or dates (days since 1970) as floats, with NaN for gaps."""
    if kind == "date":
        zone_free = values.cast(pa.timestamp("us", tz=getattr(values.type, "tz", None)))
        values = pc.divide(zone_free.cast(pa.int64()).cast(pa.float64()), float(MICROSECONDS_PER_DAY))
    numbers: NDArray[np.float64] = values.cast(pa.float64()).to_numpy()
    return numbers


def to_text(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return categories as text; the empty text is a gap."""
    text = values.cast(pa.string())
    return pc.if_else(pc.equal(text, ""), pa.scalar(None, pa.string()), text)


def _learn_column(values: pa.ChunkedArray, name: str, kind: str, impute: bool) -> Column:
    """Return what a column's new values need."""
    if kind == "category":
        levels = sorted(str(value) for value in pc.unique(to_text(values)).to_pylist() if value is not None)
        if len(levels) > MAX_LEVELS:
            raise ValueError(
                f"Column {name!r} has {len(levels):,} different values, more than {MAX_LEVELS} to spread out. "
                "Leave it out with --drop, or name it with --id-col if it identifies rows."
            )
        return Column(name, kind, fills_gaps=impute, levels=tuple(levels))
    numbers = to_numbers(values, kind)
    known = numbers[~np.isnan(numbers)]
    if not impute:
        return Column(name, kind)
    if not len(known):
        raise ValueError(f"Column {name!r} holds no values at all. Leave it out with --drop.")
    return Column(name, kind, fill=float(np.median(known)), fills_gaps=True)


def _refuse(kinds: dict[str, str], choices: Choices) -> None:
    """Raise where columns hold text, dates or other things that were not asked to be turned into numbers."""
    for kind, allowed, what, advice in (
        ("category", choices.one_hot, "text", "Use --one-hot to make 0/1 columns of it, or --drop to leave it out."),
        ("date", choices.dates, "dates", "Use --dates to count them in days, or --drop to leave them out."),
        ("other", False, "values that are not numbers", "Use --drop to leave them out."),
    ):
        found = [name for name, own in kinds.items() if own == kind]
        if found and not allowed:
            quoted = some([repr(name) for name in found])
            raise ValueError(f"Column{_plural(found)} {quoted} hold{'s' * (len(found) == 1)} {what}. {advice}")


def _refuse_gaps(table: pa.Table, kinds: dict[str, str], choices: Choices) -> None:
    """Raise where values are missing and are not to be filled."""
    if choices.impute:
        return
    counts = {name: count_gaps(table[name], kind) for name, kind in kinds.items()}
    found = [f"{name!r} ({count:,})" for name, count in counts.items() if count]
    if found:
        raise ValueError(_gaps(found))


def count_gaps(values: pa.ChunkedArray, kind: str) -> int:
    """Return how many values are missing or NaN."""
    return int(to_text(values).null_count if kind == "category" else np.isnan(to_numbers(values, kind)).sum())


def _gaps(found: list[str], *, learned: bool = False) -> str:
    """Return the message about missing values."""
    where = f"Values are missing in column{_plural(found)} {some(found)}"
    if learned:
        return f"{where}, and the model was fitted without --impute. Fill them first, or fit anew with --impute median."
    return f"{where}. Fill them with --impute median, or leave the column{_plural(found)} out with --drop."


def some(items: Sequence[str], most: int = 6) -> str:
    """Join items for a message, at most `most` of them."""
    rest = len(items) - most
    return ", ".join(items[:most]) + (f" and {rest} more" if rest > 0 else "")


def near_miss(name: str, present: Sequence[str]) -> str:
    """Return a hint at the nearest name there is."""
    close = difflib.get_close_matches(name, present, n=1)
    return f" Did you mean {close[0]!r}?" if close else f" It has {some([repr(one) for one in present])}."


def _plural(items: Sequence[str]) -> str:
    return "s" if len(items) > 1 else ""
