"""The command `knet stability`: refit a model on other rows, and compare."""

from pathlib import Path
from typing import Annotated

from typer import Option

from knet.cli import options as opt
from knet.cli.messages import print_result
from knet.cli.report import measure_stability

EXAMPLES = "Example:  knet stability m.safetensors data.csv --n-refits 10"


def stability(
    *,
    model: opt.ModelFile,
    data: opt.Data,
    n_refits: Annotated[int, Option(min=1, help="Number of refits on random halves of the rows.")] = 5,
    output: Annotated[Path | None, Option("--output", "-o", help="Table to write; default: standard output.")] = None,
    dialect: opt.DialectOptions,
    run: opt.RunOptions,
) -> None:
    """Refit a model on random halves of a table and say how far the clusters agree: overall, and each cluster.

    The table of clusters is written to standard output, on a terminal as a table, else as CSV, or to --output.
    """
    opt.check_inputs(data, model)
    run.check_outputs([(output, opt.TABLE)], model, data)
    from knet.cli.columns import read_like  # slow: after the checks

    rows = read_like(model, data, dialect)
    from knet import load  # slower still: after the files have been read

    with run.limited_threads():
        found, facts = measure_stability(load(model), rows, n_refits)
    if found is None:
        raise ValueError("There is nothing to compare: the model has one cluster, or the table has fewer rows than it.")
    print_result("clusters", found.table(), {"rows": len(rows.table), **facts}, output, run)
