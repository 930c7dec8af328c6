"""The command `knet drift`: how the rows of a table differ from the training rows of a model."""

from pathlib import Path
from typing import Annotated

from typer import Option

from knet.cli import options as opt
from knet.cli.messages import print_result

EXAMPLES = "Examples:  knet drift m.safetensors new.csv   |   knet drift m.safetensors new.csv -o drift.csv --json"


def drift(
    *,
    model: opt.ModelFile,
    data: opt.Data,
    output: Annotated[Path | None, Option("--output", "-o", help="Table to write; default: standard output.")] = None,
    dialect: opt.DialectOptions,
    run: opt.RunOptions,
) -> None:
    """Compare the rows of a table with those that a model was fitted on: how many are unlike them, and which columns.

    The table of columns, those that differ most first, is written to standard output, on a terminal as a table, else as
    CSV, or to --output; the summary to standard error. The table is read in batches and may be larger than memory.
    """
    opt.check_inputs(data, model)
    run.check_outputs([(output, opt.TABLE)], model, data)
    from knet.cli.labelling import compare_table  # slow: after the checks

    with run.limited_threads():
        found = compare_table(model, data, dialect)
    summary = {
        "rows": found.n_rows,
        "unfamiliar": round(found.unfamiliar, 4),
        "size_shift": round(found.size_shift, 4),
        "shares": [round(share, 4) for share in found.shares.tolist()],
        "training_shares": [round(share, 4) for share in found.reference_shares.tolist()],
        "is_foreign": found.is_foreign,
        "advice": found.advice,
    }
    print_result("columns", found.table(), summary, output, run)
