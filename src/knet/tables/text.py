"""CSV and other text tables: decompressed, decoded and divided into blocks of whole rows, which Arrow parses.

Arrow gets one block in memory at a time. A reader of Arrow's own would read ahead in a thread that can still call
Python while the interpreter ends.
"""

import codecs
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO

import pyarrow as pa
import pyarrow.csv as pa_csv

from knet.tables.dialect import Dialect, TextOptions, recognise, recognise_encoding
from knet.tables.formats import COMPRESSIONS, DELIMITERS, STDIN, OpenTable

BEGINNING = 2**17  # bytes from which the dialect is recognised
BLOCK, LARGE_BLOCK = 2**20, 2**24  # bytes that are read at a time; if a row is longer
MAX_HEADER, MAX_ROW = 2**22, 2**26  # characters; a longer first line or row is an error
MAX_SHOWN = 80  # characters of a wrong row in a message


class TextStream:
    """The decoded text of a file or of standard input, read block by block.

    `text` is what has been read and not yet been used, and `is_complete` says whether that is the rest of the file.
    """

    def __init__(self, path: str, encoding: str | None = None) -> None:
        self.path, self.encoding = path, encoding or ""
        self.raw: IO[bytes] = sys.stdin.buffer if path == STDIN else open(path, "rb")
        compression = COMPRESSIONS.get(Path(path).suffix.lower())
        self.source = self.raw if compression is None else pa.CompressedInputStream(self.raw, compression)
        self.decoder: codecs.IncrementalDecoder | None = None
        self.text, self.is_complete = "", False

    def read_more(self) -> None:
        """Add the next bytes to the text; the first ones decide the encoding, unless it was given."""
        try:
            data = self.source.read(min(max(BLOCK, len(self.text)), LARGE_BLOCK) if self.decoder else BEGINNING)
        except OSError as error:
            if self.source is self.raw:
                raise
            raise ValueError(f"The file is damaged or not compressed: {error}.") from error
        if self.decoder is None:
            self.encoding = self.encoding or recognise_encoding(data)
            self.decoder = codecs.getincrementaldecoder(self.encoding)()
            data = data.removeprefix(codecs.BOM_UTF8)
        try:
            self.text += self.decoder.decode(data, final=not data)
        except UnicodeError as error:
            problem = re.sub(r" in position [0-9-]+", "", str(error))  # it counts from the block
            is_utf8 = codecs.lookup(self.encoding).name == "utf-8"
            name, other = ("UTF-8", "cp1252") if is_utf8 else (self.encoding, "latin-1")
            message = f"The file is not {name} text: {problem}. Use another encoding, for example --encoding {other}."
            raise ValueError(message) from error
        self.is_complete = not data

    def blocks(self, find_end: Callable[[str], int]) -> Iterator[str]:
        """Yield the rest of the text in blocks of whole rows; `find_end` returns where the last one of a text ends."""
        while self.text or not self.is_complete:
            if not self.is_complete:
                self.read_more()
            if self.is_complete and not self.text.endswith("\n"):
                self.text += "\n"
            end = find_end(self.text)
            if self.is_complete and end < len(self.text):
                raise ValueError(f"A quote is not closed in the row {self.text[end : end + MAX_SHOWN]!r}.")
            if not end and len(self.text) > MAX_ROW:
                raise ValueError(f"A row has more than {MAX_ROW:,} characters: a line end or a quote is missing.")
            block, self.text = self.text[:end], self.text[end:]
            if block:
                yield block

    def share_read(self) -> float | None:
        """Return the share of the file that has been read, from 0 to 1; None for standard input."""
        size = 0 if self.path == STDIN else Path(self.path).stat().st_size
        return min(1.0, self.raw.tell() / size) if size else None

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if self.path != STDIN:
            self.raw.close()


def open_text(stream: TextStream, suffix: str, options: TextOptions) -> OpenTable:
    """Recognise the dialect of a text table and read its header."""
    _read_beginning(stream)
    text, usual = stream.text, Dialect(DELIMITERS.get(suffix, ","))
    found = recognise(
        text, stream.encoding, complete=stream.is_complete, usual=usual, options=options, spaces=suffix == ".txt"
    )
    stream.text, dialect = text[found.header_length :], found.dialect
    names = [name.strip() if dialect.header else f"x{j}" for j, name in enumerate(found.first)]

    def tables(positions: list[int]) -> Iterator[pa.Table]:
        n_rows = 0
        for block in stream.blocks(record_ends(dialect)):
            if block.strip("\r\n"):
                table = _parse(block, len(names), positions, dialect, n_rows)
                n_rows += len(table)
                yield table

    return OpenTable(names, tables, stream.share_read, stream.close, dialect, dialect.differences(usual, options))


def _read_beginning(stream: TextStream) -> None:
    """Read enough of the text to recognise the dialect, with at least one whole line."""
    while not stream.is_complete and (len(stream.text) < BEGINNING or not re.search(r"[\r\n]", stream.text)):
        if len(stream.text) > MAX_HEADER:
            raise ValueError(f"the first line has more than {MAX_HEADER:,} characters: a line end is missing.")
        stream.read_more()


def record_ends(dialect: Dialect) -> Callable[[str], int]:
    r"""Return a function that finds where the last whole row of a text ends; line ends inside of quotes end no row.

    Examples
    --------
    >>> record_ends(Dialect())('1,2\n3,"a\nb')
    4
    """
    sep, quote = re.escape(dialect.sep), re.escape(dialect.quote)
    rest = rf"[^{sep}\r\n]*+"
    field = rf"(?:{quote}(?:[^{quote}]++|{quote}{quote})*+{quote}{rest}|(?!{quote}){rest})"
    rows = re.compile(rf"(?:(?:{field}{sep})*+{field}(?:\r?\n|\r(?!\Z)))*+")

    def find_end(text: str) -> int:
        if dialect.quote not in text:  # the fast way; a final \r may be half of a line end
            return max(text.rfind("\n"), text.rfind("\r", 0, -1)) + 1
        found = rows.match(text)
        return found.end() if found else 0

    return find_end


def _parse(block: str, width: int, positions: Sequence[int], dialect: Dialect, first_row: int) -> pa.Table:
    """Return columns of a block of rows as text; a wrong number of fields is an error."""
    wrong: list[pa_csv.InvalidRow] = []

    def note(row: pa_csv.InvalidRow) -> str:
        wrong.append(row)
        return "error"

    data, names, wanted = block.encode(), [str(j) for j in range(width)], [str(j) for j in positions]
    try:
        return pa_csv.read_csv(
            pa.BufferReader(data),
            pa_csv.ReadOptions(column_names=names, use_threads=False, block_size=len(data) + 1),
            pa_csv.ParseOptions(
                delimiter=dialect.sep, quote_char=dialect.quote, newlines_in_values=True, invalid_row_handler=note
            ),
            pa_csv.ConvertOptions(column_types=dict.fromkeys(wanted, pa.string()), include_columns=wanted),
        )
    except pa.ArrowInvalid as error:
        if not wrong:
            raise
        row, first = wrong[0], "header" if dialect.header else "first row"
        raise ValueError(
            f"Row {first_row + row.number:,} has {row.actual_columns} field{'s' * (row.actual_columns != 1)} but the "
            f"{first} has {width}: {row.text[:MAX_SHOWN]!r}"
        ) from error
