"""Encoders as the predictor uses them, and the trained default network as NumPy arrays, which needs no torch."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self, TypeAlias

import numpy as np
from numpy.typing import DTypeLike

from knet.arrays import AnyArray, Floats

if TYPE_CHECKING:
    from knet.model.torch_encoder import TorchEncoder

LARGEST = 1e18  # of a hidden layer: its products with the weights of any model file are finite in single precision


# psi as a function of arrays: scaled rows, (n, d), to their embedding, (n, d'), in the precision of the encoder.
RowEncoder: TypeAlias = "RowMLP | TorchEncoder"


@dataclass(frozen=True, eq=False)
class RowMLP:
    """psi(x) = x P + g(x), with g a ReLU network."""

    skip: Floats  # (d, d'): the linear map P
    weights: tuple[Floats, ...]  # of the layers of g, each (units in, units out)
    biases: tuple[Floats, ...]  # each (units out,)

    kind = "mlp"  # what the model file calls it
    in_threads = True  # blocks of rows may pass at the same time

    @classmethod
    def from_state(cls, state: Mapping[str, AnyArray]) -> Self:
        """Return the network with the arrays of `state`."""
        n_layers = sum(name.startswith("weights.") for name in state)
        state = {name: np.ascontiguousarray(value) for name, value in state.items()}  # one layout, so that bits repeat
        return cls(
            skip=state["skip"],
            weights=tuple(state[f"weights.{layer}"] for layer in range(n_layers)),
            biases=tuple(state[f"biases.{layer}"] for layer in range(n_layers)),
        )

    def state(self) -> dict[str, AnyArray]:
        """Return the arrays by name, as a model file stores them."""
        weights = {f"weights.{layer}": W for layer, W in enumerate(self.weights)}
        biases = {f"biases.{layer}": b for layer, b in enumerate(self.biases)}
        return {"skip": self.skip, **weights, **biases}

    def astype(self, dtype: DTypeLike) -> Self:
        """Return the same network in another precision."""
        layers = {name: tuple(array.astype(dtype) for array in getattr(self, name)) for name in ("weights", "biases")}
        return replace(self, skip=self.skip.astype(dtype), **layers)

    def __call__(self, Z: Floats) -> Floats:
        """Return the embedding of scaled rows."""
        H = Z
        for W, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            H = H @ W
            H += b
            np.clip(H, 0, LARGEST, out=H)
        Psi: Floats = H @ self.weights[-1]
        Psi += self.biases[-1]
        if self._keeps_columns:
            Psi[:, : Z.shape[1]] += Z
        else:
            Psi += Z @ self.skip
        return Psi

    @cached_property
    def _keeps_columns(self) -> bool:
        """Whether P is the identity, with empty columns appended or not: then its product is not needed."""
        return self.skip.shape[1] >= len(self.skip) and np.array_equal(self.skip, np.eye(*self.skip.shape))
