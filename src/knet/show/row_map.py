"""The map of rows: what the report's script draws on canvases, so that a reader can point at a row."""

import base64
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from knet.arrays import AnyArray, Floats
from knet.estimator import KNet
from knet.explore.features import MISSING, Feature
from knet.show.planes import describe_projection, identical_rows, row_plane
from knet.show.report_tables import RowNames, short

MAP_ROWS = 3000  # the maximum number of points
MAP_TEXT = 600_000  # characters of the values of these rows; columns beyond them are left out

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
    copies, columns = identical_rows(rows.scaled), shown_columns(names.sorted, rows.X)
    drawn: dict[str, object] = {
        "corners": CORNERS,
        "labels": _encoded(rows.labels.astype("<u2")),
        "rows": [names.name(int(row)) for row in rows.rows],
        "positions": [] if names.ids is None else rows.rows.tolist(),
        "copies": _encoded(np.minimum(copies, 2**16 - 1).astype("<u2")),
        "certainty": [f"{value:.2f}" for value in model.predictor_.memberships(rows.X).max(1)] * with_certainty,
        "columns": columns,
        "views": {name: _encoded(quantized(flat)) for name, (flat, _) in views.items()},
    }
    size = f"{len(rows.rows):,} rows" + "; larger points are several identical rows" * bool((copies > 1).any())
    return drawn, {name: f"{note or 'two dimensions, as they are'}; {size}" for name, (_, note) in views.items()}


def shown_columns(features: Sequence[Feature], X: Floats) -> list[dict[str, object]]:
    """Return name, kind and exact values of columns, as many as the page has space for; a missing value is empty."""
    found: list[dict[str, object]] = []
    n_left = MAP_TEXT
    for feature in features:
        values = [short(feature.cell(row, exact=True)) for row in X]
        values = ["" if value == MISSING else value for value in values]
        n_left -= sum(map(len, values))
        if found and n_left < 0:
            break
        is_number = feature.kind in ("number", "whole", "binary")
        found.append({"name": short(feature.name), "isNumber": is_number, "values": values})
    return found


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
