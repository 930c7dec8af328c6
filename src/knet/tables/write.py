"""Tables written to files, in batches and by suffix; no file is overwritten without --force."""

import csv
import io
import os
import sys
import zipfile
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from knet.arrays import AnyArray
from knet.files import whole_file
from knet.tables.formats import DELIMITERS, check_suffix
from knet.tables.terminal import TerminalWriter
from knet.tables.write_excel import MAX_ROWS, write_sheet

GROUP_ROWS = 131_072  # rows per group in Parquet and Feather files


class Sink:
    """Writes batches of rows to a file, or to standard output as CSV."""

    def __init__(self, schema: pa.Schema, handle: Any, suffix: str) -> None:
        self.kept: list[pa.Table] = []
        self.handle, self.suffix = handle, suffix
        self.writer: Any = None
        if suffix in DELIMITERS:
            text = io.StringIO()
            csv.writer(text, delimiter=DELIMITERS[suffix], lineterminator="\n").writerow(schema.names)
            handle.write(text.getvalue().encode())
        elif suffix == ".parquet":
            self.writer = pa_parquet.ParquetWriter(handle, schema)
        elif suffix == ".feather":
            self.writer = pa.ipc.new_file(handle, schema)

    def write(self, table: pa.Table) -> None:
        """Write the next rows."""
        if self.suffix in DELIMITERS:
            self.handle.write(_csv_bytes(table, DELIMITERS[self.suffix]))
            return
        self.kept.append(table)
        n_kept = sum(map(len, self.kept))
        if self.writer is not None and n_kept >= GROUP_ROWS:
            self._write_group()
        if self.suffix == ".xlsx" and n_kept > MAX_ROWS:
            raise ValueError(f"A sheet can hold {MAX_ROWS:,} rows. Write .csv or .parquet instead.")

    def close(self) -> None:
        """Finish the file."""
        if self.writer is not None:
            self._write_group()
            self.writer.close()
        elif self.kept and self.suffix == ".xlsx":
            table = pa.concat_tables(self.kept)
            rows = (
                row for part in table.to_batches(GROUP_ROWS) for row in zip(*part.to_pydict().values(), strict=True)
            )
            write_sheet(self.handle, chain([table.column_names], rows))
        elif self.kept:
            self._write_arrays()

    def _write_group(self) -> None:
        """Write the batches kept so far as one group of rows: few large groups are read faster than many small ones."""
        if self.kept:
            self.writer.write_table(pa.concat_tables(self.kept).combine_chunks())
            self.kept.clear()

    def _write_arrays(self) -> None:
        """Write all rows as NumPy arrays, never as pickled objects."""
        table = pa.concat_tables(self.kept)
        arrays = {name: _to_array(table[name]) for name in table.column_names}
        if self.suffix == ".npy":
            columns = list(arrays.values())
            np.save(self.handle, columns[0] if len(columns) == 1 else np.column_stack(columns), allow_pickle=False)
            return
        with zipfile.ZipFile(self.handle, "w") as archive:  # np.savez allows no column called "file"
            for name, values in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, values, allow_pickle=False)


def _to_array(column: pa.ChunkedArray) -> AnyArray:
    """Return a column as an array; text becomes NumPy's own type for text."""
    array: AnyArray = column.to_numpy()
    if array.dtype.kind != "O":
        return array
    text = pc.fill_null(column.cast(pa.string()), "")
    if pc.any(pc.ends_with(text, "\0")).as_py():
        raise ValueError("NumPy would lose a zero character at the end of a text. Write .csv or .parquet instead.")
    return np.array(text.to_pylist(), dtype=np.str_)


def _csv_bytes(table: pa.Table, delimiter: str) -> bytes:
    """Return rows as text; text is quoted only if a value contains a quote, a delimiter or a line end."""
    problem: Exception | None = None
    for quoting in ("none", "needed"):
        buffer = io.BytesIO()
        try:
            options = pa_csv.WriteOptions(include_header=False, delimiter=delimiter, quoting_style=quoting)
            pa_csv.write_csv(table, buffer, options)
            return buffer.getvalue()
        except pa.ArrowInvalid as error:
            problem = error
    raise ValueError(f"The rows cannot be written as text: {problem}. Write .parquet or .feather instead.") from problem


def write_batches(batches: Iterator[pa.Table], path: Path | None, *, force: bool = False) -> int:
    """Write tables of one schema to `path`, or as CSV to standard output; return the number of rows."""
    if path is None:
        return _write_to_stdout(batches)
    suffix = check_suffix(str(path), "write")
    check_target(path, force=force)
    with whole_file(path, overwrite=force) as temporary, open(temporary, "wb") as handle:
        return _write_all(batches, path, handle, suffix)


def _write_to_stdout(batches: Iterator[pa.Table]) -> int:
    """Write rows to standard output as CSV."""
    stream = sys.stdout.buffer
    try:
        n_rows = _write_all(batches, None, TerminalWriter(stream) if sys.stdout.isatty() else stream, ".csv")
        stream.flush()
    except BrokenPipeError:
        raise
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python reports the rest when it exits
        raise
    return n_rows


def _write_all(batches: Iterator[pa.Table], path: Path | None, handle: Any, suffix: str) -> int:
    """Write all batches; the first one defines the schema."""
    sink, n_rows = None, 0
    for table in batches:
        if suffix == ".npy" and any(not _numeric(field.type) for field in table.schema):
            raise ValueError(f"{path} can hold numbers only, not text such as ids. Write .npz, .csv or .parquet.")
        sink = sink or Sink(table.schema, handle, suffix)
        sink.write(table)
        n_rows += len(table)
    if sink is not None:
        sink.close()
    return n_rows


def check_targets(outputs: Iterable[Path | None], inputs: Iterable[str | Path] = (), *, force: bool) -> None:
    """Check every output as `check_target` does, and that no two of them, and no input, are the same file."""
    seen = {os.path.realpath(path): "an input" for path in inputs}
    for path in filter(None, outputs):
        check_target(path, force=force)
        real = os.path.realpath(path)
        if real in seen:
            raise ValueError(f"{path} is also {seen[real]} of this command. Choose another name.")
        seen[real] = "another output"


def check_target(path: Path, *, force: bool) -> None:
    """Raise an error if the folder of `path` is missing or read-only, or if `path` exists and `force` is False."""
    if path.exists() and not force:
        raise FileExistsError(f"{path} exists already. Use --force to overwrite it.")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, not a file.")
    folder = Path(os.path.realpath(path)).parent if path.is_symlink() else path.parent
    if not folder.is_dir():
        raise FileNotFoundError(f"There is no folder {folder} to write {path.name} to.")
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"The folder {folder} cannot be written to.")


def _numeric(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind))
