"""What a fit keeps of its iterations: the last one, or the one whose clusters are best separated in the data."""

import math
from dataclasses import dataclass

import numpy as np
import torch
from scipy.spatial.distance import cdist
from torch import Tensor

from knet._fit.judge import Judge
from knet._fit.loop import Round
from knet._math.centers import find_centers
from knet._math.kmeans import Labels
from knet._network.mlp import Encoder
from knet.predictor import Floats

HOLD = 0.9  # share of HSIC that psi has to reach before a chosen start is let go


PATIENCE = 4  # rounds without a better partition after which training ends


ROUND_ROWS = 600  # training rows whose way through the rounds is kept on demand


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
