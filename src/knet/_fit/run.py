"""One fit from validated rows to a predictor: weights, preparation, plan, training, summary, and what to warn about."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from knet._fit.advanced import Advanced
from knet._fit.caveats import deciding_column, index_columns, small_clusters, warn_about
from knet._fit.host import own_randomness, random_generator
from knet._fit.learner import Learned, Learner
from knet._fit.plan import Plan, make_plan
from knet._fit.progress import IterationTasks
from knet._fit.reduction import learn_preparation
from knet._fit.settings import Settings
from knet._fit.summary import summarize
from knet._fit.weights import counted_rows
from knet._math.arrays import Labels
from knet._network.preparation import DenseRows, Preparation, Rows, check_directions
from knet._network.scaling import float_dtype
from knet.predictor import Predictor


@dataclass(frozen=True)
class Fitted:
    """The result of a fit: how it was planned, what was learned, what labels new rows, and the labels of its rows."""

    plan: Plan
    learned: Learned
    predictor: Predictor
    labels: Labels


def run_fit(
    X: Rows,
    sample_weight: ArrayLike | None,
    params: Mapping[str, Any],
    names: Sequence[str] | None,
    begin: Callable[[int], IterationTasks],
) -> Fitted:
    """Fit validated rows.

    Parameters
    ----------
    X : array or CSR matrix of shape (n, d)
        The rows.
    sample_weight : array-like of shape (n,), optional
        How often each row counts.
    params : mapping
        The checked parameters of KNet.
    names : sequence of str, optional
        Names of the columns, for warnings.
    begin : callable
        Called with the maximum number of iterations when training begins; returns what reports its progress.
    """
    if params["metric"] == "cosine":
        check_directions(X)
    rng = random_generator(params["random_state"])
    counted = None if sample_weight is None else counted_rows(sample_weight, X.shape[0], rng)
    X_counted = X if counted is None else X[counted]
    preparation = _learn_preparation(X_counted, params, rng)
    settings = Settings.resolve(params, preparation.n_outputs)
    has_own_columns = preparation.projection is None  # principal components mean nothing to a user
    if has_own_columns:
        warn_about(index_columns(DenseRows(X, unit_length=False), names))
    plan = make_plan(X_counted, preparation, settings, rng)
    plan = plan if counted is None else replace(plan, rows=counted[plan.rows])  # positions in X
    single = settings.device.type == "mps" or float_dtype(X) == np.float32
    X_train = torch.from_numpy(plan.X).to(settings.device, torch.float32 if single else torch.float64)
    with own_randomness(rng, settings.device) as generator:
        tasks = begin(settings.max_iter)
        rows = X_train if settings.scale == "none" else X_train.float()
        learned = Learner(settings, plan, rows, generator, rng, tasks).learn()
        learned.kept.encoder.to(X_train.dtype)
        predictor = summarize(learned, X_train, preparation, settings.n_clusters, rng)
        labels = predictor.assign(X)
        tasks.fit_done()
    if has_own_columns:
        warn_about(deciding_column(plan.X, labels[plan.rows], names))
    warn_about(small_clusters(labels, settings.n_clusters))
    return Fitted(plan, learned, predictor, labels)


def _learn_preparation(X: Rows, params: Mapping[str, Any], rng: np.random.RandomState) -> Preparation:
    """Return what the model does to rows before the encoder gets them; a user's own encoder gets all columns."""
    advanced: Advanced = params["advanced"] or Advanced()
    return learn_preparation(
        X,
        scale=params["scale"],
        unit_length=params["metric"] == "cosine",
        n_clusters=params["n_clusters"],
        max_columns=advanced.max_columns if params["encoder"] is None else None,
        rng=rng,
    )
