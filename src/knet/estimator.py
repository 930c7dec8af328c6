"""KNet, the scikit-learn estimator: a fit is five steps with five results, and the last one labels new rows."""

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin, TransformerMixin
from sklearn.utils import ClassifierTags, Tags
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from knet.advanced import Advanced
from knet.arrays import Floats
from knet.model.summary import summarize
from knet.parameters import check_parameters
from knet.prepare.training_rows import prepare_rows
from knet.progress import IterationReporter
from knet.rows.collections import lazy_on_collections
from knet.rows.dense import check_directions
from knet.rows.kinds import admit
from knet.rows.numbers import float_dtype, to_numbers
from knet.rows.weights import counted_rows
from knet.start.caveats import about_rows, check_distinct, deciding_column, small_clusters, warn_about
from knet.start.centers import recluster
from knet.start.choice import Start, choose_start
from knet.start.separation import path_silhouette
from knet.train.host import own_randomness, random_generator
from knet.train.paper_start import paper_start
from knet.train.settings import Settings
from knet.train.training import Trained, Trainer
from knet.train.u_steps import UStep

if TYPE_CHECKING:
    from knet.explore.explain import Explanation
    from knet.explore.stability import Stability
    from knet.show.report import ReportOptions

RandomState = int | np.random.RandomState | np.random.Generator | None
Callback = Callable[[dict[str, float]], object]

SCORE_ROWS = 2000  # of which `score` compares all pairs


class KNet(TransformerMixin, ClusterMixin, BaseEstimator):
    """Spectral clustering that learns its kernel and predicts.

    KNet (Wu, Khan, Ioannidis, Dy: Deep Kernel Learning for Clustering) learns an embedding psi in which clusters of any
    shape become round, so that new rows are labelled by their nearest centre.

    By default, a fit has five steps. Columns are scaled; those with heavy tails are compressed first. Many methods
    (spectral clustering of neighbour graphs, balanced linkage, k-means, Gaussian mixtures) propose partitions of the
    rows, and a rule picks one without any known label. A neural network psi learns to separate its groups. Then
    Algorithm 1 of the paper improves psi and a spectral embedding U in turn, so that the HSIC between them rises, as
    long as the clusters agree with the chosen partition. Last, the model learns how certain its labels are.

    Parameters
    ----------
    n_clusters : int, default=8
        The number of clusters c.
    u_update : {"eig", "sma"} or callable, default="eig"
        The U-step: eigenvectors, or ascent on the Stiefel manifold, or a function `(L, U) -> U`.
    sigma : "auto", "median" or float, default="auto"
        Width of the Gaussian kernel, and the start. With "auto" psi first follows the best of many partitions
        (`selection_`), and the width is half the median distance. With "median", the median distance between rows, or a
        number, U starts from the kernel's eigenvectors, as in the paper.
    scale : {"auto", "standard", "none"}, default="auto"
        What the model does to columns: "standard" gives them mean 0 and standard deviation 1, "auto" does so after it
        has compressed columns with heavy tails (a skewness beyond 2) by asinh. Sparse matrices of many columns keep
        the proportions of their columns.
    metric : {"euclidean", "cosine"}, default="euclidean"
        "cosine" divides every row by its length first, so that only directions count.
    encoder : torch.nn.Module, default=None
        Your own encoder, from (n, d) to (n, d'). It is copied, never changed.
    hidden_layer_sizes : "auto" or tuple of int, default="auto"
        Units of each hidden layer of the encoder; "auto" is two layers of twice the columns, between 128 and 512.
    n_components : int, "auto" or None, default="auto"
        Dimension d' of the embedding. "auto" is the number of columns plus one, so that a group can be lifted out of
        one that surrounds it, or the number of clusters minus one if that is larger (up to 64); None is the number of
        columns, as in the paper. A smaller number starts from the principal components, a larger one from the columns
        followed by columns initialised near zero.
    train_size : "auto", int or float, default="auto"
        Rows to train on: a count, a fraction, or "auto": with sigma="auto" up to 20,000 rows, of which Algorithm 1 uses
        2,000; otherwise enough for their spectrum to be close to that of all rows.
    n_init : int, default=4
        Restarts if sigma is "median" or a number; the one with the largest HSIC is kept. From the start of sigma="auto"
        one is enough.
    max_iter : int, default=15
        Maximum number of iterations; each is a theta-step and a U-step.
    tol : float, default=0.05
        Training stops if span(U) changes by less, on a scale from 0 to 1.
    batch_size : "auto" or int, default="auto"
        Rows of a gradient step; "auto" is four per cluster, between 64 and 256.
    learning_rate : float, default=1e-3
        Learning rate of Adam.
    device : "auto", str or torch.device, default="auto"
        Where to compute; "auto" takes cuda, then mps, then cpu.
    callback : callable, default=None
        Called with each row of `history_` as it is made; training stops if it returns True.
    random_state : int, RandomState, Generator or None, default=None
        The only source of randomness.
    verbose : int, default=0
        1 logs each iteration and shows it on standard error: on a terminal in one line, else in a line for each.
    advanced : Advanced, default=None
        Rarely used switches, see `knet.Advanced`; None stands for their defaults.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each row given to `fit`; equal to `predict` of these rows.
    cluster_centers_ : ndarray of shape (n_clusters, n_components)
        Cluster centres in the embedding.
    sigma_ : float
        Width of the learned kernel.
    history_ : list of dict
        One row per iteration: iteration, hsic, reconstruction, u_change, u_error, seconds.
    n_iter_, best_iter_ : int
        Number of iterations, and the one whose encoder was kept.
    selection_ : list of dict
        What sigma="auto" considered, the chosen candidate first: method, conductance, gain, score, chosen.
    spectral_embedding_ : ndarray of shape (n_core, columns of U)
        The last U, of the rows that Algorithm 1 ran on: `spectral_indices_`.
    train_indices_ : ndarray of shape (n_train,)
        Rows that were trained on, and as `n_train_` how many; with weights, a row may occur several times.
    start_labels_ : ndarray of shape (n_train,) or None
        With sigma="auto": the partition of the training rows that training started from.
    embeddings_ : ndarray of shape (n_stored, n_sample, n_components)
        With `keep_embeddings`: a sample of training rows before training, after the start was followed (if there is
        one), and after each iteration up to the best.
    caveats_ : list of str
        What to know before using the clusters; `fit` warns with each of them.
    predictor_ : knet.model.predictor.Predictor
        What labels new rows.
    n_features_in_, feature_names_in_
        As in scikit-learn.

    Examples
    --------
    >>> from knet import KNet
    >>> from knet.datasets import make_moon
    >>> X, y = make_moon(300, random_state=0)
    >>> model = KNet(n_clusters=2, random_state=0).fit(X)
    >>> model.predict(X[:5]).shape
    (5,)
    """

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        u_update: str | UStep = "eig",
        sigma: str | float = "auto",
        scale: str = "auto",
        metric: str = "euclidean",
        encoder: nn.Module | None = None,
        hidden_layer_sizes: str | Sequence[int] = "auto",
        n_components: str | int | None = "auto",
        train_size: str | int | float = "auto",
        n_init: int = 4,
        max_iter: int = 15,
        tol: float = 0.05,
        batch_size: str | int = "auto",
        learning_rate: float = 1e-3,
        device: str | torch.device = "auto",
        callback: Callback | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
        advanced: Advanced | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.u_update = u_update
        self.sigma = sigma
        self.scale = scale
        self.metric = metric
        self.encoder = encoder
        self.hidden_layer_sizes = hidden_layer_sizes
        self.n_components = n_components
        self.train_size = train_size
        self.n_init = n_init
        self.max_iter = max_iter
        self.tol = tol
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.device = device
        self.callback = callback
        self.random_state = random_state
        self.verbose = verbose
        self.advanced = advanced

    def set_params(self, **params: Any) -> Self:
        """Set parameters by name; ``advanced__NAME`` sets a field of `advanced`, which is made if it is None."""
        if params.get("advanced", self.advanced) is None and any(name.startswith("advanced__") for name in params):
            params["advanced"] = Advanced()
        super().set_params(**params)
        return self

    @lazy_on_collections
    def fit(self, X: ArrayLike, y: Any = None, sample_weight: ArrayLike | None = None) -> Self:
        """Learn the embedding and the clusters of X.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows to cluster: array, pandas or polars DataFrame, Arrow table, a column of vectors, list, CPU tensor or
            sparse matrix. Of a Dask array or DataFrame a sample is trained on; see `knet.dask.fit`.
        y : ignored
            Present by convention.
        sample_weight : array-like of shape (n_samples,), optional
            How often each row counts. Whole weights give the model of repeated rows; other weights decide how often a
            row is drawn for training, a row of mean weight once. A row of weight 0 is labelled but not trained on.

        Returns
        -------
        self : KNet
            The fitted estimator.
        """
        check_parameters(type(self).__name__, self.get_params(deep=False))
        before = dict(self.__dict__)
        try:
            self._fit(self._rows(X, reset=True), sample_weight)
        except BaseException:  # a fit that is refused or interrupted leaves an earlier one as it was
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def _fit(self, X: Any, sample_weight: ArrayLike | None) -> None:
        """Fit checked rows: prepare, start, train, model; the fitted state changes only after the last step."""
        params, names = self.get_params(deep=False), getattr(self, "feature_names_in_", None)
        if self.metric == "cosine":
            check_directions(X)
        rng = random_generator(self.random_state)
        counted = None if sample_weight is None else counted_rows(sample_weight, X.shape[0], rng)
        prepared = prepare_rows(X if counted is None else X[counted], params, rng)
        scale = (self.advanced or Advanced()).sigma_scale
        chooses = self.sigma == "auto" and prepared.can_be_divided(self.n_clusters)
        settings = Settings.resolve(params, prepared.X.shape[1], from_partition=chooses)
        caveats = about_rows(X, names, prepared.preparation)
        start = (
            choose_start(prepared, self.n_clusters, scale, rng)
            if chooses
            else paper_start(prepared, self.n_clusters, self.sigma, scale)
        )
        caveats += [*check_distinct(start.X, self.n_clusters), *start.caveats]
        warn_about(caveats)
        single = settings.device.type == "mps" or float_dtype(X) == np.float32
        Z = torch.from_numpy(start.X).to(settings.device, torch.float32 if single else torch.float64)
        with own_randomness(rng, settings.device) as generator, closing(IterationReporter(self.verbose)) as show:
            Z_train = Z if self.scale == "none" else Z.float()
            trained = Trainer(settings, start, Z_train, generator, rng, partial(self._report, show)).train()
            predictor = summarize(trained, Z, prepared.preparation, self.n_clusters, rng)
            labels = predictor.assign(X)
        trained_rows = start.rows if counted is None else counted[start.rows]  # positions in X
        late = small_clusters(labels, self.n_clusters)
        if prepared.preparation.projection is None:  # principal components mean nothing to a user
            late = [*deciding_column(start.X, labels[trained_rows], names), *late]
        warn_about(late)
        self._remember(start, trained, trained_rows)
        self.predictor_, self.cluster_centers_, self.labels_ = predictor, predictor.centers, labels
        self.caveats_ = [*caveats, *late]

    def _report(self, show: IterationReporter, row: dict[str, float]) -> bool:
        """Report an iteration, and say whether the user's callback asks to stop."""
        show(row)
        return self.callback is not None and bool(self.callback(row))

    def _remember(self, start: Start, trained: Trained, rows: NDArray[np.intp]) -> None:
        """Set the attributes that describe a fit, and remove those of an earlier fit or its file."""
        for name in ("embeddings_", "extra_"):
            self.__dict__.pop(name, None)
        self.sigma_, self.history_ = trained.sigma, trained.history
        self.n_iter_, self.best_iter_ = len(trained.history), trained.iteration
        if trained.embeddings is not None:
            self.embeddings_ = trained.embeddings
        self.spectral_embedding_, self.spectral_indices_ = trained.U.cpu().numpy(), rows[start.core]
        self.train_indices_, self.n_train_ = rows, len(rows)
        self.start_labels_, self.selection_ = start.labels, start.selection

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[np.object_]:
        """Return the names of the columns of `transform`: embedding_0, embedding_1, ..."""
        check_is_fitted(self)
        return np.array([f"embedding_{j}" for j in range(self.cluster_centers_.shape[1])], dtype=object)

    @lazy_on_collections
    def predict(self, X: ArrayLike, *, reject: float | None = None) -> NDArray[np.int64]:
        """Return the cluster of each row: the nearest centre in the embedding.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        reject : float in [0, 1), default=None
            If given, a row gets the label -1 if it is less familiar (`score_samples`) than all but this share of the
            training rows, or if its label is more likely wrong than right (a largest membership below 1/2).
        """
        X = self._rows(X)
        return self.predictor_.assign(X, reject)

    def transform(self, X: ArrayLike) -> Floats:
        """Return psi(X), the embedded rows, of shape (n_samples, n_components)."""
        X = self._rows(X)
        return self.predictor_.embed(X)

    @lazy_on_collections
    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return soft memberships, (n_samples, n_clusters); rows sum to 1 and the largest is that of `predict`.

        The largest membership is an estimate of how often the label is right, made without any known label: it is
        near 1 for rows of a separated cluster, and lower where clusters overlap or where the rows have no groups.
        """
        X = self._rows(X)
        return self.predictor_.memberships(X)

    @lazy_on_collections
    def score_samples(self, X: ArrayLike) -> Floats:
        """Return how familiar each row is, at most 0: the log of its mean kernel value to the training rows.

        The kernel is a Gaussian in the scaled columns, whose width is the median distance to the tenth nearest row.
        """
        X = self._rows(X)
        return self.predictor_.familiarity(X)

    def score(self, X: ArrayLike, y: Any = None) -> float:
        """Return how well separated the predicted clusters of X are, from -1 to 1; needs no known labels.

        The mean silhouette of at most 2000 scaled rows, with distances along paths: see `path_silhouette` in
        `knet.start.separation`. It does not use the embedding, suits clusters of any shape, and does not simply grow
        with `n_clusters`, so that ``GridSearchCV(KNet(), {"n_clusters": [2, 3, 4]})`` can compare them. Shuffle rows
        that are sorted (``cv=KFold(3, shuffle=True)``). `knet.scan` compares more thoroughly.
        """
        rows, predictor = self._rows(X), self.predictor_
        if rows.shape[0] > SCORE_ROWS:
            rows = rows[np.sort(np.random.RandomState(0).permutation(rows.shape[0])[:SCORE_ROWS])]
        return path_silhouette(predictor.preparation(rows), predictor.assign(rows))

    def kernel(self, X: ArrayLike, Y: ArrayLike | None = None) -> Floats:
        """Return the learned kernel, exp(-||psi(x) - psi(y)||^2 / (2 sigma^2)) / sqrt(d(x) d(y)) [KERNEL].

        d is the degree towards the training rows, through a summary of them, and at least 1. The kernel is positive
        semi-definite for any rows: use it as `SVC(kernel=model.kernel)`.
        """
        X = self._rows(X)
        Y = X if Y is None else self._rows(Y)
        return self.predictor_.kernel(X, Y)

    def recluster(self, X: ArrayLike) -> NDArray[np.int64]:
        """Return clusters recomputed by k-means on psi(X) alone, numbered like the nearest of the known clusters.

        The paper's other way to label new data: it follows clusters that have moved, where `predict` keeps the centres.
        """
        rows = self._rows(X)
        return recluster(self.predictor_.embed(rows), self.cluster_centers_, random_generator(self.random_state))

    def stability(
        self, X: ArrayLike, *, n_refits: int = 5, random_state: int = 0, n_jobs: int | None = None
    ) -> "Stability":
        """Return how far refits on other rows and seeds agree, as a `knet.explore.stability.Stability`."""
        from knet.explore.stability import stability

        return stability(self, X, n_refits=n_refits, random_state=random_state, n_jobs=n_jobs)

    def explain(self, X: ArrayLike, *, max_rows: int = 1000, random_state: int = 0) -> "Explanation":
        """Return what makes each cluster of X: short rules, and the contribution of each column to each row.

        The result is a `knet.explore.explain.Explanation`. Rules are in the units of X. At most `max_rows` rows get
        contributions.
        """
        from knet.explore.explain import explain

        return explain(self, X, max_rows=max_rows, random_state=random_state)

    def save(self, path: str | os.PathLike[str], *, recipe: Any = None, overwrite: bool = False) -> None:
        """Write the model to one safetensors file; see `knet.load`.

        `recipe` is a fitted `knet.tables.Recipe` to store with the model, so that `knet predict` accepts tables like
        the one that it was fitted on. An existing file is replaced only with `overwrite`.
        """
        from knet.model.file import save

        extra = None if recipe is None else {**getattr(self, "extra_", {}), "table": recipe.to_json()}
        save(self, path, extra, overwrite=overwrite)

    def report(self, X: ArrayLike, path: str | os.PathLike[str], **options: "Unpack[ReportOptions]") -> None:
        """Write a report on the clusters of X to one offline HTML file.

        The options are those of `knet.show.report.report`: target, ids, source, command, n_refits, random_state,
        overwrite.
        """
        from knet.show.report import report

        report(self, X, path, **options)

    def _rows(self, X: Any, *, reset: bool = False) -> Any:
        """Return X as a finite array or CSR matrix, or raise a message that names the columns at fault."""
        if not reset:
            check_is_fitted(self)
        X = admit(X)
        names = None if reset else getattr(self, "feature_names_in_", None)
        rows = to_numbers(X, names, min_rows=2 if reset else 1)
        validate_data(self, X, reset=reset, skip_check_array=True)  # the number of columns and their names
        return rows

    def __sklearn_tags__(self) -> Tags:
        """Say that float32 stays float32, and that sparse matrices are welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags = ClassifierTags()  # scikit-learn's checks ask for them where there is a predict_proba
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


# Around scikit-learn's set_output, which would compute a lazy result to make a DataFrame of it.
KNet.transform = lazy_on_collections(KNet.transform)  # type: ignore[method-assign]
