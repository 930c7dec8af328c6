"""U-steps: the spectral embedding of the current kernel, by eigenvectors [U-EIG] or by Stiefel ascent [U-SMA].

Both are callables `(L, U) -> U` on the same operator L = H D^-1/2 K D^-1/2 H, in double precision.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from knet.train.eigensolvers import orthonormalize
from knet.train.kernels import center_rows
from knet.train.laplacians import Laplacian

UStep = Callable[[Laplacian, Tensor], Tensor]


def eig_step(L: Laplacian, U: Tensor) -> Tensor:
    """Return the best U there is for L: the eigenvectors of its largest eigenvalues [U-EIG]."""
    return L.largest(U.shape[1], start=U)[1]


def share_embedding(shares: Tensor, n_columns: int) -> Tensor:
    """Return an orthonormal U that spans the centred shares of c groups in each row.

    Shares sum to 1, so that they span c-1 dimensions; a c-th column, if wanted, is constant.
    """
    Z = center_rows(shares.double())
    left, _, _ = torch.linalg.svd(Z, full_matrices=False)
    constant = torch.full_like(Z[:, :1], 1 / math.sqrt(len(Z)))
    return orthonormalize(torch.cat([left[:, : Z.shape[1] - 1], constant], 1)[:, :n_columns])


@dataclass(frozen=True)
class StiefelAscent:
    """Raise tr(U' L U) along Cayley curves, with line search; never lowers it and keeps U'U = I [U-SMA].

    The curve from U stays in the span of U and G = L U. Once L G is known, the value at any step length comes from
    matrices of size 2c: the search tries many lengths, and a step costs one product with L. The ascent ends if a step
    gains less than the share `tol` of the value, at the latest after `n_steps`.
    """

    n_steps: int = 10
    tol: float = 1e-2
    step_lengths: tuple[float, ...] = tuple(2.0**k for k in range(-12, 11))

    def __call__(self, L: Laplacian, U: Tensor) -> Tensor:
        """Return a U at least as good as the given one."""
        G = L @ U
        for _ in range(self.n_steps):
            value = (U * G).sum()
            U, G = self._ascend(U, G, L @ G)
            if bool((U * G).sum() - value <= self.tol * value):
                break
        return orthonormalize(U)

    def _ascend(self, U: Tensor, G: Tensor, LG: Tensor) -> tuple[Tensor, Tensor]:
        """Return the best point on the curve from U, and its product with L; U itself if no length improves."""
        P, LP = torch.cat([G, U], 1), torch.cat([LG, G], 1)
        steps = torch.tensor(self.step_lengths, dtype=U.dtype, device=U.device)[:, None, None]
        moves = steps * cayley_coordinates(U, G, steps)
        gains = (2 * (G.mT @ P).mT * moves).sum((1, 2)) + (moves * ((P.mT @ LP) @ moves)).sum((1, 2))
        best = int(gains.argmax())
        if not bool(gains[best] > 0):  # stationary to rounding
            return U, G
        return U + P @ moves[best], G + LP @ moves[best]


def cayley_coordinates(U: Tensor, G: Tensor, step: float | Tensor) -> Tensor:
    """Return M, (..., 2c, c), with which the Cayley step is U + step [G, U] M [U-SMA].

    The step is (I - step/2 A)^-1 (I + step/2 A) U with the skew A = G U' - U G'; by Sherman-Morrison-Woodbury only a
    2c x 2c system is solved. The paper prints A with a plus sign, which is symmetric and leaves the manifold.
    """
    P, Q = torch.cat([G, U], dim=1), torch.cat([U, -G], dim=1)
    eye = torch.eye(P.shape[1], dtype=U.dtype, device=U.device)
    M: Tensor = torch.linalg.solve(eye - step / 2 * (Q.mT @ P), Q.mT @ U)
    return M


def subspace_distance(U: Tensor, V: Tensor) -> float:
    """Return ||UU' - VV'||_F / sqrt(2c), in [0, 1], without forming K_U = UU'."""
    c = U.shape[1]
    return math.sqrt(max(0.0, 1 - float((U.mT @ V).square().sum()) / c))


U_STEPS: dict[str, UStep] = {"eig": eig_step, "sma": StiefelAscent()}
