"""What the commands do, with the library imported: each function returns a summary as plain data."""

import logging
import re
import shlex
import sys
import time
import warnings
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from knet import load
from knet.blocks import ModelRef, columns
from knet.estimator import KNet
from knet.metrics import accuracy, ari, nmi
from knet.model_file import save

try:
    import pyarrow as pa

    from knet.tables.read import STDIN, Source, check_suffix
    from knet.tables.recipe import Choices, Recipe
    from knet.tables.write import check_target, new_file, write_batches
except ImportError as error:
    raise ImportError(f"Reading tables needs {error.name}. Install it with: pip install 'knet[tables]'") from error

RESULTS = re.compile(r"label|score|(proba|psi)_\d+")  # names of columns in the output
LINE_EVERY = 10.0  # seconds between lines of progress in a pipe


@dataclass(frozen=True)
class Targets:
    """Files that a fit writes."""

    model: Path | None
    labels: Path | None
    report: Path | None
    force: bool

    def check(self) -> None:
        """Raise before the work starts where a file could not be written after it."""
        for path in filter(None, (self.model, self.labels, self.report)):
            check_target(path, force=self.force)
        if self.labels is not None:
            check_suffix(str(self.labels), "write")


@contextmanager
def limited(threads: int | None) -> Iterator[None]:
    """Keep torch and the linear algebra to a number of threads; None leaves them as they are."""
    if threads is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with threadpool_limits(threads):
            yield
    finally:
        torch.set_num_threads(before)


def fit(
    data: str,
    params: Mapping[str, Any],
    choices: Mapping[str, Any],
    targets: Targets,
    *,
    header: bool | None = None,
    refits: int = 2,
    quiet: bool = False,
) -> dict[str, Any]:
    """Fit a model to a table and write what was asked for; labels go to standard output where nothing was."""
    targets.check()
    _check_id_name(choices["id_col"])
    table, recipe = read_to_fit(data, choices, header)
    X = recipe.apply(table)
    started = time.perf_counter()
    with _reported():
        model = KNet(**params, keep_rounds=targets.report is not None, verbose=1).fit(_named(X, recipe))
    done = {"rows": len(X), **_summary(model), "seconds": round(time.perf_counter() - started, 2)}
    done |= _agreement(table, recipe.target, model.labels_)
    if targets.model is not None:
        save(model, targets.model, extra={"table": recipe.to_json()})
        done["model"] = str(targets.model)
    if targets.labels is not None or (targets.model is None and not quiet):
        ids = [] if recipe.id_col is None else [(recipe.id_col, table[recipe.id_col])]
        labelled = dict([*ids, ("label", pa.array(model.labels_))])
        write_batches(iter([pa.table(labelled)]), targets.labels, force=targets.force)
        done |= {} if targets.labels is None else {"labels": str(targets.labels)}
    if targets.report is not None:
        _report(model, X, targets.report, table, recipe, refits, targets.force, data)
        done["report"] = str(targets.report)
    return done


def predict(
    model_path: Path,
    data: str,
    output: Path | None,
    wanted: Collection[str],
    *,
    id_col: str | None = None,
    target: str | None = None,
    header: bool | None = None,
    device: str = "auto",
    force: bool = False,
) -> dict[str, Any]:
    """Write what is wanted of every row (label, proba, score, embedding), batch by batch."""
    if output is not None:
        check_target(output, force=force)
        check_suffix(str(output), "write")
    model, recipe = _load(model_path, device)
    started, counts, truth = time.perf_counter(), np.zeros(model.n_clusters, np.int64), _Truth()
    with Source(data, header) as source:
        _note_renamed(source)
        keep = _id_column(source, recipe, id_col)
        _check_present(source, target)
        types = recipe.types(source.names, keep, target)

        def rows() -> Iterator[pa.Table]:
            for table in _watched(source.batches(types), source):
                out = columns(model.predictor_, recipe.apply(table), wanted)
                if "label" in out:
                    counts[:] += np.bincount(out["label"], minlength=model.n_clusters)
                    truth.add(table, target, out["label"])
                yield pa.table(({} if keep is None else {keep: table[keep]}) | out)

        n_rows = write_batches(rows(), output, force=force)
    if n_rows == 0:
        raise ValueError(f"{source.label} has no rows.")
    _note_unseen(recipe.unseen)
    done: dict[str, Any] = {"rows": n_rows, "seconds": round(time.perf_counter() - started, 2)}
    done |= {"sizes": counts.tolist()} if "label" in wanted else {}
    return done | truth.agreement() | ({} if output is None else {"output": str(output)})


def predict_on_cluster(
    spec: str,
    model_path: Path,
    data: str,
    folder: Path,
    wanted: Collection[str],
    *,
    id_col: str | None = None,
    header: bool | None = None,
    device: str = "cpu",
    threads: int = 1,
    force: bool = False,
) -> dict[str, Any]:
    """Label many files on a Dask cluster, one output file per partition, and go on where an earlier run ended."""
    from knet.dask import files as partitions

    model, recipe = _load(model_path, "cpu")
    parts = partitions.plan(data, folder)
    with Source(parts[0].source, header) as source:
        keep = _id_column(source, recipe, id_col)
        recipe.types(source.names)
    job = partitions.Job(ModelRef.of(model, device), recipe, tuple(wanted), keep, header, threads)
    started, sizes, unseen = time.perf_counter(), np.zeros(model.n_clusters, np.int64), Counter[str]()
    n_rows = n_labelled = n_skipped = 0
    with partitions.cluster(spec) as client:
        partitions.open_folder(folder, job, force=force)
        partitions.remove_stale(parts)
        for done in _counted(partitions.run(client, parts, job), len(parts)):
            sizes += done.sizes
            unseen.update(done.unseen)
            n_rows, n_skipped = n_rows + done.rows, n_skipped + done.skipped
            n_labelled += 0 if done.skipped else done.rows
    _note_unseen(unseen)
    seconds = time.perf_counter() - started
    return {
        "rows": n_rows,
        "partitions": len(parts),
        "skipped": n_skipped,
        "sizes": sizes.tolist(),
        "seconds": round(seconds, 2),
        "rows_per_second": round(n_labelled / seconds),
        "output": str(folder),
    }


def write_report(
    model_path: Path, data: str, output: Path, *, target: str | None, header: bool | None, refits: int, force: bool
) -> dict[str, Any]:
    """Write a report on a model and a table."""
    check_target(output, force=force)
    model, recipe = _load(model_path, "cpu")
    with Source(data, header) as source:
        _note_renamed(source)
        _check_present(source, target)
        recipe = replace(
            recipe,
            id_col=recipe.id_col if recipe.id_col in source.names else None,
            target=target or (recipe.target if recipe.target in source.names else None),
        )
        types = recipe.types(source.names, recipe.id_col, recipe.target)
        table = source.read(types if source.is_text else {})
    _report(model, recipe.apply(table), output, table, recipe, refits, force, data)
    return {"rows": len(table), "report": str(output)}


def export_onnx(model_path: Path, output: Path, *, force: bool) -> dict[str, Any]:
    """Write a model as an ONNX graph."""
    from knet.export import to_onnx

    model, recipe = _load(model_path, "cpu")
    fills = [
        (0.0 if column.kind == "category" else column.fill) if column.fills_gaps else None
        for column in recipe.columns
        for _ in column.outputs
    ]
    with new_file(output, force=force) as temporary:
        difference = to_onnx(model, temporary, recipe.outputs, fills)
    return {"onnx": str(output), "inputs": recipe.outputs, "largest_difference": difference}


def describe(path: Path) -> dict[str, Any]:
    """Return what is in a model file."""
    model, recipe = _load(path, "cpu")
    filled = [column.name for column in recipe.columns if column.fills_gaps]
    return {
        **_summary(model, with_sizes=False),
        "embedding": model.cluster_centers_.shape[1],
        "seed": model.random_state,
        "columns": [column.name for column in recipe.columns],
        **({"id": recipe.id_col} if recipe.id_col else {}),
        **({"imputed": filled} if filled else {}),
    }


def _summary(model: KNet, *, with_sizes: bool = True) -> dict[str, Any]:
    """Return the main facts of a model."""
    sizes = np.bincount(model.labels_, minlength=model.n_clusters).tolist() if with_sizes else None
    return {
        "clusters": model.n_clusters,
        **({"sizes": sizes} if with_sizes else {}),
        "trained_on": model.n_train_,
        "rounds": model.n_iter_,
        "sigma": round(float(model.sigma_), 6),
        "hsic": round(float(model.history_[-1]["hsic"]), 6) if model.history_ else None,
    }


def read_to_fit(data: str, choices: Mapping[str, Any], header: bool | None) -> tuple[pa.Table, Recipe]:
    """Read a whole table and learn how its columns become numbers."""
    with Source(data, header) as source:
        _note_renamed(source)
        id_col = choices["id_col"]
        asked = Choices(
            **{**choices, "columns": _split(choices["columns"], source), "drop": _split(choices["drop"], source)}
        )
        table = source.read({id_col: pa.string()} if id_col in source.names and source.is_text else {})
    return table, Recipe.learn(table, asked)


def _split(names: list[str], source: Source) -> list[str]:
    """Return the names in a list option: each a column, or several with commas between."""
    return [part for name in names for part in ([name] if name in source.names else name.split(","))]


def _load(path: Path, device: str) -> tuple[KNet, Recipe]:
    """Read a model and the recipe of its columns."""
    from knet._fit.host import resolve_device

    model = load(path, device=str(resolve_device(device)))
    recipe = (getattr(model, "extra_", None) or {}).get("table")
    if recipe is not None:
        return model, Recipe.from_json(recipe)
    names = getattr(model, "feature_names_in_", [f"x{j}" for j in range(model.n_features_in_)])
    return model, Recipe.of_numbers(str(name) for name in names)


class _Truth:
    """Known labels and found ones, collected over the batches of a prediction."""

    def __init__(self) -> None:
        self.known: list[NDArray[Any]] = []
        self.found: list[NDArray[np.int64]] = []

    def add(self, table: pa.Table, target: str | None, found: NDArray[np.int64]) -> None:
        """Keep a batch."""
        if target is not None:
            self.known.append(np.array([str(value) for value in table[target].to_pylist()]))
            self.found.append(found)

    def agreement(self) -> dict[str, float]:
        """Return how well both agree; nothing where nothing is known."""
        return scores(np.concatenate(self.known), np.concatenate(self.found)) if self.known else {}


def scores(known: NDArray[Any], found: NDArray[np.int64]) -> dict[str, float]:
    """Return NMI, adjusted Rand index and matched accuracy."""
    return {name: round(score(known, found), 6) for name, score in (("nmi", nmi), ("ari", ari), ("accuracy", accuracy))}


def _target(table: pa.Table, target: str | None) -> NDArray[Any] | None:
    return None if target is None else np.array([str(value) for value in table[target].to_pylist()])


def _agreement(table: pa.Table, target: str | None, labels: NDArray[np.int64]) -> dict[str, float]:
    known = _target(table, target)
    return {} if known is None else scores(known, labels)


def _id_column(source: Source, recipe: Recipe, id_col: str | None) -> str | None:
    """Return the column that identifies rows: the one asked for, or the fit's where the file has it."""
    _check_present(source, id_col)
    name = id_col or (recipe.id_col if recipe.id_col in source.names else None)
    _check_id_name(name)
    return name


def _check_id_name(name: str | None) -> None:
    """Refuse identifiers that a column of results would replace in the output."""
    if name is not None and RESULTS.fullmatch(name):
        raise ValueError(f"The id column {name!r} has the name of a result. Rename it first.")


def _check_present(source: Source, name: str | None) -> None:
    from knet.tables.recipe import near_miss

    if name is not None and name not in source.names:
        raise ValueError(f"There is no column {name!r} in {source.label}.{near_miss(name, source.names)}")


def _report(
    model: KNet,
    X: NDArray[np.float64],
    path: Path,
    table: pa.Table,
    recipe: Recipe,
    refits: int,
    force: bool,
    data: str,
) -> None:
    from knet.report import report

    if refits:
        say(f"report: {refits} refits to measure stability ...")
    facts: dict[str, Any] = {
        "target": _target(table, recipe.target),
        "ids": None if recipe.id_col is None else table[recipe.id_col].to_pylist(),
        "source": "standard input" if data == STDIN else Path(data).name,
        "command": shlex.join(["knet", *sys.argv[1:]]),
    }
    with new_file(path, force=force) as temporary:
        report(model, _named(X, recipe), temporary, refits=refits, **facts)


def _named(X: NDArray[np.float64], recipe: Recipe) -> pa.Table:
    """Return rows of numbers under the names that the model knows them by."""
    return pa.table(list(np.ascontiguousarray(X.T)), names=recipe.outputs)


def _note_renamed(source: Source) -> None:
    if source.renamed:
        say(f"note: repeated column names in {source.label} are now {', '.join(map(repr, source.renamed))}.")


def _note_unseen(counts: Mapping[str, int]) -> None:
    for name, count in counts.items():
        say(f"note: {count:,} rows have a value of {name!r} that the model never saw; it counts as none it knows.")


def say(text: str) -> None:
    """Write a line to standard error."""
    sys.stderr.write(text + "\n")


@contextmanager
def _reported() -> Iterator[None]:
    """Show warnings as single lines on standard error, and the rounds where there is no terminal for a bar."""
    logger = logging.getLogger("knet")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(message)s"))
    plain = not sys.stderr.isatty()
    level = logger.level
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        if plain:
            logger.addHandler(handler)
            logger.setLevel(logging.INFO)
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(level)
    for text in dict.fromkeys(str(one.message) for one in caught if issubclass(one.category, UserWarning)):
        say(f"warning: {text}")


def _watched(tables: Iterator[pa.Table], source: Source) -> Iterator[pa.Table]:
    """Pass tables on and say how far they are: on a terminal all the time, in a pipe a line now and then."""
    started = last = time.perf_counter()
    n_rows, terminal = 0, sys.stderr.isatty()
    for table in tables:
        yield table
        n_rows += len(table)
        now = time.perf_counter()
        if now - last >= (0.2 if terminal else LINE_EVERY):
            last = now
            text = f"{n_rows:,} rows, {n_rows / (now - started):,.0f} per second{_time_left(source, now - started)}"
            sys.stderr.write(f"\r{text}\033[K" if terminal else f"{text}\n")
    if terminal and n_rows:
        sys.stderr.write("\r\033[K")


def _counted(items: Iterator[Any], total: int) -> Iterator[Any]:
    """Pass items on and say how many are done: on a terminal all the time, in a pipe a line now and then."""
    last, terminal = time.perf_counter(), sys.stderr.isatty()
    for number, item in enumerate(items, 1):
        yield item
        now = time.perf_counter()
        if now - last >= (0.2 if terminal else LINE_EVERY):
            last = now
            text = f"{number:,} of {total:,} partitions"
            sys.stderr.write(f"\r{text}\033[K" if terminal else f"{text}\n")
    if terminal:
        sys.stderr.write("\r\033[K")


def _time_left(source: Source, seconds: float) -> str:
    """Say how long the rest of a file will take, where its length is known."""
    share = source.share_read
    return f", {seconds * (1 - share) / share:.0f} s left" if share else ""
