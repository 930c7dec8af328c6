"""Faults of a folder run on Dask: killed runs, lost and slow workers, a lost scheduler, two runs into one folder.

Each must end with all labels. A cluster of two nodes is two network namespaces of this machine with a cable between
them, which needs the rights of an administrator; without them it is left out.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import psutil

from benchmarks.fault_writers import folder_labels

COLUMNS = ["fault", "runs", "parts lost or partial", "resumed with the same labels", "ends without a clear message"]
N_FILES, N_ROWS, SLOW_SECONDS = 24, 4_000, 5.0
LOST_SECONDS = 10  # a worker that is silent for so long is given up
NODES = {"knet-a": "10.77.0.1", "knet-b": "10.77.0.2"}
PYTHON = [sys.executable, "-m", "knet"]


def faults(folder: Path, n_faults: int, seed: int) -> list[list[str | int]]:
    """Return a row for each kind of fault."""
    rng = np.random.default_rng(seed)
    source = folder / "big"
    source.mkdir(exist_ok=True)
    for number in range(N_FILES):
        X = rng.normal(size=(N_ROWS, 3)) + 6 * rng.integers(0, 2, N_ROWS)[:, None]
        pd.DataFrame(X, columns=["x0", "x1", "x2"]).to_parquet(source / f"{number:02}.parquet")
    run = _command(folder, "whole", "local:1")
    started = time.perf_counter()
    subprocess.run(run, cwd=folder, check=True, capture_output=True, timeout=600)
    seconds, expected = time.perf_counter() - started, folder_labels(folder / "whole")
    table: list[list[str | int]] = []
    for name, fault in FAULTS.items():
        row = [0, 0, 0, 0]
        if fault is _cut_cable and not can_make_nodes():
            print(f"{name}: left out, since network namespaces cannot be made", file=sys.stderr)
            continue
        for number in range(n_faults if fault is _kill_run else max(1, n_faults // 4)):
            out = f"{fault.__name__}{number}"
            ended = fault(folder, out, float(rng.uniform(0.3, 1.0)) * seconds)
            partial = _partial(folder / out)
            done = subprocess.run(_command(folder, out, "local:1"), cwd=folder, capture_output=True, timeout=600)
            same = done.returncode == 0 and folder_labels(folder / out) == expected
            row = [row[0] + 1, row[1] + partial, row[2] + same, row[3] + (b"Traceback" in ended)]
            if b"Traceback" in ended or not same:
                print(name, ended[-800:].decode(), done.stderr[-500:].decode(), file=sys.stderr)
        table.append([name, *row])
        print(table[-1], flush=True)
    return table


def _command(folder: Path, out: str, spec: str) -> list[str]:
    return [*PYTHON, "predict", "m.safetensors", "big", "-o", out, "--dask", spec]


def _partial(folder: Path) -> int:
    """Return how many output files cannot be read."""
    broken = 0
    for path in folder.glob("*.parquet"):
        try:
            broken += len(pd.read_parquet(path)) != N_ROWS
        except OSError:
            broken += 1
    return broken


def _kill_run(folder: Path, out: str, seconds: float) -> bytes:
    """Kill a run with all its processes."""
    process = subprocess.Popen(
        _command(folder, out, "local:2"), cwd=folder, stderr=subprocess.PIPE, start_new_session=True
    )
    time.sleep(seconds)
    os.killpg(process.pid, signal.SIGKILL)
    return process.communicate(timeout=60)[1]


def _lose_worker(folder: Path, out: str, seconds: float) -> bytes:
    """Kill a worker as soon as the first output is there."""
    process = subprocess.Popen(_command(folder, out, "local:2"), cwd=folder, stderr=subprocess.PIPE)
    _wait_for_output(folder / out, process)
    for worker in _workers(process)[:1]:
        worker.kill()
    return process.communicate(timeout=300)[1]


def _slow_worker(folder: Path, out: str, seconds: float) -> bytes:
    """Stop a worker for some seconds while it has work."""
    process = subprocess.Popen(_command(folder, out, "local:2"), cwd=folder, stderr=subprocess.PIPE)
    _wait_for_output(folder / out, process)
    for worker in _workers(process)[:1]:
        worker.suspend()
        time.sleep(SLOW_SECONDS)
        worker.resume()
    return process.communicate(timeout=300)[1]


def _two_runs(folder: Path, out: str, seconds: float) -> bytes:
    """Let two runs write into one folder at the same time."""
    command = _command(folder, out, "local:1")
    both = [subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE) for _ in range(2)]
    ended = b"".join(process.communicate(timeout=300)[1] for process in both)
    return ended if all(process.returncode == 0 for process in both) else ended + b"Traceback: a run failed"


def _workers(process: subprocess.Popen[bytes]) -> list[psutil.Process]:
    """Return the workers of a run."""
    return [child for child in psutil.Process(process.pid).children() if "spawn_main" in " ".join(child.cmdline())]


def _lose_scheduler(folder: Path, out: str, seconds: float) -> bytes:
    """Kill the scheduler of a cluster as soon as the first output is there."""
    address = "tcp://127.0.0.1:18786"
    with _cluster(folder, address, [[]]) as scheduler:
        process = subprocess.Popen(_command(folder, out, address), cwd=folder, stderr=subprocess.PIPE)
        _wait_for_output(folder / out, process)
        scheduler.kill()
        return process.communicate(timeout=300)[1]


def _cut_cable(folder: Path, out: str, seconds: float) -> bytes:
    """Cut the second of two nodes off as soon as the first output is there."""
    first, second = NODES
    address, inside = f"tcp://{NODES[first]}:18786", [["ip", "netns", "exec", node] for node in NODES]
    with _two_nodes(), _cluster(folder, address, inside):
        process = subprocess.Popen(inside[0] + _command(folder, out, address), cwd=folder, stderr=subprocess.PIPE)
        _wait_for_output(folder / out, process)
        _ip("-n", second, "link", "set", "cable", "down")
        return process.communicate(timeout=300)[1]


@contextmanager
def _cluster(folder: Path, address: str, nodes: list[list[str]]) -> Iterator[subprocess.Popen[bytes]]:
    """Start a scheduler on the first node and a worker on each; a node is the beginning of its commands."""
    scheduler = ["distributed.cli.dask_scheduler", "--port", "18786", "--no-dashboard"]
    worker = ["distributed.cli.dask_worker", address, "--nthreads", "1", "--no-dashboard", "--no-nanny"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": folder}
    environment = os.environ | {"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": f"{LOST_SECONDS}s"}
    commands = [
        [*nodes[0], sys.executable, "-m", *scheduler],
        *([*node, sys.executable, "-m", *worker] for node in nodes),
    ]
    services = [subprocess.Popen(command, env=environment, **quiet) for command in commands]
    try:
        yield services[0]
    finally:
        for service in services:
            service.kill()
            service.wait()


@contextmanager
def _two_nodes() -> Iterator[None]:
    """Make two network namespaces with a cable between them."""
    try:
        for node in NODES:
            _ip("netns", "add", node)
        first, second = NODES
        _ip("link", "add", "cable", "netns", first, "type", "veth", "peer", "name", "cable", "netns", second)
        for node, address in NODES.items():
            _ip("-n", node, "address", "add", f"{address}/24", "dev", "cable")
            for link in ("lo", "cable"):
                _ip("-n", node, "link", "set", link, "up")
        yield
    finally:
        for node in NODES:
            subprocess.run(["ip", "netns", "delete", node], capture_output=True, check=False)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


def can_make_nodes() -> bool:
    """Return whether this process may make network namespaces."""
    try:
        with _two_nodes():
            return True
    except (OSError, subprocess.CalledProcessError):
        return False


FAULTS = {
    "killed run": _kill_run,
    "lost worker": _lose_worker,
    "slow worker": _slow_worker,
    "lost scheduler": _lose_scheduler,
    "two runs": _two_runs,
    "node cut off": _cut_cable,
}


def _wait_for_output(folder: Path, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 120
    while not list(folder.glob("*.parquet")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
