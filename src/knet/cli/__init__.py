"""The command `knet`: one module per command, over the public functions of the package.

May import everything. A module that is loaded for `knet --help` imports nothing heavy at its top: Arrow, torch and
scikit-learn are imported inside the function that needs them.
"""

import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130


def main() -> None:
    """Run the command line; an interruption exits with code 130, also while modules are still being imported."""
    _open_closed_streams()
    before = signal.signal(signal.SIGINT, _interrupt)
    from knet.cli.app import main as run

    try:
        signal.signal(signal.SIGINT, before)
        run()
    except KeyboardInterrupt:  # before Typer handles it, or after
        _interrupt(signal.SIGINT, None)


def _open_closed_streams() -> None:
    """Open the standard streams that the caller has closed: a file that got such a number would receive the messages.

    Input is empty then, and messages are discarded. Output opens for reading only, so that lost results are an error.
    """
    for number, name, flags in ((0, "stdin", os.O_RDONLY), (1, "stdout", os.O_RDONLY), (2, "stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            handle = os.open(os.devnull, flags)
            if handle != number:
                os.dup2(handle, number)
                os.close(handle)
            os.set_inheritable(number, True)
            stream = open(number, "w" if number else "r", errors="backslashreplace", closefd=False)
            setattr(sys, name, stream)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Exit at once: nothing has been written, and an exception would appear as the error of an import."""
    os.write(2, b"knet: interrupted.\n")
    os._exit(INTERRUPTED)
