"""A user's own encoder, a module of torch, with the methods that training needs."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

import numpy as np
import torch
from torch import nn

from knet.arrays import Floats
from knet.train.host import resolve_device


class OwnEncoder:
    """A copy of a module, with its weights and their gradient, from autograd, in flat arrays.

    Parameters
    ----------
    module : nn.Module
        Maps rows, (n, d), to (n, d'); it is not changed.
    device : str or torch.device
        Where it computes.
    rows : ndarray of shape (n, d)
        A few rows: lazy layers get their sizes from them, and the embedding and the weights their dtype.
    """

    def __init__(self, module: nn.Module, device: object, rows: Floats) -> None:
        self.device, self.dtype = resolve_device(device), rows.dtype
        self.module = copy.deepcopy(module).to(self.device, torch.from_numpy(rows[:0]).dtype)
        self(rows)
        self._take()

    def _take(self) -> None:
        """Copy the weights of the module."""
        self.parameters = [param for param in self.module.parameters() if param.requires_grad]
        self.theta = self._flat([param.detach() for param in self.parameters])
        self.gradient = np.zeros_like(self.theta)

    def _flat(self, tensors: list[torch.Tensor]) -> Floats:
        pieces = [tensor.cpu().numpy().ravel() for tensor in tensors]
        return np.concatenate(pieces or [np.empty(0)]).astype(self.dtype)

    def copy(self) -> Self:
        """Return the same encoder with weights of its own."""
        twin = copy.copy(self)
        twin.module = copy.deepcopy(self.module)
        twin._take()
        return twin

    @torch.no_grad()
    def __call__(self, X: Floats) -> Floats:
        """Map rows, (n, d), to (n, d')."""
        return self._array(self.module.eval()(self._tensor(X)))

    def forward(self, X: Floats) -> Floats:
        """Map rows in training mode, and record the operations."""
        with torch.enable_grad():
            self.input = self._tensor(X).requires_grad_()
            self.output: torch.Tensor = self.module.train()(self.input)
        return self._array(self.output.detach())

    def backward(self, slope: Floats) -> None:
        """Fill `gradient` from the gradient in the output, once per `forward`."""
        if not self.parameters:  # autograd refuses to look for nothing
            return
        slopes = self._tensor(slope)
        found = torch.autograd.grad(self.output, self.parameters, slopes, allow_unused=True, materialize_grads=True)
        self.gradient[...] = self._flat(list(found))

    @torch.no_grad()
    def store(self) -> None:
        """Write changed values of `theta` into the module."""
        start = 0
        for param in self.parameters:
            values = self.theta[start : start + param.numel()].reshape(param.shape)
            param.copy_(torch.from_numpy(values))
            start += param.numel()

    def _tensor(self, X: Floats) -> torch.Tensor:
        return torch.tensor(X, device=self.device)

    def _array(self, Psi: torch.Tensor) -> Floats:
        embedded: Floats = Psi.cpu().numpy().astype(self.dtype, copy=False)
        return embedded


@contextmanager
def seeded_torch(seed: int) -> Iterator[None]:
    """Seed torch, for modules that draw (dropout), and leave the host's generators and modes as they were."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
    with torch.random.fork_rng(devices=devices), torch.inference_mode(False), torch.enable_grad():
        torch.manual_seed(seed)
        yield
