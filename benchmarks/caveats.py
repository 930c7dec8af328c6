"""Warnings of `KNet.fit` on ordinary and on doubtful data: `python -m benchmarks.caveats [--seeds 3]`.

The suite of real and generated data is used as well if `../shared/datasets` exists.
"""

import argparse
import gzip
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_iris,
    load_wine,
    make_blobs,
    make_circles,
    make_moons,
)

from knet import KNet
from knet.exceptions import KNetDataWarning

BATTERY = Path(__file__).parents[2] / "shared" / "datasets" / "battery"
MAX_ROWS = 3000  # of the data of the suite
KINDS = {
    "do not support": "no support",
    "alone reproduces": "one column",
    "largest gap": "missed group",
    "very few rows": "small cluster",
    "like an index": "index",
}


def ordinary(seed: int) -> Iterator[tuple[str, np.ndarray, int]]:
    """Yield name, rows and number of clusters of data on which no warning is expected."""
    for name, data, c in (("iris", load_iris(), 3), ("wine", load_wine(), 3), ("digits", load_digits(), 10)):
        yield name, data.data, c
    yield "breast cancer", load_breast_cancer().data, 2
    yield "diabetes", load_diabetes().data, 3
    for c in (2, 3, 5, 8):
        yield f"{c} blobs", make_blobs(400, 3, centers=c, random_state=seed)[0], c
    yield "moons", make_moons(400, noise=0.1, random_state=seed)[0], 2
    yield "rings", make_circles(400, noise=0.05, factor=0.4, random_state=seed)[0], 2


def doubtful(seed: int) -> Iterator[tuple[str, np.ndarray, int]]:
    """Yield data on which a warning is expected."""
    rng = np.random.default_rng(seed)
    for n_columns in (2, 5, 10):
        yield f"one cloud, {n_columns} columns", rng.normal(size=(500, n_columns)), 3
    for n_columns in (2, 5, 10):
        far = rng.normal(size=(10_010, n_columns))
        far[:10] += 8 / np.sqrt(n_columns)
        yield f"10 rows, 8 deviations away, {n_columns} columns", far, 2
    yield (
        "two groups in one of 4 columns",
        np.c_[rng.normal(size=(400, 3)), rng.integers(0, 2, 400) * 8 + rng.normal(size=400)],
        2,
    )
    yield "blobs and an index", np.c_[make_blobs(300, 3, centers=3, random_state=seed)[0], np.arange(300)], 3
    yield (
        "blobs and a shuffled index",
        np.c_[make_blobs(300, 3, centers=3, random_state=seed)[0], rng.permutation(300)],
        3,
    )


def suite(seed: int) -> Iterator[tuple[str, np.ndarray, int]]:
    """Yield the data of the suite, with the number of groups of its first reference."""
    for path in sorted(BATTERY.glob("*/*.data.gz")):
        with gzip.open(str(path).replace(".data", ".labels0"), "rt") as file:
            n_clusters = int(np.loadtxt(file).max())
        with gzip.open(path, "rt") as file:
            X = np.loadtxt(file, ndmin=2)
        yield (
            path.name.removesuffix(".data.gz"),
            X[np.random.default_rng(seed).permutation(len(X))[:MAX_ROWS]],
            n_clusters,
        )


def warnings_of(X: np.ndarray, n_clusters: int, seed: int) -> list[str]:
    """Return the kinds of warnings of a fit."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        KNet(n_clusters, random_state=seed).fit(X)
    texts = [str(entry.message) for entry in caught if issubclass(entry.category, KNetDataWarning)]
    return [kind for words, kind in KINDS.items() if any(words in text for text in texts)]


def main() -> None:
    """Print the warnings by seed."""
    parser = argparse.ArgumentParser(description="Warnings on ordinary and on doubtful data.")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    for title, cases in (("ordinary data", ordinary), ("doubtful data", doubtful), ("the suite", suite)):
        found: dict[str, list[str]] = {}
        for seed in range(options.seeds if cases is not suite else 1):
            for name, X, n_clusters in cases(seed):
                found.setdefault(name, []).append(", ".join(warnings_of(X, n_clusters, seed)) or "-")
        print(
            f"{title}: {sum(kinds != '-' for by_seed in found.values() for kinds in by_seed)} of "
            f"{sum(map(len, found.values()))} fits warn"
        )
        for name, by_seed in found.items():
            if any(kinds != "-" for kinds in by_seed):
                print(f"  {name:40} {' | '.join(by_seed)}", flush=True)


if __name__ == "__main__":
    main()
