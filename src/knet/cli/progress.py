"""Progress of long commands on standard error: a line that is rewritten on a terminal, or lines in a pipe."""

import logging
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from knet.cli.messages import say

if TYPE_CHECKING:
    import pyarrow as pa

    from knet.tables.read import Source

T = TypeVar("T")

TERMINAL_SECONDS = 0.2  # between updates on a terminal
PIPE_SECONDS = 10.0  # between lines in a pipe


class ProgressLine:
    """A line of progress, printed only if enough time has passed since the last one."""

    def __init__(self) -> None:
        self.terminal = sys.stderr.isatty()
        self.started = self.printed = time.perf_counter()

    @property
    def seconds(self) -> float:
        """Return the time since the start."""
        return time.perf_counter() - self.started

    @property
    def is_due(self) -> bool:
        """Say whether it is time for the next line."""
        return time.perf_counter() - self.printed >= (TERMINAL_SECONDS if self.terminal else PIPE_SECONDS)

    def show(self, text: str) -> None:
        """Print a line, on a terminal over the last one."""
        self.printed = time.perf_counter()
        sys.stderr.write(f"\r{text}\033[K" if self.terminal else f"{text}\n")

    def clear(self) -> None:
        """Remove the line from a terminal."""
        if self.terminal:
            sys.stderr.write("\r\033[K")


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
def fit_messages() -> Iterator[None]:
    """Print warnings as single lines, and the iterations of a fit if there is no terminal for a progress bar."""
    logger = logging.getLogger("knet")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    level = logger.level
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if not sys.stderr.isatty():
            logger.addHandler(handler)
            logger.setLevel(logging.INFO)
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(level)
    for text in dict.fromkeys(str(entry.message) for entry in caught if issubclass(entry.category, UserWarning)):
        say(f"warning: {text}")
