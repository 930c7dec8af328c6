"""What the pictures and the report show, as numbers: rows to draw, kernel matrices, spectra, silhouettes, profiles.

Time is bounded whatever the size of the data: rows are sampled, from every cluster its share.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.metrics import silhouette_samples

from knet._math.kernels import gaussian_kernel
from knet._math.laplacians import DenseLaplacian

Floats = NDArray[np.floating]


Labels = NDArray[np.int64]


# Okabe and Ito's eight, the yellow darkened so that it shows on white.
COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000", "#B8A800")


MATRIX_ROWS = 400  # rows and columns of a kernel matrix


PAIR_ROWS = 2000  # rows whose pairs are compared: silhouettes


SPECTRUM_ROWS = 800  # rows whose kernel is decomposed


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
