"""Progress of long work on standard error: a line that is rewritten on a terminal, lines in a notebook or a pipe."""

import logging
import sys
import time
from contextlib import suppress
from typing import Self

logger = logging.getLogger("knet")
logger.addHandler(logging.NullHandler())

TERMINAL_SECONDS = 0.2  # between updates on a terminal
PIPE_SECONDS = 10.0  # between lines in a pipe


class ProgressLine:
    """A line of progress; `is_due` says whether enough time has passed since the last one."""

    def __init__(self) -> None:
        self.terminal = sys.stderr is not None and sys.stderr.isatty()  # None in a program without a console
        self.started = self.printed = time.perf_counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.clear()

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
        self._write(f"\r{text}\033[K" if self.terminal else f"{text}\n")

    def clear(self) -> None:
        """Remove the line from a terminal."""
        if self.terminal:
            self._write("\r\033[K")

    def _write(self, text: str) -> None:
        if sys.stderr is not None:
            with suppress(OSError):  # a line that cannot be printed must not end the work
                sys.stderr.write(text)
                sys.stderr.flush()


class IterationReporter:
    """Log every iteration of a fit; if `verbose`, also show it, unless the user's logging shows the records already."""

    def __init__(self, verbose: int) -> None:
        self.level = logging.INFO if verbose else logging.DEBUG
        self.line = ProgressLine() if verbose and not _logging_shows(self.level) else None

    def __call__(self, row: dict[str, float]) -> None:
        """Report one row of the history; the reconstruction is 0 without a decoder, and then left out."""
        reconstruction = f"reconstruction {row['reconstruction']:.4f}, " if row["reconstruction"] else ""
        text = (
            f"iteration {row['iteration']:.0f}: HSIC {row['hsic']:.4f}, {reconstruction}"
            f"change of K_U {row['u_change']:.4f}, {row['seconds']:.2f} s"
        )
        self.say(text, is_due=True)

    def say(self, text: str, *, is_due: bool = False) -> None:
        """Log a text; show it on a terminal, and elsewhere if it is due."""
        logger.log(self.level, text)
        if self.line is not None and (is_due or self.line.terminal or self.line.is_due):
            self.line.show(text)

    def close(self) -> None:
        """Remove the line from a terminal."""
        if self.line is not None:
            self.line.clear()


def _logging_shows(level: int) -> bool:
    """Return whether the user has set up logging for records of this level."""
    handlers = [*logger.handlers, *logging.getLogger().handlers]
    return logger.isEnabledFor(level) and any(not isinstance(handler, logging.NullHandler) for handler in handlers)
