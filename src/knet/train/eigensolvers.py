"""The largest eigenpairs of a symmetric operator by restarted block Lanczos."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor


class SymmetricOperator(Protocol):
    """A symmetric matrix that is known by its products; `d` has its length, dtype and device."""

    d: Tensor

    def __matmul__(self, V: Tensor) -> Tensor:
        """Return the product with the columns of V."""


@dataclass(frozen=True)
class Eigenpairs:
    """The largest eigenpairs that an iterative solver found, and whether it met its tolerance."""

    values: Tensor
    vectors: Tensor
    converged: bool


def block_lanczos(
    L: SymmetricOperator | Tensor,
    n_columns: int,
    start: Tensor | None = None,
    *,
    tol: float = 1e-6,
    depth: int = 6,
    max_products: int = 90,
) -> Eigenpairs:
    """Return the largest eigenpairs of L by restarted block Lanczos from `start`, a U near the wanted one.

    Extra columns speed up convergence if eigenvalues are close together at the cut. After each product the best vectors
    in the space so far are taken (Rayleigh-Ritz); after `depth` products the space is restarted from them.
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
        fresh = _orthonormal_complement(basis, products[:, -n_block:] if n_products % depth else LV - V * w)
        basis, products = torch.cat([basis, fresh], 1), torch.cat([products, L @ fresh], 1)
    return Eigenpairs(w[:n_columns], orthonormalize(V[:, :n_columns]), False)


def _orthonormal_complement(basis: Tensor, block: Tensor) -> Tensor:
    """Return an orthonormal basis of the block's part outside `basis`; two passes remove the rounding of the first."""
    for _ in range(2):
        block = torch.linalg.qr(block - basis @ (basis.mT @ block))[0]
    return block


def _random_columns(like: Tensor, n_columns: int) -> Tensor:
    """Return a fixed start for the iterative solver, so that a fit repeats to the bit."""
    noise = np.random.default_rng(0).standard_normal((len(like), n_columns))
    return torch.from_numpy(noise).to(like)


def orthonormalize(U: Tensor) -> Tensor:
    """Return the orthonormal basis nearest to U, which removes accumulated rounding."""
    left, _, right = torch.linalg.svd(U, full_matrices=False)
    nearest: Tensor = left @ right
    return nearest
