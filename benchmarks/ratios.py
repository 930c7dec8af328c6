"""Time of a fit as ratios to peers in the same run: `python -m benchmarks.ratios [--beside CHECKOUT]`.

A line has processor seconds on one thread: the median of `--repeats`, of a single run for large cases. The number of
clusters is given, except in the line that finds it. Rounds run knet, the code of the other checkout and the peer in
turn, each in a child process, so that a busy machine slows down all of them. `benchmarks.speed` measures other things
(growth, forms of the Laplacian, deep peers) on the paper's files; this table needs no files.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
from sklearn.datasets import load_breast_cancer, load_wine, make_blobs, make_moons

from benchmarks.memory import peak_mb, reset_peak
from benchmarks.pages import stamp

ROOT = Path(__file__).parents[1]
PARTS = 3  # fits of a child process, of small rows: the first one pays for what later ones find ready


@dataclass(frozen=True)
class Case:
    """A line of the table: rows, clusters, the peer whose time is the unit, and the ratio or seconds to stay below."""

    rows: Callable[[], np.ndarray]
    n_clusters: int
    peer: str
    bound: float
    repeats: bool = True  # large cases run once


def _blobs(n: int, d: int, c: int, spread: float) -> Callable[[], np.ndarray]:
    return lambda: make_blobs(n, d, centers=c, cluster_std=spread, random_state=0)[0]


def _vectors(n: int, c: int) -> Callable[[], np.ndarray]:
    def rows() -> np.ndarray:
        from benchmarks.embedding_cases import generated_vectors

        return generated_vectors(n, 384, c, separation=0.5).X

    return rows


def _unclear() -> np.ndarray:
    from benchmarks.hard_partitions import overlapping_groups

    return overlapping_groups(20_000)[0]


def _wide() -> np.ndarray:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300_000, 200))
    for rows in np.array_split(np.arange(len(X)), 10):  # a group at a time: the peak is that of the fit
        X[rows] += 0.5 * rng.normal(size=200)
    rng.shuffle(X)
    return X


CASES = {
    "wine, 178 x 13": Case(lambda: load_wine().data, 3, "spectral", 6),
    "cancer, 569 x 30": Case(lambda: load_breast_cancer().data, 2, "spectral", 6),
    "moons, 1,000 x 2": Case(lambda: make_moons(1000, noise=0.1, random_state=0)[0], 2, "spectral", 6),
    "5,000 x 8, c = 10": Case(_blobs(5000, 8, 10, 3.0), 10, "spectral", 3),
    "20,000 x 10, c = 10": Case(_blobs(20_000, 10, 10, 3.0), 10, "hdbscan", 0.8),
    "20,000 x 16, c = 26": Case(_unclear, 26, "seconds", 2.5),
    "4,500 x 384, c = 150": Case(_vectors(4500, 150), 150, "k-means", 3, repeats=False),
    "6,000 x 384, c = 77": Case(_vectors(6000, 77), 77, "k-means", 3, repeats=False),
    "auto, 2,000 x 10": Case(_blobs(2000, 10, 6, 3.0), 6, "c given", 3),
    "300,000 x 200": Case(_wide, 10, "seconds", 20, repeats=False),
}
MEMORY, MEMORY_BOUND = "300,000 x 200", 800.0
COMMAND_BOUND, THREADS_BOUND = 1.7, 1.6
SECOND_CORE = ("5,000 x 8, c = 10", "20,000 x 10, c = 10")


def fitter(method: str, n_clusters: int) -> Callable[[np.ndarray], object]:
    """Return the fit of a method; its imports are made before, and not timed."""
    from sklearn.cluster import HDBSCAN, KMeans, SpectralClustering
    from sklearn.preprocessing import StandardScaler

    if method in ("knet", "auto"):
        from knet import KNet

        limit = {"max_clusters": 15} if method == "auto" else {}
        return lambda X: KNet("auto" if method == "auto" else n_clusters, **limit, random_state=0).fit(X)
    if method == "spectral":
        peer = SpectralClustering(n_clusters, affinity="nearest_neighbors", random_state=0)
    elif method == "hdbscan":
        peer = HDBSCAN(min_cluster_size=15, copy=True)
    else:
        peer = KMeans(n_clusters, n_init=10, random_state=0)
    return lambda X: peer.fit(StandardScaler().fit_transform(X))


def run_child(name: str, method: str) -> None:
    """Fit a case by a method and print processor seconds, elapsed seconds and the memory beyond the rows."""
    warnings.simplefilter("ignore")
    case = CASES[name]
    fit = fitter(method, case.n_clusters)
    X, runs = case.rows(), []
    for _ in range(PARTS if X.size <= 40_000 else 1):
        before, clock, cpu = reset_peak(), time.perf_counter(), time.process_time()
        fit(X)
        runs.append((time.process_time() - cpu, time.perf_counter() - clock, peak_mb() - before))
    print(json.dumps([median(column) for column in zip(*runs, strict=True)]))


def measured(checkout: Path, name: str, method: str, threads: int = 1) -> list[float]:
    """Return what a child process measures with the code of a checkout."""
    path = os.pathsep.join([str(checkout / "src"), str(ROOT)])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": str(threads)}
    command = [sys.executable, "-m", "benchmarks.ratios", "--child", name, method]
    done = subprocess.run(
        command, env=environment, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    if done.returncode != 0 and checkout == ROOT:
        raise RuntimeError(f"{name} by {method} failed")
    return json.loads(done.stdout) if done.returncode == 0 else [math.nan] * 3  # other code may not have the method


def rounds(calls: dict[str, tuple[Path, str, str, int]], repeats: int) -> dict[str, np.ndarray]:
    """Return the medians of what the calls measure; all of them run in turn."""
    taken: dict[str, list[list[float]]] = {key: [] for key in calls}
    for _ in range(repeats):
        for key, call in calls.items():
            taken[key].append(measured(*call))
    return {key: np.median(runs, axis=0) for key, runs in taken.items()}


def line_of(name: str, unit: str, bound: float, values: dict[str, float], seconds: str, *, least: bool) -> str:
    """Return a line of the table; the verdict is that of this checkout."""
    met = values["here"] >= bound if least else values["here"] <= bound
    shown = " ".join(f"{value:8.2f}" for value in values.values())
    return f"{name:24} {unit:16} {bound:7.1f} {shown}  {'met' if met else 'missed':7} {seconds}".rstrip()


def case_lines(name: str, checkouts: dict[str, Path], repeats: int) -> Iterator[str]:
    """Yield the time of a case in the unit of its peer, and the memory of the widest one."""
    case = CASES[name]
    calls = {
        key: (checkout, name, "auto" if case.peer == "c given" else "knet", 1) for key, checkout in checkouts.items()
    }
    if case.peer == "c given":
        calls |= {f"{key}, peer": (checkout, name, "knet", 1) for key, checkout in checkouts.items()}
    elif case.peer != "seconds":
        calls["peer"] = (ROOT, name, case.peer, 1)
    found = rounds(calls, repeats if case.repeats else 1)
    units = {key: found.get(f"{key}, peer", found.get("peer", np.ones(1)))[0] for key in checkouts}
    unit = {"seconds": "seconds"}.get(case.peer, f"/ {case.peer}")
    values = {key: found[key][0] / units[key] for key in checkouts}
    yield line_of(name, unit, case.bound, values, _seconds(found), least=False)
    if name == MEMORY:
        yield line_of(name, "MB", MEMORY_BOUND, {key: found[key][2] for key in checkouts}, "", least=False)


def second_core_lines(name: str, checkouts: dict[str, Path], repeats: int) -> Iterator[str]:
    """Yield how much sooner a fit ends on two threads."""
    calls = {f"{key}, {n}": (path, name, "knet", n) for key, path in checkouts.items() for n in (1, 2)}
    found = rounds(calls, repeats)
    values = {key: found[f"{key}, 1"][1] / found[f"{key}, 2"][1] for key in checkouts}
    yield line_of(name, "second core", THREADS_BOUND, values, "", least=True)


def command_lines(checkouts: dict[str, Path], repeats: int) -> Iterator[str]:
    """Yield the time of `knet fit` of a small file in the unit of `import torch`."""
    from benchmarks.startup import seconds_of, write_inputs

    with TemporaryDirectory() as folder:
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package is compiled once
        os.environ["PYTHONPYCACHEPREFIX"] = str(Path(folder, "compiled"))
        calls = {"peer": (["-c", "import torch"], Path(folder), ROOT, 0)}
        for key, checkout in checkouts.items():
            write_inputs(Path(folder, key), checkout)
            command = ["-m", "knet", "fit", "rows.csv", "-c", "3", "-o", "fitted.safetensors", "--force"]
            calls[key] = (command, Path(folder, key), checkout, 0)
        taken: dict[str, list[tuple[float, float]]] = {key: [] for key in calls}
        for _ in range(2 * repeats + 1):
            for key, call in calls.items():
                taken[key].append(seconds_of(*call))
    found = {key: np.min(runs, axis=0) for key, runs in taken.items()}
    values = {key: found[key][0] / found["peer"][0] for key in checkouts}
    yield line_of("knet fit, 178 x 5", "/ import torch", COMMAND_BOUND, values, _seconds(found), least=False)


def _seconds(found: dict[str, np.ndarray]) -> str:
    return ", ".join(f"{key} {value[0]:.2f} s" for key, value in found.items())


def main() -> None:
    """Read the options and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beside", type=Path, help="another checkout of knet")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--only", default="", help="part of the names of cases; also 'second core' and 'knet fit'")
    parser.add_argument("-o", "--out", type=Path, help="a file for the same table, below when it was measured")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        run_child(*options.child)
        return
    checkouts = {"here": ROOT} | ({"beside": options.beside} if options.beside else {})
    lines = [f"{'case':24} {'unit':16} {'bound':>7} " + " ".join(f"{key:>8}" for key in checkouts)]
    print(lines[0])
    for line in table_lines(checkouts, options.repeats, options.only):
        print(line, flush=True)
        lines.append(line)
    if options.out:
        options.out.write_text("\n".join([stamp(), *lines, ""]), encoding="utf-8")


def table_lines(checkouts: dict[str, Path], repeats: int, only: str) -> Iterator[str]:
    """Yield the lines of the table, below its head, as they are measured."""
    for name in CASES:
        if only in name:
            yield from case_lines(name, checkouts, repeats)
    if only in "knet fit":
        yield from command_lines(checkouts, repeats)
    for name in SECOND_CORE:
        if only in "second core":
            yield from second_core_lines(name, checkouts, repeats)


if __name__ == "__main__":
    main()
