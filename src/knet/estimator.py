"""KNet, the scikit-learn estimator: validation, the way of the data, and the only fitted state."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin, clone
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import nn

from knet import _validation as rules
from knet._callbacks import CallbackSupportMixin, RoundReporter, RoundTasks, with_callbacks
from knet._collections import check_in_memory, lazy_on_collections
from knet.exceptions import KNetConvergenceWarning, warn_user
from knet.fitting import (
    CLEARLY_SHORT,
    HOLD,
    BestPartition,
    Kept,
    LastRound,
    Learned,
    build_networks,
    check_distinct,
    check_kernel,
    column_scale,
    find_centers,
    own_randomness,
    resolve_device,
    sample_embedding,
    summarize,
)
from knet.kmeans import Labels
from knet.networks import Encoder
from knet.predictor import Floats, standardize
from knet.scanning import SCAN_ROWS, Scan, scan_rows
from knet.selection import POOL_ROWS, Plan, median_distance, plan_training
from knet.spectral import LAPLACIANS, U_STEPS, Laplacian, indicator_embedding, laplacian
from knet.training import Round, ThetaStep, alternate, balanced_lambda, constant_lambda

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
            learned = self._learn(X_train.float() if self.scale == "standard" else X_train, plan, generator, rng, tasks)
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

    def scan(
        self, X: ArrayLike, clusters: Iterable[int] = range(2, 11), *, n_resamples: int = 5, n_jobs: int | None = None
    ) -> Scan:
        """Advise on the number of clusters of X: what is stable under resampling and clearly separated, or no answer.

        Looks at `SCAN_ROWS` random rows, scaled as a fit would; nothing is fitted and the model does not change. Of its
        parameters only `scale` and `random_state` count. `n_jobs` as in joblib, whose Dask backend works as well.
        """
        checked = clone(self)._validate(X, reset=True)
        rng = check_random_state(self.random_state)
        shift, scale = column_scale(checked, self.scale)
        rows = np.sort(rng.permutation(len(checked))[:SCAN_ROWS])
        scaled = standardize(checked[rows], shift, scale, like=torch.empty(0, dtype=torch.float64)).numpy()
        return scan_rows(scaled, clusters, rng, n_resamples=n_resamples, n_jobs=n_jobs)

    def stability(self, X: ArrayLike, *, n_refits: int = 5, seed: int = 0, n_jobs: int | None = None) -> Any:
        """Return how far refits on other rows and seeds agree, as a `knet.stability.Stability`: the labels to trust."""
        from knet.stability import stability

        return stability(self, X, n_refits=n_refits, seed=seed, n_jobs=n_jobs)

    def save(self, path: Any) -> None:
        """Write the model to one safetensors file; see `knet.load`."""
        from knet.persistence import save

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

    def _learn(
        self, X: torch.Tensor, plan: Plan, generator: torch.Generator, rng: np.random.RandomState, tasks: RoundTasks
    ) -> Learned:
        """Run Algorithm 1 on the scaled training rows and keep the best of its restarts.

        From the paper's start all restarts are trained side by side. From a partition to start from, one is trained
        first, and the others only where its clusters fall clearly short of that partition.
        """
        make_laplacian = self._make_laplacian()
        n_columns = max(1, self.n_clusters - (self.u_columns == "c-1"))
        start = plan.start_labels(X)
        L = make_laplacian(X, plan.sigma)
        if start is None:
            U = L.largest(n_columns)[1]
        else:
            U = indicator_embedding(torch.from_numpy(start).to(L.d.device), self.n_clusters, n_columns)
        train = partial(self._train, X, U, start, plan.sigma, make_laplacian, generator, rng, tasks)
        single = self.n_clusters == 1 or check_distinct(X.cpu().numpy(), self.n_clusters) == 1
        if single or not check_kernel(L, plan.sigma):
            encoder, _ = self._build_networks(X, 1, generator)
            return Learned(Kept(encoder, U, 0, 0), plan.sigma, [], None, start)
        if start is None:
            return train(self.n_init)
        learned = train(1)
        if learned.shortfall > CLEARLY_SHORT and self.n_init > 1:
            learned = min(learned, train(self.n_init - 1), key=lambda one: one.shortfall)
        return learned

    def _build_networks(
        self, X: torch.Tensor, n_restarts: int, generator: torch.Generator
    ) -> tuple[Encoder, nn.Module | None]:
        """Return encoder and decoder at their start."""
        auto_width = min(max(128, 2 * X.shape[1]), 512)
        return build_networks(
            X,
            n_components=X.shape[1] + 1 if isinstance(self.n_components, str) else self.n_components,
            width=auto_width if self.hidden_width == "auto" else int(self.hidden_width),
            depth=self.n_hidden_layers,
            start=self.init,
            module=self.encoder,
            n_restarts=n_restarts,
            with_decoder=self.reconstruction_weight != 0,
            generator=generator,
        )

    def _train(
        self,
        X: torch.Tensor,
        U: torch.Tensor,
        start: Labels | None,
        sigma: float,
        make_laplacian: Callable[[torch.Tensor, float], Laplacian],
        generator: torch.Generator,
        rng: np.random.RandomState,
        tasks: RoundTasks,
        n_restarts: int,
    ) -> Learned:
        """Train some restarts side by side, from one U."""
        encoder, decoder = self._build_networks(X, n_restarts, generator)
        sigma = self._embedded_sigma(encoder, X, sigma, rng)
        auto_batch = min(max(64, 4 * self.n_clusters), 256)
        lam = self.reconstruction_weight
        rounds = alternate(
            X,
            encoder,
            decoder,
            U.expand(n_restarts, -1, -1),
            theta_step=ThetaStep(
                sigma,
                self.steps_per_round,
                auto_batch if self.batch_size == "auto" else int(self.batch_size),
                self.lr,
                through_degrees=self.degrees == "differentiated",
            ),
            u_step=self.u_update if callable(self.u_update) else U_STEPS[self.u_update],
            laplacian=make_laplacian,
            lambda_rule=balanced_lambda if lam == "balanced" else constant_lambda(float(lam)),
            max_rounds=self.max_rounds,
            tol=self.tol,
            generator=generator,
            hold=0.0 if start is None else HOLD,
        )
        keeper = LastRound() if start is None else BestPartition(X, start, self.n_clusters, int(rng.randint(2**31 - 1)))
        return self._follow(rounds, X, encoder, sigma, keeper, tasks)

    def _make_laplacian(self) -> Callable[[torch.Tensor, float], Laplacian]:
        """Return the function that makes L, within its part of the budget: several restarts have theirs at a time."""
        if self.laplacian != "auto":
            return LAPLACIANS[self.laplacian]
        n_alive = min(self.n_init, torch.get_num_threads())
        return partial(laplacian, budget=self.memory_budget * 2**20 / n_alive)

    def _embedded_sigma(self, encoder: Encoder, X: torch.Tensor, sigma: float, rng: np.random.RandomState) -> float:
        """Return the width for the embedding: as large against its median distance as `sigma` is in the data."""
        if (self.encoder is None and self.init == "identity") or not isinstance(self.sigma, str):
            return sigma
        with torch.no_grad():
            median = median_distance(encoder(X)[0], rng)
        return sigma * median / median_distance(X, rng) if median > 0 else sigma

    def _follow(
        self,
        rounds: Iterator[Round],
        X: torch.Tensor,
        encoder: Encoder,
        sigma: float,
        keeper: LastRound | BestPartition,
        tasks: RoundTasks,
    ) -> Learned:
        """Consume the rounds: keep the best, report each, stop when asked to, warn when they ran out."""
        histories: list[list[dict[str, float]]] = []  # a row for each restart; U of past rounds is let go
        done = asked = False
        embedded = [sample_embedding(encoder, X)] if self.keep_rounds else []
        with RoundReporter(self.verbose, self.max_rounds) as report:
            for one in rounds:
                histories.append([one.row(restart) for restart in range(len(one.U))])
                if self.keep_rounds:
                    embedded.append(sample_embedding(encoder, X))
                done = keeper.see(one, encoder)
                row = one.row(keeper.kept.restart)
                report(row)
                asked = self.callback is not None and bool(self.callback(dict(row)))
                asked |= tasks.round_done()
                if done or asked:
                    break
        change = max(row["u_change"] for row in histories[-1])
        ran_out = len(histories) == self.max_rounds and not asked
        if isinstance(keeper, LastRound) and ran_out and change >= self.tol:
            warn_user(
                f"Stopped after max_rounds={self.max_rounds} with U still changing by {change:.2g} (tol={self.tol:g}). "
                "Increase max_rounds or tol.",
                KNetConvergenceWarning,
            )
        way = np.stack([Psi[keeper.kept.restart] for Psi in embedded[: keeper.kept.round + 1]]) if embedded else None
        history = [rows[keeper.kept.restart] for rows in histories]
        shortfall = 1.0 if asked else keeper.shortfall  # who asks to stop wants no more restarts
        return Learned(keeper.kept, sigma, history, way, keeper.start, shortfall)

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
