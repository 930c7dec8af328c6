"""Data sets whose groups overlap to different degrees, for `benchmarks.certainty`: name -> rows and groups."""

from collections.abc import Callable
from functools import partial

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine, make_circles, make_moons

from knet.datasets import make_spirals

Data = tuple[np.ndarray, np.ndarray]
Random = np.random.Generator
Maker = Callable[[Random], Data]


def gaussians(rng: Random, sizes: list[int], centers: np.ndarray, spreads: list[float]) -> Data:
    """Return round groups."""
    groups = [
        center + spread * rng.normal(size=(n, len(center)))
        for n, center, spread in zip(sizes, centers, spreads, strict=True)
    ]
    return np.concatenate(groups), np.repeat(np.arange(len(sizes)), sizes)


def triangle(rng: Random, distance: float, sizes: list[int]) -> Data:
    """Return three round groups of spread 1 at the corners of a triangle."""
    turn = 2 * np.pi * np.arange(3) / 3
    corners = distance / np.sqrt(3) * np.column_stack([np.cos(turn), np.sin(turn)])
    return gaussians(rng, sizes, corners, [1.0] * 3)


def pair(rng: Random, n_columns: int, distance: float, spreads: list[float]) -> Data:
    """Return two round groups in several columns."""
    along = np.full(n_columns, distance / 2 / np.sqrt(n_columns))
    return gaussians(rng, [400, 400], np.stack([-along, along]), spreads)


def stretched(rng: Random, gap: float) -> Data:
    """Return three long parallel groups."""
    X = np.concatenate([rng.normal(size=(250, 2)) * [4.0, 0.5] + [0, gap * k] for k in range(3)])
    turn = np.array([[0.8, -0.6], [0.6, 0.8]])
    return X @ turn, np.repeat(np.arange(3), 250)


def moons(rng: Random, noise: float) -> Data:
    """Return two half circles that reach into each other."""
    return make_moons(800, noise=noise, random_state=int(rng.integers(2**31)))


def circles(rng: Random, noise: float) -> Data:
    """Return a circle in a circle."""
    return make_circles(800, noise=noise, factor=0.4, random_state=int(rng.integers(2**31)))


def many(rng: Random) -> Data:
    """Return twenty groups in four columns, some of which overlap."""
    return gaussians(rng, [60] * 20, 2.2 * rng.normal(size=(20, 4)), [0.7] * 20)


def heavy_tails(rng: Random) -> Data:
    """Return three groups with the tails of Student's t with three degrees of freedom."""
    turn = 2 * np.pi * np.arange(3) / 3
    y = np.repeat(np.arange(3), 250)
    corners = 3 * np.column_stack([np.cos(turn), np.sin(turn)])
    return corners[y] + rng.standard_t(3, size=(len(y), 2)), y


def skewed(rng: Random) -> Data:
    """Return two groups in three positive columns, each the exponential of a Gaussian."""
    X, y = pair(rng, 3, 3.0, [1.0, 1.0])
    return np.exp(X), y


def arcs_in_many_columns(rng: Random) -> Data:
    """Return noisy half circles with six columns of noise."""
    X, y = moons(rng, 0.1)
    return np.column_stack([X, 0.3 * rng.normal(size=(len(X), 6))]), y


def spirals(rng: Random) -> Data:
    """Return three noisy spiral arms."""
    return make_spirals(900, 3, noise=0.3, random_state=rng)


def uniform(rng: Random) -> Data:
    """Return rows without groups; their labels say nothing."""
    return rng.uniform(size=(600, 5)), np.repeat(np.arange(3), 200)


def stored(rng: Random, load: Callable[..., Data]) -> Data:
    """Return a data set of scikit-learn."""
    return load(return_X_y=True)


NO_GROUPS = "uniform noise"  # its labels say nothing, so only its confidence is judged
CASES: dict[str, Maker] = {
    **{f"moons, noise {noise}": partial(moons, noise=noise) for noise in (0.05, 0.15, 0.25)},
    **{f"blobs at {d} spreads": partial(triangle, distance=d, sizes=[250] * 3) for d in (2.0, 3.0, 4.0, 6.0)},
    "blobs of unequal sizes": partial(triangle, distance=3.5, sizes=[600, 150, 50]),
    "narrow and wide": partial(pair, n_columns=2, distance=3.5, spreads=[0.6, 1.8]),
    "pair in 10 columns": partial(pair, n_columns=10, distance=3.0, spreads=[1.0, 1.0]),
    "stretched, clear": partial(stretched, gap=3.0),
    "stretched, touching": partial(stretched, gap=1.8),
    "circles, noise 0.08": partial(circles, noise=0.08),
    "circles, noise 0.16": partial(circles, noise=0.16),
    "spirals": spirals,
    "20 groups": many,
    "heavy tails": heavy_tails,
    "skewed columns": skewed,
    "moons, 8 columns": arcs_in_many_columns,
    "iris": partial(stored, load=load_iris),
    "wine": partial(stored, load=load_wine),
    "cancer": partial(stored, load=load_breast_cancer),
    "digits": partial(stored, load=load_digits),
    NO_GROUPS: uniform,
}


def make(name: str, seed: int) -> Data:
    """Return a data set, its rows in random order."""
    rng = np.random.default_rng([seed, *name.encode()])
    X, y = CASES[name](rng)
    order = rng.permutation(len(X))
    return X[order], y[order]
