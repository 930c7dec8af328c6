"""The command `knet report`: write a report on a model and a table."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import typer

from knet.cli import options as opt
from knet.cli.messages import print_summary
from knet.cli.stability import measure_stability, stability_facts
from knet.cli.threads import limit_threads

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from knet.estimator import KNet
    from knet.explore.stability import Stability
    from knet.tables.conversion import Conversion
    from knet.tables.dialect import TextOptions

EXAMPLES = "Example:  knet report m.safetensors data.csv -o report.html --target species"


def report(
    model: opt.ModelFile,
    data: opt.Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="The .html file to write.")],
    target: opt.Target = None,
    text_col: opt.TextCol = None,
    header: opt.Header = None,
    sep: opt.Sep = None,
    decimal: opt.Decimal = None,
    encoding: opt.Encoding = None,
    na: opt.Na = None,
    n_refits: opt.Refits = 2,
    threads: opt.Threads = None,
    as_json: opt.Json = False,
    force: opt.Force = False,
) -> None:
    """Write a report on a model and a table, as one HTML file that needs no network."""
    opt.check_inputs(data, model)
    from knet.cli.columns import to_named_table  # slow: after the checks
    from knet.cli.models import load_model
    from knet.tables.formats import check_ending
    from knet.tables.write import check_targets

    check_targets([output], [model, data], force=force)
    check_ending(output, ".html", ".htm")
    text = opt.text_options(sep, decimal, encoding, na, header)
    with limit_threads(threads):
        fitted, recipe = load_model(model)
        table, recipe = _read(data, recipe, target, text_col, text)
        X, facts = to_named_table(recipe.apply(table), recipe), ReportFacts.of(table, recipe, data, text_col)
        stability = measure_stability(fitted, X, n_refits)
        write_report(fitted, X, output, facts, labels=None, stability=stability, force=force)
    print_summary({"rows": len(table), **stability_facts(stability), "report": str(output)}, as_json=as_json)


def _read(
    data: str, recipe: Conversion, target: str | None, text_col: str | None, text: TextOptions
) -> tuple[pa.Table, Conversion]:
    """Return the table, and the recipe with the id column and the target that this table has."""
    from knet.cli.columns import check_present, note_source
    from knet.tables.read import Source

    with Source(data, replace(text, prior=recipe.dialect)) as source:
        note_source(source)
        check_present(source, target)
        check_present(source, text_col)
        recipe = replace(
            recipe,
            id_col=recipe.id_col if recipe.id_col in source.names else None,
            target=target or (recipe.target if recipe.target in source.names else None),
        )
        types = recipe.types(source.names, recipe.id_col, recipe.target, text_col)
        return source.read(types), recipe


@dataclass(frozen=True)
class ReportFacts:
    """What the report shows in addition to the model and its rows."""

    target: NDArray[np.str_] | None
    ids: list[Any] | None
    source: str
    command: str

    @classmethod
    def of(cls, table: pa.Table, recipe: Conversion, data: str, text_col: str | None) -> Self:
        """Return the facts of a table: its known labels, its ids, its name, and the command that reads it."""
        from knet.cli.columns import known_labels
        from knet.tables.formats import STDIN

        return cls(
            target=known_labels(table, recipe.target),
            ids=_row_names(table, recipe.id_col, text_col),
            source="standard input" if data == STDIN else Path(data).name,
            command=shlex.join(["knet", *sys.argv[1:]]),
        )


def _row_names(table: pa.Table, id_col: str | None, text_col: str | None) -> list[Any] | None:
    """Return what the report calls the rows: the id, the text, or both; None if there is neither."""
    columns = [table[name].to_pylist() for name in (id_col, text_col) if name is not None]
    if len(columns) < 2:
        return columns[0] if columns else None
    return [f"{own}: {text}" for own, text in zip(*columns, strict=True)]


def write_report(
    model: KNet,
    X: pa.Table,
    path: Path,
    facts: ReportFacts,
    *,
    labels: NDArray[np.int64] | None,
    stability: Stability | None,
    force: bool,
) -> None:
    """Write the report on the rows X; `labels` are their clusters if they are known already."""
    from knet.show.report import report

    report(
        model,
        X,
        path,
        labels=labels,
        target=facts.target,
        ids=facts.ids,
        source=facts.source,
        command=facts.command,
        stability=stability,
        n_refits=0,
        overwrite=force,
    )
