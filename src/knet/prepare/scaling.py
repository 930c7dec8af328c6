"""The scaling of columns inside a model: learned from the rows in blocks, applied to every row before it is encoded."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knet.arrays import Floats, row_blocks
from knet.exceptions import KNetDataWarning, warn_user
from knet.rows.numbers import float_dtype

FAR = 1e12  # scaled values are clipped here: their squares are still finite in single precision
NEAR = 1e-6  # smaller deviations are lost in the rounding of an embedding in single precision
BLOCK_ROWS = 65_536  # rows that are read in double precision at a time
TAIL_ROWS = 20_000  # rows in the sample that decides which columns have heavy tails
HEAVY_TAIL = 2.0  # absolute skewness above which a column is compressed; that of an exponential distribution


@dataclass(frozen=True, eq=False)
class Scaling:
    """Columns with heavy tails are compressed to asinh((x - center) / width); then each becomes (x - shift) / scale.

    Attributes
    ----------
    shift, scale : ndarray of shape (d,)
        One value per column.
    tail_center, tail_width : ndarray of shape (d,)
        The compression of each column; a width of 0 stands for none.
    """

    shift: Floats
    scale: Floats
    tail_center: Floats
    tail_width: Floats

    @classmethod
    def linear(cls, shift: Floats, scale: Floats) -> "Scaling":
        """Return a scaling without compressed columns."""
        return cls(shift, scale, np.zeros(len(shift)), np.zeros(len(shift)))

    @property
    def compressed(self) -> NDArray[np.intp]:
        """Positions of the compressed columns."""
        return np.flatnonzero(self.tail_width)

    def arrays(self) -> dict[str, Floats]:
        """Return the arrays by name, as a model file stores them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __call__(self, X: NDArray[Any]) -> Floats:
        """Return the scaled rows in their own precision; X itself is never changed.

        Values beyond `FAR` are clipped, so that every row, even a very strange one, has a finite embedding.
        """
        dtype = float_dtype(X) if self._fits_single else np.dtype(np.float64)
        with np.errstate(over="ignore"):
            Z: Floats = np.subtract(self._compress(X, dtype), self.shift.astype(dtype), dtype=dtype)
            Z /= self.scale.astype(dtype)
        return np.clip(Z, -FAR, FAR, out=Z).astype(float_dtype(X), copy=False)

    def inverse(self, Z: Floats) -> Floats:
        """Return the rows whose scaled form is Z."""
        X: Floats = Z * self.scale + self.shift
        columns = self.compressed
        X[:, columns] = np.sinh(X[:, columns]) * self.tail_width[columns] + self.tail_center[columns]
        return X

    @property
    def _fits_single(self) -> bool:
        """Whether single precision can store the scaling: no scale becomes infinite or 0, which would give NaN."""
        with np.errstate(over="ignore"):
            stored = [array.astype(np.float32) for array in self.arrays().values()]
        widths = np.r_[stored[1], stored[3][self.compressed]]
        return bool(np.isfinite(stored).all() and widths.min() > 0)

    def _compress(self, X: NDArray[Any], dtype: np.dtype[np.floating]) -> NDArray[Any]:
        """Return X with its heavy-tailed columns compressed."""
        columns = self.compressed
        if not len(columns):
            return X
        out = X.astype(dtype)
        out[:, columns] = compress(out[:, columns], self.tail_center[columns], self.tail_width[columns])
        return out


def compress(X: Floats, center: Floats, width: Floats) -> Floats:
    """Return asinh((x - center) / width): linear near the center, logarithmic far from it."""
    compressed: Floats = np.arcsinh((X - center.astype(X.dtype)) / width.astype(X.dtype))
    return compressed


def learn_scaling(X: Any, kind: str) -> Scaling:
    """Return the scaling of the columns of X.

    "none" leaves them as they are; "standard" gives mean 0 and standard deviation 1; "auto" does so after it has
    compressed columns with heavy tails. Constant columns keep scale 1. X is an array, or an object that returns some of
    its rows as an array (`knet.rows.dense.DenseRows`).
    """
    largest = np.max([np.abs(X[rows]).max(0) for rows in _blocks(X)], axis=0).astype(np.float64)
    unit = np.where(largest > 0, largest, 1.0)  # so that sums of squares cannot overflow
    if kind == "none":
        mean, deviation = _moments(X, unit)
        _check_unscaled(largest, deviation[_varies(deviation, X)] * unit[_varies(deviation, X)])
        return Scaling.linear(np.zeros(X.shape[1]), np.ones(X.shape[1]))
    tails = _heavy_tails(X, unit) if kind == "auto" else Scaling.linear(np.zeros(X.shape[1]), np.ones(X.shape[1]))
    unit = np.where(tails.tail_width > 0, 1.0, unit)
    mean, deviation = _moments(X, unit, tails)
    scale = np.where(_varies(deviation, X), deviation * unit, 1.0)
    return Scaling(mean * unit, scale, tails.tail_center, tails.tail_width)


def _blocks(X: Any) -> list[slice]:
    return row_blocks(len(X), X.shape[1], max_rows=BLOCK_ROWS)


def _varies(deviation: Floats, X: Any) -> NDArray[np.bool_]:
    """Say for each column whether its values differ by more than rounding."""
    differ: NDArray[np.bool_] = deviation > 10 * np.finfo(float_dtype(X)).eps
    return differ


def _moments(X: Any, unit: Floats, tails: Scaling | None = None) -> tuple[Floats, Floats]:
    """Return the mean and standard deviation of each column, after compression and divided by `unit`."""

    def read(rows: slice) -> NDArray[Any]:
        return (X[rows] if tails is None else tails._compress(X[rows], np.dtype(np.float64))) / unit

    mean = sum(read(rows).sum(0) for rows in _blocks(X)) / len(X)
    variance = sum(np.square(read(rows) - mean).sum(0) for rows in _blocks(X)) / len(X)
    return mean, np.sqrt(variance)


def _heavy_tails(X: Any, unit: Floats) -> Scaling:
    """Return the compression of columns whose skewness is above `HEAVY_TAIL`, learned from a bounded sample of rows.

    The width is the upper quartile of |x - median|. If more than three quarters of the rows share one value, the
    smallest difference from it is taken instead: the column tells whether a row has that value and, on a logarithmic
    scale, how far away it is.
    """
    rows = np.linspace(0, len(X) - 1, min(len(X), TAIL_ROWS)).astype(np.intp)
    sample = X[rows] / unit
    centered = sample - sample.mean(0)
    deviation = np.sqrt(np.square(centered).mean(0))
    varies = _varies(deviation, X)
    skewness = (np.square(centered) * centered).mean(0) / np.where(varies, deviation, 1.0) ** 3
    center, width = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for j in np.flatnonzero(varies & (np.abs(skewness) > HEAVY_TAIL)):
        center[j] = np.median(sample[:, j])
        distances = np.abs(sample[:, j] - center[j])
        width[j] = np.quantile(distances, 0.75) or distances[distances > 0].min()
    return Scaling(np.zeros(X.shape[1]), np.ones(X.shape[1]), center * unit, width * unit)


def _check_unscaled(largest: Floats, deviations: Floats) -> None:
    """Raise or warn if a network cannot work with the columns as they are."""
    if largest.max() > FAR:
        raise ValueError(
            f"With scale='none', columns must stay within {FAR:g}; the largest value is {largest.max():.3g}. "
            "Use scale='auto' or scale the columns first."
        )
    if len(deviations) and deviations.max() < NEAR:
        raise ValueError(
            f"With scale='none', a column must have a standard deviation of at least {NEAR:g}; the largest is "
            f"{deviations.max():.3g}. Use scale='auto' or scale the columns first."
        )
    if len(deviations) and not 1e-3 < np.median(deviations) < 1e3:
        warn_user(
            f"With scale='none' and columns with a standard deviation of {np.median(deviations):.3g}, training can "
            "hardly move the rows. Use scale='auto' or scale the columns first.",
            KNetDataWarning,
        )
