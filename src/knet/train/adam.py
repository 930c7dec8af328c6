"""Adam, one step at a time, over the weights of a network in one flat array."""

import numpy as np

from knet.arrays import Floats

BETAS = (0.9, 0.999)  # shares of the running means of gradients and of their squares that a step keeps
EPSILON = 1e-8
TINY = 1e-30  # far below EPSILON^2; small gradients added to zero give denormal numbers, which cost 20 times more


class Adam:
    """Adam (Kingma and Ba) for an array of weights, which it changes in place."""

    def __init__(self, theta: Floats, learning_rate: float) -> None:
        self.theta, self.learning_rate, self.n_steps = theta, learning_rate, 0
        self.mean, self.square, self.scratch = np.zeros_like(theta), np.full_like(theta, TINY), np.empty_like(theta)

    def step(self, gradient: Floats) -> None:
        """Move the weights against a gradient."""
        self.n_steps += 1
        (keep_mean, keep_square), mean, square, move = BETAS, self.mean, self.square, self.scratch
        mean *= keep_mean
        mean += np.multiply(gradient, 1 - keep_mean, out=move)
        square *= keep_square
        np.multiply(gradient, gradient, out=move)
        square += np.multiply(move, 1 - keep_square, out=move)
        root_correction = (1 - keep_square**self.n_steps) ** 0.5
        rate = self.learning_rate * root_correction / (1 - keep_mean**self.n_steps)
        np.sqrt(square, out=move)
        move += EPSILON * root_correction
        np.divide(mean, move, out=move)
        move *= min(rate, float(np.finfo(move.dtype).max))
        self.theta -= move
