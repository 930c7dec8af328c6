"""Table files, by suffix, read whole or in batches.

CSV and TSV (`-` is CSV on standard input), Parquet, Feather, NPY and NPZ. Everything becomes an Arrow table with unique
column names; rows keep their order.
"""

import csv
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import IO, Any, cast

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.feather as pa_feather
import pyarrow.parquet as pa_parquet

from knet.tables.whole_files import check_readable

DELIMITERS = {".csv": ",", ".tsv": "\t"}
SUFFIXES = (".csv", ".tsv", ".parquet", ".feather", ".npy", ".npz")
ROWS_AT_A_TIME = 65_536
CSV_BLOCK = 2**20  # bytes of text at a time
HEADER_BYTES = 2**22  # a longer first line is an error
STDIN = "-"


class Source(AbstractContextManager["Source"]):
    """An open table file: its column names are read at once, its rows on request and only once.

    Parameters
    ----------
    path : str
        The file, or "-" for CSV on standard input.
    header : bool, optional
        Whether the first line of a CSV names the columns. With None it does, and a line of numbers only is an error.
    groups : tuple of int, optional
        First row group of a Parquet file to read, and the one after the last; all by default.
    """

    def __init__(self, path: str, header: bool | None = None, *, groups: tuple[int, int] | None = None) -> None:
        self.path, self.groups = path, groups
        self.label = "standard input" if path == STDIN else path
        self.suffix = ".csv" if path == STDIN else check_suffix(path, "read")
        self.renamed: list[str] = []
        self.stream: IO[bytes] | None = None
        self.first = b""
        self.n_rows = self.rows_read = self.blocks_read = 0
        if path != STDIN:
            check_readable(Path(path))
        try:
            with _named(self.label):
                self.names = self._unique(self._open(header))
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Close the file; standard input stays open."""
        if self.stream is not None and self.path != STDIN:
            self.stream.close()

    @property
    def is_text(self) -> bool:
        """Return whether the file is text, so that the types of its columns have to be inferred."""
        return self.suffix in DELIMITERS

    def read(self, types: Mapping[str, Any] | None = None) -> pa.Table:
        """Return all rows; `types` replaces the types inferred from a text file."""
        with _named(self.label):
            batches = list(self._csv(types or {}, None) if self.is_text else self._batches())
            binary = [field.name for batch in batches[:1] for field in batch.schema if pa.types.is_binary(field.type)]
            if self.is_text and binary:
                raise ValueError(f"column {binary[0]!r} is not UTF-8 text. Convert the file to UTF-8 first.")
        if not sum(len(batch) for batch in batches):
            raise ValueError(f"{self.label} has no rows.")
        return pa.concat_tables(batches)

    def batches(self, types: Mapping[str, Any]) -> Iterator[pa.Table]:
        """Yield the columns named in `types` as tables of bounded size; a text file is read as these types."""
        with _named(self.label):
            if self.is_text:
                yield from self._csv(types, list(types))
            else:
                yield from (table.select(list(types)) for table in self._batches())

    @property
    def share_read(self) -> float | None:
        """Return the share of the file that has been read, from 0 to 1; None if it is unknown."""
        if self.stream is not None:
            size = 0 if self.path == STDIN else Path(self.path).stat().st_size
            return min(1.0, self.blocks_read * CSV_BLOCK / size) if size else None
        return self.rows_read / self.n_rows if self.n_rows else None

    def _batches(self) -> Iterator[pa.Table]:
        """Yield the rows of a file that is not text."""
        if self.suffix == ".parquet":
            with pa_parquet.ParquetFile(self.path) as file:
                self.n_rows = file.metadata.num_rows
                groups = None if self.groups is None else range(*self.groups)
                batches = file.iter_batches(ROWS_AT_A_TIME, row_groups=groups)
                yield from self._counted(pa.Table.from_batches([batch]) for batch in batches)
        elif self.suffix == ".feather":
            table = pa_feather.read_table(self.path, memory_map=True)
            table.validate(full=True)  # the offsets in a damaged file could point outside of the memory
            self.n_rows = len(table)
            yield from self._counted(_slices(table))
        else:
            self.n_rows = len(self.array)
            yield from self._counted(self._arrays())

    def _counted(self, tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
        """Yield tables with unique column names, and count their rows."""
        for table in tables:
            self.rows_read += len(table)
            yield table.rename_columns(self.names)

    def _open(self, header: bool | None) -> list[str]:
        """Return the column names; a text file stays open after its header."""
        if self.suffix in DELIMITERS:
            self.stream = _stdin() if self.path == STDIN else open(self.path, "rb")
            return self._header(header)
        if self.suffix == ".parquet":
            return list(pa_parquet.read_schema(self.path).names)
        if self.suffix == ".feather":
            with pa.memory_map(self.path) as file:
                return list(pa.ipc.open_file(file).schema.names)
        self.array = _read_array(self.path)
        return [f"x{j}" for j in range(self.array.shape[1])]

    def _header(self, header: bool | None) -> list[str]:
        """Read the first record of a text file; if it is data, keep it for the reader."""
        assert self.stream is not None
        first = _first_record(self.stream)
        text = first.decode("utf-8-sig").strip("\r\n")
        if not text:
            raise ValueError(f"{self.label} is empty.")
        fields = next(csv.reader(text.splitlines(keepends=True), delimiter=DELIMITERS[self.suffix]))
        numbers = all(_is_number(field) for field in fields)
        if header is None and numbers:
            raise ValueError(
                f"The first line of {self.label} holds only numbers, so it may not be a header. Use --no-header if "
                "it is the first row, or --header if these are the names."
            )
        if header is False:
            self.first = first
            return [f"x{j}" for j in range(len(fields))]
        return [field.strip() for field in fields]

    def _unique(self, names: list[str]) -> list[str]:
        """Return the names with repeated ones numbered (a, a.1, a.2), and store the new names."""
        seen: Counter[str] = Counter()
        taken, unique = set(names), []
        for name in names:
            candidate = name
            while seen[name] and candidate in taken:
                candidate = f"{name}.{seen[name]}"
                seen[name] += 1
            if candidate != name:
                self.renamed.append(candidate)
                taken.add(candidate)
            else:
                seen[name] = 1
            unique.append(candidate)
        return unique

    def _csv(self, types: Mapping[str, Any], only: list[str] | None) -> Iterator[pa.Table]:
        """Yield the rows of a text file, all at once if `only` is None; a wrong number of fields is an error."""
        assert self.stream is not None
        options = {
            "read_options": pa_csv.ReadOptions(column_names=self.names, use_threads=False, block_size=CSV_BLOCK),
            "parse_options": pa_csv.ParseOptions(delimiter=DELIMITERS[self.suffix], newlines_in_values=True),
            "convert_options": pa_csv.ConvertOptions(column_types=dict(types), include_columns=only),
        }
        stream: Any = _Chained(self.first, self.stream) if self.first else self.stream
        try:
            if only is None:
                yield pa_csv.read_csv(stream, **options)
                return
            for batch in pa_csv.open_csv(stream, **options):
                self.blocks_read += 1
                yield pa.Table.from_batches([batch])
        except pa.ArrowInvalid as error:
            if "Empty CSV file" in str(error):
                return
            raise ValueError(self._explain(str(error))) from error

    def _explain(self, message: str) -> str:
        """Return an error message that names the row or the column."""
        if found := re.search(r"(?:Row #(\d+): )?Expected \d+ columns, got (\d+): (.*)", message, re.DOTALL):
            place = f"Row {found[1]}" if found[1] else "A row"
            return f"{place} has {found[2]} fields but the header has {len(self.names)}: {found[3][:80]!r}"
        if found := re.search(r"In CSV column #(\d+): (.*)", message, re.DOTALL):
            return f"column {self.names[int(found[1])]!r}: {found[2]}"
        return message

    def _arrays(self) -> Iterator[pa.Table]:
        """Yield the rows of a NumPy file."""
        for start in range(0, len(self.array), ROWS_AT_A_TIME):
            block = np.asarray(self.array[start : start + ROWS_AT_A_TIME])
            yield pa.table([pa.array(np.ascontiguousarray(column)) for column in block.T], names=self.names)


def _first_record(stream: IO[bytes]) -> bytes:
    """Return the first line, and those after it while a quote is open."""
    lines, n_quotes, n_bytes = list[bytes](), 0, 0
    while line := stream.readline(HEADER_BYTES):
        lines.append(line)
        n_quotes, n_bytes = n_quotes + line.count(b'"'), n_bytes + len(line)
        if n_bytes >= HEADER_BYTES:
            raise ValueError(f"the header has more than {HEADER_BYTES:,} bytes: a line end or a quote is missing.")
        if n_quotes % 2 == 0:
            break
    return b"".join(lines)


def _stdin() -> IO[bytes]:
    """Return standard input, unbuffered: a reader in another thread must not hold its lock when the program ends."""
    try:
        return cast("IO[bytes]", open(sys.stdin.fileno(), "rb", buffering=0, closefd=False))
    except (OSError, ValueError):  # not a file, as in a test
        return sys.stdin.buffer


class _Chained:
    """A file whose first line has been read already: that line, then the rest."""

    closed = False

    def __init__(self, first: bytes, rest: IO[bytes]) -> None:
        self.first, self.rest = first, rest

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        if self.first:
            end = len(self.first) if size < 0 else size
            first, self.first = self.first[:end], self.first[end:]
            return first
        return self.rest.read(size)

    def readable(self) -> bool:
        """Return True, as Arrow asks every file."""
        return True

    def close(self) -> None:
        """Do nothing: the owner closes the file."""


def check_suffix(path: str, verb: str) -> str:
    """Return the suffix of a table file, or raise an error that lists the supported ones."""
    suffix = Path(path).suffix.lower()
    if suffix not in SUFFIXES:
        also = ", or - for CSV on standard input" if verb == "read" else ""
        raise ValueError(f"knet cannot {verb} {path!r}: the name must end in {', '.join(SUFFIXES)}{also}.")
    return suffix


@contextmanager
def _named(label: str) -> Iterator[None]:
    """Add the file's name to an error raised inside."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise ValueError(f"{label} is not UTF-8 text: {error}") from error
    except csv.Error as error:  # such as a field that is too long
        raise ValueError(f"The header of {label} cannot be read: {error}.") from error
    except (pa.ArrowException, ValueError) as error:
        text = str(error)
        raise ValueError(text if text.startswith(label) or label in text else f"{label}: {text}") from error


def _read_array(path: str) -> Any:
    """Return the two-dimensional array of a NumPy file; rows of a large NPY file stay on disk."""
    try:
        return _two_dimensional(np.load(path, mmap_mode="r", allow_pickle=False), path)
    except (OSError, ValueError):
        raise
    except Exception as error:  # NumPy raises errors of many types for a damaged file
        raise ValueError(f"{path} is not a NumPy file, or it is damaged: {error}") from error


def _two_dimensional(loaded: Any, path: str) -> Any:
    """Return the two-dimensional array of numbers in a loaded file."""
    if isinstance(loaded, np.ndarray):
        array: Any = loaded
    else:
        with loaded:
            wanted = [name for name in loaded.files if loaded[name].ndim == 2]
            if len(wanted) != 1 and "X" not in wanted:
                raise ValueError(f"{path} must hold one two-dimensional array, or one named X. Found {loaded.files}.")
            array = loaded["X" if "X" in wanted else wanted[0]]
    if array.ndim != 2 or array.dtype.kind not in "biuf":
        raise ValueError(f"{path} must hold a two-dimensional array of numbers. Got {array.dtype} of {array.shape}.")
    return array


def _slices(table: pa.Table) -> Iterator[pa.Table]:
    """Yield a table in batches."""
    for start in range(0, len(table), ROWS_AT_A_TIME):
        yield table.slice(start, ROWS_AT_A_TIME)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
