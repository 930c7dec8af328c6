"""IMSAT, information maximising self-augmented training (Hu, Miyato, Tokui, Matsumoto, Sugiyama; ICML 2017).

No maintained package has it. A network p(y|x) is trained so that its clusters are informative about the rows
(regularised information maximisation) and do not change under the small perturbation with the largest effect (virtual
adversarial training):

    minimise  R_VAT - lambda (mu H(Y) - H(Y|X)),    R_VAT = mean KL(p(.|x) || p(.|x + r)),  |r| = eps(x)

with eps(x) = alpha times the distance of x to its tenth neighbour. Two hidden layers of 1200 with batch normalisation,
lambda 0.1, mu 4, alpha 0.25, one power iteration, Adam at 0.002, batches of 250, 50 epochs, as its authors use. One
detail differs: their power iteration takes a step of length 10, which fits images; here it is eps(x), for any scale.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors
from torch import Tensor, nn
from torch.nn import functional

HIDDEN = 1200
LAMBDA, MU = 0.1, 4.0
ALPHA, NEIGHBOUR = 0.25, 10
LEARNING_RATE, BATCH = 0.002, 250


class IMSAT:
    """A clusterer that labels any rows by the most probable output of its network.

    Parameters
    ----------
    n_clusters : int
        The number of clusters.
    epochs : int, default=50
        Passes over the rows.
    random_state : int, default=0
        The only source of randomness.
    """

    def __init__(self, n_clusters: int, epochs: int = 50, random_state: int = 0) -> None:
        self.n_clusters = n_clusters
        self.epochs = epochs
        self.random_state = random_state

    def prepare(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return eps(x), the size of the perturbation of each row."""
        k = min(NEIGHBOUR, len(X) - 1)
        distances = NearestNeighbors(n_neighbors=k + 1).fit(X).kneighbors(X)[0]
        return ALPHA * distances[:, -1]

    def fit(self, X: NDArray[np.float64], sizes: NDArray[np.float64] | None = None) -> "IMSAT":
        """Train on rows; `sizes` is what `prepare` returned, if it was called before."""
        sizes = self.prepare(X) if sizes is None else sizes
        rows, eps = torch.from_numpy(X).float(), torch.from_numpy(sizes).float()[:, None]
        generator = torch.Generator().manual_seed(self.random_state)
        self.network_ = build_network(X.shape[1], self.n_clusters, generator)
        optimizer = torch.optim.Adam(self.network_.parameters(), lr=LEARNING_RATE)
        for _ in range(self.epochs):
            order = torch.randperm(len(rows), generator=generator)
            for batch in order.split(BATCH):
                if len(batch) < 2:  # batch normalisation needs two rows
                    continue
                optimizer.zero_grad()
                imsat_loss(self.network_, rows[batch], eps[batch], generator).backward()
                optimizer.step()
        self.network_.eval()
        return self

    def predict(self, X: NDArray[np.float64]) -> NDArray[np.int64]:
        """Return the most probable cluster of each row."""
        with torch.no_grad():
            return self.network_(torch.from_numpy(X).float()).argmax(1).numpy()


def build_network(n_features: int, n_clusters: int, generator: torch.Generator) -> nn.Sequential:
    """Return the classifier, with logits as output; the small weights of its authors keep the first guesses soft."""
    hidden = [(n_features, HIDDEN), (HIDDEN, HIDDEN)]
    layers: list[nn.Module] = []
    for width_in, width_out in hidden:
        layer = nn.Linear(width_in, width_out)
        nn.init.normal_(layer.weight, std=0.1 * (2 / width_in) ** 0.5, generator=generator)
        nn.init.zeros_(layer.bias)
        layers += [layer, nn.BatchNorm1d(width_out, eps=2e-5), nn.ReLU()]
    last = nn.Linear(HIDDEN, n_clusters)
    nn.init.normal_(last.weight, std=1e-4 * (2 / HIDDEN) ** 0.5, generator=generator)
    nn.init.zeros_(last.bias)
    return nn.Sequential(*layers, last)


def imsat_loss(network: nn.Sequential, X: Tensor, eps: Tensor, generator: torch.Generator) -> Tensor:
    """Return R_VAT - lambda (mu H(Y) - H(Y|X)) of one batch."""
    logits = network(X)
    p = logits.softmax(1)
    conditional = entropy(p).mean()
    marginal = entropy(p.mean(0, keepdim=True)).mean()
    with frozen_statistics(network):
        direction = adversarial_direction(network, X, eps, logits.detach(), generator)
        smoothness = divergence(logits.detach(), network(X + eps * direction))
    return smoothness - LAMBDA * (MU * marginal - conditional)


def adversarial_direction(
    network: nn.Sequential, X: Tensor, eps: Tensor, logits: Tensor, generator: torch.Generator
) -> Tensor:
    """Return the unit direction in which p(.|x) changes most, by one power iteration from a random one."""
    d = functional.normalize(torch.randn(X.shape, generator=generator), dim=1).requires_grad_()
    (gradient,) = torch.autograd.grad(divergence(logits, network(X + eps * d)), d)
    return functional.normalize(gradient, dim=1)


def divergence(logits: Tensor, others: Tensor) -> Tensor:
    """Return the mean KL divergence from the distributions of `logits` to those of `others`."""
    return functional.kl_div(others.log_softmax(1), logits.log_softmax(1), reduction="batchmean", log_target=True)


def entropy(p: Tensor) -> Tensor:
    """Return the entropy of each row; its gradient is finite if a probability is 0."""
    return -(p * p.clamp_min(torch.finfo(p.dtype).tiny).log()).sum(1)


@contextmanager
def frozen_statistics(network: nn.Sequential) -> Iterator[None]:
    """Let batch normalisation use the statistics of the batch, without updating its running statistics."""
    norms = [layer for layer in network if isinstance(layer, nn.BatchNorm1d)]
    for norm in norms:
        norm.track_running_stats = False
    try:
        yield
    finally:
        for norm in norms:
            norm.track_running_stats = True
