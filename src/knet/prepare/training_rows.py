"""The rows that a fit may train on: drawn at random, prepared once, with the median distance between them."""

from dataclasses import dataclass
from numbers import Integral

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

from knet.advanced import Advanced
from knet.arrays import AnyArray, Floats, Rows
from knet.parameters import Params
from knet.prepare.preparation import Preparation
from knet.prepare.projection import learn_preparation
from knet.rows.kinds import is_sparse

MAX_ROWS = 20_000  # at most this many rows choose the start and train psi, unless `train_size` asks for more
MEDIAN_ROWS = 1000  # the median distance is taken over the pairs of at most this many rows
MEDIAN_SAMPLE, MEDIAN_SHARES = 4096, (0.45, 0.55)  # so many values, and those of them between which the median is
LEADING_COLUMNS = 16  # rows are ordered by so many columns, and by all if some rows do not differ in these
ROWS_PER_CLUSTER = 30  # a start is chosen on at least this many rows per cluster, if there are so many


@dataclass(frozen=True)
class Prepared:
    """Rows as the encoder gets them, drawn at random.

    Attributes
    ----------
    preparation : Preparation
        What was done to the rows, and will be done to new ones.
    rows : ndarray of shape (n,)
        Positions of the drawn rows in X, in ascending order.
    X : ndarray of shape (n, d)
        The drawn rows, prepared.
    n_rows : int
        The number of rows of X.
    order : ndarray of shape (n,)
        Positions in `X`, in the order of the draw.
    n_train : int or None
        How many rows `train_size` asks for; None chooses by the rows.
    median : float
        The median distance between two different rows; 0 if all are equal.
    """

    preparation: Preparation
    rows: NDArray[np.intp]
    X: Floats
    n_rows: int
    order: NDArray[np.intp]
    n_train: int | None
    median: float

    def first(self, n_rows: int) -> NDArray[np.intp]:
        """Return the positions in `X` of the first rows of the draw, in ascending order."""
        return np.sort(self.order[:n_rows])

    def can_be_divided(self, n_clusters: int) -> bool:
        """Say whether a partition can be chosen: there are different rows, and more of them than groups."""
        n_train = self.n_rows if self.n_train is None else self.n_train
        return n_clusters > 1 and self.median > 0 and n_train > n_clusters + 1


def ordered_by_content(X: Rows, positions: NDArray[np.intp] | None, *, least: int = 1) -> NDArray[np.intp] | None:
    """Return positions of rows of X, None for all, in the order of the rows' values; of many rows, as they are.

    All that is random or summed then has the same rows in the same order, whatever the order of X is. If every row
    occurs m times, or a multiple of that, an m-th of the rows is returned: a table that is repeated says nothing new.
    If these would not be more than `least`, all are returned.
    """
    if (X.shape[0] if positions is None else len(positions)) > MAX_ROWS:
        return positions
    positions = np.arange(X.shape[0]) if positions is None else positions
    values = X[positions]
    if is_sparse(values) and values.shape[1] <= LEADING_COLUMNS:
        values = values.toarray()
    elif is_sparse(values):  # two random sums of each row, which do not depend on the others, take its place
        values = values @ np.random.RandomState(0).uniform(size=(values.shape[1], 2))
    order = np.lexsort(values[:, :LEADING_COLUMNS].T[::-1])
    if values.shape[1] > LEADING_COLUMNS and not _differ(values[order, :LEADING_COLUMNS]).all():
        order = np.lexsort(values.T[::-1])
    ends = np.flatnonzero(np.append(_differ(values[order]), True))
    thinned = positions[order[:: int(np.gcd.reduce(np.diff(ends, prepend=-1)))]]
    return thinned if len(thinned) > least else positions[order]


def _differ(values: AnyArray) -> NDArray[np.bool_]:
    """Say for each row but the last whether the next one is different."""
    both_missing = np.isnan(values[1:]) & np.isnan(values[:-1])
    different: NDArray[np.bool_] = ((values[1:] != values[:-1]) & ~both_missing).any(1)
    return different


def prepare_rows(
    X: Rows, params: Params, rng: np.random.RandomState, first: NDArray[np.intp] | None = None
) -> Prepared:
    """Learn the preparation from all rows, draw those that a fit may train on, and prepare these.

    The rows `first` are drawn before others.
    """
    n_rows, train_size = X.shape[0], params["train_size"]
    n_clusters = 1 if params["n_clusters"] == "auto" else params["n_clusters"]
    advanced: Advanced = params["advanced"] or Advanced()
    preparation = learn_preparation(
        X,
        scale=params["scale"],
        unit_length=params["metric"] == "cosine",
        n_clusters=n_clusters,
        max_columns=advanced.max_columns if params["encoder"] is None else None,
        rng=rng,
        weights=advanced.column_weights,
    )
    n_train = None if isinstance(train_size, str) else _row_count(train_size, n_rows)
    _check_enough(n_rows if n_train is None else n_train, n_rows, n_clusters, train_size)
    drawn = rng.permutation(n_rows)
    if first is not None:
        drawn = drawn[np.argsort(~np.isin(drawn, first), kind="stable")]
    order = drawn[: max(MAX_ROWS, ROWS_PER_CLUSTER * n_clusters, n_train or 0)]
    rows = np.sort(order)
    Z, places = preparation(X[rows]), np.searchsorted(rows, order)
    return Prepared(preparation, rows, Z, n_rows, places, n_train, median_distance(Z[places[:MAX_ROWS]], rng))


def _row_count(train_size: int | float, n_rows: int) -> int:
    """Return a count of rows from a count or a fraction."""
    count = int(train_size) if isinstance(train_size, Integral) else max(1, round(train_size * n_rows))
    return min(count, n_rows)


def _check_enough(size: int, n_rows: int, n_clusters: int, train_size: str | int | float) -> None:
    """Raise if there are fewer training rows than clusters, or less than two, which no fit can learn from."""
    origin = f" (train_size={train_size!r} of {n_rows})" if size < n_rows else ""
    if n_clusters > size:
        advice = "Raise train_size or lower n_clusters." if size < n_rows else "Lower n_clusters."
        raise ValueError(
            f"n_clusters={n_clusters} exceeds the number of training rows, n_samples={size}{origin}. {advice}"
        )
    if size < 2:
        raise ValueError(f"A fit needs at least 2 training rows. Got {size}{origin}. Raise train_size.")


def median_distance(X: Floats, rng: np.random.RandomState) -> float:
    """Return the median distance between two different rows of X, from a bounded sample; 0 if all rows are equal.

    If more than half of the pairs are duplicates, the median of the others is taken.
    """
    distances = pdist(X[rng.permutation(len(X))[:MEDIAN_ROWS]].astype(np.float64))
    middle = median(distances) if len(distances) else 0.0
    positive = distances[distances > 0] if middle == 0 else distances[:0]
    return float(np.median(positive)) if len(positive) else middle


def median(values: Floats) -> float:
    """Return the median, as NumPy does: among many values only those near the median of some of them are ordered."""
    low, high = (len(values) - 1) // 2, len(values) // 2
    some = np.sort(values[:: 1 + len(values) // MEDIAN_SAMPLE])
    first, last = some[[int(share * (len(some) - 1)) for share in MEDIAN_SHARES]]
    n_below, near = np.count_nonzero(values < first), values[(values >= first) & (values <= last)]
    if not n_below <= low <= high < n_below + len(near):
        return float(np.median(values))
    near.partition(middle := [low - n_below, high - n_below])
    return float(near[middle].mean())
