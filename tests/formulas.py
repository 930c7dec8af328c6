"""The paper's formulas as printed, to compare the package with."""

import torch

from knet.train.kernels import center_rows, gaussian_kernel
from knet.train.u_steps import cayley_coordinates


def alignment(K_tilde, U):
    """Return tr(K_tilde H U U' H), the part of HSIC that depends on the data; in [0, c] when U'U = I [HSIC]."""
    HU = center_rows(U)
    return (HU * (K_tilde @ HU)).sum((-2, -1))


def hsic(K_tilde, U):
    """Return the empirical HSIC between the normalised kernel K_tilde and the linear kernel of U [HSIC]."""
    return alignment(K_tilde, U) / (U.shape[-2] - 1) ** 2


def clump(Psi, B, sigma):
    """Return sum_ij Gamma_ij exp(-||psi_i - psi_j||^2 / (2 sigma^2)) with Gamma = B B' [CLUMP]."""
    return (B * (gaussian_kernel(Psi, Psi, sigma) @ B)).sum((-2, -1))


def cayley(U, G, step):
    """Return the point at `step` on the Cayley curve from U along G [U-SMA]."""
    return U + step * torch.cat([G, U], dim=1) @ cayley_coordinates(U, G, step)
