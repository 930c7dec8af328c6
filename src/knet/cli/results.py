"""The results of `knet fit`: every file is tried, and a fit is not lost if one of them cannot be written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from knet.cli.stability import measure_stability, stability_facts

if TYPE_CHECKING:
    import pyarrow as pa

    from knet.estimator import KNet
    from knet.explore.stability import Stability
    from knet.tables.conversion import Conversion

Target = TypeVar("Target", Path, Path | None)


@dataclass(frozen=True)
class OutputFiles:
    """The files that a fit writes."""

    model: Path | None
    labels: Path | None
    report: Path | None
    force: bool

    def check(self, data: str) -> None:
        """Raise an error before the fit starts if a file cannot be written after it."""
        from knet.tables.formats import check_ending, check_suffix
        from knet.tables.write import check_targets

        check_targets([self.model, self.labels, self.report], [data], force=self.force)
        if self.model is not None:
            check_ending(self.model, ".safetensors")
        if self.labels is not None:
            check_suffix(str(self.labels), "write")
        if self.report is not None:
            check_ending(self.report, ".html", ".htm")


@dataclass(frozen=True)
class Results:
    """A finished fit, its files, and the errors of those that could not be written."""

    model: KNet
    table: pa.Table
    recipe: Conversion
    X: pa.Table
    files: OutputFiles
    text_col: str | None = None
    errors: list[str] = field(default_factory=list)

    def write(self, data: str, n_refits: int, *, labels_to_stdout: bool) -> dict[str, Any]:
        """Write the model, the labels and the report; return the stability and the names of the files."""
        files = self.files
        written: dict[str, str] = {}
        if files.model is not None and self._try("model", files.model, self._save):
            written["model"] = str(files.model)
        if files.labels is not None or labels_to_stdout:
            done = self._try("labels", files.labels, self._write_labels)
            written |= {"labels": str(files.labels)} if done and files.labels is not None else {}
        # The refits come after the files that do not need them.
        stability = measure_stability(self.model, self.X, n_refits, self.model.labels_)
        if files.report is not None and self._try("report", files.report, self._report(data, stability)):
            written["report"] = str(files.report)
        if self.errors and "model" not in written:
            written |= self._save_elsewhere()
        return stability_facts(stability) | written

    def raise_errors(self) -> None:
        """Raise one error that names all files that could not be written."""
        if self.errors:
            raise OSError(" ".join(self.errors))

    def _try(self, what: str, path: Target, write: Callable[[Target], None]) -> bool:
        """Write a file; if that fails, keep the message, so that the other files are still written."""
        try:
            write(path)
        except BrokenPipeError:
            raise
        except (OSError, ValueError, ImportError) as error:
            self.errors.append(f"The {what} could not be written to {path or 'standard output'}: {error}.")
            return False
        return True

    def _save(self, path: Path, *, overwrite: bool | None = None) -> None:
        from knet.model.file import save

        save(self.model, path, overwrite=self.files.force if overwrite is None else overwrite)

    def _write_labels(self, path: Path | None) -> None:
        import pyarrow as pa

        from knet.tables.write import write_batches

        name = self.recipe.id_col
        ids = {} if name is None else {name: self.table[name]}
        write_batches(iter([pa.table({**ids, "label": self.model.labels_})]), path, force=self.files.force)

    def _report(self, data: str, stability: Stability | None) -> Callable[[Path], None]:
        """Return the function that writes the report."""
        from knet.cli.report import ReportFacts, write_report

        facts = ReportFacts.of(self.table, self.recipe, data, self.text_col)
        options: dict[str, Any] = {"labels": self.model.labels_, "stability": stability, "force": self.files.force}
        return lambda path: write_report(self.model, self.X, path, facts, **options)

    def _save_elsewhere(self) -> dict[str, str]:
        """Save the model in another folder, so that `knet predict` and `knet report` can write the rest later."""
        stem = "knet-model" if self.files.model is None else self.files.model.stem
        for folder in (tempfile.gettempdir(), Path.home(), Path.cwd()):
            path = Path(folder, f"{stem}-{os.getpid()}.safetensors")
            try:
                self._save(path, overwrite=False)
            except OSError:
                continue
            self.errors.append(f"The model was saved to {path} instead; `knet predict` and `knet report` can use it.")
            return {"model": str(path)}
        self.errors.append("The model could not be saved in another folder either: free some space and fit again.")
        return {}
