"""U-steps: the spectral embedding of the current kernel, by eigenvectors [U-EIG] or by Stiefel ascent [U-SMA].

Both are callables `(L, U) -> U` on the same operator L = H D^-1/2 K D^-1/2 H, in double precision.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from knet.arrays import Floats
from knet.train.eigensolvers import orthonormalize
from knet.train.kernels import center_rows
from knet.train.laplacians import Laplacian

UStep = Callable[[Laplacian, Floats], Floats]


def eig_step(L: Laplacian, U: Floats) -> Floats:
    """Return the best U there is for L: the eigenvectors of its largest eigenvalues [U-EIG]."""
    return L.largest(U.shape[1], start=U)[1]


def share_embedding(shares: Floats, n_columns: int) -> Floats:
    """Return an orthonormal U that spans the centred shares of c groups in each row.

    Shares sum to 1, so that they span c-1 dimensions; a c-th column, if wanted, is constant.
    """
    Z = center_rows(shares.astype(np.float64))
    left = np.linalg.svd(Z, full_matrices=False)[0]
    constant = np.full((len(Z), 1), 1 / math.sqrt(len(Z)))
    return orthonormalize(np.hstack([left[:, : Z.shape[1] - 1], constant])[:, :n_columns])


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

    def __call__(self, L: Laplacian, U: Floats) -> Floats:
        """Return a U at least as good as the given one."""
        G = L @ U
        for _ in range(self.n_steps):
            value = (U * G).sum()
            U, G = self._ascend(U, G, L @ G)
            if (U * G).sum() - value <= self.tol * value:
                break
        return orthonormalize(U)

    def _ascend(self, U: Floats, G: Floats, LG: Floats) -> tuple[Floats, Floats]:
        """Return the best point on the curve from U, and its product with L; U itself if no length improves."""
        P, LP = np.hstack([G, U]), np.hstack([LG, G])
        steps = np.array(self.step_lengths)[:, None, None]
        moves = steps * cayley_coordinates(U, G, steps)
        gains = (2 * (P.T @ G) * moves).sum((1, 2)) + (moves * ((P.T @ LP) @ moves)).sum((1, 2))
        best = int(gains.argmax())
        if not gains[best] > 0:  # stationary to rounding
            return U, G
        return U + P @ moves[best], G + LP @ moves[best]


def cayley_coordinates(U: Floats, G: Floats, step: float | Floats) -> Floats:
    """Return M, (..., 2c, c), with which the Cayley step is U + step [G, U] M [U-SMA].

    The step is (I - step/2 A)^-1 (I + step/2 A) U with the skew A = G U' - U G'; by Sherman-Morrison-Woodbury only a
    2c x 2c system is solved. The paper prints A with a plus sign, which is symmetric and leaves the manifold.
    """
    P, Q = np.hstack([G, U]), np.hstack([U, -G])
    left, right = np.eye(P.shape[1]) - step / 2 * (Q.T @ P), Q.T @ U
    M: Floats = np.linalg.solve(left, np.broadcast_to(right, (*left.shape[:-2], *right.shape)))
    return M


def subspace_distance(U: Floats, V: Floats) -> float:
    """Return ||UU' - VV'||_F / sqrt(2c), in [0, 1], without forming K_U = UU'."""
    return math.sqrt(max(0.0, 1 - float(np.square(U.T @ V).sum()) / U.shape[1]))


U_STEPS: dict[str, UStep] = {"eig": eig_step, "sma": StiefelAscent()}
