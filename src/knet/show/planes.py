"""Points in two dimensions, for the plots and for the map of rows in the report."""

import numpy as np

from knet.arrays import Floats, Labels
from knet.estimator import KNet
from knet.explore.samples import Sample
from knet.start.layout import layout, neighbors_preserved

MAX_IN_PLANE = 4  # clusters that a plane of principal components can show
MIN_LAYOUT_ROWS = 50  # different rows of which a neighbour graph makes sense


def data_plane(model: KNet, rows: Sample) -> tuple[Floats, str]:
    """Return the scaled rows in two dimensions, and a note on how they were projected; it may be empty."""
    return describe_projection(model, *plane(rows.scaled))


def describe_projection(model: KNet, flat: Floats, note: str) -> tuple[Floats, str]:
    """Return points of the plane, with the principal components that the model uses in the note."""
    projection = model.predictor_.preparation.projection
    if projection is None:
        return flat, note
    components = f"{projection.shape[1]} principal components of {projection.shape[0]} columns"
    return flat, f"{note}; these are {components}" if note else components


def row_plane(points: Floats, n_clusters: int) -> tuple[Floats, str]:
    """Return points in two dimensions for the map of rows, and a note on them.

    A plane can hold three or four groups apart; more of them lie on top of each other. Then the map is a layout of the
    neighbour graph, which keeps neighbours together, and the note says how many of them.
    """
    if n_clusters <= MAX_IN_PLANE or points.shape[1] <= 2 or len(np.unique(points, axis=0)) < MIN_LAYOUT_ROWS:
        return plane(points)
    flat = layout(points, 2, np.random.RandomState(0))
    kept = neighbors_preserved(points, flat)
    return flat, f"layout of the neighbour graph, {kept:.0%} of the nearest neighbours preserved; axes mean nothing"


def plane(points: Floats) -> tuple[Floats, str]:
    """Return points in two dimensions and a note on the projection: none, or the first two principal components."""
    directions, center, note = _projection(points)
    if directions.shape[1] == 1:
        height = np.random.default_rng(0).uniform(-1, 1, len(points))
        return np.column_stack([points[:, 0], height]), note
    return (points - center) @ directions, note


def identical_rows(points: Floats) -> Labels:
    """Return for every row how many rows are identical to it, itself included."""
    inverse, counts = np.unique(points, axis=0, return_inverse=True, return_counts=True)[1:]
    copies: Labels = counts[inverse.ravel()]
    return copies


def plane_of_iterations(model: KNet) -> tuple[Floats, Labels, str]:
    """Return the stored embeddings in one plane, (n_stored, n, 2), the final labels of their rows, and a note.

    The plane is that of the last one, so that they can be compared.
    """
    embeddings = np.asarray(model.embeddings_, dtype=np.float64)
    last = embeddings[-1]
    directions, center, note = _projection(last)
    flat = (embeddings - center) @ directions
    flat = flat if flat.shape[2] == 2 else np.concatenate([flat, np.zeros_like(flat)], axis=2)
    labels: Labels = np.square(last[:, None] - model.cluster_centers_).sum(2).argmin(1)
    return flat, labels, note


def _projection(points: Floats) -> tuple[Floats, Floats, str]:
    """Return directions (d, 2), the origin and a note."""
    width = points.shape[1]
    if width <= 2:
        return np.eye(width), np.zeros(width), "one dimension; heights are random" if width == 1 else ""
    center = points.mean(0)
    _, s, Vt = np.linalg.svd(points - center, full_matrices=False)
    Vt = np.vstack([Vt, np.zeros((2, width))])[:2]  # a single row has a single direction
    signs = np.where(Vt[np.arange(2), np.abs(Vt).argmax(1)] < 0, -1.0, 1.0)
    share = float((s[:2] ** 2).sum() / max((s**2).sum(), np.finfo(float).tiny))
    return Vt.T * signs, center, f"PCA of {width} dimensions, {share:.0%} of the variance"
