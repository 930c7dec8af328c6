"""Encoder and decoder: networks that start as a chosen linear map, pre-trained ones, and the user's own."""

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn

from knet.prepare.projection import principal_directions
from knet.threads import one_thread
from knet.train.pretrain import pretrain

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
        generator: torch.Generator,
        zero_last: bool = True,
    ) -> None:
        super().__init__()
        self.register_buffer("skip", skip)
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        for n_in, n_out in pairwise([skip.shape[0], *hidden_layer_sizes, skip.shape[1]]):
            for shape, params in (((n_in, n_out), self.weights), ((n_out,), self.biases)):
                noise = torch.rand(*shape, generator=generator, dtype=torch.float64)
                params.append(nn.Parameter(((2 * noise - 1) / math.sqrt(n_in)).to(skip.dtype)))
        if zero_last:
            empty = (skip == 0).all(0).to(skip.dtype)
            with torch.no_grad():
                self.weights[-1].mul_(SMALL * empty)
            nn.init.zeros_(self.biases[-1])

    def forward(self, X: Tensor) -> Tensor:
        """Map rows, (n, d), to (n, d')."""
        return torch.addmm(self.biases[-1], self._hidden(X), self.weights[-1]).add_(X @ self.skip)

    @torch.no_grad()
    def regress(self, X: Tensor, G: Tensor, ridge: float) -> None:
        """Set the last layer so that g(X) is as near to G as possible, by ridge regression."""
        H = nn.functional.pad(self._hidden(X), (0, 1), value=1.0)
        gram = (H.mT @ H).double()
        gram.diagonal().add_(ridge * gram.diagonal().mean())
        last = torch.linalg.solve(gram, (H.mT @ G).double())
        self.weights[-1].copy_(last[:-1])
        self.biases[-1].copy_(last[-1])

    def _hidden(self, X: Tensor) -> Tensor:
        """Return the last hidden layer."""
        H = X
        for W, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            H = torch.addmm(b, H, W).relu_()
        return H


@dataclass(frozen=True)
class Networks:
    """The two halves of the autoencoder; the decoder is None if nothing is reconstructed."""

    encoder: nn.Module
    decoder: nn.Module | None = None


def build_networks(
    X: Tensor,
    generator: torch.Generator,
    *,
    n_components: int,
    hidden_layer_sizes: Sequence[int],
    init: str,
    module: nn.Module | None,
    with_decoder: bool,
) -> Networks:
    """Return both networks before the first step: identity by construction, pre-trained [INIT], or the user's own."""
    make = partial(ResidualMLP, hidden_layer_sizes=hidden_layer_sizes, generator=generator)
    if module is not None:
        own = copy.deepcopy(module).to(X)
        if not with_decoder:
            return Networks(own)
        with torch.no_grad():
            n_components = own(X[:2]).shape[-1]
        return Networks(own, make(X.new_zeros(n_components, X.shape[1]), zero_last=False).to(X.device))
    P = linear_start(X, n_components)
    back = P.mT.contiguous()
    if init == "identity":
        return Networks(make(P).to(X.device), make(back).to(X.device) if with_decoder else None)
    encoder = make(torch.zeros_like(P), zero_last=False).to(X.device)
    decoder = make(torch.zeros_like(back), zero_last=False).to(X.device)
    with one_thread():  # the batches are small: on a busy machine, threads would wait for each other in every step
        pretrain(encoder, decoder, X, P, generator=generator)
    return Networks(encoder, decoder if with_decoder else None)


def linear_start(X: Tensor, n_components: int) -> Tensor:
    """Return P, (d, d'), the linear map that an encoder starts from.

    The identity for d' = d; the identity with empty columns appended for d' > d, which keeps all distances; the
    leading principal directions of X for d' < d, which keep the most of the squared distances.
    """
    n_features = X.shape[1]
    if n_components >= n_features:
        return torch.eye(n_features, n_components, dtype=X.dtype, device=X.device)
    rows = X.cpu().double().numpy()
    directions, _ = principal_directions(rows, rows.mean(0), n_components, np.random.RandomState(0))
    return torch.from_numpy(directions).to(X)
