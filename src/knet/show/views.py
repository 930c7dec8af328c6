"""The numbers behind plots and reports: projections, kernel matrices, spectra, silhouettes and profiles of clusters.

Every function takes arrays and returns arrays; `samples` limits how many rows they receive.
"""

import numpy as np
import torch
from sklearn.metrics import silhouette_samples

from knet.arrays import Floats, Labels
from knet.train.kernels import gaussian_kernel
from knet.train.laplacians import DenseLaplacian

IQR_OF_NORMAL = 1.349  # interquartile range of a normal distribution, in standard deviations


def plane(points: Floats) -> tuple[Floats, str]:
    """Return points in two dimensions and a note on the projection: none, or the first two principal components."""
    directions, center, note = plane_map(points)
    if directions.shape[1] == 1:
        height = np.random.default_rng(0).uniform(-1, 1, len(points))
        return np.column_stack([points[:, 0], height]), note
    return (points - center) @ directions, note


def plane_map(points: Floats) -> tuple[Floats, Floats, str]:
    """Return directions (d, 2), the origin and a note, to project other points to the same plane."""
    width = points.shape[1]
    if width <= 2:
        return np.eye(width), np.zeros(width), "one dimension; heights are random" if width == 1 else ""
    center = points.mean(0)
    _, s, Vt = np.linalg.svd(points - center, full_matrices=False)
    Vt = np.vstack([Vt, np.zeros((2, width))])[:2]  # a single row has a single direction
    signs = np.where(Vt[np.arange(2), np.abs(Vt).argmax(1)] < 0, -1.0, 1.0)
    share = float((s[:2] ** 2).sum() / max((s**2).sum(), np.finfo(float).tiny))
    return Vt.T * signs, center, f"PCA of {width} dimensions, {share:.0%} of the variance"


def plane_of_iterations(embeddings: Floats, centers: Floats) -> tuple[Floats, Labels, str]:
    """Return the embedding after each iteration in one plane, (iterations, n, 2), the final labels, and a note.

    The plane is that of the last iteration, so that the frames of an animation can be compared.
    """
    last = embeddings[-1]
    directions, center, note = plane_map(last)
    flat = (embeddings - center) @ directions
    flat = flat if flat.shape[2] == 2 else np.concatenate([flat, np.zeros_like(flat)], axis=2)
    labels: Labels = np.square(last[:, None] - centers).sum(2).argmin(1)
    return flat, labels, note


def names_of_iterations(n_stored: int, best_iter: int) -> list[str]:
    """Return what each of the stored embeddings shows; the best iteration is the last of them."""
    before = ["Start", "The start is followed"][: max(1, n_stored - best_iter)]
    return before + [f"Iteration {number}" for number in range(1, n_stored - len(before) + 1)]


def kernel_matrix(points: Floats, labels: Labels, sigma: float) -> Floats:
    """Return the Gaussian kernel matrix of the points, ordered by cluster."""
    ordered = torch.from_numpy(np.ascontiguousarray(points[np.argsort(labels, kind="stable")]))
    K: Floats = gaussian_kernel(ordered, ordered, sigma).numpy()
    return K


def spectrum(points: Floats, sigma: float, n_values: int) -> Floats:
    """Return the largest eigenvalues of the points' operator L, in descending order [U-EIG]."""
    n_values = min(n_values, len(points) - 1)
    values: Floats = DenseLaplacian(torch.from_numpy(points), sigma).largest(n_values)[0].cpu().numpy()
    return values


def silhouettes(points: Floats, labels: Labels) -> Floats:
    """Return the silhouette of each row, in [-1, 1]; zeros if all rows are in one cluster."""
    n_found = len(np.unique(labels))
    if not 2 <= n_found < len(labels):
        return np.zeros(len(labels))
    values: Floats = silhouette_samples(points, labels)
    return values


def profiles(X: Floats, labels: Labels) -> tuple[Labels, Floats, Floats]:
    """Return the clusters, their standardised medians (c, d), and the explained variance of each column (d,).

    A standardised median is the difference from the median of all rows, in robust standard deviations. The explained
    variance is the share of a column's variance that the clusters explain (eta squared, in [0, 1]).
    """
    clusters = np.unique(labels)
    middle = np.median(X, axis=0)
    deviation = (np.quantile(X, 0.75, axis=0) - np.quantile(X, 0.25, axis=0)) / IQR_OF_NORMAL
    deviation = np.where(deviation > 0, deviation, X.std(0))
    deviation = np.where(deviation > 0, deviation, 1.0)
    Z = (X - middle) / deviation
    medians = np.array([np.median(Z[labels == cluster], axis=0) for cluster in clusters])
    return clusters, medians, explained_variance(Z, labels)


def explained_variance(X: Floats, labels: Labels) -> Floats:
    """Return the share of each column's variance that the clusters explain (eta squared, in [0, 1])."""
    own = [X[labels == cluster] for cluster in np.unique(labels)]
    middle, total = X.mean(0), X.var(0)
    between = sum(len(rows) * np.square(rows.mean(0) - middle) for rows in own) / len(X)
    shares: Floats = np.where(total > 0, between / np.where(total > 0, total, 1.0), 0.0)
    return shares
