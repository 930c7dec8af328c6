"""The targets of the default, given only the number of clusters: `python -m benchmarks.targets FOLDER`.

FOLDER holds the data sets of the paper in `paper` and batteries of the clustering benchmark suite in `battery`. Cases
run on one thread; with `--beside CHECKOUT`, the code of another checkout runs the same cases in turn.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SMALL = ("moon", "spiral1", "cancer", "wine", "face")
Rows = list[dict[str, float]]


@dataclass(frozen=True)
class Target:
    """A line of the table: the cases it needs, the number it makes of their rows, and the bound."""

    name: str
    cases: tuple[str, ...]
    measure: Callable[[Rows], float]
    bound: float
    at_least: bool = True

    def met(self, value: float) -> bool:
        """Say whether a value meets the target."""
        return value >= self.bound - 5e-4 if self.at_least else value <= self.bound


def mean(key: str) -> Callable[[Rows], float]:
    """Return the mean of an entry of the rows."""
    return lambda rows: float(np.mean([row[key] for row in rows]))


def median(key: str) -> Callable[[Rows], float]:
    """Return the median of an entry of the rows."""
    return lambda rows: float(np.median([row[key] for row in rows]))


def smallest(rows: Rows) -> float:
    """Return the smallest score."""
    return min(row["score"] for row in rows)


def deviation(rows: Rows) -> float:
    """Return the standard deviation of the score."""
    return float(np.std([row["score"] for row in rows]))


def targets(folder: Path, seeds: int, battery_seeds: int) -> list[Target]:
    """Return all targets but those on time, which compare two checkouts."""

    def battery(name: str) -> tuple[str, ...]:
        sets = sorted(path.name.removesuffix(".data.gz") for path in (folder / "battery" / name).glob("*.data.gz"))
        return tuple(f"battery:{name}/{own}:{seed}" for own in sets for seed in range(battery_seeds))

    paper = {name: tuple(f"paper:{name}:{seed}" for seed in range(seeds)) for name in (*SMALL, "rcv")}
    bounds = {"moon": 1.0, "spiral1": 1.0, "wine": 0.924, "cancer": 0.815, "face": 0.928, "rcv": 0.50}
    moons = tuple(f"shape:moons and ring:{seed}" for seed in range(3))
    return [
        *(Target(f"{name}, mean ARI", battery(name), mean("score"), bound) for name, bound in BATTERIES.items()),
        *(Target(f"{name}, NMI", paper[name], mean("score"), bound) for name, bound in bounds.items()),
        *(Target(f"{name}, deviation over seeds", paper[name], deviation, 0.02, False) for name in bounds),
        Target("five rings, 100,000 rows, NMI", ("shape:rings:0",), mean("score"), 0.97),
        Target("five arcs, 100,000 rows, NMI", ("shape:arcs:0",), mean("score"), 0.95),
        Target("moons and ring, 300,000 rows, worst NMI", moons, smallest, 0.98),
        Target("20,000 x 16 rows, 26 groups, s", ("cost:unclear:0",), median("clock"), 10, False),
        Target("1,000,000 x 10 rows, s", ("cost:million:0",), median("clock"), 10, False),
        Target("1,000,000 x 10 rows, MB", ("cost:million:0",), median("memory"), 500, False),
    ]


BATTERIES = {"fcps": 0.985, "graves": 0.960, "uci": 0.420, "tables": 0.600}


def run_cases(checkout: Path, folder: Path, cases: Iterable[str]) -> dict[str, dict[str, float]]:
    """Return the row of each case, measured with the code of a checkout."""
    here = Path(__file__).parents[1]
    path = os.pathsep.join([str(checkout / "src"), str(here)])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.target_cases", str(folder), *cases]
    done = subprocess.run(command, env=environment, cwd=here, stdout=subprocess.PIPE, text=True, check=True)
    return {row["case"]: row for row in map(json.loads, done.stdout.splitlines())}


def main() -> int:
    """Measure everything and print the table; return the exit code."""
    parser = argparse.ArgumentParser(prog="targets", description="The targets of the default, and what is measured.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--beside", type=Path, help="another checkout of knet, measured in the same run")
    parser.add_argument("--seeds", type=int, default=5, help="for the paper's sets")
    parser.add_argument("--battery-seeds", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5, help="of the small fits whose time is compared")
    parser.add_argument("--only", default="", help="comma-separated parts of the names of targets")
    options = parser.parse_args()
    wanted = [part for part in options.only.split(",") if part]
    lines = [
        target
        for target in targets(options.folder, options.seeds, options.battery_seeds)
        if target.cases and (not wanted or any(part in target.name for part in wanted))
    ]
    checkouts = [Path(__file__).parents[1], *([options.beside] if options.beside else [])]
    found: list[dict[str, dict[str, float]]] = [{} for _ in checkouts]
    print(f"{'target':42} {'bound':>8} {'here':>9}" + (f" {'beside':>9}" if options.beside else ""), flush=True)
    for target in lines:
        values = []
        for checkout, rows in zip(checkouts, found, strict=True):
            rows |= run_cases(checkout, options.folder, [case for case in target.cases if case not in rows])
            values.append(target.measure([rows[case] for case in target.cases]))
        verdict = "met" if target.met(values[0]) else "missed"
        print(f"{target.name:42} {target.bound:8.3f}" + "".join(f" {v:9.3f}" for v in values), verdict, flush=True)
    losses = {case: row["loss"] for case, row in found[0].items() if "loss" in row}
    if losses:
        worst = max(losses, key=losses.__getitem__)
        print(f"{'largest loss against the start':42} {0.03:8.3f} {losses[worst]:9.3f}  {worst}")
    if options.beside and (not wanted or "time" in wanted):
        print_times(checkouts, options)
    return 0


def print_times(checkouts: list[Path], options: argparse.Namespace) -> None:
    """Print the processor time of small fits as ratios; both checkouts run in turn."""
    for name in SMALL:
        cases = [f"cost:{name}:{seed}" for seed in range(3)]
        runs: list[Rows] = [[], []]
        for _ in range(options.repeats):
            for checkout, rows in zip(checkouts, runs, strict=True):
                rows += run_cases(checkout, options.folder, cases).values()
        here, beside = (median("cpu")(rows) for rows in runs)
        verdict = "met" if here <= 1.2 * beside else "missed"
        print(f"{name + ', CPU s, ratio':42} {1.2:8.3f} {here / beside:9.3f} {here:5.2f} / {beside:.2f} s {verdict}")


if __name__ == "__main__":
    sys.exit(main())
