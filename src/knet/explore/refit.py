"""A model of new rows whose clusters keep the labels of the model before it."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.cluster import HDBSCAN

from knet.arrays import Floats, Labels
from knet.estimator import KNet
from knet.explore.compare import UNFAMILIAR, Comparison, compare_labels, match
from knet.explore.features import describe_columns
from knet.model.naming import Naming
from knet.rows.dense import dense_rows
from knet.start.evidence import Evidence

REJECT = 0.01  # a row is unfamiliar if it is less familiar than all but this share of the training rows
GROUP_ROWS = 10  # fewer unfamiliar rows are outliers, not a group
GROUP_SHARE = 0.01  # a group has at least this share of the rows
CONTEXT_ROWS = 2000  # familiar rows that unfamiliar ones are compared with
MOSTLY = 0.9  # share of unfamiliar rows in a group of its own


def refit(model: KNet, X: ArrayLike, n_clusters: int | str | None = None) -> tuple[KNet, Comparison]:
    """Fit a copy of a model to other rows; return it, with the labels of clusters that match, and what changed."""
    rows = model._rows(X)
    before = model.predictor_.assign(rows)
    familiar = model.predictor_.familiarity(rows) >= model.predictor_.certainty.threshold(REJECT)
    wanted = model.n_clusters_ if model.n_clusters != "auto" else "auto"
    new = clone(model).set_params(n_clusters=wanted if n_clusters is None else n_clusters)
    new._fit_guided(X, None, lambda n_rows, count: Evidence.of_earlier(before))
    naming = _matched(model, new, before)
    new._edit(naming)
    new.labels_ = np.array(naming.of_centers(len(new.cluster_centers_)))[new.labels_]
    old_names, new_names = model.predictor_.naming.named(before), naming.named(new.labels_)
    old_names[~familiar] = UNFAMILIAR
    numbers = dense_rows(rows).astype(np.float64)
    columns = [name for feature in describe_columns(new, numbers) for name in feature.names()]
    found = compare_labels(old_names, new_names, numbers, columns)
    earlier = model.predictor_.naming
    empty = np.setdiff1d(earlier.live(len(model.cluster_centers_)), before)
    gone = [f"Cluster {name} vanished: none of the rows belongs to it." for name in earlier.named(empty)]
    return new, replace(found, changes=[*found.changes, *gone])


def _matched(old: KNet, new: KNet, before: Labels) -> Naming:
    """Return the labels of the new model's centres: those of matching clusters of the old one, or new labels."""
    earlier, n_centers = old.predictor_.naming, len(old.cluster_centers_)
    shared = np.zeros((old.predictor_.n_labels, len(new.cluster_centers_)), dtype=np.int64)
    np.add.at(shared, (before, new.labels_), 1)
    kept = {column: row for row, column in match(shared).items()}
    unused = earlier.next_label(n_centers)
    labels = []
    for center in range(len(new.cluster_centers_)):
        labels.append(kept.get(center, unused))
        unused += center not in kept
    names = {label: name for label, name in earlier.current_names.items() if label in labels}
    is_plain = labels == list(range(len(labels)))
    return Naming(() if is_plain else tuple(labels), names, n_used=0 if is_plain and unused == len(labels) else unused)


@dataclass(frozen=True, eq=False)
class UnfamiliarGroup:
    """Unfamiliar rows that form a group of their own: their positions, and the median of each column (`center`).

    `nearest` is the cluster to which the model assigns most of them.
    """

    rows: Labels
    nearest: int
    center: Floats


def unfamiliar_groups(model: KNet, X: ArrayLike) -> list[UnfamiliarGroup]:
    """Return the groups that unfamiliar rows form, the largest first: candidates for new clusters in a refit.

    HDBSCAN groups the unfamiliar rows together with a sample of familiar ones, in the model's scaled columns; groups in
    which nine of ten rows are unfamiliar, and at least 1 % of all rows, are returned.
    """
    rows, predictor = model._rows(X), model.predictor_
    unfamiliar = predictor.familiarity(rows) < predictor.certainty.threshold(REJECT)
    n_least = max(GROUP_ROWS, round(GROUP_SHARE * rows.shape[0]))
    if unfamiliar.sum() < n_least:
        return []
    context = np.random.RandomState(0).permutation(np.flatnonzero(~unfamiliar))[:CONTEXT_ROWS]
    seen = np.concatenate([np.flatnonzero(unfamiliar), context])
    Z = predictor.features(rows[seen]).astype(np.float64)
    found = HDBSCAN(min_cluster_size=n_least, allow_single_cluster=not len(context), copy=True).fit(Z).labels_
    groups = []
    for group in range(int(found.max()) + 1):
        own = seen[found == group]
        if unfamiliar[own].mean() >= MOSTLY:
            nearest = int(np.bincount(predictor.assign(rows[own])).argmax())
            groups.append(UnfamiliarGroup(own, nearest, np.median(dense_rows(rows[own]), axis=0)))
    return sorted(groups, key=lambda group: -len(group.rows))
