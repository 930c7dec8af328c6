"""The largest eigenpairs of an operator that is known by its products, and orthonormal bases."""

import warnings
from collections.abc import Callable

import numpy as np
import torch
from scipy.sparse.linalg import lobpcg
from torch import Tensor

TOL = 1e-7  # length of L v - w v at which an eigenpair (w, v) counts as found
MAX_PRODUCTS = 150  # after that many products the solver stops, converged or not


def largest_eigenpairs(
    multiply: Callable[[Tensor], Tensor], like: Tensor, n_columns: int, start: Tensor | None = None
) -> tuple[Tensor, Tensor, bool]:
    """Return the largest eigenvalues, descending, their eigenvectors, and whether the solver has converged.

    SciPy's LOBPCG works on all columns at once, so that one pass over the operator serves them all, and it gains from
    a `start` near the eigenvectors: in Algorithm 1, that is the last U.

    Parameters
    ----------
    multiply : callable
        Returns the product of the symmetric operator with the columns of a tensor.
    like : Tensor of shape (n,)
        Tells the size, dtype and device.
    n_columns : int
        The number of eigenpairs.
    start : Tensor of shape (n, n_columns), optional
        A guess; without it a fixed random start is used, so that a fit repeats to the bit.
    """

    def product(V: np.ndarray) -> np.ndarray:
        return multiply(torch.from_numpy(np.ascontiguousarray(V)).to(like)).cpu().numpy()

    noise = np.random.default_rng(0).standard_normal((len(like), n_columns))
    guess = noise if start is None else start.cpu().numpy().copy()  # LOBPCG overwrites it
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # it warns if it has not converged
        values, vectors, residuals = lobpcg(
            product, guess, tol=TOL, maxiter=MAX_PRODUCTS, largest=True, retResidualNormsHistory=True
        )
    order = np.argsort(-values)
    U = orthonormalize(torch.from_numpy(vectors[:, order]).to(like))
    return torch.from_numpy(values[order]).to(like), U, bool(np.max(residuals[-1]) < TOL)


def orthonormalize(U: Tensor) -> Tensor:
    """Return the orthonormal basis nearest to U, which removes accumulated rounding."""
    left, _, right = torch.linalg.svd(U, full_matrices=False)
    nearest: Tensor = left @ right
    return nearest
