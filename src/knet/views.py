"""What the pictures and the report show, as numbers: rows to draw, kernel matrices, spectra, silhouettes, profiles.

Time is bounded whatever the size of the data: rows are sampled, from every cluster its share.
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import silhouette_samples

from knet.estimator import KNet
from knet.kernels import gaussian_kernel
from knet.spectral import DenseLaplacian

Floats = NDArray[np.floating]
Labels = NDArray[np.int64]

# Okabe and Ito's eight, the yellow darkened so that it shows on white.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000", "#B8A800")

SCATTER_ROWS = 5000  # points in a scatter
MATRIX_ROWS = 400  # rows and columns of a kernel matrix
PAIR_ROWS = 2000  # rows whose pairs are compared: silhouettes
SPECTRUM_ROWS = 800  # rows whose kernel is decomposed
POOL_ROWS = 50_000  # rows that are labelled in order to draw from every cluster
POOL_VALUES = 10_000_000  # and the values in them, which bounds the rows of wide tables


@dataclass(frozen=True)
class Sample:
    """Rows to draw, in the order of the data: raw, scaled as the model scales them, embedded, and their clusters."""

    rows: NDArray[np.int64]
    X: Floats
    scaled: Floats
    Psi: Floats
    labels: Labels
    n_rows: int

    @property
    def rate(self) -> str:
        """Say how many of the rows are drawn; nothing where all are."""
        drawn = len(self.rows)
        return "" if drawn == self.n_rows else f"{drawn:,} of {self.n_rows:,} rows"

    def thin(self, max_rows: int, seed: int = 0) -> "Sample":
        """Return at most about `max_rows` of these rows."""
        kept = _stratified(self.labels, max_rows, np.random.default_rng(seed))
        names = ("rows", "X", "scaled", "Psi", "labels")
        return replace(self, **{name: getattr(self, name)[kept] for name in names})


def sample(model: KNet, X: Any, max_rows: int = SCATTER_ROWS, seed: int = 0) -> Sample:
    """Return at most about `max_rows` rows of X, from each cluster its share and at least a few.

    Of more than `POOL_ROWS` rows (fewer where rows are wide), a random pool of that size stands for all.
    """
    rng = np.random.default_rng(seed)
    n_rows = count_rows(X)
    n_pool = min(POOL_ROWS, max(SCATTER_ROWS, POOL_VALUES // model.n_features_in_))
    pool = np.arange(n_rows) if n_rows <= n_pool else np.sort(rng.choice(n_rows, n_pool, replace=False))
    table = X if len(pool) == n_rows else take_rows(X, pool)
    labels = model.predict(table)
    kept = _stratified(labels, max_rows, rng)
    table = table if len(kept) == len(pool) else take_rows(table, kept)
    values = np.asarray(table, dtype=np.float64)
    predictor = model.predictor_
    return Sample(
        rows=pool[kept],
        X=values,
        scaled=(values - predictor.shift) / predictor.scale,
        Psi=predictor.embed(values),
        labels=labels[kept],
        n_rows=n_rows,
    )


def take_rows(X: Any, rows: NDArray[np.integer[Any]]) -> Any:
    """Return the given rows of an array or a table, in its own kind."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if hasattr(X, "column_names") and hasattr(X, "take"):  # an Arrow table
        return X.take(rows)
    if hasattr(X, "columns"):  # polars
        return X[rows]
    return np.asarray(X)[rows]


def count_rows(X: Any) -> int:
    """Return the number of rows of an array or a table."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def column_names(model: KNet) -> list[str]:
    """Return the names of the columns, or x0, x1, ... where the model knows none."""
    names = getattr(model, "feature_names_in_", None)
    return [f"x{j}" for j in range(model.n_features_in_)] if names is None else [str(name) for name in names]


def _stratified(labels: Labels, max_rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Return at most about `max_rows` positions, sorted, from each cluster in proportion and at least three."""
    if len(labels) <= max_rows:
        return np.arange(len(labels))
    groups = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    sizes = [min(len(group), max(3, int(max_rows * len(group) / len(labels)))) for group in groups]
    return np.sort(np.concatenate([rng.choice(g, n, replace=False) for g, n in zip(groups, sizes, strict=True)]))


def plane(points: Floats) -> tuple[Floats, str]:
    """Return points in two dimensions and a note on how: as they are, or their first two principal components."""
    directions, center, note = plane_map(points)
    if directions.shape[1] == 1:
        height = np.random.default_rng(0).uniform(-1, 1, len(points))
        return np.column_stack([points[:, 0], height]), note
    return (points - center) @ directions, note


def plane_map(points: Floats) -> tuple[Floats, Floats, str]:
    """Return directions (d, 2) and the point they are taken from, so that other rows can go the same way."""
    width = points.shape[1]
    if width <= 2:
        return np.eye(width), np.zeros(width), "one dimension, heights are random" if width == 1 else ""
    center = points.mean(0)
    _, s, Vt = np.linalg.svd(points - center, full_matrices=False)
    Vt = np.vstack([Vt, np.zeros((2, width))])[:2]  # a single row has a single direction
    signs = np.where(Vt[np.arange(2), np.abs(Vt).argmax(1)] < 0, -1.0, 1.0)
    share = float((s[:2] ** 2).sum() / max((s**2).sum(), np.finfo(float).tiny))
    return Vt.T * signs, center, f"PCA of {width} dimensions, {share:.0%} of the variance"


def kernel_matrix(points: Floats, labels: Labels, sigma: float) -> Floats:
    """Return the Gaussian kernel matrix of the points, ordered by cluster."""
    ordered = torch.from_numpy(np.ascontiguousarray(points[np.argsort(labels, kind="stable")]))
    K: Floats = gaussian_kernel(ordered, ordered, sigma).numpy()
    return K


def spectrum(points: Floats, sigma: float, n_values: int) -> Floats:
    """Return the largest eigenvalues of the points' operator L, downwards [U-EIG]."""
    n_values = min(n_values, len(points) - 1)
    values: Floats = DenseLaplacian(torch.from_numpy(points), sigma).largest(n_values)[0].cpu().numpy()
    return values


def silhouettes(points: Floats, labels: Labels) -> Floats:
    """Return the silhouette of each row, in [-1, 1]; zeros where there is but one cluster."""
    n_found = len(np.unique(labels))
    if not 2 <= n_found < len(labels):
        return np.zeros(len(labels))
    values: Floats = silhouette_samples(points, labels)
    return values


def profiles(X: Floats, labels: Labels) -> tuple[Labels, Floats, Floats]:
    """Return the clusters, their standardised medians (c, d), and how telling each column is (d,).

    A median is given in robust deviations from the median of all rows. A column is telling as far as the clusters
    account for its variance (eta squared, in [0, 1]).
    """
    clusters = np.unique(labels)
    middle = np.median(X, axis=0)
    deviation = (np.quantile(X, 0.75, axis=0) - np.quantile(X, 0.25, axis=0)) / 1.349
    deviation = np.where(deviation > 0, deviation, X.std(0))
    deviation = np.where(deviation > 0, deviation, 1.0)
    Z = (X - middle) / deviation
    medians = np.array([np.median(Z[labels == cluster], axis=0) for cluster in clusters])
    shares = np.array([(labels == cluster).mean() for cluster in clusters])
    means = np.array([Z[labels == cluster].mean(0) for cluster in clusters])
    between = (shares[:, None] * np.square(means - Z.mean(0))).sum(0)
    total = Z.var(0)
    return clusters, medians, between / np.where(total > 0, total, 1.0)
