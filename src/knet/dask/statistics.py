"""Statistics over all rows of a Dask collection: the clusters' sizes and means, and drift from the training sample."""

from typing import Any

import dask

from knet.dask.lazy import LazyModel, blocks_of, merge_tree
from knet.explore.statistics import Drift, Moments, Summary
from knet.model.blocks import ModelOrPath, ModelRef, fingerprint, in_slices
from knet.model.light import LightModel


def summarize(model: ModelOrPath, X: Any, *, threads: int = 1, device: str = "cpu") -> Summary:
    """Return sizes, means and standard deviations of the clusters over all rows, in one pass.

    Parameters are those of `predict`.
    """
    return Summary.of(_moments(LazyModel(model, X, threads, device)))


def drift(model: ModelOrPath, X: Any, reference: Any = None, *, threads: int = 1, device: str = "cpu") -> Drift:
    """Compare rows with the training sample, in one pass.

    Parameters
    ----------
    model, X, threads, device
        As in `predict`.
    reference : array-like or sparse matrix in memory, optional
        The training sample, or rows that represent it. Not needed if `knet.dask.fit` fitted the model.
    """
    lazy = LazyModel(model, X, threads, device)
    known = _stored_description(lazy.light) if reference is None else describe_sample(lazy.light, reference)
    return Drift.of(_moments(lazy), known)


def _moments(lazy: LazyModel) -> Moments:
    parts = [dask.delayed(_block_moments)(rows, *lazy.settings) for rows in blocks_of(lazy.X)]
    found: Moments = merge_tree(parts, Moments.merge)
    return found


def _block_moments(block: Any, ref: ModelRef, dtype: str, threads: int) -> Moments:
    return Moments.merge(in_slices(block, ref, dtype, threads, Moments.of_block))


def describe_sample(model: LightModel, rows: Any) -> dict[str, Any]:
    """Return the description of a training sample that `drift` compares with, as plain data for the model file."""
    return {"model": fingerprint(model), **Moments.of_rows(model.predictor, model._rows(rows)).describe()}


def _stored_description(model: LightModel) -> dict[str, Any]:
    known: dict[str, Any] = model.extra.get("reference", {})
    if known.get("model") != fingerprint(model):
        raise ValueError(
            "The model has no description of its training sample: only knet.dask.fit stores it. "
            "Pass the sample, or rows that represent it, as `reference`."
        )
    return known
