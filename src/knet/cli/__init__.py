"""The command `knet`: one module per command, over the public functions of the package.

May import everything. A module that is loaded for `knet --help` imports nothing heavy at its top: Arrow, torch and
scikit-learn are imported inside the function that needs them.
"""

import os
import signal
import sys
from contextlib import suppress
from types import FrameType

from knet.files import remove_unfinished


def main() -> None:
    """Run the command line; a signal to stop ends it at once, also while modules are still being imported."""
    _open_closed_streams()
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # which is how a shell starts work in the background
        signal.signal(signal.SIGINT, _stop)
    signal.signal(signal.SIGTERM, _stop)
    from knet.cli.app import main as run

    run()


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


def _stop(number: int, frame: FrameType | None) -> None:
    """Remove unfinished files and exit at once: Python or a library could ignore an exception that is raised here."""
    remove_unfinished()
    if number == signal.SIGINT:
        with suppress(OSError):
            os.write(2, b"\nknet: interrupted.\n" if os.isatty(2) else b"knet: interrupted.\n")
    os._exit(128 + number)
