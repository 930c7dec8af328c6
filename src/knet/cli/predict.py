"""The commands `knet predict` and `knet embed`: label or embed the rows of a table in batches."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Option

from knet.cli import options as opt
from knet.cli.messages import print_summary
from knet.tables.formats import STDIN

PREDICT_EXAMPLES = (
    "Examples:  knet predict m.safetensors new.parquet -o labels.parquet --proba --score   |   "
    "knet predict m.safetensors 'big/*.parquet' -o labels/ --dask local:4"
)
DASK_HELP = "Label a folder or pattern of files on local:N processes, or on the cluster at tcp://host:port."
EMBED_EXAMPLES = "Example:  knet embed m.safetensors new.csv -o embedding.npy"


@dataclass(frozen=True)
class Labelling:
    """A model, the table whose rows it labels or embeds, and where the results go."""

    model: opt.ModelFile
    data: opt.Data
    output: Annotated[Path | None, Option("--output", "-o", help="File to write; default: standard output.")] = None
    id_col: opt.IdCol = None
    keep: opt.Keep = None
    device: opt.Device = "auto"


@dataclass(frozen=True)
class Wanted:
    """What is computed for each row: results (label, levels, proba, score, embedding), and what is done with labels."""

    results: Sequence[str]
    reject: float | None = None
    target: str | None = None


def predict(
    *,
    task: Labelling,
    proba: opt.Proba = False,
    score: Annotated[bool, Option("--score", help="Add a score: higher is more familiar; the maximum is 0.")] = False,
    embedding: Annotated[bool, Option("--embedding", help="Add the embedded row.")] = False,
    levels: Annotated[bool, Option("--levels", help="Add the labels of coarser levels: level_1, ...")] = False,
    reject: opt.Reject = None,
    target: opt.Target = None,
    dask: Annotated[str | None, Option(help=DASK_HELP)] = None,
    dialect: opt.DialectOptions,
    run: opt.RunOptions,
) -> None:
    """Label the rows of a table in batches: the table may be larger than memory.

    With --dask, many files are labelled into a folder, one output file each; a second run skips finished files.
    """
    asked = {"label": True, "levels": levels, "proba": proba, "score": score, "embedding": embedding}
    wanted = Wanted([name for name, is_asked in asked.items() if is_asked], reject, target)
    if dask is None:
        _run(task, dialect, run, wanted)
        return
    if task.output is None or target is not None or task.data == STDIN or levels:
        raise ValueError(
            "--dask reads files and writes to a folder: it needs --output, and allows no --target, --levels or -."
        )
    from knet.cli.labelling import label_folder

    print_summary(label_folder(dask, task.output, task, dialect, run, wanted), as_json=run.as_json)


def embed(task: Labelling, dialect: opt.DialectOptions, run: opt.RunOptions) -> None:
    """Write the embedding of every row of a table, in batches."""
    _run(task, dialect, run, Wanted(["embedding"]))


def _run(task: Labelling, dialect: opt.DialectOptions, run: opt.RunOptions, wanted: Wanted) -> None:
    """Check the files, write the results and print the summary."""
    opt.check_inputs(task.data, task.model)
    if run.as_json and task.output is None:
        raise ValueError("--json prints to standard output, and so do the results. Use --output as well.")
    run.check_outputs([(task.output, opt.TABLE)], task.model, task.data)
    from knet.cli.labelling import label_table  # slow: after the checks

    with run.limited_threads():
        summary = label_table(task, dialect, run, wanted)
    print_summary(summary, as_json=run.as_json)
