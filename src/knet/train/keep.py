"""What a fit keeps of its iterations if it follows a partition: the last one whose clusters still agree with it."""

import copy
import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy.spatial.distance import cdist
from torch import Tensor, nn

from knet.arrays import Floats, Labels
from knet.metrics import rand_index
from knet.start.centers import find_centers

MAX_LOSS = 0.005  # an iteration may lose this much of the agreement with the start (adjusted Rand index)


@dataclass(frozen=True)
class Kept:
    """A copy of the encoder after an iteration, its U, and the centres of the clusters in the embedding."""

    encoder: nn.Module
    U: Tensor
    iteration: int
    centers: Floats


class NearStart:
    """Keep the last iteration whose clusters agree with the start as well as psi did before the first iteration.

    The start has been chosen among all candidates, so a partition that differs from it is worse by the same rule.

    Parameters
    ----------
    X, start : Tensor of shape (n, d) and ndarray of shape (n,)
        The training rows and the partition that psi followed.
    n_clusters, seed : int
        Number of clusters, and the seed of k-means if the partition has empty groups.
    encoder, U : nn.Module and Tensor
        The state before the first iteration.
    """

    kept: Kept

    def __init__(self, X: Tensor, start: Labels, n_clusters: int, seed: int, encoder: nn.Module, U: Tensor) -> None:
        self.X, self.start, self.n_clusters, self.seed = X, start, n_clusters, seed
        self.n_runs = 0 if len(np.unique(start)) == n_clusters else 3
        self.agreement = -math.inf
        self.see(0, U, encoder)

    @torch.no_grad()
    def see(self, index: int, U: Tensor, encoder: nn.Module) -> bool:
        """Keep an iteration if its clusters agree with the start, and say whether they do."""
        embedded = encoder(self.X).cpu().numpy()
        centers = find_centers(embedded, self.n_clusters, np.random.RandomState(self.seed), self.n_runs, self.start)
        agreement = rand_index(self.start, cdist(embedded, centers).argmin(1))
        if agreement < self.agreement - MAX_LOSS:
            return False
        self.agreement = max(agreement, self.agreement)
        self.kept = Kept(copy.deepcopy(encoder), U, index, centers)  # training goes on with the encoder itself
        return True
