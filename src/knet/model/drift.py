"""How rows differ from the training rows of a model: statistics block by block, drift, and the notice of foreign rows.

It needs NumPy only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from knet.arrays import Floats, Rows, row_blocks
from knet.exceptions import KNetDataWarning, warn_user
from knet.model.certainty import DOUBTFUL
from knet.model.display import html_table
from knet.model.predictor import Predictor
from knet.model.reference import RARE, chance_of, spread_rows
from knet.rows.dense import dense_rows

FAR_MORE = 10  # times the expected share: less is no reason to disturb anybody, however many rows prove it
CHANCE = 1e-6  # of a false alarm: every call of `predict` is a test
TESTED_ROWS = 1000  # rows that are looked at, fewer if they are wide: enough to prove any share that is far more
NAMED_COLUMNS, SHOWN_COLUMNS = 3, 10  # in a sentence; in a notebook
DRIFT_HEADER = ("column", "unusual values", "shift", "mean", "mean in training", "training, low", "training, high")
DIFFERENT = 1.0  # divergence from which a column is named: a shift by 1.4 standard deviations, or a fifth of the spread
SMALL_RATIO = 1e-9  # of standard deviations; a constant has none


@dataclass(frozen=True)
class Moments:
    """Per cluster: the number of rows; of each column the observed values, their mean and squared deviations from it.

    `n_doubtful` rows have no membership of at least `DOUBTFUL`; `n_unfamiliar` rows are less familiar than 99 % of the
    training rows; `n_unusual` values of each column are outside of 99 % of those in training.
    """

    counts: NDArray[np.int64]
    observed: NDArray[np.int64]
    means: Floats
    squares: Floats
    n_doubtful: int
    n_unfamiliar: int
    n_unusual: NDArray[np.int64]

    @classmethod
    def of_block(cls, predictor: Predictor, X: Rows) -> Self:
        """Return the statistics of some rows, which are made dense."""
        X = dense_rows(X)
        P = predictor.memberships(X)
        labels, n_clusters = P.argmax(1), P.shape[1]
        means, squares = np.zeros((2, n_clusters, X.shape[1]))
        observed = np.zeros((n_clusters, X.shape[1]), np.int64)
        with np.errstate(over="ignore", invalid="ignore"):  # values near the end of the range of numbers
            for cluster in np.unique(labels):
                own = X[labels == cluster].astype(np.float64)
                observed[cluster] = (~np.isnan(own)).sum(0)
                means[cluster] = np.nansum(own, 0) / np.maximum(observed[cluster], 1)
                squares[cluster] = np.nansum(np.square(own - means[cluster]), 0)
        return cls(
            np.bincount(labels, minlength=n_clusters),
            observed,
            means,
            squares,
            int((P.max(1) < DOUBTFUL).sum()),
            count_unfamiliar(predictor, X),
            predictor.reference.unusual(X),
        )

    @classmethod
    def of_rows(cls, predictor: Predictor, X: Rows) -> Self:
        """Return the statistics of rows in memory."""
        blocks = row_blocks(X.shape[0], X.shape[1]) or [slice(0, 0)]
        return cls.merge([cls.of_block(predictor, X[rows]) for rows in blocks])

    @classmethod
    def merge(cls, parts: Sequence[Self]) -> Self:
        """Merge the statistics of several blocks, with the update formula that is exact also if means are large."""
        first, *others = parts
        observed, means, squares = first.observed, first.means, first.squares
        for other in others:
            total = observed + other.observed
            share = other.observed / np.maximum(total, 1)
            step = other.means - means
            squares = squares + other.squares + np.square(step) * observed * share
            means, observed = means + step * share, total
        names = ("counts", "n_doubtful", "n_unfamiliar", "n_unusual")
        counts, *others_counted = (sum(getattr(part, name) for part in parts) for name in names)
        return cls(counts, observed, means, squares, *others_counted)

    def overall(self) -> tuple[int, Floats, Floats, Floats]:
        """Return the number of rows and, per column, the mean and the sums of squares between and within clusters."""
        n_rows = int(self.counts.sum())
        if n_rows == 0:
            raise ValueError("There are no rows.")
        mean = (self.observed * self.means).sum(0) / np.maximum(self.observed.sum(0), 1)
        return n_rows, mean, (self.observed * np.square(self.means - mean)).sum(0), self.squares.sum(0)


def count_unfamiliar(predictor: Predictor, X: Rows) -> int:
    """Return how many rows are less familiar than 99 % of the training rows."""
    return int((predictor.familiarity(X) < predictor.certainty.threshold(RARE)).sum())


@dataclass(frozen=True, repr=False)
class Drift:
    """Differences between some rows and the training rows of a model.

    Attributes
    ----------
    n_rows : int
        Number of rows compared.
    unfamiliar : float
        Share of the rows that are less familiar than 99 % of the training rows: about 0.01 if nothing has changed.
    shares, reference_shares : ndarrays of shape (c,)
        Share of each cluster of the fit, in these rows and in the training rows.
    size_shift : float
        Share of the rows that would have to change clusters to restore the sizes of the training rows, from 0 to 1.
    columns : list of str
        Names of the model's columns.
    unusual : ndarray of shape (d,)
        Share of each column's values that are outside of `usual`: about 0.01 if nothing has changed.
    usual : ndarray of shape (d, 2)
        The range that contains 99 % of the column's values in training.
    means, reference_means : ndarrays of shape (d,)
        Mean of each column, in these rows and in the training rows.
    column_shift : ndarray of shape (d,)
        Difference between these means, in standard deviations of the training rows.
    is_foreign : bool
        Whether far more rows, or values of a column, are unlike the training rows than expected: ten times as many, and
        so many by chance only once in a million times.
    advice : str
        In words: how many rows are unlike the training rows, and the columns that differ most.
    """

    n_rows: int
    unfamiliar: float
    shares: Floats
    reference_shares: Floats
    size_shift: float
    columns: list[str]
    unusual: Floats
    usual: Floats
    means: Floats
    reference_means: Floats
    column_shift: Floats
    is_foreign: bool
    advice: str

    @classmethod
    def of(cls, found: Moments, predictor: Predictor, names: Sequence[str] | None) -> Self:
        """Return the drift of some rows; the columns are called x0, x1, ... if they have no names."""
        reference = predictor.reference
        n_rows, mean, between, within = found.overall()
        shares, before = found.counts / n_rows, reference.cluster_sizes / reference.cluster_sizes.sum()
        columns = [f"x{j}" for j in range(len(mean))] if names is None else list(map(str, names))
        n_observed = found.observed.sum(0)
        mean = np.where(n_observed > 0, mean, np.nan)
        unfamiliar, unusual = found.n_unfamiliar / n_rows, found.n_unusual / np.maximum(n_observed, 1)
        rows_differ = _is_far_more(unfamiliar, n_rows, int(predictor.certainty.place_weights.sum()))
        differ = [j for j, n in enumerate(n_observed) if _is_far_more(unusual[j], int(n), reference.n_rows, len(mean))]
        shift = (mean - reference.column_means) / reference.column_deviations
        ratio = np.sqrt((between + within) / np.maximum(n_observed, 1)) / reference.column_deviations
        divergence = (ratio**2 + shift**2 - 1) / 2 - np.log(np.maximum(ratio, SMALL_RATIO))  # of normal distributions
        if rows_differ and not differ:
            differ = np.flatnonzero(divergence > DIFFERENT).tolist()
        differ = sorted(differ, key=lambda j: (-unusual[j], -divergence[j]))
        named = [
            f"{columns[j]!r} (mean {short_number(mean[j])}; in training {short_number(reference.column_means[j])}, "
            f"mostly {short_number(reference.column_low[j])} to {short_number(reference.column_high[j])})"
            for j in differ[:NAMED_COLUMNS]
        ]
        return cls(
            n_rows=n_rows,
            unfamiliar=unfamiliar,
            shares=shares,
            reference_shares=before,
            size_shift=float(np.abs(shares - before).sum() / 2),
            columns=columns,
            unusual=unusual,
            usual=np.column_stack([reference.column_low, reference.column_high]),
            means=mean,
            reference_means=reference.column_means,
            column_shift=shift,
            is_foreign=rows_differ or bool(differ),
            advice=_advise(unfamiliar, rows_differ, len(differ), named),
        )

    def table(self) -> list[dict[str, str | float]]:
        """Return a line for each column, those that differ most first."""
        order = np.lexsort([-np.abs(self.column_shift), -self.unusual])
        return [
            {
                "column": self.columns[j],
                "unusual": round(float(self.unusual[j]), 4),
                "shift": round(float(self.column_shift[j]), 4),
                "mean": float(self.means[j]),
                "training_mean": float(self.reference_means[j]),
                "training_low": float(self.usual[j, 0]),
                "training_high": float(self.usual[j, 1]),
            }
            for j in order
        ]

    def _repr_html_(self) -> str:
        lines = [list(line.values()) for line in self.table()[:SHOWN_COLUMNS]]
        return html_table(self.advice, DRIFT_HEADER, lines)

    def __repr__(self) -> str:
        return f"<drift of {self.n_rows:,} rows: {self.advice}>"


def _is_far_more(share: float, n_rows: int, n_training: int, n_columns: int | None = None) -> bool:
    """Say whether this share of rare rows, or of rare values of one of the columns, is far more than expected."""
    tested = min(n_rows, TESTED_ROWS)
    tests, tails = (1, 1) if n_columns is None else (n_columns, 2)
    return share >= FAR_MORE * RARE and chance_of(int(share * tested), tested, n_training, tails) < CHANCE / tests


def _advise(unfamiliar: float, rows_differ: bool, n_columns: int, named: Sequence[str]) -> str:
    """Return a sentence on the rows, and one on the columns that differ."""
    if not rows_differ and not n_columns:
        return f"{unfamiliar:.1%} of the rows are unlike the training rows; about {RARE:.0%} is expected."
    found = f"{unfamiliar:.0%} of the rows are unlike the training rows (about {RARE:.0%} is expected)"
    if not n_columns:
        return f"{found}, though no single column differs much. Their labels may mean nothing."
    rest = f" and {n_columns - len(named)} more" if n_columns > len(named) else ""
    return f"{found}. Columns that differ: {', '.join(named)}{rest}. Check their units; the labels may mean nothing."


def short_number(number: float) -> str:
    """Return a number with about four digits, and large ones without an exponent."""
    return f"{number:,.0f}" if 1e4 <= abs(number) < 1e12 else f"{number:.4g}"


def drift(predictor: Predictor, X: Rows, names: Sequence[str] | None) -> Drift:
    """Return how rows in memory differ from the training rows."""
    with np.errstate(all="ignore"):  # squares of values near the end of the range of numbers are infinite
        return Drift.of(Moments.of_rows(predictor.unedited, X), predictor, names)


def tested(predictor: Predictor, X: Rows) -> Moments:
    """Return the statistics of at most `TESTED_ROWS` of the rows."""
    return Moments.of_rows(predictor.unedited, spread_rows(X, TESTED_ROWS))


def warn_if_foreign(predictor: Predictor, X: Rows, names: Sequence[str] | None) -> None:
    """Warn if far more rows than expected are unlike the training rows; at most `TESTED_ROWS` of them are looked at."""
    few = dense_rows(spread_rows(X, TESTED_ROWS))
    if chance_of(len(few), len(few), predictor.reference.n_rows) > CHANCE:  # too few to prove anything
        return
    worst = max(count_unfamiliar(predictor, few), int(predictor.reference.unusual(few).max()))
    if worst >= FAR_MORE * RARE * len(few) and (found := drift(predictor, few, names)).is_foreign:
        warn_user(found.advice, KNetDataWarning)
