"""U-steps: the spectral embedding of the current kernel, by eigenvectors [U-EIG] or by Stiefel ascent [U-SMA].

Both are callables `(L, U) -> U` on the same operator L = H D^-1/2 K D^-1/2 H, in double precision.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from knet.kernels import center, center_rows, degrees, gaussian_kernel, kernel_matmul

MEMORY_BUDGET = 512 * 2**20  # bytes that the operator of a U-step may keep
DIRECT_ROWS = 400  # up to here LAPACK beats the iterative solver
BLOCKED_ROWS = 20_000  # up to here a kernel that landmarks cannot stand for is made anew in each product
N_LANDMARKS = 512
FEWEST_LANDMARKS = 64
MOST_UNEXPLAINED = 0.5  # share of the kernel's diagonal beyond which landmarks do not stand for the rows
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
        """Return the `n_columns` largest eigenvalues of L, downwards, and their eigenvectors; `start` is a guess."""

    def error(self, U: Tensor) -> float:
        """Return an estimate of ||(L - L_exact) U||_F / sqrt(columns), on the scale of eigenvalues; 0 if exact."""
        return 0.0

    def trace_form(self, U: Tensor) -> float:
        """Return tr(U' L U), the value that a U-step raises."""
        return float((U * (self @ U)).sum())


class DenseLaplacian(Laplacian):
    """The kernel kept as a matrix: exact, the fastest up to a few thousand rows."""

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
        """Return the largest eigenpairs, by block Lanczos or, for small matrices, by LAPACK."""
        n = len(self.d)
        if n > max(DIRECT_ROWS, 5 * n_columns):
            found = block_lanczos(self, n_columns, start)
            if found.converged:
                return found.values, found.vectors
        w, V = torch.linalg.eigh(self.matrix)  # bunched eigenvalues do not trouble it
        return w.flip(0)[:n_columns], V.flip(1)[:, :n_columns]


class BlockedLaplacian(Laplacian):
    """L never kept: each product makes the kernel anew in row blocks. Exact, memory linear in the rows."""

    def __init__(self, Psi: Tensor, sigma: float) -> None:
        self.Psi, self.sigma = _to_double(Psi), sigma
        self.d = degrees(self.Psi, sigma)

    def __matmul__(self, V: Tensor) -> Tensor:
        """Return L V."""
        root = self.d.rsqrt()[:, None]
        return center_rows(root * kernel_matmul(self.Psi, self.Psi, root * center_rows(V), self.sigma))

    def largest(self, n_columns: int, start: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the largest eigenpairs by block Lanczos: one pass over the kernel serves a block of vectors."""
        if len(self.d) < max(64, 20 * n_columns):  # too few rows for blocks
            return DenseLaplacian(self.Psi, self.sigma).largest(n_columns)
        found = block_lanczos(self, n_columns, start)
        return found.values, found.vectors


@dataclass(frozen=True)
class Eigenpairs:
    """The largest eigenpairs that an iterative solver found, and whether it met its tolerance."""

    values: Tensor
    vectors: Tensor
    converged: bool


def block_lanczos(
    L: Laplacian | Tensor,
    n_columns: int,
    start: Tensor | None = None,
    *,
    tol: float = 1e-6,
    depth: int = 6,
    max_products: int = 90,
) -> Eigenpairs:
    """Return the largest eigenpairs of L by restarted block Lanczos from `start`, a U near the wanted one.

    Spare columns keep eigenvalues that bunch at the cut from stalling it. After each product the best vectors in the
    space so far are taken (Rayleigh-Ritz); after `depth` products the space starts anew from them.
    """
    n_block = n_columns + max(4, n_columns // 4)
    block = _random_columns(L if isinstance(L, Tensor) else L.d, n_block)
    if start is not None:
        block[:, :n_columns] = start
    basis = torch.linalg.qr(block)[0]
    products = L @ basis
    for n_products in range(1, max_products + 1):
        w, S = torch.linalg.eigh(basis.mT @ products)
        w, S = w.flip(0)[:n_block], S.flip(1)[:, :n_block]
        V, LV = basis @ S, products @ S
        residuals = (LV - V * w)[:, :n_columns].norm(dim=0)
        if bool(residuals.max() < tol):
            return Eigenpairs(w[:n_columns], V[:, :n_columns], True)
        if n_products % depth == 0:
            basis, products = V, LV
        fresh = _orthonormal_beside(basis, products[:, -n_block:] if n_products % depth else LV - V * w)
        basis, products = torch.cat([basis, fresh], 1), torch.cat([products, L @ fresh], 1)
    return Eigenpairs(w[:n_columns], orthonormalize(V[:, :n_columns]), False)


def _orthonormal_beside(basis: Tensor, block: Tensor) -> Tensor:
    """Return an orthonormal basis of the block's part outside `basis`; projected twice, as one pass leaves a rest."""
    for _ in range(2):
        block = torch.linalg.qr(block - basis @ (basis.mT @ block))[0]
    return block


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
        """Return the estimate from a random sample of exact rows of K, weighed up to all rows."""
        rows, HU = self.probes, center_rows(U)
        K = gaussian_kernel(self.Psi[rows], self.Psi, self.sigma)
        exact = K.sum(1).rsqrt()[:, None] * (K @ (HU * self.d.rsqrt()[:, None]))
        gap = exact - self.uncentered[rows] @ (self.uncentered.mT @ HU)
        return math.sqrt(len(U) / len(rows) * float(gap.square().sum()) / U.shape[1])

    def largest(self, n_columns: int, start: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the largest eigenpairs from the small matrix F'F."""
        F = nn.functional.pad(self.F, (0, max(0, n_columns - self.F.shape[1])))  # where landmarks repeat
        w, V = torch.linalg.eigh(F.mT @ F)
        w, V = w.flip(0)[:n_columns].clamp_min(0), V.flip(1)[:, :n_columns]
        return w, orthonormalize(F @ V)


def laplacian(Psi: Tensor, sigma: float, budget: float = MEMORY_BUDGET) -> Laplacian:
    """Return L in the form that suits the rows and a budget of bytes.

    The kernel is kept where it fits. Else landmarks stand for the rows, as many as fit, and where they cannot, because
    the kernel is too narrow, the exact kernel is made anew in each product, unless there are too many rows for that.
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

UStep = Callable[[Laplacian, Tensor], Tensor]


def eig_step(L: Laplacian, U: Tensor) -> Tensor:
    """Return the best U there is for L: the eigenvectors of its largest eigenvalues [U-EIG]."""
    return L.largest(U.shape[1], start=U)[1]


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


def _random_columns(like: Tensor, n_columns: int) -> Tensor:
    """Return a fixed start for the iterative solver, so that a fit repeats to the bit."""
    noise = np.random.default_rng(0).standard_normal((len(like), n_columns))
    return torch.from_numpy(noise).to(like)


@dataclass(frozen=True)
class StiefelAscent:
    """Raise tr(U' L U) along Cayley curves, with line search; never lowers it and keeps U'U = I [U-SMA].

    The curve from U stays in the span of U and G = L U. Once L G is known, the value at any step length comes from
    matrices of size 2c: the search tries many lengths, and a step costs one product with L. The ascent ends when a step
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
        """Return the best point on the curve from U, and its product with L; U itself where no length improves."""
        P, LP = torch.cat([G, U], 1), torch.cat([LG, G], 1)
        steps = torch.tensor(self.step_lengths, dtype=U.dtype, device=U.device)[:, None, None]
        moves = steps * cayley_coordinates(U, G, steps)
        gains = (2 * (G.mT @ P).mT * moves).sum((1, 2)) + (moves * ((P.mT @ LP) @ moves)).sum((1, 2))
        best = int(gains.argmax())
        if not bool(gains[best] > 0):  # stationary to rounding
            return U, G
        return U + P @ moves[best], G + LP @ moves[best]


def cayley_coordinates(U: Tensor, G: Tensor, step: float | Tensor) -> Tensor:
    """Return M, (..., 2c, c), with which the Cayley step is U + step [G, U] M [U-SMA]."""
    P, Q = torch.cat([G, U], dim=1), torch.cat([U, -G], dim=1)
    eye = torch.eye(P.shape[1], dtype=U.dtype, device=U.device)
    M: Tensor = torch.linalg.solve(eye - step / 2 * (Q.mT @ P), Q.mT @ U)
    return M


def cayley(U: Tensor, G: Tensor, step: float) -> Tensor:
    """Return (I - step/2 A)^-1 (I + step/2 A) U with the skew A = G U' - U G' [U-SMA].

    By Sherman-Morrison-Woodbury only a 2c x 2c system is solved. The paper prints A with a plus sign, which is
    symmetric and leaves the manifold.
    """
    return U + step * torch.cat([G, U], dim=1) @ cayley_coordinates(U, G, step)


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
