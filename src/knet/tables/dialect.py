"""The dialect of a text table: separator, quotes, decimal mark, encoding and header, recognised from its beginning."""

import codecs
import csv
import io
import re
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import Any, Self

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe", " ": "space"}
RECORDS = 200  # records that are looked at
THOUSANDS = (".", ",", "'", " ", "\u00a0", "\u202f", "\u2019")
BOMS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
WINDOWS = "cp1252"
UNDEFINED_IN_WINDOWS = b"\x81\x8d\x8f\x90\x9d"


@dataclass(frozen=True)
class Dialect:
    """How a text table is written.

    Parameters
    ----------
    sep, quote : str
        The character between two fields, and the one around a field.
    decimal : {".", ","}
        The decimal mark.
    thousands : str
        The marks that may separate groups of three digits; none by default.
    encoding : str
        Python's name of the encoding.
    header : bool
        Whether the first line names the columns.
    na : tuple of str
        Words for a missing value, in addition to the usual ones.
    """

    sep: str = ","
    quote: str = '"'
    decimal: str = "."
    thousands: str = ""
    encoding: str = "utf-8"
    header: bool = True
    na: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Self:
        """Return a dialect from the output of `to_json`."""
        return cls(**{**data, "na": tuple(data["na"])})

    def to_json(self) -> dict[str, Any]:
        """Return the dialect as data for a JSON file."""
        return {**asdict(self), "na": list(self.na)}

    def is_number(self, text: str) -> bool:
        """Return whether a cell is a number in this dialect."""
        return re.fullmatch(self.number_pattern, text.strip()) is not None

    @property
    def number_pattern(self) -> str:
        """Return the regular expression of a number, in the syntax that Python and Arrow share."""
        mark = re.escape(self.decimal)
        whole = "[0-9]+"
        if self.thousands:
            whole = f"(?:[0-9]{{1,3}}(?:[{re.escape(self.thousands)}][0-9]{{3}})+|[0-9]+)"
        return rf"[-+]?(?:{whole}(?:{mark}[0-9]*)?|{mark}[0-9]+)(?:[eE][-+]?[0-9]+)?|[-+]?(?i:inf|infinity)"

    def differences(self, usual: "Dialect", options: "TextOptions") -> str:
        """Describe what was recognised and is not as in `usual`; empty if there is nothing to report."""
        found = [
            (options.sep is None and self.sep != usual.sep, f"separator {SEPARATORS.get(self.sep, repr(self.sep))}"),
            (self.quote != usual.quote, f"quotes {self.quote}"),
            (options.decimal is None and self.decimal != usual.decimal, f"decimal {self.decimal!r}"),
            (self.thousands not in ("", "."), f"thousands {self.thousands.strip('.')!r}"),
            (options.encoding is None and self.encoding != usual.encoding, f"encoding {self.encoding}"),
            (options.header is None and not self.header, "no header, so that the columns are x0, x1, ..."),
        ]
        return ", ".join(text for differs, text in found if differs)


@dataclass(frozen=True)
class TextOptions:
    """What the user says about a text table; None is recognised. `prior` is used if the file shows no evidence."""

    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    na: tuple[str, ...] = ()
    header: bool | None = None
    prior: Dialect | None = None

    def check(self) -> None:
        """Raise an error if a value is not allowed."""
        if self.sep is not None and (len(self.sep) != 1 or not self.sep.isascii()):
            names = ", ".join(SEPARATORS.values())
            raise ValueError(f"The --sep option must be one ASCII character, or {names}. Got {self.sep!r} instead.")
        if self.decimal not in (None, ".", ","):
            raise ValueError(f"The --decimal option must be . or , (a point or a comma). Got {self.decimal!r} instead.")
        if self.decimal is not None and self.decimal == self.sep:
            raise ValueError(f"--sep and --decimal are both {self.sep!r}. Choose different characters.")
        if self.encoding is not None:
            try:
                codecs.lookup(self.encoding)
            except LookupError as error:
                raise ValueError(
                    f"There is no encoding {self.encoding!r}. Use utf-8, utf-16, latin-1 or cp1252, for example."
                ) from error

    def check_format(self, suffix: str, used: Collection[str]) -> None:
        """Raise an error if an option was given that files of this format do not use."""
        header = "header" if self.header else "no-header"
        given: dict[str, object] = {"sep": self.sep, "decimal": self.decimal, "encoding": self.encoding}
        given |= {"na": self.na or None, header: self.header}
        for name, value in given.items():
            if value is not None and name.removeprefix("no-") not in used:
                raise ValueError(f"--{name} has no effect on a {suffix} file. Leave it out.")


@dataclass(frozen=True)
class Beginning:
    """The dialect of a file, the fields of its first record, and how many characters belong to the header."""

    dialect: Dialect
    first: list[str]
    header_length: int


def separator_named(text: str | None) -> str | None:
    r"""Return the separator that an option names: a character, a word such as `tab`, or `\t`.

    Examples
    --------
    >>> separator_named("semicolon")
    ';'
    """
    words = {word: character for character, word in SEPARATORS.items()} | {"\\t": "\t"}
    return text if text is None else words.get(text.lower(), text)


def recognise_encoding(start: bytes) -> str:
    """Return the encoding of a file from its first bytes."""
    for mark, name in BOMS.items():
        if start.startswith(mark):
            return name
    even, odd = start[0::2].count(0), start[1::2].count(0)
    if max(even, odd) > len(start) // 8:
        return "utf-16-le" if odd > even else "utf-16-be"
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start)
    except UnicodeDecodeError:
        return "latin-1" if any(byte in UNDEFINED_IN_WINDOWS for byte in start) else WINDOWS
    return "utf-8"


def recognise(
    text: str, encoding: str = "utf-8", *, complete: bool, usual: Dialect, options: TextOptions, spaces: bool = False
) -> Beginning:
    """Recognise the dialect of a text from its beginning.

    Parameters
    ----------
    text : str
        The beginning of the file.
    encoding : str
        Its encoding, which is known at this point.
    complete : bool
        Whether this is the whole file; otherwise the last record may be cut.
    usual : Dialect
        The dialect to assume without evidence.
    options : TextOptions
        What the user says, which is not recognised.
    spaces : bool
        Whether a space may be the separator.

    Returns
    -------
    beginning : Beginning
        The dialect, the first record, and the length of the header.
    """
    prior = options.prior or usual
    skipped = _separator_line(text)
    body = text[len(skipped) :]
    separators = [mark for mark in SEPARATORS if mark != " " or spaces]
    sep = options.sep or (skipped[4] if skipped else _choose_separator(body, complete, separators, prior.sep))
    quote = _choose_quote(body, sep)
    records, length = _records(body, sep, quote, complete)
    endless = not complete and len(records) == 1 and length >= len(body)
    if endless or (not records and body.strip()):
        raise ValueError("the first record cannot be read: a line end or a quote is missing, or a field is too long.")
    if not records:
        return Beginning(Dialect(sep, quote, encoding=encoding), [], len(text))
    cells = [cell.strip() for record in records for cell in record]
    decimal = options.decimal or _choose_decimal(cells, sep, prior.decimal)
    na = tuple(dict.fromkeys((*options.na, *(options.prior.na if options.prior else ()))))
    dialect = Dialect(sep, quote, decimal, _thousands(cells, decimal), encoding, True, na)
    header = options.header if options.header is not None else is_header(records, dialect, options.prior)
    dialect = replace(dialect, header=header)
    return Beginning(dialect, records[0], len(skipped) + (length if header else 0))


def is_header(records: Sequence[Sequence[str]], dialect: Dialect, prior: Dialect | None = None) -> bool:
    """Return whether the first record names the columns, or raise an error if it may be both."""
    first, rest = [field.strip() for field in records[0]], records[1:]
    named = [name for name in first if name]
    numbers = [name for name in named if dialect.is_number(name)]
    if not numbers:
        return True
    if len(numbers) < len(named):  # a text that occurs again further down is a category, not a name
        texts = [(j, name) for j, name in enumerate(first) if name and not dialect.is_number(name)]
        return not any(name == record[j].strip() for record in rest for j, name in texts if j < len(record))
    if not _are_consecutive(named):
        return False
    if any(not cell.strip().isdigit() for record in rest for cell in record):  # 0, 1, 2 above values such as 0.37
        return True
    if prior is not None:
        return prior.header
    raise ValueError(
        "The first line holds consecutive whole numbers, which may be names or values. Use --no-header if it is the "
        "first row, or --header if these are the names."
    )


def _are_consecutive(names: Sequence[str]) -> bool:
    """Return whether the names are whole numbers that count up by one."""
    if len(names) < 2 or not all(name.isdigit() for name in names):
        return False
    return all(int(name) == int(names[0]) + j for j, name in enumerate(names))


def _separator_line(text: str) -> str:
    """Return the line `sep=;` that Excel can put first, with its line end; empty if there is none."""
    found = re.match(r"sep=.\r?\n", text)
    return found[0] if found else ""


def _records(text: str, sep: str, quote: str, complete: bool) -> tuple[list[list[str]], int]:
    """Return the first records, without one that is cut, and the length of the text up to the end of the first."""
    lines = io.StringIO(text, newline="")
    reader = csv.reader(lines, delimiter=sep, quotechar=quote)
    records: list[list[str]] = []
    length = 0
    try:
        for record in islice(reader, RECORDS):
            length = length if records else sum(map(len, islice(io.StringIO(text, newline=""), reader.line_num)))
            records += [record] if record else []
    except csv.Error:  # a field without end: this is not the separator or the quote
        return records, length
    if not complete and len(records) > 1 and lines.read(1) == "":
        records.pop()
    return records, length


def _choose_separator(text: str, complete: bool, separators: Sequence[str], usual: str) -> str:
    """Return the separator that divides most records like the first one, and into the most numbers."""
    scores = {}
    for sep in separators:
        records, _ = _records(text, sep, '"', complete)
        if records and len(records[0]) > 1:
            equal = sum(len(record) == len(records[0]) for record in records) / len(records)
            cells = [cell.strip() for record in records for cell in record]
            numbers = sum(_is_any_number(cell) for cell in cells) / len(cells)
            scores[sep] = (round(equal, 2), round(numbers, 2), sep == usual)
    if scores:
        return max(scores, key=lambda sep: scores[sep])
    absent = (
        sep for sep in (usual, *separators) if all(len(record) == 1 for record in _records(text, sep, '"', True)[0])
    )
    return next(absent, usual)  # a single column, whose cells may contain other separators


def _is_any_number(text: str) -> bool:
    """Return whether a cell is a number in some dialect."""
    return re.fullmatch(r"[-+]?(\d+([.,' ]\d{3})*([.,]\d*)?|[.,]\d+)([eE][-+]?\d+)?", text) is not None


def _choose_quote(text: str, sep: str) -> str:
    """Return the single quote if fields are enclosed in it and the text has no double quotes."""
    if '"' in text:
        return '"'
    mark = re.escape(sep)
    enclosed = re.findall(rf"(?:^|{mark})'[^'\n]*'(?={mark}|\r?$)", text, re.MULTILINE)
    return "'" if len(enclosed) >= max(2, text.count("'") // 4) else '"'


def _choose_decimal(cells: Sequence[str], sep: str, usual: str) -> str:
    """Return the decimal mark that most numbers have; `1,234` is a decimal number only between semicolons."""
    comma, point = _decimals(cells, ","), _decimals(cells, ".")
    if comma or point:
        return "," if comma > point else "."
    if sep == ";" and any(re.fullmatch(r"[-+]?\d{1,3},\d{3}", cell) for cell in cells):
        return ","
    return "." if usual == sep else usual


def _decimals(cells: Sequence[str], mark: str) -> int:
    """Return how many cells can only be numbers with this decimal mark."""
    other = re.escape("." if mark == "," else ",")
    mark = re.escape(mark)
    certain = re.compile(
        rf"[-+]?(?:\d*{mark}(?!\d{{3}}$)\d+|0{mark}\d+|\d{{4,}}{mark}\d+|\d{{1,3}}(?:[ {other}]\d{{3}})+{mark}\d+)"
        r"(?:[eE][-+]?\d+)?"
        rf"|[-+]?\d{{1,3}}(?:{other}\d{{3}}){{2,}}"
    )
    return sum(certain.fullmatch(cell) is not None for cell in cells)


def _thousands(cells: Sequence[str], decimal: str) -> str:
    """Return the marks between groups of three digits; with decimal commas the point always may be one."""
    found = "." if decimal == "," else ""
    for mark in THOUSANDS:
        grouped = re.compile(rf"[-+]?\d{{1,3}}(?:{re.escape(mark)}\d{{3}})+(?:{re.escape(decimal)}\d*)?")
        if mark not in (decimal, found) and any(grouped.fullmatch(cell) for cell in cells):
            found += mark
    return found
