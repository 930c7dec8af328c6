"""The theta-step of Algorithm 1: gradient steps on mini-batches of the objective, with U fixed [OBJ]."""

from dataclasses import dataclass

import numpy as np

from knet.arrays import Floats
from knet.start.neighbors import Indices
from knet.threads import one_thread
from knet.train.adam import Adam
from knet.train.kernels import center_rows, clump_gradient, clump_gradient_through_degrees, pair_weights
from knet.train.networks import Networks
from knet.train.pretrain import batches


@dataclass(frozen=True)
class ThetaStep:
    """Steps of Adam on mini-batches of [OBJ], with U fixed, and D too unless `through_degrees`."""

    sigma: float
    n_steps: int
    batch_size: int
    learning_rate: float
    through_degrees: bool = False

    def __call__(self, X: Floats, nets: Networks, U: Floats, d: Floats, lam: float, rng: np.random.RandomState) -> None:
        """Improve the weights of the networks in place."""
        weights = (center_rows(U) if self.through_degrees else pair_weights(U, d)).astype(X.dtype)
        steps = list(batches(len(X), self.batch_size, self.n_steps, rng))
        with one_thread(), np.errstate(over="ignore", invalid="ignore"):  # steps are too small for several threads
            self._descend(X, nets, weights, lam, steps)

    def _descend(self, X: Floats, nets: Networks, weights: Floats, lam: float, steps: list[Indices]) -> None:
        """Take one step of Adam against the gradient of -[OBJ] for each batch of rows."""
        encoder, decoder = nets.encoder, nets.decoder
        optimizers = [(net, Adam(net.theta, self.learning_rate)) for net in (encoder, decoder) if net is not None]
        for rows in steps:
            X_batch = X[rows]
            Psi = encoder.forward(X_batch)
            slope = self._slope(Psi, weights[rows], len(X) / len(rows))
            if decoder is not None:
                error = decoder.forward(Psi) - X_batch
                slope += decoder.backward_to_input(error * (2 * lam / error.size))
            encoder.backward(slope)
            for net, optimizer in optimizers:
                optimizer.step(net.gradient)
                net.store()

    def _slope(self, Psi: Floats, weights: Floats, share: float) -> Floats:
        """Return the gradient of -[CLUMP] or of -HSIC in Psi; a batch has 1 / share^2 of the pairs."""
        if self.through_degrees:  # each row of the batch represents `share` rows
            slope = clump_gradient_through_degrees(Psi, weights, self.sigma, share)
        else:
            slope = clump_gradient(Psi, weights, self.sigma)
        slope *= -(share**2)
        return slope
