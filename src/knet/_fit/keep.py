"""What a fit keeps of its iterations: the last one, or the one whose clusters are best separated in the data."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy.spatial.distance import cdist
from torch import Tensor

from knet._fit.judge import Judge
from knet._fit.loop import Iteration
from knet._math.arrays import Floats, Labels
from knet._math.centers import find_centers
from knet._network.mlp import Encoder

PATIENCE = 4  # iterations without a better partition after which training ends
K_MEANS_RUNS = 3


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

    shortfall = 1.0

    def see(self, iteration: Iteration, encoder: Encoder) -> bool:
        """Note an iteration; never ask to stop."""
        best = int(np.argmax(iteration.hsic))
        self.kept = Kept(encoder.restart(best), iteration.U[best], best, iteration.index)
        return False


class BestPartition:
    """Keep the iteration and restart whose clusters have the smallest conductance among the training rows.

    HSIC is measured with the kernel that is being trained. Conductance is measured on the data as given, so it shows
    when training begins to invent clusters.
    """

    def __init__(self, X: Tensor, start: Labels, n_clusters: int, seed: int) -> None:
        self.X, self.start, self.n_clusters, self.seed = X, start, n_clusters, seed
        self.judge = Judge(X.cpu().numpy().astype(np.float64))
        self.best = math.inf

    def see(self, iteration: Iteration, encoder: Encoder) -> bool:
        """Note an iteration; ask to stop if the best one is `PATIENCE` iterations ago."""
        with torch.no_grad():
            Psi = encoder(self.X).cpu().numpy()
        for restart, embedded in enumerate(Psi):
            rng = np.random.RandomState(self.seed)
            centers = find_centers(embedded, self.n_clusters, rng, K_MEANS_RUNS, self.start)
            conductance = self.judge.conductance(cdist(embedded, centers).argmin(1))
            if conductance < self.best:
                self.best = conductance
                self.kept = Kept(encoder.restart(restart), iteration.U[restart], restart, iteration.index, centers)
        return iteration.index - self.kept.iteration >= PATIENCE

    @property
    def shortfall(self) -> float:
        """Conductance of the clusters kept, divided by that of the partition to start from."""
        return self.best / self.judge.conductance(self.start)
