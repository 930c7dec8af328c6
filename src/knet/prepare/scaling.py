"""The scaling of columns inside a model: learned from the rows in blocks, applied to every row before it is encoded."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knet.arrays import AnyArray, Floats, row_blocks
from knet.exceptions import KNetDataWarning, warn_user
from knet.rows.numbers import float_dtype

FAR = 1e12  # scaled values are clipped here: their squares are still finite in single precision
NEAR = 1e-6  # smaller deviations are lost in the rounding of an embedding in single precision
BLOCK_ROWS = 65_536  # rows that are read in double precision at a time
TAIL_ROWS = 20_000  # rows in the sample that decides which columns have heavy tails
SAME_LOW, SAME_HIGH = 0.95, 0.5  # shares of the columns with the same smallest, and largest, value if they share a unit
UNEQUAL = 2.0  # factor between the deviations of columns from which it matters whether they share a unit
UNCORRELATED = 1e-4  # correlations below it are those of principal components; by chance they are above 1 / sqrt(rows)
HEAVY_TAIL = 2.0  # absolute skewness above which a column is compressed; that of an exponential distribution


RowSource = Any  # an array, or an object that returns some of its rows as an array (`knet.rows.dense.DenseRows`)


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

    def weighted(self, weights: Sequence[float] | None) -> "Scaling":
        """Return the scaling in which squared distances of each column count as often as its weight says."""
        return self if weights is None else replace(self, scale=self.scale / np.sqrt(np.asarray(weights, np.float64)))

    @property
    def kind(self) -> str:
        """What is done to the columns: "none", "common" if all are divided by the same number, else "standard"."""
        if (self.scale != self.scale[0]).any() or len(self.compressed):
            return "standard"
        return "none" if self.scale[0] == 1 else "common"

    @property
    def compressed(self) -> NDArray[np.intp]:
        """Positions of the compressed columns."""
        return np.flatnonzero(self.tail_width)

    def arrays(self) -> dict[str, Floats]:
        """Return the arrays by name, as a model file stores them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __call__(self, X: AnyArray) -> Floats:
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

    def _compress(self, X: AnyArray, dtype: np.dtype[np.floating]) -> AnyArray:
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


def learn_scaling(X: RowSource, kind: str) -> Scaling:
    """Return the scaling of the columns of X.

    "none" leaves them as they are; "standard" gives mean 0 and standard deviation 1; "common" divides all by the root
    of their mean variance. "auto" is "common" if the columns share a unit, else "standard" after columns with heavy
    tails are compressed, except for categories and flags. Constant columns keep scale 1. Missing cells (NaN) stay
    missing and count nowhere.
    """
    largest = np.fmax.reduce([np.fmax.reduce(np.abs(X[rows]), axis=0) for rows in _blocks(X)]).astype(np.float64)
    unit = np.where(largest > 0, largest, 1.0)  # so that sums of squares cannot overflow
    if kind == "none":
        mean, deviation = _moments(X, unit)
        _check_unscaled(largest, deviation[_varies(deviation, X)] * unit[_varies(deviation, X)])
        return Scaling.linear(np.zeros(X.shape[1]), np.ones(X.shape[1]))
    fixed, tails = np.zeros(X.shape[1]), Scaling.linear(np.zeros(X.shape[1]), np.ones(X.shape[1]))
    if kind == "auto":
        fixed = _scales_of_categories(X)
    if kind == "common" or (kind == "auto" and _shares_unit(X, unit, fixed > 0)):
        return _common(X, unit)
    if kind == "auto":
        tails = _heavy_tails(X, unit, fixed > 0)
    unit = np.where(tails.tail_width > 0, 1.0, unit)
    mean, deviation = _moments(X, unit, tails)
    scale = np.where(_varies(deviation, X), np.where(fixed > 0, fixed, deviation * unit), 1.0)
    return Scaling(mean * unit, scale, tails.tail_center, tails.tail_width)


def _shares_unit(X: RowSource, unit: Floats, is_category: NDArray[np.bool_]) -> bool:
    """Say whether the columns are principal components, or measurements of one kind, as the pixels of an image are.

    Flags and categories are no measurements.
    """
    mean, deviation = _moments(X, unit)
    varies = _varies(deviation, X) & ~is_category
    if np.count_nonzero(varies) < 3:
        return False
    return _are_components(X, unit, mean, deviation, varies) or _has_one_range(X, deviation * unit, varies)


def _are_components(X: RowSource, unit: Floats, mean: Floats, deviation: Floats, varies: NDArray[np.bool_]) -> bool:
    """Say whether the columns are centred and uncorrelated up to rounding, as only principal components are."""
    if np.abs(mean[varies] / deviation[varies]).max() > UNCORRELATED:
        return False
    factors = (unit * deviation)[varies]
    products = sum(Z.T @ Z for rows in _blocks(X) for Z in [X[rows][:, varies] / factors])
    return bool(np.abs(products / len(X) - np.eye(len(factors))).max() < UNCORRELATED)


def _has_one_range(X: RowSource, deviations: Floats, varies: NDArray[np.bool_]) -> bool:
    """Say whether the columns have one range, and it matters.

    Nearly all reach its lower end, and most its upper end. Some do not reach the upper end: if all did, each column
    could as well have been scaled to its own range. If their deviations are similar, nothing depends on the answer.
    """
    low = np.fmin.reduce([np.fmin.reduce(X[rows]) for rows in _blocks(X)])[varies]
    high = np.fmax.reduce([np.fmax.reduce(X[rows]) for rows in _blocks(X)])[varies]
    low_share, high_share = (np.unique(ends, return_counts=True)[1].max() / len(ends) for ends in (low, high))
    small, large = np.quantile(deviations[varies], (0.1, 0.9))
    return bool(low_share >= SAME_LOW and SAME_HIGH <= high_share < 1 and large > UNEQUAL * small)


def _common(X: RowSource, unit: Floats) -> Scaling:
    """Return the scaling that divides all columns by the root of their mean variance."""
    mean, deviation = _moments(X, unit)
    varies, largest = _varies(deviation, X), unit.max()
    variances = np.square(deviation[varies] * (unit[varies] / largest))
    scale = largest * np.sqrt(variances.mean()) if len(variances) else 1.0
    return Scaling.linear(mean * unit, np.full(X.shape[1], scale))


def _scales_of_categories(X: RowSource) -> Floats:
    """Return the scale of the columns that stand for categories and flags, and 0 for all others.

    Two rows of different categories have the distance 1: they differ as much as two rows that are one standard
    deviation apart in a number. So a category counts as one column, whatever its number of levels, and a rare one is
    not farther away than others. The two values of a flag have the distance 1 too.
    """
    sample = np.asarray(X[np.linspace(0, len(X) - 1, min(len(X), TAIL_ROWS)).astype(np.intp)], dtype=np.float64)
    low, high = np.fmin.reduce(sample), np.fmax.reduce(sample)
    two_values = ((sample == low) | (sample == high) | np.isnan(sample)).all(0) & (high - low > 0)
    scales: Floats = np.where(two_values, high - low, 0.0)
    for block in one_hot_blocks(sample):
        scales[block] = np.sqrt(2)  # two of the columns differ by 1
    return scales


def one_hot_blocks(X: Floats) -> list[slice]:
    """Return the neighbouring 0/1 columns of which exactly one is 1 in every row, or all are missing: categories."""
    binary = ((X == 0) | (X == 1) | np.isnan(X)).all(0)
    found, first = [], 0
    while first < X.shape[1]:
        total, last = np.zeros(len(X)), first
        while last < X.shape[1] and binary[last] and not (total > 1).any() and not _is_one(total):
            total, last = total + X[:, last], last + 1
        if last > first + 1 and _is_one(total):
            found.append(slice(first, last))
            first = last
        else:
            first += 1
    return found


def _is_one(total: Floats) -> bool:
    """Say whether every number is 1 or missing."""
    return bool(((total == 1) | np.isnan(total)).all())


def _blocks(X: RowSource) -> list[slice]:
    return row_blocks(len(X), X.shape[1], max_rows=BLOCK_ROWS)


def _varies(deviation: Floats, X: RowSource) -> NDArray[np.bool_]:
    """Say for each column whether its values differ by more than rounding."""
    differ: NDArray[np.bool_] = deviation > 10 * np.finfo(float_dtype(X)).eps
    return differ


def _moments(X: RowSource, unit: Floats, tails: Scaling | None = None) -> tuple[Floats, Floats]:
    """Return the mean and standard deviation of each column, after compression and divided by `unit`."""

    def read(rows: slice) -> AnyArray:
        return (X[rows] if tails is None else tails._compress(X[rows], np.dtype(np.float64))) / unit

    count = sum((~np.isnan(X[rows])).sum(0) for rows in _blocks(X))
    mean = sum(np.nansum(read(rows), axis=0) for rows in _blocks(X)) / count
    variance = sum(np.nansum(np.square(read(rows) - mean), axis=0) for rows in _blocks(X)) / count
    return mean, np.sqrt(variance)


def _heavy_tails(X: RowSource, unit: Floats, is_category: NDArray[np.bool_]) -> Scaling:
    """Return the compression of columns whose skewness is above `HEAVY_TAIL`, learned from a bounded sample of rows.

    The width is the upper quartile of |x - median|. If more than three quarters of the rows share one value, the
    smallest difference from it is taken instead: the column tells whether a row has that value and, on a logarithmic
    scale, how far away it is.
    """
    rows = np.linspace(0, len(X) - 1, min(len(X), TAIL_ROWS)).astype(np.intp)
    sample = X[rows] / unit
    n_known = np.maximum((~np.isnan(sample)).sum(0), 1)
    centered = np.nan_to_num(sample - np.nansum(sample, axis=0) / n_known)
    deviation = np.sqrt(np.square(centered).sum(0) / n_known)
    varies = _varies(deviation, X)
    skewness = (np.square(centered) * centered).sum(0) / n_known / np.where(varies, deviation, 1.0) ** 3
    center, width = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for j in np.flatnonzero(varies & ~is_category & (np.abs(skewness) > HEAVY_TAIL)):
        known = sample[~np.isnan(sample[:, j]), j]
        center[j] = np.median(known)
        distances = np.abs(known - center[j])
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
