"""Algorithm 1 of the paper: theta-steps and U-steps in turn, until K_U converges. Comments cite its lines by number."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from knet.arrays import Floats
from knet.exceptions import NumericalError
from knet.train.laplacians import Laplacian
from knet.train.networks import Networks
from knet.train.theta_step import ThetaStep
from knet.train.u_steps import UStep, subspace_distance

LambdaRule = Callable[[float, float, float], float]  # (lambda, HSIC, reconstruction error) -> next lambda
MakeLaplacian = Callable[[Floats, float], Laplacian]  # (embedded rows, sigma) -> L


@dataclass(frozen=True)
class Iteration:
    """The result of one iteration."""

    index: int
    hsic: float  # tr(U' L U), in [0, columns of U]
    reconstruction: float  # mean squared error of the autoencoder; 0 without a decoder
    u_change: float  # distance between the old and the new span of U, in [0, 1]
    u_error: float  # estimate of ||(L - L_exact) U||_F / sqrt(columns); 0 for exact forms
    seconds: float
    U: Floats  # (n, columns), orthonormal columns

    def row(self) -> dict[str, float]:
        """Return the scalars as a plain row of history."""
        names = ("hsic", "reconstruction", "u_change", "u_error", "seconds")
        return {"iteration": self.index, **{name: getattr(self, name) for name in names}}


def algorithm_1(
    X: Floats,
    nets: Networks,
    U: Floats,
    *,
    theta_step: ThetaStep,
    u_step: UStep,
    laplacian: MakeLaplacian,
    lambda_rule: LambdaRule,
    max_iter: int,
    tol: float,
    rng: np.random.RandomState,
) -> Iterator[Iteration]:
    """Train the networks in place from the start `U`, and yield one `Iteration` after each pair of steps.

    Parameters
    ----------
    X : ndarray of shape (n, d)
        The rows (line 1).
    nets : Networks
        psi and the decoder, initialised (line 3); psi is the output (line 2).
    U : ndarray of shape (n, columns)
        U_0 (line 3).
    theta_step, u_step, laplacian, lambda_rule : callables
        The steps, the operator that they need, and the weight of the reconstruction.
    max_iter, tol : int and float
        The loop ends after `max_iter` iterations, or if the span of U changes by less than `tol`.
    rng : RandomState
        Source of the mini-batches.
    """
    sigma, started = theta_step.sigma, time.perf_counter()
    lam = lambda_rule(1.0, 0.0, 0.0)
    d = laplacian(_embedded(X, nets, sigma), sigma).d
    for index in range(1, max_iter + 1):  # line 4: repeat
        theta_step(X, nets, U, d, lam, rng)  # line 5: theta, with U and D fixed
        L = laplacian(_embedded(X, nets, sigma), sigma)
        d = L.d  # line 6: D
        U_old, U = U, u_step(L, U)  # line 7: U, by eigenvectors or by ascent on the Stiefel manifold
        change, hsic = subspace_distance(U_old, U), L.trace_form(U)
        error = reconstruction_error(X, nets)
        yield Iteration(index, hsic, error, change, L.error(U), time.perf_counter() - started, U)
        if change < tol:  # line 8: until K_U has converged
            return
        lam = lambda_rule(lam, hsic, error)
    # Line 9, k-means on psi(X), is in `knet.model.summary`: it uses all training rows.


def _embedded(X: Floats, nets: Networks, sigma: float) -> Floats:
    """Return psi of all rows, or raise if training has diverged."""
    with np.errstate(over="ignore", invalid="ignore"):  # one error says it
        Psi = nets.encoder(X)
    if not np.isfinite(Psi).all():
        raise NumericalError(
            f"The embedding is no longer finite (sigma={sigma:.3g}). A smaller learning_rate or a larger sigma usually "
            "helps."
        )
    return Psi


def reconstruction_error(X: Floats, nets: Networks) -> float:
    """Return the mean over all entries of (x - f(x))^2; 0 without a decoder [OBJ]."""
    return 0.0 if nets.decoder is None else float(np.square(X - nets.decoder(nets.encoder(X))).mean())


def constant_lambda(value: float) -> LambdaRule:
    """Return the rule that keeps lambda at `value`."""
    return lambda lam, hsic, error: value


def balanced_lambda(lam: float, hsic: float, error: float) -> float:
    """Move lambda half-way, on a log scale, to where lambda x error equals HSIC (the paper's unsupervised choice)."""
    if error <= 0:
        return lam
    return min(max(math.sqrt(lam * hsic / error), 1e-3), 1e3)
