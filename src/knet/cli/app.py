"""The command `knet`: its commands, its exit codes and its error messages.

Exit codes: 0 done, 2 wrong usage or data, 130 interrupted.
"""

import errno
import functools
import os
import sys
from collections.abc import Callable
from typing import Annotated, ParamSpec

import typer

from knet import __version__
from knet.cli import compare, demo, drift, export, fit, info, predict, refit, report, scan, stability
from knet.cli.messages import say
from knet.cli.options import with_groups

P = ParamSpec("P")

BROKEN_PIPE = 141
OUT_OF_MEMORY = ("not enough memory", "can't allocate memory")  # in the RuntimeError of torch

app = typer.Typer(
    name="knet",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def one_line_errors(command: Callable[P, None]) -> Callable[P, None]:
    """Print errors that the user can correct as one line on standard error, and exit with code 2."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except BrokenPipeError as error:  # the reader of our output closed it, as `head` does
            raise SystemExit(BROKEN_PIPE) from error
        except Exception as error:
            if (text := _message(error)) is None:
                raise
            say(f"knet: {text}")
            raise SystemExit(2) from error

    return wrapped


def _message(error: Exception) -> str | None:
    """Return the text of an error that the user can correct; None for a defect of knet."""
    if isinstance(error, ImportError) and error.name == "pyarrow":
        return "Reading tables needs pyarrow. Install it with: pip install 'knet-clustering[tables]'"
    if isinstance(error, MemoryError) or any(text in str(error) for text in OUT_OF_MEMORY):
        return "The memory is not sufficient. Use fewer rows or columns, or a machine with more memory."
    if isinstance(error, OSError) and error.errno == errno.EBADF:
        return "Standard output is closed, so that the results cannot be written to it."
    own = any(kind.__module__ == "knet.exceptions" for kind in type(error).__mro__)  # without an import of torch
    return str(error) if own or isinstance(error, ValueError | OSError | ImportError) else None


def main() -> None:
    """Run the command line."""
    try:
        one_line_errors(app)()  # Typer itself prints too: the help
    except SystemExit:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except OSError:  # has been reported; Python would report it again when it exits
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
        raise


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"knet {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Spectral clustering that learns its kernel and predicts."""


for command, examples in (
    (scan.scan, scan.EXAMPLES),
    (fit.fit, fit.EXAMPLES),
    (predict.predict, predict.PREDICT_EXAMPLES),
    (predict.embed, predict.EMBED_EXAMPLES),
    (report.report, report.EXAMPLES),
    (stability.stability, stability.EXAMPLES),
    (drift.drift, drift.EXAMPLES),
    (refit.refit, refit.EXAMPLES),
    (compare.compare, compare.EXAMPLES),
    (export.export, export.EXAMPLES),
    (info.info, info.EXAMPLES),
    (demo.demo, demo.EXAMPLES),
):
    app.command(epilog=examples)(one_line_errors(with_groups(command)))
