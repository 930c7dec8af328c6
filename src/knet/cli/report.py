"""The command `knet report`: write a report on a model and a table."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from knet.cli import options as opt
from knet.cli.messages import print_summary, say

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from knet.cli.columns import Rows
    from knet.estimator import KNet
    from knet.explore.stability import Stability

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
    from knet.cli.columns import read_like  # slow: after the checks

    rows = read_like(model, data, dialect, target, text_col)
    from knet import load  # slower still: after the files have been read

    with run.limited_threads():
        fitted = load(model)
        stability, facts = measure_stability(fitted, rows, n_refits)
        write_report(fitted, rows, output, stability=stability, overwrite=run.force)
    print_summary({"rows": len(rows.table), **facts, "report": str(output)}, as_json=run.as_json)


def measure_stability(
    model: KNet, rows: Rows, n_refits: int, labels: ArrayLike | None = None
) -> tuple[Stability | None, dict[str, object]]:
    """Refit a model on samples of the rows; return the stability and what the summary says about it.

    The stability is None if there are no refits or they would say nothing. The summary has that of all clusters and of
    each one, null for a cluster without rows; it has neither if there are too few rows.
    """
    if n_refits == 0 or model.n_clusters_ == 1:
        return None, {}
    from knet.explore.samples import sample_rows
    from knet.explore.stability import REFIT_ROWS, sample_stability

    say(f"{n_refits} refit{'s' * (n_refits != 1)} to measure stability ...")
    sample = sample_rows(model, rows.X, REFIT_ROWS, labels=labels)
    found = sample_stability(model, rows.X, sample, n_refits=n_refits, random_state=0)
    if found is None:
        return None, {}
    if found.caveat:
        say(f"note: {found.caveat}")
    for text in found.doubts:
        say(f"warning: {text}")
    clusters = [round(value, 2) if value == value else None for value in found.clusters.tolist()]
    facts = {"stability": round(found.overall, 2), "cluster_stability": clusters}
    return found, facts if found.is_known else {}


def write_report(model: KNet, rows: Rows, path: Path, **options: Any) -> None:
    """Write the report on a table; its stability is among the options, or not measured."""
    from knet.show.report import report

    options |= {"source": Path(rows.label).name, "command": shlex.join(["knet", *sys.argv[1:]]), "ids": rows.names}
    report(model, rows.X, path, target=rows.known_labels, n_refits=0, **options)
