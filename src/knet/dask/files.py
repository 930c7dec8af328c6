"""Many files labelled on a Dask cluster: one output file per input partition, in a folder that belongs to one model.

A partition is a file, or a run of row groups of a large Parquet file. Its output appears whole or not at all, and names
in its metadata the model and the source that it comes from, so that a second run finds out what is left to do. A file
at the top of the folder names the model too, and a run with another one is refused.
"""

import glob
import json
import logging
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet
from numpy.typing import NDArray

try:
    from distributed import Client, Future, KilledWorker, LocalCluster, as_completed
except ImportError as error:
    raise ImportError(f"--dask needs {error.name}. Install it with: pip install 'knet[dask]'") from error

from knet import __version__
from knet.blocks import ModelRef, columns, torch_threads
from knet.tables.read import SUFFIXES, Source, check_suffix
from knet.tables.recipe import Recipe, near_miss
from knet.tables.whole_files import whole_file
from knet.tables.write import Sink

PART_ROWS = 4_000_000  # rows of a Parquet file that make one partition, to whole row groups
STAMP = "_knet.json"
KEY = b"knet"  # of the metadata of an output file
IN_FLIGHT = 4  # partitions that wait per worker thread: the scheduler holds no more, however many there are
CONNECT_SECONDS, WORKER_SECONDS = 10, 60


@dataclass(frozen=True)
class Partition:
    """Rows of one file, and the file that their labels go to."""

    source: str
    output: Path
    groups: tuple[int, int] | None = None  # row groups of a Parquet file, from and to


@dataclass(frozen=True)
class Job:
    """What is done to every partition: it travels to the workers once, as the model in it does."""

    ref: ModelRef
    recipe: Recipe
    outputs: tuple[str, ...]
    id_col: str | None
    header: bool | None
    threads: int

    @property
    def stamp(self) -> dict[str, Any]:
        """Return what has to be equal in all files of a folder."""
        return {
            "model": self.ref.fingerprint,
            "outputs": list(self.outputs),
            "id": self.id_col,
            "rows_per_part": PART_ROWS,
        }


@dataclass(frozen=True)
class Done:
    """What became of a partition."""

    rows: int
    sizes: list[int]
    skipped: bool
    unseen: dict[str, int] = field(default_factory=dict)


def plan(data: str, folder: Path) -> list[Partition]:
    """Return the partitions of all files that a pattern or a folder names; outputs lie as the sources do."""
    base, files = _files(data, folder)
    partitions = [part for file in files for part in _split(file, folder / file.relative_to(base))]
    outputs = [part.output for part in partitions]
    if len(set(outputs)) < len(outputs):
        twice = next(path for path in outputs if outputs.count(path) > 1)
        raise ValueError(f"Two input files would write {twice}. Label them into folders of their own.")
    return partitions


def _files(data: str, folder: Path) -> tuple[Path, list[Path]]:
    """Return the folder that all files are below, and the files in order, without hidden ones and those of `folder`."""
    whole = Path(data).is_dir()
    pattern = Path(data, "**", "*") if whole else Path(data)
    magic = [number for number, part in enumerate(pattern.parts) if glob.has_magic(part)]
    base = Path(*pattern.parts[: magic[0]]) if magic else pattern.parent
    if folder.resolve() == base.resolve():
        raise ValueError(f"The output folder {folder} is that of the input. Choose another one.")
    found = [Path(name) for name in sorted(glob.glob(str(pattern), recursive=True)) if Path(name).is_file()]
    files = [
        path
        for path in found
        if not path.name.startswith("_")
        and not (whole and path.suffix.lower() not in SUFFIXES)
        and folder.resolve() not in path.resolve().parents
    ]
    if not files:
        raise FileNotFoundError(f"There is no file {data}.")
    for path in files:
        check_suffix(str(path), "read")
    return base, files


def _split(file: Path, output: Path) -> Iterator[Partition]:
    """Yield the partitions of a file: itself, or runs of row groups where it is a large Parquet file."""
    source = os.path.abspath(file)
    output = output.absolute().with_name(f"{output.name.removesuffix('.parquet')}.parquet")
    if file.suffix.lower() != ".parquet":
        yield Partition(source, output)
        return
    try:
        metadata = pa_parquet.read_metadata(file)
    except pa.ArrowException as error:
        raise ValueError(f"{file}: {error}") from error
    runs: list[tuple[int, int]] = []
    start = rows = 0
    for group in range(metadata.num_row_groups):
        rows += metadata.row_group(group).num_rows
        if rows >= PART_ROWS or group == metadata.num_row_groups - 1:
            runs.append((start, group + 1))
            start, rows = group + 1, 0
    for number, run in enumerate(runs if len(runs) > 1 else [None]):
        path = output if run is None else output.with_name(f"{output.stem}-{number:05}.parquet")
        yield Partition(source, path, run)


def open_folder(folder: Path, job: Job, *, force: bool) -> None:
    """Make the output folder or check that it belongs to this job; with `force`, one of another job starts anew."""
    stamp = folder / STAMP
    if not stamp.exists():
        if folder.is_dir() and any(folder.iterdir()):
            raise FileExistsError(f"The folder {folder} is not empty, and knet did not write it. Choose another one.")
        _claim(stamp, job)
    found = _read_stamp(stamp)
    if {name: found.get(name) for name in job.stamp} == job.stamp:
        return
    if not force:
        if found.get("model") == job.ref.fingerprint:
            raise FileExistsError(f"The folder {folder} holds other columns of this model's. Choose another one.")
        raise FileExistsError(
            f"The folder {folder} holds the labels of another model ({str(found.get('model'))[:12]}..., this one is "
            f"{job.ref.fingerprint[:12]}...). Choose another folder, or say --force to start it anew."
        )
    for path in folder.rglob("*.parquet"):
        if _metadata(path) is not None:
            path.unlink()
    stamp.unlink()
    _claim(stamp, job)


def _claim(stamp: Path, job: Job) -> None:
    """Name the model in its folder; of two runs that come at once, the first one does."""
    stamp.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError), open(stamp, "x", encoding="utf-8") as file:
        json.dump({"knet": __version__, **job.stamp}, file, indent=1)


def remove_stale(partitions: list[Partition]) -> None:
    """Remove outputs of earlier runs that a source no longer has, because the file was replaced by a shorter one."""
    planned, sources = {part.output for part in partitions}, {part.source for part in partitions}
    for folder in {path.parent for path in planned if path.parent.is_dir()}:
        for path in set(folder.glob("*.parquet")) - planned:
            if ((_metadata(path) or {}).get("source") or [None])[0] in sources:
                path.unlink()


def _read_stamp(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} cannot be read. Remove the folder, or choose another one.") from error
    return found


def _metadata(path: Path) -> dict[str, Any] | None:
    """Return what knet noted in an output file; None where there is no such file, or another one."""
    try:
        found = (pa_parquet.read_metadata(path).metadata or {}).get(KEY)
    except (OSError, pa.ArrowException):
        return None
    return None if found is None else dict(json.loads(found))


def label_partition(part: Partition, job: Job) -> Done:
    """Label one partition, on a worker; one that is finished is left as it is."""
    try:
        source = os.stat(part.source)
    except OSError as error:
        raise FileNotFoundError(
            f"The worker on {socket.gethostname()} cannot read {part.source}. Put the data where all workers see it."
        ) from error
    origin = {
        **job.stamp,
        "source": [part.source, source.st_size, source.st_mtime_ns, part.groups and list(part.groups)],
    }
    found = _metadata(part.output)
    if found is not None and {name: found.get(name) for name in origin} == origin:
        return Done(found["rows"], found["sizes"], skipped=True)
    part.output.parent.mkdir(parents=True, exist_ok=True)
    for stale in part.output.parent.glob(f".{glob.escape(part.output.name)}.*"):
        stale.unlink(missing_ok=True)  # of a worker that was killed
    with torch_threads(job.threads):
        return _write(part, job, origin)


def _write(part: Partition, job: Job, origin: Mapping[str, Any]) -> Done:
    """Write the labels of a partition, and into the metadata what they come from and add up to."""
    predictor = job.ref.load().predictor
    recipe = Recipe(job.recipe.columns)
    sizes: NDArray[np.int64] = np.zeros(len(predictor.centers), np.int64)

    def labelled(X: NDArray[np.float64], ids: Any) -> pa.Table:
        out = columns(predictor, X, job.outputs)
        sizes[:] += np.bincount(out["label"], minlength=len(sizes))
        return pa.table(({} if job.id_col is None else {job.id_col: ids}) | out)

    with Source(part.source, job.header, groups=part.groups) as source, whole_file(part.output) as temporary:
        nothing = pa.array([], _id_type(source, job.id_col))
        empty = labelled(np.empty((0, len(recipe.outputs))), nothing)
        sink = Sink(empty.schema, temporary, ".parquet")
        for table in source.batches(recipe.types(source.names, job.id_col)):
            sink.write(labelled(recipe.apply(table), None if job.id_col is None else table[job.id_col]))
        facts = {**origin, "rows": int(sizes.sum()), "sizes": sizes.tolist()}
        sink.writer.add_key_value_metadata({KEY: json.dumps(facts)})
        sink.close()
    return Done(facts["rows"], facts["sizes"], skipped=False, unseen=recipe.unseen)


def _id_type(source: Source, id_col: str | None) -> Any:
    """Return the type that a file's identifiers have; text files keep them as they are written."""
    if id_col is None:
        return pa.null()
    if id_col not in source.names:
        raise ValueError(f"There is no column {id_col!r}.{near_miss(id_col, source.names)}")
    if source.suffix != ".parquet":
        return pa.string()
    return pa_parquet.read_schema(source.path).field(source.names.index(id_col)).type


@contextmanager
def cluster(spec: str) -> Iterator[Client]:
    """Connect to the workers that `--dask` names: `local:N` starts N processes, an address is that of a scheduler."""
    kind, _, count = spec.partition(":")
    if kind == "local" and count.isdigit() and int(count) > 0:
        options = {"processes": True, "threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": logging.ERROR}
        with LocalCluster(n_workers=int(count), **options) as local, Client(local) as client:
            yield client
        return
    if "://" not in spec:
        raise ValueError(
            f"--dask must be local:N or the address of a scheduler, tcp://host:port. Got {spec!r} instead."
        )
    try:
        client = Client(spec, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ConnectionError(f"No Dask scheduler answers at {spec}. Is it running, and does the port fit?") from error
    with client:
        _check_workers(client, spec)
        yield client


def _check_workers(client: Client, spec: str) -> None:
    """Raise where there are no workers, or where they lack knet."""
    try:
        client.wait_for_workers(1, timeout=WORKER_SECONDS)
    except TimeoutError as error:
        raise ConnectionError(f"The scheduler at {spec} has no workers. Start some, or use local:N.") from error

    def found() -> str:  # travels as code: a function of knet's could not be found where knet is missing
        from importlib import import_module

        try:
            return str(import_module("knet.partitions").__version__)
        except ImportError as error:
            return f"no {error.name}"

    for version in set(client.run(found).values()) - {__version__}:
        if version.startswith("no "):
            raise ImportError(f"The workers at {spec} have {version}. Install knet[dask,tables] there.")
        raise ImportError(f"The workers at {spec} have knet {version}, this is {__version__}. Install the same one.")


def run(client: Client, partitions: list[Partition], job: Job) -> Iterator[Done]:
    """Label all partitions and yield what became of each, as they come; few are submitted at a time."""
    held = client.submit(_same, job, key=f"knet-job-{job.ref.fingerprint[:16]}-{time.time_ns()}")
    waiting, places = iter(partitions), dict[Future, Partition]()
    finished = as_completed(loop=client.loop)

    def submit(count: int) -> None:
        for part in islice(waiting, count):
            future = client.submit(label_partition, part, held, pure=False)
            places[future] = part
            finished.add(future)

    submit(IN_FLIGHT * max(1, sum(client.nthreads().values())))
    try:
        for future in finished:
            done = _result(future, places.pop(future))
            submit(1)
            yield done
    finally:
        client.cancel(list(places))


def _result(future: Future, part: Partition) -> Done:
    """Return what a worker found, or raise what went wrong with the name of the file."""
    try:
        done: Done = future.result()
    except KilledWorker as error:
        raise ChildProcessError(
            f"Workers died again and again over {part.source}, most likely for want of memory. "
            "Give them more, or start fewer on a machine."
        ) from error
    except ValueError as error:
        text = str(error)
        raise ValueError(text if part.source in text else f"{part.source}: {text}") from error
    return done


def _same(job: Job) -> Job:
    return job
