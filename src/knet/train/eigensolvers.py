"""The largest eigenpairs of a matrix, or of an operator that is known by its products, and orthonormal bases."""

import warnings
from collections.abc import Callable

import numpy as np
from scipy.linalg import eigh
from scipy.sparse.linalg import ArpackError, eigsh, lobpcg

from knet.arrays import Floats

TOL = 1e-7  # length of L v - w v at which an eigenpair (w, v) counts as found
TIGHT, MAX_RESTARTS = 1e-10, 20  # of ARPACK: relative error of an eigenvalue
SPARE_VECTORS = 4  # of ARPACK, beyond two for each eigenpair: from a start near them, few are enough
MAX_PRODUCTS = 150  # after that many products the solver stops, converged or not


def largest_of_matrix(M: Floats, n_columns: int) -> tuple[Floats, Floats]:
    """Return the largest eigenvalues of a symmetric matrix, descending, and their eigenvectors, by LAPACK."""
    n, n_found = len(M), max(1, min(n_columns, len(M)))
    values, vectors = eigh(M, subset_by_index=(n - n_found, n - 1), check_finite=False)
    if len(values) < n_found:  # the fast solver can fail if very many eigenvalues are equal
        values, vectors = eigh(M, driver="evd", check_finite=False)
    return values[::-1][:n_columns], vectors[:, ::-1][:, :n_columns]


def largest_from_start(M: Floats, start: Floats) -> tuple[Floats, Floats] | None:
    """Return the largest eigenpairs of a small matrix by ARPACK, which starts near them, or None if it misses some.

    It can miss some of several equal eigenvalues, those of separated groups. The trace of `start` is larger then.
    """
    k = start.shape[1]
    options = {"ncv": 2 * k + SPARE_VECTORS, "maxiter": MAX_RESTARTS, "tol": TIGHT}
    try:
        values, vectors = eigsh(M, k, which="LA", v0=start.sum(1), **options)
    except ArpackError:
        return None
    if values.sum() < (start * (M @ start)).sum() - TOL:
        return None
    return values[::-1], vectors[:, ::-1]


def largest_eigenpairs(
    multiply: Callable[[Floats], Floats], n_rows: int, n_columns: int, start: Floats | None = None
) -> tuple[Floats, Floats, bool]:
    """Return the largest eigenvalues, descending, their eigenvectors, and whether the solver has converged.

    SciPy's LOBPCG works on all columns at once, so that one pass over the operator serves them all, and it gains from
    a `start` near the eigenvectors: in Algorithm 1, that is the last U.

    Parameters
    ----------
    multiply : callable
        Returns the product of the symmetric operator with the columns of an array.
    n_rows, n_columns : int
        The size of the operator, and the number of eigenpairs.
    start : ndarray of shape (n_rows, n_columns), optional
        A guess; without it a fixed random start is used, so that a fit repeats to the bit.
    """
    noise = np.random.default_rng(0).standard_normal((n_rows, n_columns))
    guess = noise if start is None else start.copy()  # LOBPCG overwrites it
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it warns if it has not converged
        values, vectors, residuals = lobpcg(
            multiply, guess, tol=TOL, maxiter=MAX_PRODUCTS, largest=True, retResidualNormsHistory=True
        )
    order = np.argsort(-values)
    return values[order], orthonormalize(vectors[:, order]), bool(np.max(residuals[-1]) < TOL)


def orthonormalize(U: Floats) -> Floats:
    """Return the orthonormal basis nearest to U, which removes accumulated rounding."""
    left, _, right = np.linalg.svd(U, full_matrices=False)
    nearest: Floats = left @ right
    return nearest
