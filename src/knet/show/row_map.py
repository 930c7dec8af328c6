"""The map of rows: what the report's script draws on canvases, so that a reader can point at a row."""

import base64

import numpy as np
from numpy.typing import NDArray

from knet.arrays import AnyArray, Floats
from knet.estimator import KNet
from knet.show.planes import describe_projection, identical_rows, row_plane
from knet.show.report_tables import RowNames

MAP_ROWS = 3000  # the maximum number of points
HOVER_COLUMNS = 4

# The markers of `drawing.MARKERS` as corners of a polygon around 0 with a radius of about 1, y downwards; a circle has
# none.
CORNERS: tuple[tuple[tuple[float, float], ...], ...] = (
    (),
    ((0, -1.3), (1.2, 1), (-1.2, 1)),
    ((-1, -1), (1, -1), (1, 1), (-1, 1)),
    ((0, -1.4), (1.4, 0), (0, 1.4), (-1.4, 0)),
    ((0, 1.3), (1.2, -1), (-1.2, -1)),
)


def row_map(
    model: KNet, names: RowNames, random_state: int, *, with_certainty: bool = True
) -> tuple[dict[str, object], dict[str, str]]:
    """Return the data of the page's script, ready for JSON with arrays as base64 text, and a note on each view."""
    rows = names.rows.thin(MAP_ROWS, random_state)
    n_clusters = len(np.unique(rows.labels))
    data = describe_projection(model, *row_plane(rows.scaled, n_clusters))
    views = {"data": data, "embedding": row_plane(rows.Psi, n_clusters)}
    copies = identical_rows(rows.scaled)
    drawn: dict[str, object] = {
        "corners": CORNERS,
        "labels": _encoded(rows.labels.astype("<u2")),
        "rows": [names.name(int(row)) for row in rows.rows],
        "copies": _encoded(np.minimum(copies, 2**16 - 1).astype("<u2")),
        "certainty": [f"{value:.2f}" for value in model.predictor_.memberships(rows.X).max(1)] * with_certainty,
        "hoverNames": names.columns[:HOVER_COLUMNS],
        "hover": [[feature.cell(values) for feature in names.features[:HOVER_COLUMNS]] for values in rows.X],
        "views": {name: _encoded(quantized(flat)) for name, (flat, _) in views.items()},
    }
    size = f"{len(rows.rows):,} rows" + "; larger points are several identical rows" * bool((copies > 1).any())
    return drawn, {name: f"{note or 'two dimensions, as they are'}; {size}" for name, (_, note) in views.items()}


def quantized(points: Floats) -> NDArray[np.uint16]:
    """Return points of the plane as 16-bit numbers, centred, with the same scale on both axes."""
    low, high = points.min(0), points.max(0)
    span = max(float((high - low).max()), np.finfo(float).tiny)
    unit = (points - (low + high) / 2) / span + 0.5
    short: NDArray[np.uint16] = np.round(unit * 65535).astype("<u2")
    return short


def _encoded(array: AnyArray) -> str:
    """Return the bytes of an array as base64 text."""
    return base64.b64encode(np.ascontiguousarray(array).tobytes()).decode()
