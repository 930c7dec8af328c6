"""How a fit prepares its rows: the scaling of the columns, and the projection of tables with many columns.

The network, the neighbours and the mixtures of the start gain nothing from hundreds of columns: distances in them are
mostly noise, and time and memory grow with their square. Tables with more than `max_columns` columns are therefore
reduced to principal components, learned from a bounded sample of rows.
"""

from typing import Any

import numpy as np

from knet.arrays import Floats
from knet.prepare.preparation import Preparation
from knet.prepare.scaling import Scaling, learn_scaling
from knet.rows.dense import DenseRows, dense_rows, row_lengths
from knet.rows.kinds import is_sparse

SAMPLE_ROWS = 20_000  # maximum of rows that a projection is learned from
SAMPLE_VALUES = 2**25  # maximum of their values, if that leaves `MIN_ROWS` rows
MIN_ROWS = 1000
POWER_STEPS, EXTRA_DIRECTIONS = 4, 16  # of the randomised decomposition


def learn_preparation(
    X: Any, *, scale: str, unit_length: bool, n_clusters: int, max_columns: int | None, rng: np.random.RandomState
) -> Preparation:
    """Return what the model does to rows like those of X; `max_columns=None` never reduces the columns."""
    n_rows, n_columns = X.shape
    if max_columns is None or n_columns <= max_columns:
        return Preparation(learn_scaling(DenseRows(X, unit_length=unit_length), scale), None, unit_length)
    size = min(n_rows, SAMPLE_ROWS, max(MIN_ROWS, SAMPLE_VALUES // n_columns))
    sample = X[np.sort(rng.permutation(n_rows)[:size])]
    n_least = min(max(2, n_clusters - 1), max_columns)
    if is_sparse(sample):
        return _of_sparse(sample, n_least, max_columns, rng, unit_length=unit_length)
    rows = dense_rows(sample, unit_length=unit_length)
    scaling = learn_scaling(rows, scale)
    if scale == "none":  # distances do not depend on the mean, and principal components need it
        scaling = Scaling.linear(rows.mean(0, dtype=np.float64), scaling.scale)
    A = scaling(rows).astype(np.float32)
    directions, variances = principal_directions(A, np.zeros(n_columns), max_columns, rng)
    n_kept = max(n_least, n_structured(variances, float(np.square(A).sum(dtype=np.float64)) / size, A.shape))
    return Preparation(scaling, np.ascontiguousarray(directions[:, :n_kept]), unit_length)


def _of_sparse(
    sample: Any, n_least: int, max_columns: int, rng: np.random.RandomState, *, unit_length: bool
) -> Preparation:
    """Return the preparation of sparse rows: columns share a unit, so all are divided by the same number.

    A standard deviation of 1 would give a word that occurs twice the weight of hundreds of frequent ones. The mean is
    subtracted from the projected rows, where it costs nothing.
    """
    A = sample.multiply(1 / row_lengths(sample)[:, None]).tocsr() if unit_length else sample
    mean = np.asarray(A.mean(0), dtype=np.float64).ravel()
    total = float(A.multiply(A).sum()) / A.shape[0] - float(mean @ mean)
    directions, variances = principal_directions(A, mean, max_columns, rng)
    n_kept = max(n_least, n_structured(variances, total, A.shape))
    unit = np.sqrt(variances[:n_kept].mean()) or 1.0
    projection = np.ascontiguousarray(directions[:, :n_kept])
    return Preparation(Scaling.linear(mean, np.full(len(mean), unit)), projection, unit_length)


def n_structured(variances: Floats, total: float, shape: tuple[int, int]) -> int:
    """Return how many leading components vary more than noise alone would let them.

    The variances of the components of pure noise lie below s (1 + sqrt(d / n))^2, with the mean variance s of its
    columns (Marchenko, Pastur). Components below that bound say nothing about the rows.
    """
    (n_rows, n_columns), found, before = shape, 0, -1
    while found > before:  # what is structure is taken out of the mean of the noise
        rest = max(total - float(variances[:found].sum()), 0.0) / (n_columns - found)
        before, found = found, int((variances > rest * (1 + np.sqrt(n_columns / n_rows)) ** 2).sum())
    return found


def principal_directions(A: Any, mean: Floats, n_directions: int, rng: np.random.RandomState) -> tuple[Floats, Floats]:
    """Return the leading principal directions of the rows A, (d, k), and the variances along them.

    Randomised (Halko, Martinsson, Tropp): power steps on a random block, so that A is only multiplied. Its mean is
    subtracted from the products, so that a sparse A stays sparse.
    """
    n_rows, n_columns = A.shape
    mean = mean.astype(A.dtype)
    width = min(n_directions + EXTRA_DIRECTIONS, n_rows, n_columns)
    V = rng.standard_normal((n_columns, width)).astype(A.dtype)
    for _ in range(POWER_STEPS):
        Q = np.linalg.qr(A @ V - mean @ V)[0]
        V = np.linalg.qr(A.T @ Q - np.outer(mean, Q.sum(0)))[0]
    Q, R = np.linalg.qr(A @ V - mean @ V)
    _, lengths, turns = np.linalg.svd(R)
    directions = (V @ turns.T)[:, :n_directions].astype(np.float64)
    largest = np.take_along_axis(directions, np.abs(directions).argmax(0)[None], axis=0)
    signed: Floats = directions * np.where(largest < 0, -1.0, 1.0)  # fixed signs: the same map on every machine
    return signed, np.square(lengths[:n_directions].astype(np.float64)) / n_rows
