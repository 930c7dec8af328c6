"""The targets of the default, given only the number of clusters: `python -m benchmarks.targets PAPER BATTERY`.

PAPER holds the paper's data sets as NAME.csv and NAME_label.csv, BATTERY a folder for each battery of the clustering
benchmark suite. The output: each target, the measured score (mean and deviation over seeds), and the best of the peers.
Every run is also compared with the partition that it started from.
"""

import argparse
import sys
import warnings
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks.paper_numbers import SUBSET_PERCENT
from benchmarks.quality import Found, datasets
from knet import KNet
from knet.metrics import ari, nmi

# NMI: the target, and the best peer that was run on the same files.
FULL = {
    "moon": (1.0, "1.000 SC"),
    "spiral1": (1.0, "1.000 SC"),
    "cancer": (0.842, "0.811 DEC"),
    "wine": (0.918, "0.899 SpectralNet"),
    "face": (0.950, "0.951 authors' code"),
    "rcv": (0.560, "0.557 k-means"),
}
SUBSET = {"moon": 1.0, "spiral1": 1.0, "cancer": 0.840, "wine": 0.911, "rcv": 0.452, "face": 0.927}  # the paper's EIG
MEANS = {"fcps": (0.98, "0.980 Genie"), "uci": (0.45, "0.412 Gaussian mixture")}
LARGEST_LOSS, LARGEST_SPREAD, LARGEST_GAP = 0.03, 0.01, 0.03


@dataclass(frozen=True)
class Run:
    """One fit: its data set, the share of rows it saw, its score, and the same score of its start."""

    name: str
    part: str
    score: float
    start: float
    end: float  # on the training rows, which are the rows that the start labels


def fit_and_score(job: tuple[Found, int, str]) -> Run:
    """Fit the default and score it: NMI for the paper's sets, the best ARI over labelings for a battery."""
    (name, X, labelings), seed, part = job
    score = nmi if "/" not in name else ari
    train_size = "auto" if part == "full" else SUBSET_PERCENT[name] / 100
    runs = []
    with threadpool_limits(1), warnings.catch_warnings(action="ignore"):
        for truth in labelings:
            known = truth > 0
            model = KNet(len(set(truth[known])), train_size=train_size, random_state=seed).fit(X)
            rows = model.train_indices_[known[model.train_indices_]]
            start = model.start_labels_[known[model.train_indices_]]
            values = (score(truth[known], model.labels_[known]), score(truth[rows], start))
            runs.append(Run(name, part, *values, score(truth[rows], model.labels_[rows])))
    return max(runs, key=lambda run: run.score)


def summary(runs: list[Run], name: str, part: str = "full") -> tuple[float, float]:
    """Return mean and deviation of a data set's score."""
    scores = [run.score for run in runs if (run.name, run.part) == (name, part)]
    return float(np.mean(scores)), float(np.std(scores))


def verdict(met: bool) -> str:
    """Return whether a target was met, as a word."""
    return "met" if met else "missed"


def lines(runs: list[Run]) -> list[str]:
    """Return the table."""
    names = {run.name for run in runs}
    out = [f"{'target':34} {'wanted':>8} {'measured':>15} {'':7} best peer"]
    for name in (name for name in FULL if name in names):
        (target, peer), (mean, spread) = FULL[name], summary(runs, name)
        out.append(
            f"{name + ', all rows, NMI':34} {target:8.3f} {mean:6.3f} +- {spread:.3f} "
            f"{verdict(mean >= target - 5e-4):7} {peer}"
        )
    for name in (name for name in SUBSET if name in names):
        (mean, spread), (full, _) = summary(runs, name, "subset"), summary(runs, name)
        wanted = max(SUBSET[name], full - LARGEST_GAP)
        out.append(
            f"{name + f', {SUBSET_PERCENT[name]} % of rows, NMI':34} {wanted:8.3f} {mean:6.3f} +- {spread:.3f} "
            f"{verdict(mean >= wanted - 5e-4):7} {SUBSET[name]:.3f} paper's KNet-EIG"
        )
    for battery, (target, peer) in MEANS.items():
        sets = sorted({run.name for run in runs if run.name.startswith(f"{battery}/")})
        if sets:
            mean = float(np.mean([summary(runs, name)[0] for name in sets]))
            out.append(
                f"{battery + f', mean ARI of {len(sets)} sets':34} {target:8.3f} {mean:6.3f} {'':8} "
                f"{verdict(mean >= target):7} {peer}"
            )
    return [*out, *details(runs)]


def details(runs: list[Run]) -> list[str]:
    """Return the lines on starts and spreads, and one per data set."""
    keys = sorted({(run.name, run.part) for run in runs})
    losses = {key: float(np.mean([run.start - run.end for run in runs if (run.name, run.part) == key])) for key in keys}
    spreads = {name: summary(runs, name)[1] for name in FULL if (name, "full") in keys}
    worst = max(losses, key=losses.__getitem__)
    out = [f"{'largest mean loss against start':34} {LARGEST_LOSS:8.3f} {losses[worst]:6.3f} ({worst[0]}, {worst[1]})"]
    if spreads:
        widest = max(spreads, key=spreads.__getitem__)
        out.append(f"{'largest deviation, paper sets':34} {LARGEST_SPREAD:8.3f} {spreads[widest]:6.3f} ({widest})")
    out.append(f"\n{'data set':24} {'score':>15} {'start':>7} {'end':>7}  (start and end: on the training rows)")
    for key in keys:
        mean, spread = summary(runs, *key)
        own = [run for run in runs if (run.name, run.part) == key]
        start, end = np.mean([run.start for run in own]), np.mean([run.end for run in own])
        out.append(f"{', '.join(key):24} {mean:6.3f} +- {spread:.3f} {start:7.3f} {end:7.3f}")
    return out


def main() -> int:
    """Run everything and print the table; return the exit code."""
    parser = argparse.ArgumentParser(prog="targets", description="The targets of the default, and the measured scores.")
    parser.add_argument("paper", type=Path)
    parser.add_argument("battery", type=Path)
    parser.add_argument("--seeds", type=int, default=10, help="for the paper's sets; batteries use half of them")
    parser.add_argument("--only", default="", help="comma-separated parts of names")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    wanted = [
        data
        for folder in (options.paper, options.battery)
        for data in datasets(folder)
        if any(part in data[0] for part in options.only.split(","))
    ]
    jobs: list[tuple[Found, int, str]] = []
    for data in wanted:
        name, *_ = data
        full_seeds = options.seeds if "/" not in name else (options.seeds + 1) // 2
        jobs += [(data, seed, "full") for seed in range(full_seeds)]
        jobs += [(data, seed, "subset") for seed in range(options.seeds) if name in SUBSET_PERCENT]
    if not jobs:
        print("targets: these folders contain no data sets", file=sys.stderr)
        return 2
    with get_context("spawn").Pool(options.jobs) as pool:
        runs = list(pool.imap_unordered(fit_and_score, jobs, chunksize=1))
    print("\n".join(lines(runs)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
