"""What a fit keeps of its iterations: the last one, or the last one whose clusters still agree with the start."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy.spatial.distance import cdist
from torch import Tensor

from knet._fit.loop import Iteration
from knet._math.agreement import rand_index
from knet._math.arrays import Floats, Labels
from knet._math.centers import find_centers
from knet._network.mlp import Encoder

MAX_LOSS = 0.005  # agreement with the start that an iteration may lose


@dataclass(frozen=True)
class Kept:
    """The encoder that a fit keeps: its restart, its iteration, its U, and the centres if they are known."""

    encoder: Encoder
    U: Tensor
    restart: int
    iteration: int
    centers: Floats | None = None


class LastIteration:
    """Keep the last iteration of the restart with the largest HSIC, as Algorithm 1 does."""

    kept: Kept

    def see(self, iteration: Iteration, encoder: Encoder) -> bool:
        """Note an iteration; never ask to stop."""
        best = int(np.argmax(iteration.hsic))
        self.kept = Kept(encoder.restart(best), iteration.U[best], best, iteration.index)
        return False


class NearStart:
    """Keep the last iteration whose clusters agree with the start as well as psi did before the first iteration.

    The start has been chosen among all candidates, so a partition that differs from it is worse by the same rule.

    Parameters
    ----------
    X, start : Tensor of shape (n, d) and ndarray of shape (n,)
        The training rows and the partition that psi followed.
    n_clusters, seed : int
        Number of clusters, and the seed of k-means if the partition has empty groups.
    encoder, U : Encoder and Tensor
        The state before the first iteration.
    """

    def __init__(self, X: Tensor, start: Labels, n_clusters: int, seed: int, encoder: Encoder, U: Tensor) -> None:
        self.X, self.start, self.n_clusters, self.seed = X, start, n_clusters, seed
        self.n_runs = 0 if len(np.unique(start)) == n_clusters else 3
        self.agreement = -math.inf
        self._compare(0, U, encoder)

    def see(self, iteration: Iteration, encoder: Encoder) -> bool:
        """Note an iteration; ask to stop if it has left the start."""
        return not self._compare(iteration.index, iteration.U, encoder)

    @torch.no_grad()
    def _compare(self, index: int, U: Tensor, encoder: Encoder) -> bool:
        """Keep this state if its clusters agree with the start, and say whether they do."""
        found = [self._clusters(Psi) for Psi in encoder(self.X).cpu().numpy()]
        best = max(range(len(found)), key=lambda restart: found[restart][1])
        centers, agreement = found[best]
        if agreement < self.agreement - MAX_LOSS:
            return False
        self.agreement = max(agreement, self.agreement)
        self.kept = Kept(encoder.restart(best), U[best], best, index, centers)
        return True

    def _clusters(self, embedded: Floats) -> tuple[Floats, float]:
        """Return the centres of k-means from the group means of the start, and the agreement of its labels."""
        rng = np.random.RandomState(self.seed)
        centers = find_centers(embedded, self.n_clusters, rng, self.n_runs, self.start)
        return centers, rand_index(self.start, cdist(embedded, centers).argmin(1))
