"""From a plan to a trained encoder: runs Algorithm 1 and keeps the best of its iterations and restarts."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from knet._fit.checks import check_distinct, check_kernel
from knet._fit.follow import follow
from knet._fit.keep import Kept, LastIteration, NearStart
from knet._fit.loop import Iteration, alternate
from knet._fit.plan import Plan, median_distance
from knet._fit.progress import IterationReporter, IterationTasks
from knet._fit.settings import Settings
from knet._fit.theta_step import ThetaStep
from knet._math.arrays import Floats, Labels
from knet._math.u_steps import indicator_embedding
from knet._network.build import Networks, build_networks
from knet._network.mlp import Encoder
from knet.exceptions import KNetConvergenceWarning, warn_user

SIDE = 4.0  # distance of two targets / width of the kernel: exp(-8) is close to 0
SAMPLE_ROWS = 600  # training rows whose embedding is stored after each iteration, on demand


@dataclass(frozen=True)
class Learned:
    """The result of training: the encoder kept, the width of its kernel, and one row of history per iteration.

    `embeddings` has the embedded sample before training, after the start was followed, and after every iteration up to
    the best, on demand.
    """

    kept: Kept
    sigma: float
    history: list[dict[str, float]]
    embeddings: Floats | None = None


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
        """Run Algorithm 1 and keep the best of its iterations and restarts; from a partition there is one restart."""
        settings, sigma, start, core = self.settings, self.plan.sigma, self.plan.start, self.plan.core
        L = settings.laplacian_for(1)(self._core, sigma)
        if start is None:
            U = L.largest(settings.n_columns)[1]
        else:
            groups = torch.from_numpy(start[core]).to(L.d.device)
            U = indicator_embedding(groups, settings.n_clusters, settings.n_columns)
        single = settings.n_clusters == 1 or check_distinct(self.X.cpu().numpy(), settings.n_clusters) == 1
        if single or not check_kernel(L, sigma):
            return Learned(Kept(self._networks(1).encoder, U, 0, 0), sigma, [])
        return self._train(U.expand(settings.n_init if start is None else 1, -1, -1))

    @cached_property
    def _core(self) -> Tensor:
        """The rows that Algorithm 1 runs on."""
        core = self.plan.core
        return self.X if len(core) == len(self.X) else self.X[torch.from_numpy(core).to(self.X.device)]

    def _train(self, U: Tensor) -> Learned:
        """Train restarts side by side from U: report every iteration, keep the best, stop if asked to."""
        settings, nets = self.settings, self._networks(len(U))
        sigma = self._embedded_sigma(nets.encoder)
        embeddings = [self._sample_embedding(nets.encoder)] if settings.keep_embeddings else []
        if self.plan.start is not None:
            self._follow(self.plan.start, nets.encoder, sigma)
            embeddings += [self._sample_embedding(nets.encoder)] if settings.keep_embeddings else []
        keeper, n_before = self._keeper(nets.encoder, U), len(embeddings)
        histories: list[list[dict[str, float]]] = []  # per iteration, a row for each restart
        asked = False
        with IterationReporter(settings.verbose, settings.max_iter) as report:
            for iteration in self._iterations(nets, U, sigma):
                histories.append([iteration.row(restart) for restart in range(len(U))])
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
        stored = [Psi[kept.restart] for Psi in embeddings[: n_before + kept.iteration]]
        return Learned(kept, sigma, [rows[kept.restart] for rows in histories], np.stack(stored) if stored else None)

    def _iterations(self, nets: Networks, U: Tensor, sigma: float) -> Iterator[Iteration]:
        """Return the iterations of Algorithm 1, which train the networks in place."""
        settings = self.settings
        step = ThetaStep(sigma, settings.n_steps, settings.batch_size, settings.learning_rate, settings.through_degrees)
        return alternate(
            self._core,
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
        )

    def _follow(self, start: Labels, encoder: Encoder, sigma: float) -> None:
        """Train the encoder to follow a partition, before Algorithm 1 runs; groups without rows get no target."""
        groups = np.unique(start, return_inverse=True)[1].astype(np.int64)
        follow(encoder, self.X, groups, SIDE * sigma, self.generator)

    def _keeper(self, encoder: Encoder, U: Tensor) -> LastIteration | NearStart:
        """Return the rule that decides which iteration is kept."""
        if self.plan.start is None:
            return LastIteration()
        seed = int(self.rng.randint(2**31 - 1))
        return NearStart(self.X, self.plan.start, self.settings.n_clusters, seed, encoder, U)

    def _networks(self, n_restarts: int) -> Networks:
        """Return encoder and decoder before the first step."""
        settings = self.settings
        return build_networks(
            self.X,
            n_components=settings.n_components(from_partition=self.plan.start is not None),
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
            median = median_distance(encoder(self._core)[0], self.rng)
        return sigma * median / median_distance(self._core, self.rng) if median > 0 else sigma

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
