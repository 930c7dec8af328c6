"""The files of `knet fit`: every one is tried, and a fit is not lost if one of them cannot be written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from knet.estimator import KNet


class Attempts:
    """The files that were written, by what they hold, and the errors of those that could not be written."""

    def __init__(self) -> None:
        self.written: dict[str, str] = {}
        self.errors: list[str] = []

    @contextmanager
    def to_write(self, what: str, path: Path | None) -> Iterator[None]:
        """Keep an error, so that the other files are still written; `path` is None for standard output."""
        try:
            yield
        except BrokenPipeError:
            raise
        except (OSError, ValueError, ImportError) as error:
            self.errors.append(f"The {what} could not be written to {path or 'standard output'}: {error}.")
        else:
            self.written |= {} if path is None else {what: str(path)}

    def rescue(self, model: KNet, stem: str) -> None:
        """Save the model in another folder if there are errors and it has not been written.

        `knet predict` and `knet report` can then write the rest later.
        """
        if not self.errors or "model" in self.written:
            return
        for folder in (tempfile.gettempdir(), Path.home(), Path.cwd()):
            path = Path(folder, f"{stem}-{os.getpid()}.safetensors")
            try:
                model.save(path)
            except OSError:
                continue
            self.errors.append(f"The model was saved to {path} instead; `knet predict` and `knet report` can use it.")
            self.written["model"] = str(path)
            return
        self.errors.append("The model could not be saved in another folder either: free some space and fit again.")
