"""The commands `knet predict` and `knet embed`: label or embed the rows of a table in batches."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from knet.cli import options as opt
from knet.cli.messages import note_unseen, print_summary, say
from knet.progress import ProgressLine
from knet.tables.formats import STDIN

if TYPE_CHECKING:
    import pyarrow as pa

    from knet.model.light import LightModel
    from knet.tables.conversion import Conversion
    from knet.tables.read import Source

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
    device: opt.Device = "auto"


def predict(
    *,
    task: Labelling,
    proba: Annotated[bool, Option("--proba", help="Add the membership in every cluster.")] = False,
    score: Annotated[bool, Option("--score", help="Add a score: higher is more familiar; the maximum is 0.")] = False,
    embedding: Annotated[bool, Option("--embedding", help="Add the embedded row.")] = False,
    reject: opt.Reject = None,
    target: opt.Target = None,
    dask: Annotated[str | None, Option(help=DASK_HELP)] = None,
    dialect: opt.DialectOptions,
    run: opt.RunOptions,
) -> None:
    """Label the rows of a table in batches: the table may be larger than memory.

    With --dask, many files are labelled into a folder, one output file each; a second run skips finished files.
    """
    asked = {"label": True, "proba": proba, "score": score, "embedding": embedding}
    results = [name for name, wanted in asked.items() if wanted]
    if dask is None:
        _label_table(task, dialect, run, results, reject, target)
    elif task.output is None or target is not None or task.data == STDIN:
        raise ValueError("--dask reads files and writes to a folder: it needs --output, and allows no --target or -.")
    else:
        _label_folder(dask, task, task.output, dialect, run, results, reject)


def embed(task: Labelling, dialect: opt.DialectOptions, run: opt.RunOptions) -> None:
    """Write the embedding of every row of a table, in batches."""
    _label_table(task, dialect, run, ["embedding"])


def _label_table(
    task: Labelling,
    dialect: opt.DialectOptions,
    run: opt.RunOptions,
    results: Sequence[str],
    reject: float | None = None,
    target: str | None = None,
) -> None:
    """Check the files, write the results (label, proba, score, embedding) and print the summary."""
    opt.check_inputs(task.data, task.model)
    if run.as_json and task.output is None:
        raise ValueError("--json prints to standard output, and so do the results. Use --output as well.")
    run.check_outputs([(task.output, opt.TABLE)], task.model, task.data)
    with run.limited_threads():
        summary = _write(task, dialect, results, reject, target, force=run.force)
    print_summary(summary, as_json=run.as_json)


def _write(
    task: Labelling,
    dialect: opt.DialectOptions,
    results: Sequence[str],
    reject: float | None,
    target: str | None,
    *,
    force: bool,
) -> dict[str, Any]:
    """Write the results batch by batch; return the summary."""
    import numpy as np
    import pyarrow as pa

    from knet.cli.columns import agreement, check_present, known_labels, note_source, to_rows
    from knet.cli.models import load_light_model
    from knet.model.blocks import columns
    from knet.tables.read import Source
    from knet.tables.write import write_batches

    model, recipe = load_light_model(task.model)
    predictor = _on_device(model, task.device).predictor
    predictor.threshold(reject)  # an error before anything is written
    counts = np.zeros(1 + model.n_clusters, np.int64)  # rejected rows, then the clusters
    started, known, found, unseen = time.perf_counter(), list[Any](), list[Any](), Counter[str]()
    with Source(task.data, dialect.known(recipe.dialect)) as source:
        note_source(source)
        id_name = _id_column(task, source, recipe)
        check_present(source, target)
        types = recipe.types(source.names, id_name, target)

        def batches() -> Iterator[pa.Table]:
            for table in _counted(source.batches(types), source):
                out = columns(predictor, to_rows(table, recipe, unseen), results, reject)
                if "label" in out:
                    counts[:] += np.bincount(out["label"] + 1, minlength=len(counts))
                if target is not None:
                    known.append(known_labels(table, target))
                    found.append(out["label"])
                yield pa.table(({} if id_name is None else {id_name: table[id_name]}) | out)

        n_rows = write_batches(batches(), task.output, force=force)
    note_unseen(unseen)
    return {
        "rows": n_rows,
        "seconds": round(time.perf_counter() - started, 2),
        **({"sizes": counts[1:].tolist()} if "label" in results else {}),
        **({} if reject is None else {"rejected": int(counts[0])}),
        **({} if target is None else agreement(np.concatenate(known), np.concatenate(found))),
        **({} if task.output is None else {"output": str(task.output)}),
    }


def _on_device(model: LightModel, device: str) -> LightModel:
    """Return the model on a device; "auto" computes with NumPy, which starts sooner than torch."""
    if device in ("auto", "cpu"):
        return model
    from knet.model.blocks import on_device
    from knet.train.host import resolve_device

    return on_device(model, str(resolve_device(device)))


def _id_column(task: Labelling, source: Source, recipe: Conversion) -> str | None:
    """Return the id column to copy; none if only the model names it and the output can hold numbers only."""
    from knet.cli.columns import find_id_column

    name = find_id_column(source, recipe, task.id_col, task.output)
    if name is None or task.id_col is not None or task.output is None or task.output.suffix.lower() != ".npy":
        return name
    say(f"note: {task.output} can hold numbers only, so the ids of {name!r} are left out.")
    return None


def _counted(tables: Iterator[pa.Table], source: Source) -> Iterator[pa.Table]:
    """Yield tables and show how many rows are done; if there are none, an error prevents that a file is replaced."""
    n_rows = 0
    with ProgressLine() as line:
        for table in tables:
            yield table
            n_rows += len(table)
            if line.is_due:
                share, seconds = source.share_read, line.seconds
                left = f", {seconds * (1 - share) / share:.0f} s left" if share else ""
                line.show(f"{n_rows:,} rows, {n_rows / seconds:,.0f} per second{left}")
    if n_rows == 0:
        raise ValueError(f"{source.label} has no rows.")


def _label_folder(
    spec: str,
    task: Labelling,
    folder: Path,
    dialect: opt.DialectOptions,
    run: opt.RunOptions,
    results: Sequence[str],
    reject: float | None,
) -> None:
    """Label many files on a Dask cluster, one output file per part; parts that an earlier run finished are skipped."""
    import numpy as np

    from knet.cli.columns import find_id_column, note_source
    from knet.cli.models import load_light_model
    from knet.dask import files
    from knet.model.blocks import ModelRef
    from knet.tables.read import Source

    model, recipe = load_light_model(task.model)
    parts, text = files.plan(task.data, folder), dialect.known(recipe.dialect)
    with Source(parts[0].source, text) as source:
        note_source(source)
        id_name = find_id_column(source, recipe, task.id_col)
        recipe.types(source.names)
    ref = ModelRef.of(model, "cpu" if task.device == "auto" else task.device, reject)
    job = files.Job(ref, recipe, tuple(results), id_name, text, run.threads or 1)
    started, finished, unseen = time.perf_counter(), list[files.Done](), Counter[str]()
    with files.cluster(spec) as client, ProgressLine() as line:
        files.open_folder(folder, job, force=run.force)
        files.remove_stale(parts)
        for done in files.run(client, parts, job):
            finished.append(done)
            unseen.update(done.unseen)
            if line.is_due:
                line.show(f"{len(finished):,} of {len(parts):,} parts")
    note_unseen(unseen)
    seconds, n_rows = time.perf_counter() - started, sum(done.rows for done in finished)
    sizes = np.sum([done.sizes for done in finished], axis=0)
    summary = {
        "rows": n_rows,
        "parts": len(parts),
        "skipped": sum(done.skipped for done in finished),
        "sizes": sizes.tolist(),
        **({} if reject is None else {"rejected": n_rows - int(sizes.sum())}),
        "seconds": round(seconds, 2),
        "rows_per_second": round(sum(done.rows for done in finished if not done.skipped) / seconds),
        "output": str(folder),
    }
    print_summary(summary, as_json=run.as_json)
