"""KNet, the scikit-learn estimator: validation, the way of the data, and the only fitted state."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from knet._fit import validation as rules
from knet._fit.dispatch import check_in_memory, lazy_on_collections
from knet._fit.host import own_randomness, resolve_device
from knet._fit.learner import Learner
from knet._fit.plan import POOL_ROWS, Plan, plan_training
from knet._fit.progress import CallbackSupportMixin, RoundTasks, with_callbacks
from knet._fit.summary import summarize
from knet._math.centers import find_centers
from knet._math.laplacians import LAPLACIANS
from knet._math.u_steps import U_STEPS
from knet._network.scaling import column_scale
from knet.predictor import Floats, standardize

RULES: dict[str, tuple[Any, ...]] = {
    "n_clusters": (rules.integer(1),),
    "u_update": (*U_STEPS, rules.function()),
    "sigma": ("auto", "median", rules.positive_number()),
    "sigma_scale": (rules.positive_number(),),
    "init": ("identity", "pretrain"),
    "encoder": (rules.nothing(), rules.instance(nn.Module, "a torch.nn.Module")),
    "hidden_width": ("auto", rules.integer(1)),
    "n_hidden_layers": (rules.integer(1),),
    "n_components": ("auto", rules.nothing(), rules.integer(1)),
    "u_columns": ("c-1", "c"),
    "reconstruction_weight": ("balanced", rules.nonnegative_number()),
    "degrees": ("fixed", "differentiated"),
    "laplacian": tuple(LAPLACIANS),
    "memory_budget": (rules.positive_number(),),
    "train_size": ("auto", rules.integer(1), rules.fraction()),
    "n_init": (rules.integer(1),),
    "max_rounds": (rules.integer(1),),
    "tol": (rules.nonnegative_number(),),
    "steps_per_round": (rules.integer(1),),
    "batch_size": ("auto", rules.integer(2)),
    "lr": (rules.positive_number(),),
    "scale": ("standard", "none"),
    "keep_rounds": (rules.instance(bool, "a bool"),),
    "callback": (rules.nothing(), rules.function()),
    "verbose": (rules.integer(0),),
}


class KNet(CallbackSupportMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator):
    """Spectral clustering that learns its kernel and predicts.

    A neural embedding psi and a spectral embedding U are improved in turn, so that the HSIC between them rises
    (Wu, Khan, Ioannidis, Dy: Deep Kernel Learning for Clustering). Non-convex clusters become round ones, k-means on
    psi(X) gives the labels, and new rows are labelled by one forward pass.

    Parameters
    ----------
    n_clusters : int, default=8
        The number of clusters c.
    u_update : {"eig", "sma"} or callable, default="eig"
        The U-step: eigenvectors, or ascent on the Stiefel manifold, or a function `(L, U) -> U`.
    sigma : "auto", "median" or float, default="auto"
        Width of the Gaussian kernel. "auto" compares the partitions that Gaussians of many widths and neighbour graphs
        propose, starts from the best of them and takes the width that goes with it; "median" is the median distance
        between rows, and U starts from the kernel's eigenvectors, as in the paper.
    sigma_scale : float, default=1.0
        Multiplies "auto" and "median"; the paper's synthetic data use 0.1 times the median.
    init : {"identity", "pretrain"}, default="identity"
        Start of the encoder: exactly the identity, or the paper's pre-trained autoencoder.
    encoder : torch.nn.Module, default=None
        Your own encoder, from (n, d) to (n, d'). It is copied, never changed.
    hidden_width : "auto" or int, default="auto"
        Units in a hidden layer; "auto" is twice the columns, between 128 and 512.
    n_hidden_layers : int, default=2
        Hidden layers of the encoder.
    n_components : int, "auto" or None, default="auto"
        Dimension d' of the embedding. "auto" adds one to the number of columns, so that a group can be lifted out of
        one that surrounds it; None keeps that number, as the paper does. A smaller one starts from the principal
        components, a larger one from the columns followed by nearly empty ones.
    u_columns : {"c-1", "c"}, default="c-1"
        Columns of U. The paper writes c; after centring, c groups need only c-1.
    reconstruction_weight : float or "balanced", default=0.0
        lambda, which multiplies the mean squared error of the autoencoder; "balanced" keeps both terms alike.
    degrees : {"fixed", "differentiated"}, default="fixed"
        Whether D is held fixed during a theta-step.
    laplacian : {"auto", "dense", "blocked", "nystroem"}, default="auto"
        Form of the kernel in the U-step: kept, recomputed in blocks (exact), or low-rank. "auto" keeps it where it fits
        into `memory_budget`; `history_` has the error of a low-rank form as `u_error`.
    memory_budget : float, default=512
        Most megabytes that kernels of U-steps may keep, with laplacian="auto".
    train_size : "auto", int or float, default="auto"
        Rows to train on: a count, a fraction, or enough for their spectrum to be close to that of all rows.
    n_init : int, default=4
        Restarts. With sigma="auto" one is trained first, the others only where its clusters are clearly worse separated
        than those that it started from, and the best separated are kept; else all, side by side, for the largest HSIC.
    max_rounds : int, default=15
        Most rounds of a theta-step and a U-step.
    tol : float, default=0.05
        Training stops when span(U) moves by less, on a scale from 0 to 1.
    steps_per_round : int, default=200
        Gradient steps of a theta-step.
    batch_size : "auto" or int, default="auto"
        Rows of a gradient step; "auto" is four per cluster, between 64 and 256.
    lr : float, default=1e-3
        Learning rate of Adam.
    scale : {"standard", "none"}, default="standard"
        Whether columns are brought to mean 0 and deviation 1 inside the model.
    device : "auto", str or torch.device, default="auto"
        Where to compute; "auto" takes cuda, then mps, then cpu.
    keep_rounds : bool, default=False
        Whether to keep the way of a sample of rows through the rounds, for animations, as `rounds_`.
    callback : callable, default=None
        Called with each row of `history_` as it is made; a true answer ends the training.
    random_state : int, RandomState or None, default=None
        The only source of randomness.
    verbose : int, default=0
        1 logs each round, with a bar on a terminal.

    Attributes
    ----------
    labels_ : ndarray of shape (n_samples,)
        Cluster of each row given to `fit`; equal to `predict` of these rows.
    cluster_centers_ : ndarray of shape (n_clusters, n_components)
        Cluster centres in the embedding.
    sigma_ : float
        Width of the learned kernel.
    history_ : list of dict
        One row per round: round, hsic, reconstruction, u_change, u_error, seconds.
    n_iter_, best_round_ : int
        Number of rounds, and the one whose encoder was kept.
    selection_ : list of dict
        What sigma="auto" considered, the best first: affinity, ratio to the median distance or neighbors, conductance,
        reproducibility and score on halves of a sample, final_score on all of it for the best few, and chosen.
    spectral_embedding_ : ndarray of shape (n_train, columns of U)
        The last U.
    train_indices_ : ndarray of shape (n_train_,)
        Rows that were trained on, and as `n_train_` how many.
    start_labels_ : ndarray of shape (n_train_,) or None
        With sigma="auto": the partition of the training rows that training started from.
    rounds_ : ndarray of shape (best_round_ + 1, n_sample, n_components)
        With `keep_rounds`: a sample of training rows before the first round and after each one up to the best.
    predictor_ : knet.predictor.Predictor
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
        u_update: Any = "eig",
        sigma: str | float = "auto",
        sigma_scale: float = 1.0,
        init: str = "identity",
        encoder: nn.Module | None = None,
        hidden_width: str | int = "auto",
        n_hidden_layers: int = 2,
        n_components: str | int | None = "auto",
        u_columns: str = "c-1",
        reconstruction_weight: str | float = 0.0,
        degrees: str = "fixed",
        laplacian: str = "auto",
        memory_budget: float = 512,
        train_size: str | int | float = "auto",
        n_init: int = 4,
        max_rounds: int = 15,
        tol: float = 0.05,
        steps_per_round: int = 200,
        batch_size: str | int = "auto",
        lr: float = 1e-3,
        scale: str = "standard",
        device: str | torch.device = "auto",
        keep_rounds: bool = False,
        callback: Any = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.u_update = u_update
        self.sigma = sigma
        self.sigma_scale = sigma_scale
        self.init = init
        self.encoder = encoder
        self.hidden_width = hidden_width
        self.n_hidden_layers = n_hidden_layers
        self.n_components = n_components
        self.u_columns = u_columns
        self.reconstruction_weight = reconstruction_weight
        self.degrees = degrees
        self.laplacian = laplacian
        self.memory_budget = memory_budget
        self.train_size = train_size
        self.n_init = n_init
        self.max_rounds = max_rounds
        self.tol = tol
        self.steps_per_round = steps_per_round
        self.batch_size = batch_size
        self.lr = lr
        self.scale = scale
        self.device = device
        self.keep_rounds = keep_rounds
        self.callback = callback
        self.random_state = random_state
        self.verbose = verbose

    @lazy_on_collections
    @with_callbacks  # type: ignore[untyped-decorator]
    def fit(self, X: ArrayLike, y: Any = None) -> Self:
        """Learn the embedding and the clusters of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows to cluster: array, pandas or polars DataFrame, Arrow table, list or CPU tensor. Of a Dask array or
            DataFrame a sample is trained on; see `knet.dask.fit`.
        y : ignored
            Present by convention.

        Returns
        -------
        self : KNet
            The fitted estimator.
        """
        rules.check_parameters(type(self).__name__, self.get_params(deep=False), RULES)
        with self._columns_restored_on_error():
            return self._fit(self._validate(X, reset=True))

    def _fit(self, X: Floats) -> Self:
        """Fit on validated rows; the fitted state changes only at the very end."""
        rng = check_random_state(self.random_state)
        device = resolve_device(self.device)
        shift, scale = column_scale(X, self.scale)
        plan = self._plan(X, shift, scale, rng)
        single = device.type == "mps" or X.dtype == np.float32
        like = torch.empty(0, dtype=torch.float32 if single else torch.float64, device=device)
        X_train = standardize(X[plan.rows], shift, scale, like=like)
        with own_randomness(rng, device) as generator:
            tasks = RoundTasks(self, 2 * self.max_rounds, X)  # there may be more restarts after the first
            rows = X_train.float() if self.scale == "standard" else X_train
            learned = Learner(self, rows, plan, generator, rng, tasks).learn()
            kept, sigma = learned.kept, learned.sigma
            kept.encoder.to(X_train.dtype)
            predictor = summarize(kept, X_train, shift, scale, sigma=sigma, n_clusters=self.n_clusters, rng=rng)
            labels = predictor.assign(X)
            tasks.fit_done()
        self.predictor_, self.labels_, self.sigma_ = predictor, labels, sigma
        self.history_ = learned.history
        self.n_iter_, self.best_round_ = len(learned.history), kept.round
        self.__dict__.pop("rounds_", None)
        if learned.way is not None:
            self.rounds_ = learned.way
        self.cluster_centers_ = predictor.centers.cpu().numpy()
        self.spectral_embedding_ = kept.U.cpu().numpy()
        self.train_indices_, self.n_train_ = plan.rows, len(plan.rows)
        self.start_labels_ = learned.start
        self.selection_ = plan.considered
        self._n_features_out = self.cluster_centers_.shape[1]
        return self

    @lazy_on_collections
    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """Return the cluster of each row: the nearest centre in the embedding."""
        X = self._validate(X)
        return self.predictor_.assign(X)

    def transform(self, X: ArrayLike) -> Floats:
        """Return psi(X), the embedded rows, of shape (n_samples, n_components)."""
        X = self._validate(X)
        return self.predictor_.embed(X)

    @lazy_on_collections
    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return soft memberships, (n_samples, n_clusters); rows sum to 1 and the largest is that of `predict`."""
        X = self._validate(X)
        return self.predictor_.memberships(X)

    @lazy_on_collections
    def score_samples(self, X: ArrayLike) -> Floats:
        """Return how familiar each row is: the log of its mean kernel value to the training rows; 0 is the most."""
        X = self._validate(X)
        return self.predictor_.log_degrees(X)

    def kernel(self, X: ArrayLike, Y: ArrayLike | None = None) -> Floats:
        """Return the learned kernel, exp(-||psi(x) - psi(y)||^2 / (2 sigma^2)) / sqrt(d(x) d(y)) [KERNEL].

        d is the degree towards the training rows, through a summary of them, and at least 1. The kernel is positive
        semi-definite for any rows: use it as `SVC(kernel=model.kernel)`.
        """
        X = self._validate(X)
        Y = X if Y is None else self._validate(Y)
        return self.predictor_.kernel(X, Y)

    def recluster(self, X: ArrayLike) -> NDArray[np.int64]:
        """Return clusters recomputed by k-means on psi(X) alone, numbered like the nearest of the known clusters.

        The paper's other way to label new data: it follows clusters that have moved, where `predict` keeps the centres.
        """
        X = self._validate(X)
        if len(X) < self.n_clusters:
            raise ValueError(f"{len(X)} rows are too few to recluster into n_clusters={self.n_clusters} groups.")
        Psi = self.predictor_.embed(X)
        centers = find_centers(Psi, self.n_clusters, check_random_state(self.random_state))
        cost = cdist(centers, self.cluster_centers_, "sqeuclidean")
        ids: NDArray[np.int64] = linear_sum_assignment(cost)[1]
        nearest: NDArray[np.int64] = ids[cdist(Psi, centers).argmin(1)]
        return nearest

    def stability(self, X: ArrayLike, *, n_refits: int = 5, seed: int = 0, n_jobs: int | None = None) -> Any:
        """Return how far refits on other rows and seeds agree, as a `knet.stability.Stability`: the labels to trust."""
        from knet.stability import stability

        return stability(self, X, n_refits=n_refits, seed=seed, n_jobs=n_jobs)

    def save(self, path: Any) -> None:
        """Write the model to one safetensors file; see `knet.load`."""
        from knet.model_file import save

        save(self, path)

    def report(self, X: ArrayLike, path: Any, **options: Any) -> None:
        """Write a report on the clusters of X to one offline HTML file; options as in `knet.report.report`."""
        from knet.report import report

        report(self, X, path, **options)

    def _plan(self, X: Floats, shift: Floats, scale: Floats, rng: np.random.RandomState) -> Plan:
        """Choose the kernel's width, the rows to train on and the start, on a bounded sample of the scaled rows."""
        order = rng.permutation(len(X))
        pool = standardize(X[order[:POOL_ROWS]], shift, scale, like=torch.empty(0, dtype=torch.float64))
        return plan_training(
            pool,
            order,
            sigma=self.sigma,
            sigma_scale=self.sigma_scale,
            train_size=self.train_size,
            n_clusters=self.n_clusters,
            rng=rng,
        )

    @contextmanager
    def _columns_restored_on_error(self) -> Iterator[None]:
        """Keep what is known of the columns when a fit is refused or interrupted: the earlier fit still stands."""
        names = ("n_features_in_", "feature_names_in_")
        before = {name: getattr(self, name) for name in names if hasattr(self, name)}
        try:
            yield
        except BaseException:
            for name in names:
                self.__dict__.pop(name, None)
            self.__dict__.update(before)
            raise

    def _validate(self, X: Any, *, reset: bool = False) -> Floats:
        """Return X as a finite float array, or raise a message that names the columns at fault."""
        if not reset:
            check_is_fitted(self)
        check_in_memory(X)
        if isinstance(X, torch.Tensor):
            X = (X.float() if X.dtype == torch.bfloat16 else X).detach().cpu().numpy()
        rules.check_columns(X)
        checked: Floats = validate_data(
            self,
            X,
            reset=reset,
            dtype=None if isinstance(X, np.memmap) else [np.float64, np.float32],  # a file is converted in blocks
            ensure_all_finite=False,
            ensure_min_samples=2 if reset else 1,
        )
        rules.check_finite(checked, getattr(self, "feature_names_in_", None))
        return checked

    def __sklearn_tags__(self) -> Tags:
        """Say that float32 stays float32."""
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


# Around scikit-learn's set_output, which would compute a lazy result to make a DataFrame of it.
KNet.transform = lazy_on_collections(KNet.transform)  # type: ignore[method-assign]
