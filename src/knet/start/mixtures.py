"""Gaussian groups: their likelihood, and mixtures of them by expectation maximisation."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from knet.arrays import Floats, Labels, row_blocks, squared_distances

PRIOR_SHARE = 0.1  # covariances are shrunk towards this share of the overall one, with the weight of d + 1 rows
RIDGE = 1e-6  # added to the overall covariance, as a share of its mean variance
BLOCK_VALUES = 2**16  # rows x groups x columns that are computed at a time: they stay in a cache
TOL = 1e-4  # gain in log-likelihood per row at which expectation maximisation stops
LEAST_LOG = -80.0  # of a probability: processors are slow with numbers that are hardly above 0
MAX_ITER = 50  # iterations of expectation maximisation, at most


class Moments(NamedTuple):
    """Sizes, (c,), means, (c, d), and scatter matrices, (c, d, d), of groups of rows."""

    sizes: Floats
    means: Floats
    scatters: Floats

    @classmethod
    def of(cls, groups: Sequence[Floats]) -> "Moments":
        """Return the moments of the rows of each group."""
        sizes = np.array([float(len(rows)) for rows in groups])
        means = np.stack([rows.sum(0) for rows in groups]) / sizes[:, None]
        centered = [rows - mean for rows, mean in zip(groups, means, strict=True)]
        return cls(sizes, means, np.stack([rows.T @ rows for rows in centered]))


@dataclass(frozen=True)
class Gaussians:
    """Gaussian groups with their shares; tied groups have one covariance.

    Values are treated as rounded: each stands for a spread of the variance `rounding` around it.
    """

    means: Floats  # (c, d)
    inverses: Floats  # A = L^-1 for covariances L L', (c, d, d), or (1, d, d) if tied
    constants: Floats  # log(share) + log|A| - tr(A' A rounding) / 2, (c,)

    @classmethod
    def of(cls, groups: Moments, overall: Floats, rounding: Floats) -> tuple["Gaussians", "Gaussians"]:
        """Return the Gaussians of groups with full and with tied covariances."""
        full = cls.shrunken(*groups, overall, rounding)
        return full, cls.shrunken(groups.sizes, groups.means, groups.scatters.sum(0)[None], overall, rounding)

    @classmethod
    def shrunken(cls, sizes: Floats, means: Floats, scatters: Floats, overall: Floats, rounding: Floats) -> "Gaussians":
        """Return Gaussians of groups with the given sizes and scatter matrices, or one matrix for all of them."""
        n, d = sizes.sum(), means.shape[1]
        counts = (sizes if len(scatters) == len(sizes) else sizes.sum(keepdims=True))[:, None, None]
        shrunken = scatters + (d + 1) * PRIOR_SHARE * overall + counts * np.diag(rounding)
        shrunken /= counts + d + 1
        inverses = np.linalg.inv(np.linalg.cholesky(shrunken))
        log_determinants = np.log(np.diagonal(inverses, axis1=1, axis2=2)).sum(1)
        lost = (np.square(inverses) @ rounding).sum(1)
        return cls(means, inverses, np.log(sizes / n) + log_determinants - 0.5 * lost)

    def mean_log_own(self, groups: Moments) -> float:
        """Return the mean of `log_own` over the rows of groups with the same means: it depends on moments only."""
        squares = ((self.inverses @ groups.scatters) * self.inverses).sum()
        return float((groups.sizes @ self.constants - 0.5 * squares) / groups.sizes.sum())

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
    gaps = np.sort(np.diff(np.sort(X.T, axis=1), axis=1), axis=1)  # of equal values, 0; they come first
    n_equal, n = (gaps == 0).sum(1), gaps.shape[1]
    middle = np.stack([(n + n_equal - 1) // 2, (n + n_equal) // 2], axis=1)  # of the others
    medians = np.take_along_axis(gaps, np.minimum(middle, n - 1), axis=1).mean(1)
    return np.where(n_equal < n, medians, 0.0) ** 2 / 12


def split_groups(X: Floats, labels: Labels) -> tuple[NDArray[np.intp], list[Floats]]:
    """Return the positions of the rows of groups 0, 1, ..., one group after the other, and the rows of each group."""
    order = np.argsort(labels, kind="stable")
    return order, np.split(X[order], np.cumsum(np.bincount(labels))[:-1])


class Products:
    """Rows with the products of every two columns, in single precision.

    Log densities and the moments of groups are linear in them: one matrix product for all groups. Tied groups differ
    in linear terms only. The columns are rotated and scaled until they are uncorrelated, with variance 1: covariances
    of groups, which are shrunken towards a share of the overall one, then are far from singular.
    """

    def __init__(self, X: Floats) -> None:
        n, d = X.shape
        self.rounding, self.shift = rounding_variance(X), X.mean(0)
        self.overall, centered = overall_covariance(X, self.rounding), X - self.shift
        self.root, self.scatter = np.linalg.cholesky(self.overall), centered.T @ centered
        self.linear = Terms(np.hstack([np.ones((n, 1)), solve_triangular(self.root, centered.T, lower=True).T]))
        self.pairs = np.triu_indices(d)
        self.place = np.empty((d, d), dtype=np.intp)  # of the product of columns i and j among the quadratic terms
        self.place[self.pairs] = self.place.T[self.pairs] = 1 + d + np.arange(len(self.pairs[0]))
        self.halves = np.where(self.pairs[0] == self.pairs[1], -0.5, -1.0)  # both orders of a pair are one term

    @cached_property
    def quadratic(self) -> "Terms":
        """The linear terms and all products, 1 + d + d (d + 1) / 2 of them."""
        rows = self.linear.by_row
        return Terms(np.hstack([rows, rows[:, 1 + self.pairs[0]] * rows[:, 1 + self.pairs[1]]]))

    def gaussians(self, weights: Floats, *, tied: bool) -> Gaussians:
        """Return the Gaussians of the rows with weights (c, n) that sum to 1, with shrunken covariances."""
        sums = (weights @ (self.linear if tied else self.quadratic).by_row).astype(np.float64)
        sizes, n_linear = sums[:, 0] + 1e-10, 1 + len(self.root)
        means = sums[:, 1:n_linear] / sizes[:, None]
        if tied:
            means = means @ self.root.T
            scatters = (self.scatter - (means.T * sizes) @ means)[None]
        else:
            scatters = sums[:, self.place] - sizes[:, None, None] * means[:, :, None] * means[:, None]
            means, scatters = means @ self.root.T, self.root @ scatters @ self.root.T
        return Gaussians.shrunken(sizes, means + self.shift, scatters, self.overall, self.rounding)

    def probabilities(self, model: Gaussians) -> tuple[Floats, float]:
        """Return the probability of every group for every row, (c, n), and the log-likelihood per row."""
        roots, shifts = model.inverses @ self.root, model.inverses @ (model.means - self.shift)[:, :, None]
        slopes = (roots.transpose(0, 2, 1) @ shifts)[..., 0]
        factors = [model.constants[:, None] - 0.5 * np.square(shifts).sum(1), slopes]
        terms, shared = self.linear, 0.0
        if len(roots) == 1:
            shared = -0.5 * float(((model.inverses[0] @ self.scatter) * model.inverses[0]).sum() / len(terms.by_row))
        else:
            precisions = roots.transpose(0, 2, 1) @ roots
            terms, factors = self.quadratic, [*factors, precisions[:, self.pairs[0], self.pairs[1]] * self.halves]
        P: Floats = np.concatenate(factors, axis=1).astype(np.float32) @ terms.by_term
        top = P.max(0)
        P -= top
        np.exp(np.maximum(P, LEAST_LOG, out=P), out=P)
        total = P.sum(0)
        P /= total
        return P, float((top + np.log(total)).mean(dtype=np.float64)) + shared


class Terms:
    """What densities and moments are linear in: in the order of memory in which each product is fast."""

    def __init__(self, rows: Floats) -> None:
        self.by_row = np.ascontiguousarray(rows, dtype=np.float32)
        self.by_term = np.ascontiguousarray(self.by_row.T)


def gaussian_mixture(rows: Products, start: Labels, n_clusters: int, *, tied: bool) -> tuple[Gaussians, Labels]:
    """Return the mixture that expectation maximisation reaches from a partition, and the groups of the rows in it."""
    weights: Floats = np.eye(n_clusters, dtype=np.float32)[:, start]
    before = -np.inf
    for _ in range(MAX_ITER):
        model = rows.gaussians(weights, tied=tied)
        weights, value = rows.probabilities(model)
        if value - before < TOL:
            break
        before = value
    labels: Labels = weights.argmax(0)
    return model, labels
