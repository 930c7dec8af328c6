"""What makes each cluster: short rules in the units of the data, and the contribution of each column to each row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from knet.arrays import Floats, Frame, Labels, RowsLike
from knet.estimator import KNet
from knet.explore.features import Feature, describe_columns, importance
from knet.explore.rules import Rule, find_rules
from knet.explore.samples import POOL_ROWS, sample_rows
from knet.model.display import html_table, text_table, to_frame
from knet.model.predictor import Predictor

MAX_PREDICTIONS = 400_000  # rows that are labelled to find the contributions: they limit the time
MIN_EXPLAINED_ROWS = 100
MIN_ORDERS, MAX_ORDERS = 2, 50  # orders of the columns


@dataclass(frozen=True, repr=False)
class Explanation:
    """What makes each cluster.

    Attributes
    ----------
    rules : list of Rule
        For each cluster with rows: a rule of at most three conditions with its `text`, its `covers` (share of the
        cluster's rows that satisfy it) and its `purity` (share of the rows satisfying it that belong to the cluster).
    size_note : str
        The size of the sample that the rules and their numbers of rows are from; empty if they are from all rows.
    columns : list of str
        The columns of the table.
    importance : ndarray of shape (n_columns,)
        Share of each column's variance that the clusters explain (eta squared, from 0 to 1).
    rows : ndarray of shape (n_explained,)
        Positions of the rows whose contributions were computed: all, or a sample if there are many.
    labels : ndarray of shape (n_explained,)
        Their clusters.
    contributions : ndarray of shape (n_explained, n_columns)
        How much each column adds to the probability of the row's own cluster (Shapley values, estimated by sampling):
        columns of another row of X are replaced by those of this row in a random order, and the contribution of a
        column is the mean change of the probability. The contributions of a row add up to its own probability minus
        the mean of that cluster's probability over the other rows that were drawn.
    """

    rules: list[Rule]
    size_note: str
    columns: list[str]
    importance: Floats
    rows: NDArray[np.int64]
    labels: Labels
    contributions: Floats

    def to_frame(self) -> Frame:
        """Return the rules as a pandas DataFrame: cluster, n_rows, rule, covers, purity."""
        return to_frame([dict(zip(HEADER, row, strict=True)) for row in self._table()])

    def _table(self) -> list[tuple[int, int, str, float, float]]:
        return [(rule.cluster, rule.n_rows, rule.text, rule.covers, rule.purity) for rule in self.rules]

    def __repr__(self) -> str:
        best = np.argsort(-self.importance, kind="stable")[:3]
        named = ", ".join(f"{self.columns[j]} ({self.importance[j]:.0%})" for j in best)
        sampled = f"\nn_rows are those of a sample, {self.size_note}" if self.size_note else ""
        return f"{text_table(HEADER, self._table())}{sampled}\nvariance explained by the clusters: {named}"

    def _repr_html_(self) -> str:
        sampled = f" (of a sample, {self.size_note})" if self.size_note else ""
        return html_table(f"What makes each cluster{sampled}", HEADER, self._table())


HEADER = ("cluster", "n_rows", "rule", "covers", "purity")


def explain(model: KNet, X: RowsLike, *, max_rows: int = 1000, random_state: int = 0) -> Explanation:
    """Explain the clusters of X; see `KNet.explain`. Of more than 50,000 rows, a sample is used."""
    drawn = sample_rows(model, X, POOL_ROWS, random_state=random_state)
    features = describe_columns(model, drawn.X)
    most = max(MIN_EXPLAINED_ROWS, MAX_PREDICTIONS // (MIN_ORDERS * (1 + len(features))))
    few = drawn.thin(min(max_rows, most), random_state)
    rng, memberships = np.random.default_rng(random_state), partial(_memberships, model.predictor_)
    return Explanation(
        rules=find_rules(drawn.X, drawn.labels, features, random_state),
        size_note=drawn.size_note,
        columns=[feature.name for feature in features],
        importance=importance(drawn.X, drawn.labels, features),
        rows=few.rows,
        labels=few.labels,
        contributions=_contributions(memberships, few.X, few.labels, drawn.X, features, rng),
    )


def _memberships(predictor: Predictor, X: Floats) -> Floats:
    """Return the memberships; a row without a direction, as columns of two rows may give, belongs to all equally."""
    if not predictor.preparation.unit_length:
        return predictor.memberships(X)
    n_clusters, has_direction = predictor.n_labels, X.any(1)
    out = np.full((len(X), n_clusters), 1 / n_clusters)
    out[has_direction] = predictor.memberships(X[has_direction])
    return out


def _contributions(
    memberships: Callable[[Floats], Floats],
    X: Floats,
    labels: Labels,
    others: Floats,
    features: Sequence[Feature],
    rng: np.random.Generator,
) -> Floats:
    """Return Shapley values by sampling (Strumbelj, Kononenko): each order of the columns is also used in reverse."""
    n, total = np.arange(len(X)), np.zeros((len(X), len(features)))
    n_orders = int(np.clip(MAX_PREDICTIONS // (len(X) * (1 + len(features))), MIN_ORDERS, MAX_ORDERS)) // 2 * 2
    for _ in range(n_orders // 2):
        order = rng.permutation(len(features))
        start = others[rng.integers(len(others), size=len(X))]
        for places in (order, order[::-1]):
            mixed = start.copy()
            before = memberships(mixed)[n, labels]
            for number in places:
                columns = list(features[number].places)
                mixed[:, columns] = X[:, columns]
                after = memberships(mixed)[n, labels]
                total[:, number] += after - before
                before = after
    return total / n_orders
