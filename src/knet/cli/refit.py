"""The command `knet refit`: a model of new rows whose clusters keep the labels of the model before it."""

import time
from pathlib import Path
from typing import Annotated

from typer import Option

from knet.cli import options as opt
from knet.cli.messages import print_summary, say, warnings_as_lines

EXAMPLES = "Example:  knet refit january.safetensors february.csv -o february.safetensors --labels labels.csv"


def refit(
    *,
    model: opt.ModelFile,
    data: opt.Data,
    output: Annotated[Path, Option("--output", "-o", help="Model file to write (.safetensors).")],
    labels: Annotated[Path | None, Option(help="Table of labels to write: .csv, .parquet, ...")] = None,
    report: Annotated[Path | None, Option(help="Page on the changes to write, one .html file.")] = None,
    dialect: opt.DialectOptions,
    run: opt.RunOptions,
) -> None:
    """Fit a model to new rows, or to old and new ones; clusters that match keep their labels and names."""
    opt.check_inputs(data, model)
    run.check_outputs([(output, opt.MODEL), (labels, opt.TABLE), (report, opt.PAGE)], model, data)
    from knet.cli.columns import kept_columns, read_like  # slow: after the checks

    rows = read_like(model, data, dialect)
    import pyarrow as pa

    from knet import load  # slower still: after the table has been read
    from knet.explore.refit import refit as fit_again

    with run.limited_threads():
        started, old = time.perf_counter(), load(model)
        with warnings_as_lines():
            new, changes = fit_again(old, rows.X)
        new.save(output, overwrite=run.force)
    if labels is not None:
        from knet.tables.write import write_batches

        ids = kept_columns(rows.cells, rows.table, rows.recipe.ids, labels)
        write_batches(iter([pa.table({**ids, "label": new.labels_})]), labels, force=run.force)
    if report is not None:
        from knet.show.comparison import report as write_page

        write_page(changes, report, overwrite=run.force)
    for text in changes.changes if not run.as_json else ():
        say(text)
    files = {"model": output, "labels": labels, "report": report}
    summary = {
        "rows": len(rows.table),
        "n_clusters": new.n_clusters_,
        "seconds": round(time.perf_counter() - started, 2),
        **{key: value for key, value in changes.to_dict().items() if run.as_json or key in ("moved", "agreement")},
        **{name: str(path) for name, path in files.items() if path is not None},
    }
    print_summary(summary, as_json=run.as_json)
