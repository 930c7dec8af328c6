"""The theta-step of Algorithm 1: gradient steps on mini-batches of the objective, with U fixed [OBJ]."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from knet.threads import one_thread
from knet.train.adam import Adam
from knet.train.backprop import Trainable, trainable
from knet.train.kernels import center_rows, clump_gradient, gaussian_kernel, pair_weights
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

    def __call__(self, X: Tensor, nets: Networks, U: Tensor, d: Tensor, lam: float, generator: torch.Generator) -> None:
        """Improve the weights of the networks in place."""
        weights = (center_rows(U) if self.through_degrees else pair_weights(U, d)).to(X)
        steps = list(batches(len(X), self.batch_size, self.n_steps, generator))
        nets.encoder.train()
        psi, back = trainable(nets.encoder), None if nets.decoder is None else trainable(nets.decoder)
        with one_thread():  # steps are too small for several
            self._descend(X, psi, back, weights, lam, steps)
        nets.encoder.eval()

    @torch.no_grad()
    def _descend(
        self, X: Tensor, encoder: Trainable, decoder: Trainable | None, weights: Tensor, lam: float, steps: list[Tensor]
    ) -> None:
        """Take one step of Adam against the gradient of -[OBJ] for each batch of rows."""
        optimizer = Adam([*encoder.parameters, *(decoder.parameters if decoder else ())], self.learning_rate)
        find_slope = self._slope_through_degrees if self.through_degrees else self._slope
        for rows in steps:
            X_batch = X[rows]
            Psi = encoder.forward(X_batch)
            slope = find_slope(Psi, weights[rows], (len(X) / len(rows)) ** 2)
            if decoder is not None:
                error = decoder.forward(Psi).sub_(X_batch)
                slope += decoder.backward_to_input(error.mul_(2 * lam / error.numel()))
            encoder.backward(slope)
            optimizer.step()
        for net in (encoder, decoder):
            if net is not None:
                net.restore()

    def _slope(self, Psi: Tensor, B: Tensor, scale: float) -> Tensor:
        """Return the gradient of -[CLUMP] in Psi, in closed form; a batch has 1/scale of the pairs."""
        return clump_gradient(Psi, B, self.sigma).mul_(-scale)

    def _slope_through_degrees(self, Psi: Tensor, HU: Tensor, scale: float) -> Tensor:
        """Return the gradient of -HSIC in Psi with the batch's own degrees, [DEGREE], differentiated as well."""
        with torch.enable_grad():
            points = Psi.detach().requires_grad_()
            value = normalized_clump(points, HU, self.sigma, math.sqrt(scale)) * -scale
            return torch.autograd.grad(value, points)[0]


def normalized_clump(Psi: Tensor, HU: Tensor, sigma: float, share: float) -> Tensor:
    """Return tr(HU' D^-1/2 K D^-1/2 HU) with D from the rows given, each representing `share` rows."""
    K = gaussian_kernel(Psi, Psi, sigma)
    B = HU * (share * K.sum(-1, keepdim=True)).rsqrt()
    return (B * (K @ B)).sum((-2, -1))
