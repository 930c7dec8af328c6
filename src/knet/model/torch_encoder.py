"""Encoders that compute with torch: a user's own module, and the default network on a GPU or as a graph for ONNX."""

import copy
from collections.abc import Mapping
from typing import Self

import numpy as np
import torch
from numpy.typing import DTypeLike
from torch import Tensor, nn

from knet.arrays import AnyArray, Floats
from knet.model.encoder import RowEncoder, RowMLP


class TorchMLP(nn.Module):
    """The default network, psi(x) = x P + g(x), as a module of torch."""

    def __init__(self, mlp: RowMLP) -> None:
        super().__init__()
        self.register_buffer("skip", torch.tensor(mlp.skip))
        self.weights, self.biases = (
            nn.ParameterList([torch.tensor(array) for array in arrays]) for arrays in (mlp.weights, mlp.biases)
        )

    def forward(self, X: Tensor) -> Tensor:
        """Map rows, (n, d), to (n, d')."""
        H = X
        for W, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            H = torch.relu(torch.addmm(b, H, W))
        return torch.addmm(self.biases[-1], H, self.weights[-1]) + X @ self.get_buffer("skip")


class TorchEncoder:
    """A trained network of torch as a function of arrays; gradients and dropout are switched off in it."""

    in_threads = False  # a user's module may not be entered twice at a time, and a GPU has threads of its own

    def __init__(self, net: nn.Module, device: torch.device) -> None:
        self.net, self.device = net.requires_grad_(False).eval(), device

    @classmethod
    def of(cls, module: nn.Module, state: Mapping[str, AnyArray], dtype: DTypeLike) -> Self:
        """Return a copy of a module with the weights of a model file, on the CPU."""
        net = copy.deepcopy(module).cpu().to(torch_dtype(dtype))
        net.load_state_dict({name: torch.tensor(value) for name, value in state.items()})
        return cls(net, torch.device("cpu"))

    @property
    def kind(self) -> str:
        """What the model file calls it."""
        return "mlp" if isinstance(self.net, TorchMLP) else "module"

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


def torch_network(encoder: RowEncoder) -> nn.Module:
    """Return a copy of an encoder as a network of torch, on the CPU."""
    return TorchMLP(encoder) if isinstance(encoder, RowMLP) else copy.deepcopy(encoder.net).cpu()


def on_device(encoder: RowEncoder, device: str) -> RowEncoder:
    """Return an encoder that computes on a device; the given one is not changed."""
    wanted = torch.device(device)
    if getattr(encoder, "device", torch.device("cpu")) == wanted:
        return encoder
    moved = TorchEncoder(torch_network(encoder).to(wanted), wanted)
    return RowMLP.from_state(moved.state()) if moved.kind == "mlp" and wanted.type == "cpu" else moved
