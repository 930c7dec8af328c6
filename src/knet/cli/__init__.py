"""The command `knet`: one module per command, over the public functions of the package.

May import everything. A module that is loaded for `knet --help` imports nothing heavy at its top: Arrow, torch and
scikit-learn are imported inside the function that needs them.
"""

import os
import signal
from types import FrameType

INTERRUPTED = 130


def main() -> None:
    """Run the command line; an interruption exits with code 130, also while modules are still being imported."""
    before = signal.signal(signal.SIGINT, _interrupt)
    from knet.cli.app import main as run

    try:
        signal.signal(signal.SIGINT, before)
        run()
    except KeyboardInterrupt:  # before Typer handles it, or after
        _interrupt(signal.SIGINT, None)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Exit at once: nothing has been written, and an exception would appear as the error of an import."""
    os.write(2, b"knet: interrupted.\n")
    os._exit(INTERRUPTED)
