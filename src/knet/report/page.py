"""The report on a model and its data: one HTML file that needs nothing else, safe to open and to send.

Column names and values are not trusted: the template escapes all of them, and the page's Content-Security-Policy admits
the report's own script and style by their hashes and nothing else, no address of any kind.
"""

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

try:
    from jinja2 import Environment
except ImportError as error:
    raise ImportError("The report needs jinja2. Install it with: pip install 'knet[report]'") from error
from markupsafe import Markup
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from knet.estimator import KNet
from knet.report.findings import Findings, collect


def report(
    model: KNet,
    X: Any,
    path: str | Path,
    *,
    target: ArrayLike | None = None,
    ids: Sequence[Any] | None = None,
    source: str = "the data",
    command: str | None = None,
    refits: int = 2,
    seed: int = 0,
) -> None:
    """Write a report on a fitted model and the rows X to one HTML file.

    Parameters
    ----------
    model : KNet
        A fitted model.
    X : array-like of shape (n_samples, n_features)
        The rows to report on; of more than 50,000, that many are drawn.
    path : path-like
        The file to write.
    target : array-like of shape (n_samples,), optional
        Known labels, to compare the clusters with.
    ids : sequence of length n_samples, optional
        What to call the rows; their positions by default.
    source : str
        What to call the data.
    command : str, optional
        The command that made this, for the section on how to reproduce it.
    refits : int, default=2
        Fits with other seeds on samples of the rows, to measure how stable the clusters are; 0 leaves that out.
    seed : int, default=0
        Seed of the samples.
    """
    check_is_fitted(model)
    found = collect(model, X, target=target, ids=ids, source=source, command=command, refits=refits, seed=seed)
    Path(path).write_text(render(found), encoding="utf-8")


def render(found: Findings) -> str:
    """Return the page."""
    folder = files("knet.report")
    script, style = ((folder / f"page.{kind}").read_text(encoding="utf-8") for kind in ("js", "css"))
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((folder / "page.html").read_text(encoding="utf-8"))
    page = template.render(
        f=found,
        data=found.drawn,
        script=Markup(script),
        style=Markup(style),
        script_hash=_hash(script),
        style_hash=_hash(style),
    )
    return page.strip() + "\n"


def _hash(text: str) -> str:
    """Return the hash that a Content-Security-Policy names an inline element by."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
