"""Statistics of the clusters over many rows, block by block, and the drift of rows from the training rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from knet.arrays import Floats, row_blocks
from knet.model.certainty import DOUBTFUL
from knet.model.predictor import Predictor
from knet.rows.dense import Rows, dense_rows

UNFAMILIAR = 0.01  # share of the training rows that counts as unfamiliar


@dataclass(frozen=True)
class Moments:
    """Per cluster: the number of rows, the mean of each column, and the sum of squared deviations from it.

    `n_doubtful` rows have no membership of at least `DOUBTFUL`; `n_unfamiliar` rows are less familiar than nearly all
    training rows.
    """

    counts: NDArray[np.int64]
    means: Floats
    squares: Floats
    n_doubtful: int
    n_unfamiliar: int

    @classmethod
    def of_block(cls, predictor: Predictor, X: Rows) -> Self:
        """Return the statistics of some rows, which are made dense."""
        X = dense_rows(X)
        P = predictor.memberships(X)
        labels, n_clusters = P.argmax(1), P.shape[1]
        means, squares = np.zeros((2, n_clusters, X.shape[1]))
        for cluster in np.unique(labels):
            own = X[labels == cluster].astype(np.float64)
            means[cluster] = own.mean(0)
            squares[cluster] = np.square(own - means[cluster]).sum(0)
        doubtful = P.max(1) < DOUBTFUL
        unfamiliar = predictor.familiarity(X) < predictor.certainty.threshold(UNFAMILIAR)
        counts = np.bincount(labels, minlength=n_clusters)
        return cls(counts, means, squares, int(doubtful.sum()), int(unfamiliar.sum()))

    @classmethod
    def of_rows(cls, predictor: Predictor, X: Rows) -> Self:
        """Return the statistics of rows in memory."""
        blocks = row_blocks(X.shape[0], X.shape[1]) or [slice(0, 0)]
        return cls.merge([cls.of_block(predictor, X[rows]) for rows in blocks])

    @classmethod
    def merge(cls, parts: Sequence[Self]) -> Self:
        """Merge the statistics of several blocks, with the update formula that is exact also if means are large."""
        first, *others = parts
        counts, means, squares = first.counts, first.means, first.squares
        for other in others:
            total = counts + other.counts
            share = (other.counts / np.maximum(total, 1))[:, None]
            step = other.means - means
            squares = squares + other.squares + np.square(step) * counts[:, None] * share
            means, counts = means + step * share, total
        doubtful, unfamiliar = (sum(getattr(part, name) for part in parts) for name in ("n_doubtful", "n_unfamiliar"))
        return cls(counts, means, squares, doubtful, unfamiliar)

    def overall(self) -> tuple[int, Floats, Floats, Floats]:
        """Return the number of rows and, per column, the mean and the sums of squares between and within clusters."""
        n_rows, counts = int(self.counts.sum()), self.counts[:, None]
        if n_rows == 0:
            raise ValueError("There are no rows.")
        mean = (counts * self.means).sum(0) / n_rows
        return n_rows, mean, (counts * np.square(self.means - mean)).sum(0), self.squares.sum(0)

    def describe(self) -> dict[str, Any]:
        """Return what `Drift` compares with, as plain data for a model file."""
        n_rows, mean, between, within = self.overall()
        deviations = np.sqrt((between + within) / n_rows)
        return {
            "sizes": self.counts.tolist(),
            "means": mean.tolist(),
            "deviations": np.where(deviations > 0, deviations, 1.0).tolist(),
        }


@dataclass(frozen=True)
class Summary:
    """Statistics of the clusters over all rows.

    Attributes
    ----------
    sizes : ndarray of shape (c,)
        Number of rows in each cluster.
    means, deviations : ndarrays of shape (c, d)
        Mean and standard deviation of each column, per cluster; NaN if a cluster is empty.
    eta_squared : ndarray of shape (d,)
        Share of each column's variance that the clusters explain, from 0 to 1.
    doubtful : float
        Share of the rows whose membership in their cluster is below 0.7.
    unfamiliar : float
        Share of the rows that are less familiar than 99 % of the training rows.
    """

    sizes: NDArray[np.int64]
    means: Floats
    deviations: Floats
    eta_squared: Floats
    doubtful: float
    unfamiliar: float

    @classmethod
    def of(cls, found: Moments) -> Self:
        """Return the summary of some rows."""
        n_rows, _, between, within = found.overall()
        total, counts = between + within, found.counts[:, None]
        return cls(
            sizes=found.counts,
            means=np.where(counts > 0, found.means, np.nan),
            deviations=np.sqrt(found.squares / np.where(counts > 0, counts, np.nan)),
            eta_squared=between / np.where(total > 0, total, 1.0),
            doubtful=found.n_doubtful / n_rows,
            unfamiliar=found.n_unfamiliar / n_rows,
        )


@dataclass(frozen=True)
class Drift:
    """Differences between some rows and the training sample of a model.

    Attributes
    ----------
    n_rows : int
        Number of rows compared.
    unfamiliar : float
        Share of the rows that are less familiar than 99 % of the training rows: about 0.01 if nothing has changed.
    shares, reference_shares : ndarrays of shape (c,)
        Share of each cluster, in these rows and in the training sample.
    size_shift : float
        Share of the rows that would have to change clusters to restore the sizes of the training sample, from 0 to 1.
    column_shift : ndarray of shape (d,)
        Difference between the means of each column, in standard deviations of the training sample.
    """

    n_rows: int
    unfamiliar: float
    shares: Floats
    reference_shares: Floats
    size_shift: float
    column_shift: Floats

    @classmethod
    def of(cls, found: Moments, reference: Mapping[str, Any]) -> Self:
        """Return the drift of some rows from those that `Moments.describe` described."""
        n_rows, mean, _, _ = found.overall()
        shares, before = found.counts / n_rows, np.array(reference["sizes"]) / np.sum(reference["sizes"])
        return cls(
            n_rows=n_rows,
            unfamiliar=found.n_unfamiliar / n_rows,
            shares=shares,
            reference_shares=before,
            size_shift=float(np.abs(shares - before).sum() / 2),
            column_shift=(mean - reference["means"]) / np.array(reference["deviations"]),
        )
