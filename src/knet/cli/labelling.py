"""The work of `knet predict` and `knet embed`: a table in batches, or many files on a Dask cluster."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from knet.cli.columns import agreement, as_text, find_ids, find_kept, kept_columns, open_table
from knet.cli.messages import note_unseen, say
from knet.cli.models import load_light_model
from knet.cli.options import DialectOptions, RunOptions
from knet.cli.predict import Labelling, Wanted
from knet.model.blocks import ModelRef, columns, on_device
from knet.model.drift import Drift, Moments, tested
from knet.model.levels import level_columns
from knet.model.light import LightModel
from knet.progress import ProgressLine
from knet.tables.conversion import Conversion, check_names
from knet.tables.read import Source
from knet.tables.write import write_batches


def label_table(task: Labelling, dialect: DialectOptions, run: RunOptions, wanted: Wanted) -> dict[str, object]:
    """Write the results batch by batch; return the summary."""
    results, reject, target = wanted.results, wanted.reject, wanted.target
    model, recipe = load_light_model(task.model)
    model.predictor.threshold(reject)  # an error before anything is written
    if task.device not in ("auto", "cpu"):  # for these two NumPy computes, which starts sooner than torch
        from knet.train.host import resolve_device

        model = on_device(model, str(resolve_device(task.device)))
    started, counts = time.perf_counter(), np.zeros(1 + model.n_clusters, np.int64)  # rejected rows, then the clusters
    known, found, unseen = list[NDArray[np.str_]](), list[NDArray[np.int64]](), Counter[str]()
    looked_at = list[Moments]()
    with open_table(task.data, dialect, recipe) as source:
        ids = find_ids(source, recipe, task.id_col, task.output)
        kept = find_kept(source.names, ids, task.keep, results, task.output)
        check_names([target], source.names, source.label)
        types = recipe.types(source.names, target)

        def batches() -> Iterator[pa.Table]:
            for table, cells in _counted(source.batches(types, kept), source):
                X = recipe.apply(table, unseen)
                out = columns(model.predictor, X, [name for name in results if name != "levels"], reject)
                looked_at[:] = [Moments.merge([*looked_at, tested(model.predictor, X)])]
                if "levels" in results:
                    out |= level_columns(out["label"], model.hierarchy, model.levels)
                if "label" in out:
                    counts[:] += np.bincount(out["label"] + 1, minlength=len(counts))
                if target is not None:
                    known.append(as_text(table[target]))
                    found.append(out["label"])
                yield pa.table(kept_columns(cells, table, kept, task.output) | out)

        n_rows = write_batches(batches(), task.output, force=run.force)
    note_unseen(unseen, 0 if reject else int(counts[0]))
    _note_foreign(looked_at, model, recipe)
    return {
        "rows": n_rows,
        "seconds": round(time.perf_counter() - started, 2),
        **({"sizes": counts[1:].tolist()} if "label" in results else {}),
        **({} if reject is None else {"rejected": int(counts[0])}),
        **({} if target is None else agreement(np.concatenate(known), np.concatenate(found))),
        **({} if task.output is None else {"output": str(task.output)}),
    }


def compare_table(model_file: Path, data: str, dialect: DialectOptions) -> Drift:
    """Return how the rows of a table differ from the training rows of a model."""
    model, recipe = load_light_model(model_file)
    unseen = Counter[str]()
    with open_table(data, dialect, recipe) as source:
        tables = _counted(source.batches(recipe.types(source.names)), source)
        found = Moments.merge(
            [Moments.of_rows(model.predictor.unedited, recipe.apply(table, unseen)) for table, _ in tables]
        )
    note_unseen(unseen)
    return Drift.of(found, model.predictor, recipe.outputs)


def _note_foreign(looked_at: Sequence[Moments], model: LightModel, recipe: Conversion) -> None:
    """Print a warning if far more rows than expected are unlike the training rows."""
    if looked_at and (found := Drift.of(Moments.merge(looked_at), model.predictor, recipe.outputs)).is_foreign:
        say(f"warning: {found.advice} See `knet drift`.")


def _counted(batches: Iterator[tuple[pa.Table, pa.Table]], source: Source) -> Iterator[tuple[pa.Table, pa.Table]]:
    """Yield batches and show how many rows are done; no rows are an error, before an existing file is replaced."""
    n_rows = 0
    with ProgressLine() as line:
        for table, cells in batches:
            yield table, cells
            n_rows += len(table)
            if line.is_due:
                share, seconds = source.file.share_read(), line.seconds
                left = f", {seconds * (1 - share) / share:.0f} s left" if share else ""
                line.show(f"{n_rows:,} rows, {n_rows / seconds:,.0f} per second{left}")
    if n_rows == 0:
        raise ValueError(f"{source.label} has no rows.")


def label_folder(
    spec: str, folder: Path, task: Labelling, dialect: DialectOptions, run: RunOptions, wanted: Wanted
) -> dict[str, object]:
    """Label many files, one output file per part; parts that an earlier run finished are skipped."""
    from knet.dask import files  # an error if Dask is not installed

    model, recipe = load_light_model(task.model)
    parts = files.plan(task.data, folder)
    with open_table(parts[0].source, dialect, recipe) as source:
        ids = find_ids(source, recipe, task.id_col)
        kept = find_kept(source.names, ids, task.keep or ["none"], wanted.results, None)
        recipe.types(source.names)
    ref = ModelRef.of(model, "cpu" if task.device == "auto" else task.device, wanted.reject)
    job = files.Job(ref, recipe, tuple(wanted.results), tuple(kept), dialect.known(recipe.dialect), run.threads or 1)
    started, finished, unseen = time.perf_counter(), list[files.Done](), Counter[str]()
    looked_at = list[Moments]()
    with files.cluster(spec) as client, ProgressLine() as line:
        files.open_folder(folder, job, force=run.force)
        files.remove_stale(parts)
        for done in files.run(client, parts, job):
            finished.append(done)
            unseen.update(done.unseen)
            looked_at += done.looked_at
            if line.is_due:
                line.show(f"{len(finished):,} of {len(parts):,} parts")
    note_unseen(unseen)
    _note_foreign(looked_at, model, recipe)
    seconds, n_rows = time.perf_counter() - started, sum(done.rows for done in finished)
    sizes = np.sum([done.sizes for done in finished], axis=0)
    return {
        "rows": n_rows,
        "parts": len(parts),
        "skipped": sum(done.skipped for done in finished),
        "sizes": sizes.tolist(),
        **({} if wanted.reject is None else {"rejected": n_rows - int(sizes.sum())}),
        "seconds": round(seconds, 2),
        "rows_per_second": round(sum(done.rows for done in finished if not done.skipped) / seconds),
        "output": str(folder),
    }
