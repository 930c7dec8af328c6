"""The scaling of columns inside a model: learned from the rows in blocks, applied to every row before it is encoded."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knet._math.arrays import Floats
from knet.exceptions import KNetDataWarning, warn_user

FAR = 1e12  # scaled values are clipped here: their squares are still finite in single precision
NEAR = 1e-6  # smaller deviations are lost in the rounding of an embedding in single precision
BLOCK_ROWS = 65_536  # rows that are read in double precision at a time


@dataclass(frozen=True)
class Scaling:
    """Each column becomes (x - shift) / scale.

    Attributes
    ----------
    shift, scale : ndarray of shape (d,)
        One value per column.
    """

    shift: Floats
    scale: Floats

    def __call__(self, X: NDArray[Any]) -> Floats:
        """Return the scaled rows in their own precision; X itself is never changed.

        Values beyond `FAR` are clipped, so that every row, even a very strange one, has a finite embedding.
        """
        dtype = float_dtype(X)
        with np.errstate(over="ignore"):
            Z: Floats = np.subtract(X, self.shift.astype(dtype), dtype=dtype)
            Z /= self.scale.astype(dtype)
        return np.clip(Z, -FAR, FAR, out=Z)


def float_dtype(X: NDArray[Any]) -> np.dtype[np.floating]:
    """Return the dtype of computations with X: its own if it is single or double precision, else double."""
    return X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float64)


def learn_scaling(X: NDArray[Any], kind: str) -> Scaling:
    """Return the scaling of the columns of X: mean 0 and standard deviation 1, or none; constant columns keep scale 1.

    Columns are divided by their largest value first, so that sums of squares cannot overflow.
    """
    starts = range(0, len(X), BLOCK_ROWS)
    largest = np.max([np.abs(X[i : i + BLOCK_ROWS]).max(0) for i in starts], axis=0).astype(np.float64)
    unit = np.where(largest > 0, largest, 1.0)
    mean = sum((X[i : i + BLOCK_ROWS] / unit).sum(0) for i in starts) / len(X)
    variance = sum(np.square(X[i : i + BLOCK_ROWS] / unit - mean).sum(0) for i in starts) / len(X)
    deviation = np.sqrt(variance)
    constant = deviation <= 10 * np.finfo(float_dtype(X)).eps
    if kind == "none":
        _check_unscaled(largest, deviation[~constant] * unit[~constant])
        return Scaling(np.zeros(X.shape[1]), np.ones(X.shape[1]))
    return Scaling(mean * unit, np.where(constant, 1.0, deviation * unit))


def _check_unscaled(largest: Floats, deviations: Floats) -> None:
    """Raise or warn if a network cannot work with the columns as they are."""
    if largest.max() > FAR:
        raise ValueError(
            f"With scale='none', columns must stay within {FAR:g}; the largest value is {largest.max():.3g}. "
            "Use scale='standard' or scale the columns first."
        )
    if len(deviations) and deviations.max() < NEAR:
        raise ValueError(
            f"With scale='none', a column must have a standard deviation of at least {NEAR:g}; the largest is "
            f"{deviations.max():.3g}. Use scale='standard' or scale the columns first."
        )
    if len(deviations) and not 1e-3 < np.median(deviations) < 1e3:
        warn_user(
            f"With scale='none' and columns with a standard deviation of {np.median(deviations):.3g}, training can "
            "hardly move the rows. Use scale='standard' or scale the columns first.",
            KNetDataWarning,
        )
