"""Adam in plain tensor operations: torch's own imports its compiler, which takes seconds, at the first step."""

from collections.abc import Iterable

import torch
from torch import Tensor, nn

TINY = 1e-30  # far below eps^2; small gradients added to zero give denormal numbers, whose roots cost 20 times more


class Adam:
    """Adam (Kingma and Ba) over a few tensors."""

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        learning_rate: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        self.params = [param for param in params if param.requires_grad]
        self.learning_rate, self.betas, self.eps = learning_rate, betas, eps
        self.means = [torch.zeros_like(param) for param in self.params]
        self.squares = [torch.full_like(param, TINY, requires_grad=False) for param in self.params]
        self.roots = [torch.empty_like(param, requires_grad=False) for param in self.params]  # scratch
        self.n_steps = 0

    def zero_grad(self) -> None:
        """Remove the gradients."""
        for param in self.params:
            param.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Move every parameter against its gradient."""
        self.n_steps += 1
        keep_mean, keep_square = self.betas
        root_correction = (1 - keep_square**self.n_steps) ** 0.5
        rate = self.learning_rate * root_correction / (1 - keep_mean**self.n_steps)
        for param, mean, square, root in zip(self.params, self.means, self.squares, self.roots, strict=True):
            gradient: Tensor | None = param.grad
            if gradient is None:
                continue
            mean.lerp_(gradient, 1 - keep_mean)
            square.mul_(keep_square).addcmul_(gradient, gradient, value=1 - keep_square)
            torch.sqrt(square, out=root).add_(self.eps * root_correction)
            param.addcdiv_(mean, root, value=-min(rate, torch.finfo(param.dtype).max))
