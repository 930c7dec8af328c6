"""What the commands print: lines on standard error, and the summary at the end."""

import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import typer

from knet.tables.terminal import printable


def say(text: str) -> None:
    """Print a line to standard error; control characters, which may come from a table, are escaped."""
    with suppress(OSError):  # a message that cannot be printed must not end the work
        typer.echo(printable(text), err=True)


def print_summary(summary: Mapping[str, Any], *, as_json: bool, to_stderr: bool = True) -> None:
    """Print a summary as JSON to standard output, or as a list of lines, by default to standard error."""
    if as_json:
        typer.echo(json.dumps(summary))
        return
    width = max(map(len, summary))
    for name, value in summary.items():
        (say if to_stderr else typer.echo)(printable(f"{name:<{width}}  {_as_text(value)}"))


def _as_text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Print the warnings of a fit as single lines, each once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for text in dict.fromkeys(str(entry.message) for entry in caught if issubclass(entry.category, UserWarning)):
        say(f"warning: {text}")


def note_unseen(counts: Mapping[str, int]) -> None:
    """Print how many rows have categories that were not seen in training."""
    for name, count in counts.items():
        rows = "1 row has" if count == 1 else f"{count:,} rows have"
        say(f"note: {rows} a value in {name!r} that was not seen in training; it is encoded as zeros.")
