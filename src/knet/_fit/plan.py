"""Choices made from the data alone: which rows to train on, the width of the kernel, and the start."""

from dataclasses import dataclass
from numbers import Integral

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from knet._fit.settings import Settings
from knet._fit.starts import choose_start, extend
from knet._math.arrays import Floats, Labels
from knet._math.eigensolvers import block_lanczos
from knet._math.laplacians import DenseLaplacian, NystroemLaplacian
from knet._network.scaling import Scaling

MEDIAN_ROWS = 2000  # the median distance is taken over the pairs of this many rows
START_ROWS = (1000, 2000)  # rows that the start is chosen on: minimum, and maximum if there are many clusters
ROWS_PER_CLUSTER = 20  # wanted for the choice of the start
SMALL_DATA = 2000  # up to this number training uses all rows
SUBSET_SIZES = (1000, 2000, 4000)  # candidates of the spectrum rule
NARROWEST = 1e-9  # smallest width, as a share of the median distance: narrower kernels equal the identity
POOL_ROWS = 20_000  # rows in the sample that these choices are made on


@dataclass(frozen=True)
class Plan:
    """What to train on, and the start of the training.

    Attributes
    ----------
    rows : ndarray of shape (n_train,)
        Positions of the training rows, in ascending order.
    X : ndarray of shape (n_train, d)
        The training rows, scaled.
    sigma : float
        Width of the kernel in the scaled data.
    start : ndarray of shape (n_train,), or None
        The partition to start from; None if U starts from the eigenvectors of the kernel.
    considered : list of dict
        The candidates that "auto" compared.
    """

    rows: NDArray[np.intp]
    X: Floats
    sigma: float
    start: Labels | None
    considered: list[dict[str, object]]


def make_plan(X: Floats, scaling: Scaling, settings: Settings, rng: np.random.RandomState) -> Plan:
    """Choose the training rows, the width of the kernel and the start, from a bounded sample of the rows X."""
    n_rows, n_clusters, train_size = len(X), settings.n_clusters, settings.train_size
    size = n_rows if isinstance(train_size, str) else _row_count(train_size, n_rows)
    _check_enough(size, n_rows, n_clusters, train_size)
    order = rng.permutation(n_rows)
    pool = torch.from_numpy(scaling(X[order[:POOL_ROWS]])).double()
    median = median_distance(pool, rng)
    chosen = None
    if not isinstance(settings.sigma, str):
        sigma = float(settings.sigma)
    elif settings.sigma == "median" or n_clusters == 1 or median == 0 or size <= n_clusters + 1:
        sigma = settings.sigma_scale * median or 1.0
    else:
        n_start = min(max(START_ROWS[0], ROWS_PER_CLUSTER * n_clusters), START_ROWS[1], size)
        chosen = choose_start(pool[:n_start].numpy(), n_clusters, median, rng)
        sigma = settings.sigma_scale * chosen.ratio * median
    sigma = max(sigma, NARROWEST * median)
    if isinstance(train_size, str):
        size = min(n_rows, subset_size(pool, n_rows, sigma, n_clusters))
    rows = np.sort(order[:size])
    X_train = scaling(X[rows])
    if chosen is None:
        return Plan(rows, X_train, sigma, None, [])
    sample = np.searchsorted(rows, order[: len(chosen.labels)])
    return Plan(rows, X_train, sigma, extend(chosen.labels, sample, X_train), chosen.considered)


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


def median_distance(X: Tensor, rng: np.random.RandomState) -> float:
    """Return the median distance between two different rows of X, from a bounded sample; 0 if all rows are equal.

    If more than half of the pairs are duplicates, the median of the others is taken.
    """
    sample = X[torch.from_numpy(rng.permutation(len(X))[:MEDIAN_ROWS])].cpu().double()
    distances = torch.pdist(sample)
    distances = distances[distances > 0] if distances.median() == 0 else distances
    return float(distances.median()) if len(distances) else 0.0


def subset_size(pool: Tensor, n_rows: int, sigma: float, n_clusters: int, tol: float = 0.02) -> int:
    """Return the smallest number of rows whose spectrum is close to that of all rows, in the max norm.

    The paper's rule. The c largest eigenvalues of L [U-EIG] are compared; those of all rows come from the Nystroem
    form on `pool`, a random sample of bounded size, so memory stays linear. The largest candidate is returned if none
    is close enough.
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
