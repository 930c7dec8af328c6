"""Encoders that start as a chosen linear map, their decoders, and the paper's pre-training [INIT].

Several restarts are trained side by side: every weight has a leading axis of restarts, and a network maps rows of
shape (n, d), shared by all restarts, or (restarts, n, d) to (restarts, n, d').
"""

import copy
import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from knet.optimizers import Adam

FAINT = 1e-3  # of the usual first weights, for columns that start empty


class ResidualMLP(nn.Module):
    """psi(x) = x P + g(x), with g a ReLU network; exactly x P before the first step when g's last layer is zero.

    Columns that P leaves empty start faint instead: from zero no gradient would ever reach them.

    Parameters
    ----------
    skip : Tensor of shape (d, d')
        The fixed linear map P. Zero gives the plain network of the paper.
    width, depth : int
        Units of a hidden layer of g, and the number of hidden layers.
    n_restarts : int
        Independent copies, their weights drawn apart.
    generator : torch.Generator
        Source of the initial weights.
    zero_last : bool
        Whether g starts as zero, or faint where P is.
    """

    skip: Tensor

    def __init__(
        self,
        skip: Tensor,
        *,
        width: int,
        depth: int,
        n_restarts: int,
        generator: torch.Generator,
        zero_last: bool = True,
    ) -> None:
        super().__init__()
        self.register_buffer("skip", skip)
        self.weights, self.biases = nn.ParameterList(), nn.ParameterList()
        sizes = [skip.shape[0], *[width] * depth, skip.shape[1]]
        for n_in, n_out in pairwise(sizes):
            for shape, params in (((n_in, n_out), self.weights), ((1, n_out), self.biases)):
                noise = torch.rand(n_restarts, *shape, generator=generator, dtype=torch.float64)
                params.append(nn.Parameter(((2 * noise - 1) / math.sqrt(n_in)).to(skip.dtype)))
        if zero_last:
            empty = (skip == 0).all(0).to(skip.dtype)
            with torch.no_grad():
                self.weights[-1].mul_(FAINT * empty)
            nn.init.zeros_(self.biases[-1])

    def forward(self, X: Tensor) -> Tensor:
        """Map rows, (n, d) or (restarts, n, d), to (restarts, n, d')."""
        H = X.expand(len(self.weights[0]), *X.shape[-2:])
        for W, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            H = torch.baddbmm(b, H, W).relu_()
        return torch.baddbmm(self.biases[-1], H, self.weights[-1]).add_(X @ self.skip)

    def restart(self, index: int) -> "ResidualMLP":
        """Return restart `index` as a network of its own."""
        chosen = copy.deepcopy(self)
        for params in (chosen.weights, chosen.biases):
            for i, param in enumerate(params):
                params[i] = nn.Parameter(param.detach()[index : index + 1].clone())
        return chosen


class RowEncoder(nn.Module):
    """One restart of a `ResidualMLP`, its weights laid out for products with many rows: the same map, faster."""

    skip: Tensor

    def __init__(self, net: ResidualMLP) -> None:
        super().__init__()
        self.skip = net.skip.contiguous()  # one layout, however it was made: the same bits
        self.weights = [W.detach()[0].mT.contiguous() for W in net.weights]
        self.biases = [b.detach()[0, 0] for b in net.biases]

    def forward(self, X: Tensor) -> Tensor:
        """Map rows, (n, d), to (1, n, d')."""
        H = X
        for W, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            H = linear(H, W, b).relu_()
        return linear(H, self.weights[-1], self.biases[-1]).addmm_(X, self.skip)[None]


class Copies(nn.Module):
    """A user's own module, copied once per restart; the copies differ by the batches they see."""

    def __init__(self, modules: Sequence[nn.Module]) -> None:
        super().__init__()
        self.copies = nn.ModuleList(modules)

    def forward(self, X: Tensor) -> Tensor:
        """Map rows, (n, d) or (restarts, n, d), to (restarts, n, d')."""
        shared = X.expand(len(self.copies), *X.shape[-2:])
        return torch.stack([module(rows) for module, rows in zip(self.copies, shared, strict=True)])

    def restart(self, index: int) -> "Copies":
        """Return restart `index` as a network of its own."""
        return Copies([self.copies[index]])


Encoder = ResidualMLP | Copies


class Written:
    """Some restarts of a `ResidualMLP` with the gradient written out: no autograd, all weights in one flat tensor.

    `forward` keeps what `backward` needs, `backward` fills `theta.grad`, `restore` puts `theta` into the network.
    """

    def __init__(self, net: ResidualMLP, restarts: slice) -> None:
        self.targets = [param.detach()[restarts] for param in (*net.weights, *net.biases)]
        self.skip = net.skip.expand(len(self.targets[0]), *net.skip.shape)
        self.theta = nn.Parameter(torch.cat([target.reshape(-1) for target in self.targets]))
        self.theta.grad = torch.zeros_like(self.theta)
        self.parameters = [self.theta]
        n_layers = len(net.weights)
        layers, slopes = self._views(self.theta.detach()), self._views(self.theta.grad)
        self.weights, self.biases = layers[:n_layers], layers[n_layers:]
        self.weight_slopes, self.bias_slopes = slopes[:n_layers], slopes[n_layers:]

    def _views(self, flat: Tensor) -> list[Tensor]:
        """Cut a flat tensor into the shapes of the network."""
        pieces = torch.split(flat, [target.numel() for target in self.targets])
        return [piece.view(target.shape) for piece, target in zip(pieces, self.targets, strict=True)]

    def forward(self, X: Tensor) -> Tensor:
        """Map rows of shape (restarts, b, d) to (restarts, b, d')."""
        self.inputs = [X]  # of each layer
        for W, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            self.inputs.append(torch.baddbmm(b, self.inputs[-1], W).relu_())
        return torch.baddbmm(self.biases[-1], self.inputs[-1], self.weights[-1]).baddbmm_(X, self.skip)

    def backward(self, slope: Tensor) -> None:
        """Fill `theta.grad` from the slope in the output, once per `forward`."""
        self._pass_down(slope)

    def backward_to_input(self, slope: Tensor) -> Tensor:
        """Fill `theta.grad` and return the slope in X."""
        below = self._pass_down(slope)
        return torch.bmm(below, self.weights[0].mT).baddbmm_(slope, self.skip.mT)

    def _pass_down(self, slope: Tensor) -> Tensor:
        """Fill the slope of every layer, the last one first, and return the slope in the output of the first one."""
        for i in reversed(range(len(self.weights))):
            H = self.inputs[i]
            torch.bmm(H.mT, slope, out=self.weight_slopes[i])
            torch.sum(slope, 1, keepdim=True, out=self.bias_slopes[i])
            if i > 0:  # ReLU lets the slope pass where its output is above 0
                slope = torch.bmm(slope, self.weights[i].mT).mul_(H.sign_())
        return slope

    def restore(self) -> None:
        """Write the weights back."""
        for target, trained in zip(self.targets, self._views(self.theta.detach()), strict=True):
            target.copy_(trained)


class Taped:
    """Any network behind the same three methods, with the gradient from autograd."""

    def __init__(self, net: nn.Module) -> None:
        self.net, self.parameters = net, [param for param in net.parameters() if param.requires_grad]

    def forward(self, X: Tensor) -> Tensor:
        """Map rows, and remember how."""
        with torch.enable_grad():
            self.input = X.detach().requires_grad_()
            output: Tensor = self.net(self.input)
        self.output = output
        return output.detach()

    def backward(self, slope: Tensor) -> None:
        """Set the gradients from the slope in the output."""
        self.backward_to_input(slope)

    def backward_to_input(self, slope: Tensor) -> Tensor:
        """Set the gradients and return the slope in X."""
        sources = [*self.parameters, self.input]
        *gradients, below = torch.autograd.grad(self.output, sources, slope, allow_unused=True, materialize_grads=True)
        for param, gradient in zip(self.parameters, gradients, strict=True):
            param.grad = gradient
        return below

    def restore(self) -> None:
        """Leave the weights: they were trained in place."""


Trainable = Written | Taped


def trainable(net: nn.Module, restarts: slice) -> Trainable:
    """Return the restarts of a network in the form that gradient steps need: written out where that is known."""
    return Written(net, restarts) if isinstance(net, ResidualMLP) else Taped(net)


def linear_start(X: Tensor, n_components: int) -> Tensor:
    """Return P, (d, d'), the linear map that an encoder starts from.

    The identity for d' = d; the identity with empty columns appended for d' > d, which keeps every distance; the
    leading principal directions of X for d' < d, which lose the least of the squared distances.
    """
    n_features = X.shape[1]
    if n_components >= n_features:
        return torch.eye(n_features, n_components, dtype=X.dtype, device=X.device)
    centered = (X - X.mean(0)).cpu().double()  # some devices have no doubles
    _, directions = torch.linalg.eigh(centered.mT @ centered)
    P = directions.flip(1)[:, :n_components]
    largest = P.gather(0, P.abs().argmax(0, keepdim=True))  # fixed signs: the same map on every machine
    signed: Tensor = P * largest.sign()
    return signed.to(X)


def batches(n: int, batch_size: int, n_steps: int, n_restarts: int, generator: torch.Generator) -> Iterator[Tensor]:
    """Yield row indices of shape (restarts, b) for `n_steps` steps; each pass over the rows is a fresh shuffle."""
    n_batches = max(1, round(n / batch_size))
    done = 0
    while done < n_steps:
        order = torch.rand(n_restarts, n, generator=generator, dtype=torch.float64).argsort(1)
        for rows in order.tensor_split(n_batches, 1):
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
    n_restarts: int,
    generator: torch.Generator,
    batch_size: int = 64,
    lr: float = 3e-3,
    max_steps: int = 6000,
    check_every: int = 500,
    min_gain: float = 0.05,
) -> float:
    """Pre-train both halves towards ||XP - Psi||^2 + ||X - f(X)||^2 -> min [INIT]; return the error reached.

    With d' = d the target P is the identity, as in the paper. The learning rate falls to zero along a cosine; training
    ends early when `check_every` steps lowered the error by less than the share `min_gain`.
    """
    params = [*encoder.parameters(), *decoder.parameters()]
    optimizer = Adam(params, lr)
    best, total = math.inf, 0.0
    for step, rows in enumerate(batches(len(X), batch_size, max_steps, n_restarts, generator), start=1):
        X_batch = X[rows]
        Psi = encoder(X_batch)
        error = (X_batch @ P - Psi).square().mean() + (X_batch - decoder(Psi)).square().mean()
        optimizer.zero_grad()
        error.backward()
        optimizer.lr = lr * (1 + math.cos(math.pi * (step - 1) / max_steps)) / 2
        optimizer.step()
        total += float(error.detach())
        if step % check_every == 0:
            mean, total = total / check_every, 0.0
            if mean > (1 - min_gain) * best:
                break
            best = min(best, mean)
    return best
