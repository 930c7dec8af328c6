"""Weights of rows: a row of weight w is trained on as w equal rows would be."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from knet.arrays import Floats

MAX_REPEATED = 1_000_000  # rows up to which whole weights repeat rows, or twice the given rows if that is more


def counted_rows(sample_weight: Any, n_rows: int, rng: np.random.RandomState) -> NDArray[np.intp]:
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


def _check_weights(sample_weight: Any, n_rows: int) -> Floats:
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
