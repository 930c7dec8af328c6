"""The command `knet`: its commands, its exit codes and its error messages.

Exit codes: 0 done, 2 wrong usage or data, 130 interrupted.
"""

import functools
import os
import signal
import sys
from collections.abc import Callable
from types import FrameType
from typing import Annotated, ParamSpec

import typer

from knet import __version__
from knet.cli import INTERRUPTED, demo, export, fit, info, predict, report, scan
from knet.cli.messages import say
from knet.files import remove_unfinished

P = ParamSpec("P")

BROKEN_PIPE = 141
OUT_OF_MEMORY = ("not enough memory", "can't allocate memory")  # in the RuntimeError of torch

app = typer.Typer(
    name="knet",
    help="Spectral clustering that learns its kernel and predicts.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """Run the command line."""
    signal.signal(signal.SIGTERM, _terminate)
    try:
        app()
    except SystemExit as end:
        if end.code == INTERRUPTED:  # a normal exit would wait for threads that still wait for input
            sys.stderr.flush()
            os._exit(INTERRUPTED)
        raise


def _terminate(number: int, frame: FrameType | None) -> None:
    """Remove unfinished files and exit at once: third-party code could catch an exception raised here."""
    remove_unfinished()
    os._exit(128 + number)


def one_line_errors(command: Callable[P, None]) -> Callable[P, None]:
    """Print errors that the user can correct as one line on standard error, and exit with code 2."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except BrokenPipeError as error:  # the reader of our output closed it, as `head` does
            sys.stderr.close()
            raise SystemExit(BROKEN_PIPE) from error
        except Exception as error:
            if (text := _message(error)) is None:
                raise
            say(f"knet: {text}")
            raise typer.Exit(2) from error
        except KeyboardInterrupt as error:
            say("knet: interrupted.")
            raise typer.Exit(INTERRUPTED) from error

    return wrapped


def _message(error: Exception) -> str | None:
    """Return the text of an error that the user can correct; None for a defect of knet."""
    if isinstance(error, ImportError) and error.name == "pyarrow":
        return "Reading tables needs pyarrow. Install it with: pip install 'knet-clustering[tables]'"
    if isinstance(error, MemoryError) or any(text in str(error) for text in OUT_OF_MEMORY):
        return "The memory is not sufficient. Use fewer rows or columns, or a machine with more memory."
    own = any(kind.__module__ == "knet.exceptions" for kind in type(error).__mro__)  # without an import of torch
    return str(error) if own or isinstance(error, ValueError | OSError | ImportError) else None


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


app.command(epilog=scan.EXAMPLES)(one_line_errors(scan.scan))
app.command(epilog=fit.EXAMPLES)(one_line_errors(fit.fit))
app.command(epilog=predict.PREDICT_EXAMPLES)(one_line_errors(predict.predict))
app.command(epilog=predict.EMBED_EXAMPLES)(one_line_errors(predict.embed))
app.command(epilog=report.EXAMPLES)(one_line_errors(report.report))
app.command(epilog=export.EXAMPLES)(one_line_errors(export.export))
app.command(epilog=info.EXAMPLES)(one_line_errors(info.info))
app.command(epilog=demo.EXAMPLES)(one_line_errors(demo.demo))
