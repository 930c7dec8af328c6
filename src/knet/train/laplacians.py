"""The operator L = H D^-1/2 K D^-1/2 H of a U-step [U-EIG]: kept as a matrix, recomputed in blocks, or low-rank."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn

from knet.train.eigensolvers import largest_eigenpairs, orthonormalize
from knet.train.kernels import center, center_rows, degrees, gaussian_kernel, kernel_matmul

MEMORY_BUDGET = 512 * 2**20  # bytes that the operator of a U-step may use
DIRECT_ROWS = 400  # rows up to which LAPACK is faster than the iterative solver
BLOCKED_ROWS = 20_000  # rows up to which a kernel that landmarks cannot represent is recomputed in each product
N_LANDMARKS, FEWEST_LANDMARKS = 512, 64  # rows that represent all others: the usual number, and the least
MOST_UNEXPLAINED = 0.5  # share of the kernel's diagonal above which landmarks do not represent the rows
PROBE_ROWS = 256  # exact kernel rows that the low-rank form is checked against


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
    def largest(self, n_columns: int, start: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the `n_columns` largest eigenvalues of L, descending, and their eigenvectors; `start` is a guess."""

    def error(self, U: Tensor) -> float:
        """Return an estimate of ||(L - L_exact) U||_F / sqrt(columns), on the scale of eigenvalues; 0 if exact."""
        return 0.0

    def trace_form(self, U: Tensor) -> float:
        """Return tr(U' L U), the value that a U-step raises."""
        return float((U * (self @ U)).sum())


class DenseLaplacian(Laplacian):
    """The kernel stored as a matrix: exact, the fastest up to a few thousand rows."""

    def __init__(self, Psi: Tensor, sigma: float) -> None:
        Psi = _to_double(Psi)
        self.K = gaussian_kernel(Psi, Psi, sigma)
        self.d = self.K.sum(1)
        self.root = self.d.rsqrt()[:, None]

    @property
    def matrix(self) -> Tensor:
        """L itself."""
        return center(self.K * self.root * self.root.mT)

    def __matmul__(self, V: Tensor) -> Tensor:
        """Return L V."""
        return center_rows(self.root * (self.K @ (self.root * center_rows(V))))

    def largest(self, n_columns: int, start: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the largest eigenpairs, by products or, for small or difficult matrices, by LAPACK."""
        if len(self.d) > max(DIRECT_ROWS, 5 * n_columns):
            values, vectors, converged = largest_eigenpairs(self.__matmul__, self.d, n_columns, start)
            if converged:
                return values, vectors
        w, V = torch.linalg.eigh(self.matrix)  # converges for any spectrum
        return w.flip(0)[:n_columns], V.flip(1)[:, :n_columns]


class BlockedLaplacian(Laplacian):
    """L is never stored: each product recomputes the kernel in row blocks. Exact, memory linear in the rows."""

    def __init__(self, Psi: Tensor, sigma: float) -> None:
        self.Psi, self.sigma = _to_double(Psi), sigma
        self.d = degrees(self.Psi, sigma)

    def __matmul__(self, V: Tensor) -> Tensor:
        """Return L V."""
        root = self.d.rsqrt()[:, None]
        return center_rows(root * kernel_matmul(self.Psi, self.Psi, root * center_rows(V), self.sigma))

    def largest(self, n_columns: int, start: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the largest eigenpairs by products; few rows are stored as a matrix."""
        if len(self.d) < max(64, 20 * n_columns):
            return DenseLaplacian(self.Psi, self.sigma).largest(n_columns)
        return largest_eigenpairs(self.__matmul__, self.d, n_columns, start)[:2]


class NystroemLaplacian(Laplacian):
    """L of the kernel's Nystroem form K ~ C W^-1 C' from landmark rows: time and memory linear in the rows.

    L is F F' with F of shape (n, landmarks), so products cost O(n m) and the eigenpairs come from the m x m matrix F'F.
    With every row a landmark the form is exact.
    """

    def __init__(self, Psi: Tensor, sigma: float, n_landmarks: int = N_LANDMARKS) -> None:
        Psi = _to_double(Psi)
        order = torch.from_numpy(np.random.default_rng(0).permutation(len(Psi))).to(Psi.device)
        Z = Psi[order[:n_landmarks]]
        self.Psi, self.sigma, self.probes = Psi, sigma, order[-PROBE_ROWS:]
        w, V = torch.linalg.eigh(gaussian_kernel(Z, Z, sigma))
        kept = w > w[-1] * 1e-10
        F = kernel_matmul(Psi, Z, V[:, kept] * w[kept].rsqrt(), sigma)
        self.unexplained = 1 - float(F.square().sum()) / len(F)  # of the trace of K, whose diagonal is 1
        self.d = (F @ F.sum(0)).clamp_min(1.0)  # a row is at least its own neighbour
        self.uncentered = F.mul_(self.d.rsqrt()[:, None])
        self.F = center_rows(self.uncentered)

    def __matmul__(self, V: Tensor) -> Tensor:
        """Return L V."""
        return self.F @ (self.F.mT @ V)

    def error(self, U: Tensor) -> float:
        """Return the estimate from a random sample of exact rows of K, scaled up to all rows."""
        rows, HU = self.probes, center_rows(U)
        K = gaussian_kernel(self.Psi[rows], self.Psi, self.sigma)
        exact = K.sum(1).rsqrt()[:, None] * (K @ (HU * self.d.rsqrt()[:, None]))
        gap = exact - self.uncentered[rows] @ (self.uncentered.mT @ HU)
        return math.sqrt(len(U) / len(rows) * float(gap.square().sum()) / U.shape[1])

    def largest(self, n_columns: int, start: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the largest eigenpairs from the small matrix F'F."""
        F = nn.functional.pad(self.F, (0, max(0, n_columns - self.F.shape[1])))  # if landmarks repeat
        w, V = torch.linalg.eigh(F.mT @ F)
        w, V = w.flip(0)[:n_columns].clamp_min(0), V.flip(1)[:, :n_columns]
        return w, orthonormalize(F @ V)


def laplacian(Psi: Tensor, sigma: float, budget: float = MEMORY_BUDGET) -> Laplacian:
    """Return L in the form that suits the rows and a budget of bytes.

    The kernel is stored if it fits. Otherwise landmarks represent the rows, as many as fit. If the kernel is too narrow
    for that, the exact kernel is recomputed in each product, unless there are too many rows.
    """
    n = len(Psi)
    if 8 * n**2 <= budget:
        return DenseLaplacian(Psi, sigma)
    fitting = int(budget / (24 * n))  # F, its centred twin and a block
    low_rank = NystroemLaplacian(Psi, sigma, min(max(fitting, FEWEST_LANDMARKS), N_LANDMARKS))
    if low_rank.unexplained > MOST_UNEXPLAINED and n <= BLOCKED_ROWS:
        return BlockedLaplacian(Psi, sigma)
    return low_rank


LAPLACIANS: dict[str, Callable[[Tensor, float], Laplacian]] = {
    "auto": laplacian,
    "dense": DenseLaplacian,
    "blocked": BlockedLaplacian,
    "nystroem": NystroemLaplacian,
}


def _to_double(Psi: Tensor) -> Tensor:
    """Return the embedding in double precision, on the CPU if its device has no double precision."""
    device = torch.device("cpu") if Psi.device.type == "mps" else Psi.device
    return Psi.detach().to(device, torch.float64)
