"""The report as a page: one HTML file that loads nothing from elsewhere and is safe to open and to send.

Column names and values are not trusted: the template escapes all of them, and the page's Content-Security-Policy allows
only the report's own script and style, by their hashes, and no other source.
"""

import base64
import hashlib
import os
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

try:
    from jinja2 import Environment
except ImportError as error:
    raise ImportError("The report needs jinja2. Install it with: pip install 'knet-clustering[report]'") from error
from markupsafe import Markup
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from knet.estimator import KNet
from knet.explore.stability import Stability
from knet.files import check_new, write_whole
from knet.show.findings import Findings, collect


def report(
    model: KNet,
    X: Any,
    path: str | os.PathLike[str],
    *,
    target: ArrayLike | None = None,
    ids: Sequence[Any] | None = None,
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
    found = collect(
        model,
        X,
        target=target,
        ids=ids,
        source=source,
        command=command,
        labels=labels,
        stability=stability,
        n_refits=n_refits,
        random_state=random_state,
    )
    write_whole(Path(path), render(found).encode(), overwrite=overwrite)


def render(found: Findings) -> str:
    """Return the page as text."""
    folder = files("knet.show")
    script, style = ((folder / f"page.{kind}").read_text(encoding="utf-8") for kind in ("js", "css"))
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((folder / "page.html").read_text(encoding="utf-8"))
    page = template.render(
        f=found,
        data=found.canvas,
        script=Markup(script),
        style=Markup(style),
        script_hash=_hash(script),
        style_hash=_hash(style),
    )
    return page.strip() + "\n"


def _hash(text: str) -> str:
    """Return the hash by which a Content-Security-Policy identifies an inline element."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
