"""Stability as `knet fit` and `knet report` measure and print it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from knet.cli.messages import say

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import ArrayLike

    from knet.estimator import KNet
    from knet.explore.stability import Stability


def measure_stability(model: KNet, X: pa.Table, n_refits: int, labels: ArrayLike | None = None) -> Stability | None:
    """Refit a model on samples of the rows; None if there are no refits or they would say nothing."""
    if n_refits == 0 or model.n_clusters == 1:
        return None
    from knet.explore.samples import sample_rows
    from knet.explore.stability import REFIT_ROWS, sample_stability

    say(f"{n_refits} refit{'s' * (n_refits != 1)} to measure stability ...")
    rows = sample_rows(model, X, REFIT_ROWS, labels=labels)
    found = sample_stability(model, X, rows, n_refits=n_refits, random_state=0)
    if found is not None and found.caveat:
        say(f"note: {found.caveat}")
    for text in [] if found is None else found.doubts:
        say(f"warning: {text}")
    return found


def stability_facts(stability: Stability | None) -> dict[str, Any]:
    """Return the lines of a summary: the stability of all clusters, and of each; null for a cluster without rows.

    There are none if there are too few rows to say.
    """
    if stability is None or not stability.is_known:
        return {}
    clusters = [round(value, 2) if value == value else None for value in stability.clusters.tolist()]
    return {"stability": round(stability.overall, 2), "cluster_stability": clusters}
