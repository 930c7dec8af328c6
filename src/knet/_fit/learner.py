"""From a plan to a trained encoder: runs Algorithm 1 and keeps the best of its iterations and restarts."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from knet._fit.checks import check_distinct, check_kernel
from knet._fit.keep import BestPartition, Kept, LastIteration
from knet._fit.loop import Hold, Iteration, alternate
from knet._fit.plan import Plan, median_distance
from knet._fit.progress import IterationReporter, IterationTasks
from knet._fit.settings import Settings
from knet._fit.theta_step import ThetaStep
from knet._math.arrays import Floats
from knet._math.u_steps import indicator_embedding
from knet._network.build import Networks, build_networks
from knet._network.mlp import Encoder
from knet.exceptions import KNetConvergenceWarning, warn_user

CLEARLY_SHORT = 1.5  # the other restarts are trained if the conductance is this many times that of the start
SAMPLE_ROWS = 600  # training rows whose embedding is stored after each iteration, on demand


@dataclass(frozen=True)
class Learned:
    """The result of training: the encoder kept, the width of its kernel, and one row of history per iteration.

    `embeddings` has the embedded sample of every iteration up to the best, on demand. `shortfall` is the conductance of
    the clusters kept, divided by that of the start.
    """

    kept: Kept
    sigma: float
    history: list[dict[str, float]]
    embeddings: Floats | None = None
    shortfall: float = 1.0


@dataclass(frozen=True)
class Learner:
    """Trains on the scaled rows X of a plan."""

    settings: Settings
    plan: Plan
    X: Tensor
    generator: torch.Generator
    rng: np.random.RandomState
    tasks: IterationTasks

    def learn(self) -> Learned:
        """Run Algorithm 1 and keep the best of its restarts.

        From the paper's start all restarts are trained side by side. From a partition, one restart is trained first,
        and the others only if its clusters are clearly worse separated than that partition.
        """
        settings, sigma, start = self.settings, self.plan.sigma, self.plan.start
        L = settings.laplacian_for(1)(self.X, sigma)
        if start is None:
            U = L.largest(settings.n_columns)[1]
        else:
            U = indicator_embedding(torch.from_numpy(start).to(L.d.device), settings.n_clusters, settings.n_columns)
        single = settings.n_clusters == 1 or check_distinct(self.X.cpu().numpy(), settings.n_clusters) == 1
        if single or not check_kernel(L, sigma):
            return Learned(Kept(self._networks(1).encoder, U, 0, 0), sigma, [])
        if start is None:
            return self._train(settings.n_init, U)
        learned = self._train(1, U)
        if learned.shortfall > CLEARLY_SHORT and settings.n_init > 1:
            learned = min(learned, self._train(settings.n_init - 1, U), key=lambda result: result.shortfall)
        return learned

    def _train(self, n_restarts: int, U: Tensor) -> Learned:
        """Train restarts side by side from U: report every iteration, keep the best, stop if asked to."""
        settings, nets = self.settings, self._networks(n_restarts)
        sigma, keeper = self._embedded_sigma(nets.encoder), self._keeper()
        histories: list[list[dict[str, float]]] = []  # per iteration, a row for each restart
        embeddings = [self._sample_embedding(nets.encoder)] if settings.keep_embeddings else []
        asked = False
        with IterationReporter(settings.verbose, settings.max_iter) as report:
            for iteration in self._iterations(nets, U.expand(n_restarts, -1, -1), sigma):
                histories.append([iteration.row(restart) for restart in range(n_restarts)])
                if settings.keep_embeddings:
                    embeddings.append(self._sample_embedding(nets.encoder))
                done = keeper.see(iteration, nets.encoder)
                row = iteration.row(keeper.kept.restart)
                report(row)
                asked = settings.callback is not None and bool(settings.callback(dict(row)))
                asked |= self.tasks.iteration_done()
                if done or asked:
                    break
        if self.plan.start is None and not asked:
            self._warn_unless_converged(histories)
        kept = keeper.kept
        stored = np.stack([Psi[kept.restart] for Psi in embeddings[: kept.iteration + 1]]) if embeddings else None
        shortfall = 1.0 if asked else keeper.shortfall  # a callback that stops the training wants no more restarts
        return Learned(kept, sigma, [rows[kept.restart] for rows in histories], stored, shortfall)

    def _iterations(self, nets: Networks, U: Tensor, sigma: float) -> Iterator[Iteration]:
        """Return the iterations of Algorithm 1, which train the networks in place."""
        settings = self.settings
        step = ThetaStep(sigma, settings.n_steps, settings.batch_size, settings.learning_rate, settings.through_degrees)
        return alternate(
            self.X,
            nets.encoder,
            nets.decoder,
            U,
            theta_step=step,
            u_step=settings.u_step,
            laplacian=settings.laplacian_for(len(U)),
            lambda_rule=settings.lambda_rule,
            max_iter=settings.max_iter,
            tol=settings.tol,
            generator=self.generator,
            hold=None if self.plan.start is None else Hold(),
        )

    def _keeper(self) -> LastIteration | BestPartition:
        """Return the rule that decides which iteration is kept."""
        if self.plan.start is None:
            return LastIteration()
        return BestPartition(self.X, self.plan.start, self.settings.n_clusters, int(self.rng.randint(2**31 - 1)))

    def _networks(self, n_restarts: int) -> Networks:
        """Return encoder and decoder before the first step."""
        settings = self.settings
        return build_networks(
            self.X,
            n_components=settings.n_components,
            hidden_layer_sizes=settings.hidden_layer_sizes,
            init=settings.init,
            module=settings.module,
            n_restarts=n_restarts,
            with_decoder=settings.with_decoder,
            generator=self.generator,
        )

    def _embedded_sigma(self, encoder: Encoder) -> float:
        """Return the width for the embedding: the same multiple of its median distance as in the data."""
        settings, sigma = self.settings, self.plan.sigma
        if (settings.module is None and settings.init == "identity") or not isinstance(settings.sigma, str):
            return sigma
        with torch.no_grad():
            median = median_distance(encoder(self.X)[0], self.rng)
        return sigma * median / median_distance(self.X, self.rng) if median > 0 else sigma

    @torch.no_grad()
    def _sample_embedding(self, encoder: Encoder) -> Floats:
        """Return psi of an even sample of the training rows, for every restart."""
        n = len(self.X)
        rows = torch.linspace(0, n - 1, min(n, SAMPLE_ROWS), dtype=torch.float64).long()
        Psi: Floats = encoder(self.X[rows]).cpu().numpy()
        return Psi

    def _warn_unless_converged(self, histories: list[list[dict[str, float]]]) -> None:
        """Warn if training reached the maximum number of iterations before U converged."""
        change, settings = max(row["u_change"] for row in histories[-1]), self.settings
        if len(histories) == settings.max_iter and change >= settings.tol:
            warn_user(
                f"Stopped after max_iter={settings.max_iter} with U still changing by {change:.2g} "
                f"(tol={settings.tol:g}). Increase max_iter or tol.",
                KNetConvergenceWarning,
            )
