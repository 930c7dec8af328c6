"""Gaussian kernels, their degrees, centring, and the gradient of the objective: pure functions of arrays.

The centring matrix H and the degree matrix D of the paper are never formed: H is the function `center`, D is the vector
`d`. Labels in brackets are defined in ``docs/theory.md``.
"""

import numpy as np

from knet.arrays import LOG_FLOOR, Floats, row_blocks
from knet.threads import in_threads

BLOCK_VALUES = 2**20  # values of a block of kernel rows, which should stay in a cache


def gaussian_kernel(X: Floats, Y: Floats, sigma: float) -> Floats:
    """Return exp(-||x_i - y_j||^2 / (2 sigma^2)) for all pairs, (n, m) [HSIC]."""
    shift = Y.mean(0)  # far-away data loses no digits
    X, Y = (X - shift) / sigma, (Y - shift) / sigma
    return _exponential(X @ Y.T, X, Y)


def _exponential(products: Floats, X: Floats, Y: Floats) -> Floats:
    """Return exp(x_i . y_j - ||x_i||^2 / 2 - ||y_j||^2 / 2) in place of the products."""
    products -= _half_squares(X)[:, None]
    products -= _half_squares(Y)
    np.clip(products, LOG_FLOOR, 0, out=products)
    return np.exp(products, out=products)


def _half_squares(X: Floats) -> Floats:
    """Return ||x_i||^2 / 2, (n,)."""
    halves: Floats = np.square(X).sum(1) / 2
    return halves


def kernel_matmul(X: Floats, Y: Floats, V: Floats, sigma: float, block_values: int = BLOCK_VALUES) -> Floats:
    """Return K(X, Y) V from blocks of kernel rows, so that memory is linear in the number of rows."""
    out = np.empty((len(X), V.shape[1]), dtype=V.dtype)

    def fill(rows: slice) -> None:
        out[rows] = gaussian_kernel(X[rows], Y, sigma).astype(V.dtype, copy=False) @ V

    in_threads(fill, row_blocks(len(X), len(Y), block_values))
    return out


def degrees(X: Floats, sigma: float, block_values: int = BLOCK_VALUES) -> Floats:
    """Return d = K 1, the diagonal of D, in row blocks; each entry is at least 1 [DEGREE]."""
    ones = np.ones((len(X), 1), dtype=X.dtype)
    d: Floats = np.maximum(kernel_matmul(X, X, ones, sigma, block_values)[:, 0], 1.0)
    return d


def center(M: Floats) -> Floats:
    """Return H M H, the doubly centred matrix [HSIC]: every row and column of the result sums to zero."""
    columns = M.mean(0)
    centered: Floats = M - columns
    centered -= (M.mean(1) - columns.mean())[:, None]
    return centered


def center_rows(V: Floats) -> Floats:
    """Return H V: every column of the result sums to zero."""
    centered: Floats = V - V.mean(0)
    return centered


def pair_weights(U: Floats, d: Floats) -> Floats:
    """Return B = D^-1/2 H U, (n, c), the low-rank root of the pair weights Gamma = B B' [CLUMP]."""
    return center_rows(U) / np.sqrt(d)[:, None]


def clump_gradient(Psi: Floats, B: Floats, sigma: float) -> Floats:
    """Return the gradient of [CLUMP] in Psi, with B constant."""
    Z, K = _embedding_kernel(Psi, sigma)
    return _weighted_gradient(Z, np.multiply(B @ B.T, K, out=K), sigma)


def clump_gradient_through_degrees(Psi: Floats, HU: Floats, sigma: float, share: float) -> Floats:
    """Return the gradient in Psi of tr(HU' D^-1/2 K D^-1/2 HU), with D from the rows given [DEGREE].

    Each row represents `share` rows. A change of K_ij changes the degree d_i as well, by `share`.
    """
    Z, K = _embedding_kernel(Psi, sigma)
    d = share * K.sum(1)
    B = HU / np.sqrt(d)[:, None]
    gamma = B @ B.T
    by_degree = share * (gamma * K).sum(1) / d
    gamma -= (by_degree[:, None] + by_degree) / 2
    return _weighted_gradient(Z, np.multiply(gamma, K, out=K), sigma)


def _embedding_kernel(Psi: Floats, sigma: float) -> tuple[Floats, Floats]:
    """Return the embedding in units of the width, and its kernel."""
    Z = center_rows(Psi)
    Z /= sigma
    return Z, _exponential(Z @ Z.T, Z, Z)


def _weighted_gradient(Z: Floats, M: Floats, sigma: float) -> Floats:
    """Return the gradient (2 / sigma^2) sum_j M_ij (psi_j - psi_i) for weights M_ij = Gamma_ij K_ij."""
    slope: Floats = M @ Z
    slope -= M.sum(1)[:, None] * Z
    slope *= 2 / sigma
    return slope
