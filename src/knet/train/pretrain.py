"""The paper's pre-training of encoder and decoder [INIT], and the mini-batches of all training."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn

from knet.train.adam import Adam


def batches(n: int, batch_size: int, n_steps: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Yield the row indices of `n_steps` steps; each pass over the rows is a new shuffle."""
    n_batches = max(1, round(n / batch_size))
    done = 0
    while done < n_steps:
        order = torch.rand(n, generator=generator, dtype=torch.float64).argsort()
        for rows in order.tensor_split(n_batches):
            yield rows
            done += 1
            if done == n_steps:
                return


def pretrain(
    encoder: nn.Module,
    decoder: nn.Module,
    X: Tensor,
    P: Tensor,
    *,
    generator: torch.Generator,
    batch_size: int = 64,
    learning_rate: float = 3e-3,
    max_steps: int = 6000,
    check_every: int = 500,
    min_gain: float = 0.05,
) -> float:
    """Pre-train both halves towards ||XP - Psi||^2 + ||X - f(X)||^2 -> min [INIT]; return the error reached.

    With d' = d the target P is the identity, as in the paper. The learning rate falls to zero along a cosine; training
    stops early if `check_every` steps lower the error by less than the share `min_gain`.
    """
    params = [*encoder.parameters(), *decoder.parameters()]
    optimizer = Adam(params, learning_rate)
    best, total = math.inf, 0.0
    for step, rows in enumerate(batches(len(X), batch_size, max_steps, generator), start=1):
        X_batch = X[rows]
        Psi = encoder(X_batch)
        error = (X_batch @ P - Psi).square().mean() + (X_batch - decoder(Psi)).square().mean()
        optimizer.zero_grad()
        error.backward()
        optimizer.learning_rate = learning_rate * (1 + math.cos(math.pi * (step - 1) / max_steps)) / 2
        optimizer.step()
        total += float(error.detach())
        if step % check_every == 0:
            mean, total = total / check_every, 0.0
            if mean > (1 - min_gain) * best:
                break
            best = min(best, mean)
    return best
