"""How a fit prepares its rows: the scaling of the columns, and the projection of tables with many columns.

The network, the neighbours and the mixtures of the start gain nothing from hundreds of columns: distances in them are
mostly noise, and time and memory grow with their square. Tables with more than `max_columns` columns are therefore
reduced to principal components, learned from a bounded sample of rows.
"""

from collections.abc import Sequence

import numpy as np
from scipy.linalg import eigh

from knet.arrays import Floats, Rows
from knet.prepare.gaps import learn_gaps
from knet.prepare.preparation import Preparation
from knet.prepare.scaling import Scaling, learn_scaling
from knet.rows.dense import DenseRows, dense_rows, row_lengths
from knet.rows.kinds import is_sparse

SAMPLE_ROWS = 20_000  # a projection is learned from at most this many rows
SAMPLE_VALUES = 2**25  # and from at most this many values, if that leaves `MIN_ROWS` rows
MIN_ROWS = 1000
EXACT_COLUMNS = (
    500  # up to this many columns, eigenvectors of the covariance matrix are faster than a randomised method
)
POWER_STEPS, EXTRA_DIRECTIONS = 4, 16  # steps of the randomised method, and columns of its block in addition


def learn_preparation(
    X: Rows,
    *,
    scale: str,
    unit_length: bool,
    n_clusters: int,
    max_columns: int | None,
    rng: np.random.RandomState,
    weights: Sequence[float] | None = None,
) -> Preparation:
    """Return what the model does to rows like those of X; `max_columns=None` never reduces the columns.

    A column of weight w counts as w columns.
    """
    n_rows, n_columns = X.shape
    if weights is not None and len(weights) != n_columns:
        raise ValueError(
            f"'column_weights' must hold one number for each of the {n_columns} columns. Got {len(weights)}."
        )
    if max_columns is None or n_columns <= max_columns:
        scaling = learn_scaling(DenseRows(X, unit_length=unit_length), scale).weighted(weights)
        can_have_gaps = not unit_length and not is_sparse(X)
        return Preparation(scaling, None, unit_length, learn_gaps(X, scaling) if can_have_gaps else None)
    size = min(n_rows, SAMPLE_ROWS, max(MIN_ROWS, SAMPLE_VALUES // n_columns))
    sample = X[np.sort(rng.permutation(n_rows)[:size])]
    n_least = min(max(2, n_clusters - 1), max_columns)
    if is_sparse(sample):
        if weights is not None:
            raise ValueError(f"'column_weights' are not allowed for sparse rows of more than {max_columns} columns.")
        return _of_sparse(sample, n_least, max_columns, rng, unit_length=unit_length)
    rows = dense_rows(sample, unit_length=unit_length)
    scaling = learn_scaling(rows, scale)
    if scale == "none":  # distances do not depend on the mean, and principal components need it
        scaling = Scaling.linear(np.nanmean(rows, axis=0, dtype=np.float64), scaling.scale)
    scaling = scaling.weighted(weights)
    gaps = None if unit_length else learn_gaps(X, scaling)
    A = (scaling(rows) if gaps is None else gaps.fill(scaling(rows))).astype(np.float32)
    directions, variances = principal_directions(A, np.zeros(n_columns), max_columns, rng)
    n_kept = max(n_least, n_structured(variances, float(np.square(A).sum(dtype=np.float64)) / size, A.shape))
    return Preparation(scaling, np.ascontiguousarray(directions[:, :n_kept]), unit_length, gaps)


def _of_sparse(
    sample: Rows, n_least: int, max_columns: int, rng: np.random.RandomState, *, unit_length: bool
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


def principal_directions(A: Rows, mean: Floats, n_directions: int, rng: np.random.RandomState) -> tuple[Floats, Floats]:
    """Return the leading principal directions of the rows A, (d, k), and the variances along them.

    They are the eigenvectors of the covariance matrix; for very many columns, a randomised method finds them. Signs are
    fixed, so that the map is the same on every machine.

    Parameters
    ----------
    A : array or sparse matrix of shape (n, d)
        The rows.
    mean : ndarray of shape (d,)
        Their mean. It is subtracted from products, so that a sparse A stays sparse.
    n_directions : int
        The number of directions k; fewer are returned if there are fewer columns, or very many and fewer rows.
    rng : RandomState
        Source of the randomised method.
    """
    mean = mean.astype(A.dtype)
    find = _exact_directions if A.shape[1] <= EXACT_COLUMNS else _randomised_directions
    directions, variances = find(A, mean, min(n_directions, A.shape[1]), rng)
    directions = directions.astype(np.float64)
    largest = np.take_along_axis(directions, np.abs(directions).argmax(0)[None], axis=0)
    return directions * np.where(largest < 0, -1.0, 1.0), variances.astype(np.float64)


def _exact_directions(A: Rows, mean: Floats, n_directions: int, rng: np.random.RandomState) -> tuple[Floats, Floats]:
    """Return directions and variances from the covariance matrix."""
    n_columns = A.shape[1]
    if is_sparse(A):
        covariance = (A.T @ A).toarray() / A.shape[0] - np.outer(mean, mean)
    else:
        centered = A - mean
        covariance = centered.T @ centered / A.shape[0]
    values, vectors = eigh(covariance, subset_by_index=(n_columns - n_directions, n_columns - 1))
    return vectors[:, ::-1], np.maximum(values[::-1], 0)


def _randomised_directions(
    A: Rows, mean: Floats, n_directions: int, rng: np.random.RandomState
) -> tuple[Floats, Floats]:
    """Return them from power steps on a random block (Halko, Martinsson, Tropp), so that A is only multiplied."""
    n_rows, n_columns = A.shape
    V = rng.standard_normal((n_columns, min(n_directions + EXTRA_DIRECTIONS, n_rows, n_columns))).astype(A.dtype)
    for _ in range(POWER_STEPS):
        Q = np.linalg.qr(A @ V - mean @ V)[0]
        V = np.linalg.qr(A.T @ Q - np.outer(mean, Q.sum(0)))[0]
    _, lengths, turns = np.linalg.svd(np.linalg.qr(A @ V - mean @ V)[1])
    return (V @ turns.T)[:, :n_directions], np.square(lengths[:n_directions]) / n_rows
