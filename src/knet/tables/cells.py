"""Text cells as numbers, flags and dates: which of these a column holds, and which cells do not fit."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from knet.tables.dialect import Dialect

MISSING = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "N/A", "NA", "NULL"),
    *("NaN", "n/a", "nan", "null", "<NA>", "NaT", "None"),
)
ISO, ISO_ZONE = "year-month-day", "year-month-day with a time zone"
ISO_ENDS = {ISO: "$", ISO_ZONE: r"(Z|[-+]\d{2}:?(\d{2})?)$"}
DATE_FORMS = {
    "day.month.year": "%d.%m.%Y",
    "month/day/year": "%m/%d/%Y",
    "day/month/year": "%d/%m/%Y",
    "day-month-year": "%d-%m-%Y",
    "year/month/day": "%Y/%m/%d",
    "Dec 31 2024": "%b %d %Y",
    "Dec 31, 2024": "%b %d, %Y",
    "31 Dec 2024": "%d %b %Y",
    "31-Dec-2024": "%d-%b-%Y",
}
ALL_DATE_FORMS = (ISO, ISO_ZONE, *DATE_FORMS)
TIMES = ("", " %H:%M", " %H:%M:%S")
TRUE, FALSE = ["true", "1"], ["false", "0"]
CODE = r"^0[0-9]+$"
KIND_WORDS = {"number": ("a number", "numbers"), "flag": ("true or false",) * 2, "date": ("a date", "dates")}
MAX_SHOWN = 40  # characters of a cell in a message
NO_TEXT = pa.nulls(1, pa.string())[0]  # a scalar from None would import pandas, if it is installed


@dataclass(frozen=True)
class Column:
    """What a column holds, and how it becomes numbers."""

    name: str
    kind: str  # number, flag, category or date; "text" becomes no numbers, and nothing in it is missing
    levels: tuple[str, ...] = ()  # the categories
    n_missing: int = 0  # values that were missing in training
    date_form: str = ISO  # of dates in text, such as "day.month.year"
    missing: tuple[str, ...] = ()  # words for a missing value, in addition to those of the dialect

    @property
    def outputs(self) -> list[str]:
        """Return the names of the numeric columns that this one becomes."""
        return [f"{self.name}={level}" for level in self.levels] if self.kind == "category" else [self.name]


@dataclass(frozen=True)
class Cells:
    """The values of a column; missing and wrong cells are null, and `wrong` marks the latter."""

    values: pa.ChunkedArray
    wrong: pa.ChunkedArray | None = None

    @property
    def n_wrong(self) -> int:
        """Return the number of cells that do not fit the kind of the column."""
        return 0 if self.wrong is None else int(pc.sum(self.wrong).as_py() or 0)


def convert(text: pa.ChunkedArray, column: Column, dialect: Dialect) -> Cells:
    """Return text cells as the values of a column."""
    if column.kind == "text":
        return Cells(text)
    words = (*dialect.na, *column.missing)
    if column.kind == "category":
        return Cells(without(text, words) if words else text)
    if column.kind == "number" and dialect.is_plain and not any(map(dialect.is_number, words)):
        try:
            return Cells(text.cast(pa.float64()))  # much faster
        except pa.ArrowInvalid:
            pass
    cells = without(pc.utf8_trim_whitespace(text), (*MISSING, *words))
    if column.kind == "date":
        values = _dates(cells, column.date_form)
    else:
        values = _numbers(cells, dialect) if column.kind == "number" else _flags(cells, TRUE, FALSE)
    return Cells(values, pc.and_(pc.is_null(values), pc.is_valid(cells)))


def infer(name: str, text: pa.ChunkedArray, dialect: Dialect) -> Column:
    """Return what a column of text cells holds; a column without values counts as numbers."""
    known = without(pc.utf8_trim_whitespace(text), (*MISSING, *dialect.na)).drop_null()
    if code_of(known) is not None:
        return Column(name, "category")
    if not _numbers(known, dialect).null_count:
        return Column(name, "number")
    if not _flags(known, TRUE[:1], FALSE[:1]).null_count:
        return Column(name, "flag")
    form = date_form(known, day_first=dialect.decimal == "," or dialect.sep == ";")
    return Column(name, "date", date_form=form) if form else Column(name, "category")


def code_of(text: pa.ChunkedArray) -> str | None:
    """Return the first code with a leading zero; None if there is none."""
    found = text.filter(pc.match_substring_regex(text, CODE))
    return str(found[0].as_py()) if len(found) else None


def describe_wrong(
    name: str, text: pa.ChunkedArray, cells: Cells, kind: str, first_row: int, *, count: bool = True
) -> tuple[str, str]:
    """Return a message that names the first cell that does not fit, and its text.

    `first_row` is the number of the first cell. Wrong cells are counted if these are all cells of the column.
    """
    assert cells.wrong is not None
    position = int(np.flatnonzero(cells.wrong.to_numpy())[0])
    value, n_wrong = str(text[position].as_py()), cells.n_wrong if count else 1
    single, many = KIND_WORDS[kind]
    problem = f"{'1' if count else 'a'} value that is not {single}: "
    if n_wrong > 1:
        problem = f"{n_wrong:,} values that are not {many}: first "
    shown = value if len(value) <= MAX_SHOWN else f"{value[:MAX_SHOWN]}..."
    return f"Column {name!r} has {problem}{shown!r} in row {first_row + position:,}", value


def remedy(value: str) -> str:
    """Return the option of the command that reads a wrong cell: as missing, or as a number with a decimal comma."""
    return "--decimal ," if re.fullmatch(r"[-+]?\d*,\d+", value.strip()) else f"--na {shlex.quote(value)}"


def date_form(text: pa.ChunkedArray, *, day_first: bool = False) -> str:
    """Return the form of a column of dates; empty if the cells are not dates, or not all in one form."""
    others = sorted(DATE_FORMS, key=lambda form: day_first and form == "month/day/year")
    return next((form for form in (ISO, ISO_ZONE, *others) if not _dates(text, form).null_count), "")


def is_ambiguous(text: pa.ChunkedArray, form: str) -> bool:
    """Return whether days and months of dates could be exchanged."""
    other = {"day/month/year": "month/day/year", "month/day/year": "day/month/year"}.get(form)
    return other is not None and not _dates(text, other).null_count


def without(text: pa.ChunkedArray, words: Sequence[str]) -> pa.ChunkedArray:
    """Return the cells with null in place of these words."""
    return pc.if_else(pc.is_in(text, value_set=pa.array(words, pa.string())), NO_TEXT, text)


def _numbers(cells: pa.ChunkedArray, dialect: Dialect) -> pa.ChunkedArray:
    """Return cells as numbers; null if they are none."""
    cells = pc.if_else(pc.match_substring_regex(cells, f"^(?:{dialect.number_pattern})$"), cells, NO_TEXT)
    if dialect.thousands:
        cells = pc.replace_substring_regex(cells, f"[{re.escape(dialect.thousands)}]", "")
    if dialect.decimal != ".":
        cells = pc.replace_substring(cells, dialect.decimal, ".")
    return pc.utf8_ltrim(cells, "+").cast(pa.float64())


def _flags(cells: pa.ChunkedArray, true: Sequence[str], false: Sequence[str]) -> pa.ChunkedArray:
    """Return cells as true and false; null if they are neither."""
    is_true, is_false = (pc.is_in(pc.utf8_lower(cells), value_set=pa.array(words)) for words in (true, false))
    return pc.if_else(pc.or_(is_true, is_false), is_true, pa.scalar(None, pa.bool_()))


def _dates(cells: pa.ChunkedArray, form: str) -> pa.ChunkedArray:
    """Return cells as times; null if they are not in this form."""
    if form in (ISO, ISO_ZONE):
        kind = pa.timestamp("us", tz="UTC" if form == ISO_ZONE else None)
        try:
            return cells.cast(kind)
        except pa.ArrowInvalid:  # find the cells at fault
            end = r"^(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}(:\d{2})?)(\.\d+)?" + ISO_ENDS[form]
            return _parsed(pc.replace_substring_regex(cells, end, r"\1 \2"), "%Y-%m-%d").cast(kind)
    pattern = DATE_FORMS[form]
    shape = re.sub(r"%[dm]", "[0-9]{1,2}", pattern.replace(".", r"\."))
    shape = "^" + shape.replace("%b", "[A-Za-z]{3,9}").replace("%Y", "[0-9]{4}") + "( |$)"
    return _parsed(pc.if_else(pc.match_substring_regex(cells, shape), cells, NO_TEXT), pattern)


def _parsed(cells: pa.ChunkedArray, pattern: str) -> pa.ChunkedArray:
    """Return cells as times, with or without hours; null if they do not match."""
    times = [pc.strptime(cells, format=pattern + time, unit="us", error_is_null=True) for time in TIMES]
    return pc.coalesce(*times)
