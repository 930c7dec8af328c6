"""Table files with typed columns: Parquet, Feather, NPY and NPZ."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as pa_feather
import pyarrow.parquet as pa_parquet

from knet.tables import vectors

ROWS_AT_A_TIME = 65_536
VALUES_AT_A_TIME = 2**24  # maximum, for tables with many columns


class BinaryFile:
    """A Parquet, Feather or NumPy file.

    Parameters
    ----------
    path, suffix : str
        The file and its format.
    groups : tuple of int, optional
        First row group of a Parquet file to read, and the one after the last; all by default.
    """

    is_text = False
    recognised = ""
    dialect = None
    is_empty = False

    def __init__(self, path: str, suffix: str, groups: tuple[int, int] | None = None) -> None:
        self.path, self.suffix, self.groups = path, suffix, groups
        self.n_rows = self.rows_read = 0
        self.vectors: dict[str, int] = {}  # columns of vectors, and how long these are
        self.names = self._open()
        self.step = min(ROWS_AT_A_TIME, max(1, VALUES_AT_A_TIME // max(1, len(self.names))))

    def _open(self) -> list[str]:
        """Return the column names; a column of vectors becomes one column per number."""
        if self.suffix not in (".parquet", ".feather"):
            self.array = _read_array(self.path)
            return [f"x{j}" for j in range(self.array.shape[1])]
        if self.suffix == ".parquet":
            schema = pa_parquet.read_schema(self.path)
        else:
            with pa.memory_map(self.path) as file:
                schema = pa.ipc.open_file(file).schema
        self.vectors = vectors.widths(schema, lambda: next(iter(self._tables(1)), None))
        return vectors.numbered(schema.names, self.vectors)

    def batches(self, names: Sequence[str], only: Sequence[str]) -> Iterator[pa.Table]:
        """Yield the columns in `only`, in tables of bounded size."""
        for table in self._tables(self.step):
            flat = vectors.flatten(table, self.vectors, self.rows_read) if self.vectors else table
            self.rows_read += len(table)
            yield flat.rename_columns(list(names)).select(list(only))

    def _tables(self, step: int) -> Iterable[pa.Table]:
        """Yield all columns, `step` rows at a time."""
        if self.suffix == ".parquet":
            with pa_parquet.ParquetFile(self.path) as file:
                self.n_rows = file.metadata.num_rows
                groups = None if self.groups is None else range(*self.groups)
                for batch in file.iter_batches(step, row_groups=groups):
                    yield pa.Table.from_batches([batch])
        elif self.suffix == ".feather":
            table = pa_feather.read_table(self.path, memory_map=True)
            table.validate(full=True)  # the offsets in a damaged file could point outside of the memory
            self.n_rows = len(table)
            for start in range(0, len(table), step):
                yield table.slice(start, step)
        else:
            self.n_rows = len(self.array)
            for start in range(0, len(self.array), step):
                block = np.asarray(self.array[start : start + step])
                yield pa.table([pa.array(np.ascontiguousarray(column)) for column in block.T], names=self.names)

    @property
    def share_read(self) -> float | None:
        """Return the share of the rows that has been read, from 0 to 1; None before the first."""
        return self.rows_read / self.n_rows if self.n_rows else None

    def close(self) -> None:
        """Do nothing: every batch is read from a file of its own."""


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
