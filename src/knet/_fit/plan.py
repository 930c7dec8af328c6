"""Choices made from the data alone: which rows to train on, the width of the kernel, and the start."""

from dataclasses import dataclass
from numbers import Integral

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from knet._fit.settings import Settings
from knet._fit.starts import choose_start
from knet._math.arrays import Floats, Labels
from knet._math.eigensolvers import block_lanczos
from knet._math.laplacians import DenseLaplacian, NystroemLaplacian
from knet._network.preparation import Preparation

MEDIAN_ROWS = 2000  # the median distance is taken over the pairs of this many rows
START_ROWS = 20_000  # maximum of rows that the start is chosen on and that psi follows it on
START_PAIRS = 200_000  # maximum of rows x clusters there: the time of most candidates grows with it
SMALL_DATA = 2000  # up to this number all rows are used
ROWS_PER_CLUSTER = 30  # minimum, for the start and for Algorithm 1
SUBSET_SIZES = (1000, 2000, 4000)  # candidates of the spectrum rule
NARROWEST = 1e-9  # smallest width, as a share of the median distance: narrower kernels equal the identity
FOLLOW_WIDTH = 0.5  # width of the kernel after following a start, as a share of the median distance
POOL_ROWS = 20_000  # rows in the sample that the spectrum rule uses


@dataclass(frozen=True)
class Plan:
    """What to train on, and the start of the training.

    Attributes
    ----------
    rows : ndarray of shape (n_train,)
        Positions of the training rows, in ascending order.
    X : ndarray of shape (n_train, d)
        The training rows, scaled.
    core : ndarray of int
        Positions, within `rows`, of the rows that Algorithm 1 runs on.
    sigma : float
        Width of the kernel in the scaled data.
    start : ndarray of shape (n_train,), or None
        The partition that psi follows first; None if U starts from the eigenvectors of the kernel.
    considered : list of dict
        The candidates that "auto" compared.
    """

    rows: NDArray[np.intp]
    X: Floats
    core: NDArray[np.intp]
    sigma: float
    start: Labels | None
    considered: list[dict[str, object]]


def make_plan(X: Floats, prepare: Preparation, settings: Settings, rng: np.random.RandomState) -> Plan:
    """Choose the training rows, the width of the kernel and the start."""
    n_rows, n_clusters, train_size = X.shape[0], settings.n_clusters, settings.train_size
    size = n_rows if isinstance(train_size, str) else _row_count(train_size, n_rows)
    _check_enough(size, n_rows, n_clusters, train_size)
    order = rng.permutation(n_rows)
    pool = torch.from_numpy(prepare(X[order[:POOL_ROWS]])).double()
    median = median_distance(pool, rng)
    if settings.sigma == "auto" and n_clusters > 1 and median > 0 and size > n_clusters + 1:
        return _from_partition(X, prepare, settings, order[:size], median, rng)
    given = settings.sigma_scale * median or 1.0 if isinstance(settings.sigma, str) else settings.sigma
    sigma = max(float(given), NARROWEST * median)
    if isinstance(train_size, str):
        size = min(n_rows, subset_size(pool, n_rows, sigma, n_clusters))
    rows = np.sort(order[:size])
    return Plan(rows, prepare(X[rows]), np.arange(size), sigma, None, [])


def _from_partition(
    X: Floats,
    prepare: Preparation,
    settings: Settings,
    order: NDArray[np.intp],
    median: float,
    rng: np.random.RandomState,
) -> Plan:
    """Return the plan that starts from a chosen partition of the first rows in `order`.

    The time of the choice grows with rows and clusters, that of following it with neither: psi follows it on more rows.
    """
    enough = max(SMALL_DATA, ROWS_PER_CLUSTER * settings.n_clusters)
    n_start = min(len(order), START_ROWS, max(enough, START_PAIRS // settings.n_clusters))
    rows = np.sort(order[:START_ROWS] if isinstance(settings.train_size, str) else order)
    X_train = prepare(X[rows])
    sample = np.searchsorted(rows, np.sort(order[:n_start]))
    chosen = choose_start(X_train[sample].astype(np.float64), settings.n_clusters, rng)
    core = np.searchsorted(rows, np.sort(order[: min(len(rows), enough)]))
    start = chosen.extended(sample, X_train)
    return Plan(rows, X_train, core, settings.sigma_scale * FOLLOW_WIDTH * median, start, chosen.considered)


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
    smallest = ROWS_PER_CLUSTER * n_clusters
    for size in (size for size in SUBSET_SIZES if size >= smallest):
        spectrum = block_lanczos(DenseLaplacian(pool[:size], sigma), n_clusters, tol=tol / 4).values
        if float((spectrum - reference).abs().max()) < tol:
            return size
    return max(SUBSET_SIZES[-1], smallest)
