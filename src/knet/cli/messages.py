"""What the commands print: lines on standard error, and the summary at the end."""

import json
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import typer

from knet.cli.options import RunOptions
from knet.tables.terminal import LINE, printable


def say(text: str) -> None:
    """Print a line to standard error; control characters, which may come from a table, are escaped."""
    with suppress(OSError):  # a message that cannot be printed must not end the work
        typer.echo(printable(text), err=True)


def print_summary(summary: Mapping[str, object], *, as_json: bool, to_stderr: bool = True) -> None:
    """Print a summary as JSON to standard output, or as a list of lines, by default to standard error."""
    if as_json:
        typer.echo(json.dumps(summary))
        return
    width = max(map(len, summary))
    for name, value in summary.items():
        (say if to_stderr else typer.echo)(printable(f"{name:<{width}}  {_as_text(value)}"))


def _as_text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "-"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def print_result(
    name: str, lines: Sequence[Mapping[str, object]], facts: Mapping[str, object], output: Path | None, run: RunOptions
) -> None:
    """Write lines, rounded, to a file or to standard output, on a terminal as a table, else as CSV; print the summary.

    The summary are `facts`. With --json, the lines are in it, by this name, and standard output has nothing else.
    """
    import pyarrow as pa

    from knet.model.display import text_table
    from knet.tables.write import write_batches

    rounded = [
        {name: float(f"{value:.5g}") if isinstance(value, float) else value for name, value in line.items()}
        for line in lines
    ]
    if output is None and sys.stdout is not None and sys.stdout.isatty() and not run.as_json:
        typer.echo(printable(text_table(list(rounded[0]), [list(line.values()) for line in rounded]), LINE))
    elif output is not None or not run.as_json:
        write_batches(iter([pa.Table.from_pylist(rounded)]), output, force=run.force)
    written = {} if output is None else {"output": str(output)}
    print_summary({**facts, **written, **({name: rounded} if run.as_json else {})}, as_json=run.as_json)


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Print the warnings of a fit as single lines, each once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for text in dict.fromkeys(str(entry.message) for entry in caught if issubclass(entry.category, UserWarning)):
        say(f"warning: {text}")


def note_unseen(counts: Mapping[str, int], n_without_values: int = 0) -> None:
    """Print how many rows have categories that were not seen in training, and how many have no value, so no label."""
    from knet.tables.conversion import describe_unseen

    for note in describe_unseen(counts):
        say(f"note: {note}")
    if n_without_values:
        rows, label = ("1 row has", "its") if n_without_values == 1 else (f"{n_without_values:,} rows have", "their")
        say(f"note: {rows} no value in the columns of the model; {label} label is -1.")
