"""The scale of each column, learned from the rows in blocks."""

import numpy as np

from knet.exceptions import KNetDataWarning, warn_user
from knet.predictor import FAR, Floats, float_dtype

MOMENT_ROWS = 65_536  # rows in double precision at a time


def column_scale(X: Floats, scale: str) -> tuple[Floats, Floats]:
    """Return the shift and scale of each column, in blocks and safe from overflow; constant columns keep scale 1."""
    starts = range(0, len(X), MOMENT_ROWS)
    largest = np.max([np.abs(X[i : i + MOMENT_ROWS]).max(0) for i in starts], axis=0).astype(np.float64)
    unit = np.where(largest > 0, largest, 1.0)
    mean = sum((X[i : i + MOMENT_ROWS] / unit).sum(0) for i in starts) / len(X)
    variance = sum(np.square(X[i : i + MOMENT_ROWS] / unit - mean).sum(0) for i in starts) / len(X)
    deviation = np.sqrt(variance)
    constant = deviation <= 10 * np.finfo(float_dtype(X)).eps
    if scale == "none":
        _check_unscaled(largest, deviation[~constant] * unit[~constant])
        return np.zeros(X.shape[1]), np.ones(X.shape[1])
    return mean * unit, np.where(constant, 1.0, deviation * unit)


def _check_unscaled(largest: Floats, deviations: Floats) -> None:
    """Refuse or warn of columns that a network cannot work with as they are."""
    if largest.max() > FAR:
        raise ValueError(
            f"With scale='none', columns must stay within {FAR:g}; the largest value is {largest.max():.3g}. "
            "Use scale='standard' or scale the columns first."
        )
    if len(deviations) and not 1e-3 < np.median(deviations) < 1e3:
        warn_user(
            f"With scale='none' and columns that vary by {np.median(deviations):.3g}, training can hardly move the "
            "rows. Use scale='standard' or scale the columns first.",
            KNetDataWarning,
        )
