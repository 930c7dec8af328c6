"""Eigenvectors of sparse neighbour graphs, which show their groups."""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse import csr_matrix, diags, identity
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh, splu

from knet.arrays import Floats

DENSE_ROWS = 400  # rows up to which LAPACK is faster than the iterative solver
LANCZOS_COLUMNS, LANCZOS_TOL, MAX_RESTARTS = 50, 1e-5, 20  # of ARPACK: it is slower for more vectors
SHIFT = 1e-4  # above the largest eigenvalue, 1, which is where the inverse is taken
FIRST_DEGREE, MAX_DEGREE = 24, 200  # degree of the Chebyshev polynomial: in the first iteration, and at most
MAX_GROWTH = 1e6  # of a vector in one iteration: the first one must not drown the others in single precision
TOL = 1e-2  # distance between the spans of two iterations at which the solver stops
MAX_ITER = 5  # iterations of filter and Rayleigh-Ritz


def graph_embedding(
    graph: csr_matrix,
    connected: csr_matrix,
    n_columns: int,
    rng: np.random.RandomState,
    *,
    in_plane: bool = False,
    in_blocks: bool = False,
) -> Floats:
    """Return the eigenvectors of the largest eigenvalues of D^-1/2 W D^-1/2, largest first.

    W is the graph with its components `connected`. Rows `in_plane`, of one or two columns, make a graph that is cheap
    to factorise. If `graph` itself has several components, their indicators are close to the wanted vectors, and a
    solver for blocks of vectors starts from them. `in_blocks` asks for it in any case.
    """
    n = graph.shape[0]
    scale = diags(1 / np.sqrt(np.asarray(connected.sum(1)).ravel()))
    L = (scale @ connected @ scale).tocsr()
    if n <= max(DENSE_ROWS, 5 * n_columns):
        return _largest_dense(L.toarray(), n_columns)
    component = connected_components(graph, directed=False)[1]
    try:
        if in_plane:
            return _largest_by_inverse(L, n_columns, rng)
        if component.max() == 0 and n_columns <= LANCZOS_COLUMNS and not in_blocks:
            return _largest_lanczos(L, n_columns, rng)
    except ArpackError:  # eigenvalues are too close to each other
        pass
    extra = rng.standard_normal((n, max(4, n_columns // 4)))  # speeds up convergence if eigenvalues are close
    return _largest_sparse(L, n_columns, np.hstack([_component_indicators(graph, component, n_columns, rng), extra]))


def _largest_lanczos(L: csr_matrix, n_columns: int, rng: np.random.RandomState) -> Floats:
    """Return the eigenvectors of the largest eigenvalues of L, by ARPACK: the fastest unless eigenvalues are equal.

    Single precision is far more exact than the tolerance, and takes half of the time.
    """
    start, n_vectors = rng.standard_normal(L.shape[0]).astype(np.float32), max(2 * n_columns + 10, 20)
    single = L.astype(np.float32)
    V = eigsh(single, n_columns, which="LA", v0=start, ncv=n_vectors, maxiter=MAX_RESTARTS, tol=LANCZOS_TOL)[1]
    largest: Floats = np.ascontiguousarray(V[:, ::-1], dtype=np.float64)
    return largest


def _largest_by_inverse(L: csr_matrix, n_columns: int, rng: np.random.RandomState) -> Floats:
    """Return the same by ARPACK on the inverse of 1 - L, whose eigenvalues are far apart, from its sparse factors."""
    M = ((1 + SHIFT) * identity(L.shape[0]) - L).tocsc()
    factors = splu(M, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    inverse, start = LinearOperator(M.shape, factors.solve, dtype=np.float64), rng.standard_normal(len(M.indptr) - 1)
    largest: Floats = np.ascontiguousarray(
        eigsh(inverse, n_columns, v0=start, ncv=2 * n_columns + 4, tol=LANCZOS_TOL)[1][:, ::-1]
    )
    return largest


def _largest_dense(L: Floats, n_columns: int) -> Floats:
    """Return the eigenvectors of the largest eigenvalues of a matrix, by LAPACK."""
    n = len(L)
    V = eigh(L, subset_by_index=(n - n_columns, n - 1), check_finite=False)[1]
    if V.shape[1] < n_columns:  # LAPACK's fast solver can fail if very many eigenvalues are equal
        V = eigh(L, driver="evd", check_finite=False)[1][:, -n_columns:]
    largest: Floats = V[:, ::-1].astype(np.float64)
    return largest


def _component_indicators(
    graph: csr_matrix, component: NDArray[np.integer], n_columns: int, rng: np.random.RandomState
) -> Floats:
    """Return the indicators of the largest components of a graph, and random columns if there are too few."""
    largest = np.argsort(-np.bincount(component), kind="stable")[:n_columns]
    guess: Floats = rng.standard_normal((graph.shape[0], n_columns))
    roots = np.sqrt(np.asarray(graph.sum(1)))
    guess[:, : len(largest)] = roots * (component[:, None] == largest)
    return guess


def _largest_sparse(L: csr_matrix, n_columns: int, start: Floats) -> Floats:
    """Return the eigenvectors of the largest eigenvalues of L, all of which are in [-1, 1], from a `start` near them.

    A polynomial that is small below the smallest Ritz value and grows fast above it amplifies the wanted vectors
    (Chebyshev filter); Rayleigh-Ritz takes the best vectors of the block, until their span converges.
    """
    V, wanted, floor, degree = start, start[:, :0], 0.5, FIRST_DEGREE
    for _ in range(MAX_ITER):
        growth = np.arccosh((3 - floor) / (1 + floor))  # the polynomial is cosh(degree x growth) at 1
        bounded = min(degree, max(2, int(np.arccosh(MAX_GROWTH) / growth)))
        V = np.ascontiguousarray(np.linalg.qr(_filtered(L, V, floor, bounded))[0])
        values, S = np.linalg.eigh(V.T @ (L @ V))
        V = V @ np.ascontiguousarray(S[:, ::-1])
        before, wanted = wanted, V[:, :n_columns]
        if n_columns - np.square(before.T @ wanted).sum() < TOL**2 * n_columns:
            break
        floor, degree = min(max(float(values[0]), 0.0), 1 - 1e-6), min(2 * degree, MAX_DEGREE)
    return wanted


def _filtered(L: csr_matrix, V: Floats, floor: float, degree: int) -> Floats:
    """Return T(L) V, with the Chebyshev polynomial T that is smallest on [-1, floor] and 1 at 1."""
    half, middle = (1 + floor) / 2, (floor - 1) / 2
    M = ((L - middle * identity(L.shape[0], format="csr")) / half).astype(np.float32)  # maps [-1, floor] to [-1, 1]
    top = (1 - middle) / half
    ratio = 1 / top
    old = V.astype(np.float32)
    new = np.float32(ratio) * (M @ old)
    for _ in range(degree - 1):
        next_ratio = 1 / (2 * top - ratio)
        step = M @ new
        step *= np.float32(2 * next_ratio)
        old *= np.float32(ratio * next_ratio)
        step -= old
        old, new, ratio = new, step, next_ratio
    filtered: Floats = new.astype(np.float64)
    return filtered
