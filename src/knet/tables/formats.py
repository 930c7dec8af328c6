"""The formats of table files, known by the end of their names."""

from pathlib import Path

DELIMITERS = {".csv": ",", ".tsv": "\t"}  # of the text that is written, and the default of the text that is read
READ_TEXT = (".csv", ".tsv", ".txt")
READ_ROWS = (".json", ".jsonl", ".xlsx")
BINARY = (".parquet", ".feather", ".npy", ".npz")
READ = (*READ_TEXT, *READ_ROWS, *BINARY)
IN_FOLDERS = tuple(suffix for suffix in READ if suffix not in (".txt", ".json"))  # those are often not tables
WRITTEN = (*DELIMITERS, *BINARY)
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
STDIN = "-"


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
        return inner if inner in READ_TEXT or inner in {".json", ".jsonl"} else name.suffix.lower()
    return name.suffix.lower()


def compression_of(path: str) -> str | None:
    """Return Arrow's name for the compression of a file; None if it is not compressed."""
    return COMPRESSIONS.get(Path(path).suffix.lower())


def check_ending(path: Path, *suffixes: str) -> None:
    """Raise an error if the name of a file to write does not end in one of the suffixes."""
    if path.suffix.lower() not in suffixes:
        raise ValueError(f"knet cannot write {str(path)!r}: the name must end in {' or '.join(suffixes)}.")
