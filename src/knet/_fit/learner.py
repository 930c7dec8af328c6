"""From a plan to a trained encoder: Algorithm 1 as often as it takes, and what is kept of its rounds."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from knet._fit.checks import check_distinct, check_kernel
from knet._fit.keep import HOLD, BestPartition, Kept, LastRound, Learned, sample_embedding
from knet._fit.loop import alternate, balanced_lambda, constant_lambda
from knet._fit.plan import Plan, median_distance
from knet._fit.progress import RoundReporter, RoundTasks
from knet._fit.theta_step import ThetaStep
from knet._math.kmeans import Labels
from knet._math.laplacians import LAPLACIANS, Laplacian, laplacian
from knet._math.u_steps import U_STEPS, indicator_embedding
from knet._network.build import build_networks
from knet._network.mlp import Encoder
from knet.exceptions import KNetConvergenceWarning, warn_user

CLEARLY_SHORT = 1.5  # conductance of the clusters kept against the start's, from which other restarts are worth a try


@dataclass(frozen=True)
class Learner:
    """Training on the scaled rows X of a plan, with the settings of an estimator."""

    settings: Any  # the estimator; only its parameters are read
    X: Tensor
    plan: Plan
    generator: torch.Generator
    rng: np.random.RandomState
    tasks: RoundTasks

    def learn(self) -> Learned:
        """Run Algorithm 1 and keep the best of its restarts.

        From the paper's start all restarts are trained side by side. From a partition to start from, one is trained
        first, and the others only where its clusters fall clearly short of that partition.
        """
        X, n_clusters, n_init = self.X, self.settings.n_clusters, self.settings.n_init
        n_columns = max(1, n_clusters - (self.settings.u_columns == "c-1"))
        start = self.plan.start_labels(X)
        L = self._make_laplacian(1)(X, self.plan.sigma)
        if start is None:
            U = L.largest(n_columns)[1]
        else:
            U = indicator_embedding(torch.from_numpy(start).to(L.d.device), n_clusters, n_columns)
        single = n_clusters == 1 or check_distinct(X.cpu().numpy(), n_clusters) == 1
        if single or not check_kernel(L, self.plan.sigma):
            encoder, _ = self._build_networks(1)
            return Learned(Kept(encoder, U, 0, 0), self.plan.sigma, [], None, start)
        if start is None:
            return self._train(n_init, U, start)
        learned = self._train(1, U, start)
        if learned.shortfall > CLEARLY_SHORT and n_init > 1:
            learned = min(learned, self._train(n_init - 1, U, start), key=lambda one: one.shortfall)
        return learned

    def _train(self, n_restarts: int, U: Tensor, start: Labels | None) -> Learned:
        """Train restarts side by side from U: report each round, keep the best, stop when asked to."""
        settings, X = self.settings, self.X
        encoder, decoder = self._build_networks(n_restarts)
        sigma = self._embedded_sigma(encoder)
        keeper: LastRound | BestPartition = LastRound()
        if start is not None:
            keeper = BestPartition(X, start, settings.n_clusters, int(self.rng.randint(2**31 - 1)))
        auto_batch = min(max(64, 4 * settings.n_clusters), 256)
        lam = settings.reconstruction_weight
        rounds = alternate(
            X,
            encoder,
            decoder,
            U.expand(n_restarts, -1, -1),
            theta_step=ThetaStep(
                sigma,
                settings.steps_per_round,
                auto_batch if settings.batch_size == "auto" else int(settings.batch_size),
                settings.lr,
                through_degrees=settings.degrees == "differentiated",
            ),
            u_step=settings.u_update if callable(settings.u_update) else U_STEPS[settings.u_update],
            laplacian=self._make_laplacian(n_restarts),
            lambda_rule=balanced_lambda if lam == "balanced" else constant_lambda(float(lam)),
            max_rounds=settings.max_rounds,
            tol=settings.tol,
            generator=self.generator,
            hold=0.0 if start is None else HOLD,
        )
        histories: list[list[dict[str, float]]] = []  # a row for each restart; U of past rounds is let go
        done = asked = False
        embedded = [sample_embedding(encoder, X)] if settings.keep_rounds else []
        with RoundReporter(settings.verbose, settings.max_rounds) as report:
            for one in rounds:
                histories.append([one.row(restart) for restart in range(n_restarts)])
                if settings.keep_rounds:
                    embedded.append(sample_embedding(encoder, X))
                done = keeper.see(one, encoder)
                row = one.row(keeper.kept.restart)
                report(row)
                asked = settings.callback is not None and bool(settings.callback(dict(row)))
                asked |= self.tasks.round_done()
                if done or asked:
                    break
        if start is None and not asked:
            self._warn_unless_settled(histories)
        kept = keeper.kept
        way = np.stack([Psi[kept.restart] for Psi in embedded[: kept.round + 1]]) if embedded else None
        shortfall = 1.0 if asked else keeper.shortfall  # who asks to stop wants no more restarts
        return Learned(kept, sigma, [rows[kept.restart] for rows in histories], way, start, shortfall)

    def _build_networks(self, n_restarts: int) -> tuple[Encoder, nn.Module | None]:
        """Return encoder and decoder at their start."""
        settings, n_features = self.settings, self.X.shape[1]
        auto_width = min(max(128, 2 * n_features), 512)
        return build_networks(
            self.X,
            n_components=n_features + 1 if isinstance(settings.n_components, str) else settings.n_components,
            width=auto_width if settings.hidden_width == "auto" else int(settings.hidden_width),
            depth=settings.n_hidden_layers,
            start=settings.init,
            module=settings.encoder,
            n_restarts=n_restarts,
            with_decoder=settings.reconstruction_weight != 0,
            generator=self.generator,
        )

    def _make_laplacian(self, n_restarts: int) -> Callable[[Tensor, float], Laplacian]:
        """Return the function that makes L, within its part of the budget: several restarts have theirs at a time."""
        if self.settings.laplacian != "auto":
            return LAPLACIANS[self.settings.laplacian]
        n_alive = min(n_restarts, torch.get_num_threads())
        return partial(laplacian, budget=self.settings.memory_budget * 2**20 / n_alive)

    def _embedded_sigma(self, encoder: Encoder) -> float:
        """Return the width for the embedding: as large against its median distance as the plan's is in the data."""
        settings, sigma = self.settings, self.plan.sigma
        if (settings.encoder is None and settings.init == "identity") or not isinstance(settings.sigma, str):
            return sigma
        with torch.no_grad():
            median = median_distance(encoder(self.X)[0], self.rng)
        return sigma * median / median_distance(self.X, self.rng) if median > 0 else sigma

    def _warn_unless_settled(self, histories: list[list[dict[str, float]]]) -> None:
        """Warn when the rounds ran out before U came to rest."""
        change, settings = max(row["u_change"] for row in histories[-1]), self.settings
        if len(histories) == settings.max_rounds and change >= settings.tol:
            warn_user(
                f"Stopped after max_rounds={settings.max_rounds} with U still changing by {change:.2g} "
                f"(tol={settings.tol:g}). Increase max_rounds or tol.",
                KNetConvergenceWarning,
            )
