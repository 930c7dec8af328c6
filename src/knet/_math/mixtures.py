"""Gaussian groups: their likelihood, and mixtures of them by expectation maximisation."""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cholesky, solve_triangular

from knet._math.arrays import Floats, Labels

PRIOR_SHARE = 0.1  # covariances are shrunk towards this share of the overall one, with the weight of d + 1 rows
RIDGE = 1e-6  # added to the overall covariance, as a share of its mean variance
NO_WEIGHT = 1e-6  # rows with a smaller weight do not count in a covariance
TOL = 1e-4  # gain in log-likelihood per row at which expectation maximisation stops
MAX_ITER = 50


@dataclass(frozen=True)
class Gaussians:
    """Gaussian groups with their shares; tied groups have one covariance.

    Values are treated as rounded: each stands for a spread of the variance `rounding` around it.
    """

    log_shares: Floats
    means: Floats
    inverses: list[Floats]  # A = L^-1 for covariances L L'
    rounding: Floats

    @classmethod
    def fit(cls, X: Floats, weights: Floats, overall: Floats, rounding: Floats, *, tied: bool) -> "Gaussians":
        """Return the Gaussians of rows with weights (n, c), with shrunken covariances."""
        n, d = X.shape
        sizes = weights.sum(0) + 1e-10
        means = weights.T @ X / sizes[:, None]
        scatters = [
            _scatter(X, own) - size * np.outer(mean, mean)
            for own, size, mean in zip(weights.T, sizes, means, strict=True)
        ]
        groups = [(sum(scatters), n)] if tied else list(zip(scatters, sizes, strict=True))
        prior = (d + 1) * PRIOR_SHARE * overall
        inverses = [_inverse_root((S + size * np.diag(rounding) + prior) / (size + d + 1)) for S, size in groups]
        return cls(np.log(sizes / n), means, inverses, rounding)

    def log_own(self, X: Floats, labels: Labels) -> Floats:
        """Return log(share) + log density of every row in its own group, without the constant of 2 pi."""
        out = np.empty(len(X))
        for group, mean in enumerate(self.means):
            rows, A = labels == group, self._inverse(group)
            out[rows] = self._constant(group) - 0.5 * np.square((X[rows] - mean) @ A.T).sum(1)
        return out

    def log_joint(self, X: Floats) -> Floats:
        """Return log(share) + log density of every row in every group, (n, c), without the constant of 2 pi."""
        out = np.empty((len(X), len(self.means)))
        for group, mean in enumerate(self.means):
            if group < len(self.inverses):
                Z = X @ self.inverses[group].T
            out[:, group] = self._constant(group) - 0.5 * np.square(Z - self._inverse(group) @ mean).sum(1)
        return out

    def _inverse(self, group: int) -> Floats:
        return self.inverses[min(group, len(self.inverses) - 1)]

    def _constant(self, group: int) -> float:
        """Return log(share) + log|A| - tr(A' A rounding) / 2."""
        A = self._inverse(group)
        log_determinant, lost = np.log(A.diagonal()).sum(), (np.square(A) @ self.rounding).sum()
        return float(self.log_shares[group] + log_determinant - 0.5 * lost)


def _scatter(X: Floats, weights: Floats) -> Floats:
    """Return the weighted sum of x x' over the rows with weight."""
    rows = np.flatnonzero(weights > NO_WEIGHT)
    inside = X[rows]
    scatter: Floats = (inside * weights[rows, None]).T @ inside
    return scatter


def _inverse_root(S: Floats) -> Floats:
    """Return L^-1 for S = L L'."""
    L = cholesky(S, lower=True, check_finite=False)
    inverse: Floats = solve_triangular(L, np.eye(len(S)), lower=True, check_finite=False)
    return inverse


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
