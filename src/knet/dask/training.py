"""Fits on a uniform sample of a Dask collection, and the refinement of their centres on all rows."""

import copy
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from knet import parameters as rules
from knet.arrays import Floats
from knet.dask.lazy import LazyModel, check_collection, example_row, predict
from knet.dask.reductions import Drawn, LloydSums, draw, lloyd_sums, merge_drawn, merge_lloyd
from knet.dask.statistics import describe_sample
from knet.dask.tree import reduce_blocks
from knet.estimator import KNet
from knet.model.predictor import Clusters
from knet.parameters import check_parameters
from knet.train.host import random_generator

SAMPLE_ROWS = 50_000  # rows that `fit` loads into memory
CONVERGED = 1e-4  # refinement stops if no centre moves further than this, in typical distances to a centre


def sample(X: Any, n_rows: int, *, random_state: Any = None) -> Any:
    """Return a uniform sample of rows in memory, in the order of X, from one pass.

    Parameters
    ----------
    X : dask.array.Array or dask.dataframe.DataFrame
        Rows, in blocks.
    n_rows : int
        Number of rows to draw without replacement; if X has fewer rows, all of them are returned.
    random_state : int, RandomState, Generator or None
        Decides the sample together with the blocks of X. The result does not depend on the workers.

    Returns
    -------
    rows : ndarray or pandas DataFrame
        The drawn rows.
    """
    rules.check_parameter("knet.dask.sample", "n_rows", n_rows, [], [rules.integer(1)])
    return _draw(check_collection(X), n_rows, random_generator(random_state)).rows


def _draw(X: Any, size: int, rng: np.random.RandomState) -> Drawn:
    block = partial(draw, size=size, seed=int(rng.randint(np.iinfo(np.int32).max)))
    drawn: Drawn = reduce_blocks(X, block, partial(merge_drawn, size=size)).compute()
    return drawn


def fit(
    model: KNet,
    X: Any,
    y: Any = None,
    sample_weight: None = None,
    *,
    sample_size: int = SAMPLE_ROWS,
    refine: int = 0,
    threads: int = 1,
    device: str = "cpu",
) -> KNet:
    """Fit a model to a sample of the rows in this process; the workers can then refine its centres on all rows.

    Parameters
    ----------
    model : KNet
        The estimator to fit. Its `train_size` applies to the sample.
    X : dask.array.Array or dask.dataframe.DataFrame
        Rows to cluster.
    y : ignored
        Present by convention.
    sample_weight : None
        Weights are supported for rows in memory only.
    sample_size : int, default=50_000
        Number of rows to draw; see `sample`. The model's `random_state` decides which rows.
    refine : int, default=0
        Maximum number of iterations of Lloyd's algorithm that move the centres in the embedding. Each iteration is a
        pass over all rows.
    threads, device
        As in `predict`, for the refinement.

    Returns
    -------
    model : KNet
        The same estimator, fitted. `labels_` is lazy, with a label for every row of X; `train_indices_` are positions
        in X; `extra_["reference"]` describes the sample for `drift`, and is saved with the model.
    """
    check_parameters(type(model).__name__, model.get_params(deep=False))
    if sample_weight is not None:
        raise TypeError(
            "sample_weight is supported for rows in memory only. Draw rows first, for example with "
            "knet.dask.sample(X, 50_000), and fit these with their weights."
        )
    for name, value, minimum in (("sample_size", sample_size, 2), ("refine", refine, 0), ("threads", threads, 1)):
        rules.check_parameter("knet.dask.fit", name, value, [], [rules.integer(minimum)])
    X = check_collection(X)
    example_row(X)
    drawn = _draw(X, sample_size, random_generator(model.random_state))
    model.fit(drawn.rows)
    if refine:
        _set_centers(model, *_lloyd(LazyModel(model, X, threads, device), refine))
    model.extra_ = {**getattr(model, "extra_", {}), "reference": describe_sample(model, drawn.rows)}
    model.train_indices_ = drawn.positions[model.train_indices_]
    model.labels_ = predict(model, X, threads=threads, device=device)
    return model


def refine(model: KNet, X: Any, *, max_iter: int = 10, threads: int = 1, device: str = "cpu") -> KNet:
    """Return a copy of the model whose centres are moved to the means of their rows in X by Lloyd's algorithm.

    Each of at most `max_iter` iterations is a pass over X; they stop early if the centres converge. The centre of a
    cluster without rows is not changed.
    """
    rules.check_parameter("knet.dask.refine", "max_iter", max_iter, [], [rules.integer(1)])
    moved = copy.copy(model)
    _set_centers(moved, *_lloyd(LazyModel(model, X, threads, device), max_iter))
    for name in ("labels_", "train_indices_"):
        moved.__dict__.pop(name, None)
    return moved


def _lloyd(lazy: LazyModel, max_iter: int) -> tuple[Floats, float]:
    """Return the refined centres, and the mean squared distance to them per dimension."""
    centers = lazy.model.cluster_centers_.astype(np.float64)
    for _ in range(max_iter):
        found: LloydSums = lazy.reduce(lloyd_sums, merge_lloyd, centers)
        n_rows = found.counts.sum()
        if n_rows == 0:
            raise ValueError("X has no rows to refine the centres on.")
        spread = found.inertia / n_rows / centers.shape[1]
        means = found.sums / np.maximum(found.counts, 1)[:, None]
        moved = np.where(found.counts[:, None] > 0, means, centers)
        step = np.square(moved - centers).sum(1).max()
        centers = moved
        if step <= CONVERGED**2 * spread * centers.shape[1]:
            break
    return centers, spread


def _set_centers(model: KNet, centers: Floats, spread: float) -> None:
    """Replace the centres of a model."""
    old = model.predictor_
    tiny = float(np.finfo(old.centers.dtype).tiny) ** 0.5
    model.predictor_ = replace(old, clusters=Clusters(centers.astype(old.centers.dtype), max(spread, tiny)))
    model.cluster_centers_ = model.predictor_.centers
