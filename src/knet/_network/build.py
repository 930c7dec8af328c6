"""Encoder and decoder before the first step: identity, pre-trained, or the user's own."""

import copy
from functools import partial

import torch
from torch import Tensor, nn

from knet._network.mlp import Copies, Encoder, ResidualMLP, linear_start
from knet._network.pretrain import pretrain


def build_networks(
    X: Tensor,
    *,
    n_components: int | None,
    width: int,
    depth: int,
    start: str,
    module: nn.Module | None,
    n_restarts: int,
    with_decoder: bool,
    generator: torch.Generator,
) -> tuple[Encoder, nn.Module | None]:
    """Return encoder and decoder at their start: identity by construction, pre-trained [INIT], or the user's own."""
    make = partial(ResidualMLP, width=width, depth=depth, n_restarts=n_restarts, generator=generator)
    if module is not None:
        copies = Copies([copy.deepcopy(module).to(X) for _ in range(n_restarts)])
        if not with_decoder:
            return copies, None
        with torch.no_grad():
            n_components = copies(X[:2]).shape[-1]
        return copies, make(X.new_zeros(n_components, X.shape[1]), zero_last=False).to(X.device)
    P = linear_start(X, n_components or X.shape[1])
    back = P.mT.contiguous()
    if start == "identity":
        return make(P).to(X.device), make(back).to(X.device) if with_decoder else None
    encoder = make(torch.zeros_like(P), zero_last=False).to(X.device)
    decoder = make(torch.zeros_like(back), zero_last=False).to(X.device)
    pretrain(encoder, decoder, X, P, n_restarts=n_restarts, generator=generator)
    return encoder, decoder if with_decoder else None
