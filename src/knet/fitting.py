"""The stations of a fit before and after Algorithm 1: scaling, networks, the start, k-means and the summary."""

import copy
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor, nn

from knet.exceptions import KNetDataWarning, warn_user
from knet.kernels import squared_distances
from knet.kmeans import Labels, k_means
from knet.networks import Copies, Encoder, ResidualMLP, linear_start, pretrain
from knet.predictor import FAR, Floats, Predictor, float_dtype
from knet.spectral import Laplacian
from knet.starts import Judge
from knet.threads import one_blas_thread
from knet.training import Round

SUMMARY_ROWS = 256  # landmarks that stand for the training rows in degrees
SUMMARY_SHARE = 4  # training rows per landmark, at least
MOMENT_ROWS = 65_536  # rows in double precision at a time
HOLD = 0.9  # share of HSIC that psi has to reach before a chosen start is let go
PATIENCE = 4  # rounds without a better partition after which training ends
ALL_ROWS = 50_000  # up to here k-means looks at all rows in each iteration
ALL_PAIRS = 4_000_000  # and up to this many pairs of a row and a centre it is ours, which keeps all their distances
MINI_BATCH = 4096  # rows it looks at in an iteration beyond
ROUND_ROWS = 600  # training rows whose way through the rounds is kept on demand


def resolve_device(device: str | torch.device) -> torch.device:
    """Return the device to compute on; "auto" takes cuda, then mps, then cpu."""
    if device == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
        return torch.device(name)
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError, TypeError) as error:
        raise ValueError(
            f"The 'device' parameter of KNet must be 'auto' or a torch device that this machine has. Got {device!r} "
            "instead; use 'auto' or 'cpu'."
        ) from error


@contextmanager
def own_randomness(rng: np.random.RandomState, device: torch.device) -> Iterator[torch.Generator]:
    """Seed torch from `rng` for the time of a fit and leave the host's generators and modes as they were."""
    seed = int(rng.randint(np.iinfo(np.int32).max))
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices), torch.inference_mode(False), torch.enable_grad():
        torch.manual_seed(seed)  # for a user's own module, which may draw (dropout)
        yield torch.Generator().manual_seed(seed)


def column_scale(X: Floats, scale: str) -> tuple[Floats, Floats]:
    """Return the shift and scale of each column, in blocks and safe from overflow; constant columns keep scale 1."""
    starts = range(0, len(X), MOMENT_ROWS)
    largest = np.max([np.abs(X[i : i + MOMENT_ROWS]).max(0) for i in starts], axis=0).astype(np.float64)
    unit = np.where(largest > 0, largest, 1.0)
    mean = sum((X[i : i + MOMENT_ROWS] / unit).sum(0) for i in starts) / len(X)
    variance = sum(np.square(X[i : i + MOMENT_ROWS] / unit - mean).sum(0) for i in starts) / len(X)
    deviation = np.sqrt(variance)
    constant = deviation <= 10 * np.finfo(float_dtype(X)).eps
    if scale == "none":
        _check_unscaled(largest, deviation[~constant] * unit[~constant])
        return np.zeros(X.shape[1]), np.ones(X.shape[1])
    return mean * unit, np.where(constant, 1.0, deviation * unit)


def _check_unscaled(largest: Floats, deviations: Floats) -> None:
    """Refuse or warn of columns that a network cannot work with as they are."""
    if largest.max() > FAR:
        raise ValueError(
            f"With scale='none', columns must stay within {FAR:g}; the largest value is {largest.max():.3g}. "
            "Use scale='standard' or scale the columns first."
        )
    if len(deviations) and not 1e-3 < np.median(deviations) < 1e3:
        warn_user(
            f"With scale='none' and columns that vary by {np.median(deviations):.3g}, training can hardly move the "
            "rows. Use scale='standard' or scale the columns first.",
            KNetDataWarning,
        )


def build_networks(
    X: Tensor,
    *,
    n_components: int | None,
    width: int,
    depth: int,
    start: str,
    module: nn.Module | None,
    n_restarts: int,
    with_decoder: bool,
    generator: torch.Generator,
) -> tuple[Encoder, nn.Module | None]:
    """Return encoder and decoder at their start: identity by construction, pre-trained [INIT], or the user's own."""
    make = partial(ResidualMLP, width=width, depth=depth, n_restarts=n_restarts, generator=generator)
    if module is not None:
        copies = Copies([copy.deepcopy(module).to(X) for _ in range(n_restarts)])
        if not with_decoder:
            return copies, None
        with torch.no_grad():
            n_components = copies(X[:2]).shape[-1]
        return copies, make(X.new_zeros(n_components, X.shape[1]), zero_last=False).to(X.device)
    P = linear_start(X, n_components or X.shape[1])
    back = P.mT.contiguous()
    if start == "identity":
        return make(P).to(X.device), make(back).to(X.device) if with_decoder else None
    encoder = make(torch.zeros_like(P), zero_last=False).to(X.device)
    decoder = make(torch.zeros_like(back), zero_last=False).to(X.device)
    pretrain(encoder, decoder, X, P, n_restarts=n_restarts, generator=generator)
    return encoder, decoder if with_decoder else None


@dataclass(frozen=True)
class Kept:
    """The encoder that a fit keeps: which restart, after which round, its U, and the centres if already found."""

    encoder: Encoder
    U: Tensor
    restart: int
    round: int
    centers: Floats | None = None


@dataclass(frozen=True)
class Learned:
    """What training gives: the encoder kept, the kernel's width, a row per round, rows on their way, and the start.

    `shortfall` is the conductance of the clusters kept against that of the start.
    """

    kept: Kept
    sigma: float
    history: list[dict[str, float]]
    way: Floats | None
    start: Labels | None
    shortfall: float = 1.0


class LastRound:
    """Keep the last round of the restart with the largest HSIC, as Algorithm 1 does."""

    shortfall = 1.0

    def see(self, one: Round, encoder: Encoder) -> bool:
        """Look at a round; never ask to stop."""
        best = int(np.argmax(one.hsic))
        self.kept = Kept(encoder.restart(best), one.U[best], best, one.index)
        return False


class BestPartition:
    """Keep the round and restart whose clusters are the best separated among the training rows' neighbours.

    HSIC is judged by the kernel that is being trained; conductance is judged by the data as given, so it tells when
    training has begun to invent clusters, and training never ends below where it has been.
    """

    def __init__(self, X: Tensor, start: Labels, n_clusters: int, seed: int) -> None:
        self.X, self.start, self.n_clusters, self.seed = X, start, n_clusters, seed
        self.judge = Judge(X.cpu().numpy().astype(np.float64))
        self.best = math.inf

    def see(self, one: Round, encoder: Encoder) -> bool:
        """Look at a round; ask to stop when the last better one is `PATIENCE` rounds ago."""
        with torch.no_grad():
            Psi = encoder(self.X).cpu().numpy()
        for restart, embedded in enumerate(Psi):
            centers = find_centers(embedded, self.n_clusters, np.random.RandomState(self.seed), 3, self.start)
            conductance = self.judge.conductance(cdist(embedded, centers).argmin(1))
            if conductance < self.best:
                self.best = conductance
                self.kept = Kept(encoder.restart(restart), one.U[restart], restart, one.index, centers)
        return one.index - self.kept.round >= PATIENCE

    @property
    def shortfall(self) -> float:
        """Conductance of the clusters kept against that of the partition to start from."""
        return self.best / self.judge.conductance(self.start)


@torch.no_grad()
def sample_embedding(encoder: Encoder, X: Tensor) -> Floats:
    """Return psi of an even sample of the training rows, for every restart."""
    rows = torch.linspace(0, len(X) - 1, min(len(X), ROUND_ROWS), dtype=torch.float64).long()
    Psi: Floats = encoder(X[rows]).cpu().numpy()
    return Psi


def check_kernel(L: Laplacian, sigma: float) -> bool:
    """Warn when the kernel can tell no groups apart, and say whether there is anything to train on at all."""
    n, typical = len(L.d), float(L.d.median())
    if typical < 1 + 1e-3:
        warn_user(
            f"At sigma={sigma:.3g} most rows have no neighbours (the kernel is close to the identity), so clusters "
            "are arbitrary. Raise sigma or sigma_scale.",
            KNetDataWarning,
        )
    elif typical > (1 - 1e-6) * n:
        warn_user(
            f"At sigma={sigma:.3g} all rows look alike (the kernel is close to all ones), so clusters are arbitrary. "
            "Lower sigma or sigma_scale.",
            KNetDataWarning,
        )
    return float(L.d.max()) > 1 + 1e-9


def check_distinct(X: Floats, n_clusters: int) -> int:
    """Return the number of different training rows, with a warning where that is below `n_clusters`."""
    n_distinct = len(np.unique(X, axis=0))
    if n_distinct < n_clusters:
        warn_user(
            f"The training rows hold only {n_distinct} distinct row{'s' if n_distinct > 1 else ''} after scaling, "
            f"fewer than n_clusters={n_clusters}; the labels use at most {n_distinct}. Lower n_clusters.",
            KNetDataWarning,
        )
    return n_distinct


def find_centers(
    Psi: Floats, n_clusters: int, rng: np.random.RandomState, n_runs: int = 10, start: Labels | None = None
) -> Floats:
    """Return the centres of k-means on embedded rows; one thread, so that sums repeat to the bit.

    With a partition to `start` from, one more run begins at the means of its groups: random beginnings seldom find all
    of many clusters.
    """
    with one_blas_thread(), warnings.catch_warnings():
        if len(Psi) <= ALL_ROWS and len(Psi) * n_clusters <= ALL_PAIRS:
            return k_means(Psi, n_clusters, n_runs, rng, start).centers
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters: warned of before
        kind = _large_k_means(len(Psi))
        found = kind(n_clusters, n_init=n_runs, random_state=rng).fit(Psi)
        if start is not None and len(np.unique(start)) == n_clusters:
            means = np.stack([Psi[start == group].mean(0) for group in range(n_clusters)])
            found = min(found, kind(n_clusters, init=means, n_init=1).fit(Psi), key=lambda one: float(one.inertia_))
    centers: Floats = found.cluster_centers_
    return centers


def _large_k_means(n_rows: int) -> Callable[..., KMeans | MiniBatchKMeans]:
    """Return scikit-learn's k-means for many rows or groups, which keeps no distances of all pairs."""
    return KMeans if n_rows <= ALL_ROWS else partial(MiniBatchKMeans, batch_size=MINI_BATCH)


def summarize(
    kept: Kept,
    X: Tensor,
    shift: Floats,
    scale: Floats,
    *,
    sigma: float,
    n_clusters: int,
    rng: np.random.RandomState,
) -> Predictor:
    """Embed the training rows, find the centres, and keep what new rows need: nothing that grows with the rows."""
    encoder = kept.encoder.requires_grad_(False).eval()
    Psi = encoder(X)[0]
    embedded = Psi.cpu().numpy()
    found = find_centers(embedded, n_clusters, rng) if kept.centers is None else kept.centers
    centers = torch.from_numpy(found).to(Psi)
    nearest = squared_distances(Psi, centers).amin(1)
    tiny = torch.finfo(Psi.dtype).tiny ** 0.5
    landmarks, weights = _landmarks(embedded, rng)
    return Predictor(
        shift=shift,
        scale=scale,
        encoder=encoder,
        sigma=sigma,
        centers=centers,
        spread=max(float(nearest.mean()) / Psi.shape[1], tiny),
        landmarks=torch.from_numpy(landmarks).to(Psi),
        weights=torch.from_numpy(weights).to(Psi.device, torch.float32 if Psi.device.type == "mps" else torch.float64),
    )


def _landmarks(embedded: Floats, rng: np.random.RandomState) -> tuple[Floats, NDArray[np.int64]]:
    """Return centres of small groups of embedded rows, and how many rows each stands for."""
    n_groups = max(1, min(SUMMARY_ROWS, len(np.unique(embedded, axis=0)) // SUMMARY_SHARE))
    with one_blas_thread():
        groups = _large_k_means(len(embedded))(n_groups, n_init=1, max_iter=20, random_state=rng).fit(embedded)
    centers, counts = groups.cluster_centers_, np.bincount(groups.labels_, minlength=n_groups)
    large = counts > 1  # the centre of a single row would be that row: it joins the nearest group
    joins = cdist(centers[~large], centers[large]).argmin(1)
    sums = centers[large] * counts[large, None]
    np.add.at(sums, joins, centers[~large])
    totals = counts[large] + np.bincount(joins, minlength=len(sums))
    return sums / totals[:, None], totals
