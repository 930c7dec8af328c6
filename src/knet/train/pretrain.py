"""The paper's pre-training of encoder and decoder [INIT], and the mini-batches of all training."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from knet.arrays import Floats
from knet.start.neighbors import Indices
from knet.train.adam import Adam

if TYPE_CHECKING:
    from knet.train.networks import ResidualMLP


def batches(n: int, batch_size: int, n_steps: int, rng: np.random.RandomState) -> Iterator[Indices]:
    """Yield the row indices of `n_steps` steps; each pass over the rows is a new shuffle."""
    n_batches = max(1, round(n / batch_size))
    done = 0
    while done < n_steps:
        for rows in np.array_split(rng.permutation(n), n_batches)[: n_steps - done]:
            yield rows
            done += 1


def pretrain(
    encoder: ResidualMLP,
    decoder: ResidualMLP,
    X: Floats,
    P: Floats,
    *,
    rng: np.random.RandomState,
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
    optimizers = [Adam(net.theta, learning_rate) for net in (encoder, decoder)]
    best, total = math.inf, 0.0
    for step, rows in enumerate(batches(len(X), batch_size, max_steps, rng), start=1):
        X_batch = X[rows]
        Psi = encoder.forward(X_batch)
        apart, error = Psi - X_batch @ P, decoder.forward(Psi) - X_batch
        total += float(np.square(apart).mean() + np.square(error).mean())
        slope = decoder.backward_to_input(error * (2 / error.size))
        encoder.backward(slope + apart * (2 / apart.size))
        for optimizer, net in zip(optimizers, (encoder, decoder), strict=True):
            optimizer.learning_rate = learning_rate * (1 + math.cos(math.pi * (step - 1) / max_steps)) / 2
            optimizer.step(net.gradient)
        if step % check_every == 0:
            mean, total = total / check_every, 0.0
            if mean > (1 - min_gain) * best:
                break
            best = min(best, mean)
    return best
