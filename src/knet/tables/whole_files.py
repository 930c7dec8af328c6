"""Files that are written completely or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

UNFINISHED: set[Path] = set()  # temporary files of this process


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """Yield a temporary name in the folder of `path`; the file gets the name `path` once it is complete."""
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    temporary = Path(name)
    UNFINISHED.add(temporary)
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
        UNFINISHED.discard(temporary)


def remove_unfinished() -> None:
    """Remove the unfinished files of this process, before it exits at once."""
    for temporary in UNFINISHED:
        temporary.unlink(missing_ok=True)
