"""From a start to a trained encoder: psi follows a partition, or U starts from the eigenvectors of the kernel."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from knet.arrays import Floats, Labels
from knet.exceptions import KNetConvergenceWarning, warn_user
from knet.prepare.training_rows import median_distance
from knet.start.choice import Start
from knet.train.algorithm_1 import Iteration, algorithm_1
from knet.train.follow import follow
from knet.train.keep import NearStart
from knet.train.networks import Networks, build_networks
from knet.train.paper_start import check_kernel
from knet.train.settings import Settings
from knet.train.theta_step import ThetaStep
from knet.train.u_steps import indicator_embedding

SIDE = 4.0  # distance of two targets / width of the kernel: exp(-8) is close to 0
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
        core = self._core()
        L = settings.make_laplacian(core, self.start.sigma)
        U = L.largest(settings.n_columns)[1]
        can_train = settings.n_clusters > 1 and bool((self.X != self.X[0]).any())
        if not (can_train and check_kernel(L, self.start.sigma)):
            return Trained(self._networks().encoder, self.start.sigma, U, 0, [])
        return self._from_eigenvectors(U)

    def _from_partition(self, labels: Labels, U: Tensor) -> Trained:
        """Follow a partition, then run Algorithm 1 and keep the last iteration that agrees with the partition."""
        nets = self._networks()
        sigma, stored = self._embedded_sigma(nets), self._stored(nets)
        groups = np.unique(labels, return_inverse=True)[1].astype(np.int64)  # groups without rows get no target
        follow(nets.encoder, self.X, groups, SIDE * sigma, self.generator)
        stored += self._stored(nets)
        seed, n_before = int(self.rng.randint(2**31 - 1)), len(stored)
        keeper = NearStart(self.X, labels, self.settings.n_clusters, seed, nets.encoder, U)
        history: list[dict[str, float]] = []
        for iteration in self._iterations(nets, U, sigma):
            stored += self._stored(nets)
            history.append(iteration.row())
            agrees = keeper.see(iteration, nets.encoder)
            if self.report(iteration.row()) or not agrees:
                break
        kept = keeper.kept
        embeddings = _stacked(stored[: n_before + kept.iteration])
        return Trained(kept.encoder, sigma, kept.U, kept.iteration, history, kept.centers, embeddings)

    def _from_eigenvectors(self, U: Tensor) -> Trained:
        """Run Algorithm 1 as in the paper, several times from other weights, and keep the best run.

        The largest HSIC is the best, but a run whose K_U has not converged is not a result of the algorithm: its HSIC
        comes from more iterations, so that it would often be larger than that of a run that has converged.
        """
        runs: list[Trained] = []
        while len(runs) < self.settings.n_init:
            found, asked = self._one_run(U)
            runs.append(found)
            if asked:
                return found
        best = max(runs, key=lambda run: (self._converged(run.history), run.history[-1]["hsic"]))
        if not self._converged(best.history):
            self._warn_unconverged(best.history[-1]["u_change"])
        return best

    def _converged(self, history: list[dict[str, float]]) -> bool:
        return history[-1]["u_change"] < self.settings.tol

    def _one_run(self, U: Tensor) -> tuple[Trained, bool]:
        """Return the last iteration of a run, and whether the caller asked to stop."""
        nets = self._networks()
        sigma, stored = self._embedded_sigma(nets), self._stored(nets)
        history: list[dict[str, float]] = []
        asked = False
        for iteration in self._iterations(nets, U, sigma):
            stored += self._stored(nets)
            history.append(iteration.row())
            U_last = iteration.U
            if asked := self.report(iteration.row()):
                break
        return Trained(nets.encoder, sigma, U_last, len(history), history, None, _stacked(stored)), asked

    def _iterations(self, nets: Networks, U: Tensor, sigma: float) -> Iterator[Iteration]:
        """Return the iterations of Algorithm 1, which train the networks in place."""
        settings, advanced = self.settings, self.settings.advanced
        return algorithm_1(
            self._core(),
            nets,
            U,
            theta_step=ThetaStep(
                sigma,
                advanced.steps_per_iter,
                settings.batch_size,
                settings.learning_rate,
                through_degrees=advanced.degrees == "differentiated",
            ),
            u_step=settings.u_step,
            laplacian=settings.make_laplacian,
            lambda_rule=settings.lambda_rule,
            max_iter=settings.max_iter,
            tol=settings.tol,
            generator=self.generator,
        )

    def _core(self) -> Tensor:
        """Return the rows that Algorithm 1 runs on."""
        core = self.start.core
        return self.X if len(core) == len(self.X) else self.X[torch.from_numpy(core).to(self.X.device)]

    def _networks(self) -> Networks:
        """Return encoder and decoder before the first step."""
        settings = self.settings
        return build_networks(
            self.X,
            n_components=settings.n_components,
            hidden_layer_sizes=settings.hidden_layer_sizes,
            init=settings.advanced.init,
            module=settings.module,
            with_decoder=settings.with_decoder,
            generator=self.generator,
        )

    def _embedded_sigma(self, nets: Networks) -> float:
        """Return the width for the embedding: the same multiple of its median distance as in the data."""
        if self.settings.keeps_sigma:
            return self.start.sigma
        core = self._core()
        with torch.no_grad():
            embedded = median_distance(nets.encoder(core).cpu().numpy(), self.rng)
        scale = embedded / (median_distance(core.cpu().numpy(), self.rng) or 1.0)
        return self.start.sigma * scale if scale > 0 else self.start.sigma

    @torch.no_grad()
    def _stored(self, nets: Networks) -> list[Any]:
        """Return psi of an even sample of the training rows, as a list; an empty list unless it was asked for."""
        if not self.settings.advanced.keep_embeddings:
            return []
        rows = torch.linspace(0, len(self.X) - 1, min(len(self.X), SAMPLE_ROWS), dtype=torch.float64).long()
        return [nets.encoder(self.X[rows]).cpu().numpy()]

    def _warn_unless_converged(self, history: list[dict[str, float]]) -> None:
        """Warn if training reached the maximum number of iterations before U converged."""
        change, settings = history[-1]["u_change"], self.settings
        if len(history) == settings.max_iter and change >= settings.tol:
            warn_user(
                f"Stopped after max_iter={settings.max_iter} with U still changing by {change:.2g} "
                f"(tol={settings.tol:g}). Increase max_iter or tol.",
                KNetConvergenceWarning,
            )


def _stacked(stored: list[Any]) -> Floats | None:
    return np.stack(stored) if stored else None
