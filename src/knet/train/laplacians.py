"""The operator L = H D^-1/2 K D^-1/2 H of a U-step [U-EIG]: kept as a matrix, recomputed in blocks, or low-rank."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from knet.arrays import Floats
from knet.train.eigensolvers import largest_eigenpairs, largest_from_start, largest_of_matrix, orthonormalize
from knet.train.kernels import center, center_rows, degrees, gaussian_kernel, kernel_matmul

MEMORY_BUDGET = 512 * 2**20  # bytes that the operator of a U-step may use
DIRECT_ROWS = 100  # rows up to which LAPACK is the fastest solver
STORED_ROWS = 1000  # rows up to which products with a stored matrix are faster, one by one, than those of blocks
BLOCKED_ROWS = 20_000  # rows up to which a kernel that landmarks cannot represent is recomputed in each product
N_LANDMARKS, FEWEST_LANDMARKS = 512, 64  # rows that represent all others: the usual number, and the least
MOST_UNEXPLAINED = 0.5  # share of the kernel's diagonal above which landmarks do not represent the rows
PROBE_ROWS = 256  # exact kernel rows that the low-rank form is checked against


class Laplacian(ABC):
    """The operator L = H D^-1/2 K D^-1/2 H of an embedding [U-EIG], in double precision.

    Attributes
    ----------
    d : ndarray of shape (n,)
        Degrees, the diagonal of D [DEGREE].
    """

    d: Floats

    @abstractmethod
    def __matmul__(self, V: Floats) -> Floats:
        """Return L V."""

    @abstractmethod
    def largest(self, n_columns: int, start: Floats | None = None) -> tuple[Floats, Floats]:
        """Return the `n_columns` largest eigenvalues of L, descending, and their eigenvectors; `start` is a guess."""

    def error(self, U: Floats) -> float:
        """Return an estimate of ||(L - L_exact) U||_F / sqrt(columns), on the scale of eigenvalues; 0 if exact."""
        return 0.0

    def trace_form(self, U: Floats) -> float:
        """Return tr(U' L U), the value that a U-step raises."""
        return float((U * (self @ U)).sum())


class DenseLaplacian(Laplacian):
    """The kernel stored as a matrix: exact, the fastest up to a few thousand rows."""

    def __init__(self, Psi: Floats, sigma: float) -> None:
        Psi = Psi.astype(np.float64)
        self.K = gaussian_kernel(Psi, Psi, sigma)
        self.d = self.K.sum(1)
        self.root = 1 / np.sqrt(self.d)[:, None]

    @property
    def matrix(self) -> Floats:
        """L itself."""
        scaled = self.K * self.root
        scaled *= self.root.T
        return center(scaled)

    def __matmul__(self, V: Floats) -> Floats:
        """Return L V."""
        return center_rows(self.root * (self.K @ (self.root * center_rows(V))))

    def largest(self, n_columns: int, start: Floats | None = None) -> tuple[Floats, Floats]:
        """Return the largest eigenpairs, by products or, for small or difficult matrices, by LAPACK."""
        n, few = len(self.d), max(DIRECT_ROWS, 5 * n_columns)
        if few < n <= STORED_ROWS and start is not None and (found := largest_from_start(self.matrix, start)):
            return found
        if n > few:
            values, vectors, converged = largest_eigenpairs(self.__matmul__, len(self.d), n_columns, start)
            if converged:
                return values, vectors
        return largest_of_matrix(self.matrix, n_columns)  # converges for any spectrum


class BlockedLaplacian(Laplacian):
    """L is never stored: each product recomputes the kernel in row blocks. Exact, memory linear in the rows."""

    def __init__(self, Psi: Floats, sigma: float) -> None:
        self.Psi, self.sigma = Psi.astype(np.float64), sigma
        self.d = degrees(self.Psi, sigma)

    def __matmul__(self, V: Floats) -> Floats:
        """Return L V."""
        root = 1 / np.sqrt(self.d)[:, None]
        return center_rows(root * kernel_matmul(self.Psi, self.Psi, root * center_rows(V), self.sigma))

    def largest(self, n_columns: int, start: Floats | None = None) -> tuple[Floats, Floats]:
        """Return the largest eigenpairs by products; few rows are stored as a matrix."""
        if len(self.d) < max(64, 20 * n_columns):
            return DenseLaplacian(self.Psi, self.sigma).largest(n_columns)
        return largest_eigenpairs(self.__matmul__, len(self.d), n_columns, start)[:2]


class NystroemLaplacian(Laplacian):
    """L of the kernel's Nystroem form K ~ C W^-1 C' from landmark rows: time and memory linear in the rows.

    L is F F' with F of shape (n, landmarks), so products cost O(n m) and the eigenpairs come from the m x m matrix F'F.
    With every row a landmark the form is exact.
    """

    def __init__(self, Psi: Floats, sigma: float, n_landmarks: int = N_LANDMARKS) -> None:
        Psi = Psi.astype(np.float64)
        order = np.random.default_rng(0).permutation(len(Psi))
        Z = Psi[order[:n_landmarks]]
        self.Psi, self.sigma, self.probes = Psi, sigma, order[-PROBE_ROWS:]
        w, V = np.linalg.eigh(gaussian_kernel(Z, Z, sigma))
        kept = w > w[-1] * 1e-10
        F = kernel_matmul(Psi, Z, V[:, kept] / np.sqrt(w[kept]), sigma)
        self.unexplained = 1 - float(np.square(F).sum()) / len(F)  # of the trace of K, whose diagonal is 1
        self.d = np.maximum(F @ F.sum(0), 1.0)  # a row is at least its own neighbour
        F /= np.sqrt(self.d)[:, None]
        self.uncentered, self.F = F, center_rows(F)

    def __matmul__(self, V: Floats) -> Floats:
        """Return L V."""
        product: Floats = self.F @ (self.F.T @ V)
        return product

    def error(self, U: Floats) -> float:
        """Return the estimate from a random sample of exact rows of K, scaled up to all rows."""
        rows, HU = self.probes, center_rows(U)
        K = gaussian_kernel(self.Psi[rows], self.Psi, self.sigma)
        exact = (K @ (HU / np.sqrt(self.d)[:, None])) / np.sqrt(K.sum(1))[:, None]
        gap = exact - self.uncentered[rows] @ (self.uncentered.T @ HU)
        return math.sqrt(len(U) / len(rows) * float(np.square(gap).sum()) / U.shape[1])

    def largest(self, n_columns: int, start: Floats | None = None) -> tuple[Floats, Floats]:
        """Return the largest eigenpairs from the small matrix F'F."""
        F = np.pad(self.F, ((0, 0), (0, max(0, n_columns - self.F.shape[1]))))  # if landmarks repeat
        w, V = largest_of_matrix(F.T @ F, n_columns)
        return np.maximum(w, 0), orthonormalize(F @ V)


def laplacian(Psi: Floats, sigma: float, budget: float = MEMORY_BUDGET) -> Laplacian:
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


LAPLACIANS: dict[str, Callable[[Floats, float], Laplacian]] = {
    "auto": laplacian,
    "dense": DenseLaplacian,
    "blocked": BlockedLaplacian,
    "nystroem": NystroemLaplacian,
}
