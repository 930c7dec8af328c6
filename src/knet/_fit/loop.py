"""Algorithm 1 of the paper: theta-steps and U-steps in turn, until K_U converges.

All arrays carry a leading axis of restarts, which are trained side by side and never mix.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from knet._fit.theta_step import ThetaStep
from knet._math.laplacians import Laplacian
from knet._math.threads import in_threads
from knet._math.u_steps import UStep, subspace_distance
from knet._network.mlp import Encoder
from knet.exceptions import NumericalError

LambdaRule = Callable[[float, float, float], float]  # (lambda, HSIC, reconstruction error) -> next lambda


@dataclass(frozen=True)
class Iteration:
    """The result of one iteration, one entry per restart."""

    index: int
    hsic: list[float]  # tr(U' L U), in [0, columns of U]
    reconstruction: list[float]  # mean squared error of the autoencoder; 0 without a decoder
    u_change: list[float]  # distance between the old and the new span of U, in [0, 1]
    seconds: float
    U: Tensor  # (restarts, n, columns), orthonormal columns
    u_error: list[float]  # estimate of ||(L - L_exact) U||_F / sqrt(columns); 0 for exact forms

    def row(self, restart: int) -> dict[str, float]:
        """Return the scalars of one restart as a plain row of history."""
        return {
            "iteration": self.index,
            "hsic": self.hsic[restart],
            "reconstruction": self.reconstruction[restart],
            "u_change": self.u_change[restart],
            "u_error": self.u_error[restart],
            "seconds": self.seconds,
        }


@dataclass(frozen=True)
class Spectrum:
    """What the kernels of all restarts give: U, degrees [DEGREE], tr(U'LU) [HSIC] and the error of L."""

    U: Tensor
    d: Tensor
    hsic: list[float]
    error: list[float]


def alternate(
    X: Tensor,
    encoder: Encoder,
    decoder: nn.Module | None,
    U: Tensor,
    *,
    theta_step: ThetaStep,
    u_step: UStep,
    laplacian: Callable[[Tensor, float], Laplacian],
    lambda_rule: LambdaRule,
    max_iter: int,
    tol: float,
    generator: torch.Generator,
) -> Iterator[Iteration]:
    """Alternate theta- and U-steps on [OBJ] from the start `U`, yielding one `Iteration` after each pair.

    `encoder` and `decoder` are trained in place. The loop ends when K_U changes by less than `tol` in every restart.
    """
    sigma, started = theta_step.sigma, time.perf_counter()
    encoder.eval()
    lam = lambda_rule(1.0, 0.0, 0.0)
    d = _spectral_pass(X, encoder, U, sigma, laplacian).d
    for index in range(1, max_iter + 1):
        theta_step(X, encoder, decoder, U, d, lam, generator)
        U_old = U
        spectrum = _spectral_pass(X, encoder, U, sigma, laplacian, u_step)
        U, d = spectrum.U, spectrum.d
        change = [subspace_distance(old, new) for old, new in zip(U_old, U, strict=True)]
        error = reconstruction_error(X, encoder, decoder, len(U))
        seconds = time.perf_counter() - started
        yield Iteration(index, spectrum.hsic, error, change, seconds, U, spectrum.error)
        if max(change) < tol:
            return
        lam = lambda_rule(lam, sum(spectrum.hsic) / len(U), sum(error) / len(error))


def _spectral_pass(
    X: Tensor,
    encoder: nn.Module,
    U: Tensor,
    sigma: float,
    laplacian: Callable[[Tensor, float], Laplacian],
    u_step: UStep | None = None,
) -> Spectrum:
    """Embed all rows and take the U-step, if any, of each restart; at any time one operator per thread exists."""
    with torch.no_grad():
        Psi = encoder(X)
    if not bool(torch.isfinite(Psi).all()):
        raise NumericalError(
            f"The embedding is no longer finite (sigma={sigma:.3g}). A smaller learning_rate or a larger sigma usually "
            "helps."
        )

    def step(restart: int) -> tuple[Tensor, Tensor, float, float]:
        L = laplacian(Psi[restart], sigma)
        new = U[restart] if u_step is None else u_step(L, U[restart])
        return new, L.d, L.trace_form(new), L.error(new)

    if u_step is None and U.stride(0) == 0 and all(torch.equal(Psi[0], other) for other in Psi[1:]):
        found = [step(0)] * len(U)  # before training all restarts may be equal
    else:
        found = in_threads(step, range(len(U)))
    new_U, d, hsic, error = zip(*found, strict=True)
    return Spectrum(torch.stack(new_U), torch.stack(d), list(hsic), list(error))


@torch.no_grad()
def reconstruction_error(X: Tensor, encoder: nn.Module, decoder: nn.Module | None, n_restarts: int) -> list[float]:
    """Return the mean over all entries of (x - f(x))^2, per restart; 0 without a decoder [OBJ]."""
    if decoder is None:
        return [0.0] * n_restarts
    errors: list[float] = (X - decoder(encoder(X))).square().mean((-2, -1)).tolist()
    return errors


def constant_lambda(value: float) -> LambdaRule:
    """Return the rule that keeps lambda at `value`."""
    return lambda lam, hsic, error: value


def balanced_lambda(lam: float, hsic: float, error: float) -> float:
    """Move lambda half-way, on a log scale, to where lambda x error equals HSIC (the paper's unsupervised choice)."""
    if error <= 0:
        return lam
    return min(max(math.sqrt(lam * hsic / error), 1e-3), 1e3)
