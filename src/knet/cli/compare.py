"""The command `knet compare`: what differs between two models, or two columns of labels, on the rows of a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer import Argument, Option

from knet.cli import options as opt
from knet.cli.messages import print_summary

if TYPE_CHECKING:
    from knet.explore.compare import Comparison

EXAMPLES = "Example:  knet compare old.safetensors new.safetensors data.csv --report changes.html"
WHAT = "Model file (.safetensors), or a column of labels in the table."


def compare(
    *,
    first: Annotated[str, Argument(help=WHAT)],
    second: Annotated[str, Argument(help=WHAT)],
    data: opt.Data,
    output: Annotated[Path | None, Option("--output", "-o", help="Table of moves to write: .csv, .parquet.")] = None,
    report: Annotated[Path | None, Option(help="Page to write, one .html file.")] = None,
    dialect: opt.DialectOptions,
    run: opt.RunOptions,
) -> None:
    """Compare two clusterings of the rows of a table: matching clusters, changes, moves and their reasons."""
    opt.check_inputs(data)
    paths = [Path(name) for name in (first, second) if name.endswith(opt.MODEL)]
    for path in paths:
        opt.check_inputs(model=path)
    run.check_outputs([(output, opt.TABLE), (report, opt.PAGE)], data, *paths)
    with run.limited_threads():
        comparison = _comparison(first, second, data, dialect)
    if output is not None:
        import pyarrow as pa

        from knet.tables.write import write_batches

        write_batches(iter([pa.Table.from_pandas(comparison.to_frame())]), output, force=run.force)
    if report is not None:
        from knet.show.comparison import report as write_page

        write_page(comparison, report, overwrite=run.force)
    if run.as_json:
        print_summary(comparison.to_dict(), as_json=True)
        return
    typer.echo(str(comparison))
    for move in comparison.moves[:5]:
        typer.echo(f"{move.n_rows:,} rows from {move.before} to {move.after}: {'; '.join(move.reasons) or '-'}")


def _comparison(first: str, second: str, data: str, dialect: opt.DialectOptions) -> Comparison:
    """Label the rows of a table by models, or take labels from its columns, and compare them."""
    import numpy as np

    from knet.cli.columns import as_text, convert, open_table  # slow: after the checks
    from knet.cli.models import load_light_model
    from knet.explore.compare import compare_labels
    from knet.tables.conversion import check_names

    models = {name: load_light_model(Path(name)) for name in (first, second) if name.endswith(opt.MODEL)}
    columns = [name for name in (first, second) if name not in models]
    recipes = [recipe for _, recipe in models.values()]
    with open_table(data, dialect, recipes[0] if recipes else None) as source:
        check_names(columns, source.names, source.label)
        types = {name: kind for recipe in recipes for name, kind in recipe.types(source.names, *columns).items()}
        table = source.read(types) if recipes else source.read()
    labels, rows, names = [], None, list[str]()
    for name in (first, second):
        if name in models:
            model, recipe = models[name]
            rows, names = convert(table, recipe), recipe.outputs
            labels.append(model.predictor.naming.named(model.predict(rows)))
        else:
            labels.append(as_text(table[name]).astype(object))
    if rows is None:
        return compare_labels(labels[0], labels[1])
    return compare_labels(labels[0], labels[1], np.asarray(rows), names)
