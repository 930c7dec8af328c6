"""Gaussian kernels, their degrees, centring, and the gradient of the objective: pure functions of tensors.

The centring matrix H and the degree matrix D of the paper are never formed: H is the function `center`, D is the vector
`d`. Labels in brackets are defined in ``docs/theory.md``.
"""

from torch import Tensor

from knet.arrays import LOG_FLOOR, row_blocks
from knet.threads import in_threads

BLOCK_VALUES = 2**20  # values of a block of kernel rows, which should stay in a cache


def gaussian_kernel(X: Tensor, Y: Tensor, sigma: float) -> Tensor:
    """Return exp(-||x_i - y_j||^2 / (2 sigma^2)) for all pairs, (n, m) [HSIC]."""
    shift = Y.mean(-2, keepdim=True)
    X, Y = (X - shift).div_(sigma), (Y - shift).div_(sigma)
    exponents = (X @ Y.mT).sub_(_half_squares(X)).sub_(_half_squares(Y).mT)
    return exponents.clamp_(LOG_FLOOR, 0).exp_()


def _half_squares(X: Tensor) -> Tensor:
    """Return ||x_i||^2 / 2, (n, 1)."""
    return X.square().sum(-1, keepdim=True).mul_(0.5)


def kernel_matmul(X: Tensor, Y: Tensor, V: Tensor, sigma: float, block_values: int = BLOCK_VALUES) -> Tensor:
    """Return K(X, Y) V from blocks of kernel rows, so that memory is linear in the number of rows."""
    out = V.new_empty(X.shape[0], V.shape[1])

    def fill(rows: slice) -> None:
        out[rows] = gaussian_kernel(X[rows], Y, sigma).to(V.dtype) @ V

    in_threads(fill, row_blocks(X.shape[0], Y.shape[0], block_values))
    return out


def degrees(X: Tensor, sigma: float, block_values: int = BLOCK_VALUES) -> Tensor:
    """Return d = K 1, the diagonal of D, in row blocks; each entry is at least 1 [DEGREE]."""
    return kernel_matmul(X, X, X.new_ones(X.shape[0], 1), sigma, block_values).squeeze(1).clamp_min(1.0)


def center(M: Tensor) -> Tensor:
    """Return H M H, the doubly centred matrix [HSIC]: every row and column of the result sums to zero."""
    return center_rows(center_rows(M).mT).mT


def center_rows(V: Tensor) -> Tensor:
    """Return H V: every column of the result sums to zero."""
    return V - V.mean(-2, keepdim=True)


def pair_weights(U: Tensor, d: Tensor) -> Tensor:
    """Return B = D^-1/2 H U, (n, c), the low-rank root of the pair weights Gamma = B B' [CLUMP]."""
    return center_rows(U) * d.rsqrt()[..., None]


def clump_gradient(Psi: Tensor, B: Tensor, sigma: float) -> Tensor:
    """Return the gradient of [CLUMP] in Psi, with B constant.

    With M_ij = Gamma_ij K_ij the gradient at row i is (2 / sigma^2) sum_j M_ij (psi_j - psi_i).
    """
    Z = center_rows(Psi).div_(sigma)  # far-away data loses no digits
    halves = _half_squares(Z)
    K = (Z @ Z.mT).sub_(halves).sub_(halves.mT).clamp_(LOG_FLOOR, 0).exp_()
    M = (B @ B.mT).mul_(K)
    return (M @ Z).sub_(M.sum(-1, keepdim=True) * Z).mul_(2 / sigma)
