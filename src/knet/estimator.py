"""KNet, the scikit-learn estimator: a fit is five steps with five results, and the last one labels new rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClusterMixin, TransformerMixin
from sklearn.utils import ClassifierTags, Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from knet.advanced import Advanced
from knet.arrays import Floats, Rows, RowsLike
from knet.methods import FurtherMethods
from knet.model.drift import warn_if_foreign
from knet.model.naming import Naming
from knet.model.reference import described_rows
from knet.model.summary import summarize
from knet.parameters import check_parameters
from knet.prepare.training_rows import Prepared, ordered_by_content, prepare_rows
from knet.progress import IterationReporter
from knet.rows.collections import lazy_on_collections
from knet.rows.dense import check_directions
from knet.rows.kinds import admit, table_kind
from knet.rows.numbers import float_dtype, to_numbers
from knet.rows.recipes import recipe_of
from knet.rows.weights import rows_that_count
from knet.start.borders import compare_clusters
from knet.start.caveats import about_clusters, about_rows, check_distinct, warn_about
from knet.start.choice import Start, choose_start
from knet.start.evidence import Evidence, read_evidence
from knet.start.guide import about_evidence, keep_evidence
from knet.start.number import Finding, NumberFound, advise, advise_on, find_number, guided_number, warn_of_guess
from knet.threads import one_blas_thread
from knet.train.host import random_generator, training_randomness
from knet.train.paper_start import paper_start
from knet.train.settings import Settings
from knet.train.training import Trained, Trainer
from knet.train.u_steps import UStep

RandomState = int | np.random.RandomState | np.random.Generator | None
Callback = Callable[[dict[str, float]], object]
ReadEvidence = Callable[[int, str | int], Evidence | None]  # from the number of rows and of clusters


class KNet(TransformerMixin, ClusterMixin, FurtherMethods, BaseEstimator):
    """Spectral clustering that learns its kernel and predicts.

    KNet (Wu, Khan, Ioannidis, Dy: Deep Kernel Learning for Clustering) learns an embedding psi in which clusters of any
    shape become round, so that new rows are labelled by their nearest centre.

    By default, a fit has five steps. Columns are scaled; those with heavy tails are compressed first. Many methods
    (spectral clustering of neighbour graphs, balanced linkage, k-means, Gaussian mixtures) propose partitions of the
    rows, and a rule picks one without any known label. A network psi learns to separate its groups as far as held-out
    rows agree. Algorithm 1 of the paper then improves psi and a spectral embedding U in turn: it adds U, HSIC and a
    kernel that fits psi, and hardly changes labels. Last, the model learns how certain its labels are.

    Parameters
    ----------
    n_clusters : "auto" or int, default="auto"
        The number of clusters c. "auto" finds it by the rule of `knet.scan`; `number_` says how clear it is, and why.
    max_clusters : int, default=None
        The largest number that "auto" considers; None is 15, or up to 60 if the rows suggest more.
    u_update : {"eig", "sma"} or callable, default="eig"
        The U-step: eigenvectors, or ascent on the Stiefel manifold, or a function `(L, U) -> U`.
    sigma : "auto", "median" or float, default="auto"
        Width of the Gaussian kernel, and the start. With "auto" psi first follows the best of many partitions
        (`selection_`), and the width is half the median distance. With "median", the median distance between rows, or a
        number, U starts from the kernel's eigenvectors, as in the paper.
    scale : {"auto", "standard", "common", "none"}, default="auto"
        What the model does to columns: "standard" gives them mean 0 and standard deviation 1; "common" is for columns
        that share a unit, such as pixels, spectra or counts, and divides all by the same number. "auto" is "common" if
        the columns have one range or are principal components (see the guide), else "standard" after columns with
        heavy tails (a skewness beyond 2) are compressed by asinh; a category (0/1 columns, one of them 1 in every row)
        then counts as one column. Sparse matrices of many columns share a unit.
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
        500, or 10 per cluster; otherwise enough for their spectrum to be close to that of all rows.
    n_init : int, default=4
        Restarts if sigma is "median" or a number: the largest HSIC is kept. With sigma="auto", one is enough.
    max_iter : int, default=15
        Maximum number of iterations; each is a theta-step and a U-step. With sigma="auto", one that does not improve
        the labels of held-out rows is the last.
    tol : float, default=0.05
        Training stops if span(U) changes by less, on a scale from 0 to 1.
    batch_size : "auto" or int, default="auto"
        Rows of a gradient step; "auto" is four per cluster, between 64 and 256.
    learning_rate : float, default=1e-3
        Learning rate of Adam.
    device : "auto", str or torch.device, default="auto"
        For your own encoder, "auto" takes cuda, mps or cpu; the default network labels rows on a device that is named.
    callback : callable, default=None
        Called with each row of `history_` as it is made; training stops if it returns True.
    random_state : int, RandomState, Generator or None, default=None
        The only source of randomness.
    verbose : bool or int, default=0
        True or 1 logs each iteration and shows it on standard error: on a terminal in one line, else a line for each.
    advanced : Advanced, default=None
        Rarely used switches, see `knet.Advanced`; None stands for their defaults.

    Attributes
    ----------
    labels_, probabilities_ : ndarrays of shape (n_samples,)
        Cluster of each row, the largest first unless labels are known; equal to `predict` but for `contradicted_`. And
        how likely it is right, as in `predict_proba`; 0 for the label -1.
    contradicted_ : ndarray of int
        Rows with a known label or in pairs, whose label in `labels_` is not that of `predict`.
    names_ : dict of int to str
        Names of clusters.
    n_clusters_ : int
        The number of clusters, given or found.
    number_ : dict
        How clear the number of clusters is: best, verdict ("clear", "plausible" or "a guess"), levels, advice in words,
        and with n_clusters="auto" the table of all numbers that were compared. The entries are those of `knet.Scan`.
    hierarchy_ : list of [int, int]
        How the clusters join, two at a time, closest first; `levels` uses it.
    cluster_centers_ : ndarray of shape (n_clusters, n_components)
        Cluster centres in the embedding.
    sigma_ : float
        Width of the learned kernel.
    scale_ : {"standard", "common", "none"}
        What is done to the columns.
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
        n_clusters: str | int = "auto",
        *,
        max_clusters: int | None = None,
        u_update: str | UStep = "eig",
        sigma: str | float = "auto",
        scale: str = "auto",
        metric: str = "euclidean",
        encoder: Any = None,
        hidden_layer_sizes: str | Sequence[int] = "auto",
        n_components: str | int | None = "auto",
        train_size: str | int | float = "auto",
        n_init: int = 4,
        max_iter: int = 15,
        tol: float = 0.05,
        batch_size: str | int = "auto",
        learning_rate: float = 1e-3,
        device: Any = "auto",
        callback: Callback | None = None,
        random_state: RandomState = None,
        verbose: int = 0,
        advanced: Advanced | None = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.max_clusters = max_clusters
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
    def fit(
        self,
        X: ArrayLike,
        y: object = None,
        sample_weight: ArrayLike | None = None,
        *,
        known: ArrayLike | None = None,
        must_link: ArrayLike | None = None,
        cannot_link: ArrayLike | None = None,
    ) -> Self:
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
        known : array-like of shape (n_samples,), optional
            Known labels of some rows, and -1, None or NaN for the others. Whole numbers below `n_clusters` are the
            clusters themselves; other values become the names of clusters (`names_`). There may be clusters that no
            label names. `labels_` has the known labels, and `contradicted_` the rows that `predict` labels otherwise.
        must_link, cannot_link : array-like of shape (n_pairs, 2), optional
            Pairs of row numbers that belong to the same cluster, or to different ones; `labels_` keeps all of them.

        Returns
        -------
        self : KNet
            The fitted estimator.
        """
        return self._fit_guided(X, sample_weight, partial(read_evidence, known, must_link, cannot_link))

    def _fit_guided(self, X: RowsLike, sample_weight: ArrayLike | None, read: ReadEvidence) -> Self:
        """Fit rows with what is known about them, which is read after the rows themselves."""
        check_parameters(type(self).__name__, self.get_params(deep=False))
        before = dict(self.__dict__)
        try:
            rows = self._rows(X, reset=True)
            if self.metric == "cosine":
                check_directions(rows)
            evidence = read(rows.shape[0], self.n_clusters)
            with one_blas_thread() if self.sigma == "auto" else nullcontext():
                self._fit(rows, sample_weight, evidence)
            self._edit(Naming(names=dict(enumerate(evidence.names if evidence else ()))))
            if (recipe := recipe_of(X)) is not None:
                self.extra_ = {"table": recipe.to_json()}
        except BaseException:  # a fit that is refused or interrupted leaves an earlier one as it was
            self.__dict__.clear()
            self.__dict__.update(before)
            raise
        return self

    def _fit(self, X: RowsLike, sample_weight: ArrayLike | None, evidence: Evidence | None) -> None:
        """Fit checked rows: prepare, start, train, model; the fitted state changes only after the last step."""
        params, names = self.get_params(deep=False), getattr(self, "feature_names_in_", None)
        rng = random_generator(self.random_state)
        least = X.shape[0] if evidence else 1 if self.n_clusters == "auto" else int(self.n_clusters) + 1
        counted = ordered_by_content(X, rows_that_count(X, names, sample_weight, rng), least=least)
        rows, known = (X, evidence) if counted is None else (X[counted], evidence and evidence.of(counted))
        prepared = prepare_rows(rows, params, rng, first=None if known is None else known.rows)
        start, number = self._start(prepared, known, rng)
        c, follows = number["best"], start.labels is not None
        settings = Settings.resolve(params | {"n_clusters": c}, prepared.X.shape[1], from_partition=follows)
        first = [*about_rows(X, names, prepared.preparation), *warn_of_guess(number), *check_distinct(start.X, c)]
        warn_about(caveats := [*first, *start.caveats])
        positions = start.rows if counted is None else counted[start.rows]  # in X
        Z = start.X.astype(np.float32 if "mps" in str(settings.device) else float_dtype(X), copy=False)  # no doubles
        with training_randomness(rng, settings.device) as own_rng, closing(IterationReporter(self.verbose)) as show:
            Z_train = Z if self.scale == "none" else Z.astype(np.float32, copy=False)
            trained = Trainer(settings, start, Z_train, own_rng, partial(self._report, show)).train()
            described = described_rows(X, positions)
            predictor = summarize(trained, Z, described, prepared.preparation, settings, start.votes, rng)
            predictor, predicted, sure = predictor.numbered(X, counted, by_size=not (evidence and evidence.has_numbers))
            labels, sure = keep_evidence(predicted, sure, lambda rows: predictor.memberships(X[rows]), evidence)
        late = about_clusters(start.X, labels, positions, c, prepared.preparation, names)
        warn_about(late := [*late, *about_evidence(labels, predicted)])
        border, self.hierarchy_ = compare_clusters(start.X, labels[positions], c, rng, start.near_all)
        self._remember(start, trained, positions)
        self.number_ = number if number["table"] else advise_on(c, border)
        self.predictor_, self.cluster_centers_, self.caveats_ = predictor, predictor.centers, [*caveats, *late]
        self.labels_, self.probabilities_, self.contradicted_ = labels, sure, np.flatnonzero(labels != predicted)

    def _start(
        self, prepared: Prepared, evidence: Evidence | None, rng: np.random.RandomState
    ) -> tuple[Start, NumberFound]:
        """Find the number of clusters and choose a partition, or start as in the paper, which uses no evidence."""
        number, compared = self._find_number(prepared, evidence, rng)
        c, is_exact, scale = number["best"], self.n_clusters != "auto", (self.advanced or Advanced()).sigma_scale
        if self.sigma != "auto" and evidence is not None and len(evidence.rows):
            raise ValueError(f"known, must_link and cannot_link need sigma='auto'. Got sigma={self.sigma!r}.")
        if self.sigma != "auto" or not prepared.can_be_divided(c):
            return paper_start(prepared, c, self.sigma, scale), number
        start = choose_start(prepared, c, scale, rng, evidence, is_exact=is_exact, compared=compared)
        found = c if is_exact or evidence is None or start.labels is None else int(start.labels.max()) + 1
        return start, number if found == c else advise_on(found, None)

    def _find_number(self, prepared: Prepared, evidence: Evidence | None, rng: np.random.RandomState) -> Finding:
        """Return the number of clusters, given or found, at least that of the known labels, and what was compared."""
        if self.n_clusters != "auto":
            return advise_on(int(self.n_clusters), None), None
        with closing(IterationReporter(self.verbose)) as show:
            numbers = find_number(prepared, self.max_clusters, rng, show.say)
        return guided_number(advise(numbers.numbers), prepared, evidence, rng), numbers.compared

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
        self.spectral_embedding_, self.spectral_indices_ = trained.U, rows[start.core]
        self.train_indices_, self.n_train_ = rows, len(rows)
        self.start_labels_, self.selection_ = start.labels, start.selection

    def get_feature_names_out(self, input_features: object = None) -> NDArray[np.object_]:
        """Return the names of the columns of `transform`: embedding_0, embedding_1, ..."""
        check_is_fitted(self)
        return np.array([f"embedding_{j}" for j in range(self.cluster_centers_.shape[1])], dtype=object)

    @lazy_on_collections
    def predict(self, X: ArrayLike, *, reject: float | None = None) -> NDArray[np.int64]:
        """Return the cluster of each row: the nearest centre in the embedding.

        A warning says if far more rows than expected are unlike the training rows; see `drift`.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.
        reject : float in [0, 1), default=None
            If given, a row gets the label -1 if it is less familiar (`score_samples`) than all but this share of the
            training rows, or if its label is more likely wrong than right (a largest membership below 1/2).
        """
        rows = self._rows(X)
        labels = self.predictor_.assign(rows, reject)
        warn_if_foreign(self.predictor_, rows, getattr(self, "feature_names_in_", None))
        return labels

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

    def _rows(self, X: RowsLike, *, reset: bool = False) -> Rows:
        """Return X as an array or CSR matrix without infinite values, or raise a message that names the columns."""
        given = admit(X) if reset else self._admit(X)
        names = None if reset else getattr(self, "feature_names_in_", None)
        gaps = self.metric != "cosine" if reset else self.predictor_.preparation.gaps is not None
        rows = to_numbers(given, names, min_rows=2 if reset else 1, gaps=gaps)
        if reset or table_kind(given) or "table" not in getattr(self, "extra_", {}):
            validate_data(self, given, reset=reset, skip_check_array=True)  # the number of columns and their names
        elif rows.shape[1] != self.n_features_in_:  # the names of such an array are those of the recipe
            raise ValueError(f"X has {rows.shape[1]} features, but KNet is expecting {self.n_features_in_} features.")
        if reset and (recipe := recipe_of(X)) is not None:
            self.feature_names_in_ = recipe.get_feature_names_out()
        return rows

    def __sklearn_tags__(self) -> Tags:
        """Say that float32 stays float32, and that sparse matrices and missing values are welcome."""
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = tags.input_tags.allow_nan = True
        tags.classifier_tags = ClassifierTags()  # scikit-learn's checks ask for them where there is a predict_proba
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


# Around scikit-learn's set_output, which would compute a lazy result to make a DataFrame of it.
KNet.transform = lazy_on_collections(KNet.transform)  # type: ignore[method-assign]
