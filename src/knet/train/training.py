"""From a start to a trained encoder: psi follows a partition, or U starts from the eigenvectors of the kernel."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from knet.arrays import Floats, Labels
from knet.exceptions import KNetConvergenceWarning, warn_user
from knet.prepare.training_rows import median_distance
from knet.start.choice import Start
from knet.start.neighbors import Indices
from knet.threads import one_thread
from knet.train.algorithm_1 import Iteration
from knet.train.follow import follow
from knet.train.networks import Encoder
from knet.train.paper_start import check_kernel
from knet.train.settings import Settings
from knet.train.u_steps import share_embedding

SIDE = 4.0  # distance of two targets, in widths of the kernel: exp(-8) is close to 0
SAMPLE_ROWS = 600  # training rows whose embedding is stored after each iteration, on demand

Report = Callable[[dict[str, float]], bool]  # gets a row of history; True ends the training


@dataclass(frozen=True)
class Trained:
    """The result of training.

    Attributes
    ----------
    encoder : ResidualMLP or OwnEncoder
        psi, as it was after the kept iteration.
    sigma : float
        Width of the learned kernel.
    U : ndarray of shape (n_core, columns)
        The spectral embedding after the kept iteration.
    iteration : int
        The iteration that is kept; 0 is the state before the first one.
    history : list of dict
        One row per iteration.
    labels : ndarray of shape (n_train,), or None
        The partition that psi has followed, if there is one.
    embeddings : ndarray, or None
        On demand: a sample of rows before training, after the start was followed, and after each iteration.
    held_out : ndarray of int, or None
        Positions, within the training rows, of those that psi was not trained on while it followed the partition.
    """

    encoder: Encoder
    sigma: float
    U: Floats
    iteration: int
    history: list[dict[str, float]]
    labels: Labels | None = None
    embeddings: Floats | None = None
    held_out: Indices | None = None


@dataclass(frozen=True)
class Trainer:
    """Trains on the prepared rows X of a start."""

    settings: Settings
    start: Start
    X: Floats
    rng: np.random.RandomState
    report: Report

    def train(self) -> Trained:
        """Return the encoder that is kept; a single cluster, or a single distinct row, needs no training."""
        settings = self.settings
        if self.start.labels is not None and self.start.near is not None:
            with one_thread():  # gradient steps, and the kernel of few rows, are too small for several
                return self._from_partition(self.start.labels, self.start.near)
        L = settings.make_laplacian(self.core, self.start.sigma)
        U = L.largest(settings.n_columns)[1]
        can_train = settings.n_clusters > 1 and bool((self.X != self.X[0]).any())
        if not (can_train and check_kernel(L, self.start.sigma)):
            return Trained(settings.make_networks(self.X, self.rng).encoder, self.start.sigma, U, 0, [])
        return self._from_eigenvectors(U)

    @property
    def core(self) -> Floats:
        """The rows that Algorithm 1 runs on."""
        return self.X[self.start.core]

    def _from_partition(self, labels: Labels, near: Indices) -> Trained:
        """Follow a partition, then run Algorithm 1 from there as long as fewer held-out rows are wrong.

        The last iteration is kept too if as many are wrong as before it.
        """
        run, settings = Run(self), self.settings
        groups = np.unique(labels, return_inverse=True)[1].astype(np.int64)  # groups without rows get no target
        followed = follow(run.nets.encoder, self.X, groups, near, SIDE * run.sigma, self.rng)
        psi, n_wrong = followed.encoder, followed.wrong.sum()
        run.nets = replace(run.nets, encoder=psi)
        run.store_embedding()
        n_empty = settings.n_clusters - followed.shares.shape[1]
        shares = np.pad(followed.shares[self.start.core], ((0, 0), (0, n_empty)))
        U = share_embedding(shares, settings.n_columns)
        kept, index = psi.copy(), 0
        for iteration in run.iterations(U, settings.tol):
            is_last, n_wrong_before, n_wrong = self.report(iteration.row()), n_wrong, followed.split.wrong(psi).sum()
            if n_wrong > n_wrong_before:
                break
            kept, U, index = psi.copy(), iteration.U, iteration.index  # training goes on with psi itself
            if is_last or n_wrong == n_wrong_before:
                break
        stored = run.stored[: len(run.stored) - len(run.history) + index]
        return Trained(kept, run.sigma, U, index, run.history, labels, _stacked(stored), followed.split.held_out)

    def _from_eigenvectors(self, U: Floats) -> Trained:
        """Run Algorithm 1 as in the paper, from several initial weights, and keep the largest HSIC.

        The runs go on until K_U has converged in all of them: HSIC still rises after that, so that it can only be
        compared after the same number of iterations.
        """
        settings = self.settings
        runs = [Run(self) for _ in range(settings.n_init)]
        for _ in zip(*(run.iterations(U, tol=0.0) for run in runs), strict=True):
            best = max(runs, key=lambda run: run.last.hsic)
            change = max(run.last.u_change for run in runs)
            if self.report(best.last.row()) or change < settings.tol:
                break
        else:
            warn_user(
                f"Stopped after max_iter={settings.max_iter} with U still changing by {change:.2g} "
                f"(tol={settings.tol:g}). Increase max_iter or tol.",
                KNetConvergenceWarning,
            )
        last, stored = best.last, _stacked(best.stored)
        return Trained(best.nets.encoder, best.sigma, last.U, last.index, best.history, None, stored)


class Run:
    """A run of Algorithm 1 with new networks, and what is recorded of it."""

    last: Iteration

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.nets = trainer.settings.make_networks(trainer.X, trainer.rng)
        self.sigma = self._embedded_sigma()
        self.history: list[dict[str, float]] = []
        self.stored: list[Floats] = []
        self.store_embedding()

    def iterations(self, U: Floats, tol: float) -> Iterator[Iteration]:
        """Yield the iterations from U, which train the networks in place, until U changes by less than `tol`."""
        settings, core = self.trainer.settings, self.trainer.core
        step = settings.make_theta_step(self.sigma)
        for iteration in settings.alternate(core, self.nets, U, theta_step=step, tol=tol, rng=self.trainer.rng):
            self.last = iteration
            self.history.append(iteration.row())
            self.store_embedding()
            yield iteration

    def store_embedding(self) -> None:
        """Store psi of an even sample of the training rows, if that was asked for."""
        X = self.trainer.X
        if self.trainer.settings.keep_embeddings:
            rows = np.linspace(0, len(X) - 1, min(len(X), SAMPLE_ROWS)).astype(np.intp)
            self.stored.append(self.nets.encoder(X[rows]))

    def _embedded_sigma(self) -> float:
        """Return the width for the embedding: the same multiple of its median distance as in the data."""
        sigma, core, rng = self.trainer.start.sigma, self.trainer.core, self.trainer.rng
        if self.trainer.settings.keeps_sigma:
            return sigma
        embedded = median_distance(self.nets.encoder(core), rng)
        scale = embedded / (median_distance(core, rng) or 1.0)
        return sigma * scale if scale > 0 else sigma


def _stacked(stored: list[Floats]) -> Floats | None:
    return np.stack(stored) if stored else None
