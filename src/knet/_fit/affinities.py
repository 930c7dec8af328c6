"""Affinities between rows, and the partitions that spectral clustering makes of them.

Gaussians of many widths, locally scaled Gaussians and nearest-neighbour graphs: the candidates among which a fit
chooses its start (`starts.choose_start`) and a scan its number of clusters.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.linalg import eigh
from scipy.spatial.distance import pdist, squareform

from knet._math.arrays import Floats, Labels
from knet._math.eigensolvers import block_lanczos
from knet._math.kernels import LOG_FLOOR
from knet._math.kmeans import k_means

RATIOS = (*2.0 ** np.arange(-4.5, 1.1, 0.5), 4.0, 8.0)  # sigma / median distance; 8 is the limit of a linear kernel
LOCAL_NEIGHBORS = (7, 15)
GRAPH_NEIGHBORS = (5, 10, 20, 30)
K_MEANS_RUNS = 5
WIDE = 0.5  # ratio from which a Gaussian's eigenvalues fall off fast
FEW = 100  # rows per eigenvector from which an iterative solver is the faster one there
TOL = 1e-5  # residual that it has to reach
PROBE_ROWS = 200  # rows that tell whether a Gaussian is too narrow


@dataclass(frozen=True)
class Affinity:
    """A way to turn squared distances into affinities, and what it is called in a table."""

    kind: str
    ratio: float | None  # sigma / median distance of a Gaussian
    neighbors: int | None  # of the others
    weigh: Callable[[Floats], Floats]

    def embed(self, D2: Floats, n_columns: int) -> tuple[Floats, Floats]:
        """Return the largest eigenvalues of D^-1/2 W D^-1/2, in descending order, and their eigenvectors.

        The eigenvalues of a wide Gaussian fall off fast: an iterative solver finds the few largest at once, and the
        small ones need double precision. Those of the others bunch near 1: a direct solver, in single precision.
        """
        wide, n = self.ratio is not None and self.ratio >= WIDE, len(D2)
        W = self.weigh(D2 if wide else D2.astype(np.float32))
        root = 1 / np.sqrt(W.sum(1))
        W *= root[:, None]
        W *= root
        if wide and n >= FEW * n_columns:
            found = block_lanczos(torch.from_numpy(W), n_columns, tol=TOL, max_products=6)
            if found.converged and found.values[-1] > 100 * TOL:
                return found.values.numpy(), found.vectors.numpy()
        values, V = eigh(W, subset_by_index=(n - n_columns, n - 1), check_finite=False)
        if V.shape[1] < n_columns:  # LAPACK's fast solver can give up where very many eigenvalues are equal
            values, V = (part[..., -n_columns:] for part in eigh(W, driver="evd", check_finite=False))
        return values[::-1], V[:, ::-1]


def squared_distances(X: Floats) -> Floats:
    """Return the squared distances between all rows."""
    D2: Floats = squareform(pdist(X, "sqeuclidean"))
    return D2


def candidates(D2: Floats, median: float) -> Iterator[Affinity]:
    """Yield the affinities to try, with widths as multiples of the `median` distance.

    Gaussians so narrow that most rows have no neighbour are left out.
    """
    for ratio in RATIOS:
        weigh = gaussian(ratio * median)
        if ratio >= 1 or np.median(weigh(D2[:PROBE_ROWS]).sum(1)) >= 2:
            yield Affinity("gaussian", float(ratio), None, weigh)
    for k in LOCAL_NEIGHBORS:
        yield Affinity("local", None, k, locally_scaled(k, floor=1e-3 * median))
    for k in GRAPH_NEIGHBORS:
        yield Affinity("neighbors", None, k, neighbor_graph(k))


def gaussian(sigma: float) -> Callable[[Floats], Floats]:
    """Return exp(-d^2 / (2 sigma^2)) as a function of d^2."""
    return lambda D2: _exp(D2 * (-0.5 / sigma**2))


def locally_scaled(k: int, floor: float) -> Callable[[Floats], Floats]:
    """Return exp(-d_ij^2 / (s_i s_j)), where s is the distance to the k-th neighbour."""

    def weigh(D2: Floats) -> Floats:
        kth = min(k, len(D2) - 1)
        scale = np.maximum(np.sqrt(np.partition(D2, kth, axis=1)[:, kth]), floor)
        return _exp(-D2 / scale[:, None] / scale)

    return weigh


def _exp(logs: Floats) -> Floats:
    """Return exp of an array, in its place and without denormal numbers."""
    return np.exp(np.maximum(logs, LOG_FLOOR, out=logs), out=logs)


def neighbor_graph(k: int) -> Callable[[Floats], Floats]:
    """Return the symmetric graph of each row and its k - 1 nearest others."""

    def weigh(D2: Floats) -> Floats:
        others, n_others = D2.copy(), min(k - 1, len(D2) - 1)
        np.fill_diagonal(others, np.inf)
        A = np.zeros_like(D2)
        np.put_along_axis(A, np.argpartition(others, n_others - 1, axis=1)[:, :n_others], 0.5, axis=1)
        A += A.T
        np.fill_diagonal(A, 1.0)
        return A

    return weigh


def partitions(V: Floats, counts: Sequence[int], seed: int) -> list[Labels]:
    """Return for each number of clusters c the k-means labels of the first c eigenvectors, rows brought to length 1."""
    found = []
    for c in counts:
        points = V[:, :c] / np.maximum(np.linalg.norm(V[:, :c], axis=1, keepdims=True), 1e-12)
        found.append(k_means(points, c, K_MEANS_RUNS, np.random.RandomState(seed)).labels)
    return found
