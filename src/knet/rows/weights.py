"""Which rows a fit trains on: a row of weight w as w equal rows would be, and a row without any value not at all."""

from collections.abc import Collection

import numpy as np
from numpy.typing import ArrayLike, NDArray

from knet.arrays import Floats, Rows, row_blocks
from knet.rows.kinds import is_sparse, quoted, some

MAX_REPEATED = 1_000_000  # rows up to which whole weights repeat rows, or twice the given rows if that is more


def rows_that_count(
    X: Rows, names: Collection[str] | None, sample_weight: ArrayLike | None, rng: np.random.RandomState
) -> NDArray[np.intp] | None:
    """Return the positions of the rows to train on, as `counted_rows` does, without rows that hold no value.

    None stands for all rows. A column without values is an error.
    """
    counted = None if sample_weight is None else counted_rows(sample_weight, X.shape[0], rng)
    if is_sparse(X):
        return counted
    blocks = [np.isnan(X[rows]) for rows in row_blocks(*X.shape)]
    if empty := [quoted(names, int(j)) for j in np.flatnonzero(np.all([block.all(0) for block in blocks], axis=0))]:
        raise ValueError(f"Every value is missing in column{'s' * (len(empty) > 1)} {some(empty)}. Drop it first.")
    has_values = ~np.concatenate([block.all(1) for block in blocks])
    if has_values.all():
        return counted
    kept = np.flatnonzero(has_values) if counted is None else counted[has_values[counted]]
    if len(kept) < 2:
        raise ValueError(f"X has {len(kept)} row(s) with a value, and a fit needs at least 2.")
    return kept


def counted_rows(sample_weight: ArrayLike, n_rows: int, rng: np.random.RandomState) -> NDArray[np.intp]:
    """Return the positions of the rows to train on, in ascending order, each as often as it counts.

    Whole weights repeat rows exactly. If a weight is not whole, or there would be very many rows, as many rows are
    drawn as have a weight: each in proportion to its weight, rounded up or down (systematic resampling).
    """
    weights = _check_weights(sample_weight, n_rows)
    largest, limit = weights.max(), max(MAX_REPEATED, 2 * n_rows)
    repeat = largest <= limit and weights.sum() <= limit and bool((weights == np.floor(weights)).all())
    counts = weights.astype(np.intp) if repeat else _resampled(weights / largest, rng)
    if counts.sum() < 2:
        raise ValueError(f"The weights in sample_weight count {counts.sum()} rows, and a fit needs at least 2.")
    return np.repeat(np.arange(n_rows), counts)


def _resampled(weights: Floats, rng: np.random.RandomState) -> NDArray[np.intp]:
    """Return how often each row is drawn: on average its share of the draws, and never a whole draw more or less."""
    n_draws, sums = np.count_nonzero(weights), np.cumsum(weights)
    ends = np.floor(n_draws * (sums / sums[-1]) + rng.uniform())
    counts: NDArray[np.intp] = np.diff(ends, prepend=0).astype(np.intp)
    return counts


def _check_weights(sample_weight: ArrayLike, n_rows: int) -> Floats:
    """Return the weights as an array, or raise an error that says what is wrong with them."""
    given = np.asanyarray(sample_weight)
    if given.dtype.kind == "c" or np.ma.is_masked(given):
        raise ValueError("sample_weight must hold real numbers. Complex and masked values are not allowed.")
    weights: Floats = given.astype(np.float64)
    if weights.shape != (n_rows,):
        raise ValueError(f"sample_weight must have one weight per row, shape ({n_rows},). Got shape {weights.shape}.")
    for wrong, what in ((~np.isfinite(weights), "NaN or infinite"), (weights < 0, "negative")):
        if wrong.any():
            raise ValueError(
                f"sample_weight must hold finite numbers from 0 on. {wrong.sum()} of them "
                f"{'is' if wrong.sum() == 1 else 'are'} {what}, the first in row {np.flatnonzero(wrong)[0]}."
            )
    if not weights.any():
        raise ValueError("All weights in sample_weight are zero. Give a positive weight to the rows to train on.")
    return weights
