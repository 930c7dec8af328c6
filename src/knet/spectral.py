"""U-steps: the spectral embedding of the current kernel, by eigenvectors [U-EIG] or by Stiefel ascent [U-SMA].

Both are callables `(L, U) -> U` on the same operator L = H D^-1/2 K D^-1/2 H, in double precision.
"""

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh, lobpcg
from torch import Tensor, nn

from knet.kernels import center, center_rows, degrees, gaussian_kernel, kernel_matmul

DENSE_ROWS = 4000  # up to here the kernel is kept (128 MB)
DIRECT_ROWS = 400  # up to here LAPACK beats the iterative solvers
N_LANDMARKS = 512


class Laplacian(ABC):
    """The operator L = H D^-1/2 K D^-1/2 H of an embedding [U-EIG], in double precision.

    Attributes
    ----------
    d : Tensor of shape (n,)
        Degrees, the diagonal of D [DEGREE].
    """

    d: Tensor

    @abstractmethod
    def __matmul__(self, V: Tensor) -> Tensor:
        """Return L V."""

    @abstractmethod
    def largest(self, n_columns: int) -> tuple[Tensor, Tensor]:
        """Return the `n_columns` largest eigenvalues of L, downwards, and their eigenvectors."""

    def trace_form(self, U: Tensor) -> float:
        """Return tr(U' L U), the value that a U-step raises."""
        return float((U * (self @ U)).sum())


class DenseLaplacian(Laplacian):
    """L kept as a matrix: exact, the fastest up to a few thousand rows."""

    def __init__(self, Psi: Tensor, sigma: float) -> None:
        Psi = _to_double(Psi)
        K = gaussian_kernel(Psi, Psi, sigma)
        self.d = K.sum(1)
        root = self.d.rsqrt()
        self.matrix = center(K.mul_(root[:, None]).mul_(root))

    def __matmul__(self, V: Tensor) -> Tensor:
        """Return L V."""
        return self.matrix @ V

    def largest(self, n_columns: int) -> tuple[Tensor, Tensor]:
        """Return the largest eigenpairs, by Lanczos or, for small matrices, by LAPACK."""
        n, matrix = len(self.d), self.matrix.cpu().numpy()
        if n > max(DIRECT_ROWS, 5 * n_columns):
            try:
                w, V = eigsh(matrix, n_columns, which="LA", v0=_start(n, 1)[:, 0])
                return _downwards(w, V, self.d.device)
            except ArpackNoConvergence:  # bunched eigenvalues; the direct solver does not mind them
                pass
        w, V = eigh(matrix, driver="evd", check_finite=False)
        return _downwards(w[-n_columns:], V[:, -n_columns:], self.d.device)


class BlockedLaplacian(Laplacian):
    """L never kept: each product makes the kernel anew in row blocks. Exact, memory linear in the rows."""

    def __init__(self, Psi: Tensor, sigma: float) -> None:
        self.Psi, self.sigma = _to_double(Psi), sigma
        self.d = degrees(self.Psi, sigma)

    def __matmul__(self, V: Tensor) -> Tensor:
        """Return L V."""
        root = self.d.rsqrt()[:, None]
        return center_rows(root * kernel_matmul(self.Psi, self.Psi, root * center_rows(V), self.sigma))

    def largest(self, n_columns: int) -> tuple[Tensor, Tensor]:
        """Return the largest eigenpairs by block LOBPCG: one pass over the kernel serves a block of vectors."""
        n = len(self.d)
        if n < 20 * n_columns:  # too few rows for LOBPCG's blocks
            return DenseLaplacian(self.Psi, self.sigma).largest(n_columns)

        def product(V: NDArray[np.float64]) -> NDArray[np.float64]:
            columns = torch.from_numpy(np.ascontiguousarray(V.reshape(n, -1)))
            return (self @ columns.to(self.d.device)).cpu().numpy()

        operator = LinearOperator((n, n), matvec=product, matmat=product, dtype=np.float64)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of spare vectors in the block that come out less exact
            w, V = lobpcg(operator, _start(n, min(4 * n_columns, n // 4)), tol=1e-6, maxiter=60)
        return _downwards(w[:n_columns], V[:, :n_columns], self.d.device)


class NystroemLaplacian(Laplacian):
    """L of the kernel's Nystroem form K ~ C W^-1 C' from landmark rows: time and memory linear in the rows.

    L is F F' with F of shape (n, landmarks), so products cost O(n m) and the eigenpairs come from the m x m matrix F'F.
    With every row a landmark the form is exact.
    """

    def __init__(self, Psi: Tensor, sigma: float, n_landmarks: int = N_LANDMARKS) -> None:
        Psi = _to_double(Psi)
        order = np.random.default_rng(0).permutation(len(Psi))[:n_landmarks]
        Z = Psi[torch.from_numpy(order).to(Psi.device)]
        w, V = torch.linalg.eigh(gaussian_kernel(Z, Z, sigma))
        kept = w > w[-1] * 1e-10
        F = kernel_matmul(Psi, Z, V[:, kept] * w[kept].rsqrt(), sigma)
        self.d = (F @ F.sum(0)).clamp_min(1.0)  # a row is at least its own neighbour
        self.F = center_rows(F * self.d.rsqrt()[:, None])

    def __matmul__(self, V: Tensor) -> Tensor:
        """Return L V."""
        return self.F @ (self.F.mT @ V)

    def largest(self, n_columns: int) -> tuple[Tensor, Tensor]:
        """Return the largest eigenpairs from the small matrix F'F."""
        F = nn.functional.pad(self.F, (0, max(0, n_columns - self.F.shape[1])))  # where landmarks repeat
        w, V = torch.linalg.eigh(F.mT @ F)
        w, V = w.flip(0)[:n_columns].clamp_min(0), V.flip(1)[:, :n_columns]
        return w, orthonormalize(F @ V)


def laplacian(Psi: Tensor, sigma: float) -> Laplacian:
    """Return L in the form that suits the number of rows: dense when small, Nystroem when large."""
    return DenseLaplacian(Psi, sigma) if len(Psi) <= DENSE_ROWS else NystroemLaplacian(Psi, sigma)


LAPLACIANS: dict[str, Callable[[Tensor, float], Laplacian]] = {
    "auto": laplacian,
    "dense": DenseLaplacian,
    "blocked": BlockedLaplacian,
    "nystroem": NystroemLaplacian,
}

UStep = Callable[[Laplacian, Tensor], Tensor]


def eig_step(L: Laplacian, U: Tensor) -> Tensor:
    """Return the best U there is for L: the eigenvectors of its largest eigenvalues [U-EIG]."""
    return L.largest(U.shape[1])[1]


def indicator_embedding(labels: Tensor, n_clusters: int, n_columns: int) -> Tensor:
    """Return an orthonormal U whose rows are equal within each group of a partition.

    Centred indicators of c groups span c-1 dimensions; a c-th column, where wanted, is constant.
    """
    Z = center_rows(torch.nn.functional.one_hot(labels, n_clusters).double())
    left, _, _ = torch.linalg.svd(Z, full_matrices=False)
    U: Tensor = left[:, : n_clusters - 1]
    constant = torch.full_like(Z[:, :1], 1 / math.sqrt(len(Z)))
    return orthonormalize(torch.cat([U, constant], 1)[:, :n_columns])


def _to_double(Psi: Tensor) -> Tensor:
    """Return the embedding in double precision, on the CPU where its device has no doubles."""
    device = torch.device("cpu") if Psi.device.type == "mps" else Psi.device
    return Psi.detach().to(device, torch.float64)


def _start(n: int, n_columns: int) -> NDArray[np.float64]:
    """Return a fixed start for the iterative solvers, so that a fit repeats to the bit."""
    return np.random.default_rng(0).standard_normal((n, n_columns))


def _downwards(w: NDArray[np.float64], V: NDArray[np.float64], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return eigenpairs as tensors, largest first."""
    order = np.argsort(-w)
    return torch.from_numpy(w[order]).to(device), torch.from_numpy(V[:, order]).to(device)


@dataclass(frozen=True)
class StiefelAscent:
    """Raise tr(U' L U) along Cayley curves, with line search; never lowers it and keeps U'U = I [U-SMA].

    The step length starts from the Barzilai-Borwein estimate of the last two points and is halved until the value has
    risen enough (Armijo). Each try costs one product L U; the curve itself costs a 2c x 2c solve.
    """

    n_steps: int = 10
    first_step: float = 1.0
    shrink: float = 0.5
    sufficient: float = 1e-4
    max_halvings: int = 30

    def __call__(self, L: Laplacian, U: Tensor) -> Tensor:
        """Return a U at least as good as the given one."""
        LU, step = L @ U, self.first_step
        for _ in range(self.n_steps):
            point = self._ascend(L, U, LU, step)
            if point is None:  # no step length improves: stationary to rounding
                break
            U_new, LU_new = point
            step = _barzilai_borwein(U_new - U, _tangent(U_new, LU_new) - _tangent(U, LU), self.first_step)
            U, LU = U_new, LU_new
        return orthonormalize(U)

    def _ascend(self, L: Laplacian, U: Tensor, LU: Tensor, step: float) -> tuple[Tensor, Tensor] | None:
        """Return the first (U, LU) on the curve that improves enough, or None."""
        value, slope = (U * LU).sum(), 2 * _tangent(U, LU).square().sum()
        for _ in range(self.max_halvings):
            candidate = cayley(U, LU, step)
            product = L @ candidate
            if (candidate * product).sum() > value + self.sufficient * step * slope:
                return candidate, product
            step *= self.shrink
        return None


def _tangent(U: Tensor, G: Tensor) -> Tensor:
    """Return A U with A = G U' - U G', the direction of the Cayley curve at U."""
    return G @ (U.mT @ U) - U @ (G.mT @ U)


def _barzilai_borwein(change: Tensor, slope_change: Tensor, fallback: float) -> float:
    """Return the step length that fits the curvature between two points, within bounds."""
    curvature = float((change * slope_change).sum().abs())
    length = float(change.square().sum()) / curvature if curvature > 0 else fallback
    return min(max(length, 1e-3 * fallback), 1e3 * fallback)


def cayley(U: Tensor, G: Tensor, step: float) -> Tensor:
    """Return (I - step/2 A)^-1 (I + step/2 A) U with the skew A = G U' - U G' [U-SMA].

    By Sherman-Morrison-Woodbury only a 2c x 2c system is solved. The paper prints A with a plus sign, which is
    symmetric and leaves the manifold.
    """
    P, Q = torch.cat([G, U], dim=1), torch.cat([U, -G], dim=1)
    eye = torch.eye(P.shape[1], dtype=U.dtype, device=U.device)
    move: Tensor = torch.linalg.solve(eye - step / 2 * (Q.mT @ P), Q.mT @ U)
    return U + step * P @ move


def orthonormalize(U: Tensor) -> Tensor:
    """Return the orthonormal basis nearest to U, which removes the rounding a long ascent collects."""
    left, _, right = torch.linalg.svd(U, full_matrices=False)
    nearest: Tensor = left @ right
    return nearest


def subspace_distance(U: Tensor, V: Tensor) -> float:
    """Return ||UU' - VV'||_F / sqrt(2c), in [0, 1], without forming K_U = UU'."""
    c = U.shape[1]
    return math.sqrt(max(0.0, 1 - float((U.mT @ V).square().sum()) / c))


U_STEPS: dict[str, UStep] = {"eig": eig_step, "sma": StiefelAscent()}
