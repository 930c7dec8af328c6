"""How soon the command answers, as ratios to `python -c "import torch"`, and how many rows a second a model labels.

    python -m benchmarks.startup                                    # start-up: processor time and elapsed time
    python -m benchmarks.startup --beside CHECKOUT                  # the same for another checkout of knet, in turn
    python -m benchmarks.startup --throughput --beside CHECKOUT     # rows per second on 1,000,000 rows, in turn

Every round runs each command once, so that a busy machine slows down all of them; the figure is the smallest of the
rounds for start-up, and the median for throughput. The files of a checkout are taken from its folder `src`; the
libraries are those of this interpreter.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np

ROOT = Path(__file__).parents[1]
REFERENCE = "import torch"
COMMANDS = {  # and the exit code of each
    "predict a small CSV": ("predict m.safetensors rows.csv -o labels.csv --force", 0),
    "info": ("info m.safetensors", 0),
    "a missing file": ("predict m.safetensors missing.csv", 2),
    "fit a small CSV": ("fit rows.csv -c 3 -o fitted.safetensors --force", 0),
}
METHODS = ("predict", "predict_proba", "score_samples")
N_ROWS, N_COLUMNS = 1_000_000, 10
WORKER = f"""
import json, sys, time
import numpy as np
import torch
from knet import KNet

torch.set_num_threads(int(sys.argv[1]))
rng = np.random.default_rng(0)
small = rng.normal(size=(2000, {N_COLUMNS}))
small[:1000] += 3
model = KNet(5, max_iter=1, random_state=0).fit(small)
X = {{dtype: rng.normal(size=({N_ROWS}, {N_COLUMNS})).astype(dtype) for dtype in ("float32", "float64")}}
for line in sys.stdin:
    method, dtype = line.split()
    started, used = time.perf_counter(), time.process_time()
    getattr(model, method)(X[dtype])
    print(json.dumps([time.perf_counter() - started, time.process_time() - used]), flush=True)
"""


def environment(checkout: Path) -> dict[str, str]:
    """Return the environment in which Python imports knet from a checkout."""
    return os.environ | {"PYTHONPATH": str(checkout / "src")}


def seconds_of(arguments: list[str], folder: Path, checkout: Path, code: int) -> tuple[float, float]:
    """Run Python, which must exit with `code`; return its processor time and its elapsed time."""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run([sys.executable, *arguments], cwd=folder, env=environment(checkout), capture_output=True)
    elapsed, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != code:
        raise RuntimeError(f"{arguments} exited with code {done.returncode}: {done.stderr.decode()}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, elapsed


def write_inputs(folder: Path, checkout: Path) -> None:
    """Write a small table, and a model of it that the checkout has fitted: it may not read files of a newer one."""
    folder.mkdir()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(178, 5)) + 4 * rng.integers(3, size=(178, 1))
    np.savetxt(folder / "rows.csv", X, delimiter=",", header="a,b,c,d,e", comments="")
    fit = [sys.executable, "-m", "knet", "fit", "rows.csv", "-c", "3", "-o", "m.safetensors"]
    subprocess.run(fit, cwd=folder, env=environment(checkout), check=True, capture_output=True)


def startup(checkouts: dict[str, Path], n_rounds: int) -> None:
    """Print the ratios of all commands."""
    with TemporaryDirectory() as name:
        calls = {(REFERENCE, ""): (["-c", REFERENCE], Path(name), ROOT, 0)}
        for key, checkout in checkouts.items():
            folder = Path(name, key)
            write_inputs(folder, checkout)
            for text, (command, code) in COMMANDS.items():
                calls[text, key] = (["-m", "knet", *command.split()], folder, checkout, code)
        taken: dict[tuple[str, str], list[tuple[float, float]]] = {call: [] for call in calls}
        for _ in range(n_rounds):
            for call, arguments in calls.items():
                taken[call].append(seconds_of(*arguments))
    smallest = {call: np.min(runs, axis=0) for call, runs in taken.items()}
    reference = smallest[REFERENCE, ""]
    print(f"{REFERENCE}: {reference[0]:.2f} s of processor time, {reference[1]:.2f} s elapsed\n")
    print("| command | version | processor time / import torch | elapsed time / import torch |\n|---|---|---|---|")
    for text in COMMANDS:
        for key in checkouts:
            ratios = smallest[text, key] / reference
            print(f"| {text} | {key} | {ratios[0]:.2f} | {ratios[1]:.2f} |")


@contextmanager
def worker(checkout: Path, threads: int) -> Iterator[subprocess.Popen[str]]:
    """Start a process that labels rows when it is asked to, and end it."""
    command = [sys.executable, "-c", WORKER, str(threads)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(checkout)
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()


def ask(process: "subprocess.Popen[str]", method: str, dtype: str) -> tuple[float, float]:
    """Let a process label the rows; return the elapsed time and its processor time."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{method} {dtype}\n")
    process.stdin.flush()
    elapsed, used = json.loads(process.stdout.readline())
    return elapsed, used


def throughput(checkout: Path, other: Path, n_rounds: int, threads: int) -> None:
    """Print how many rows a second two checkouts label, in turn."""
    print("| method | dtype | rows per second | other checkout | ratio | ratio by processor time |")
    print("|---|---|---|---|---|---|")
    with worker(checkout, threads) as ours, worker(other, threads) as theirs:
        for method in METHODS:
            for dtype in ("float32", "float64"):
                runs = [(ask(ours, method, dtype), ask(theirs, method, dtype)) for _ in range(n_rounds + 1)][1:]
                (elapsed, used), (before, used_before) = (
                    [median(run[side][kind] for run in runs) for kind in (0, 1)] for side in (0, 1)
                )
                rates = f"{N_ROWS / elapsed:,.0f} | {N_ROWS / before:,.0f}"
                ratios = f"{before / elapsed:.2f} | {used_before / used:.2f}"
                print(f"| {method} | {dtype} | {rates} | {ratios} |", flush=True)


def main() -> None:
    """Read the options and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--beside", type=Path, help="another checkout of knet")
    parser.add_argument("--throughput", action="store_true", help="measure rows per second instead; needs --beside")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    if options.throughput:
        if options.beside is None:
            parser.error("--throughput needs --beside")
        throughput(ROOT, options.beside, options.rounds, options.threads)
        return
    startup({"this": ROOT} | ({"other": options.beside} if options.beside else {}), options.rounds)


if __name__ == "__main__":
    main()
