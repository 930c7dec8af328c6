"""The work of `knet predict` and `knet embed`: a table in batches, or many files on a Dask cluster."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from knet.cli.columns import agreement, as_text, check_present, find_id_column, open_table
from knet.cli.messages import note_unseen
from knet.cli.models import load_light_model
from knet.cli.options import DialectOptions, RunOptions
from knet.cli.predict import Labelling
from knet.model.blocks import ModelRef, columns, on_device
from knet.progress import ProgressLine
from knet.tables.read import Source
from knet.tables.write import write_batches


def label_table(
    task: Labelling,
    dialect: DialectOptions,
    run: RunOptions,
    results: Sequence[str],
    reject: float | None,
    target: str | None,
) -> dict[str, Any]:
    """Write the results (label, proba, score, embedding) batch by batch; return the summary."""
    model, recipe = load_light_model(task.model)
    model.predictor.threshold(reject)  # an error before anything is written
    if task.device not in ("auto", "cpu"):  # for these two NumPy computes, which starts sooner than torch
        from knet.train.host import resolve_device

        model = on_device(model, str(resolve_device(task.device)))
    started, counts = time.perf_counter(), np.zeros(1 + model.n_clusters, np.int64)  # rejected rows, then the clusters
    known, found, unseen = list[NDArray[np.str_]](), list[NDArray[np.int64]](), Counter[str]()
    with open_table(task.data, dialect, recipe) as source:
        id_name = find_id_column(source, recipe, task.id_col, task.output)
        check_present(source, target)
        types = recipe.types(source.names, id_name, target)

        def batches() -> Iterator[pa.Table]:
            for table in _counted(source.batches(types), source):
                out = columns(model.predictor, recipe.apply(table, unseen), results, reject)
                if "label" in out:
                    counts[:] += np.bincount(out["label"] + 1, minlength=len(counts))
                if target is not None:
                    known.append(as_text(table[target]))
                    found.append(out["label"])
                yield pa.table(({} if id_name is None else {id_name: table[id_name]}) | out)

        n_rows = write_batches(batches(), task.output, force=run.force)
    note_unseen(unseen)
    return {
        "rows": n_rows,
        "seconds": round(time.perf_counter() - started, 2),
        **({"sizes": counts[1:].tolist()} if "label" in results else {}),
        **({} if reject is None else {"rejected": int(counts[0])}),
        **({} if target is None else agreement(np.concatenate(known), np.concatenate(found))),
        **({} if task.output is None else {"output": str(task.output)}),
    }


def _counted(tables: Iterator[pa.Table], source: Source) -> Iterator[pa.Table]:
    """Yield tables and show how many rows are done; an error if there are none, before an existing file is replaced."""
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


def label_folder(
    spec: str,
    task: Labelling,
    folder: Path,
    dialect: DialectOptions,
    run: RunOptions,
    results: Sequence[str],
    reject: float | None,
) -> dict[str, Any]:
    """Label many files, one output file per part; parts that an earlier run finished are skipped."""
    from knet.dask import files  # an error if Dask is not installed

    model, recipe = load_light_model(task.model)
    parts = files.plan(task.data, folder)
    with open_table(parts[0].source, dialect, recipe) as source:
        id_name = find_id_column(source, recipe, task.id_col)
        recipe.types(source.names)
    ref = ModelRef.of(model, "cpu" if task.device == "auto" else task.device, reject)
    job = files.Job(ref, recipe, tuple(results), id_name, dialect.known(recipe.dialect), run.threads or 1)
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
    return {
        "rows": n_rows,
        "parts": len(parts),
        "skipped": sum(done.skipped for done in finished),
        "sizes": sizes.tolist(),
        **({} if reject is None else {"rejected": n_rows - int(sizes.sum())}),
        "seconds": round(seconds, 2),
        "rows_per_second": round(sum(done.rows for done in finished if not done.skipped) / seconds),
        "output": str(folder),
    }
