"""Five groups that are not convex, in ten dimensions and any number of rows, for benchmarks of speed and quality."""

import numpy as np

from knet.datasets import make_spirals

N_FEATURES = 10


def lifted_spirals(n_rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return five spiral arms in a random plane."""
    rng = np.random.default_rng(seed)
    flat, y = make_spirals(n_rows, 5, noise=0.08, random_state=rng)
    return lifted(flat, rng, 0.03), y


def lifted_rings(n_rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return a chain of five rings, each through the next."""
    rng = np.random.default_rng(seed)
    y, turn = rng.integers(0, 5, n_rows), rng.uniform(0, 2 * np.pi, n_rows)
    even = y % 2 == 0
    flat = np.column_stack([1.4 * y + np.cos(turn), np.where(even, np.sin(turn), 0), np.where(even, 0, np.sin(turn))])
    return lifted(flat, rng, 0.05), y


def lifted_arcs(n_rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return five half circles, open up and down in turn, that reach into each other."""
    rng = np.random.default_rng(seed)
    y, turn = rng.integers(0, 5, n_rows), rng.uniform(0, np.pi, n_rows)
    flat = np.column_stack([y + np.cos(turn), np.where(y % 2 == 0, np.sin(turn), 0.5 - np.sin(turn))])
    return lifted(flat, rng, 0.03), y


def lifted_moons_and_ring(n_rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return two pairs of interleaved moons and a ring: thin shapes that a thousand rows cannot show."""
    rng = np.random.default_rng(seed)
    y, turn = rng.integers(0, 5, n_rows), rng.uniform(0, np.pi, n_rows)
    upper = np.column_stack([np.cos(turn), np.sin(turn)])
    lower = np.column_stack([1 - np.cos(turn), 0.5 - np.sin(turn)])
    ring = np.column_stack([3 + np.cos(2 * turn), 6 + np.sin(2 * turn)])
    away = np.array([4.0, 1.0])
    flat = np.choose(y[:, None], [upper, lower, upper + away, lower + away, ring])
    flat += 0.08 * rng.standard_normal(flat.shape)
    X = np.column_stack([flat, 0.1 * rng.standard_normal((n_rows, N_FEATURES - 2))])
    return (X @ np.linalg.qr(rng.normal(size=(N_FEATURES, N_FEATURES)))[0]).astype(np.float32), y


def lifted(flat: np.ndarray, rng: np.random.Generator, noise: float) -> np.ndarray:
    """Return rows rotated into a random subspace, with noise in every direction, in float32."""
    axes = np.linalg.qr(rng.normal(size=(N_FEATURES, flat.shape[1])))[0].astype(np.float32)
    X = flat.astype(np.float32) @ axes.T
    X += np.float32(noise) * rng.standard_normal(X.shape, dtype=np.float32)
    return X


SHAPES = {"spirals": lifted_spirals, "rings": lifted_rings, "arcs": lifted_arcs}
