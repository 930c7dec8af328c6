"""Encoders that compute with torch: a user's own module, and any network on a GPU."""

import copy
from typing import Self

import numpy as np
import torch
from numpy.typing import DTypeLike
from torch import nn

from knet.arrays import AnyArray, Floats
from knet.model.encoder import RowEncoder, RowMLP
from knet.train.networks import ResidualMLP


class TorchEncoder:
    """A trained network of torch as a function of arrays; gradients and dropout are switched off in it."""

    in_threads = False  # a user's module may not be entered twice at a time, and a GPU has threads of its own

    def __init__(self, net: nn.Module, device: torch.device) -> None:
        self.net, self.device = net.requires_grad_(False).eval(), device

    @property
    def kind(self) -> str:
        """What the model file calls it."""
        return "mlp" if isinstance(self.net, ResidualMLP) else "module"

    @torch.inference_mode()
    def __call__(self, Z: Floats) -> Floats:
        """Return the embedding of scaled rows."""
        Psi: Floats = self.net(torch.from_numpy(Z).to(self.device)).cpu().numpy()
        return Psi

    def astype(self, dtype: DTypeLike) -> Self:
        """Return the same encoder in another precision."""
        return type(self)(copy.deepcopy(self.net).to(torch_dtype(dtype)), self.device)

    def state(self) -> dict[str, AnyArray]:
        """Return the arrays by name."""
        return {name: value.cpu().contiguous().numpy() for name, value in self.net.state_dict().items()}


def torch_dtype(dtype: DTypeLike) -> torch.dtype:
    """Return the dtype of torch that has the same numbers."""
    return torch.from_numpy(np.empty(0, dtype)).dtype


def row_encoder(net: nn.Module, device: torch.device) -> RowMLP | TorchEncoder:
    """Return a trained network as a function of arrays; the default network becomes arrays itself, except on a GPU."""
    encoder = TorchEncoder(net, device)
    on_cpu = encoder.kind == "mlp" and device.type == "cpu"
    return RowMLP.from_state(encoder.state()) if on_cpu else encoder


def torch_network(encoder: RowEncoder) -> nn.Module:
    """Return a copy of an encoder as a network of torch, on the CPU."""
    if isinstance(encoder, TorchEncoder):
        return copy.deepcopy(encoder.net).cpu()
    state = {name: torch.from_numpy(value) for name, value in encoder.state().items()}
    sizes = [state[f"biases.{layer}"].shape[-1] for layer in range(sum(name.startswith("biases.") for name in state))]
    skip = torch.zeros_like(state["skip"])
    net = ResidualMLP(skip, hidden_layer_sizes=sizes[:-1], generator=torch.Generator())
    net.load_state_dict(state)
    return net


def on_device(encoder: RowEncoder, device: str) -> RowEncoder:
    """Return an encoder that computes on a device; the given one is not changed."""
    wanted = torch.device(device)
    if getattr(encoder, "device", torch.device("cpu")) == wanted:
        return encoder
    return row_encoder(torch_network(encoder).to(wanted), wanted)
