"""The command `knet scan`: compare numbers of clusters for a table."""

from __future__ import annotations

import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Option

from knet.cli import options as opt
from knet.cli.messages import print_summary

if TYPE_CHECKING:
    from knet.explore.scan import Scan

EXAMPLES = "Examples:  knet scan data.csv --plot scan.png   |   knet scan data.csv --max-clusters 30 --json"


def scan(
    *,
    data: opt.Data,
    max_clusters: opt.MaxClusters = None,
    output: Annotated[Path | None, Option("--output", "-o", help="Table to write; default: standard output.")] = None,
    plot: Annotated[Path | None, Option(help="Image to write: .png, .svg or .pdf.")] = None,
    columns: opt.ColumnOptions,
    dialect: opt.DialectOptions,
    metric: opt.Metric = "euclidean",
    random_state: opt.RandomState = 0,
    run: opt.RunOptions,
) -> None:
    """Find the number of clusters: how well the rows support each number, and which they support best.

    The comparison is written to standard output, on a terminal as a table, else as CSV, or to --output; the advice to
    standard error.
    """
    opt.check_inputs(data)
    opt.check_roles(id_col=columns.id_col, target=columns.target)
    run.check_outputs([(output, opt.TABLE), (plot, opt.IMAGE)], data)
    if plot is not None and find_spec("matplotlib") is None:
        raise ValueError("Plots need matplotlib. Install it with: pip install 'knet-clustering[plots]'")
    import pyarrow as pa  # slow: after the checks

    from knet.cli.columns import read_to_fit
    from knet.parameters import check_parameters
    from knet.tables.write import write_batches

    check_parameters("KNet", {"metric": metric, "max_clusters": max_clusters})
    X = read_to_fit(data, columns, dialect).X
    from knet import scan as compare  # slower still: after the table has been read

    with run.limited_threads():
        started = time.perf_counter()
        found = compare(X, max_clusters, metric=metric, random_state=random_state, verbose=1)
        seconds = round(time.perf_counter() - started, 2)
    table = [
        {name: round(value, 4) if isinstance(value, float) else value for name, value in row.items()}
        for row in found.table
    ]
    if output is None and sys.stdout is not None and sys.stdout.isatty() and not run.as_json:
        typer.echo(found.text)
    elif output is not None or not run.as_json:
        write_batches(iter([pa.Table.from_pylist(table)]), output, force=run.force)
    if plot is not None:
        _plot(found, plot, force=run.force)
    summary = {
        "rows": len(X),
        "best": found.best,
        "verdict": found.verdict,
        "levels": found.levels,
        "advice": found.advice,
        "seconds": seconds,
        **{name: str(path) for name, path in (("output", output), ("plot", plot)) if path is not None},
        **({"table": table} if run.as_json else {}),
    }
    print_summary(summary, as_json=run.as_json)


def _plot(found: Scan, path: Path, *, force: bool) -> None:
    """Write the image of a scan."""
    from matplotlib.figure import Figure

    from knet.files import whole_file
    from knet.show import plots

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    plots.scan(found, figure.subplots())
    with whole_file(path, overwrite=force) as temporary:
        figure.savefig(temporary, dpi=120, format=path.suffix[1:].lower())
