"""The paper's recipe, implemented literally, to measure the cost of the original: `fit_literal(X, n_clusters)`.

An autoencoder is pre-trained in batches of 5 rows until the loss of the worst batch of an epoch has not
decreased over 400 epochs. Then theta-steps of 20 epochs in batches of 5, with stored N x N weights, alternate with
U-steps by a dense eigensolver: one iteration on [OBJ], then three on the 0/1 matrix of the k-means labels, as in the
published code.
"""

import time

import numpy as np
import torch
from sklearn.cluster import KMeans
from torch import Tensor, nn

BATCH, LR, WINDOW, EPOCHS, LABEL_ITERATIONS = 5, 1e-3, 400, 20, 3


class OutOfTimeError(Exception):
    """The limit of seconds was reached."""


def fit_literal(X: np.ndarray, n_clusters: int, *, sigma_scale: float, limit: float, seed: int = 0) -> np.ndarray:
    """Return labels of standardised rows; raise `OutOfTimeError` after `limit` seconds."""
    torch.manual_seed(seed)
    deadline = time.perf_counter() + limit
    data = torch.from_numpy(X).float()
    encoder, decoder = network(X.shape[1]), network(X.shape[1])
    pretrain(data, encoder, decoder, deadline)
    sigma = sigma_scale * float(torch.pdist(encoder(data).detach()).median())
    with torch.no_grad():
        Psi = encoder(data)
    U, d = eigenvectors(Psi, sigma, n_clusters)
    for phase in range(1 + LABEL_ITERATIONS):
        theta_step(data, encoder, pair_weights(U, d), sigma, deadline)
        with torch.no_grad():
            Psi = encoder(data)
        labels = KMeans(n_clusters, n_init=10, random_state=seed).fit_predict(Psi.numpy())
        U, d = eigenvectors(Psi, sigma, n_clusters)
        if phase > 0:
            U = torch.eye(n_clusters, dtype=torch.float64)[torch.from_numpy(labels).long()]
    return labels


def network(n_features: int) -> nn.Sequential:
    """Return three layers as wide as the columns, 20 for two columns, as in the paper."""
    width = 20 if n_features == 2 else n_features
    layers = (nn.Linear(n_features, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
    return nn.Sequential(*layers, nn.Linear(width, n_features))


def pretrain(X: Tensor, encoder: nn.Module, decoder: nn.Module, deadline: float) -> None:
    """Train both halves towards the identity until the worst batch loss has no downward slope over the window."""
    optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], LR)
    worst: list[float] = []
    while len(worst) < WINDOW or np.polyfit(np.arange(WINDOW), worst[-WINDOW:], 1)[0] < 0:
        losses = []
        for rows in torch.randperm(len(X)).split(BATCH):
            Psi = encoder(X[rows])
            loss = (X[rows] - Psi).square().mean() + (X[rows] - decoder(Psi)).square().mean()
            step(optimizer, loss)
            losses.append(float(loss.detach()))
        worst.append(max(losses))
        check(deadline)


def theta_step(X: Tensor, encoder: nn.Module, Gamma: Tensor, sigma: float, deadline: float) -> None:
    """Pass over the rows `EPOCHS` times with a new Adam, raising the sum of Gamma times the kernel of each batch."""
    optimizer = torch.optim.Adam(encoder.parameters(), LR)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(X)).split(BATCH):
            Psi = encoder(X[rows])
            K = torch.exp(-(Psi[:, None] - Psi[None]).square().sum(-1) / (2 * sigma**2))
            step(optimizer, -(Gamma[rows][:, rows].float() * K).sum())
        check(deadline)


def step(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """Take one gradient step."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def check(deadline: float) -> None:
    """Raise an error after the deadline."""
    if time.perf_counter() > deadline:
        raise OutOfTimeError


def eigenvectors(Psi: Tensor, sigma: float, n_clusters: int) -> tuple[Tensor, Tensor]:
    """Return U and the degrees from full matrices and all eigenvectors."""
    K = torch.exp(-torch.cdist(Psi, Psi).double().square() / (2 * sigma**2))
    d = K.sum(1)
    H = torch.eye(len(K), dtype=torch.float64) - 1 / len(K)
    L = H @ torch.diag(d**-0.5) @ K @ torch.diag(d**-0.5) @ H
    return torch.linalg.eigh(L)[1][:, -n_clusters:], d


def pair_weights(U: Tensor, d: Tensor) -> Tensor:
    """Return Gamma, N x N."""
    H = torch.eye(len(U), dtype=torch.float64) - 1 / len(U)
    return torch.diag(d**-0.5) @ H @ U @ U.mT @ H @ torch.diag(d**-0.5)
