"""The formats of table files, known by the end of their names, and what the reader of each format returns."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from knet.tables.dialect import Dialect

if TYPE_CHECKING:
    import pyarrow as pa

DELIMITERS = {".csv": ",", ".tsv": "\t"}  # of the text that is written, and the default of the text that is read
READ_TEXT = (".csv", ".tsv", ".txt")
READ_JSON = (".json", ".jsonl")
BINARY = (".parquet", ".feather", ".npy", ".npz")
READ = (*READ_TEXT, *READ_JSON, ".xlsx", *BINARY)
IN_FOLDERS = tuple(suffix for suffix in READ if suffix not in (".txt", ".json"))  # those are often not tables
WRITTEN = (*DELIMITERS, *BINARY, ".xlsx")
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
STDIN = "-"


@dataclass(frozen=True)
class OpenTable:
    """An open table file, as the reader of its format returns it."""

    names: list[str]  # as in the file; none if it is empty
    tables: Callable[[list[int]], "Iterator[pa.Table]"]  # yields the columns at these positions, some rows at a time
    share_read: Callable[[], float | None]  # from 0 to 1; None if it is unknown
    close: Callable[[], None] = lambda: None
    dialect: Dialect | None = None  # if the cells are text
    recognised: str = ""  # what differs from the usual, for a message


def check_suffix(path: str, verb: str) -> str:
    """Return the format of a table file as a suffix, or raise an error that lists the supported ones.

    Examples
    --------
    >>> check_suffix("rows.CSV.gz", "read")
    '.csv'
    """
    suffix = suffix_of(path) if verb == "read" else Path(path).suffix.lower()
    allowed = READ if verb == "read" else WRITTEN
    if suffix not in allowed:
        also = " (text also with .gz, .bz2 or .zst), or - for CSV on standard input" if verb == "read" else ""
        raise ValueError(f"knet cannot {verb} {path!r}: the name must end in {', '.join(allowed)}{also}.")
    return suffix


def suffix_of(path: str) -> str:
    """Return the suffix that names the format: `.csv` for `rows.csv.gz`; a compressed binary file has none."""
    name = Path(path)
    if name.suffix.lower() in COMPRESSIONS:
        inner = name.with_suffix("").suffix.lower()
        return inner if inner in (*READ_TEXT, *READ_JSON) else name.suffix.lower()
    return name.suffix.lower()


def check_ending(path: Path, *suffixes: str) -> None:
    """Raise an error if the name of a file to write does not end in one of the suffixes."""
    if path.suffix.lower() not in suffixes:
        raise ValueError(f"knet cannot write {str(path)!r}: the name must end in {' or '.join(suffixes)}.")
