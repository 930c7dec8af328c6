"""Files that are written completely or not at all, and files that can be read.

A file is written under a hidden name in the folder of its target and gets its own name once it is complete. The process
that writes it holds a lock on it. The system removes the lock when the process ends, however it ends, so the next
process that writes the same target can recognise and remove what a killed one left behind.
"""

import glob
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows: there are no locks, so leftovers are not removed
    fcntl = None  # type: ignore[assignment]

UNFINISHED: set[Path] = set()  # temporary files of this process
UNFINISHED_SUFFIX = ".unfinished"
NAME_LENGTH = 50  # characters of the target's name in a temporary name, which may have 255 bytes


@contextmanager
def whole_file(path: Path, *, overwrite: bool = True) -> Iterator[Path]:
    """Yield a temporary name in the folder of `path`; the file gets the name `path` once it is complete.

    An existing file keeps its permissions, and a symbolic link stays: the file that it names is replaced.

    Parameters
    ----------
    path : Path
        The file to write.
    overwrite : bool, default=True
        Whether an existing file is replaced. With False, only one of several processes can create the file.
    """
    target = Path(os.path.realpath(path))
    mode = _mode_of(target)
    _remove_leftovers(target)
    temporary, handles = _new_name(target), list[int]()
    UNFINISHED.add(temporary)
    try:  # begins before the file exists: an interruption may come between any two steps
        _create(temporary, 0o666 if mode is None else 0o600, handles)
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        if mode is not None:
            temporary.chmod(mode)
        _publish(temporary, target, overwrite=overwrite)
    finally:
        temporary.unlink(missing_ok=True)
        UNFINISHED.discard(temporary)
        for handle in handles:
            os.close(handle)


def write_whole(path: Path, content: bytes, *, overwrite: bool = True) -> None:
    """Write the content of a file, completely or not at all."""
    with whole_file(path, overwrite=overwrite) as temporary:
        temporary.write_bytes(content)


def check_new(path: Path, *, overwrite: bool) -> None:
    """Raise an error before any work if a file exists and may not be replaced."""
    if not overwrite and path.exists():
        raise FileExistsError(f"{path} exists already. Use overwrite=True to replace it.")


def check_readable(path: Path, what: str = "file") -> None:
    """Raise an error that says whether a file is missing or may not be read."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise FileNotFoundError(f"There is no {what} {path}.")
        with open(path, "rb"):
            pass
    except PermissionError as error:
        raise PermissionError(f"You have no permission to read the {what} {path}.") from error
    except (OSError, ValueError) as error:  # a name with a zero byte is a ValueError
        raise FileNotFoundError(f"There is no {what} {path}.") from error


def remove_unfinished() -> None:
    """Remove the unfinished files of this process, before it exits at once."""
    for temporary in UNFINISHED:
        temporary.unlink(missing_ok=True)


def _mode_of(target: Path) -> int | None:
    """Return the permissions of an existing file; None if there is none."""
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(f"{target} is a folder, not a file.")
    if not stat.S_ISREG(mode):
        raise OSError(f"{target} is a device or a pipe, and knet replaces only regular files. Choose another name.")
    return stat.S_IMODE(mode)


def _new_name(target: Path) -> Path:
    """Return a temporary name in the folder of a file."""
    return target.with_name(f".{target.name[:NAME_LENGTH]}.{os.urandom(4).hex()}{UNFINISHED_SUFFIX}")


def _create(temporary: Path, mode: int, handles: list[int]) -> None:
    """Create a temporary file; the last of `handles` holds its lock, so that other processes leave it alone."""
    while True:
        handles.append(os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode))
        if fcntl is None:
            os.close(handles.pop())
            return
        if _lock(handles[-1]) and temporary.exists():  # another process may have removed it before it was locked
            return


def _lock(handle: int) -> bool:
    """Lock an open file; return False if another process holds the lock."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: nothing is ever removed there
        return True
    return True


def _remove_leftovers(target: Path) -> None:
    """Remove temporary files for this target that no running process has locked."""
    if fcntl is None:
        return
    pattern = f".{glob.escape(target.name[:NAME_LENGTH])}.{'[0-9a-f]' * 8}{UNFINISHED_SUFFIX}"
    for leftover in target.parent.glob(pattern):
        with suppress(OSError):
            handle = os.open(leftover, os.O_RDWR)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                leftover.unlink()
            finally:
                os.close(handle)


def _publish(temporary: Path, target: Path, *, overwrite: bool) -> None:
    """Give a complete file its name, and store the change of the folder on disk."""
    if overwrite:
        os.replace(temporary, target)
    else:
        _publish_new(temporary, target)
    if os.name == "posix":
        with suppress(OSError):  # some file systems cannot do this for folders
            folder = os.open(target.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)


def _publish_new(temporary: Path, target: Path) -> None:
    """Give a file a name that no other file has: if two processes try, the second one fails."""
    try:
        if os.name == "posix":
            os.link(temporary, target)
        else:
            os.rename(temporary, target)
    except FileExistsError as error:
        raise FileExistsError(f"{target} exists already: another process has written it.") from error
    except OSError:  # a file system without hard links
        if target.exists():
            raise
        os.rename(temporary, target)
