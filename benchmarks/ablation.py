"""The effect of each default: the default, and variants of one parameter: `python -m benchmarks.ablation`.

The data need no files: generated shapes, and tables that scikit-learn includes. Each fit sees three quarters of the
rows. The output is the mean ARI of each variant over data sets and seeds, on the training rows of the shapes and of the
tables, and on the new rows of both, and its fitting time relative to the default.
"""

import argparse
import time
import warnings
from contextlib import AbstractContextManager, nullcontext
from multiprocessing import get_context
from typing import Any
from unittest.mock import patch

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_blobs, make_circles, make_moons
from threadpoolctl import threadpool_limits

from knet import Advanced, KNet
from knet.datasets import make_spirals
from knet.metrics import ari
from knet.train import follow
from knet.train.training import Run

VARIANTS: dict[str, dict[str, Any]] = {
    "default": {},
    "scale=standard": {"scale": "standard"},
    "n_components=None": {"n_components": None},
    "hidden (32, 32)": {"hidden_layer_sizes": (32, 32)},
    "hidden (256, 256)": {"hidden_layer_sizes": (256, 256)},
    "hidden (128,)": {"hidden_layer_sizes": (128,)},
    "max_iter=1": {"max_iter": 1},
    "no Algorithm 1": {},
    "exact targets": {},
    "averaged targets": {},
    "u_update=sma": {"u_update": "sma"},
    "u_columns=c": {"advanced": Advanced(u_columns="c")},
    "steps_per_iter=200": {"advanced": Advanced(steps_per_iter=200)},
    "lambda balanced": {"advanced": Advanced(reconstruction_weight="balanced")},
    "sigma=median": {"sigma": "median"},
}


def patched(variant: str) -> AbstractContextManager[object]:
    """Return the change of the code that a variant needs, if no parameter makes it."""
    if variant == "no Algorithm 1":  # the state after following the start is kept
        return patch.object(Run, "iterations", lambda *arguments: iter(()))
    if variant == "exact targets":
        return patch.object(follow, "preferred", lambda attempts: attempts[-1])
    return (
        patch.object(follow, "preferred", lambda attempts: attempts[0])
        if variant == "averaged targets"
        else nullcontext()
    )


SHAPES = ("moons", "rings", "enclosed", "spirals", "blobs", "unequal blobs")


def load(name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and classes of a data set."""
    tables = {"wine": load_wine, "iris": load_iris, "breast cancer": load_breast_cancer}
    if name in tables:
        return tables[name](return_X_y=True)
    if name == "digits":
        X, y = load_digits(return_X_y=True)
        return X[:600], y[:600]
    shapes = {
        "moons": lambda: make_moons(500, noise=0.08, random_state=0),
        "rings": lambda: make_circles(500, noise=0.05, factor=0.4, random_state=0),
        "enclosed": enclosed,
        "spirals": lambda: make_spirals(600, random_state=0),
        "blobs": lambda: make_blobs(500, centers=6, cluster_std=0.8, random_state=3),
        "unequal blobs": lambda: make_blobs([300, 150, 50], cluster_std=[1.5, 0.7, 0.4], random_state=8),
    }
    return shapes[name]()


def enclosed() -> tuple[np.ndarray, np.ndarray]:
    """Return a square frame around four squares."""
    rng = np.random.default_rng(0)
    along, side = rng.uniform(-1, 1, 600), rng.integers(0, 4, 600)
    straight = np.column_stack([along, np.where(side % 2 == 0, 1.0, -1.0)]) + rng.normal(0, 0.03, (600, 2))
    frame = np.where((side < 2)[:, None], straight, straight[:, ::-1])
    corners = np.repeat([(-0.4, -0.4), (-0.4, 0.4), (0.4, -0.4), (0.4, 0.4)], 150, axis=0)
    squares = corners + rng.uniform(-0.25, 0.25, (600, 2))
    return np.vstack([frame, squares]), np.repeat([0, 1, 2, 3, 4], [600, 150, 150, 150, 150])


DATA = (*SHAPES, "wine", "iris", "breast cancer", "digits")


def run(job: tuple[str, str, int]) -> dict[str, Any]:
    """Return the ARI on training rows and on new rows, and the CPU seconds of one fit."""
    variant, name, seed = job
    X, y = load(name)
    order = np.random.default_rng(seed).permutation(len(X))
    train, new = order[: 3 * len(X) // 4], order[3 * len(X) // 4 :]
    with threadpool_limits(1), warnings.catch_warnings(action="ignore"), patched(variant):
        started = time.process_time()
        model = KNet(len(set(y)), random_state=seed, **VARIANTS[variant]).fit(X[train])
        seconds = time.process_time() - started
        scores = {"training": ari(y[train], model.labels_), "new": ari(y[new], model.predict(X[new]))}
    return {"variant": variant, "name": name, "seconds": seconds, **scores}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="The effect of each default.")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    jobs = [(variant, name, seed) for seed in range(options.seeds) for name in DATA for variant in VARIANTS]
    with get_context("spawn").Pool(options.jobs) as pool:
        runs = pool.map(run, jobs, chunksize=1)
    usual = [row for row in runs if row["variant"] == "default"]
    print(f"{'variant':20} {'shapes':>7} {'tables':>7} {'new':>7} {'time':>6}   largest loss")
    for variant in VARIANTS:
        own = [row for row in runs if row["variant"] == variant]
        shapes = np.mean([row["training"] for row in own if row["name"] in SHAPES])
        tables = np.mean([row["training"] for row in own if row["name"] not in SHAPES])
        cost = sum(row["seconds"] for row in own) / sum(row["seconds"] for row in usual)
        print(
            f"{variant:20} {shapes:7.3f} {tables:7.3f} {np.mean([row['new'] for row in own]):7.3f} {cost:5.1f}x   "
            + ("" if variant == "default" else largest_loss(own, usual))
        )


def largest_loss(own: list[dict[str, Any]], usual: list[dict[str, Any]]) -> str:
    """Return the data set, and the kind of rows, on which a variant loses most, in words."""
    change = {
        f"{name}, {kind} rows": float(
            np.mean([row[kind] for row in own if row["name"] == name])
            - np.mean([row[kind] for row in usual if row["name"] == name])
        )
        for name in DATA
        for kind in ("training", "new")
    }
    worst = min(change, key=change.__getitem__)
    return f"{worst} {change[worst]:+.3f}" if change[worst] < -5e-4 else "none"


if __name__ == "__main__":
    main()
