"""Run a plan: one job after the other; each result is stored at once, and the remaining time is shown."""

import sys
import time
import warnings
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from scipy.spatial.distance import pdist

from benchmarks.algorithms import ALGORITHMS, run_knet_paper
from benchmarks.paper_data import load_paper
from benchmarks.plan import ROWS_PERCENT, Plan, expected_seconds
from benchmarks.public_files import PUBLIC_FILES
from benchmarks.results import Job, Store, versions
from benchmarks.tasks import Labels, Outcome, Rows, Task
from knet.metrics import accuracy, ari, nmi

MEDIAN_ROWS = 3_000  # the median distance is that of all pairs of so many rows


class PaperData:
    """The paper's data sets by name, read once from a folder, or generated."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._kept: dict[str, tuple[Rows, Labels]] = {}

    def __call__(self, name: str) -> tuple[Rows, Labels]:
        """Return rows and labels."""
        if name not in self._kept:
            self._kept[name] = load_paper(name, self.folder)
        return self._kept[name]

    def origin(self, name: str) -> str:
        """Return the source of a data set."""
        if self.folder is not None and (self.folder / f"{name}.csv").exists():
            return "prepared file"
        return "public file" if name in PUBLIC_FILES else "scikit-learn" if name == "wine" else "generated"


def missing_datasets(load: PaperData, names: tuple[str, ...]) -> dict[str, str]:
    """Return the data sets that are not available, each with the reason."""
    reasons = {}
    for name in names:
        try:
            load(name)
        except FileNotFoundError as error:
            reasons[name] = str(error)
    return reasons


def run_plan(plan: Plan, store: Store, load: PaperData, *, again: bool = False) -> list[Job]:
    """Run the jobs that are not done yet, or all jobs again, and return those that failed."""
    jobs = [job for job in plan.jobs() if again or not store.is_done(job)]
    failed = []
    with _progress() as progress:
        bar = progress.add_task("", total=sum(map(expected_seconds, jobs)))
        for number, job in enumerate(jobs, 1):
            progress.update(bar, description=f"{number}/{len(jobs)} {describe(job)}")
            note = run_job(job, store, load)
            if store.rows[job]["status"] == "failed":
                failed.append(job)
            progress.advance(bar, expected_seconds(job))
            left = progress.tasks[0].time_remaining
            if not progress.console.is_terminal:
                minutes = "" if left is None else f", about {left / 60:.0f} min left"
                print(f"[{number}/{len(jobs)}] {describe(job)}: {note}{minutes}", flush=True)
    return failed


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    console = Console(file=sys.stdout)
    return Progress(*columns, console=console, disable=not console.is_terminal, speed_estimate_period=1800)


def describe(job: Job) -> str:
    """Return a job in words."""
    setting = f", lambda {job.setting}" if job.setting else ""
    return f"{job.part}: {job.algorithm} on {job.dataset}, seed {job.seed}{setting}"


def run_job(job: Job, store: Store, load: PaperData) -> str:
    """Run a job, store its row, and return a note on it; a failure of a peer is a result too."""
    if job.part == "datasets":
        found = {"metrics": summarize(*load(job.dataset)), "origin": load.origin(job.dataset)}
        store.add(job, status="ok", seconds={}, versions=versions(), **found)
        return "done"
    algorithm = ALGORITHMS[job.algorithm]
    if not algorithm.installed:
        store.add(job, status="not installed", reason=f"needs the package {algorithm.package}")
        return f"the package {algorithm.package} is not installed"
    X, y = load(job.dataset)
    started = time.perf_counter()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            outcome = solve(job, make_task(job, X, y))
    except Exception as error:  # a third party may raise anything
        store.add(job, status="failed", reason=f"{type(error).__name__}: {error}".splitlines()[0])
        return f"failed, {type(error).__name__}: {error}"
    wall = time.perf_counter() - started
    metrics = {measure.__name__: measure(y, outcome.labels) for measure in (nmi, ari, accuracy)}
    store.add(
        job,
        status="ok",
        metrics=metrics | outcome.details,
        seconds={"prep": outcome.prep, "run": outcome.run, "wall": wall},
        versions=versions(),
    )
    return f"NMI {metrics['nmi']:.3f} in {outcome.prep + outcome.run:.1f} s"


def make_task(job: Job, X: Rows, y: Labels) -> Task:
    """Return the input of an algorithm: never the labels; for a part on subsets, the same rows for all algorithms."""
    rows = np.arange(len(X))
    if job.part == "oos":
        count = round(len(X) * ROWS_PERCENT[job.dataset] / 100)
        rows = np.sort(np.random.default_rng(job.seed).permutation(len(X))[:count])
    return Task(job.dataset, X, rows, len(np.unique(y)), job.seed)


def solve(job: Job, task: Task) -> Outcome:
    """Run the algorithm of a job."""
    if job.part == "lambda":
        update = job.algorithm.removeprefix("knet-")
        return run_knet_paper(task, u_update=update, advanced__reconstruction_weight=float(job.setting))
    return ALGORITHMS[job.algorithm].run(task)


def summarize(X: Rows, y: Labels) -> dict[str, float]:
    """Return the figures of Table 1 for a data set, and the median distance between its scaled rows."""
    sample = np.random.default_rng(0).permutation(len(X))[:MEDIAN_ROWS]
    scaled = (X - X.mean(0)) / X.std(0)
    median = float(np.median(pdist(scaled[sample])))
    return {"rows": len(X), "clusters": len(np.unique(y)), "columns": X.shape[1], "median": median}
