"""One run of a command in a child process, with a fault: a kill, a full disk, too little memory.

The parent imports the libraries once and forks, so that a run takes as long as its work. The children change only files
in a folder of their own.
"""

import os
import resource
import signal
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Fault = Callable[[Path], None]
HANG_SECONDS = 120
EVENTS = {"open", "os.rename", "os.link", "os.remove", "os.chmod"}


@dataclass(frozen=True)
class Ended:
    """How a run ended: its exit code, negative for a signal, and what it printed to standard error."""

    code: int
    text: str

    @property
    def is_clean(self) -> bool:
        """Return whether the command finished, or said in one line why not, or was ended by a signal."""
        return self.code in {0, 2, 130, 141, 143, -9, -15, -25} and "Traceback" not in self.text


def start(arguments: list[str], folder: Path, fault: Fault | None = None) -> int:
    """Start a command in a forked process, in its folder, and return the id of the process; a hang is ended."""
    child = os.fork()
    if child == 0:
        _run(arguments, folder, fault)
    return child


def wait(child: int, folder: Path) -> Ended:
    """Wait for a run."""
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    log = _log(folder, child)
    if not log.exists():  # killed at once
        return Ended(code, "")
    text = log.read_text(encoding="utf-8", errors="replace")
    log.unlink()
    return Ended(code, text)


def run(arguments: list[str], folder: Path, fault: Fault | None = None) -> Ended:
    """Run a command to its end."""
    return wait(start(arguments, folder, fault), folder)


def _log(folder: Path, child: int) -> Path:
    return folder.with_name(f"{folder.name}.{child}.log")


def _run(arguments: list[str], folder: Path, fault: Fault | None) -> None:
    """Run a command in this process, which then ends; the parent's cleanup does not run here."""
    code = 1
    try:
        log = os.open(_log(folder, os.getpid()), os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(log, 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.chdir(folder)
        signal.alarm(HANG_SECONDS)  # ends a process that waits for ever, also one that a library lets wait
        if fault is not None:
            fault(folder)
        from knet.cli import main

        sys.argv = ["knet", *arguments]
        main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


# Faults


def kill_at_event(number: int) -> Fault:
    """Kill the process before its file operation of this number in the folder."""

    def fault(folder: Path) -> None:
        seen = 0

        def hook(event: str, args: tuple[Any, ...]) -> None:
            nonlocal seen
            if event in EVENTS and _inside(args[0], folder):
                seen += 1
                if seen == number:
                    os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)

    return fault


def count_events(counts: Path) -> Fault:
    """Write the number of file operations in the folder to a file."""

    def fault(folder: Path) -> None:
        handle = os.open(counts, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)

        def hook(event: str, args: tuple[Any, ...]) -> None:
            if event in EVENTS and _inside(args[0], folder):
                os.write(handle, b".")

        sys.addaudithook(hook)

    return fault


def _inside(path: object, folder: Path) -> bool:
    if not isinstance(path, str | bytes | os.PathLike):
        return False
    name = os.fsdecode(path)
    return not os.path.isabs(name) or name.startswith(str(folder))


def limit_files(n_bytes: int, *, kill: bool) -> Fault:
    """Allow files of so many bytes: a larger one kills the process, or is an error as on a full disk."""

    def fault(folder: Path) -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL if kill else signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, n_bytes))

    return fault


def limit_memory(more_mb: int) -> Fault:
    """Allow so much memory more than the process has at its start."""

    def fault(folder: Path) -> None:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        limit = pages * resource.getpagesize() + more_mb * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    return fault


def few_descriptors(n_more: int) -> Fault:
    """Allow so many open files more than the process has at its start."""

    def fault(folder: Path) -> None:
        n_open = len(os.listdir("/proc/self/fd"))
        resource.setrlimit(resource.RLIMIT_NOFILE, (n_open + n_more, n_open + n_more))

    return fault


def full_output(number: int) -> Fault:
    """Let every write to this stream fail, as on a full disk."""
    return lambda folder: os.dup2(os.open("/dev/full", os.O_WRONLY), number) and None


def piped_output(number: int, n_read: int, seconds: float) -> Fault:
    """Let this stream be a pipe whose reader waits, so that the pipe is full, then takes some bytes and leaves."""

    def fault(folder: Path) -> None:
        receiver, sender = os.pipe()
        if os.fork() == 0:
            os.close(sender)
            time.sleep(seconds)
            n_left = n_read
            while n_left > 0 and (data := os.read(receiver, min(n_left, 2**16))):
                n_left -= len(data)
            os._exit(0)
        os.close(receiver)
        os.dup2(sender, number)
        os.close(sender)

    return fault


def random_kill(rng: np.random.Generator, n_events: int, n_bytes: int) -> tuple[Fault | None, float | None, int]:
    """Return a random fault in the process, or None and the share of the time after which the parent sends a signal."""
    match rng.integers(3):
        case 0:
            return kill_at_event(int(rng.integers(1, n_events + 1))), None, 0
        case 1:
            return limit_files(int(rng.integers(0, max(2, n_bytes))), kill=True), None, 0
        case _:
            return None, float(rng.random()), [signal.SIGKILL, signal.SIGTERM, signal.SIGINT][rng.integers(3)]


def random_interrupt(rng: np.random.Generator, n_events: int, n_bytes: int) -> tuple[Fault | None, float | None, int]:
    """Return a random share of the time after which the parent interrupts the process, as Ctrl-C does."""
    return None, float(rng.random()), signal.SIGINT
