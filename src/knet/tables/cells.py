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
}
TIMES = ("", " %H:%M", " %H:%M:%S")
CODE = r"^0[0-9]+$"
KIND_WORDS = {"number": "a number", "flag": "true or false", "date": "a date"}


@dataclass(frozen=True)
class ReadAs:
    """What the text cells of a column are read as.

    Parameters
    ----------
    kind : {"number", "flag", "category", "date", "text"}
        "category" and "text" stay text; in "text" nothing is missing.
    date_form : str
        The form of dates, such as "day.month.year".
    missing : tuple of str
        Words for a missing value in this column, in addition to those of the dialect.
    """

    kind: str
    date_form: str = ""
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Cells:
    """The values of a column; missing and wrong cells are null, and `wrong` marks the latter."""

    values: pa.ChunkedArray
    wrong: pa.ChunkedArray | None = None

    @property
    def n_wrong(self) -> int:
        """Return the number of cells that do not fit the kind of the column."""
        return 0 if self.wrong is None else int(pc.sum(self.wrong).as_py() or 0)


def convert(text: pa.ChunkedArray, read_as: ReadAs, dialect: Dialect) -> Cells:
    """Return text cells as values of a kind."""
    if read_as.kind == "text":
        return Cells(text)
    words = (*dialect.na, *read_as.missing)
    if read_as.kind == "category":
        return Cells(_without(text, words) if words else text)
    if read_as.kind == "number":
        return _numbers(text, dialect, words)
    cells = _without(pc.utf8_trim_whitespace(text), (*MISSING, *words))
    if read_as.kind == "flag":
        return _flags(cells)
    values = _dates(cells, read_as.date_form)
    return Cells(values, pc.and_(pc.is_null(values), pc.is_valid(cells)))


def infer(text: pa.ChunkedArray, dialect: Dialect) -> ReadAs:
    """Return what a column of text cells holds; a column without values counts as numbers."""
    cells = _without(pc.utf8_trim_whitespace(text), (*MISSING, *dialect.na))
    some = cells.drop_null()
    if not len(some):
        return ReadAs("number")
    if code_of(some) is not None:
        return ReadAs("category")
    if not _numbers(some, dialect, ()).n_wrong:
        return ReadAs("number")
    if not _flags(some, words_only=True).n_wrong:
        return ReadAs("flag")
    form = date_form(some, day_first=dialect.decimal == "," or dialect.sep == ";")
    return ReadAs("date", form) if form else ReadAs("category")


def code_of(text: pa.ChunkedArray) -> str | None:
    """Return the first code with a leading zero; None if there is none."""
    found = text.filter(pc.match_substring_regex(text, CODE))
    return str(found[0].as_py()) if len(found) else None


def mostly_numbers(text: pa.ChunkedArray, dialect: Dialect, share: float) -> Cells | None:
    """Return the numbers of a column of text if at least a share of its cells are numbers; None otherwise."""
    cells = _numbers(text, dialect, dialect.na)
    n_numbers = len(text) - cells.values.null_count
    return cells if cells.n_wrong and n_numbers >= share * (n_numbers + cells.n_wrong) else None


def describe_wrong(
    name: str, text: pa.ChunkedArray, cells: Cells, kind: str, *, first_row: int, count: bool = True
) -> tuple[str, str]:
    """Return a message that names the first cell that does not fit, and its text.

    Parameters
    ----------
    name : str
        The column.
    text : pyarrow.ChunkedArray
        Its cells as they are in the file.
    cells : Cells
        What they were converted to.
    kind : str
        What they should be.
    first_row : int
        The number of the first of these cells.
    count : bool
        Whether these are all cells of the column, so that wrong ones can be counted.
    """
    assert cells.wrong is not None
    position = int(np.flatnonzero(cells.wrong.to_numpy())[0])
    value, what = str(text[position].as_py()), KIND_WORDS[kind]
    n_wrong = cells.n_wrong if count else 1
    if n_wrong == 1:
        problem, which = f"has {'1' if count else 'a'} value that is not {what}", ""
    else:
        what = {"number": "numbers", "date": "dates"}.get(kind, what)
        problem, which = f"has {n_wrong:,} values that are not {what}", "first "
    row = f"{first_row + position:,}"
    return f"Column {name!r} {problem}: {which}{_short(value)!r} in row {row}", value


def wrong_words(text: pa.ChunkedArray, cells: Cells) -> list[str]:
    """Return the different cells that do not fit."""
    return [str(value) for value in pc.unique(text.filter(cells.wrong)).to_pylist()]


def remedy(value: str) -> str:
    """Return the option of the command that reads a wrong cell: as missing, or as a number with a decimal comma."""
    return "--decimal ," if re.fullmatch(r"[-+]?\d*,\d+", value.strip()) else f"--na {shlex.quote(value)}"


def date_form(text: pa.ChunkedArray, *, day_first: bool = False) -> str:
    """Return the form of a column of dates; empty if the cells are not dates, or not all in one form."""
    for form in (ISO, ISO_ZONE):
        if not _dates(text, form).null_count:
            return form
    forms = list(DATE_FORMS.items())
    if day_first:
        forms.sort(key=lambda item: not item[0].startswith("day"))
    for form, _ in forms:
        if not _dates(text, form).null_count:
            return form
    return ""


def is_ambiguous(text: pa.ChunkedArray, form: str) -> bool:
    """Return whether days and months of dates could be exchanged."""
    other = {"day/month/year": "month/day/year", "month/day/year": "day/month/year"}.get(form)
    return other is not None and not _dates(text, other).null_count


def _without(text: pa.ChunkedArray, words: Sequence[str]) -> pa.ChunkedArray:
    """Return the cells with null in place of these words."""
    is_word = pc.is_in(text, value_set=pa.array(words, pa.string()))
    return pc.if_else(is_word, pa.scalar(None, pa.string()), text)


def _numbers(text: pa.ChunkedArray, dialect: Dialect, words: Sequence[str]) -> Cells:
    """Return cells as numbers; plain ones are converted directly, which is faster."""
    plain = dialect.decimal == "." and not dialect.thousands
    if plain and not any(dialect.is_number(word) for word in words):
        try:
            return Cells(text.cast(pa.float64()))
        except pa.ArrowInvalid:
            pass
    cells = _without(pc.utf8_trim_whitespace(text), (*MISSING, *words))
    is_number = pc.match_substring_regex(cells, f"^(?:{dialect.number_pattern})$")
    wrong = pc.fill_null(pc.invert(is_number), False)
    cells = pc.if_else(wrong, pa.scalar(None, pa.string()), cells)
    if dialect.thousands:
        cells = pc.replace_substring_regex(cells, f"[{re.escape(dialect.thousands)}]", "")
    if dialect.decimal != ".":
        cells = pc.replace_substring(cells, dialect.decimal, ".")
    return Cells(pc.utf8_ltrim(cells, "+").cast(pa.float64()), wrong)


def _flags(cells: pa.ChunkedArray, *, words_only: bool = False) -> Cells:
    """Return cells as true and false; 1 and 0 are allowed unless `words_only`."""
    lower = pc.utf8_lower(cells)
    true, false = (["true"], ["false"]) if words_only else (["true", "1"], ["false", "0"])
    is_true, is_false = (pc.is_in(lower, value_set=pa.array(words)) for words in (true, false))
    known = pc.or_(is_true, is_false)
    values = pc.if_else(known, is_true, pa.scalar(None, pa.bool_()))
    return Cells(values, pc.and_(pc.invert(known), pc.is_valid(cells)))


def _dates(cells: pa.ChunkedArray, form: str) -> pa.ChunkedArray:
    """Return cells as times; null if they are not in this form."""
    if form in (ISO, ISO_ZONE):
        kind = pa.timestamp("us", tz="UTC" if form == ISO_ZONE else None)
        try:
            return cells.cast(kind)
        except pa.ArrowInvalid:  # find the cells at fault
            end = r"^(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}(:\d{2})?)(\.\d+)?" + ISO_ENDS[form]
            spaced = pc.replace_substring_regex(cells, end, r"\1 \2")
            return _parsed(spaced, "%Y-%m-%d").cast(kind)
    pattern = DATE_FORMS[form]
    shape = "^" + re.sub(r"%[dm]", "[0-9]{1,2}", pattern.replace(".", r"\.")).replace("%Y", "[0-9]{4}") + "( |$)"
    cells = pc.if_else(pc.match_substring_regex(cells, shape), cells, pa.scalar(None, pa.string()))
    return _parsed(cells, pattern)


def _parsed(cells: pa.ChunkedArray, pattern: str) -> pa.ChunkedArray:
    """Return cells as times, with or without hours; null if they do not match."""
    times = [pc.strptime(cells, format=pattern + time, unit="us", error_is_null=True) for time in TIMES]
    return pc.coalesce(*times)


def _short(text: str, limit: int = 40) -> str:
    return text if len(text) <= limit else f"{text[:limit]}..."
