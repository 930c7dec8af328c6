"""Table files, by suffix, read whole or in batches.

CSV and other text (`-` is CSV on standard input), JSON, Excel, Parquet, Feather, NPY and NPZ. Everything becomes an
Arrow table with unique column names; rows keep their order.
"""

import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from knet.files import check_readable
from knet.tables.cells import ReadAs, convert, describe_wrong, remedy
from knet.tables.dialect import Dialect, TextOptions
from knet.tables.formats import READ_TEXT, STDIN, check_suffix

OPTIONS_USED = {".xlsx": ("na", "header"), ".json": ("na",), ".jsonl": ("na",)}  # of TextOptions; text uses all


class Source(AbstractContextManager["Source"]):
    """An open table file: its column names are read at once, its rows on request and only once.

    Parameters
    ----------
    path : str
        The file, or "-" for CSV on standard input.
    options : TextOptions, optional
        What is known about the dialect of a text file; the rest is recognised.
    groups : tuple of int, optional
        First row group of a Parquet file to read, and the one after the last; all by default.

    Attributes
    ----------
    names, renamed, unnamed : list of str
        The column names; those that differ from the file because they are repeated, or missing there.
    dialect : Dialect or None
        The dialect of a text file.
    recognised : str
        What was recognised and differs from a plain CSV, for a message; empty if nothing does.
    """

    def __init__(self, path: str, options: TextOptions | None = None, *, groups: tuple[int, int] | None = None) -> None:
        self.path = path
        self.label = "standard input" if path == STDIN else path
        self.suffix = ".csv" if path == STDIN else check_suffix(path, "read")
        if path != STDIN:
            check_readable(Path(path))
        with _named(self.label):
            self.file = _open(path, self.suffix, options or TextOptions(), groups)
            if self.file.is_empty:
                self.file.close()
                raise ValueError(f"{self.label} is empty.")
        self.dialect: Dialect | None = self.file.dialect
        self.recognised: str = self.file.recognised
        self.unnamed = [f"unnamed_{j}" for j, name in enumerate(self.file.names) if not name]
        self.names, self.renamed = _unique([name or f"unnamed_{j}" for j, name in enumerate(self.file.names)])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Close the file; standard input stays open."""
        self.file.close()

    @property
    def is_text(self) -> bool:
        """Return whether the cells are text, so that the types of the columns have to be inferred."""
        return bool(self.file.is_text)

    @property
    def share_read(self) -> float | None:
        """Return the share of the file that has been read, from 0 to 1; None if it is unknown."""
        share: float | None = self.file.share_read
        return share

    def read(self, types: Mapping[str, ReadAs] | None = None) -> pa.Table:
        """Return all rows; the cells of a text file stay text, except for the columns in `types`."""
        with _named(self.label):
            batches = list(self.file.batches(self.names, self.names))
            if not sum(len(batch) for batch in batches):
                raise ValueError(f"{self.label} has no rows.")
            table = pa.concat_tables(batches)
            return self._typed(table, types or {}, 1) if self.is_text else table

    def batches(self, types: Mapping[str, ReadAs]) -> Iterator[pa.Table]:
        """Yield the columns named in `types` as tables of bounded size; a text file is read as these types."""
        first_row = 1
        with _named(self.label):
            for table in self.file.batches(self.names, list(types)):
                yield self._typed(table, types, first_row) if self.is_text else table
                first_row += len(table)

    def _typed(self, table: pa.Table, types: Mapping[str, ReadAs], first_row: int) -> pa.Table:
        """Return the table with the text of some columns converted; the first wrong cell is an error."""
        assert self.dialect is not None
        columns = {name: table[name] for name in table.column_names}
        for name, read_as in types.items():
            cells = convert(table[name], read_as, self.dialect)
            if cells.n_wrong:
                problem = describe_wrong(name, table[name], cells, read_as.kind, first_row=first_row, count=False)
                option = remedy(problem[1])
                purpose = " if it means a missing value" if option.startswith("--na") else ""
                raise ValueError(f"{problem[0]}; use {option}{purpose}.")
            columns[name] = cells.values
        return pa.table(columns)


def _open(path: str, suffix: str, options: TextOptions, groups: tuple[int, int] | None) -> Any:
    """Open a file with the reader of its format."""
    options.check()
    if suffix in READ_TEXT:
        from knet.tables.text import TextFile

        return TextFile(path, suffix, options)
    options.check_format(suffix, OPTIONS_USED.get(suffix, ()))
    if suffix == ".xlsx":
        from knet.tables.rows import ExcelFile

        return ExcelFile(path, suffix, options)
    if suffix in (".json", ".jsonl"):
        from knet.tables.rows import JsonFile

        return JsonFile(path, suffix, options)
    from knet.tables.binary import BinaryFile

    return BinaryFile(path, suffix, groups)


def _unique(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the names with repeated ones numbered (a, a.1, a.2), and the new names."""
    seen: Counter[str] = Counter()
    taken, unique, renamed = set(names), [], []
    for name in names:
        candidate = name
        while seen[name] and candidate in taken:
            candidate = f"{name}.{seen[name]}"
            seen[name] += 1
        if candidate != name:
            renamed.append(candidate)
            taken.add(candidate)
        else:
            seen[name] = 1
        unique.append(candidate)
    return unique, renamed


@contextmanager
def _named(label: str) -> Iterator[None]:
    """Add the file's name to an error raised inside."""
    try:
        yield
    except csv.Error as error:  # such as a field that is too long
        raise ValueError(f"The header of {label} cannot be read: {error}.") from error
    except (pa.ArrowException, ValueError) as error:  # the latter includes errors of decoding
        text = str(error)
        raise ValueError(text if text.startswith(label) or label in text else f"{label}: {text}") from error
