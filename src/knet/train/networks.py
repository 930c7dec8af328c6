"""Encoder and decoder: networks that start as a chosen linear map, pre-trained ones, and the user's own."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Self, TypeAlias

import numpy as np
from scipy.linalg import solve

from knet.arrays import Floats
from knet.prepare.projection import principal_directions
from knet.start.neighbors import Indices
from knet.threads import one_thread
from knet.train.pretrain import pretrain

if TYPE_CHECKING:
    from knet.train.own_encoder import OwnEncoder

SMALL = 1e-3  # share of the usual initial weights, for columns of the embedding that start empty
N_PAIRS = 16  # random pairs of rows from which that of a hidden unit is taken
TINY = 1e-6  # smallest divisor

# psi in training: from rows to their embedding, with the gradient of its weights, `theta`, in one flat array.
Encoder: TypeAlias = "ResidualMLP | OwnEncoder"


class ResidualMLP:
    """psi(x) = x P + g(x), with g a ReLU network; exactly x P before the first step if the last layer of g is zero.

    Columns that P leaves empty are initialised near zero instead: from zero no gradient would ever reach them.

    Parameters
    ----------
    skip : ndarray of shape (d, d')
        The linear map P, which gradient steps leave as it is. Zero gives the plain network of the paper.
    hidden_layer_sizes : sequence of int
        Units of each hidden layer of g.
    rng : RandomState
        Source of the initial weights.
    zero_last : bool
        Whether g starts as zero, or near zero in the columns that P leaves empty.

    Attributes
    ----------
    theta, gradient : ndarray
        All weights in one flat array, of which `weights` and `biases` of the layers are views, and their gradient.
    """

    def __init__(
        self, skip: Floats, *, hidden_layer_sizes: Sequence[int], rng: np.random.RandomState, zero_last: bool = True
    ) -> None:
        self.skip = skip
        self.shapes = list(pairwise([len(skip), *hidden_layer_sizes, skip.shape[1]]))
        self._take(np.empty(sum(n_in * n_out + n_out for n_in, n_out in self.shapes), dtype=skip.dtype))
        for (n_in, _), W, b in zip(self.shapes, self.weights, self.biases, strict=True):
            for values in (W, b):
                values[...] = rng.uniform(-1, 1, size=values.shape) / math.sqrt(n_in)
        if zero_last:
            self.weights[-1] *= (SMALL * (skip == 0).all(0)).astype(skip.dtype)
            self.biases[-1][...] = 0

    def _take(self, theta: Floats) -> None:
        """Use an array as the weights."""
        self.theta, self.gradient = theta, np.zeros_like(theta)
        self.weights, self.biases = self._views(self.theta)
        self.weight_gradients, self.bias_gradients = self._views(self.gradient)
        self.inputs: list[Floats] = []  # of each layer, from `forward` to `backward`

    def _views(self, flat: Floats) -> tuple[list[Floats], list[Floats]]:
        """Return the matrices of a flat array, and its vectors, which come after them."""
        shapes = [*self.shapes, *((n_out,) for _, n_out in self.shapes)]
        ends = np.cumsum([math.prod(shape) for shape in shapes])
        pieces = [piece.reshape(shape) for piece, shape in zip(np.split(flat, ends[:-1]), shapes, strict=True)]
        return pieces[: len(self.shapes)], pieces[len(self.shapes) :]

    def copy(self) -> Self:
        """Return the same network with weights of its own."""
        twin = copy.copy(self)
        twin._take(self.theta.copy())
        return twin

    def __call__(self, X: Floats) -> Floats:
        """Map rows, (n, d), to (n, d')."""
        return self._output(X, self._layers(X)[-1])

    def forward(self, X: Floats) -> Floats:
        """Map rows, and store what `backward` needs."""
        self.inputs = self._layers(X)
        return self._output(X, self.inputs[-1])

    def _layers(self, X: Floats) -> list[Floats]:
        """Return the input of every layer."""
        inputs = [X]
        for W, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            H = inputs[-1] @ W
            H += b
            inputs.append(np.maximum(H, 0, out=H))
        return inputs

    def _output(self, X: Floats, H: Floats) -> Floats:
        Psi: Floats = H @ self.weights[-1]
        Psi += self.biases[-1]
        Psi += X @ self.skip
        return Psi

    def backward(self, slope: Floats) -> None:
        """Fill `gradient` from the gradient in the output, once per `forward`."""
        self._pass_down(slope)

    def backward_to_input(self, slope: Floats) -> Floats:
        """Fill `gradient` and return the gradient in X."""
        below: Floats = self._pass_down(slope) @ self.weights[0].T
        below += slope @ self.skip.T
        return below

    def _pass_down(self, slope: Floats) -> Floats:
        """Fill the gradient of every layer, the last one first, and return that in the output of the first one."""
        if not self.inputs:
            raise RuntimeError("Every backward pass needs its own forward pass.")
        inputs, self.inputs = self.inputs, []
        for i in reversed(range(len(self.weights))):
            H = inputs[i]
            np.matmul(H.T, slope, out=self.weight_gradients[i])
            np.sum(slope, axis=0, out=self.bias_gradients[i])
            if i > 0:  # the gradient of ReLU is 1 if its output is positive
                slope = slope @ self.weights[i].T
                slope *= H > 0
        return slope

    def store(self) -> None:
        """Take over changed values of `theta`: nothing to do, because the layers are views of it."""

    def place_hidden(self, X: Floats, G: Floats, rng: np.random.RandomState) -> None:
        """Set the hidden layers for a regression of G on X, so that their units bend where G changes.

        A unit of the first layer points from a row to another one, at which G differs much for their distance, and is
        zero up to the first of them. Units of other layers keep their weights, and bend at the mean of their inputs.
        """
        H = X
        for i, (W, b) in enumerate(zip(self.weights[:-1], self.biases[:-1], strict=True)):
            if i == 0:
                first, second = _steep_pairs(X, G, len(b), rng)
                W[...] = (X[second] - X[first]).T
                bends = (X[first] * W.T).sum(1)
            else:
                bends = H.mean(0) @ W
            H = np.maximum(H @ W - bends, 0)
            scale = np.maximum(np.sqrt(np.square(H).mean(0)), TINY)
            W /= scale
            b[...] = -bends / scale
            H /= scale

    def regressed(self, X: Floats, goals: Sequence[Floats], ridge: float) -> list[Self]:
        """Return a copy for each array of goals, with another last layer of g and another P: psi(X) is near the goals.

        Ridge regression on the units of the last hidden layer, the columns and a constant. Units and columns are
        scaled, so that they are penalised equally.
        """
        blocks = [self._layers(X)[-1], X, np.ones((len(X), 1), dtype=X.dtype)]
        scales = [max(float(np.sqrt(np.square(block).mean())), TINY) for block in blocks]
        scale = np.concatenate([np.full(block.shape[1], s, X.dtype) for block, s in zip(blocks, scales, strict=True)])
        H, linear = np.hstack(blocks) / scale, X @ self.skip
        gram = (H.T @ H).astype(np.float64)
        gram[np.diag_indices_from(gram)] += ridge * np.trace(gram) / len(gram)
        moments = np.hstack([H.T @ (G - linear) for G in goals]).astype(np.float64)
        solution = solve(gram, moments, assume_a="pos").astype(X.dtype) / scale[:, None]
        return [self._shifted(part) for part in np.split(solution, len(goals), axis=1)]

    def _shifted(self, solution: Floats) -> Self:
        """Return a copy with the solution of a regression: the last weights of g, a change of P, the last biases."""
        shifted, n_units = self.copy(), len(self.weights[-1])
        shifted.weights[-1][...], shifted.biases[-1][...] = solution[:n_units], solution[-1]
        shifted.skip = self.skip + solution[n_units:-1]
        return shifted


def _steep_pairs(X: Floats, G: Floats, n: int, rng: np.random.RandomState) -> tuple[Indices, Indices]:
    """Return n pairs of rows: the one of `N_PAIRS` random ones with the largest difference of G for its distance."""
    first, second = rng.randint(len(X), size=(2, n, N_PAIRS))
    distance, rise = (np.linalg.norm(values[second] - values[first], axis=2) for values in (X, G))
    best = (np.arange(n), (rise / np.maximum(distance, TINY)).argmax(1))
    return first[best], second[best]


@dataclass(frozen=True)
class Networks:
    """The two halves of the autoencoder; the decoder is None if nothing is reconstructed."""

    encoder: Encoder
    decoder: ResidualMLP | None = None


def build_networks(
    X: Floats,
    rng: np.random.RandomState,
    *,
    n_components: int,
    hidden_layer_sizes: Sequence[int],
    init: str,
    module: Any,  # of torch, which need not be installed without one
    device: object,
    with_decoder: bool,
) -> Networks:
    """Return both networks before the first step: identity by construction, pre-trained [INIT], or the user's own."""
    make = partial(ResidualMLP, hidden_layer_sizes=hidden_layer_sizes, rng=rng)
    if module is not None:
        from knet.train.own_encoder import OwnEncoder

        own = OwnEncoder(module, device, X[:2])
        if not with_decoder:
            return Networks(own)
        return Networks(own, make(np.zeros((own(X[:2]).shape[1], X.shape[1]), dtype=X.dtype), zero_last=False))
    P = linear_start(X, n_components)
    back = np.ascontiguousarray(P.T)
    if init == "identity":
        return Networks(make(P), make(back) if with_decoder else None)
    encoder, decoder = (make(np.zeros_like(start), zero_last=False) for start in (P, back))
    with one_thread():  # the batches are small: on a busy machine, threads would wait for each other in every step
        pretrain(encoder, decoder, X, P, rng=rng)
    return Networks(encoder, decoder if with_decoder else None)


def linear_start(X: Floats, n_components: int) -> Floats:
    """Return P, (d, d'), the linear map that an encoder starts from.

    The identity for d' = d; the identity with empty columns appended for d' > d, which keeps all distances; the
    leading principal directions of X for d' < d, which keep the most of the squared distances.
    """
    n_features = X.shape[1]
    if n_components >= n_features:
        return np.eye(n_features, n_components, dtype=X.dtype)
    rows = X.astype(np.float64)
    directions, _ = principal_directions(rows, rows.mean(0), n_components, np.random.RandomState(0))
    return directions.astype(X.dtype)
