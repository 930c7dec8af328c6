"""Labels of new rows: `python -m benchmarks.newrows [FOLDER] [--seeds 2] [--only PART] [--rows 2000] [--sets]`.

Each data set is halved at random; a default fit sees one half and labels the other. NMI and ARI of the new rows for the
network, and for simpler rules that use the same start: a vote of 15 neighbours, the nearest centroid, and a ridge
regression onto the groups. k-means does without that start. "followed" is the network before Algorithm 1, "exact
targets" is one that never averages over neighbours, and "start" are the training rows themselves. FOLDER has `battery`
and `vectors` (see `benchmarks.quality`); without it, the shapes and tables that need no files are used. To measure
other code, set PYTHONPATH to its `src`; what that code does not have is left out.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeCV
from sklearn.neighbors import KNeighborsClassifier

from benchmarks import ablation
from benchmarks.quality import datasets
from knet import KNet
from knet.metrics import ari, nmi
from knet.train import follow
from knet.train.training import Run

NEIGHBORS = 15
WIDE = ("bbc", "searchsnippets", "trec6", "usps")


@dataclass(frozen=True)
class Set:
    """Rows with known groups; rows of group -1 are not scored."""

    family: str
    name: str
    X: np.ndarray
    y: np.ndarray


def sets(folder: Path | None) -> Iterator[Set]:
    """Yield the data sets."""
    for name in ablation.DATA:
        yield Set("shapes" if name in ablation.SHAPES else "tables", name, *ablation.load(name))
    yield Set("vectors", "digits", *load_digits(return_X_y=True))
    for family, part in (("shapes", "fcps"), ("shapes", "graves"), ("tables", "uci"), ("tables", "tables")):
        if folder is not None and (folder / "battery" / part).is_dir():
            for name, X, labelings in datasets(folder / "battery" / part):
                yield Set(family, name, X, labelings[0] - 1)
    for name in WIDE:
        if folder is not None and (path := folder / "vectors" / f"{name}.npz").exists():
            found = np.load(path)
            yield Set("vectors", name, found["X"].astype(np.float32), found["y"])


def variants() -> dict[str, AbstractContextManager[object]]:
    """Return the changes of the code that are measured; older code may not have what they replace."""
    found: dict[str, AbstractContextManager[object]] = {"network": nullcontext()}
    found["followed"] = patch.object(Run, "iterations", lambda *arguments: iter(()))
    if hasattr(follow, "preferred"):
        found["exact targets"] = patch.object(follow, "preferred", lambda attempts: attempts[-1])
    return found


def by_start(Z: np.ndarray, labels: np.ndarray) -> dict[str, Callable[[np.ndarray], np.ndarray]]:
    """Return rules that label new rows from the prepared training rows and their start, and k-means, without it."""
    present = np.unique(labels)
    centers = np.stack([Z[labels == group].mean(0) for group in present])
    vote = KNeighborsClassifier(min(NEIGHBORS, len(Z))).fit(Z, labels)
    ridge = RidgeCV(alphas=np.geomspace(1e-3, 10, 5) * len(Z)).fit(Z, np.eye(int(labels.max()) + 1)[labels])
    return {
        "vote of 15": vote.predict,
        "centroid": lambda new: present[cdist(new, centers).argmin(1)],
        "ridge": lambda new: ridge.predict(new).argmax(1),
        "k-means": KMeans(len(present), n_init=10, random_state=0).fit(Z).predict,
    }


def measure(
    data: Set, seed: int, n_rows: int, changes: dict[str, AbstractContextManager[object]]
) -> dict[str, tuple[float, float, float]]:
    """Return NMI and ARI of the new rows, and the seconds of the fit, by method."""
    order = np.random.default_rng(seed).permutation(len(data.X))[:n_rows]
    train, new = np.sort(order[::2]), np.sort(order[1::2])
    n_clusters, scored = len(np.unique(data.y[data.y >= 0])), data.y[new] >= 0

    def score(labels: np.ndarray) -> tuple[float, float]:
        return nmi(data.y[new][scored], labels[scored]), ari(data.y[new][scored], labels[scored])

    found = {}
    for name, change in changes.items():
        with change:
            started = time.process_time()
            model = KNet(n_clusters, random_state=seed).fit(data.X[train])
            seconds = time.process_time() - started
        found[name] = (*score(model.predict(data.X[new])), seconds)
    prepare, seen = model.predictor_.preparation, train[model.train_indices_]
    for name, rule in by_start(prepare(data.X[seen]), model.start_labels_).items():
        found[name] = (*score(rule(prepare(data.X[new]))), 0.0)
    known = data.y[seen] >= 0
    start = (data.y[seen][known], model.start_labels_[known])
    return found | {"start": (nmi(*start), ari(*start), 0.0)}


def main() -> int:
    """Print a line per method, and on demand per data set; return the exit code."""
    parser = argparse.ArgumentParser(prog="newrows", description="Labels of new rows.")
    parser.add_argument("folder", type=Path, nargs="?", help="with battery/ and vectors/")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--rows", type=int, default=2000, help="of each data set, at most")
    parser.add_argument("--only", default="", help="part of a family or a name")
    parser.add_argument("--sets", action="store_true", help="also print every data set")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    results: dict[tuple[str, str], list[tuple[float, float, float]]] = {}
    for data in sets(options.folder):
        if options.only in f"{data.family} {data.name}":
            for seed in range(options.seeds):
                found = measure(data, seed, options.rows, variants())
                for method, values in found.items():
                    results.setdefault((method, data.family), []).append(values)
                if options.sets:
                    cells = "; ".join(f"{method} {values[0]:.3f} / {values[1]:.3f}" for method, values in found.items())
                    print(f"{data.family} {data.name} {seed}: {cells}", flush=True)
    families = list(dict.fromkeys(family for _, family in results))
    print(f"{'NMI / ARI, seconds':20}" + "".join(f"{family:>24}" for family in families))
    for method in dict.fromkeys(method for method, _ in results):
        means = [np.mean(results[method, family], axis=0) for family in families]
        print(f"{method:20}" + "".join(f"{a:12.3f} / {b:.3f} {s:5.2f}" for a, b, s in means))
    return 0


if __name__ == "__main__":
    sys.exit(main())
