"""Gradients of a network: written out for `ResidualMLP`, from autograd for any other module."""

import torch
from torch import Tensor, nn

from knet.train.networks import ResidualMLP


class ManualBackprop:
    """A `ResidualMLP` with the gradient written out: no autograd, all weights in one flat tensor.

    `forward` stores what `backward` needs, `backward` fills `theta.grad`, `restore` writes `theta` into the network.
    """

    def __init__(self, net: ResidualMLP) -> None:
        self.targets = [param.detach() for param in (*net.weights, *net.biases)]
        self.skip = net.skip
        self.theta = nn.Parameter(torch.cat([target.reshape(-1) for target in self.targets]))
        self.theta.grad = torch.zeros_like(self.theta)
        self.parameters = [self.theta]
        self.inputs: list[Tensor] = []  # of each layer, from `forward` to `backward`
        n_layers = len(net.weights)
        layers, gradients = self._views(self.theta.detach()), self._views(self.theta.grad)
        self.weights, self.biases = layers[:n_layers], layers[n_layers:]
        self.weight_gradients, self.bias_gradients = gradients[:n_layers], gradients[n_layers:]

    def _views(self, flat: Tensor) -> list[Tensor]:
        """Cut a flat tensor into the shapes of the network."""
        pieces = torch.split(flat, [target.numel() for target in self.targets])
        return [piece.view(target.shape) for piece, target in zip(pieces, self.targets, strict=True)]

    def forward(self, X: Tensor) -> Tensor:
        """Map rows, (n, d), to (n, d')."""
        self.inputs = [X]
        for W, b in zip(self.weights[:-1], self.biases[:-1], strict=True):
            self.inputs.append(torch.addmm(b, self.inputs[-1], W).relu_())
        return torch.addmm(self.biases[-1], self.inputs[-1], self.weights[-1]).addmm_(X, self.skip)

    def backward(self, slope: Tensor) -> None:
        """Fill `theta.grad` from the gradient in the output, once per `forward`."""
        self._pass_down(slope)

    def backward_to_input(self, slope: Tensor) -> Tensor:
        """Fill `theta.grad` and return the gradient in X."""
        below = self._pass_down(slope)
        return torch.mm(below, self.weights[0].mT).addmm_(slope, self.skip.mT)

    def _pass_down(self, slope: Tensor) -> Tensor:
        """Fill the gradient of every layer, the last one first, and return that in the output of the first one.

        The stored activations are overwritten, so that a second call needs another `forward`.
        """
        if not self.inputs:
            raise RuntimeError("Every backward pass needs its own forward pass.")
        inputs, self.inputs = self.inputs, []
        for i in reversed(range(len(self.weights))):
            H = inputs[i]
            torch.mm(H.mT, slope, out=self.weight_gradients[i])
            torch.sum(slope, 0, out=self.bias_gradients[i])
            if i > 0:  # the gradient of ReLU is 1 if its output is positive
                slope = torch.mm(slope, self.weights[i].mT).mul_(H.sign_())
        return slope

    def restore(self) -> None:
        """Write the weights back."""
        for target, trained in zip(self.targets, self._views(self.theta.detach()), strict=True):
            target.copy_(trained)


class AutogradBackprop:
    """Any network with the same three methods, with the gradient from autograd."""

    def __init__(self, net: nn.Module) -> None:
        self.net, self.parameters = net, [param for param in net.parameters() if param.requires_grad]

    def forward(self, X: Tensor) -> Tensor:
        """Map rows and record the operations."""
        with torch.enable_grad():
            self.input = X.detach().requires_grad_()
            output: Tensor = self.net(self.input)
        self.output = output
        return output.detach()

    def backward(self, slope: Tensor) -> None:
        """Set the gradients from the gradient in the output."""
        self.backward_to_input(slope)

    def backward_to_input(self, slope: Tensor) -> Tensor:
        """Set the gradients and return the gradient in X."""
        sources = [*self.parameters, self.input]
        *gradients, below = torch.autograd.grad(self.output, sources, slope, allow_unused=True, materialize_grads=True)
        for param, gradient in zip(self.parameters, gradients, strict=True):
            param.grad = gradient
        return below

    def restore(self) -> None:
        """Do nothing: the weights were trained in place."""


Trainable = ManualBackprop | AutogradBackprop


def trainable(net: nn.Module) -> Trainable:
    """Return a network in the form that gradient steps need."""
    return ManualBackprop(net) if isinstance(net, ResidualMLP) else AutogradBackprop(net)
