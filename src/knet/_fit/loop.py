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
class Round:
    """What one turn of the loop reached, one entry per restart."""

    index: int
    hsic: list[float]  # tr(U' L U), in [0, columns of U]
    reconstruction: list[float]  # mean squared error of the autoencoder; 0 without a decoder
    u_change: list[float]  # distance between the old and the new span of U, in [0, 1]
    seconds: float
    U: Tensor  # (restarts, n, columns), orthonormal columns
    u_error: tuple[float, ...] = ()  # estimate of ||(L - L_exact) U||_F / sqrt(columns); empty stands for exact forms

    def row(self, restart: int) -> dict[str, float]:
        """Return the scalars of one restart as a plain row of history."""
        return {
            "round": self.index,
            "hsic": self.hsic[restart],
            "reconstruction": self.reconstruction[restart],
            "u_change": self.u_change[restart],
            "u_error": self.u_error[restart] if self.u_error else 0.0,
            "seconds": self.seconds,
        }


@dataclass(frozen=True)
class Spectrum:
    """What a pass over the kernel of one restart gives: U, degrees [DEGREE], tr(U'LU) [HSIC] and the error of L."""

    U: Tensor
    d: Tensor
    hsic: float
    error: float


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
    max_rounds: int,
    tol: float,
    generator: torch.Generator,
    hold: float = 0.0,
) -> Iterator[Round]:
    """Alternate theta- and U-steps on [OBJ] from the start `U`, yielding one `Round` per turn.

    `encoder` and `decoder` are trained in place. The loop ends when no restart's K_U moves by `tol` or more. With
    `hold` above 0, U stays at its start until psi has followed it: until HSIC reaches that share of its most, or stops
    rising, or half of the rounds are over.
    """
    sigma, started = theta_step.sigma, time.perf_counter()
    encoder.eval()
    d = torch.stack([one.d for one in _spectral_pass(X, encoder, U, sigma, laplacian, None)])
    lam = lambda_rule(1.0, 0.0, 0.0)
    held, followed = hold > 0, 0.0
    for index in range(1, max_rounds + 1):
        theta_step(X, encoder, decoder, U, d, lam, generator)
        U_old, moving = U, not held
        passed = _spectral_pass(X, encoder, U, sigma, laplacian, u_step if moving else None)
        U, d = torch.stack([one.U for one in passed]), torch.stack([one.d for one in passed])
        hsic, errors = [one.hsic for one in passed], tuple(one.error for one in passed)
        reconstruction = reconstruction_error(X, encoder, decoder, len(U))
        change = [subspace_distance(old, new) for old, new in zip(U_old, U, strict=True)]
        yield Round(index, hsic, reconstruction, change, time.perf_counter() - started, U, errors)
        if moving and max(change) < tol:
            return
        mean_hsic = sum(hsic) / len(hsic)
        before, followed = followed, mean_hsic / U.shape[-1]
        rising = index < 3 or followed > 1.02 * before
        held = held and followed < hold and rising and 2 * index < max_rounds
        lam = lambda_rule(lam, mean_hsic, sum(reconstruction) / len(reconstruction))


def _spectral_pass(
    X: Tensor,
    encoder: nn.Module,
    U: Tensor,
    sigma: float,
    laplacian: Callable[[Tensor, float], Laplacian],
    u_step: UStep | None,
) -> list[Spectrum]:
    """Embed all rows and take the U-step, if any, of each restart; one operator per thread is alive at a time."""
    with torch.no_grad():
        Psi = encoder(X)
    if not bool(torch.isfinite(Psi).all()):
        raise NumericalError(
            f"The embedding left the finite numbers (sigma={sigma:.3g}). A smaller lr or a larger sigma usually helps."
        )

    def step(restart: int) -> Spectrum:
        L = laplacian(Psi[restart], sigma)
        new = U[restart] if u_step is None else u_step(L, U[restart])
        return Spectrum(new, L.d, L.trace_form(new), L.error(new))

    if all(torch.equal(Psi[0], other) for other in Psi[1:]) and u_step is None and U.stride(0) == 0:
        return [step(0)] * len(U)  # before training all restarts may be alike
    return in_threads(step, range(len(U)))


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
