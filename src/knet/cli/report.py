"""The command `knet report`: write a report on a model and a table."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from knet.cli import options as opt
from knet.cli.messages import print_summary, say
from knet.tables.formats import STDIN

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import ArrayLike

    from knet.estimator import KNet
    from knet.explore.stability import Stability
    from knet.tables.conversion import Conversion

EXAMPLES = "Example:  knet report m.safetensors data.csv -o report.html --target species"


def report(
    *,
    model: opt.ModelFile,
    data: opt.Data,
    output: Annotated[Path, Option("--output", "-o", help="The .html file to write.")],
    target: opt.Target = None,
    text_col: opt.TextCol = None,
    dialect: opt.DialectOptions,
    n_refits: opt.Refits = 2,
    run: opt.RunOptions,
) -> None:
    """Write a report on a model and a table, as one HTML file that needs no network."""
    opt.check_inputs(data, model)
    run.check_outputs([(output, opt.PAGE)], model, data)
    from knet.cli.columns import check_present, note_source, to_named_table  # slow: after the checks
    from knet.cli.models import load_light_model
    from knet.tables.read import Source

    recipe = load_light_model(model)[1]
    with Source(data, dialect.known(recipe.dialect)) as source:
        note_source(source)
        check_present(source, target, text_col)
        target = target or (recipe.target if recipe.target in source.names else None)
        recipe = replace(recipe, id_col=recipe.id_col if recipe.id_col in source.names else None, target=target)
        table = source.read(recipe.types(source.names, recipe.id_col, target, text_col))
    X = to_named_table(table, recipe)
    from knet import load  # slower still: after the files have been read

    with run.limited_threads():
        fitted = load(model)
        stability, facts = measure_stability(fitted, X, n_refits)
        origin = table, recipe, data, text_col
        write_report(fitted, X, output, origin, stability=stability, overwrite=run.force)
    print_summary({"rows": len(table), **facts, "report": str(output)}, as_json=run.as_json)


def measure_stability(
    model: KNet, X: pa.Table, n_refits: int, labels: ArrayLike | None = None
) -> tuple[Stability | None, dict[str, Any]]:
    """Refit a model on samples of the rows; return the stability and what the summary says about it.

    The stability is None if there are no refits or they would say nothing. The summary has that of all clusters and of
    each one, null for a cluster without rows; it has neither if there are too few rows.
    """
    if n_refits == 0 or model.n_clusters == 1:
        return None, {}
    from knet.explore.samples import sample_rows
    from knet.explore.stability import REFIT_ROWS, sample_stability

    say(f"{n_refits} refit{'s' * (n_refits != 1)} to measure stability ...")
    rows = sample_rows(model, X, REFIT_ROWS, labels=labels)
    found = sample_stability(model, X, rows, n_refits=n_refits, random_state=0)
    if found is None:
        return None, {}
    if found.caveat:
        say(f"note: {found.caveat}")
    for text in found.doubts:
        say(f"warning: {text}")
    clusters = [round(value, 2) if value == value else None for value in found.clusters.tolist()]
    facts = {"stability": round(found.overall, 2), "cluster_stability": clusters}
    return found, facts if found.is_known else {}


def write_report(
    model: KNet, X: pa.Table, path: Path, origin: tuple[pa.Table, Conversion, str, str | None], **options: Any
) -> None:
    """Write the report on the rows X.

    `origin` is the table, the recipe that made X from it, the table's file, and the column of texts. It gives the known
    labels, the names of rows (ids, texts or both) and the name of the data. There are no refits.
    """
    from knet.cli.columns import known_labels
    from knet.show.page import report

    table, recipe, data, text_col = origin
    names = [table[name].to_pylist() for name in (recipe.id_col, text_col) if name is not None]
    both = [f"{own}: {text}" for own, text in zip(*names, strict=True)] if len(names) == 2 else None
    report(
        model,
        X,
        path,
        target=known_labels(table, recipe.target),
        ids=both or (names[0] if names else None),
        source="standard input" if data == STDIN else Path(data).name,
        command=shlex.join(["knet", *sys.argv[1:]]),
        n_refits=0,
        **options,
    )
