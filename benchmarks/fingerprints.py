"""Hashes of the labels of eleven fits: `python -m benchmarks.fingerprints`.

Run it before and after a change that must not alter results (`PYTHONPATH=OTHER_CHECKOUT/src` selects the code): equal
hashes mean bit-identical labels or embeddings. Only names that do not change are used: generators, presets, defaults.
"""

import hashlib
import sys
import warnings
from collections.abc import Iterator

import numpy as np
from sklearn.datasets import load_iris, load_wine, make_blobs, make_circles, make_moons

from knet import KNet
from knet.datasets import make_moon, make_spirals
from knet.presets import paper

Case = tuple[str, np.ndarray, KNet]


def cases() -> Iterator[Case]:
    """Yield name, rows and estimator of each fit."""
    wine, spirals = load_wine().data, make_spirals(600, random_state=0)[0]
    yield "iris", load_iris().data, KNet(3, random_state=0)
    yield "wine", wine, KNet(3, random_state=1)
    yield "wine, float32", wine.astype(np.float32), KNet(3, random_state=0)
    yield "wine, the paper's settings", wine, KNet(3, random_state=0, **paper("wine"))
    yield "wine, SMA", wine, KNet(3, u_update="sma", random_state=0, **paper("wine"))
    yield "moon", make_moon(300, random_state=0)[0], KNet(2, random_state=0)
    yield "spirals", spirals, KNet(3, random_state=0)
    yield "spirals, a third of the rows", spirals, KNet(3, train_size=200, random_state=0)
    yield "circles", make_circles(400, factor=0.5, noise=0.05, random_state=0)[0], KNet(2, random_state=0)
    yield "12 blobs", make_blobs(800, centers=12, n_features=5, random_state=0)[0], KNet(12, random_state=0)
    yield "moons, three restarts", make_moons(300, noise=0.2, random_state=0)[0], KNet(2, n_init=3, random_state=0)


def fingerprint(values: np.ndarray) -> str:
    """Return a short hash of an array."""
    return hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()[:16]


def main() -> int:
    """Print one line per fit; return the exit code."""
    warnings.simplefilter("ignore")
    print(f"{'fit':30} {'labels':16} embedding")
    for name, X, model in cases():
        labels = model.fit_predict(X).astype(np.int64)
        print(f"{name:30} {fingerprint(labels)} {fingerprint(model.transform(X))}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
