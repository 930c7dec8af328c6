"""The advice of `knet.scan` on data with and without clusters: `python -m benchmarks.scan_advice [--seeds 3]`."""

import argparse
from collections.abc import Iterator

import numpy as np
from sklearn.datasets import load_iris, load_wine, make_blobs, make_circles

from knet import scan
from knet.datasets import make_moon, make_spirals


def cases() -> Iterator[tuple[str, str, np.ndarray]]:
    """Yield name, true number of clusters and rows."""
    rng = np.random.RandomState(0)
    angle = rng.uniform(0, np.pi, 800)
    yield "two moons", "2", make_moon(1000, random_state=0)[0]
    yield "three spirals", "3", make_spirals(1500, random_state=0)[0]
    yield "two rings", "2", make_circles(800, noise=0.05, factor=0.4, random_state=0)[0]
    yield "five blobs, some touch", "5", make_blobs(800, centers=5, cluster_std=0.8, random_state=2)[0]
    yield "nine blobs, two touch", "9", make_blobs(1000, centers=9, cluster_std=0.5, random_state=4)[0]
    yield "wine", "3", load_wine().data
    yield "iris", "3", load_iris().data
    yield "normal, 3 columns", "none", rng.normal(size=(800, 3))
    yield "normal, correlated", "none", rng.normal(size=(500, 6)) @ rng.normal(size=(6, 6))
    yield "student t", "none", rng.standard_t(3, size=(700, 4))
    yield "poisson", "none", rng.poisson(3, size=(600, 6)).astype(float)
    yield "exponential", "none", rng.exponential(size=(700, 3))
    yield "half a noisy ring", "none", np.c_[np.cos(angle), np.sin(angle)] + rng.normal(0, 0.05, (800, 2))


def main() -> None:
    """Print the advice for every case and seed."""
    parser = argparse.ArgumentParser(description="Advice on the number of clusters of data for which it is known.")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    print(f"{'data':24} {'true':>5}  advice by seed (supported)")
    for name, true, X in cases():
        found = [scan(X, random_state=seed, n_jobs=2) for seed in range(options.seeds)]
        print(f"{name:24} {true:>5}  " + "  ".join(f"{result.best} {result.supported}" for result in found), flush=True)


if __name__ == "__main__":
    main()
