"""Many files labelled on a Dask cluster: one output file per file part, in a folder that belongs to one model.

A file part is a file, or some row groups of a large Parquet file. Its output file is either complete or absent. The
metadata of an output file name the model and the source, so that a second run can skip finished parts. A file at the
top of the folder also names the model, and a run with another model is refused.
"""

import glob
import json
import logging
import os
import socket
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pa_parquet
from numpy.typing import NDArray

try:
    from distributed import CancelledError, Client, Future, KilledWorker, LocalCluster, as_completed
    from distributed.comm import CommClosedError
except ImportError as error:
    raise ImportError(f"--dask needs {error.name}. Install it with: pip install 'knet-clustering[dask]'") from error

from knet import __version__
from knet.arrays import Json
from knet.files import UNFINISHED_SUFFIX, whole_file, write_whole
from knet.model.blocks import ModelRef, columns
from knet.model.drift import Moments, tested
from knet.tables.conversion import Conversion, check_names
from knet.tables.dialect import TextOptions
from knet.tables.formats import IN_FOLDERS, check_suffix, suffix_of
from knet.tables.read import Source
from knet.tables.write import Sink
from knet.threads import limit_threads

PART_ROWS = 4_000_000  # rows of a part of a Parquet file, rounded up to whole row groups
STAMP = "_knet.json"
KEY = b"knet"  # in the metadata of an output file
IN_FLIGHT = 4  # file parts submitted per worker thread: the scheduler never stores more, whatever their number
CONNECT_SECONDS, WORKER_SECONDS = 10, 60


@dataclass(frozen=True)
class FilePart:
    """Rows of a file, and the output file for their labels."""

    source: str
    output: Path
    groups: tuple[int, int] | None = None  # first and end of the row groups of a Parquet file; None is all rows


@dataclass(frozen=True)
class Job:
    """What is computed for every file part; sent to each worker once, with the model."""

    ref: ModelRef
    recipe: Conversion
    outputs: tuple[str, ...]
    keep: tuple[str, ...]
    text: TextOptions | None
    threads: int

    @property
    def stamp(self) -> dict[str, Json]:
        """Return the facts that must be equal in all files of a folder."""
        return {
            "model": self.ref.fingerprint,
            "reject": self.ref.reject,
            "outputs": list(self.outputs),
            "keep": list(self.keep),
            "rows_per_part": PART_ROWS,
        }


@dataclass(frozen=True)
class Done:
    """The result of a file part."""

    rows: int
    sizes: list[int]
    skipped: bool
    unseen: dict[str, int] = field(default_factory=dict)
    looked_at: list[Moments] = field(default_factory=list)  # of some rows, to notice those that are foreign


def plan(data: str, folder: Path) -> list[FilePart]:
    """Return the parts of all files of a pattern or folder; the output folder mirrors the input folder."""
    base, files = _files(data, folder)
    parts = [part for file in files for part in _split(file, folder / file.relative_to(base))]
    path, count = Counter(part.output for part in parts).most_common(1)[0]
    if count > 1:
        raise ValueError(f"Two input files would write {path}. Write the labels of each into another folder.")
    return parts


def _files(data: str, folder: Path) -> tuple[Path, list[Path]]:
    """Return the common folder of all files, and the files in order, without hidden files and those in `folder`."""
    whole = Path(data).is_dir()
    pattern = Path(data, "**", "*") if whole else Path(data)
    magic = [number for number, part in enumerate(pattern.parts) if glob.has_magic(part)]
    base = Path(*pattern.parts[: magic[0]]) if magic else pattern.parent
    if folder.resolve() == base.resolve():
        raise ValueError(f"The output folder {folder} is also the input folder. Choose another one.")
    found = [Path(name) for name in sorted(glob.glob(str(pattern), recursive=True)) if Path(name).is_file()]
    files = [
        path
        for path in found
        if not path.name.startswith("_")
        and not (whole and suffix_of(str(path)) not in IN_FOLDERS)
        and folder.resolve() not in path.resolve().parents
    ]
    if not files:
        raise FileNotFoundError(f"There is no file {data}.")
    for path in files:
        check_suffix(str(path), "read")
    return base, files


def _split(file: Path, output: Path) -> Iterator[FilePart]:
    """Yield the parts of a file: the file itself, or groups of its row groups if it is a large Parquet file."""
    source = os.path.abspath(file)
    output = output.absolute().with_name(f"{output.name.removesuffix('.parquet')}.parquet")
    if file.suffix.lower() != ".parquet":
        yield FilePart(source, output)
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
        yield FilePart(source, path, run)


def open_folder(folder: Path, job: Job, *, force: bool) -> None:
    """Create the output folder, or check that it belongs to this job; `force` clears a folder of another job."""
    stamp = folder / STAMP
    if not stamp.exists():
        if folder.is_dir() and any(path.suffix != UNFINISHED_SUFFIX for path in folder.iterdir()):
            raise FileExistsError(f"The folder {folder} is not empty, and knet did not write it. Choose another one.")
        _claim(stamp, job)
    try:
        found = json.loads(stamp.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{stamp} cannot be read. Remove the folder, or choose another one.") from error
    different = {name for name, value in job.stamp.items() if found.get(name) != value}
    if not different:
        return
    if not force:
        raise FileExistsError(f"The folder {folder} contains {_contents(found, different, job)}")
    for path in folder.rglob("*.parquet"):
        if _metadata(path):
            path.unlink()
    stamp.unlink()
    _claim(stamp, job)


def _contents(found: Mapping[str, Json], different: set[str], job: Job) -> str:
    """Return what a folder of another job contains, and what to do."""
    advice = "Choose another folder, or use --force to replace them."
    if "model" in different:
        ours, theirs = job.ref.fingerprint[:12], str(found.get("model"))[:12]
        return f"the labels of another model ({theirs}..., this one is {ours}...). {advice}"
    if different == {"reject"}:
        theirs, ours = (
            "no --reject" if share is None else f"--reject {share}" for share in (found.get("reject"), job.ref.reject)
        )
        return f"labels of this model with {theirs}, and this run has {ours}. {advice}"
    return "other columns of this model. Choose another one."


def _claim(stamp: Path, job: Job) -> None:
    """Write the model's fingerprint into its folder; if two runs start at the same time, the first one writes it."""
    stamp.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        write_whole(stamp, json.dumps({"knet": __version__, **job.stamp}, indent=1).encode(), overwrite=False)


def remove_stale(parts: list[FilePart]) -> None:
    """Remove outputs of earlier runs for parts that no longer exist, because a file was replaced by a shorter one."""
    planned, sources = {part.output for part in parts}, {part.source for part in parts}
    for folder in {path.parent for path in planned if path.parent.is_dir()}:
        for path in set(folder.glob("*.parquet")) - planned:
            if _metadata(path).get("source", [None])[0] in sources:
                path.unlink()


def _metadata(path: Path) -> dict[str, Json]:
    """Return the facts that knet wrote into an output file; none if there is no file, or knet did not write it."""
    try:
        return dict(json.loads((pa_parquet.read_metadata(path).metadata or {}).get(KEY, b"{}")))
    except (OSError, pa.ArrowException):
        return {}


def label_part(part: FilePart, job: Job) -> Done:
    """Label a file part, on a worker; a part that is already finished is skipped."""
    try:
        source = os.stat(part.source)
    except OSError as error:
        raise FileNotFoundError(
            f"The worker on {socket.gethostname()} cannot read {part.source}. Put it where all workers can read it."
        ) from error
    groups = part.groups and list(part.groups)  # as JSON returns them
    origin = {**job.stamp, "source": [part.source, source.st_size, source.st_mtime_ns, groups]}
    found = _metadata(part.output)
    if origin.items() <= found.items():
        return Done(found["rows"], found["sizes"], skipped=True)
    part.output.parent.mkdir(parents=True, exist_ok=True)
    with limit_threads(job.threads):
        return _write(part, job, origin)


def _write(part: FilePart, job: Job, origin: Mapping[str, Json]) -> Done:
    """Write the labels of a file part, and its origin, number of rows and cluster sizes into the metadata."""
    predictor = job.ref.load().predictor
    recipe, unseen, looked_at = job.recipe, Counter[str](), list[Moments]()
    counts: NDArray[np.int64] = np.zeros(1 + predictor.n_labels, np.int64)  # rejected rows, then the clusters

    def labelled(X: NDArray[np.float64], kept: pa.Table) -> pa.Table:
        outputs = {"label", *job.outputs}  # the sizes need labels, also if no column is written
        out = columns(predictor, X, outputs, job.ref.reject)
        counts[:] += np.bincount(out["label"] + 1, minlength=len(counts))
        if "label" not in job.outputs:
            del out["label"]
        return pa.table({name: kept[name] for name in job.keep} | out)

    with Source(part.source, job.text, groups=part.groups) as source, whole_file(part.output) as temporary:
        empty = labelled(np.empty((0, len(recipe.outputs))), _no_rows(source, job.keep))
        sink = Sink(empty.schema, temporary, ".parquet")
        for table, kept in source.batches(recipe.types(source.names), job.keep):
            X = recipe.apply(table, unseen)
            looked_at = [Moments.merge([*looked_at, tested(predictor, X)])]
            sink.write(labelled(X, kept))
        facts = {**origin, "rows": int(counts.sum()), "sizes": counts[1:].tolist()}
        sink.writer.add_key_value_metadata({KEY: json.dumps(facts)})
        sink.close()
    return Done(facts["rows"], facts["sizes"], skipped=False, unseen=dict(unseen), looked_at=looked_at)


def _no_rows(source: Source, names: Sequence[str]) -> pa.Table:
    """Return no rows of the columns to copy, with their types; those of text files stay text."""
    check_names(names, source.names)
    if source.suffix != ".parquet":
        return pa.table({name: pa.array([], pa.string()) for name in names})
    schema = pa_parquet.read_schema(source.path)
    return pa.table({name: pa.array([], schema.field(source.names.index(name)).type) for name in names})


@contextmanager
def cluster(spec: str) -> Iterator[Client]:
    """Connect to the workers of `--dask`: `local:N` starts N processes, other values are a scheduler's address."""
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
        raise ConnectionError(
            f"No Dask scheduler answers at {spec}. Check that it is running, and the port."
        ) from error
    with ExitStack() as stack:
        stack.callback(logging.disable, logging.root.manager.disable)
        logging.disable(logging.CRITICAL)  # they have tracebacks if Dask loses its scheduler; our own error says it
        stack.enter_context(client)
        _check_workers(client, spec)
        yield client


def _check_workers(client: Client, spec: str) -> None:
    """Raise if there are no workers, or if they lack knet or have another version of it."""
    try:
        client.wait_for_workers(1, timeout=WORKER_SECONDS)
    except TimeoutError as error:
        raise ConnectionError(f"The scheduler at {spec} has no workers. Start some, or use local:N.") from error

    def found() -> str:  # a local function is sent as code, so it also runs if a worker has no knet
        from importlib import import_module

        try:
            return str(import_module("knet.dask.files").__version__)
        except ImportError as error:
            return f"no {error.name}"

    for version in set(client.run(found).values()) - {__version__}:
        if version.startswith("no "):
            raise ImportError(f"The workers at {spec} have {version}. Install knet-clustering[dask,tables] there.")
        raise ImportError(f"The workers at {spec} have knet {version}, this is {__version__}. Install the same one.")


def run(client: Client, parts: list[FilePart], job: Job) -> Iterator[Done]:
    """Label all file parts and yield their results as they arrive; few are submitted at a time."""
    sent = client.submit(_same, job, key=f"knet-job-{job.ref.fingerprint[:16]}-{time.time_ns()}")
    waiting, running = iter(parts), dict[Future, FilePart]()
    finished = as_completed(loop=client.loop)

    def submit(count: int) -> None:
        for part in islice(waiting, count):
            future = client.submit(label_part, part, sent, pure=False)
            running[future] = part
            finished.add(future)

    submit(IN_FLIGHT * max(1, sum(client.nthreads().values())))
    try:
        for future in finished:
            done = _result(future, running.pop(future))
            submit(1)
            yield done
    except (CommClosedError, CancelledError) as error:
        raise ConnectionError(
            "The connection to the Dask scheduler was lost. Finished parts are complete: run the command again, and it "
            "labels the rest."
        ) from error
    finally:
        with suppress(CommClosedError, CancelledError):
            client.cancel(list(running))


def _result(future: Future, part: FilePart) -> Done:
    """Return the result of a worker, or raise its error with the name of the file."""
    try:
        done: Done = future.result()
    except KilledWorker as error:
        raise ChildProcessError(
            f"Several workers died while they labelled {part.source}, probably because memory ran out. "
            "Give the workers more memory, or start fewer of them on a machine."
        ) from error
    except ValueError as error:
        text = str(error)
        raise ValueError(text if part.source in text else f"{part.source}: {text}") from error
    return done


def _same(job: Job) -> Job:
    return job
