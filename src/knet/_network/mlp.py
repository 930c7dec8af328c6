"""Encoders that start as a chosen linear map.

Several restarts are trained side by side: every weight has a leading axis of restarts, and a network maps rows of
shape (n, d), shared by all restarts, or (restarts, n, d) to (restarts, n, d').
"""

import copy
import math
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

SMALL = 1e-3  # share of the usual initial weights, for columns of the embedding that start empty


class ResidualMLP(nn.Module):
    """psi(x) = x P + g(x), with g a ReLU network; exactly x P before the first step if the last layer of g is zero.

    Columns that P leaves empty are initialised near zero instead: from zero no gradient would ever reach them.

    Parameters
    ----------
    skip : Tensor of shape (d, d')
        The fixed linear map P. Zero gives the plain network of the paper.
    hidden_layer_sizes : sequence of int
        Units of each hidden layer of g.
    n_restarts : int
        Number of independent copies.
    generator : torch.Generator
        Source of the initial weights.
    zero_last : bool
        Whether g starts as zero, or near zero in the columns that P leaves empty.
    """

    skip: Tensor

    def __init__(
        self,
        skip: Tensor,
        *,
        hidden_layer_sizes: Sequence[int],
        n_restarts: int,
        generator: torch.Generator,
        zero_last: bool = True,
    ) -> None:
        super().__init__()
        self.register_buffer("skip", skip)
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        sizes = [skip.shape[0], *hidden_layer_sizes, skip.shape[1]]
        for n_in, n_out in pairwise(sizes):
            for shape, params in (((n_in, n_out), self.weights), ((1, n_out), self.biases)):
                noise = torch.rand(n_restarts, *shape, generator=generator, dtype=torch.float64)
                params.append(nn.Parameter(((2 * noise - 1) / math.sqrt(n_in)).to(skip.dtype)))
        if zero_last:
            empty = (skip == 0).all(0).to(skip.dtype)
            with torch.no_grad():
                self.weights[-1].mul_(SMALL * empty)
            nn.init.zeros_(self.biases[-1])

    def forward(self, X: Tensor) -> Tensor:
        """Map rows, (n, d) or (restarts, n, d), to (restarts, n, d')."""
        H = X.expand(len(self.weights[0]), *X.shape[-2:])
        for W, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            H = torch.baddbmm(b, H, W).relu_()
        return torch.baddbmm(self.biases[-1], H, self.weights[-1]).add_(X @ self.skip)

    def restart(self, index: int) -> "ResidualMLP":
        """Return restart `index` as a network of its own."""
        chosen = copy.deepcopy(self)
        for params in (chosen.weights, chosen.biases):
            for i, param in enumerate(params):
                params[i] = nn.Parameter(param.detach()[index : index + 1].clone())
        return chosen


class Copies(nn.Module):
    """A user's own module, copied once per restart; the copies differ by their batches."""

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        super().__init__()
        self.copies = nn.ModuleList(modules)

    def forward(self, X: Tensor) -> Tensor:
        """Map rows, (n, d) or (restarts, n, d), to (restarts, n, d')."""
        shared = X.expand(len(self.copies), *X.shape[-2:])
        return torch.stack([module(rows) for module, rows in zip(self.copies, shared, strict=True)])

    def restart(self, index: int) -> "Copies":
        """Return restart `index` as a network of its own."""
        return Copies([self.copies[index]])


Encoder = ResidualMLP | Copies


def linear_start(X: Tensor, n_components: int) -> Tensor:
    """Return P, (d, d'), the linear map that an encoder starts from.

    The identity for d' = d; the identity with empty columns appended for d' > d, which keeps all distances; the
    leading principal directions of X for d' < d, which keep the most of the squared distances.
    """
    n_features = X.shape[1]
    if n_components >= n_features:
        return torch.eye(n_features, n_components, dtype=X.dtype, device=X.device)
    centered = (X - X.mean(0)).cpu().double()  # some devices have no double precision
    _, directions = torch.linalg.eigh(centered.mT @ centered)
    P = directions.flip(1)[:, :n_components]
    largest = P.gather(0, P.abs().argmax(0, keepdim=True))  # fixed signs: the same map on every machine
    signed: Tensor = P * largest.sign()
    return signed.to(X)
