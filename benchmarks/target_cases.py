"""Measurements of the default with any version of knet: `python -m benchmarks.target_cases FOLDER CASE ...`.

Only names that do not change are used, so that `PYTHONPATH=OTHER_CHECKOUT/src` measures other code. A case is
KIND:NAME:SEED; a line of JSON is printed for each. FOLDER holds `paper` (NAME.csv, NAME_label.csv) and `battery`.
"""

import json
import os
import sys
import time
import warnings
from pathlib import Path

import numpy as np

from benchmarks.hard_partitions import overlapping_groups
from benchmarks.memory import peak_mb, reset_peak
from benchmarks.shapes import SHAPES, lifted_moons_and_ring, lifted_spirals
from knet import KNet
from knet.metrics import ari, nmi


def read_paper(folder: Path, name: str) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return rows and the labeling of one of the paper's files; labels start at 1."""
    labels = np.loadtxt(folder / "paper" / f"{name}_label.csv").astype(int)
    return np.loadtxt(folder / "paper" / f"{name}.csv", delimiter=","), [labels - labels.min() + 1]


def read_battery(folder: Path, name: str) -> tuple[np.ndarray, list[np.ndarray]]:
    """Return rows and labelings of a set of the benchmark suite; label 0 is noise."""
    path = folder / "battery" / f"{name}.data.gz"
    files = sorted(path.parent.glob(f"{path.name.removesuffix('.data.gz')}.labels*.gz"))
    return np.loadtxt(path), [np.loadtxt(file).astype(int) for file in files]


def quality(folder: Path, kind: str, name: str, seed: int) -> dict[str, float]:
    """Return the best score over the labelings, and what training lost against its start on the training rows."""
    X, labelings = (read_paper if kind == "paper" else read_battery)(folder, name)
    score, found = (nmi if kind == "paper" else ari), []
    for truth in labelings:
        known = truth > 0
        model = KNet(len(set(truth[known])), random_state=seed).fit(X)
        rows = model.train_indices_
        start, end = (
            score(truth[rows][known[rows]], part[known[rows]]) for part in (model.start_labels_, model.labels_[rows])
        )
        found.append({"score": score(truth[known], model.labels_[known]), "loss": start - end})
    return max(found, key=lambda row: row["score"])


def shape(folder: Path, kind: str, name: str, seed: int) -> dict[str, float]:
    """Return the NMI on generated rows: five groups in ten columns, or moons and a ring."""
    X, y = lifted_moons_and_ring(300_000, seed) if name == "moons and ring" else SHAPES[name](100_000)
    return {"score": nmi(y, KNet(len(set(y.tolist())), random_state=seed).fit(X).labels_)}


def cost(folder: Path, kind: str, name: str, seed: int) -> dict[str, float]:
    """Return seconds (of the clock and of the processor) and memory beyond the data of one fit."""
    if name == "unclear":
        X, y = overlapping_groups(20_000)
    elif name == "million":
        X, y = lifted_spirals(1_000_000)
    else:
        X, (y,) = read_paper(folder, name)
    before, clock, cpu = reset_peak(), time.perf_counter(), time.process_time()
    KNet(len(set(y.tolist())), random_state=seed).fit(X)
    taken = {"clock": time.perf_counter() - clock, "cpu": time.process_time() - cpu}
    return taken | {"memory": peak_mb() - before}


KINDS = {"paper": quality, "battery": quality, "shape": shape, "cost": cost}


def main() -> None:
    """Run the cases and print a line for each."""
    warnings.simplefilter("ignore")
    folder = Path(sys.argv[1])
    for case in sys.argv[2:]:
        kind, name, seed = case.split(":")
        row = KINDS[kind](folder, kind, name, int(seed))
        print(json.dumps({"case": case, **row, "load": os.getloadavg()[0]}), flush=True)


if __name__ == "__main__":
    main()
