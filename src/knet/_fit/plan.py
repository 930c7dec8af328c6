"""Choices made from the data alone: the kernel's width, how many rows to train on, and where to start."""

from dataclasses import dataclass
from numbers import Integral

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from knet._fit.starts import choose_start, extend
from knet._math.eigensolvers import block_lanczos
from knet._math.kmeans import Labels
from knet._math.laplacians import DenseLaplacian, NystroemLaplacian

MEDIAN_ROWS = 2000  # the median distance is taken over the pairs of this many rows
START_ROWS = (1000, 2000)  # the start is chosen on this many rows: at least, and at most where clusters are many
ROWS_PER_CLUSTER = 20  # wanted for the choice
SMALL_DATA = 2000  # up to here training takes all rows
SUBSET_SIZES = (1000, 2000, 4000)  # candidates of the spectrum rule
NARROWEST = 1e-9  # of the median distance; narrower kernels are the identity all the same
POOL_ROWS = 20_000  # rows that stand for all rows in these choices


@dataclass(frozen=True)
class Plan:
    """What to train on and from where.

    Attributes
    ----------
    rows : ndarray of shape (n_train,)
        The training rows, in ascending order.
    sigma : float
        Width of the kernel in the scaled data.
    sample, labels : ndarrays of shape (n_sample,), or None
        Where in `rows` the start was chosen, and its partition; None where U starts from the kernel's eigenvectors.
    considered : list of dict
        The candidates that "auto" compared.
    """

    rows: NDArray[np.intp]
    sigma: float
    sample: NDArray[np.intp] | None
    labels: Labels | None
    considered: list[dict[str, object]]

    def start_labels(self, X: Tensor) -> Labels | None:
        """Return the start partition of all training rows X: the sample's own, and its neighbours' vote elsewhere."""
        if self.sample is None or self.labels is None:
            return None
        data = X.cpu().numpy()
        everywhere = extend(self.labels, data[self.sample], data)
        everywhere[self.sample] = self.labels
        return everywhere


def plan_training(
    pool: Tensor,
    order: NDArray[np.intp],
    *,
    sigma: str | float,
    sigma_scale: float,
    train_size: str | int | float,
    n_clusters: int,
    rng: np.random.RandomState,
) -> Plan:
    """Choose width, training rows and start; `pool` holds the first scaled rows of the random `order` of all rows."""
    n_rows = len(order)
    size = n_rows if isinstance(train_size, str) else _row_count(train_size, n_rows)
    _check_enough(size, n_rows, n_clusters, train_size)
    median = median_distance(pool, rng)
    start = None
    if not isinstance(sigma, str):
        width = float(sigma)
    elif sigma == "median" or n_clusters == 1 or median == 0 or size <= n_clusters + 1:
        width = sigma_scale * median or 1.0
    else:
        n_start = min(max(START_ROWS[0], ROWS_PER_CLUSTER * n_clusters), START_ROWS[1], size)
        start = choose_start(pool[:n_start].numpy(), n_clusters, rng)
        width = sigma_scale * start.ratio * median
    width = max(width, NARROWEST * median)
    if isinstance(train_size, str):
        size = min(n_rows, subset_size(pool, n_rows, width, n_clusters))
    rows = np.sort(order[:size])
    if start is None:
        return Plan(rows, width, None, None, [])
    sample = np.searchsorted(rows, order[: len(start.labels)])
    return Plan(rows, width, sample, start.labels, start.considered)


def _row_count(train_size: int | float, n_rows: int) -> int:
    """Return a count of rows from a count or a fraction."""
    count = int(train_size) if isinstance(train_size, Integral) else max(1, round(train_size * n_rows))
    return min(count, n_rows)


def _check_enough(size: int, n_rows: int, n_clusters: int, train_size: str | int | float) -> None:
    """Raise where there are fewer training rows than clusters."""
    if n_clusters > size:
        origin = f" (train_size={train_size!r} of {n_rows})" if size < n_rows else ""
        advice = "Raise train_size or lower n_clusters." if size < n_rows else "Lower n_clusters."
        raise ValueError(
            f"n_clusters={n_clusters} exceeds the number of training rows, n_samples={size}{origin}. {advice}"
        )


def median_distance(X: Tensor, rng: np.random.RandomState) -> float:
    """Return the median distance between two different rows of X, from a bounded sample; 0 if all rows are equal.

    Where more than half of the pairs are duplicates the median of the others is taken.
    """
    sample = X[torch.from_numpy(rng.permutation(len(X))[:MEDIAN_ROWS])].cpu().double()
    distances = torch.pdist(sample)
    distances = distances[distances > 0] if distances.median() == 0 else distances
    return float(distances.median()) if len(distances) else 0.0


def subset_size(pool: Tensor, n_rows: int, sigma: float, n_clusters: int, tol: float = 0.02) -> int:
    """Return the smallest number of rows whose spectrum is close to that of all rows, in the max norm.

    The paper's rule. The c largest eigenvalues of L [U-EIG] are compared; those of all rows come from the Nystroem
    form on `pool`, a random sample of bounded size, so memory stays linear. The largest candidate is returned where
    none is close enough.
    """
    if n_rows <= SMALL_DATA:
        return n_rows
    reference = NystroemLaplacian(pool, sigma).largest(n_clusters)[0]
    smallest = 30 * n_clusters
    for size in (size for size in SUBSET_SIZES if size >= smallest):
        spectrum = block_lanczos(DenseLaplacian(pool[:size], sigma), n_clusters, tol=tol / 4).values
        if float((spectrum - reference).abs().max()) < tol:
            return size
    return max(SUBSET_SIZES[-1], smallest)
