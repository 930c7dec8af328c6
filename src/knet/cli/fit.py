"""The command `knet fit`: cluster a table; write the model, the labels and a report."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from knet.cli import options as opt
from knet.cli.messages import print_summary, warnings_as_lines
from knet.cli.report import measure_stability, write_report
from knet.cli.results import Attempts

if TYPE_CHECKING:
    from knet.cli.columns import Rows
    from knet.estimator import KNet

EXAMPLES = (
    "Examples:  knet fit data.csv -c 3 -o m.safetensors --labels labels.csv --report report.html   |   "
    "cat data.csv | knet fit - -c 3 --id-col id > labels.csv"
)


@dataclass(frozen=True)
class FitFiles:
    """The files that a fit writes."""

    output: Annotated[Path | None, Option("--output", "-o", help="Model file to write (.safetensors).")] = None
    labels: Annotated[Path | None, Option(help="Table of labels to write: .csv, .parquet, ...")] = None
    report: Annotated[Path | None, Option(help="Report to write, one .html file.")] = None


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

    def parameters(self, n_clusters: int) -> dict[str, Any]:
        """Return the parameters of KNet, except `advanced`, checked before torch is imported."""
        from knet.parameters import check_parameters

        given = {name: value for name, value in vars(self).items() if value is not None and name != "sigma_scale"}
        numbers = {name: _number_or_word(given[name]) for name in ("sigma", "train_size")}
        params = given | numbers | {"n_clusters": n_clusters, "verbose": 1}
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


def fit(
    *,
    data: opt.Data,
    n_clusters: Annotated[int, Option("--n-clusters", "-c", help="Number of clusters.")],
    files: FitFiles,
    columns: opt.ColumnOptions,
    text_col: opt.TextCol = None,
    weight: Annotated[
        str | None, Option(help="Column that says how often each row counts; not used for clustering itself.")
    ] = None,
    dialect: opt.DialectOptions,
    training: TrainingOptions,
    n_refits: opt.Refits = 2,
    run: opt.RunOptions,
) -> None:
    """Cluster a table: write the model, the labels and a report.

    Without --output and --labels, the labels are written to standard output as CSV.
    """
    opt.check_inputs(data)
    opt.check_roles(id_col=columns.id_col, target=columns.target, weight=weight, text_col=text_col)
    run.check_outputs([(files.output, opt.MODEL), (files.labels, opt.TABLE), (files.report, opt.PAGE)], data)
    params = training.parameters(n_clusters)
    from knet.cli.columns import check_id_name, read_to_fit  # slow: after the checks
    from knet.tables.conversion import to_numbers

    check_id_name(columns.id_col, files.labels)
    rows = read_to_fit(data, columns, dialect, text_col, weight)
    weights = None if weight is None else to_numbers(rows.table[weight], "number")
    from knet import Advanced, KNet  # slower still: after the table has been read

    params["advanced"] = Advanced(sigma_scale=training.sigma_scale, keep_embeddings=files.report is not None)
    with run.limited_threads():
        started = time.perf_counter()
        with warnings_as_lines():
            model = KNet(**params).fit(rows.X, sample_weight=weights)
        model.extra_ = {"table": rows.recipe.to_json()}  # as after `load`; the model file and the report need it
        summary = _summarize(model, rows, time.perf_counter() - started)
        attempts = _write_model_and_labels(model, rows, files, run)
        stability, facts = measure_stability(model, rows, n_refits, model.labels_)  # needs time: after those files
        if files.report is not None:
            with attempts.to_write("report", files.report):
                known = {"labels": model.labels_, "stability": stability}
                write_report(model, rows, files.report, overwrite=run.force, **known)
        attempts.rescue(model, "knet-model" if files.output is None else files.output.stem)
    print_summary(summary | facts | attempts.written, as_json=run.as_json)
    if attempts.errors:
        raise OSError(" ".join(attempts.errors))


def _summarize(model: KNet, rows: Rows, seconds: float) -> dict[str, Any]:
    """Return the summary of a fit."""
    import numpy as np

    from knet.cli.columns import agreement
    from knet.model.light import LightModel

    return {
        "rows": len(rows.table),
        **LightModel.of(model).facts,
        "sizes": np.bincount(model.labels_, minlength=model.n_clusters).tolist(),
        "seconds": round(seconds, 2),
        **({"imputed": rows.recipe.imputed} if rows.recipe.imputed else {}),
        **agreement(rows.known_labels, model.labels_),
    }


def _write_model_and_labels(model: KNet, rows: Rows, files: FitFiles, run: opt.RunOptions) -> Attempts:
    """Write the files that need no refits; the labels go to standard output if no file is asked for."""
    import pyarrow as pa

    from knet.tables.write import write_batches

    attempts, id_col = Attempts(), rows.recipe.id_col
    if files.output is not None:
        with attempts.to_write("model", files.output):
            model.save(files.output, overwrite=run.force)
    if files.labels is not None or (files.output is None and not run.as_json):
        with attempts.to_write("labels", files.labels):
            ids = {} if id_col is None else {id_col: rows.table[id_col]}
            write_batches(iter([pa.table({**ids, "label": model.labels_})]), files.labels, force=run.force)
    return attempts
