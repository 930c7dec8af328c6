"""The command `knet fit`: cluster a table; write the model, the labels and a report."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knet.cli import options as opt
from knet.cli.messages import print_summary
from knet.cli.results import OutputFiles, Results
from knet.cli.threads import limit_threads

if TYPE_CHECKING:
    import pyarrow as pa

    from knet.estimator import KNet
    from knet.tables.conversion import Conversion

EXAMPLES = (
    "Examples:  knet fit data.csv -c 3 -o m.safetensors --labels labels.csv --report report.html   |   "
    "cat data.csv | knet fit - -c 3 --id-col id > labels.csv"
)


def fit(
    data: opt.Data,
    n_clusters: Annotated[int, typer.Option("--n-clusters", "-c", help="Number of clusters.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Model file to write (.safetensors).")] = None,
    labels: Annotated[Path | None, typer.Option(help="Table of labels to write: .csv, .parquet, ...")] = None,
    report: Annotated[Path | None, typer.Option(help="Report to write, one .html file.")] = None,
    id_col: opt.IdCol = None,
    text_col: opt.TextCol = None,
    target: opt.Target = None,
    weight: opt.Weight = None,
    columns: opt.Columns = None,
    drop: opt.Drop = None,
    impute: opt.Impute = None,
    one_hot: opt.OneHot = False,
    dates: opt.Dates = False,
    header: opt.Header = None,
    sep: opt.Sep = None,
    decimal: opt.Decimal = None,
    encoding: opt.Encoding = None,
    na: opt.Na = None,
    metric: opt.Metric = "euclidean",
    sigma: Annotated[str, typer.Option(help="Width of the kernel: auto, median, or a number.")] = "auto",
    sigma_scale: Annotated[float, typer.Option(help="Factor for the widths auto and median.")] = 1.0,
    train_size: Annotated[str, typer.Option(help="Rows to train on: auto, a count, or a fraction like 0.1.")] = "auto",
    n_init: Annotated[int | None, typer.Option(help="Restarts, if --sigma is not auto; the best one is kept.")] = None,
    max_iter: Annotated[int | None, typer.Option(help="Maximum number of iterations.")] = None,
    n_refits: opt.Refits = 2,
    random_state: opt.RandomState = 0,
    device: opt.Device = "auto",
    threads: opt.Threads = None,
    as_json: opt.Json = False,
    force: opt.Force = False,
) -> None:
    """Cluster a table: write the model, the labels and a report.

    Without --output and --labels, the labels are written to standard output as CSV.
    """
    opt.check_inputs(data)
    chosen = opt.ColumnOptions(id_col, target, columns or [], drop or [], impute, one_hot, dates, weight, text_col)
    chosen.check()
    text = opt.text_options(sep, decimal, encoding, na, header)
    files = OutputFiles(output, labels, report, force)
    files.check(data)
    params: dict[str, Any] = {
        "n_clusters": n_clusters,
        "metric": metric,
        "sigma": opt.number_or_word(sigma),
        "train_size": opt.number_or_word(train_size),
        "device": device,
        "random_state": random_state,
        "verbose": 1,
        **({} if n_init is None else {"n_init": n_init}),
        **({} if max_iter is None else {"max_iter": max_iter}),
    }
    opt.check_parameters(params)
    from knet.cli.columns import check_id_name, read_to_fit, row_weights, to_named_table  # slow: after the checks

    check_id_name(id_col)
    table, recipe = read_to_fit(data, chosen, text)
    X, weights = to_named_table(recipe.apply(table), recipe), row_weights(table, weight)
    from knet import Advanced, KNet  # slower still: after the table has been read
    from knet.cli.progress import warnings_as_lines

    params["advanced"] = Advanced(sigma_scale=sigma_scale, keep_embeddings=report is not None)
    with limit_threads(threads):
        started = time.perf_counter()
        with warnings_as_lines():
            model = KNet(**params).fit(X, sample_weight=weights)
        model.extra_ = {"table": recipe.to_json()}  # as after `load`; the model file and the report need it
        summary = _summarize(model, table, recipe, time.perf_counter() - started)
        results = Results(model, table, recipe, X, files, text_col)
        summary |= results.write(data, n_refits, labels_to_stdout=output is None and not as_json)
    print_summary(summary, as_json=as_json)
    results.raise_errors()


def _summarize(model: KNet, table: pa.Table, recipe: Conversion, seconds: float) -> dict[str, Any]:
    """Return the summary of a fit."""
    import numpy as np

    from knet.cli.columns import Agreement
    from knet.model.light import LightModel

    agreement = Agreement(recipe.target)
    agreement.add(table, model.labels_)
    return {
        "rows": len(table),
        **LightModel.of(model).facts,
        "sizes": np.bincount(model.labels_, minlength=model.n_clusters).tolist(),
        "seconds": round(seconds, 2),
        **({"imputed": recipe.imputed} if recipe.imputed else {}),
        **agreement.scores(),
    }
