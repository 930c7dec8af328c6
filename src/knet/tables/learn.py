"""How a conversion is learned from a table: which columns are used, what they hold, which are refused or left out."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from knet.rows.index_columns import MIN_INDEX_ROWS, counts_rows
from knet.rows.kinds import some
from knet.tables.cells import ISO, Column, code_of, convert, describe_wrong, infer, is_ambiguous, remedy
from knet.tables.conversion import Conversion, count_missing, kind_of, near_miss, to_numbers, to_text
from knet.tables.dialect import Dialect

MAX_LEVELS = 100  # categories per column
MANY_NUMBERS, MOST_NUMBERS = 0.5, 0.9  # share of numbers from which other cells are taken for mistakes; with one-hot
MAX_WORDS = 10  # different cells of a column that are taken for words for a missing value


@dataclass(frozen=True)
class Advice:
    """How the user's choices are called in messages, and the number of the first row."""

    one_hot: str = "--one-hot"
    dates: str = "--dates"
    impute: str = "--impute median"
    drop: str = "--drop"
    columns: str = "--columns"
    id_col: str = ", or --id-col {} to copy it to the output"
    first_row: int = 1

    def remedy(self, word: str) -> str:
        """Return how to read a cell that is not a number."""
        return remedy(word) if self.first_row else f"na=[{word!r}]"


COMMAND = Advice()
PYTHON = Advice("one_hot=True", "dates=True", 'impute="median"', "drop", "columns", "", 0)


@dataclass(frozen=True)
class Choices:
    """The user's choices: which columns to use and how to convert them; `unnamed` columns have no name in the file."""

    columns: Sequence[str] = ()
    drop: Sequence[str] = ()
    id_col: str | None = None
    target: str | None = None
    impute: bool = False
    one_hot: bool = False
    dates: bool = False
    weight: str | None = None
    unnamed: Collection[str] = ()
    advice: Advice = COMMAND


@dataclass(frozen=True)
class Learned:
    """A conversion, the table with typed columns, and notes for the user."""

    conversion: Conversion
    table: pa.Table
    notes: list[str]


@dataclass(frozen=True)
class Found:
    """What a column holds, its values, what a message adds about them, and a note for the user."""

    column: Column
    values: pa.ChunkedArray
    detail: str = ""
    note: str = ""


def learn(table: pa.Table, choices: Choices, text: Collection[str] = (), dialect: Dialect | None = None) -> Learned:
    """Learn how a table becomes numbers, or raise an error that names the wrong columns and says what to do.

    `text` are the columns whose cells are text as in a CSV, so that their types are inferred, and `dialect` is that of
    this text.
    """
    names = feature_names(table.column_names, choices)
    found = {name: _examine(name, table[name], choices, dialect, name in text) for name in names}
    notes = []
    if not choices.columns:
        notes = [reason for name in names if (reason := _reason_to_leave_out(found[name], choices))]
        found = {name: item for name, item in found.items() if not _reason_to_leave_out(item, choices)}
        if not found:
            sentences = " ".join(note[0].upper() + note[1:] for note in notes)
            raise ValueError(f"No columns are left to cluster. {sentences}")
    _refuse(found, choices)
    columns = tuple(_learn_column(item, choices) for item in found.values())
    notes += [item.note for item in found.values() if item.note]
    others = {name: table[name] for name in (choices.id_col, choices.target) if name is not None}
    if choices.weight is not None:
        others[choices.weight] = _weights(choices.weight, table, choices, dialect, text)
    typed = pa.table({**others, **{name: item.values for name, item in found.items()}})
    return Learned(Conversion(columns, choices.id_col, choices.target, dialect), typed, notes)


def _weights(
    name: str, table: pa.Table, choices: Choices, dialect: Dialect | None, text: Collection[str]
) -> pa.ChunkedArray:
    """Return the column of weights, or raise an error if it holds anything else than numbers."""
    found = _examine(name, table[name], choices, dialect, name in text)
    kind = found.column.kind
    if kind != "number" or (n_missing := count_missing(found.values, "number")):
        what = f"{n_missing} missing values" if kind == "number" else f"values of another kind: {kind}"
        raise ValueError(f"The weight column {name!r} must hold a number in every row, and it holds {what}.")
    return found.values


def feature_names(present: Sequence[str], choices: Choices) -> list[str]:
    """Return the columns to use, in the order of the file."""
    for name in (*choices.columns, *choices.drop, choices.id_col, choices.target, choices.weight):
        if name is not None and name not in present:
            raise ValueError(f"There is no column {name!r} in this table.{near_miss(name, present)}")
    left_out = {*choices.drop, choices.id_col, choices.target, choices.weight}
    names = [name for name in present if name not in left_out and (not choices.columns or name in choices.columns)]
    if not names:
        raise ValueError("No columns are left to cluster: all are dropped, or are the id, the target or the weight.")
    return names


def _examine(name: str, values: pa.ChunkedArray, choices: Choices, dialect: Dialect | None, is_text: bool) -> Found:
    """Find out what a column holds."""
    if not is_text:
        return Found(Column(name, kind_of(values.type)), values)
    dialect = dialect or Dialect()
    column, detail, note = infer(name, values, dialect), "", ""
    if column.kind == "category":
        code = code_of(values)
        if code is None:
            return _text_or_numbers(name, values, choices, dialect)
        detail = f" (codes such as {code!r})"
    converted = convert(values, column, dialect).values
    if column.kind == "date":
        form = column.date_form
        detail = f" ({form})"
        if not form.startswith(ISO):
            unclear = is_ambiguous(values.filter(pc.is_valid(converted)), form)
            also = "; days and months could also be exchanged, so write 2024-12-31 to be certain" * unclear
            note = f"dates in {name!r} are read as {form}{also}."
    return Found(column, converted, detail, note)


def _text_or_numbers(name: str, values: pa.ChunkedArray, choices: Choices, dialect: Dialect) -> Found:
    """Return a column of text; if most of its cells are numbers, others are missing values or an error."""
    cells = convert(values, Column(name, "number"), dialect)
    n_numbers = len(values) - cells.values.null_count
    if n_numbers < (MOST_NUMBERS if choices.one_hot else MANY_NUMBERS) * (n_numbers + cells.n_wrong):
        column = Column(name, "category")
        return Found(column, convert(values, column, dialect).values)
    advice = choices.advice
    message, word = describe_wrong(name, values, cells, "number", advice.first_row)
    words = pc.unique(values.filter(cells.wrong)).to_pylist()
    if not choices.impute or len(words) > MAX_WORDS:
        raise ValueError(
            f"{message}; use {advice.remedy(word)} or {advice.impute}, or {advice.drop} to leave the column out."
        )
    note = f"{message[0].lower()}{message[1:]}; read as missing."
    return Found(Column(name, "number", missing=tuple(words)), cells.values, note=note)


def _reason_to_leave_out(found: Found, choices: Choices) -> str:
    """Return why a column is an index or an identifier, and not a feature; empty if it is a feature."""
    name, kind, values = found.column.name, found.column.kind, found.values
    if name in choices.unnamed:
        reason = "has no name in the file, so it is left out as an index"
    elif kind == "number" and counts_rows(to_numbers(values, kind)):
        reason = "counts the rows, so it is left out as an index"
    elif kind == "category" and _is_different_everywhere(values):
        reason = "has a different text in every row, so it is left out as an identifier"
    else:
        return ""
    advice = choices.advice
    return f"column {name!r} {reason}; use {advice.columns} to choose columns{advice.id_col.format(name)}."


def _is_different_everywhere(values: pa.ChunkedArray) -> bool:
    """Return whether a column of text, which nobody declared as categories, has no value twice."""
    if len(values) < MIN_INDEX_ROWS or pa.types.is_dictionary(values.type):
        return False
    text = to_text(values)
    return not text.null_count and pc.count_distinct(text).as_py() == len(text)


def _refuse(found: dict[str, Found], choices: Choices) -> None:
    """Raise an error if columns hold values whose conversion was not requested, or gaps that may not be filled."""
    say = choices.advice
    for kind, allowed, what, advice in (
        ("category", choices.one_hot, "text", f"Use {say.one_hot} to convert it to 0/1 columns, or {say.drop}"),
        ("date", choices.dates, "dates", f"Use {say.dates} to convert them to days, or {say.drop}"),
        ("other", False, "values that are not numbers", f"Use {say.drop}"),
    ):
        names = [repr(name) for name, item in found.items() if item.column.kind == kind]
        if names and not allowed:
            ending, verb = ("s", "hold") if len(names) > 1 else ("", "holds")
            detail = next(item.detail for item in found.values() if item.column.kind == kind)
            it = "it" if kind == "category" else "them"
            raise ValueError(f"Column{ending} {some(names)} {verb} {what}{detail}. {advice} to leave {it} out.")
    missing = {name: count_missing(item.values, item.column.kind) for name, item in found.items()}
    gaps = [f"{name!r} ({count:,})" for name, count in missing.items() if count]
    if gaps and not choices.impute:
        columns = f"column{'s' * (len(gaps) > 1)}"
        raise ValueError(
            f"Values are missing in {columns} {some(gaps)}. Use {say.impute} to fill them, or {say.drop} to leave the "
            f"{columns} out."
        )


def _learn_column(found: Found, choices: Choices) -> Column:
    """Learn the categories of a column, or the median that fills its gaps."""
    column, values, say = found.column, found.values, choices.advice
    if column.kind == "category":
        levels = sorted(str(value) for value in pc.unique(to_text(values)).to_pylist() if value is not None)
        if len(levels) > MAX_LEVELS:
            raise ValueError(
                f"Column {column.name!r} has {len(levels):,} different values, more than the {MAX_LEVELS} that "
                f"{say.one_hot} allows. Use {say.drop} to leave it out{say.id_col.format(column.name)}."
            )
        column = replace(column, levels=tuple(levels))
    elif choices.impute:
        numbers = to_numbers(values, column.kind)
        known = numbers[~np.isnan(numbers)]
        if not len(known):
            raise ValueError(f"Column {column.name!r} holds no values. Use {say.drop} to leave it out.")
        column = replace(column, fill=float(np.median(known)))
    return replace(column, fills_gaps=choices.impute, n_missing=count_missing(values, column.kind))
