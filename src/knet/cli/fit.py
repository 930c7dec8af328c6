"""The command `knet fit`: cluster a table; write the model, the labels and a report."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from knet.cli import options as opt
from knet.cli.evidence import EvidenceOptions
from knet.cli.messages import print_summary, warnings_as_lines
from knet.cli.report import measure_stability, write_report

if TYPE_CHECKING:
    from knet.cli.columns import Rows
    from knet.estimator import KNet
    from knet.parameters import Params

EXAMPLES = (
    "Examples:  knet fit data.csv -o m.safetensors --labels labels.csv --report report.html   |   "
    "cat data.csv | knet fit - -c 3 --id-col id > labels.csv"
)


@dataclass(frozen=True)
class FitFiles:
    """The files that a fit writes, and what the table of labels has."""

    output: Annotated[Path | None, Option("--output", "-o", help="Model file to write (.safetensors).")] = None
    labels: Annotated[Path | None, Option(help="Table of labels to write: .csv, .parquet, ...")] = None
    report: Annotated[Path | None, Option(help="Report to write, one .html file.")] = None
    keep: opt.Keep = None
    proba: opt.Proba = False


@dataclass(frozen=True)
class TrainingOptions:
    """Parameters of KNet; None stands for its default."""

    metric: opt.Metric = "euclidean"
    sigma: Annotated[str, Option(help="Width of the kernel: auto, median, or a number.")] = "auto"
    sigma_scale: Annotated[float, Option(help="Factor for the widths auto and median.")] = 1.0
    train_size: Annotated[str, Option(help="Rows to train on: auto, a count, or a fraction like 0.1.")] = "auto"
    n_init: Annotated[int | None, Option(help="Restarts, if --sigma is not auto; the best one is kept.")] = None
    max_iter: Annotated[int | None, Option(help="Maximum number of iterations.")] = None
    random_state: opt.RandomState = 0
    device: opt.Device = "auto"

    def parameters(self, n_clusters: str, max_clusters: int | None) -> Params:
        """Return the parameters of KNet, except `advanced`, checked before torch is imported."""
        from knet.parameters import check_parameters

        given = {name: value for name, value in vars(self).items() if value is not None and name != "sigma_scale"}
        numbers = {name: _number_or_word(given[name]) for name in ("sigma", "train_size")}
        params = (
            given | numbers | {"n_clusters": _number_or_word(n_clusters), "max_clusters": max_clusters, "verbose": 1}
        )
        check_parameters("KNet", params)
        return params


def _number_or_word(text: str) -> str | int | float:
    """Return an option's value as a number if it is one, otherwise as text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


class Attempts:
    """The files that were written, by what they hold, and the errors of the others: a fit is not lost if one fails."""

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


def fit(
    *,
    data: opt.Data,
    n_clusters: Annotated[
        str, Option("--n-clusters", "-c", help="Number of clusters; auto finds it, see `knet scan`.")
    ] = "auto",
    max_clusters: opt.MaxClusters = None,
    files: FitFiles,
    columns: opt.ColumnOptions,
    text_col: opt.TextCol = None,
    weight: Annotated[
        str | None, Option(help="Column that says how often each row counts; not used for clustering itself.")
    ] = None,
    weights: Annotated[
        list[str] | None, Option(help="How often columns count, such as age=2; comma-separated, or repeated.")
    ] = None,
    evidence: EvidenceOptions,
    dialect: opt.DialectOptions,
    training: TrainingOptions,
    n_refits: opt.Refits = 2,
    run: opt.RunOptions,
) -> None:
    """Cluster a table: write the model, the labels and a report.

    Without --output and --labels, the labels are written to standard output as CSV.
    """
    opt.check_inputs(data)
    roles = {"target": columns.target, "weight": weight, "text_col": text_col, "known": evidence.known}
    opt.check_roles(id_col=columns.id_col, **roles)
    run.check_outputs([(files.output, opt.MODEL), (files.labels, opt.TABLE), (files.report, opt.PAGE)], data)
    params = training.parameters(n_clusters, max_clusters)
    from knet.cli.columns import column_weights, find_kept, read_to_fit  # slow: after the checks
    from knet.tables.conversion import to_numbers

    rows = read_to_fit(data, columns, dialect, text_col, weight, evidence.known)
    given = evidence.read(rows.cells, rows.recipe.ids)
    results = ["label", "levels", *(["proba"] if files.proba else [])]
    kept = find_kept(rows.cells.column_names, rows.recipe.ids, files.keep, results, files.labels)
    row_weights = None if weight is None else to_numbers(rows.table[weight], "number")
    from knet import Advanced, KNet  # slower still: after the table has been read

    params["advanced"] = Advanced(
        sigma_scale=training.sigma_scale,
        keep_embeddings=files.report is not None,
        column_weights=column_weights(weights, rows.recipe),
    )
    with run.limited_threads():
        started = time.perf_counter()
        with warnings_as_lines():
            model = KNet(**params).fit(rows.X, sample_weight=row_weights, **given)
        summary = _summarize(model, rows, time.perf_counter() - started)
        attempts = _write_model_and_labels(model, rows, files, kept, run)
        stability, facts = measure_stability(model, rows, n_refits, model.labels_)  # needs time: after those files
        if files.report is not None:
            with attempts.to_write("report", files.report):
                known = {"labels": model.labels_, "stability": stability}
                write_report(model, rows, files.report, overwrite=run.force, **known)
        attempts.rescue(model, "knet-model" if files.output is None else files.output.stem)
    print_summary(summary | facts | attempts.written, as_json=run.as_json)
    if attempts.errors:
        raise OSError(" ".join(attempts.errors))


def _summarize(model: KNet, rows: Rows, seconds: float) -> dict[str, object]:
    """Return the summary of a fit."""
    import numpy as np

    from knet.cli.columns import agreement
    from knet.model.light import LightModel

    return {
        "rows": len(rows.table),
        **LightModel.of(model).facts,
        "sizes": np.bincount(model.labels_[model.labels_ >= 0], minlength=model.n_clusters_).tolist(),
        **({"names": model.names_} if model.names_ else {}),
        "seconds": round(seconds, 2),
        **({"missing": list(rows.recipe.gaps)} if rows.recipe.gaps else {}),
        **agreement(rows.known_labels, model.labels_),
    }


def _write_model_and_labels(model: KNet, rows: Rows, files: FitFiles, kept: list[str], run: opt.RunOptions) -> Attempts:
    """Write the files that need no refits; the labels go to standard output if no file is asked for."""
    import numpy as np
    import pyarrow as pa

    from knet.cli.columns import kept_columns
    from knet.model.blocks import columns
    from knet.model.levels import level_columns
    from knet.tables.write import write_batches

    attempts = Attempts()
    if files.output is not None:
        with attempts.to_write("model", files.output):
            model.save(files.output, overwrite=run.force)
    if files.labels is not None or (files.output is None and not run.as_json):
        with attempts.to_write("labels", files.labels):
            copied = kept_columns(rows.cells, rows.table, kept, files.labels)
            levels = level_columns(model.labels_, model.hierarchy_, model.number_["levels"])
            proba = columns(model.predictor_, np.asarray(rows.X), ["proba"]) if files.proba else {}
            table = pa.table({**copied, "label": model.labels_, **levels, **proba})
            write_batches(iter([table]), files.labels, force=run.force)
    return attempts
