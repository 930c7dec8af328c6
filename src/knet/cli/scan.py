"""The command `knet scan`: compare numbers of clusters for a table."""

from __future__ import annotations

import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from knet.cli import options as opt
from knet.cli.messages import print_summary
from knet.cli.threads import limit_threads

if TYPE_CHECKING:
    from knet.explore.scan import Scan

EXAMPLES = "Examples:  knet scan data.csv --plot scan.png   |   knet scan data.csv --from 2 --to 20 --json"
IMAGE_SUFFIXES = (".png", ".svg", ".pdf")


def scan(
    data: opt.Data,
    first: Annotated[int, typer.Option("--from", help="Smallest number of clusters to consider.")] = 2,
    last: Annotated[int, typer.Option("--to", help="Largest number of clusters to consider.")] = 10,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Table to write; default: standard output.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Image to write: .png, .svg or .pdf.")] = None,
    id_col: opt.IdCol = None,
    target: Annotated[str | None, typer.Option(help="Column with known labels; left out.")] = None,
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
    random_state: opt.RandomState = 0,
    threads: opt.Threads = None,
    as_json: opt.Json = False,
    force: opt.Force = False,
) -> None:
    """Advise on the number of clusters: which numbers the data support, if any.

    The comparison is written to standard output as CSV, or to --output; the advice to standard error.
    """
    if first > last:
        raise ValueError(f"--from {first} is above --to {last}.")
    opt.check_inputs(data)
    opt.check_parameters({"metric": metric})
    chosen = opt.ColumnOptions(id_col, target, columns or [], drop or [], impute, one_hot, dates)
    chosen.check()
    text = opt.text_options(sep, decimal, encoding, na, header)
    _check_files(data, output, plot, force=force)
    from knet.cli.columns import read_to_fit  # slow: after the checks

    table, recipe = read_to_fit(data, chosen, text)
    X = recipe.apply(table)
    from knet import scan as compare  # slower still: after the table has been read

    with limit_threads(threads):
        started = time.perf_counter()
        found = compare(X, range(first, last + 1), metric=metric, random_state=random_state)
        seconds = round(time.perf_counter() - started, 2)
    written = _write(found, output, plot, to_stdout=output is None and not as_json, force=force)
    print_summary(
        {
            "rows": len(table),
            "best": found.best,
            "supported": found.supported,
            "advice": found.advice,
            "seconds": seconds,
            **written,
            **({"table": _rounded(found)} if as_json else {}),
        },
        as_json=as_json,
    )


def _check_files(data: str, output: Path | None, plot: Path | None, *, force: bool) -> None:
    """Raise an error before the scan starts if a file cannot be written after it."""
    from knet.tables.formats import check_suffix
    from knet.tables.write import check_targets

    check_targets([output, plot], [data], force=force)
    if output is not None:
        check_suffix(str(output), "write")
    if plot is None:
        return
    if plot.suffix.lower() not in IMAGE_SUFFIXES:
        raise ValueError(f"{plot} must end in one of {', '.join(IMAGE_SUFFIXES)}.")
    if find_spec("matplotlib") is None:
        raise ValueError("Plots need matplotlib. Install it with: pip install 'knet-clustering[plots]'")


def _write(found: Scan, output: Path | None, plot: Path | None, *, to_stdout: bool, force: bool) -> dict[str, Any]:
    """Write the table and the image; return the names of the files."""
    import pyarrow as pa

    from knet.tables.write import write_batches

    written = {}
    if output is not None or to_stdout:
        write_batches(iter([pa.Table.from_pylist(_rounded(found))]), output, force=force)
    if output is not None:
        written["output"] = str(output)
    if plot is not None:
        _plot(found, plot, force=force)
        written["plot"] = str(plot)
    return written


def _rounded(found: Scan) -> list[dict[str, Any]]:
    """Return the table with numbers of at most four decimals."""
    return [
        {name: round(value, 4) if isinstance(value, float) else value for name, value in row.items()}
        for row in found.table
    ]


def _plot(found: Scan, path: Path, *, force: bool) -> None:
    """Write the image of a scan."""
    from matplotlib.figure import Figure

    from knet.show import plots
    from knet.tables.write import new_file

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    plots.scan(found, figure.subplots())
    with new_file(path, force=force) as temporary:
        figure.savefig(temporary, dpi=120, format=path.suffix[1:].lower())
