"""The paper's formulas as printed, with every matrix formed and nothing of the package: tests compare it with them.

The last one is the default network in operations of torch, whose autograd is compared with the written-out gradients.

Labels in brackets are defined in ``docs/theory.md``.
"""

import numpy as np
import torch
from torch import nn


def kernel(X, Y, sigma):
    """Return exp(-||x_i - y_j||^2 / (2 sigma^2)) for all pairs."""
    return np.exp(-((X[:, None, :] - Y[None, :, :]) ** 2).sum(-1) / (2 * sigma**2))


def centering(n):
    """Return H = I - 1 1' / n."""
    return np.eye(n) - np.ones((n, n)) / n


def inverse_root_degrees(K):
    """Return D^-1/2, a diagonal matrix, with d_i = sum_j K_ij [DEGREE]."""
    return np.diag(K.sum(1) ** -0.5)


def normalized(K):
    """Return K_tilde = D^-1/2 K D^-1/2 [HSIC]."""
    root = inverse_root_degrees(K)
    return root @ K @ root


def alignment(K_tilde, U):
    """Return tr(K_tilde H K_U H) with K_U = U U'; in [0, c] when U'U = I [HSIC]."""
    H = centering(len(U))
    return float(np.trace(K_tilde @ H @ (U @ U.T) @ H))


def hsic(K_tilde, U):
    """Return tr(K_tilde H K_U H) / (N - 1)^2 [HSIC]."""
    return alignment(K_tilde, U) / (len(U) - 1) ** 2


def pair_weights(K, U):
    """Return Gamma = D^-1/2 H U U' H D^-1/2 [CLUMP]."""
    root, H = inverse_root_degrees(K), centering(len(U))
    return root @ H @ U @ U.T @ H @ root


def clump(Psi, B, sigma):
    """Return sum_ij Gamma_ij exp(-||psi_i - psi_j||^2 / (2 sigma^2)) with Gamma = B B' [CLUMP]."""
    return float(((B @ B.T) * kernel(Psi, Psi, sigma)).sum())


def cayley(U, G, step):
    """Return (I - step/2 A)^-1 (I + step/2 A) U with A = G U' - U G', by the inverse of an N x N matrix [U-SMA]."""
    A, eye = G @ U.T - U @ G.T, np.eye(len(U))
    return np.linalg.inv(eye - step / 2 * A) @ (eye + step / 2 * A) @ U


class TorchTwin(nn.Module):
    """The network in plain operations of torch, for autograd: the oracle of what is written out by hand."""

    def __init__(self, net):
        super().__init__()
        self.skip = torch.tensor(net.skip)
        self.weights, self.biases = (
            nn.ParameterList([torch.tensor(array) for array in arrays]) for arrays in (net.weights, net.biases)
        )

    def forward(self, X):
        H = X
        for W, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            H = torch.relu(H @ W + b)
        return H @ self.weights[-1] + self.biases[-1] + X @ self.skip
