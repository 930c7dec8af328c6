"""What a model remembers of its training rows, to notice that other rows are unlike them. It needs NumPy only."""

from dataclasses import dataclass, fields
from math import exp, lgamma
from typing import Self

import numpy as np
from numpy.typing import NDArray

from knet.arrays import Floats, Labels, Rows
from knet.rows.dense import dense_rows

REFERENCE_ROWS = 2000  # training rows that describe the columns, at most
MAX_VALUES, MIN_ROWS = 2**23, 100  # dense values of rows that are looked at; never fewer rows, however wide they are
RARE = 0.01  # share of the training rows that counts as unfamiliar, and of a column's values that counts as unusual


@dataclass(frozen=True, eq=False)
class Reference:
    """The sizes of the clusters and the values of each column, of the training rows."""

    cluster_sizes: Floats  # (c,)
    column_means: Floats  # (d,)
    column_deviations: Floats  # (d,); 1 for a constant column
    column_low: Floats  # (d,): half a percent of the values are smaller,
    column_high: Floats  # (d,): and half a percent are larger

    @classmethod
    def of(cls, X: Rows, labels: Labels, n_clusters: int) -> Self:
        """Return the description of training rows: some of them, an array or a CSR matrix, and the labels of all."""
        values = dense_rows(X).astype(np.float64)
        values[:, np.isnan(values).all(0)] = 0.0  # a column without any value
        largest = np.nanmax(np.abs(values), 0)
        unit = np.where(largest > 0, largest, 1.0)  # squares of the values themselves might be infinite
        deviations = np.nanstd(values / unit, 0) * unit
        quantile = np.nanquantile if np.isnan(values).any() else np.quantile  # the latter is much faster
        low, high = quantile(values, [RARE / 2, 1 - RARE / 2], axis=0)
        return cls(
            cluster_sizes=np.bincount(labels, minlength=n_clusters).astype(np.float64),
            column_means=np.nanmean(values / unit, 0) * unit,
            column_deviations=np.where(deviations > 0, deviations, 1.0),
            column_low=low,
            column_high=high,
        )

    def arrays(self) -> dict[str, Floats]:
        """Return the arrays by name, as a model file stores them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @property
    def n_rows(self) -> int:
        """Number of training rows that describe the columns."""
        return int(min(self.cluster_sizes.sum(), row_limit(REFERENCE_ROWS, len(self.column_means))))

    def unusual(self, X: Floats) -> NDArray[np.int64]:
        """Return how many values of each column are outside of the usual ones."""
        counts: NDArray[np.int64] = ((self.column_low > X) | (self.column_high < X)).sum(0)
        return counts


def row_limit(max_rows: int, n_columns: int) -> int:
    """Return how many rows are looked at: fewer if they are wide, because sparse ones are made dense."""
    return max(MIN_ROWS, min(max_rows, MAX_VALUES // n_columns))


def described_rows(X: Rows, trained: NDArray[np.intp]) -> Rows:
    """Return the training rows of X that describe the columns."""
    return X[_spread(trained, row_limit(REFERENCE_ROWS, X.shape[1]))]


def spread_rows(X: Rows, max_rows: int) -> Rows:
    """Return rows at equal steps, at most `max_rows`, and fewer if they are wide."""
    return _spread(X, row_limit(max_rows, X.shape[1]))


def _spread(items: Rows, count: int) -> Rows:
    n = items.shape[0]
    return items if n <= count else items[np.linspace(0, n - 1, count).astype(np.int64)]


def chance_of(count: int, n_rows: int, n_training: int, n_tails: int = 1) -> float:
    """Return the probability that at least `count` of `n_rows` new rows are rare, if they are like the training rows.

    Rare is a share `RARE` of the training rows, in one or two tails. Whatever the distribution, the share of it beyond
    a quantile of n rows has a beta distribution, so that the count is beta-binomial: if there are few training rows,
    their quantile is inaccurate, and more rare rows are needed to prove a difference.
    """
    if count <= 0:
        return 1.0
    a = RARE * (n_training - 1) + n_tails
    b = max(n_training + 1 - a, 1.0)
    k = np.arange(min(count, n_rows), n_rows + 1)
    constant = lgamma(n_rows + 1) - _log_beta(a, b)
    logs = [constant - lgamma(i + 1) - lgamma(n_rows - i + 1) + _log_beta(i + a, n_rows - i + b) for i in k.tolist()]
    return min(1.0, sum(map(exp, logs)))


def _log_beta(a: float, b: float) -> float:
    return lgamma(a) + lgamma(b) - lgamma(a + b)
