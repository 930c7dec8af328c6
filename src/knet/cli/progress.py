"""Progress of long commands on standard error: a line that is rewritten on a terminal, or lines in a pipe."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from knet.cli.messages import say
from knet.progress import ProgressLine

if TYPE_CHECKING:
    import pyarrow as pa

    from knet.tables.read import Source

T = TypeVar("T")


def count_rows(tables: Iterator["pa.Table"], source: "Source") -> Iterator["pa.Table"]:
    """Yield the tables of a source and print how many rows are done."""
    line, n_rows = ProgressLine(), 0
    for table in tables:
        yield table
        n_rows += len(table)
        if line.is_due:
            rate = n_rows / line.seconds
            line.show(f"{n_rows:,} rows, {rate:,.0f} per second{_time_left(source, line.seconds)}")
    line.clear()


def count_parts(parts: Iterator[T], total: int) -> Iterator[T]:
    """Yield finished parts of a folder and print how many are done."""
    line = ProgressLine()
    for number, part in enumerate(parts, 1):
        yield part
        if line.is_due:
            line.show(f"{number:,} of {total:,} parts")
    line.clear()


def _time_left(source: "Source", seconds: float) -> str:
    """Return how long the rest of a file will take, if its length is known."""
    share = source.share_read
    return f", {seconds * (1 - share) / share:.0f} s left" if share else ""


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Print the warnings of a fit as single lines, each once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for text in dict.fromkeys(str(entry.message) for entry in caught if issubclass(entry.category, UserWarning)):
        say(f"warning: {text}")
