"""CSV and other text tables: decompressed, decoded and divided into batches of text cells."""

import codecs
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, cast

import pyarrow as pa
import pyarrow.csv as pa_csv

from knet.tables.dialect import Dialect, TextOptions, recognise, recognise_encoding
from knet.tables.formats import DELIMITERS, STDIN, compression_of

BLOCK = 2**20  # bytes of text at a time
BEGINNING = 2**17  # bytes from which the dialect is recognised
HEADER_BYTES = 2**22  # a longer first line is an error


class TextFile:
    """A text table on disk or on standard input; the dialect is recognised at once, the rows are read on request.

    Parameters
    ----------
    path : str
        The file, or "-" for standard input.
    suffix : str
        The format: .csv, .tsv or .txt.
    options : TextOptions
        What the user says about the dialect.
    """

    is_text = True

    def __init__(self, path: str, suffix: str, options: TextOptions) -> None:
        self.path = path
        self.file = InputFile(path)
        self.stream = self.file.stream
        with closed_on_error(self.file):
            self._recognise(suffix, options)

    def _recognise(self, suffix: str, options: TextOptions) -> None:
        """Recognise the encoding and the dialect, and read the header."""
        start = self.stream.peek(BEGINNING)
        encoding = options.encoding or recognise_encoding(start)
        if start.startswith(codecs.BOM_UTF8):
            self.stream.read(len(codecs.BOM_UTF8))
        if codecs.lookup(encoding).name != "utf-8":
            self.stream = as_utf8(self.stream, encoding)
        try:
            text, complete = self._beginning()
        except UnicodeDecodeError as error:
            raise ValueError(_not_text(encoding, error)) from error
        usual = Dialect(DELIMITERS.get(suffix, ","))
        found = recognise(text, encoding, complete=complete, usual=usual, options=options, spaces=suffix == ".txt")
        self.dialect, self.is_empty = found.dialect, not found.first
        self.recognised = found.dialect.differences(usual, options)
        self.stream.read(len(text[: found.header_length].encode()))
        header = found.dialect.header
        self.names = [name.strip() if header else f"x{j}" for j, name in enumerate(found.first)]

    def _beginning(self) -> tuple[str, bool]:
        """Return the beginning of the text with at least one whole line, and whether it is the whole text."""
        size = BEGINNING
        while True:
            start = self.stream.peek(size)
            complete = len(start) < size
            if complete or b"\n" in start or b"\r" in start:
                return codecs.getincrementaldecoder("utf-8")().decode(start), complete
            if size >= HEADER_BYTES:
                raise ValueError(f"the first line has more than {HEADER_BYTES:,} bytes: a line end is missing.")
            size *= 4

    def batches(self, names: Sequence[str], only: Sequence[str]) -> Iterator[pa.Table]:
        """Yield the columns in `only` as text, in tables of bounded size; a wrong number of fields is an error."""
        bad: list[pa_csv.InvalidRow] = []

        def note(row: pa_csv.InvalidRow) -> str:
            bad.append(row)
            return "error"

        options = {
            "read_options": pa_csv.ReadOptions(column_names=list(names), use_threads=False, block_size=BLOCK),
            "parse_options": pa_csv.ParseOptions(
                delimiter=self.dialect.sep,
                quote_char=self.dialect.quote,
                newlines_in_values=True,
                invalid_row_handler=note,
            ),
            "convert_options": pa_csv.ConvertOptions(
                column_types={name: pa.string() for name in only}, include_columns=list(only)
            ),
        }
        try:
            for batch in pa_csv.open_csv(self.stream, **options):
                yield pa.Table.from_batches([batch])
        except UnicodeDecodeError as error:
            raise ValueError(_not_text(self.dialect.encoding, error)) from error
        except pa.ArrowInvalid as error:
            if "Empty CSV file" in str(error):
                return
            raise ValueError(self._explain(str(error), bad, names)) from error

    def _explain(self, message: str, bad: Sequence[Any], names: Sequence[str]) -> str:
        """Return an error message that names the row or the column."""
        if bad:
            row, width = bad[0], len(names)
            place = f"Row {row.number}" if row.number else "A row"
            first = "header" if self.dialect.header else "first row"
            fields = f"{row.actual_columns} field{'s' * (row.actual_columns != 1)}"
            return f"{place} has {fields} but the {first} has {width}: {row.text[:80]!r}"
        if found := re.search(r"In CSV column #(\d+): (.*)", message, re.DOTALL):
            name = names[int(found[1])]
            if "UTF8" in found[2]:
                return f"column {name!r} is not UTF-8 text. Use --encoding, for example --encoding cp1252."
            return f"column {name!r}: {found[2]}"
        return message

    @property
    def share_read(self) -> float | None:
        """Return the share of the file that has been read, from 0 to 1; None if it is unknown."""
        return self.file.share_read

    def close(self) -> None:
        """Close the file; standard input stays open."""
        self.file.close()


def _not_text(encoding: str, error: UnicodeDecodeError) -> str:
    return f"The file is not {encoding} text: {error}. Use another --encoding, such as latin-1."


class InputFile:
    """A file or standard input, opened for reading, and the stream of its decompressed bytes."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.raw: IO[bytes] = _stdin() if path == STDIN else open(path, "rb")
        compression = compression_of(path)
        source = self.raw if compression is None else pa.CompressedInputStream(self.raw, compression)
        self.stream = ByteStream(source.read)

    @property
    def share_read(self) -> float | None:
        """Return the share of the file that has been read, from 0 to 1; None for standard input."""
        if self.path == STDIN:
            return None
        size = Path(self.path).stat().st_size
        return min(1.0, self.raw.tell() / size) if size else None

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if self.path != STDIN:
            self.raw.close()


@contextmanager
def closed_on_error(file: InputFile) -> Iterator[None]:
    """Close a file if an error is raised inside."""
    try:
        yield
    except BaseException:
        file.close()
        raise


class ByteStream:
    """Bytes whose beginning can be looked at before it is read; Arrow accepts it as a file."""

    closed = False

    def __init__(self, source: Callable[[int], bytes]) -> None:
        self.source = source
        self.buffer = b""

    def peek(self, size: int) -> bytes:
        """Return the next bytes without reading them; fewer only at the end."""
        while len(self.buffer) < size and (more := self.source(size - len(self.buffer))):
            self.buffer += more
        return self.buffer[:size]

    def read(self, size: int = BLOCK) -> bytes:
        """Return the next bytes, at most `size`; none only at the end."""
        data = self.buffer or self.source(size)
        self.buffer = data[size:]
        return data[:size]

    def blocks(self) -> Iterator[bytes]:
        """Yield the rest of the bytes."""
        while block := self.read():
            yield block

    def lines(self) -> Iterator[bytes]:
        """Yield the rest of the lines, without their ends."""
        rest = b""
        for block in self.blocks():
            *lines, rest = (rest + block).split(b"\n")
            yield from lines
        yield rest

    def readable(self) -> bool:
        """Return True, as Arrow asks every file."""
        return True

    def close(self) -> None:
        """Do nothing: the owner closes the file."""


def as_utf8(stream: ByteStream, encoding: str) -> ByteStream:
    """Return the rest of a stream, turned from an encoding into UTF-8."""
    decoder = codecs.getincrementaldecoder(encoding)()

    def decoded(size: int) -> bytes:
        while data := stream.read(size):
            if text := decoder.decode(data):
                return text.encode()
        return decoder.decode(b"", final=True).encode()

    return ByteStream(decoded)


def _stdin() -> IO[bytes]:
    """Return standard input, unbuffered: a reader in another thread must not hold its lock when the program ends."""
    try:
        return cast("IO[bytes]", open(sys.stdin.fileno(), "rb", buffering=0, closefd=False))
    except (OSError, ValueError):  # not a file, as in a test
        return sys.stdin.buffer
