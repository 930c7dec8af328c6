"""Quality of the default, given only the number of clusters: `python -m benchmarks.quality FOLDER [--seeds 3]`.

FOLDER holds data sets as NAME.csv with NAME_label.csv, or, as in the clustering benchmark suite, as NAME.data.gz with
NAME.labels0.gz, NAME.labels1.gz, ... (label 0 is noise and not scored; of several labelings the best counts). The
output per data set: NMI and ARI, mean and deviation over seeds, k-means on the same scaled rows, any algorithm named
by `--peers`, and published results of the suite if they are known (`--published`).
"""

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.algorithms import ALGORITHMS, Algorithm
from benchmarks.published import PUBLISHED
from benchmarks.tasks import Labels, Rows, Task
from knet import KNet
from knet.metrics import ari, nmi

Found = tuple[str, Rows, list[Labels]]
Clusterer = Callable[[int], Labels]


def datasets(folder: Path) -> Iterator[Found]:
    """Yield name, rows and labelings of every data set below a folder; all labels of NAME_label.csv are scored."""
    for path in sorted(folder.rglob("*_label.csv")):
        name = path.name.removesuffix("_label.csv")
        labels = np.loadtxt(path).astype(int)
        yield name, np.loadtxt(path.with_name(f"{name}.csv"), delimiter=","), [labels - labels.min() + 1]
    for path in sorted(folder.rglob("*.data.gz")):
        name = path.name.removesuffix(".data.gz")
        files = sorted(path.parent.glob(f"{name}.labels*.gz"))
        yield f"{path.parent.name}/{name}", np.loadtxt(path), [np.loadtxt(file).astype(int) for file in files]


def at_most(found: Found, n_rows: int) -> Found:
    """Return a data set with a random sample of its rows, in their order, if it has more than `n_rows`."""
    name, X, labelings = found
    kept = np.sort(np.random.RandomState(0).permutation(len(X))[:n_rows])
    return found if len(X) <= n_rows else (name, X[kept], [labels[kept] for labels in labelings])


def best_scores(labelings: list[Labels], predict: Clusterer) -> tuple[float, float]:
    """Return the best NMI and ARI over the labelings; `predict` gives labels for a number of clusters."""
    scores, predict = [], cache(predict)
    for truth in labelings:
        scored = truth > 0
        labels = predict(len(set(truth[scored])))
        scores.append((nmi(truth[scored], labels[scored]), ari(truth[scored], labels[scored])))
    return max(score[0] for score in scores), max(score[1] for score in scores)


def clusterer(algorithm: Algorithm, X: Rows, seed: int = 0) -> Clusterer:
    """Return a clusterer of these rows by an algorithm of the reproduction."""
    return lambda c: algorithm.run(Task("", X, np.arange(len(X)), c, seed)).labels


def score_dataset(found: Found, seeds: int, others: list[str]) -> tuple[str, list[float]]:
    """Return a data set's line of the table, and its means."""
    name, X, labelings = found
    started = time.perf_counter()
    runs = [best_scores(labelings, lambda c, s=s: KNet(c, random_state=s).fit(X).labels_) for s in range(seeds)]
    seconds = (time.perf_counter() - started) / seeds / len(labelings)
    scores = [best_scores(labelings, clusterer(ALGORITHMS[other], X)) for other in ("kmeans", *others)]
    (n, a), (dn, da) = np.mean(runs, axis=0), np.std(runs, axis=0)
    (plain_n, plain_a), *rest = scores
    line = (
        f"{name:20} {len(X):6} {n:6.3f} +-{dn:5.3f} {a:6.3f} +-{da:5.3f} {plain_n:11.3f} {plain_a:6.3f} {seconds:6.1f}"
    )
    return line + columns([a for _, a in rest]), [n, a, plain_n, plain_a, *(a for _, a in rest)]


def columns(values: list[float]) -> str:
    """Return further columns of the table."""
    return "".join(f" {value:12.3f}" if np.isfinite(value) else f" {'-':>12}" for value in values)


def published_lines(found: list[Found], names: list[str], own: dict[str, list[float]]) -> list[str]:
    """Return the table of ARI next to published results, for the data sets that have them."""
    known = [name for name, *_ in found if name in PUBLISHED]
    if not known:
        return ["No published results are known for these data sets."]
    header = f"{'ARI, published':20}" + "".join(f" {name:>12}" for name in ("knet", *names))
    rows = {name: [own[name][1], *(PUBLISHED[name].get(other, np.nan) for other in names)] for name in known}
    lines = [f"{name:20}{columns(values)}" for name, values in rows.items()]
    return [header, *lines, f"{'mean':20}{columns(list(np.nanmean(list(rows.values()), axis=0)))}"]


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="quality", description="Quality of the default on labelled data sets.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="", help="comma-separated parts of names")
    parser.add_argument(
        "--peers", default="", help=f"also the ARI of these algorithms, comma-separated, of {', '.join(ALGORITHMS)}"
    )
    parser.add_argument("--published", action="store_true", help="a second table, with published results")
    return parser.parse_args(arguments)


def complaint(options: argparse.Namespace, found: list[Found], others: list[str]) -> str:
    """Return what is wrong with a request, in words, or nothing."""
    if options.seeds < 1:
        return f"--seeds must be at least 1, not {options.seeds}"
    for name in others:
        if name not in ALGORITHMS:
            return f"there is no algorithm {name!r}; there are {', '.join(ALGORITHMS)}"
        if not ALGORITHMS[name].installed:
            return f"{name} needs the package {ALGORITHMS[name].package}: make peers"
    return "" if found else f"no data sets in {options.folder}"


def main(arguments: list[str] | None = None) -> int:
    """Print one line per data set and the means; return the exit code."""
    options = parse(arguments)
    others = [name for name in options.peers.split(",") if name]
    found = [data for data in datasets(options.folder) if any(part in data[0] for part in options.only.split(","))]
    if message := complaint(options, found, others):
        print(f"quality: {message}", file=sys.stderr)
        return 2
    warnings.simplefilter("ignore")
    extra = "".join(f" {name + ' ARI':>12}" for name in others)
    print(f"{'data set':20} {'rows':>6} {'NMI':>13} {'ARI':>13} {'k-means NMI':>11} {'ARI':>6} {'s/fit':>6}{extra}")
    means = {}
    for data in found:
        line, means[data[0]] = score_dataset(data, options.seeds, others)
        print(line, flush=True)
    n, a, plain_n, plain_a, *rest = np.mean(list(means.values()), axis=0)
    print(f"{'mean':20} {'':6} {n:6.3f} {'':6} {a:6.3f} {'':6} {plain_n:11.3f} {plain_a:6.3f} {'':6}{columns(rest)}")
    if options.published:
        names = sorted({name for row in PUBLISHED.values() for name in row})
        print("", *published_lines(found, names, means), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
