"""The dialect of a text table: separator, quotes, decimal mark, encoding and header, recognised from its beginning."""

import codecs
import csv
import io
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import islice

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe", " ": "space"}
RECORDS = 200  # records that are looked at
THOUSANDS = (".", ",", "'", " ", "\u00a0", "\u202f", "\u2019")
ANY_NUMBER = re.compile(r"[-+]?(\d+([.,' ]\d{3})*([.,]\d*)?|[.,]\d+)([eE][-+]?\d+)?")  # in some dialect
QUOTES, DECIMALS = ('"', "'"), (".", ",")
BOMS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
WINDOWS = "cp1252"
UNDEFINED_IN_WINDOWS = b"\x81\x8d\x8f\x90\x9d"


@dataclass(frozen=True)
class Dialect:
    """How a text table is written."""

    sep: str = ","
    quote: str = '"'
    decimal: str = "."
    thousands: str = ""  # the marks that may separate groups of three digits
    encoding: str = "utf-8"  # in Python's words
    header: bool = True  # whether the first line names the columns
    na: tuple[str, ...] = ()  # words for a missing value, in addition to the usual ones

    def __post_init__(self) -> None:
        allowed = is_separator(self.sep) and self.quote in QUOTES and self.decimal in DECIMALS
        if not allowed or not set(self.thousands) <= set(THOUSANDS):
            marks = f"separator {self.sep!r}, quote {self.quote!r}, decimal {self.decimal!r}"
            raise ValueError(f"knet cannot read a text table with {marks}, thousands {self.thousands!r}.")

    @property
    def is_plain(self) -> bool:
        """Return whether numbers are written as in Python."""
        return self.decimal == "." and not self.thousands

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

    @property
    def missing_words(self) -> tuple[str, ...]:
        """Return the words for a missing value: those of the user and those of the model."""
        return tuple(dict.fromkeys((*self.na, *(self.prior.na if self.prior else ()))))

    def check(self) -> None:
        """Raise an error if a value is not allowed."""
        if self.sep is not None and not is_separator(self.sep):
            names = ", ".join(SEPARATORS.values())
            raise ValueError(
                f"The --sep option must be one ASCII character that is no quote and no line end, or {names}. "
                f"Got {self.sep!r} instead."
            )
        if self.decimal not in (None, *DECIMALS):
            raise ValueError(f"The --decimal option must be . or , (a point or a comma). Got {self.decimal!r} instead.")
        if self.decimal is not None and self.decimal == self.sep:
            raise ValueError(f"--sep and --decimal are both {self.sep!r}. Choose different characters.")
        try:
            "a".encode(self.encoding or "utf-8")
        except (LookupError, ValueError) as error:  # unknown, or not an encoding of text, such as zip
            advice = "Use utf-8, utf-16, latin-1 or cp1252, for example."
            raise ValueError(f"There is no encoding {self.encoding!r} of text. {advice}") from error

    def check_format(self, suffix: str, used: Collection[str]) -> None:
        """Raise an error if an option was given that files of this format do not use."""
        header = "header" if self.header else "no-header"
        given = {"sep": self.sep, "decimal": self.decimal, "encoding": self.encoding, "na": self.na or None}
        for name, value in (given | {header: self.header}).items():
            if value is not None and name.removeprefix("no-") not in used:
                raise ValueError(f"--{name} has no effect on a {suffix} file. Leave it out.")


@dataclass(frozen=True)
class Beginning:
    """The dialect of a file, the fields of its first record, and how many characters belong to the header."""

    dialect: Dialect
    first: list[str]
    header_length: int


def is_separator(text: str) -> bool:
    """Say whether a text can separate fields: one ASCII character, and neither a quote nor a line end."""
    return len(text) == 1 and text.isascii() and text not in (*QUOTES, "\r", "\n", "\0")


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

    `complete` says whether this is the whole text; otherwise its last record may be cut. `usual` is assumed without
    evidence, `options` are what the user says, and a space may be the separator only with `spaces`.
    """
    prior = options.prior or usual
    found = re.match(r"sep=(.)\r?\n", text)  # a line that Excel can put first
    skipped, body = found.end() if found else 0, text[found.end() :] if found else text
    separators = [mark for mark in SEPARATORS if mark != " " or spaces]
    sep = options.sep or (found[1] if found else _choose_separator(body, complete, separators, prior.sep))
    quote = _choose_quote(body, sep)
    records, length = _records(body, sep, quote, complete)
    endless = not complete and len(records) == 1 and length >= len(body)
    if endless or (not records and body.strip()):
        raise ValueError("the first record cannot be read: a line end or a quote is missing, or a field is too long.")
    if not records:
        return Beginning(Dialect(sep, quote, encoding=encoding), [], len(text))
    cells = [cell.strip() for record in records for cell in record]
    decimal = options.decimal or _choose_decimal(cells, sep, prior.decimal)
    dialect = Dialect(sep, quote, decimal, _thousands(cells, decimal), encoding, True, options.missing_words)
    dialect = replace(dialect, header=has_header(records, dialect, options))
    return Beginning(dialect, records[0], skipped + (length if dialect.header else 0))


def has_header(records: Sequence[Sequence[str]], dialect: Dialect, options: TextOptions) -> bool:
    """Return whether the first record names the columns, or raise an error if it may be both."""
    if options.header is not None or not records:
        return options.header is not False
    first, rest = [field.strip() for field in records[0]], records[1:]
    named = [name for name in first if name]
    texts = [(j, name) for j, name in enumerate(first) if name and not dialect.is_number(name)]
    if texts or not named:  # a text that occurs again further down is a category, not a name
        is_category = any(name == record[j].strip() for record in rest for j, name in texts if j < len(record))
        return not is_category or len(texts) == len(named)
    counting = [str(int(named[0]) + j) for j in range(len(named))] if named[0].isdecimal() else []
    if len(named) < 2 or [name.lstrip("0") or "0" for name in named] != counting:
        return False
    if any(not cell.strip().isdigit() for record in rest for cell in record):  # 0, 1, 2 above values such as 0.37
        return True
    if options.prior is not None:
        return options.prior.header
    raise ValueError(
        "The first line holds consecutive whole numbers, which may be names or values. Use --no-header if it is the "
        "first row, or --header if these are the names."
    )


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
            numbers = sum(ANY_NUMBER.fullmatch(cell) is not None for cell in cells) / len(cells)
            scores[sep] = (round(equal, 2), round(numbers, 2), sep == usual)
    if scores:
        return max(scores, key=lambda sep: scores[sep])
    absent = (
        sep for sep in (usual, *separators) if all(len(record) == 1 for record in _records(text, sep, '"', True)[0])
    )
    return next(absent, usual)  # a single column, whose cells may contain other separators


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
