"""From a start to a trained encoder: psi follows a partition, or U starts from the eigenvectors of the kernel."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from knet.arrays import Floats, Labels
from knet.exceptions import KNetConvergenceWarning, warn_user
from knet.prepare.training_rows import median_distance
from knet.start.choice import Start
from knet.train.algorithm_1 import Iteration
from knet.train.follow import follow
from knet.train.keep import NearStart
from knet.train.paper_start import check_kernel
from knet.train.settings import Settings
from knet.train.u_steps import indicator_embedding

SIDE = 4.0  # distance of two targets, in widths of the kernel: exp(-8) is close to 0
SAMPLE_ROWS = 600  # training rows whose embedding is stored after each iteration, on demand

Report = Callable[[dict[str, float]], bool]  # gets a row of history; True ends the training


@dataclass(frozen=True)
class Trained:
    """The result of training.

    Attributes
    ----------
    encoder : nn.Module
        psi, as it was after the kept iteration.
    sigma : float
        Width of the learned kernel.
    U : Tensor of shape (n_core, columns)
        The spectral embedding after the kept iteration.
    iteration : int
        The iteration that is kept; 0 is the state before the first one.
    history : list of dict
        One row per iteration.
    centers : ndarray of shape (c, d'), or None
        Cluster centres in the embedding, if they are known already.
    embeddings : ndarray, or None
        On demand: a sample of rows before training, after the start was followed, and after each iteration.
    """

    encoder: nn.Module
    sigma: float
    U: Tensor
    iteration: int
    history: list[dict[str, float]]
    centers: Floats | None = None
    embeddings: Floats | None = None


@dataclass(frozen=True)
class Trainer:
    """Trains on the prepared rows X of a start."""

    settings: Settings
    start: Start
    X: Tensor
    generator: torch.Generator
    rng: np.random.RandomState
    report: Report

    def train(self) -> Trained:
        """Return the encoder that is kept; a single cluster, or a single distinct row, needs no training."""
        settings, labels = self.settings, self.start.labels
        if labels is not None:
            groups = torch.from_numpy(labels[self.start.core]).to(self.X.device)
            return self._from_partition(labels, indicator_embedding(groups, settings.n_clusters, settings.n_columns))
        L = settings.make_laplacian(self.core, self.start.sigma)
        U = L.largest(settings.n_columns)[1]
        can_train = settings.n_clusters > 1 and bool((self.X != self.X[0]).any())
        if not (can_train and check_kernel(L, self.start.sigma)):
            return Trained(settings.make_networks(self.X, self.generator).encoder, self.start.sigma, U, 0, [])
        return self._from_eigenvectors(U)

    @property
    def core(self) -> Tensor:
        """The rows that Algorithm 1 runs on."""
        core = self.start.core
        return self.X if len(core) == len(self.X) else self.X[torch.from_numpy(core).to(self.X.device)]

    def _from_partition(self, labels: Labels, U: Tensor) -> Trained:
        """Follow a partition, then run Algorithm 1 and keep the last iteration that agrees with the partition."""
        run = Run(self, U)
        groups = np.unique(labels, return_inverse=True)[1].astype(np.int64)  # groups without rows get no target
        follow(run.nets.encoder, self.X, groups, SIDE * run.sigma, self.generator)
        run.store_embedding()
        seed = int(self.rng.randint(2**31 - 1))
        keeper = NearStart(self.X, labels, self.settings.n_clusters, seed, run.nets.encoder, U)
        for iteration in run.iterations(self.settings.tol):
            agrees = keeper.see(iteration.index, iteration.U, run.nets.encoder)
            if self.report(iteration.row()) or not agrees:
                break
        kept = keeper.kept
        n_left = len(run.history) - kept.iteration  # iterations after the kept one
        stored = run.stored[: len(run.stored) - n_left]
        return Trained(kept.encoder, run.sigma, kept.U, kept.iteration, run.history, kept.centers, _stacked(stored))

    def _from_eigenvectors(self, U: Tensor) -> Trained:
        """Run Algorithm 1 as in the paper, from several initial weights, and keep the largest HSIC.

        The runs go on until K_U has converged in all of them: HSIC still rises after that, so that it can only be
        compared after the same number of iterations.
        """
        settings = self.settings
        runs = [Run(self, U) for _ in range(settings.n_init)]
        for _ in zip(*(run.iterations(tol=0.0) for run in runs), strict=True):
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
    """A run of Algorithm 1 from U, with new networks, and what is recorded of it."""

    last: Iteration

    def __init__(self, trainer: Trainer, U: Tensor) -> None:
        self.trainer, self.U = trainer, U
        self.nets = trainer.settings.make_networks(trainer.X, trainer.generator)
        self.sigma = self._embedded_sigma()
        self.history: list[dict[str, float]] = []
        self.stored: list[Floats] = []
        self.store_embedding()

    def iterations(self, tol: float) -> Iterator[Iteration]:
        """Yield the iterations, which train the networks in place, until U changes by less than `tol`."""
        settings, generator = self.trainer.settings, self.trainer.generator
        step = settings.make_theta_step(self.sigma)
        core = self.trainer.core
        for iteration in settings.alternate(core, self.nets, self.U, theta_step=step, tol=tol, generator=generator):
            self.last = iteration
            self.history.append(iteration.row())
            self.store_embedding()
            yield iteration

    @torch.no_grad()
    def store_embedding(self) -> None:
        """Store psi of an even sample of the training rows, if that was asked for."""
        X = self.trainer.X
        if self.trainer.settings.keep_embeddings:
            rows = torch.linspace(0, len(X) - 1, min(len(X), SAMPLE_ROWS), dtype=torch.float64).long()
            self.stored.append(self.nets.encoder(X[rows]).cpu().numpy())

    @torch.no_grad()
    def _embedded_sigma(self) -> float:
        """Return the width for the embedding: the same multiple of its median distance as in the data."""
        sigma, core, rng = self.trainer.start.sigma, self.trainer.core, self.trainer.rng
        if self.trainer.settings.keeps_sigma:
            return sigma
        embedded = median_distance(self.nets.encoder(core).cpu().numpy(), rng)
        scale = embedded / (median_distance(core.cpu().numpy(), rng) or 1.0)
        return sigma * scale if scale > 0 else sigma


def _stacked(stored: list[Floats]) -> Floats | None:
    return np.stack(stored) if stored else None
