"""Encoder and decoder before the first step: identity, pre-trained, or the user's own."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from knet._math.threads import one_thread
from knet._network.mlp import Copies, Encoder, ResidualMLP, linear_start
from knet._network.pretrain import pretrain


@dataclass(frozen=True)
class Networks:
    """The two halves of the autoencoder; the decoder is None if nothing is reconstructed."""

    encoder: Encoder
    decoder: nn.Module | None = None


def build_networks(
    X: Tensor,
    *,
    n_components: int,
    hidden_layer_sizes: Sequence[int],
    init: str,
    module: nn.Module | None,
    n_restarts: int,
    with_decoder: bool,
    generator: torch.Generator,
) -> Networks:
    """Return both networks before the first step: identity by construction, pre-trained [INIT], or the user's own."""
    make = partial(ResidualMLP, hidden_layer_sizes=hidden_layer_sizes, n_restarts=n_restarts, generator=generator)
    if module is not None:
        copies = Copies([copy.deepcopy(module).to(X) for _ in range(n_restarts)])
        if not with_decoder:
            return Networks(copies)
        with torch.no_grad():
            n_components = copies(X[:2]).shape[-1]
        return Networks(copies, make(X.new_zeros(n_components, X.shape[1]), zero_last=False).to(X.device))
    P = linear_start(X, n_components)
    back = P.mT.contiguous()
    if init == "identity":
        return Networks(make(P).to(X.device), make(back).to(X.device) if with_decoder else None)
    encoder = make(torch.zeros_like(P), zero_last=False).to(X.device)
    decoder = make(torch.zeros_like(back), zero_last=False).to(X.device)
    with one_thread():  # the batches are small: on a busy machine, threads would wait for each other in every step
        pretrain(encoder, decoder, X, P, n_restarts=n_restarts, generator=generator)
    return Networks(encoder, decoder if with_decoder else None)
