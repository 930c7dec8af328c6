"""What the page's script draws on canvases: points, kernel matrices and the embedding after each iteration."""

import base64
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knet.arrays import Floats
from knet.estimator import KNet
from knet.explore.samples import Sample
from knet.show import views
from knet.show.charts import quantized
from knet.show.palette import CORNERS
from knet.show.tables import RowNames

HOVER_COLUMNS = 4
ITERATION_ROWS = 600


def canvas_data(
    model: KNet, points: Sample, planes: dict[str, Floats], matrix: Sample, names: RowNames, random_state: int
) -> dict[str, Any]:
    """Return the data of the page's script, ready for JSON; arrays are base64 text.

    `planes` holds the `points` in two dimensions, before and after; `matrix` are the rows of the kernel matrices.
    """
    kernels = {
        name: np.round(255 * views.kernel_matrix(values, matrix.labels, model.sigma_)).astype(np.uint8)
        for name, values in (("raw", matrix.scaled), ("learned", matrix.Psi))
    }
    certainty = model.predictor_.memberships(points.X).max(1)
    hovered = names.features[:HOVER_COLUMNS]
    iterations, iteration_labels = _iterations(model, random_state)
    return {
        "corners": CORNERS,
        "labels": _encoded(points.labels.astype("<u2")),
        "rows": [names.name(int(row)) for row in points.rows],
        "certainty": [f"{value:.2f}" for value in certainty],
        "hoverNames": names.columns[:HOVER_COLUMNS],
        "hover": [[feature.cell(values) for feature in hovered] for values in points.X],
        "views": {name: _encoded(quantized(xy)) for name, xy in planes.items()},
        "kernels": {name: _encoded(K) for name, K in kernels.items()},
        "kernelLabels": _encoded(np.sort(matrix.labels).astype("<u2")),
        "iterations": iterations,
        "iterationLabels": iteration_labels,
        "iterationNames": views.names_of_iterations(len(iterations), model.best_iter_),
    }


def _iterations(model: KNet, random_state: int) -> tuple[list[str], str]:
    """Return the embedding after each iteration and the final labels, if the model stored the embeddings."""
    stored = getattr(model, "embeddings_", None)
    if stored is None or not len(stored):
        return [], ""
    embeddings = np.asarray(stored, dtype=np.float64)
    drawn = np.random.default_rng(random_state).permutation(embeddings.shape[1])[:ITERATION_ROWS]
    flat, labels, _ = views.plane_of_iterations(embeddings[:, drawn], model.cluster_centers_)
    return [_encoded(quantized(points)) for points in flat], _encoded(labels.astype("<u2"))


def _encoded(array: NDArray[Any]) -> str:
    """Return the bytes of an array as base64 text."""
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
