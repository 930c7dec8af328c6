"""JSON, JSON lines and Excel: their cells are Python values, which become text cells like those of a CSV."""

import codecs
import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, reduce
from itertools import chain, islice
from typing import TYPE_CHECKING
from xml.parsers import expat

import pyarrow as pa

from knet.arrays import Json
from knet.tables.dialect import Dialect, TextOptions, has_header
from knet.tables.formats import OpenTable
from knet.tables.text import TextStream

if TYPE_CHECKING:
    from python_calamine import CalamineSheet

ROWS_AT_A_TIME = 16_384
FIRST_ROWS = 1000  # of JSON, whose fields are the columns
MAX_JSON = 2**26  # characters of JSON that is read as a whole
MAX_VALUES = 2**22  # of JSON that is read as a whole, or of a line: as Python objects, each needs about 250 bytes
MAX_CELLS = 2**24  # of a sheet: from its first to its last row and column
MAX_XML = 2**30  # bytes of a workbook, decompressed


def to_cell(value: object) -> str:
    """Return a Python value as the text that a CSV would have; None is the empty text.

    Examples
    --------
    >>> to_cell(0.1), to_cell(True), to_cell(None)
    ('0.1', 'true', '')
    """
    if value is None or value != value:  # NaN, NaT
        return ""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _tables(rows: Iterator[Sequence[str]]) -> Iterator[pa.Table]:
    """Yield rows of cells as tables of bounded size."""
    while block := list(islice(rows, ROWS_AT_A_TIME)):
        columns = [pa.array(column, pa.string()) for column in zip(*block, strict=True)]
        yield pa.table(columns, names=[str(j) for j in range(len(columns))])


def open_json(stream: TextStream, suffix: str, options: TextOptions) -> OpenTable:
    """Open a list of objects, columns as pandas writes them, or one object per line.

    Lines are read in batches. Other JSON is read as a whole, so that its size is limited.
    """
    rows = _json_lines(_lines(stream)) if suffix == ".jsonl" else iter(_whole_json(stream))
    first = list(islice(rows, FIRST_ROWS))
    names = list(dict.fromkeys(name for row in first for name in row))

    def cells(positions: list[int]) -> Iterator[list[str]]:
        wanted, known = [names[j] for j in positions], frozenset(names)
        for number, row in enumerate(chain(first, rows), 1):
            if len(wanted) == len(names) and not row.keys() <= known:
                name = next(name for name in row if name not in known)
                raise ValueError(f"Row {number} has the field {name!r}, which the first {FIRST_ROWS:,} rows lack.")
            yield [to_cell(row.get(name)) for name in wanted]

    dialect = Dialect(na=options.missing_words)
    return OpenTable(names, lambda positions: _tables(cells(positions)), stream.share_read, stream.close, dialect)


def _whole_json(stream: TextStream) -> Iterable[Mapping[str, Json]]:
    """Return the rows of a JSON file; one object per line is allowed in spite of the name."""
    while not stream.is_complete:
        stream.read_more()
        if len(stream.text) > MAX_JSON:
            raise ValueError(
                f"The file has more than {MAX_JSON:,} characters, and JSON is read as a whole. Write one object per "
                "line to a file that ends in .jsonl: it is read in batches."
            )
    if not stream.text.strip():
        return []
    found, rest = _decode(stream.text, "This")
    return _json_lines(stream.text.split("\n")) if rest else _rows_of(found)


def _lines(stream: TextStream) -> Iterator[str]:
    for block in stream.blocks(lambda text: text.rfind("\n") + 1):
        yield from block.removesuffix("\n").split("\n")


def _json_lines(lines: Iterable[str]) -> Iterator[Mapping[str, Json]]:
    """Yield one object per line."""
    for number, line in enumerate(lines, 1):
        if line.strip():
            row, rest = _decode(line, f"Line {number}")
            if rest or not isinstance(row, dict):
                raise ValueError(f'Line {number} must be an object such as {{"a": 1}}. Got {line[:40]!r} instead.')
            yield row


def _decode(text: str, what: str) -> tuple[Json, str]:
    """Return the JSON value at the beginning of a text, and the first characters that follow it."""
    text = text.strip()
    if sum(map(text.count, ",[{")) > MAX_VALUES:  # each value follows one of these
        raise ValueError(
            f"{what} may have more than {MAX_VALUES:,} values, and JSON is read as a whole. Write one object per line "
            "to a file that ends in .jsonl: it is read in batches."
        )
    try:
        found, end = json.JSONDecoder().raw_decode(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{what} is not JSON: {error}") from error
    except RecursionError as error:
        raise ValueError(f"{what} is not a table: the JSON is nested too deeply.") from error
    return found, text[end : end + 10]


def _rows_of(found: Json) -> Iterable[Mapping[str, Json]]:
    """Return the rows of a JSON value: a list of objects, or one list or object of values per column."""
    if isinstance(found, list) and all(isinstance(row, dict) for row in found):
        return found
    if isinstance(found, dict) and "columns" in found and "data" in found:
        names, data = found["columns"], found["data"]
        if not isinstance(names, list) or len({*map(str, names)}) < len(names) or not isinstance(data, list):
            raise ValueError('In {"columns": ..., "data": ...}, both must be lists, and the columns must differ.')
        for number, row in enumerate(data, 1):
            if not isinstance(row, list) or len(row) != len(names):
                raise ValueError(f'Row {number} of "data" must be a list of {len(names)} values, one per column.')
        return [dict(zip(map(str, names), row, strict=True)) for row in data]
    if isinstance(found, dict) and found and all(isinstance(column, dict | list) for column in found.values()):
        columns = [list(column.values() if isinstance(column, dict) else column) for column in found.values()]
        if len({len(column) for column in columns}) > 1:
            raise ValueError("The columns of the JSON have different numbers of values.")
        return [dict(zip(found, row, strict=True)) for row in zip(*columns, strict=True)]
    raise ValueError('The JSON must be a list of objects, [{"a": 1, "b": 2}, ...], or columns, {"a": [1, 2], ...}.')


def open_excel(path: str, options: TextOptions) -> OpenTable:
    """Open the first sheet of an Excel workbook."""
    sheet, n_sheets = _first_sheet(path)
    n_read = 0

    def cells() -> Iterator[list[str]]:
        nonlocal n_read
        for row in sheet.iter_rows():
            n_read += 1
            # Excel stores whole numbers as floats too.
            values = (int(value) if isinstance(value, float) and value.is_integer() else value for value in row)
            if any(found := [to_cell(value) for value in values]):
                yield found

    rows = cells()
    first = list(islice(rows, FIRST_ROWS))
    dialect = Dialect(na=options.missing_words)
    dialect = replace(dialect, header=has_header(first, dialect, options))
    names = [name.strip() if dialect.header else f"x{j}" for j, name in enumerate(first[0] if first else [])]

    def tables(positions: list[int]) -> Iterator[pa.Table]:
        return _tables([row[j] for j in positions] for row in chain(first[int(dialect.header) :], rows))

    others = f"sheet {sheet.name!r} of {n_sheets}" if n_sheets > 1 else ""
    recognised = ", ".join(filter(None, [others, dialect.differences(Dialect(), options)]))
    return OpenTable(names, tables, lambda: n_read / max(1, sheet.height), dialect=dialect, recognised=recognised)


def _first_sheet(path: str) -> "tuple[CalamineSheet, int]":
    """Return the first sheet of a workbook, and the number of sheets."""
    try:
        from python_calamine import CalamineWorkbook
    except ImportError as error:
        raise ImportError(
            "Reading .xlsx files needs python-calamine. Install it with: pip install 'knet-clustering[excel]'"
        ) from error
    try:
        with zipfile.ZipFile(path) as file:
            _check_size(file)
        book = CalamineWorkbook.from_path(path)
        return book.get_sheet_by_index(0), len(book.sheet_names)
    except OverflowError as error:
        raise ValueError(f"{path} is too large: {error} Save the sheet as CSV.") from error
    except Exception as error:  # those of zipfile, expat and calamine
        raise ValueError(f"{path} is not an Excel workbook (.xlsx), or it is damaged: {error}") from error


def _check_size(file: zipfile.ZipFile) -> None:
    """Raise an OverflowError for sheets that span too many cells: calamine allocates all of them, or ends the process.

    The cells decide, not the dimension that a sheet claims. Sheets can have any name, so that all XML is read.
    """
    if sum(member.file_size for member in file.infolist()) > MAX_XML:
        raise OverflowError(f"it has more than {MAX_XML:,} bytes of XML.")
    for member in file.infolist():
        if member.filename.lower().endswith(".vml"):  # drawings of comments, often not well-formed
            continue
        with file.open(member) as stream:
            start = stream.read(64)
            if start.removeprefix(codecs.BOM_UTF8).lstrip().startswith(b"<"):
                parser = _sheet_parser()
                parser.Parse(start)
                parser.ParseFile(stream)


def _sheet_parser() -> expat.XMLParserType:
    """Return a parser of XML that raises an OverflowError if rows and cells of a sheet span too many cells."""
    row = column = height = width = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal row, column, height, width
        kind = tag.rpartition(":")[2]
        place = attributes.get("r", "")  # rows and cells need not say where they are
        if kind == "row":
            row, column = int(place or row + 1), 0
        elif kind == "c":
            letters = place.rstrip("0123456789")
            row, column = int(place[len(letters) :] or row), _column_number(letters) if letters else column + 1
        else:
            return
        height, width = max(height, row), max(width, column)
        if height * width > MAX_CELLS:
            raise OverflowError(f"a sheet spans more than {MAX_CELLS:,} cells.")

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    return parser


@lru_cache(2**14)
def _column_number(letters: str) -> int:
    """Return the number of a column: A is 1, Z is 26, AA is 27."""
    if not re.fullmatch("[A-Za-z]{1,4}", letters):
        raise ValueError(f"there is no column {letters[:10]!r}.")
    return reduce(lambda number, letter: 26 * number + ord(letter) - ord("A") + 1, letters.upper(), 0)
