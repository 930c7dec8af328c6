"""The paper's formulas as printed, with every matrix formed and nothing of the package: tests compare it with them.

Labels in brackets are defined in ``docs/theory.md``. Leading axes are allowed, except in `cayley`.
"""

import torch


def kernel(X, Y, sigma):
    """Return exp(-||x_i - y_j||^2 / (2 sigma^2)) for all pairs."""
    return torch.exp(-((X[..., :, None, :] - Y[..., None, :, :]) ** 2).sum(-1) / (2 * sigma**2))


def centering(n):
    """Return H = I - 1 1' / n."""
    return torch.eye(n, dtype=torch.float64) - torch.ones(n, n, dtype=torch.float64) / n


def inverse_root_degrees(K):
    """Return D^-1/2, a diagonal matrix, with d_i = sum_j K_ij [DEGREE]."""
    return torch.diag_embed(K.sum(-1) ** -0.5)


def normalized(K):
    """Return K_tilde = D^-1/2 K D^-1/2 [HSIC]."""
    root = inverse_root_degrees(K)
    return root @ K @ root


def alignment(K_tilde, U):
    """Return tr(K_tilde H K_U H) with K_U = U U'; in [0, c] when U'U = I [HSIC]."""
    H = centering(U.shape[-2])
    product = K_tilde @ H @ (U @ U.mT) @ H
    return torch.diagonal(product, dim1=-2, dim2=-1).sum(-1)


def hsic(K_tilde, U):
    """Return tr(K_tilde H K_U H) / (N - 1)^2 [HSIC]."""
    return alignment(K_tilde, U) / (U.shape[-2] - 1) ** 2


def pair_weights(K, U):
    """Return Gamma = D^-1/2 H U U' H D^-1/2 [CLUMP]."""
    root, H = inverse_root_degrees(K), centering(U.shape[-2])
    return root @ H @ U @ U.mT @ H @ root


def clump(Psi, B, sigma):
    """Return sum_ij Gamma_ij exp(-||psi_i - psi_j||^2 / (2 sigma^2)) with Gamma = B B' [CLUMP]."""
    return ((B @ B.mT) * kernel(Psi, Psi, sigma)).sum((-2, -1))


def cayley(U, G, step):
    """Return (I - step/2 A)^-1 (I + step/2 A) U with A = G U' - U G', by the inverse of an N x N matrix [U-SMA]."""
    A, eye = G @ U.mT - U @ G.mT, torch.eye(len(U), dtype=U.dtype)
    return torch.linalg.inv(eye - step / 2 * A) @ (eye + step / 2 * A) @ U
