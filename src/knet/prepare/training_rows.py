"""The rows that a fit may train on: drawn at random, prepared once, with the median distance between them."""

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import pdist

from knet.advanced import Advanced
from knet.arrays import Floats
from knet.prepare.preparation import Preparation
from knet.prepare.projection import learn_preparation
from knet.rows.dense import Rows

MAX_ROWS = 20_000  # at most this many rows choose the start and train psi, unless `train_size` asks for more
MEDIAN_ROWS = 2000  # the median distance is taken over the pairs of at most this many rows
ROWS_PER_CLUSTER = 30  # Algorithm 1 uses at least this many rows per cluster, if there are so many


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


def prepare_rows(X: Rows, params: Mapping[str, Any], rng: np.random.RandomState) -> Prepared:
    """Learn the preparation from all rows, draw those that a fit may train on, and prepare these."""
    n_rows, n_clusters, train_size = X.shape[0], params["n_clusters"], params["train_size"]
    advanced: Advanced = params["advanced"] or Advanced()
    preparation = learn_preparation(
        X,
        scale=params["scale"],
        unit_length=params["metric"] == "cosine",
        n_clusters=n_clusters,
        max_columns=advanced.max_columns if params["encoder"] is None else None,
        rng=rng,
    )
    n_train = None if isinstance(train_size, str) else _row_count(train_size, n_rows)
    _check_enough(n_rows if n_train is None else n_train, n_rows, n_clusters, train_size)
    order = rng.permutation(n_rows)[: max(MAX_ROWS, ROWS_PER_CLUSTER * n_clusters, n_train or 0)]
    rows = np.sort(order)
    Z, places = preparation(X[rows]), np.searchsorted(rows, order)
    return Prepared(preparation, rows, Z, n_rows, places, n_train, median_distance(Z[places[:MAX_ROWS]], rng))


def _row_count(train_size: int | float, n_rows: int) -> int:
    """Return a count of rows from a count or a fraction."""
    count = int(train_size) if isinstance(train_size, Integral) else max(1, round(train_size * n_rows))
    return min(count, n_rows)


def _check_enough(size: int, n_rows: int, n_clusters: int, train_size: str | int | float) -> None:
    """Raise if there are fewer training rows than clusters."""
    if n_clusters > size:
        origin = f" (train_size={train_size!r} of {n_rows})" if size < n_rows else ""
        advice = "Raise train_size or lower n_clusters." if size < n_rows else "Lower n_clusters."
        raise ValueError(
            f"n_clusters={n_clusters} exceeds the number of training rows, n_samples={size}{origin}. {advice}"
        )


def median_distance(X: Floats, rng: np.random.RandomState) -> float:
    """Return the median distance between two different rows of X, from a bounded sample; 0 if all rows are equal.

    If more than half of the pairs are duplicates, the median of the others is taken.
    """
    distances = pdist(X[rng.permutation(len(X))[:MEDIAN_ROWS]].astype(np.float64))
    distances = distances[distances > 0] if np.median(distances) == 0 else distances
    return float(np.median(distances)) if len(distances) else 0.0
