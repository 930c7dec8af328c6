"""Table files, by suffix, read whole or in batches.

CSV and other text (`-` is CSV on standard input), JSON, Excel, Parquet, Feather, NPY and NPZ. Everything becomes an
Arrow table with unique column names; rows keep their order.
"""

import csv
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pyarrow as pa

from knet.files import check_readable
from knet.tables.cells import Column, convert, describe_wrong, remedy
from knet.tables.dialect import TextOptions
from knet.tables.formats import READ_JSON, READ_TEXT, STDIN, OpenTable, check_suffix

MAX_COLUMNS = 2**17  # each needs about 2 kB as a column of an Arrow table, in addition to its values
OPTIONS_USED = {".xlsx": ("na", "header"), ".json": ("na",), ".jsonl": ("na",)}  # of TextOptions; text uses all


class Source(AbstractContextManager["Source"]):
    """An open table file, or CSV on standard input ("-"): its column names are read at once, its rows once, on request.

    `options` are what is known about the dialect of a text file; the rest is recognised. `groups` are the first row
    group of a Parquet file to read, and the one after the last. Of the column `names`, those `renamed` are repeated in
    the file, and those `unnamed` are missing there. A file whose cells are text (`is_text`) has a `dialect`;
    `recognised` says what differs from a plain CSV.
    """

    def __init__(self, path: str, options: TextOptions | None = None, *, groups: tuple[int, int] | None = None) -> None:
        self.path = path
        self.label = "standard input" if path == STDIN else path
        self.suffix = ".csv" if path == STDIN else check_suffix(path, "read")
        if path != STDIN:
            check_readable(Path(path))
        with _named(self.label):
            self.file = _open(path, self.suffix, options or TextOptions(), groups)
            n_columns = len(self.file.names)
            if not 0 < n_columns <= MAX_COLUMNS:
                self.file.close()
                limit = f"a table may have at most {MAX_COLUMNS:,}. Pass an array to knet.KNet in Python instead."
                raise ValueError(f"{self.label} {f'has {n_columns:,} columns; {limit}' if n_columns else 'is empty.'}")
        self.dialect, self.recognised = self.file.dialect, self.file.recognised
        self.is_text = self.dialect is not None
        self.unnamed = [f"unnamed_{j}" for j, name in enumerate(self.file.names) if not name]
        self.names, self.renamed = _unique([name or f"unnamed_{j}" for j, name in enumerate(self.file.names)])

    def __exit__(self, *error: object) -> None:
        """Close the file; standard input stays open."""
        self.file.close()

    def read(self, types: Mapping[str, Column] | None = None) -> pa.Table:
        """Return all rows; the cells of a text file stay text, except for the columns in `types`."""
        with _named(self.label):
            batches = list(self.file.tables(list(range(len(self.names)))))
            if not sum(map(len, batches)):
                raise ValueError(f"{self.label} has no rows.")
            return self._typed(pa.concat_tables(batches).rename_columns(self.names), types or {}, 1)

    def batches(self, types: Mapping[str, Column], keep: Sequence[str] = ()) -> Iterator[tuple[pa.Table, pa.Table]]:
        """Yield tables of bounded size: the columns named in `types`, as these types, and `keep` as in the file."""
        first_row, places = 1, {name: j for j, name in enumerate(self.names)}
        names = list(dict.fromkeys([*types, *keep]))
        with _named(self.label):
            for cells in self.file.tables([places[name] for name in names]):
                named = cells.rename_columns(names)
                yield self._typed(named.select(list(types)), types, first_row), named.select(list(keep))
                first_row += len(cells)

    def _typed(self, table: pa.Table, types: Mapping[str, Column], first_row: int) -> pa.Table:
        """Return the table with the text of some columns converted; the first wrong cell is an error."""
        if self.dialect is None:
            return table
        columns = dict(zip(table.column_names, table.columns, strict=True))
        for name, column in types.items():
            cells = convert(table[name], column, self.dialect)
            if cells.n_wrong:
                message, word = describe_wrong(name, table[name], cells, column.kind, first_row, count=False)
                option = remedy(word)
                purpose = " if it means a missing value" if option.startswith("--na") else ""
                raise ValueError(f"{message}; use {option}{purpose}.")
            columns[name] = cells.values
        return pa.table(columns)


def _open(path: str, suffix: str, options: TextOptions, groups: tuple[int, int] | None) -> OpenTable:
    """Open a file with the reader of its format; each is imported when it is needed."""
    options.check()
    if suffix not in READ_TEXT:
        options.check_format(suffix, OPTIONS_USED.get(suffix, ()))
    if suffix == ".xlsx":
        from knet.tables.json_excel import open_excel

        return open_excel(path, options)
    if suffix not in (*READ_TEXT, *READ_JSON):
        from knet.tables.binary import open_binary

        return open_binary(path, suffix, groups)
    from knet.tables.text import TextStream, open_text

    stream = TextStream(path, options.encoding)
    try:
        if suffix in READ_TEXT:
            return open_text(stream, suffix, options)
        from knet.tables.json_excel import open_json

        return open_json(stream, suffix, options)
    except BaseException:
        stream.close()
        raise


def _unique(names: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the names with repeated ones numbered (a, a.1, a.2), and the new names."""
    seen, taken, unique = Counter[str](), set(names), list[str]()
    for name in names:
        candidate = name
        while seen[name] and candidate in taken:
            candidate = f"{name}.{seen[name]}"
            seen[name] += 1
        seen[name] = seen[name] or 1
        taken.add(candidate)
        unique.append(candidate)
    return unique, [new for new, old in zip(unique, names, strict=True) if new != old]


@contextmanager
def _named(label: str) -> Iterator[None]:
    """Add the file's name to an error raised inside."""
    try:
        yield
    except csv.Error as error:  # such as a field that is too long
        raise ValueError(f"The header of {label} cannot be read: {error}.") from error
    except (pa.ArrowException, ValueError) as error:  # the latter includes errors of decoding
        text = str(error)
        raise ValueError(text if label in text else f"{label}: {text}") from error
