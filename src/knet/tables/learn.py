"""How a conversion is learned from a table: which columns are used, what they hold, which are refused or left out."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from knet.tables.cells import (
    ReadAs,
    code_of,
    convert,
    describe_wrong,
    infer,
    is_ambiguous,
    mostly_numbers,
    remedy,
    wrong_words,
)
from knet.tables.conversion import (
    Column,
    Conversion,
    count_missing,
    kind_of,
    near_miss,
    plural,
    some,
    to_numbers,
    to_text,
)
from knet.tables.dialect import Dialect

MAX_LEVELS = 100  # categories per column
MIN_ROWS = 10  # of a table in which an index or an identifier can be recognised
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
    """What a column holds: its values, and how its text is read."""

    name: str
    values: pa.ChunkedArray
    read_as: ReadAs
    detail: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def kind(self) -> str:
        """Return number, flag, category, date or other."""
        return self.read_as.kind


def learn(table: pa.Table, choices: Choices, text: Collection[str] = (), dialect: Dialect | None = None) -> Learned:
    """Learn how a table becomes numbers, or raise an error that names the wrong columns and says what to do.

    Parameters
    ----------
    table : pyarrow.Table
        The table.
    choices : Choices
        The user's choices.
    text : collection of str
        The columns whose cells are text as in a CSV, so that their types are inferred.
    dialect : Dialect, optional
        The dialect of this text.
    """
    names = feature_names(table.column_names, choices)
    found = [_examine(table[name], name, choices, dialect or Dialect(), is_text=name in text) for name in names]
    notes = []
    if not choices.columns:
        reasons = {column.name: _reason_to_leave_out(column, choices) for column in found}
        notes = [reason for reason in reasons.values() if reason]
        found = [column for column in found if not reasons[column.name]]
        if not found:
            raise ValueError(f"No columns are left to cluster. {' '.join(map(_sentence, notes))}")
    _refuse(found, choices)
    missing = {column.name: count_missing(column.values, column.kind) for column in found}
    _refuse_missing(missing, choices)
    columns = tuple(_learn_column(column, choices, missing[column.name]) for column in found)
    notes += [note for column in found for note in column.notes]
    others = {name: table[name] for name in (choices.id_col, choices.target) if name is not None}
    if choices.weight is not None:
        others |= _weights(choices.weight, table, choices, dialect or Dialect(), text)
    typed = pa.table({**others, **{column.name: column.values for column in found}})
    return Learned(Conversion(columns, choices.id_col, choices.target, dialect), typed, notes)


def _weights(
    name: str, table: pa.Table, choices: Choices, dialect: Dialect, text: Collection[str]
) -> dict[str, pa.ChunkedArray]:
    """Return the column of weights, or raise an error if it holds anything else than numbers."""
    found = _examine(table[name], name, choices, dialect, is_text=name in text)
    if found.kind != "number" or (n_missing := count_missing(found.values, "number")):
        what = f"{n_missing} missing values" if found.kind == "number" else f"values of another kind: {found.kind}"
        raise ValueError(f"The weight column {name!r} must hold a number in every row, and it holds {what}.")
    return {name: found.values}


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


def _examine(values: pa.ChunkedArray, name: str, choices: Choices, dialect: Dialect, *, is_text: bool) -> Found:
    """Find out what a column holds."""
    if not is_text:
        return Found(name, values, ReadAs(kind_of(values.type)))
    read_as, detail = infer(values, dialect), ""
    notes: list[str] = []
    if read_as.kind == "category":
        code = code_of(values)
        if code is None:
            return _text_or_numbers(values, name, choices, dialect)
        detail = f" (codes such as {code!r})"
    cells = convert(values, read_as, dialect)
    if read_as.kind == "date":
        detail = f" ({read_as.date_form})"
        notes += _date_notes(name, cells.values, values, read_as.date_form)
    return Found(name, cells.values, read_as, detail, notes)


def _date_notes(name: str, dates: pa.ChunkedArray, text: pa.ChunkedArray, form: str) -> Iterator[str]:
    """Yield a note on the form of dates, unless they are written as year-month-day."""
    if form.startswith("year-month-day"):
        return
    known = text.filter(pc.is_valid(dates))
    also = "; days and months could also be exchanged, so write 2024-12-31 to be certain"
    yield f"dates in {name!r} are read as {form}{also * is_ambiguous(known, form)}."


def _text_or_numbers(values: pa.ChunkedArray, name: str, choices: Choices, dialect: Dialect) -> Found:
    """Return a column of text; if most of its cells are numbers, others are missing values or an error."""
    cells = mostly_numbers(values, dialect, MOST_NUMBERS if choices.one_hot else MANY_NUMBERS)
    if cells is None:
        read_as = ReadAs("category")
        return Found(name, convert(values, read_as, dialect).values, read_as)
    advice = choices.advice
    message, word = describe_wrong(name, values, cells, "number", first_row=advice.first_row)
    words = wrong_words(values, cells)
    if not choices.impute or len(words) > MAX_WORDS:
        raise ValueError(
            f"{message}; use {advice.remedy(word)} or {advice.impute}, or {advice.drop} to leave the column out."
        )
    return Found(
        name, cells.values, ReadAs("number", missing=tuple(words)), notes=[f"{_lower(message)}; read as missing."]
    )


def _reason_to_leave_out(column: Found, choices: Choices) -> str:
    """Return why a column is an index or an identifier, and not a feature; empty if it is a feature."""
    keep = f"; use {choices.advice.columns} to choose columns{choices.advice.id_col.format(column.name)}."
    if column.name in choices.unnamed:
        return f"column {column.name!r} has no name in the file, so it is left out as an index{keep}"
    if len(column.values) < MIN_ROWS:
        return ""
    if column.kind == "number" and _counts_rows(column.values):
        return f"column {column.name!r} counts the rows, so it is left out as an index{keep}"
    if column.kind == "category" and not pa.types.is_dictionary(column.values.type):
        text = to_text(column.values)
        if not text.null_count and pc.count_distinct(text).as_py() == len(text):
            return f"column {column.name!r} has a different text in every row, so it is left out as an identifier{keep}"
    return ""


def _counts_rows(values: pa.ChunkedArray) -> bool:
    """Return whether every value is the one before it plus 1."""
    numbers = to_numbers(values, "number")
    return bool(np.all(np.diff(numbers) == 1) and float(numbers[0]).is_integer())


def _refuse(found: Sequence[Found], choices: Choices) -> None:
    """Raise an error if columns hold text, dates or other values whose conversion was not requested."""
    say = choices.advice
    to_drop = f"{say.drop} to leave"
    for kind, allowed, what, advice in (
        ("category", choices.one_hot, "text", f"Use {say.one_hot} to convert it to 0/1 columns, or {to_drop} it out."),
        ("date", choices.dates, "dates", f"Use {say.dates} to convert them to days, or {to_drop} them out."),
        ("other", False, "values that are not numbers", f"Use {to_drop} them out."),
    ):
        names = [column.name for column in found if column.kind == kind]
        if names and not allowed:
            quoted, verb = some([repr(name) for name in names]), f"hold{'s' * (len(names) == 1)}"
            detail = next(column.detail for column in found if column.kind == kind)
            raise ValueError(f"Column{plural(names)} {quoted} {verb} {what}{detail}. {advice}")


def _refuse_missing(missing: dict[str, int], choices: Choices) -> None:
    """Raise an error if values are missing and imputing was not requested."""
    found = [f"{name!r} ({count:,})" for name, count in missing.items() if count]
    if found and not choices.impute:
        say, ending = choices.advice, plural(found)
        raise ValueError(
            f"Values are missing in column{ending} {some(found)}. Use {say.impute} to fill them, or {say.drop} to "
            f"leave the column{ending} out."
        )


def _learn_column(found: Found, choices: Choices, n_missing: int) -> Column:
    """Learn how to convert a column."""
    name, kind, values, say = found.name, found.kind, found.values, choices.advice
    form = found.read_as.date_form or "year-month-day"
    if kind == "category":
        levels = sorted(str(value) for value in pc.unique(to_text(values)).to_pylist() if value is not None)
        if len(levels) > MAX_LEVELS:
            raise ValueError(
                f"Column {name!r} has {len(levels):,} different values, more than the {MAX_LEVELS} that "
                f"{say.one_hot} allows. Use {say.drop} to leave it out{say.id_col.format(name)}."
            )
        return Column(name, kind, fills_gaps=choices.impute, levels=tuple(levels), n_missing=n_missing)
    if not choices.impute:
        return Column(name, kind, n_missing=0, date_form=form)
    numbers = to_numbers(values, kind)
    known = numbers[~np.isnan(numbers)]
    if not len(known):
        raise ValueError(f"Column {name!r} holds no values. Use {say.drop} to leave it out.")
    return Column(name, kind, float(np.median(known)), True, (), n_missing, form, found.read_as.missing)


def _sentence(note: str) -> str:
    return note[0].upper() + note[1:]


def _lower(message: str) -> str:
    return message[0].lower() + message[1:]
