"""knet and its peers, board by board: `python -m benchmarks.boards [--battery FOLDER] [--vectors FOLDER] [-o docs]`.

Each board is measured by a benchmark of its own name, with all methods in the same run, and its rows are stored in
build/boards, so that boards can be measured one at a time (`--only suite,unknown`). The page benchmarks.md is written
from all rows that are stored. `--battery` holds data sets as for `benchmarks.quality`, with a folder `mixed` for
`benchmarks.mixed`; `--vectors` holds files NAME.npz with X and y. Without these folders, data that is generated or
installed with Python packages is used; nothing is downloaded. Peers take part if their packages are installed.
"""

import argparse
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path

import numpy as np
from sklearn.cluster import AgglomerativeClustering

from benchmarks import certainty, embeddings, gaps, generated_battery, guidance, mixed, newrows, number
from benchmarks.algorithms import ALGORITHMS, Algorithm
from benchmarks.boards_page import BOARDS, Row, Scores, write_page
from benchmarks.embedding_cases import CASES, Case
from benchmarks.pages import ROOT, stamp
from benchmarks.quality import Found, at_most, best_scores, clusterer, datasets
from benchmarks.results import versions
from benchmarks.tasks import Outcome, Stopwatch, Task
from knet.threads import limit_threads

QUICK_SETS, QUICK_ROWS = 1, 300  # of each family, in the quick form


@dataclass(frozen=True)
class Request:
    """Where the data is, and how much of it is measured."""

    battery: Path | None = None
    vectors: Path | None = None
    rows: int = 2000
    seeds: int = 3
    quick: bool = False

    @property
    def amount(self) -> str:
        """What is measured, in words."""
        tables, vectors = ("generated" if folder is None else "files" for folder in (self.battery, self.vectors))
        return f"tables: {tables}; vectors: {vectors}; rows of a data set: at most {self.rows:,}; seeds: {self.seeds}"

    def tables(self) -> Iterator[Found]:
        """Yield data sets as family/name, rows and labelings."""
        if self.battery is not None:
            return self.fewer(datasets(self.battery))
        return self.fewer((f"{family}/{name}", X, [y]) for family, name, X, y in generated_battery.generated(0))

    def vector_sets(self) -> Iterator[Found]:
        """Yield vectors of texts and images."""
        if self.vectors is not None:
            return self.fewer(number.stored_vectors(self.vectors))
        small = (name for name in CASES if name.startswith(("digits", "3,000", "5,000")))
        cases = ((name, CASES[name]()) for name in small)
        return self.fewer((f"vectors/{name}", case.X, [case.y + 1]) for name, case in cases)

    def fewer(self, found: Iterator[Found]) -> Iterator[Found]:
        """Yield data sets with not too many rows, and in the quick form the first of each family."""
        seen: dict[str, int] = {}
        for data in found:
            family = data[0].split("/")[0]
            seen[family] = seen.get(family, 0) + 1
            if not self.quick or seen[family] <= QUICK_SETS:
                yield at_most(data, self.rows)


def run_ward(task: Task) -> Outcome:
    """Cluster by Ward's linkage."""
    watch = Stopwatch()
    return Outcome(AgglomerativeClustering(task.n_clusters).fit(task.X).labels_, 0.0, watch.lap())


SUITE = {
    "knet": ALGORITHMS["knet"],
    "k-means": ALGORITHMS["kmeans"],
    "mixture": ALGORITHMS["gmm"],
    "spectral": ALGORITHMS["sc-neighbors"],
    "Ward": Algorithm("Ward", run_ward),
    "Genie": ALGORITHMS["genie"],
}


def suite(request: Request) -> Iterator[tuple[str, Scores]]:
    """Yield ARI and NMI on labelled tables, with the number of clusters given."""
    for name, X, labelings in request.tables():
        found = {}
        for method, algorithm in SUITE.items():
            if algorithm.installed:
                seeds = range(request.seeds)
                runs = [best_scores(labelings, clusterer(algorithm, X, seed)) for seed in seeds]
                found[method] = list(np.mean(runs, axis=0))[::-1]
        yield name, found


def unknown(request: Request) -> Iterator[tuple[str, Scores]]:
    """Yield ARI, and whether the number of clusters is right, if nobody knows that number."""
    titles = {"hdbscan": "HDBSCAN", "bic": "mixture, BIC", "silhouette": "k-means, silhouette", "evoc": "EVoC"}
    many = ((f"many groups/{name}", X, [y]) for name, X, y in number.many_groups())
    none = ((f"no groups/{name}", X, [np.ones(len(X), int)]) for name, X in islice(number.no_groups(), 0, None, 3))
    for found in (*request.tables(), *request.vector_sets(), *request.fewer(many), *request.fewer(none)):
        methods = number.installed([])
        if not found[0].startswith("vectors/"):
            methods.pop("evoc", None)  # it refuses tables of few columns
        scores = number.compare(found, methods)
        yield found[0], {titles.get(method, method): values for method, values in scores.items()}


def mixed_tables(request: Request) -> Iterator[tuple[str, Scores]]:
    """Yield the ARI on tables of numbers and categories."""
    titles = {"numbers": "knet, numbers alone", "each": "knet, 0/1 columns scaled", "prototypes": "k-prototypes"}
    families = {"public": mixed.public(request.battery / "mixed") if request.battery else iter(())}
    for family, tables in (families | {"generated": mixed.generated(0)}).items():
        for name, table, y in islice(tables, QUICK_SETS if request.quick else None):
            scores = {method: mixed.score(method, table, y, request.seeds) for method in mixed.METHODS}
            yield f"{family}/{name}", {titles.get(m, m): [v] for m, v in scores.items() if np.isfinite(v)}


def vectors(request: Request) -> Iterator[tuple[str, Scores]]:
    """Yield NMI and ARI on vectors."""
    for name, X, (y, *_) in request.vector_sets():
        rows = [embeddings.measure(Case(X, y - 1), method, request.seeds) for method in embeddings.installed()]
        yield name, {row["method"]: [row["nmi"], row["ari"]] for row in rows}


def new_rows(request: Request) -> Iterator[tuple[str, Scores]]:
    """Yield NMI and ARI of rows that a fit has not seen."""
    changes = {"network": newrows.variants()["network"]}
    for name, X, (y, *_) in (*request.tables(), *request.vector_sets()):
        data = newrows.Set("", name, X, y - 1)
        runs = [newrows.measure(data, seed, request.rows, changes) for seed in range(request.seeds)]
        means = {method: list(np.mean([run[method][:2] for run in runs], axis=0)) for method in runs[0]}
        yield name, {"knet": means.pop("network")} | means


def calibration(request: Request) -> Iterator[tuple[str, Scores]]:
    """Yield the calibration error of the probabilities, and the AUC of right against wrong labels."""
    for name, X, (y, *_) in (*request.tables(), *request.vector_sets()):
        runs = []
        for seed in range(request.seeds):
            order = np.random.default_rng(seed).permutation(len(X))
            runs.append(certainty.compare(X[order], y[order] - 1, seed, is_vectors=name.startswith("vectors/")))
        means = {method: certainty.mean_row([run[method] for run in runs]) for method in runs[0]}
        yield name, {method: [row["error"], row["auc"]] for method, row in means.items()}


def known_labels(request: Request) -> Iterator[tuple[str, Scores]]:
    """Yield the ARI of the rows without a label, if some labels of each group are known."""
    titles = {"without": "knet, no labels", "spreading": "spreading, neighbours", "gaussian": "spreading, Gaussian"}
    for found in request.tables():
        for count in (5,) if request.quick else (1, 5, 20):
            scores = guidance.with_labels(found, count, 1 if request.quick else 3)
            yield f"{count} known/{found[0]}", {titles.get(method, method): [v] for method, v in scores.items()}


def missing_cells(request: Request) -> Iterator[tuple[str, Scores]]:
    """Yield the ARI on tables of which cells are missing."""
    titles = {"median": "filled, median", "mean": "filled, mean", "neighbours": "filled, neighbours"}
    for name, X, (y, *_) in request.tables():
        if name in gaps.SETS or (request.battery is None and name.startswith("gaussians/")):
            data = (name, X[y > 0], [y[y > 0]])
            for share in (0.3,) if request.quick else gaps.SHARES:
                scores = gaps.measure(at_most(data, gaps.MAX_ROWS), share, request.seeds)
                del scores["calibration"]
                yield f"{share:.0%} missing/{name}", {titles.get(method, method): [v] for method, v in scores.items()}


def speed(request: Request) -> Iterator[tuple[str, Scores]]:
    """Yield processor seconds of a fit; nothing if the benchmark of ratios is not there."""
    try:
        ratios = import_module("benchmarks.ratios")
    except ImportError:
        return
    cases = {name: case for name, case in ratios.CASES.items() if case.repeats and not name.startswith("auto")}
    for name in islice(cases, QUICK_SETS if request.quick else None):
        methods = {"knet": "knet", "k-means": "k-means", "spectral": "spectral", "HDBSCAN": "hdbscan"}
        yield name, {title: [ratios.measured(ROOT, name, method)[0]] for title, method in methods.items()}


MEASURED: dict[str, Callable[[Request], Iterator[tuple[str, Scores]]]] = {
    "suite": suite,
    "unknown": unknown,
    "mixed": mixed_tables,
    "vectors": vectors,
    "new-rows": new_rows,
    "calibration": calibration,
    "known-labels": known_labels,
    "missing-cells": missing_cells,
    "speed": speed,
}


def measure(name: str, request: Request, store: Path) -> int:
    """Measure a board on one thread, store its rows, and return how many there are."""
    facts = {"measured": stamp(), "versions": versions(), "amount": request.amount}
    started, rows = seconds(), list[Row]()
    with limit_threads(1):
        for found, scores in MEASURED[name](request):
            rows.append({"set": found, "scores": scores})
            print(f"{name}: {found}, {seconds() - started:.0f} s", flush=True)
    if rows:
        store.mkdir(parents=True, exist_ok=True)
        text = json.dumps(facts | {"minutes": (seconds() - started) / 60, "rows": rows}, indent=1)
        (store / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    return len(rows)


def seconds() -> float:
    """Return the processor time of this process and of its children."""
    return sum(os.times()[:4])


def parse(arguments: list[str] | None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(prog="boards", description="Measure knet and its peers, and write benchmarks.md.")
    parser.add_argument("--battery", type=Path, help="folder of labelled tables")
    parser.add_argument("--vectors", type=Path, help="folder of labelled vectors")
    parser.add_argument("--only", default=",".join(BOARDS), help="boards to measure, comma-separated; none if empty")
    parser.add_argument("--rows", type=int, default=2000, help="rows of a data set, at most")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help=f"few data sets of {QUICK_ROWS} rows, generated")
    parser.add_argument("--store", type=Path, default=Path("build/boards"), help="folder of the measured rows")
    parser.add_argument("-o", "--out", type=Path, default=Path("docs"), help="folder of the page")
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Measure the boards and write the page; return the exit code."""
    options = parse(arguments)
    names = [name for name in options.only.split(",") if name]
    if strange := [name for name in names if name not in BOARDS]:
        print(f"boards: there is no board {strange[0]!r}; there are {', '.join(BOARDS)}", file=sys.stderr)
        return 2
    for folder in (options.battery, options.vectors):
        if folder is not None and not folder.is_dir():
            print(f"boards: there is no folder {str(folder)!r}", file=sys.stderr)
            return 2
    request = Request(options.battery, options.vectors, options.rows, options.seeds)
    if options.quick:
        request = Request(rows=QUICK_ROWS, seeds=1, quick=True)
    warnings.simplefilter("ignore")
    for name in names:
        if not measure(name, request, options.store):
            print(f"{name}: skipped, there is nothing to measure")
    print(write_page(options.store, options.out))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
