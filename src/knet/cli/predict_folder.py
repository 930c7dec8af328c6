"""`knet predict --dask`: label many files on a Dask cluster, into a folder."""

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from knet.cli.columns import find_id_column, note_source
from knet.cli.messages import note_unseen
from knet.cli.models import load_light_model
from knet.cli.progress import count_parts
from knet.dask import files
from knet.model.blocks import ModelRef
from knet.tables.dialect import TextOptions
from knet.tables.read import Source


def predict_folder(
    spec: str,
    model_file: Path,
    data: str,
    folder: Path,
    results: Sequence[str],
    *,
    reject: float | None,
    id_col: str | None,
    text: TextOptions,
    device: str,
    threads: int,
    force: bool,
) -> dict[str, Any]:
    """Label many files, one output file per part; parts that an earlier run finished are skipped."""
    model, recipe = load_light_model(model_file)
    parts = files.plan(data, folder)
    text = replace(text, prior=recipe.dialect)
    with Source(parts[0].source, text) as source:
        note_source(source)
        id_name = find_id_column(source, recipe, id_col)
        recipe.types(source.names)
    job = files.Job(ModelRef.of(model, device, reject), recipe, tuple(results), id_name, text, threads)
    started, sizes, unseen = time.perf_counter(), np.zeros(model.n_clusters, np.int64), Counter[str]()
    n_rows = n_labelled = n_skipped = 0
    with files.cluster(spec) as client:
        files.open_folder(folder, job, force=force)
        files.remove_stale(parts)
        for done in count_parts(files.run(client, parts, job), len(parts)):
            sizes += done.sizes
            unseen.update(done.unseen)
            n_rows, n_skipped = n_rows + done.rows, n_skipped + done.skipped
            n_labelled += 0 if done.skipped else done.rows
    note_unseen(unseen)
    seconds = time.perf_counter() - started
    return {
        "rows": n_rows,
        "parts": len(parts),
        "skipped": n_skipped,
        "sizes": sizes.tolist(),
        **({} if reject is None else {"rejected": n_rows - int(sizes.sum())}),
        "seconds": round(seconds, 2),
        "rows_per_second": round(n_labelled / seconds),
        "output": str(folder),
    }
