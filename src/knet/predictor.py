"""The part of a fitted model that labels rows: scale, encode, compare with the centres. Nothing here is trained."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from knet._math.arrays import Floats
from knet._math.kernels import gaussian_kernel, kernel_matmul, row_blocks, squared_distances
from knet._math.threads import in_threads
from knet._network.mlp import ResidualMLP, RowEncoder
from knet._network.preparation import Preparation
from knet._network.scaling import Scaling, float_dtype

Filled = TypeVar("Filled", bound=NDArray[Any])

BLOCK_ROWS = 1024  # rows that pass through the network at a time: their hidden layer stays in a core's cache


@dataclass(frozen=True)
class Predictor:
    """All that new rows need, and nothing that grows with the training rows.

    Attributes
    ----------
    preparation : Preparation
        What happens to rows before they are encoded.
    encoder : torch.nn.Module
        psi, with a leading axis of one restart.
    sigma : float
        Width of the learned kernel.
    centers : Tensor of shape (c, d')
        Cluster centres in the embedding.
    spread : float
        Mean squared distance to the nearest centre per dimension, the temperature of the memberships.
    landmarks, weights : Tensors of shape (m, d') and (m,)
        Summary of the embedded training rows: their degrees are sums over it.
    """

    preparation: Preparation
    encoder: nn.Module
    sigma: float
    centers: Tensor
    spread: float
    landmarks: Tensor
    weights: Tensor

    @property
    def scaling(self) -> Scaling:
        """The scaling of the columns."""
        return self.preparation.scaling

    def embed(self, X: Floats) -> Floats:
        """Return psi of every row, block by block, in the dtype of X."""
        out = np.empty((X.shape[0], self.centers.shape[1]), float_dtype(X))

        def fill(model: Predictor, rows: slice) -> None:
            out[rows] = model._embed_block(X[rows]).cpu().numpy()

        return self._in_blocks(fill, X, out)

    def assign(self, X: Floats) -> NDArray[np.int64]:
        """Return the nearest centre of every row."""
        out = np.empty(X.shape[0], np.int64)

        def fill(model: Predictor, rows: slice) -> None:
            out[rows] = model._nearest(model._embed_block(X[rows])).cpu().numpy()

        return self._in_blocks(fill, X, out)

    def memberships(self, X: Floats) -> Floats:
        """Return soft memberships, (n, c): a mixture of equal round Gaussians at the centres."""
        out = np.empty((X.shape[0], len(self.centers)), float_dtype(X))

        def fill(model: Predictor, rows: slice) -> None:
            Psi = model._embed_block(X[rows])
            D2 = squared_distances(Psi, model.centers).double()
            P = torch.softmax(-0.5 * (D2 - D2.amin(1, keepdim=True)) / self.spread, dim=1).cpu().numpy()
            out[rows] = _with_argmax(P.astype(out.dtype), model._nearest(Psi).cpu().numpy())

        return self._in_blocks(fill, X, out)

    def log_degrees(self, X: Floats) -> Floats:
        """Return log of the mean kernel value between every row and the training rows; finite for any row."""
        out = np.empty(X.shape[0], float_dtype(X))
        log_total = float(self.weights.sum().log())

        def fill(model: Predictor, rows: slice) -> None:
            out[rows] = (model._log_degrees(model._embed_block(X[rows])) - log_total).cpu().numpy()

        return self._in_blocks(fill, X, out)

    def kernel(self, X: Floats, Y: Floats) -> Floats:
        """Return the normalised learned kernel between rows of X and rows of Y [KERNEL]."""
        Psi_X, Psi_Y = torch.from_numpy(self.embed(X)).double(), torch.from_numpy(self.embed(Y)).double()
        root_X, root_Y = self._root_degrees(Psi_X), self._root_degrees(Psi_Y)
        out = np.empty((X.shape[0], Y.shape[0]), float_dtype(X))
        for rows in row_blocks(X.shape[0], Y.shape[0], Psi_X.element_size()):
            K = gaussian_kernel(Psi_X[rows], Psi_Y, self.sigma)
            out[rows] = K.div_(root_X[rows, None]).div_(root_Y).numpy()
        return out

    def _root_degrees(self, Psi: Tensor) -> Tensor:
        """Return the square root of each row's degree; a row is at least its own neighbour, so none is below 1."""
        landmarks, weights = self.landmarks.cpu().double(), self.weights.cpu().double()
        return kernel_matmul(Psi, landmarks, weights[:, None], self.sigma)[:, 0].clamp_min(1.0).sqrt()

    def _in_blocks(self, fill: Callable[["Predictor", slice], None], X: Floats, out: Filled) -> Filled:
        """Fill `out` block by block, in single precision if X is; blocks of the default network run on all cores."""
        model = self._single if float_dtype(X) == np.float32 and self.centers.dtype == torch.float64 else self._own
        if isinstance(model.encoder, RowEncoder):
            in_threads(lambda rows: fill(model, rows), _blocks(X.shape[0], BLOCK_ROWS))
        else:
            for rows in _blocks(X.shape[0], 16 * BLOCK_ROWS):
                fill(model, rows)
        return out

    @cached_property
    def _own(self) -> "Predictor":
        """The same model with the weights of its encoder laid out for many rows, if it is the default network."""
        if not isinstance(self.encoder, ResidualMLP) or self.centers.device.type != "cpu":
            return self
        return replace(self, encoder=RowEncoder(self.encoder))

    @cached_property
    def _single(self) -> "Predictor":
        """The same model in single precision."""
        encoder = copy.deepcopy(self.encoder).float()
        single = replace(self, encoder=encoder, centers=self.centers.float(), landmarks=self.landmarks.float())
        return single._own

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields alone: what was cached can be made again."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @torch.inference_mode()
    def _embed_block(self, block: Floats) -> Tensor:
        """Scale and encode one block of rows, in the dtype of the model."""
        Z = torch.from_numpy(self.preparation(block)).to(self.centers)
        Psi: Tensor = self.encoder(Z)
        return Psi[0]

    def _nearest(self, Psi: Tensor) -> Tensor:
        """Return the nearest centre of embedded rows: that with the largest psi c' - ||c||^2 / 2, from their middle."""
        middle, centers, heights = self._frame
        return torch.addmm(heights, (Psi - middle).to(centers.dtype), centers.mT).argmax(1)

    @cached_property
    def _frame(self) -> tuple[Tensor, Tensor, Tensor]:
        """The middle of the centres, the centres from there, and minus half their squared norms."""
        middle = self.centers.mean(0)
        centers = (self.centers - middle).to(self.weights.dtype)  # double tells near ties apart
        return middle, centers, centers.square().sum(1).mul_(-0.5)

    def _log_degrees(self, Psi: Tensor) -> Tensor:
        """Return log sum_m w_m k(psi, z_m) for every embedded row [DEGREE]."""
        D2 = squared_distances(Psi, self.landmarks).to(self.weights.dtype) / self.sigma
        return torch.logsumexp(D2 * (-0.5 / self.sigma) + self.weights.log(), dim=1)


def _with_argmax(P: Floats, nearest: NDArray[np.int64]) -> Floats:
    """Make `nearest` the argmax of every row: rounding may have made two memberships equal."""
    (tied,) = np.nonzero(P.argmax(1) != nearest)
    P[tied, nearest[tied]] = np.nextafter(P[tied].max(1), P.dtype.type(2))
    return P


def _blocks(n_rows: int, most: int) -> list[slice]:
    """Cut rows into blocks of at most `most` rows."""
    return [slice(start, min(start + most, n_rows)) for start in range(0, n_rows, most)]
