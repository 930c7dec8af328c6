"""The report on a model and its rows: one HTML file that loads nothing from elsewhere and is safe to open and to send.

Column names and values are not trusted: the template escapes all of them, and the page's Content-Security-Policy allows
only the report's own script and style, by their hashes, and images that are part of the page. The figures are those of
`knet.plots`. The time is bounded for any number of rows: everything is computed on samples of at most 50,000 rows.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable, Sequence
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import Any, TypedDict

try:
    from jinja2 import Environment
    from matplotlib import style
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
except ImportError as error:
    message = f"The report needs {error.name}. Install it with: pip install 'knet-clustering[report]'"
    raise ImportError(message) from error
import numpy as np
from markupsafe import Markup
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from knet.arrays import AnyArray, Labels, RowsLike
from knet.estimator import KNet
from knet.explore.features import describe_columns, importance
from knet.explore.rules import find_rules
from knet.explore.samples import POOL_ROWS, Sample, sample_rows
from knet.explore.stability import Stability, sample_stability
from knet.files import check_new, write_whole
from knet.model.file import versions
from knet.show import plots, report_notes, report_tables
from knet.show.profiles import percent, profiles
from knet.show.row_map import CORNERS, row_map

Plot = Callable[..., Axes]

PROFILES = 20  # the maximum number of lines in the table of profiles
FRAMES = 9  # the maximum number of stored embeddings that are shown
FIGURE_STYLE = {"svg.hashsalt": "knet", "savefig.dpi": 150}  # a salt gives the same file each time


class ReportOptions(TypedDict, total=False):
    """The options of `KNet.report`; see `report`."""

    target: ArrayLike | None
    ids: Sequence[object] | None
    source: str
    command: str | None
    n_refits: int
    random_state: int
    overwrite: bool


def report(
    model: KNet,
    X: RowsLike,
    path: str | os.PathLike[str],
    *,
    target: ArrayLike | None = None,
    ids: Sequence[object] | None = None,
    source: str = "the data",
    command: str | None = None,
    labels: ArrayLike | None = None,
    stability: Stability | None = None,
    n_refits: int = 2,
    random_state: int = 0,
    overwrite: bool = False,
) -> None:
    """Write a report on a fitted model and the rows X to one HTML file, completely or not at all.

    Parameters
    ----------
    model : KNet
        A fitted model.
    X : array-like of shape (n_samples, n_features)
        The rows to report on. If there are more than 50,000 rows, the report uses a random sample of that size.
    path : path-like
        The file to write.
    target : array-like of shape (n_samples,), optional
        Known labels, to compare the clusters with.
    ids : sequence of length n_samples, optional
        Names of the rows; by default their positions.
    source : str, default="the data"
        Name of the data.
    command : str, optional
        The command that created the report, for the section "How to reproduce".
    labels : array-like of shape (n_samples,), optional
        The labels that the model gives to X, if they are known; otherwise they are predicted.
    stability : Stability, optional
        How stable the clusters are, if it is known; then no refits are made.
    n_refits : int, default=2
        Number of refits on samples of the rows, to measure how stable the clusters are; 0 measures no stability.
    random_state : int, default=0
        Seed of the samples.
    overwrite : bool, default=False
        Replace an existing file, as the option --force of the command does; otherwise it raises FileExistsError.
    """
    check_is_fitted(model)
    check_new(Path(path), overwrite=overwrite)
    X = model._admit(X)
    rows = sample_rows(model, X, POOL_ROWS, random_state=random_state, labels=labels)
    known, names = None if target is None else np.atleast_1d(target), None if ids is None else list(ids)
    for name, values in (("target", known), ("ids", names)):
        if values is not None and len(values) != rows.n_rows:
            raise ValueError(
                f"{name!r} must hold one value for each of the {rows.n_rows} rows of X. Got {len(values)} instead."
            )
    if stability is None:
        stability = sample_stability(model, X, rows, n_refits=n_refits, random_state=random_state)
    counted = rows.labels if labels is None else np.asarray(labels)  # of all rows if they are known
    sizes = np.bincount(counted, minlength=model.predictor_.n_labels)
    facts = _facts(model, rows, sizes, known, names, stability, random_state)
    page = _render(source=source, reproduce=report_notes.reproduce(model, X, command), **facts)
    write_whole(Path(path), page.encode(), overwrite=overwrite)


def _facts(
    model: KNet,
    rows: Sample,
    sizes: Labels,
    target: AnyArray | None,
    ids: list[object] | None,
    stability: Stability | None,
    random_state: int,
) -> dict[str, object]:
    """Return what the template shows about the rows, by the names that it uses."""
    proba, scores = model.predictor_.memberships(rows.X), model.predictor_.familiarity(rows.X)
    features, certainty = describe_columns(model, rows.X), proba.max(1)
    shares = importance(rows.X, rows.labels, features)
    rules, lines = find_rules(rows.X, rows.labels, features, random_state), profiles(rows, features, shares, PROFILES)
    names = report_tables.RowNames(rows, features, shares, ids)
    shown = stability is None or not stability.is_refuted
    points, views = row_map(model, names, random_state, with_certainty=shown)
    return {
        "model": model,
        "rows": rows,
        "n_columns": len(features),
        "n_counted": int(sizes.sum()),
        "shows_certainty": shown,
        "verdict": report_notes.verdict(model, sizes, rows.n_rows, float(certainty.mean()), stability),
        "warnings": report_notes.warnings(model, rows, proba, stability),
        "clusters": report_tables.cluster_rows(rows, sizes, proba, stability, rules),
        "profiles": [(line, report_tables.color_levels(line)) for line in lines],
        "has_gaps": bool(np.isnan(rows.X).any()),
        "n_hidden": rows.X.shape[1] - len(lines),
        "row_columns": names.columns,
        "typical": report_tables.typical_rows(names, scores),
        "uncertain": report_tables.uncertain_rows(names, proba),
        "n_uncertain": int((certainty < report_tables.SURE).sum()),
        "unfamiliar": report_tables.unfamiliar_rows(names, scores),
        "data": points,
        "views": views,
        "agreement": report_tables.agreement(rows, target),
        "training_note": report_notes.training_note(model),
        "pictures": _pictures(model, rows, random_state),
    }


def _pictures(model: KNet, rows: Sample, random_state: int) -> dict[str, list[Markup]]:
    """Return the figures of `knet.plots` for the section on diagnostics, by the part of it."""
    n_stored = 0 if getattr(model, "embeddings_", None) is None else len(model.embeddings_)
    frames = np.unique(np.linspace(0, n_stored - 1, min(n_stored, FRAMES)).astype(int)).tolist()

    def of_rows(plot: Plot, **options: Any) -> Markup:
        return _picture(plot, model, rows, random_state=random_state, **options)

    with style.context(["default", FIGURE_STYLE]):  # the user's own settings come back afterwards
        return {
            "kernels": [of_rows(plot, size=(3.8, 4.0)) for plot in (plots.raw_kernel, plots.learned_kernel)],
            "iterations": [_picture(plots.iteration, model, number=frame, size=(3.2, 3.2)) for frame in frames],
            "training": [
                *([_picture(plots.history, model)] if len(model.history_) > 1 else []),  # a sentence says it all of one
                of_rows(plots.spectrum),
                *([_picture(plots.selection, model)] if getattr(model, "selection_", None) else []),
                *([_picture(plots.levels, model)] if model.n_clusters_ > 2 else []),
            ],
            "silhouettes": [of_rows(plots.silhouettes, space=space) for space in ("data", "embedding")],
        }


def _picture(plot: Plot, *rows: object, size: tuple[float, float] = (4.8, 3.6), **options: Any) -> Markup:
    """Return a figure as an image in HTML, of a size in inches and without a background: the page has one."""
    figure, file = Figure(figsize=size, layout="constrained"), BytesIO()
    ax = plot(*rows, ax=figure.subplots(), **options)
    figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    content = base64.b64encode(file.getvalue()).decode()
    return Markup('<img src="data:image/svg+xml;base64,{}" alt="{}">').format(content, ax.get_label())  # escapes both


def _render(**facts: object) -> str:
    """Return the page as text."""
    folder = files("knet.show")
    script, css = ((folder / f"page.{kind}").read_text(encoding="utf-8") for kind in ("js", "css"))
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"percent": percent, "short": report_tables.short, "plural": report_notes.plural}
    template = environment.from_string((folder / "page.html").read_text(encoding="utf-8"))
    page = template.render(
        corners=CORNERS,
        versions=versions(),
        script=Markup(script),
        style=Markup(css),
        script_hash=_hash(script),
        style_hash=_hash(css),
        **facts,
    )
    return page.strip() + "\n"


def _hash(text: str) -> str:
    """Return the hash by which a Content-Security-Policy identifies an inline element."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
