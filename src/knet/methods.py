"""Methods of a fitted model that other modules do: levels, score, kernel, stability, drift, the file, the report.

Those above `estimator` are imported when they are called, so that a fit does not wait for what it does not need.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Unpack, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from knet.arrays import Floats, RowsLike
from knet.model.display import html_list, html_table
from knet.model.drift import Drift, drift
from knet.model.levels import join_clusters
from knet.model.naming import PLAIN, Naming
from knet.rows.recipes import admit_table
from knet.start.centers import recluster
from knet.start.number import value_of
from knet.train.host import random_generator

if TYPE_CHECKING:
    from knet.estimator import KNet
    from knet.explore.explain import Explanation
    from knet.explore.stability import Stability
    from knet.show.report import ReportOptions


CLUSTERS, SHOWN_CLUSTERS = ("cluster", "name", "training rows"), 30
SCORE_ROWS = 2000  # of which `score` compares all pairs


class FurtherMethods:
    """What a fitted `KNet` does in addition to labelling rows."""

    @property
    def scale_(self) -> str:
        """What the model does to columns: "standard", "common" if all are divided by the same number, or "none"."""
        return cast("KNet", self).predictor_.scaling.kind

    def _admit(self, X: RowsLike) -> RowsLike:
        """Return rows as they are, or the numbers of a table if the model has a recipe for it."""
        model = cast("KNet", self)
        check_is_fitted(model)
        return admit_table(X, getattr(model, "extra_", {}).get("table"), model.n_features_in_)

    def _repr_mimebundle_(self, **kwargs: object) -> dict[str, str]:
        """Return what a notebook shows: scikit-learn's diagram and, of a fitted model, its clusters and caveats."""
        shown: dict[str, str] = super()._repr_mimebundle_(**kwargs)  # type: ignore[misc]
        model = cast("KNet", self)
        if "text/html" in shown and hasattr(model, "predictor_"):
            naming, names = self._naming, model.names_
            sizes = dict(zip(naming.of_centers(self._n_centers), model.predictor_.reference.cluster_sizes, strict=True))
            if any("names" not in edit for edit in naming.edits):
                sizes = {}  # those of the fit, not of clusters that the user has merged or split
            rows = [(label, names.get(label, ""), sizes.get(label)) for label in naming.live(self._n_centers)]
            table = html_table(f"Clusters of {model.n_train_:,} training rows", CLUSTERS, rows[:SHOWN_CLUSTERS])
            shown["text/html"] += table + html_list([model.number_["advice"], *model.caveats_])
        return shown

    def levels(self, X: ArrayLike, counts: Sequence[int] | None = None) -> NDArray[np.int64]:
        """Return the clusters of each row at several levels, coarse to fine, (n_samples, n_levels).

        A coarser level joins the clusters of a finer one that are closest (`hierarchy_`). For levels finer than the
        model's, fit it with the largest number of clusters of interest, such as ``max(knet.scan(X).levels)``. Merges
        and splits of the user do not change levels.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        counts : sequence of int, optional
            The numbers of clusters of the levels, each at most `n_clusters_`; by default those of ``number_["levels"]``
            and `n_clusters_`.
        """
        model = cast("KNet", self)
        rows = model._rows(X)
        known = [count for count in model.number_["levels"] if count < model.n_clusters_]
        counts = [*known, model.n_clusters_] if counts is None else counts
        return join_clusters(replace(model.predictor_, naming=PLAIN).assign(rows), model.hierarchy_, counts)

    def score(self, X: ArrayLike, y: object = None) -> float:
        """Return how well the rows X support the predicted clusters; needs no known labels.

        The larger, the better: it is the value by which `knet.scan` compares numbers of clusters, on at most 2000 rows,
        so that ``GridSearchCV(KNet(), {"n_clusters": [2, 3, 4]})`` compares by it; 0 for a single cluster. It does not
        use the embedding. Shuffle rows that are sorted (``cv=KFold(3, shuffle=True)``).
        """
        model = cast("KNet", self)
        rows, predictor = model._rows(X), model.predictor_
        if rows.shape[0] > SCORE_ROWS:
            rows = rows[np.sort(np.random.RandomState(0).permutation(rows.shape[0])[:SCORE_ROWS])]
        prepare, rng = predictor.preparation, np.random.RandomState(0)
        return value_of(prepare(rows), predictor.assign(rows), rng, shares_unit=prepare.shares_unit)

    def kernel(self, X: ArrayLike, Y: ArrayLike | None = None) -> Floats:
        """Return the learned kernel, exp(-||psi(x) - psi(y)||^2 / (2 sigma^2)) / sqrt(d(x) d(y)) [KERNEL].

        d is the degree towards the training rows, through a summary of them, and at least 1. The kernel is positive
        semi-definite for any rows: use it as `SVC(kernel=model.kernel)`.
        """
        model = cast("KNet", self)
        rows = model._rows(X)
        return model.predictor_.kernel(rows, rows if Y is None else model._rows(Y))

    def recluster(self, X: ArrayLike) -> NDArray[np.int64]:
        """Return clusters recomputed by k-means on psi(X) alone, numbered like the nearest of the known clusters.

        The paper's other way to label new data: it follows clusters that have moved, where `predict` keeps the centres.
        """
        model = cast("KNet", self)
        rows = model._rows(X)
        return recluster(model.predictor_.embed(rows), model.cluster_centers_, random_generator(model.random_state))

    def rename(self, names: Mapping[int, str]) -> KNet:
        """Name clusters, such as ``{0: "small and light"}``; `undo` takes it back."""
        return self._edit(self._naming.renamed(names, self._n_centers))

    def merge(self, clusters: Sequence[int]) -> KNet:
        """Make clusters one, with the smallest of their labels; `predict` and all other methods follow, and `undo`.

        The others' labels are not used again. `predict` after a merge is the merge of `predict` before it.
        """
        return self._edit(self._naming.merged(clusters, self._n_centers))

    def split(self, cluster: int) -> KNet:
        """Cut a cluster in two, by the best partition of the model's summary of its rows; `undo` takes it back.

        The larger part keeps the label, the other one gets a new label.
        """
        from knet.model.split import find_sides

        self._naming.check([cluster], self._n_centers)
        sides = find_sides(cast("KNet", self).predictor_, cluster)
        return self._edit(self._naming.split(cluster, sides, self._n_centers))

    def refit(self, X: ArrayLike, n_clusters: int | str | None = None) -> KNet:
        """Return a model of the rows X whose clusters keep the labels and names of those that they match.

        Pass new rows, or old and new ones. The clusters of this model are a candidate for the start, preferred if they
        are as good as the best one, so that few labels change if the rows change little. New clusters get labels that
        were never used. `changes_` of the new model says what stayed, split, merged, appeared and vanished.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        n_clusters : int or "auto", optional
            The number of clusters; by default that of this model, or "auto" if it was found: it then changes only if
            another number is supported more clearly.
        """
        from knet.explore.refit import refit

        model, changes = refit(cast("KNet", self), X, n_clusters)
        model.changes_ = changes
        return model

    def undo(self) -> KNet:
        """Take back the last `rename`, `merge` or `split`."""
        return self._edit(self._naming.undone())

    @property
    def _naming(self) -> Naming:
        check_is_fitted(self)
        return cast("KNet", self).predictor_.naming

    @property
    def _n_centers(self) -> int:
        return len(cast("KNet", self).predictor_.centers)

    def _edit(self, naming: Naming) -> KNet:
        """Change labels and names of clusters; `labels_` stays: the clusters of the fit, to which `undo` returns."""
        model = cast("KNet", self)
        model.predictor_ = replace(model.predictor_, naming=naming)
        model.names_, model.n_clusters_ = naming.current_names, len(naming.live(self._n_centers))
        return model

    def stability(
        self, X: ArrayLike, *, n_refits: int = 5, random_state: int = 0, n_jobs: int | None = None
    ) -> Stability:
        """Return how far refits on other rows and seeds agree, as a `knet.explore.stability.Stability`.

        Each of the `n_refits` uses a random half of X (of at most 2000 rows if there are more), drawn by
        `random_state`, and makes its own choice of start, kernel width and training rows; `n_jobs` of joblib run them.
        """
        from knet.explore.stability import stability

        return stability(cast("KNet", self), X, n_refits=n_refits, random_state=random_state, n_jobs=n_jobs)

    def drift(self, X: ArrayLike) -> Drift:
        """Return how rows differ from the training rows, as a `knet.model.drift.Drift`.

        It has the share of unfamiliar rows, the shares of the clusters and the shift of each column, and says in words
        (`advice`) whether the rows are like the training rows. `predict` warns if they are not.
        """
        model = cast("KNet", self)
        return drift(model.predictor_, model._rows(X), getattr(model, "feature_names_in_", None))

    def explain(self, X: ArrayLike, *, max_rows: int = 1000, random_state: int = 0) -> Explanation:
        """Return what makes each cluster of X: short rules, and the contribution of each column to each row.

        The result is a `knet.explore.explain.Explanation`; `knet.plots.explanation` draws it. X are the rows of the
        fit, or many others; rules are in their units. At most `max_rows` rows, drawn by `random_state`, get
        contributions, and fewer if there are very many columns.
        """
        from knet.explore.explain import explain

        return explain(cast("KNet", self), X, max_rows=max_rows, random_state=random_state)

    def save(self, path: str | os.PathLike[str], *, recipe: Any = None, overwrite: bool = False) -> None:
        """Write the model to one safetensors file; see `knet.load`.

        `recipe` is a fitted `knet.tables.Recipe` to store with the model, so that `knet predict` accepts tables like
        the one that it was fitted on. An existing file is replaced only with `overwrite`.
        """
        from knet.model.file import save

        if recipe is not None and not hasattr(recipe, "conversion_"):
            raise TypeError(
                f"recipe must be a fitted knet.tables.Recipe, or None. Got {type(recipe).__name__} instead."
            )
        extra = None if recipe is None else {**getattr(self, "extra_", {}), "table": recipe.to_json()}
        save(cast("KNet", self), path, extra, overwrite=overwrite)

    def report(self, X: ArrayLike, path: str | os.PathLike[str], **options: Unpack[ReportOptions]) -> None:
        """Write a report on the clusters of X to one offline HTML file.

        The options are those of `knet.show.report.report`: target, ids, source, command, n_refits, random_state,
        overwrite.
        """
        from knet.show.report import report

        report(cast("KNet", self), X, path, **options)
