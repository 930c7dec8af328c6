"""Affinities between rows, and the partitions that spectral clustering makes of them.

Gaussians of many widths, locally scaled Gaussians and nearest-neighbour graphs: the candidates among which a fit
chooses its start (`starts.choose_start`) and a scan its number of clusters.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.spatial.distance import pdist, squareform
from sklearn.cluster import KMeans

Array = NDArray[np.float64]
Labels = NDArray[np.int64]

RATIOS = (*2.0 ** np.arange(-4.5, 1.1, 0.5), 4.0, 8.0)  # sigma / median distance; 8 is the limit of a linear kernel
LOCAL_NEIGHBORS = (7, 15)
GRAPH_NEIGHBORS = (5, 10, 20, 30)
K_MEANS_RUNS = 5
PROBE_ROWS = 200  # rows that tell whether a Gaussian is too narrow


@dataclass(frozen=True)
class Affinity:
    """A way to turn squared distances into affinities, and what it is called in a table."""

    kind: str
    ratio: float | None  # sigma / median distance of a Gaussian
    neighbors: int | None  # of the others
    weigh: Callable[[Array], Array]

    def embed(self, D2: Array, n_columns: int) -> tuple[Array, Array]:
        """Return the largest eigenvalues of D^-1/2 W D^-1/2, in descending order, and their eigenvectors.

        By a direct solver: a graph in several pieces has repeated eigenvalues, of which Lanczos may lose copies.
        """
        W, n = self.weigh(D2), len(D2)
        root = 1 / np.sqrt(W.sum(1))
        W *= root[:, None]
        W *= root
        values, V = eigh(W, subset_by_index=(n - n_columns, n - 1), check_finite=False)
        if V.shape[1] < n_columns:  # LAPACK's fast solver can give up where very many eigenvalues are equal
            values, V = (part[..., -n_columns:] for part in eigh(W, driver="evd", check_finite=False))
        return values[::-1], V[:, ::-1]


def squared_distances(X: Array) -> Array:
    """Return the squared distances between all rows."""
    D2: Array = squareform(pdist(X, "sqeuclidean"))
    return D2


def candidates(D2: Array) -> Iterator[Affinity]:
    """Yield the affinities to try; Gaussians so narrow that most rows have no neighbour are left out."""
    distances = np.sqrt(D2[np.triu_indices(len(D2), 1)])
    median = float(np.median(distances)) or float(distances.mean()) or 1.0  # more than half of the pairs may coincide
    for ratio in RATIOS:
        weigh = gaussian(ratio * median)
        if ratio >= 1 or np.median(weigh(D2[:PROBE_ROWS]).sum(1)) >= 2:
            yield Affinity("gaussian", float(ratio), None, weigh)
    for k in LOCAL_NEIGHBORS:
        yield Affinity("local", None, k, locally_scaled(k, floor=1e-3 * median))
    for k in GRAPH_NEIGHBORS:
        yield Affinity("neighbors", None, k, neighbor_graph(k))


def gaussian(sigma: float) -> Callable[[Array], Array]:
    """Return exp(-d^2 / (2 sigma^2)) as a function of d^2."""
    return lambda D2: np.exp(D2 * (-0.5 / sigma**2))


def locally_scaled(k: int, floor: float) -> Callable[[Array], Array]:
    """Return exp(-d_ij^2 / (s_i s_j)), where s is the distance to the k-th neighbour."""

    def weigh(D2: Array) -> Array:
        kth = min(k, len(D2) - 1)
        scale = np.maximum(np.sqrt(np.partition(D2, kth, axis=1)[:, kth]), floor)
        return np.exp(-D2 / scale[:, None] / scale)

    return weigh


def neighbor_graph(k: int) -> Callable[[Array], Array]:
    """Return the symmetric graph of each row and its k - 1 nearest others."""

    def weigh(D2: Array) -> Array:
        others = D2 + np.diag(np.full(len(D2), np.inf))
        n_others = min(k - 1, len(D2) - 1)
        A = np.zeros_like(D2)
        np.put_along_axis(A, np.argpartition(others, n_others - 1, axis=1)[:, :n_others], 1.0, axis=1)
        return (A + A.T) / 2 + np.eye(len(D2))

    return weigh


def partitions(V: Array, counts: Sequence[int], seed: int) -> list[Labels]:
    """Return for each number of clusters c the k-means labels of the first c eigenvectors, rows brought to length 1."""
    found = []
    for c in counts:
        points = V[:, :c] / np.maximum(np.linalg.norm(V[:, :c], axis=1, keepdims=True), 1e-12)
        found.append(KMeans(c, n_init=K_MEANS_RUNS, random_state=seed).fit_predict(points).astype(np.int64))
    return found
