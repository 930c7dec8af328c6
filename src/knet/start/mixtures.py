"""Gaussian groups: their likelihood, and mixtures of them by expectation maximisation."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from knet.arrays import Floats, Labels, row_blocks, squared_distances

PRIOR_SHARE = 0.1  # covariances are shrunk towards this share of the overall one, with the weight of d + 1 rows
RIDGE = 1e-6  # added to the overall covariance, as a share of its mean variance
BLOCK_VALUES = 2**16  # rows x groups x columns that are computed at a time: they stay in a cache
TOL = 1e-4  # gain in log-likelihood per row at which expectation maximisation stops
MAX_ITER = 50  # iterations of expectation maximisation, at most


@dataclass(frozen=True)
class Gaussians:
    """Gaussian groups with their shares; tied groups have one covariance.

    Values are treated as rounded: each stands for a spread of the variance `rounding` around it.
    """

    means: Floats  # (c, d)
    inverses: Floats  # A = L^-1 for covariances L L', (c, d, d), or (1, d, d) if tied
    constants: Floats  # log(share) + log|A| - tr(A' A rounding) / 2, (c,)

    @classmethod
    def fit(cls, X: Floats, weights: Floats, overall: Floats, rounding: Floats, *, tied: bool) -> "Gaussians":
        """Return the Gaussians of rows with weights (n, c) that sum to 1, with shrunken covariances."""
        sizes = weights.sum(0) + 1e-10
        means = weights.T @ X / sizes[:, None]
        if tied:
            return cls._shrunken(sizes, means, (X.T @ X - (means.T * sizes) @ means)[None], overall, rounding)
        sums = np.stack([(X * weight[:, None]).T @ X for weight in weights.T])  # of x x', (c, d, d)
        scatters = sums - sizes[:, None, None] * means[:, :, None] * means[:, None]
        return cls._shrunken(sizes, means, scatters, overall, rounding)

    @classmethod
    def of_groups(cls, groups: Sequence[Floats], overall: Floats, rounding: Floats) -> tuple["Gaussians", "Gaussians"]:
        """Return the Gaussians of the rows of each group, with full and with tied covariances."""
        sizes = np.array([float(len(rows)) for rows in groups])
        means = np.stack([rows.mean(0) for rows in groups])
        scatters = np.stack([(rows - mean).T @ (rows - mean) for rows, mean in zip(groups, means, strict=True)])
        full = cls._shrunken(sizes, means, scatters, overall, rounding)
        return full, cls._shrunken(sizes, means, scatters.sum(0)[None], overall, rounding)

    @classmethod
    def _shrunken(
        cls, sizes: Floats, means: Floats, scatters: Floats, overall: Floats, rounding: Floats
    ) -> "Gaussians":
        """Return Gaussians of groups with the given sizes and scatter matrices, or one matrix for all of them."""
        n, d = sizes.sum(), means.shape[1]
        counts = sizes if len(scatters) == len(sizes) else np.array([n])
        shrunken = scatters + counts[:, None, None] * np.diag(rounding) + (d + 1) * PRIOR_SHARE * overall
        inverses = np.linalg.inv(np.linalg.cholesky(shrunken / (counts[:, None, None] + d + 1)))
        log_determinants = np.log(np.diagonal(inverses, axis1=1, axis2=2)).sum(1)
        lost = (np.square(inverses) @ rounding).sum(1)
        return cls(means, inverses, np.log(sizes / n) + log_determinants - 0.5 * lost)

    def log_own(self, groups: Sequence[Floats]) -> Floats:
        """Return log(share) + log density of every row of each group in its own one, without the constant of 2 pi."""
        out = []
        for group, (rows, mean) in enumerate(zip(groups, self.means, strict=True)):
            whitened = (rows - mean) @ self.inverses[min(group, len(self.inverses) - 1)].T
            out.append(self.constants[group] - 0.5 * np.einsum("nd,nd->n", whitened, whitened))
        return np.concatenate(out)

    def log_joint(self, X: Floats) -> Floats:
        """Return log(share) + log density of every row in every group, (n, c), without the constant of 2 pi."""
        c, d = self.means.shape
        roots = self.inverses.transpose(0, 2, 1)  # (c or 1, d, d)
        shifts = self.means[:, None] @ roots  # (c, 1, d)
        if len(roots) == 1:  # all groups see the rows in the same coordinates
            return self.constants - 0.5 * squared_distances(X @ roots[0], shifts[:, 0])
        side_by_side, lengths = np.ascontiguousarray(roots.transpose(1, 0, 2)).reshape(d, -1), np.empty((len(X), c))
        for rows in row_blocks(len(X), c * d, BLOCK_VALUES):
            whitened = (X[rows] @ side_by_side).reshape(-1, c, d)  # one product for all groups
            whitened -= shifts[:, 0]
            np.einsum("ncd,ncd->nc", whitened, whitened, out=lengths[rows])
        return self.constants - 0.5 * lengths

    def probabilities(self, X: Floats) -> Floats:
        """Return the probability of every group for every row, (n, c)."""
        log_joint = self.log_joint(X)
        P: Floats = np.exp(log_joint - log_joint.max(1, keepdims=True))
        P /= P.sum(1, keepdims=True)
        return P


def overall_covariance(X: Floats, rounding: Floats) -> Floats:
    """Return the covariance of all rows, made positive definite."""
    centered = X - X.mean(0)
    S: Floats = centered.T @ centered / len(X) + np.diag(rounding)
    S += RIDGE * np.trace(S) / len(S) * np.eye(len(S))
    return S


def rounding_variance(X: Floats) -> Floats:
    """Return for each column the variance that rounding hides (Sheppard): the squared median gap of its values / 12."""
    gaps = np.zeros(X.shape[1])
    for j, column in enumerate(X.T):
        if len(values := np.unique(column)) > 1:
            gaps[j] = np.median(np.diff(values))
    return gaps**2 / 12


def split_groups(X: Floats, labels: Labels) -> tuple[NDArray[np.intp], list[Floats]]:
    """Return the positions of the rows of groups 0, 1, ..., one group after the other, and the rows of each group."""
    order = np.argsort(labels, kind="stable")
    return order, np.split(X[order], np.cumsum(np.bincount(labels))[:-1])


def gaussian_mixture(X: Floats, start: Labels, n_clusters: int, *, tied: bool) -> Gaussians:
    """Return the mixture that expectation maximisation reaches from a partition."""
    rounding = rounding_variance(X)
    overall, before = overall_covariance(X, rounding), -np.inf
    weights = np.eye(n_clusters)[start]
    for _ in range(MAX_ITER):
        model = Gaussians.fit(X, weights, overall, rounding, tied=tied)
        log_joint = model.log_joint(X)
        top = log_joint.max(1, keepdims=True)
        weights = np.exp(log_joint - top)
        total = weights.sum(1, keepdims=True)
        weights /= total
        value = float((top + np.log(total)).mean())
        if value - before < TOL:
            break
        before = value
    return model
