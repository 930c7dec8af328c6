"""Tables whose cells are Python values: JSON, JSON lines and Excel. They become text cells, like those of a CSV."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from itertools import chain, islice
from typing import Any

import pyarrow as pa

from knet.tables.dialect import Dialect, TextOptions, is_header
from knet.tables.text import ByteStream, InputFile, closed_on_error

ROWS_AT_A_TIME = 16_384
FIRST_ROWS = 1000  # of JSON lines, whose fields are the columns


class JsonFile:
    """A JSON file: a list of objects, objects by column as pandas writes them, or one object per line.

    JSON lines are read in batches; other JSON is read as a whole.
    """

    is_text = True
    recognised = ""

    def __init__(self, path: str, suffix: str, options: TextOptions) -> None:
        self.dialect = Dialect(na=_missing_words(options))
        self.file = InputFile(path)
        with closed_on_error(self.file):
            self.rows = _objects(self.file.stream, lines=suffix == ".jsonl")
            self.first = list(islice(self.rows, FIRST_ROWS))
        self.names = list(dict.fromkeys(name for row in self.first for name in row))
        self.is_empty = not self.first

    def batches(self, names: Sequence[str], only: Sequence[str]) -> Iterator[pa.Table]:
        """Yield the columns in `only` as text, in tables of bounded size."""
        known = set(self.names) if len(only) == len(names) else None
        rows = _checked(chain(self.first, self.rows), known)
        while block := list(islice(rows, ROWS_AT_A_TIME)):
            yield pa.table({name: pa.array([to_cell(row.get(name)) for row in block], pa.string()) for name in only})

    @property
    def share_read(self) -> float | None:
        """Return the share of the file that has been read, from 0 to 1; None if it is unknown."""
        return self.file.share_read

    def close(self) -> None:
        """Close the file."""
        self.file.close()


class ExcelFile:
    """The first sheet of an Excel workbook."""

    is_text = True

    def __init__(self, path: str, suffix: str, options: TextOptions) -> None:
        self.book = _open_workbook(path)
        sheet = self.book.worksheets[0]
        self.n_rows, self.rows_read = sheet.max_row or 0, 0
        filled = (cells for row in sheet.iter_rows(values_only=True) if any(cells := [to_cell(value) for value in row]))
        first = list(islice(filled, FIRST_ROWS))
        self.is_empty, dialect = not first, Dialect(na=_missing_words(options))
        header = options.header
        if header is None:
            header = not first or is_header(first, dialect, options.prior)
        self.dialect = Dialect(header=header, na=dialect.na)
        self.names = [name.strip() if header else f"x{j}" for j, name in enumerate(first[0] if first else [])]
        self.rows = chain(first[1 if header else 0 :], filled)
        others = f"sheet {sheet.title!r} of {len(self.book.worksheets)}" if len(self.book.worksheets) > 1 else ""
        self.recognised = ", ".join(filter(None, [others, self.dialect.differences(Dialect(), options)]))

    def batches(self, names: Sequence[str], only: Sequence[str]) -> Iterator[pa.Table]:
        """Yield the columns in `only` as text, in tables of bounded size."""
        while block := list(islice(self.rows, ROWS_AT_A_TIME)):
            self.rows_read += len(block)
            columns = [(name, names.index(name)) for name in only]
            yield pa.table(
                {name: pa.array([row[j] if j < len(row) else "" for row in block], pa.string()) for name, j in columns}
            )

    @property
    def share_read(self) -> float | None:
        """Return the share of the rows that has been read, from 0 to 1; None if it is unknown."""
        return min(1.0, self.rows_read / self.n_rows) if self.n_rows else None

    def close(self) -> None:
        """Close the workbook."""
        self.book.close()


def to_cell(value: Any) -> str:
    """Return a Python value as the text that a CSV would have; None is the empty text.

    Examples
    --------
    >>> to_cell(0.1), to_cell(True), to_cell(None)
    ('0.1', 'true', '')
    """
    if value is None or value != value:  # NaN, NaT
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, datetime):
        return value.isoformat(sep=" ")
    if isinstance(value, str):
        return value
    return value.isoformat() if isinstance(value, date) else str(value)


def _missing_words(options: TextOptions) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*options.na, *(options.prior.na if options.prior else ()))))


def _checked(rows: Iterable[Any], known: set[str] | None) -> Iterator[Any]:
    """Yield the rows; if `known` is given, a row with other fields is an error."""
    for number, row in enumerate(rows, 1):
        if known is not None and not row.keys() <= known:
            name = next(name for name in row if name not in known)
            raise ValueError(f"Row {number} has the field {name!r}, which the first {FIRST_ROWS:,} rows do not have.")
        yield row


def _objects(stream: ByteStream, *, lines: bool) -> Iterator[Mapping[str, Any]]:
    """Yield the rows of a JSON file as objects."""
    if lines:
        return _json_lines(stream.lines())
    text = b"".join(stream.blocks())
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        if error.msg == "Extra data":  # one object per line, in spite of the name
            return _json_lines(text.splitlines())
        raise ValueError(f"This is not JSON: {error}") from error
    return iter(_rows_of(found))


def _json_lines(lines: Iterable[bytes]) -> Iterator[Mapping[str, Any]]:
    """Yield one object per line."""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise ValueError(f"Line {number} is not JSON: {error}") from error
        if not isinstance(row, dict):
            raise ValueError(f'Line {number} must be an object such as {{"a": 1}}. Got {line[:40]!r} instead.')
        yield row


def _rows_of(found: Any) -> list[Mapping[str, Any]]:
    """Return the rows of a JSON value: a list of objects, or one list or object of values per column."""
    if isinstance(found, list) and all(isinstance(row, dict) for row in found):
        return found
    if isinstance(found, dict) and isinstance(found.get("data"), list) and "columns" in found:
        return [dict(zip(map(str, found["columns"]), row, strict=True)) for row in found["data"]]
    if isinstance(found, dict) and found and all(isinstance(column, dict | list) for column in found.values()):
        columns = {
            name: list(column.values() if isinstance(column, dict) else column) for name, column in found.items()
        }
        if len({len(column) for column in columns.values()}) == 1:
            return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
    raise ValueError('The JSON must be a list of objects, [{"a": 1, "b": 2}, ...], or columns, {"a": [1, 2], ...}.')


def _open_workbook(path: str) -> Any:
    """Open an Excel workbook for reading."""
    try:
        from openpyxl import load_workbook
    except ImportError as error:
        raise ImportError(
            "Reading .xlsx files needs openpyxl. Install it with: pip install 'knet-clustering[excel]'"
        ) from error
    try:
        return load_workbook(path, read_only=True, data_only=True)
    except Exception as error:  # openpyxl raises errors of zipfile, xml and its own
        raise ValueError(f"{path} is not an Excel workbook (.xlsx): {error}") from error
