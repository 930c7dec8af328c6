"""Algorithm 1: what an iteration does to HSIC, U, the reconstruction and the host."""

import numpy as np
import pytest
import torch
from threadpoolctl import threadpool_info, threadpool_limits
from torch import nn

from knet import KNet
from knet.datasets import make_moon, make_spirals
from knet.exceptions import KNetError, NumericalError
from knet.metrics import nmi
from knet.prepare.training_rows import median_distance
from knet.train.algorithm_1 import Iteration, algorithm_1, balanced_lambda, constant_lambda, reconstruction_error
from knet.train.kernels import center_rows, clump_gradient, clump_gradient_through_degrees, pair_weights
from knet.train.laplacians import laplacian
from knet.train.networks import Networks, ResidualMLP, linear_start
from knet.train.own_encoder import OwnEncoder
from knet.train.pretrain import batches
from knet.train.theta_step import ThetaStep
from knet.train.u_steps import StiefelAscent, eig_step
from tests import formulas
from tests.estimators import make_knet
from tests.formulas import TorchTwin

pytestmark = pytest.mark.filterwarnings("ignore::knet.exceptions.KNetConvergenceWarning")


def moons(seed, n=150):
    X = make_moon(n, random_state=seed)[0]
    return (X - X.mean(0)) / X.std(0)


def networks(X, rng, decoder=False):
    P = linear_start(X, X.shape[1])
    sizes = {"hidden_layer_sizes": (32, 32), "rng": rng}
    return Networks(ResidualMLP(P, **sizes), ResidualMLP(P.T, **sizes) if decoder else None)


def run(X, seed, *, scale=1.0, decoder=False, u_step=eig_step, rule=None, **options):
    """Return the HSIC of the start, the iterations, and the networks after them."""
    rng = np.random.RandomState(seed)
    sigma = scale * median_distance(X, np.random.RandomState(0))
    nets, L = networks(X, rng, decoder), laplacian(X, sigma)
    U = L.largest(2)[1]
    settings = {"n_steps": 60, "batch_size": 64, "learning_rate": 2e-3, "through_degrees": False}
    settings |= {name: options.pop(name) for name in list(options) if name in settings}
    iterations = algorithm_1(
        X,
        nets,
        U,
        theta_step=ThetaStep(sigma, **settings),
        u_step=u_step,
        laplacian=laplacian,
        lambda_rule=rule or constant_lambda(0.0),
        rng=rng,
        **({"max_iter": 6, "tol": 0.0} | options),
    )
    return L.trace_form(U), list(iterations), nets


@pytest.mark.parametrize("u_step", [eig_step, StiefelAscent()])
def test_hsic_rises_and_K_U_settles(seed, u_step):
    start, iterations, _ = run(moons(seed), seed, u_step=u_step)
    hsic, change = ([getattr(iteration, name) for iteration in iterations] for name in ("hsic", "u_change"))
    assert hsic[-1] > start + 0.5
    assert hsic[-1] > hsic[0] + 0.1
    assert max(hsic) <= 2 + 1e-9
    assert max(change[-2:]) < 0.4 * change[0]


@pytest.mark.parametrize("through_degrees", [False, True])
def test_U_is_orthonormal_in_each_iteration(seed, through_degrees):
    _, iterations, _ = run(moons(seed), seed, through_degrees=through_degrees, max_iter=3)
    for iteration in iterations:
        assert iteration.U.shape == (150, 2)
        assert iteration.U.dtype == np.float64
        assert np.abs(iteration.U.T @ iteration.U - np.eye(2)).max() < 1e-10


def test_an_iteration_reports_the_hsic_of_the_embedding_it_leaves(seed):
    X = moons(seed)
    sigma = median_distance(X, np.random.RandomState(0))
    _, iterations, nets = run(X, seed, max_iter=2)
    Psi = nets.encoder(X)
    expected = formulas.alignment(formulas.normalized(formulas.kernel(Psi, Psi, sigma)), iterations[-1].U)
    assert iterations[-1].hsic == pytest.approx(expected, abs=1e-9)


def test_the_iterations_end_when_U_moves_by_less_than_tol(seed):
    _, iterations, _ = run(moons(seed), seed, tol=0.3, max_iter=20)
    assert 1 < len(iterations) < 20
    assert iterations[-1].u_change < 0.3
    assert all(iteration.u_change >= 0.3 for iteration in iterations[:-1])
    assert [iteration.index for iteration in iterations] == list(range(1, len(iterations) + 1))


def test_the_rows_of_history_are_plain():
    iteration = Iteration(3, 2.0, 0.2, 0.6, 0.3, 1.5, np.zeros((4, 1)))
    expected = {"iteration": 3, "hsic": 2.0, "reconstruction": 0.2, "u_change": 0.6, "u_error": 0.3, "seconds": 1.5}
    assert iteration.row() == expected


# The slope of a batch


@pytest.mark.parametrize("batch_size", [20, 64, 1000])
@pytest.mark.parametrize("through_degrees", [False, True])
def test_a_batch_stands_for_all_pairs(seed, through_degrees, batch_size):
    X, U = moons(seed, n=60), np.linalg.qr(np.random.default_rng(seed).normal(size=(60, 2)))[0]
    d = laplacian(X, 0.8).d
    nets, expected = networks(X, np.random.RandomState(seed)), networks(X, np.random.RandomState(seed)).encoder
    rows = next(batches(60, batch_size, 1, np.random.RandomState(seed)))
    Psi, share = expected.forward(X[rows]), 60 / len(rows)  # a batch has 1 / share^2 of the pairs
    if through_degrees:
        slope = -(share**2) * clump_gradient_through_degrees(Psi, center_rows(U)[rows], 0.8, share)
    else:
        slope = -(share**2) * clump_gradient(Psi, pair_weights(U, d)[rows], 0.8)
    expected.backward(slope)
    ThetaStep(0.8, 1, batch_size, 1e-3, through_degrees)(X, nets, U, d, 0.0, np.random.RandomState(seed))
    np.testing.assert_allclose(nets.encoder.gradient, expected.gradient, atol=1e-12, rtol=1e-10)


def test_slope_through_degrees_matches_finite_differences(seed, rng):
    Psi, HU = rng.normal(size=(7, 2)), center_rows(rng.normal(size=(7, 3)))
    theta_step, share, h = ThetaStep(0.8, 1, 7, 1e-3, through_degrees=True), 3.0, 1e-6
    slope = theta_step._slope(Psi, HU, share)

    def value(Psi):
        K = formulas.kernel(Psi, Psi, 0.8)
        B = HU / np.sqrt(share * K.sum(1))[:, None]
        return (B * (K @ B)).sum()

    for index in np.ndindex(*Psi.shape):
        move = np.zeros_like(Psi)
        move[index] = h
        up, down = value(Psi + move), value(Psi - move)
        assert slope[index] == pytest.approx(-(share**2) * (up - down) / (2 * h), abs=1e-6)


def test_fixed_degrees_are_no_worse_than_differentiated_ones():
    shapes = [(make_moon, 150, {}, 0.1), (make_spirals, 180, {"noise": 0.08}, 0.12)]
    scores = {"fixed": [], "differentiated": []}
    for make, n, options, sigma_scale in shapes:
        for seed in range(3):
            X, y = make(n, random_state=seed, **options)
            for degrees, found in scores.items():
                model = make_knet(
                    len(np.unique(y)),
                    sigma="median",
                    sigma_scale=sigma_scale,
                    degrees=degrees,
                    u_columns="c",
                    max_iter=3,
                    steps_per_iter=80,
                    random_state=seed,
                ).fit(X)
                found.append(nmi(y, model.labels_))
    assert np.mean(scores["fixed"]) >= np.mean(scores["differentiated"]) - 0.02
    assert np.mean(scores["fixed"]) > 0.6  # and both did cluster


# The written-out gradient and autograd


@pytest.mark.parametrize("decoder", [False, True])
@pytest.mark.parametrize("through_degrees", [False, True])
def test_a_theta_step_is_the_same_by_hand_and_by_autograd(seed, decoder, through_degrees):
    X, trained = moons(seed), []
    for by_hand in (True, False):
        nets = networks(X, np.random.RandomState(seed), decoder)
        if not by_hand:
            nets = Networks(OwnEncoder(TorchTwin(nets.encoder), "cpu", X), nets.decoder)
        L = laplacian(X, 0.3)
        step = ThetaStep(0.3, 25, 50, 2e-3, through_degrees)
        step(X, nets, L.largest(2)[1], L.d, 0.7, np.random.RandomState(seed))
        trained.append(nets)
    for by_hand, by_autograd in zip(*([nets.encoder, nets.decoder][: 1 + decoder] for nets in trained), strict=True):
        np.testing.assert_allclose(by_autograd.theta[:-2], by_hand.theta[:-2], atol=1e-9, rtol=1e-7)
        # The objective does not change if the embedding is shifted: the gradient of the last bias is rounding, which
        # Adam divides by 1e-8.
        np.testing.assert_allclose(by_autograd.theta[-2:], by_hand.theta[-2:], atol=1e-8)
    Psi, other = (nets.encoder(X) for nets in trained)
    np.testing.assert_allclose(center_rows(other), center_rows(Psi), atol=1e-9, rtol=1e-7)
    assert np.abs(Psi - X).max() > 1e-2  # and it did train


@pytest.mark.parametrize("decoder", [False, True])
@pytest.mark.parametrize("through_degrees", [False, True])
def test_a_theta_step_is_that_of_autograd_and_adam_of_torch_alone(seed, decoder, through_degrees):
    """Torch computes the whole objective, its gradient and the steps, with nothing of the package but the batches."""
    X, sigma, lam = moons(seed), 0.3, 0.7
    nets = networks(X, np.random.RandomState(seed), decoder)
    psi, back = TorchTwin(nets.encoder), TorchTwin(nets.decoder) if decoder else None
    L = laplacian(X, sigma)
    U = L.largest(2)[1]
    HU, root = (torch.from_numpy(values) for values in (U - U.mean(0), 1 / np.sqrt(L.d)))
    optimizer = torch.optim.Adam([*psi.parameters(), *(back.parameters() if decoder else ())], 2e-3)
    for rows in batches(len(X), 50, 10, np.random.RandomState(seed)):
        batch, share = torch.from_numpy(X[rows]), len(X) / len(rows)
        Psi = psi(batch)
        K = torch.exp(-(Psi[:, None] - Psi[None]).square().sum(-1) / (2 * sigma**2))
        B = HU[rows] * ((share * K.sum(1)).rsqrt() if through_degrees else root[rows])[:, None]
        loss = -(share**2) * (B * (K @ B)).sum()
        if decoder:
            loss = loss + lam * (batch - back(Psi)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    ThetaStep(sigma, 10, 50, 2e-3, through_degrees)(X, nets, U, L.d, lam, np.random.RandomState(seed))
    np.testing.assert_allclose(nets.encoder(X), psi(torch.from_numpy(X)).detach(), atol=1e-8)
    if decoder:
        np.testing.assert_allclose(nets.decoder(X), back(torch.from_numpy(X)).detach(), atol=1e-8)


@pytest.mark.parametrize("n_threads", [2, 3, 7])
def test_the_number_of_threads_does_not_change_the_training(seed, n_threads):
    X, trained = moons(seed), []
    for threads in (1, n_threads):
        with threadpool_limits(threads):
            trained.append(run(X, seed, max_iter=1)[2].encoder.theta)
    np.testing.assert_allclose(trained[1], trained[0], atol=1e-9, rtol=1e-7)


# Reconstruction


def test_a_larger_lambda_lowers_the_reconstruction_error(seed):
    X = moons(seed)
    heavy, light = (run(X, seed, decoder=True, rule=constant_lambda(lam), max_iter=4)[1][-1] for lam in (10.0, 0.01))
    assert heavy.reconstruction < 0.5 * light.reconstruction
    assert heavy.hsic < light.hsic  # at a price


def test_reconstruction_error_is_the_mean_over_all_entries(seed, random_state):
    X = moons(seed)
    nets = networks(X, random_state, decoder=True)
    assert reconstruction_error(X, nets) == 0.0  # the identity start
    assert reconstruction_error(X, Networks(nets.encoder)) == 0.0
    nets.decoder.biases[-1] += 0.5
    assert reconstruction_error(X, nets) == pytest.approx(0.25)


def test_balanced_lambda_brings_both_terms_together(seed):
    lambdas = []

    def recording(lam, hsic, error):
        lambdas.append(balanced_lambda(lam, hsic, error))
        return lambdas[-1]

    _, iterations, _ = run(moons(seed), seed, decoder=True, rule=recording, max_iter=12)
    hsic, error = iterations[-1].hsic, iterations[-1].reconstruction
    within = 1 / 4 < lambdas[-1] * error / hsic < 4
    assert within or lambdas[-1] in (1e-3, 1e3)
    assert lambdas[-1] != lambdas[0]


def test_balanced_lambda_has_its_fixed_point_at_equal_terms():
    assert balanced_lambda(4.0, 2.0, 0.5) == pytest.approx(4.0)
    assert balanced_lambda(1.0, 2.0, 0.5) == pytest.approx(2.0)  # half-way to 4 on a log scale
    assert balanced_lambda(1.0, 2.0, 0.0) == 1.0
    assert balanced_lambda(1e3, 2.0, 1e-30) == 1e3
    assert balanced_lambda(1e-3, 1e-30, 2.0) == 1e-3
    assert constant_lambda(0.7)(5.0, 1.0, 1.0) == 0.7


# The host


class Failing(nn.Module):
    def forward(self, X):
        if self.training:
            raise RuntimeError("the network stops here")
        return X


def test_a_failing_network_leaves_the_thread_counts(random_state):
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        X = moons(0)
        nets, step = Networks(OwnEncoder(Failing(), "cpu", X)), ThetaStep(1.0, 5, 32, 1e-3)
        pools = threadpool_info()
        with pytest.raises(RuntimeError, match="stops here"):
            step(X, nets, np.zeros((150, 2)), np.ones(150), 0.0, random_state)
        assert torch.get_num_threads() == before + 1
        assert threadpool_info() == pools
    finally:
        torch.set_num_threads(before)


def test_a_step_runs_on_one_thread_and_leaves_the_host_its_own(random_state):
    class Seeing(nn.Module):
        def forward(self, X):
            if self.training:
                seen.append((torch.get_num_threads(), {pool["num_threads"] for pool in blas_pools()}))
            return X

    def blas_pools():
        return [pool for pool in threadpool_info() if pool["user_api"] == "blas"]

    seen, X = [], moons(0)
    nets = Networks(OwnEncoder(Seeing(), "cpu", X))
    before = torch.get_num_threads(), blas_pools()
    ThetaStep(1.0, 5, 32, 1e-3)(X, nets, np.zeros((150, 2)), np.ones(150), 0.0, random_state)
    assert seen == [(1, {1})] * 5
    assert (torch.get_num_threads(), blas_pools()) == before


# Numbers that leave the range


@pytest.mark.parametrize(("dtype", "learning_rate"), [(np.float32, 1e30), (np.float64, 1e200)])
def test_an_absurd_learning_rate_is_one_clear_error(seed, dtype, learning_rate):
    X = make_moon(100, random_state=seed)[0].astype(dtype)
    with pytest.raises(NumericalError, match="finite") as caught:
        KNet(2, learning_rate=learning_rate, random_state=seed).fit(X)
    assert isinstance(caught.value, KNetError)
    assert isinstance(caught.value, ArithmeticError)
    assert "learning_rate" in str(caught.value)  # the knob to turn
    assert "\n" not in str(caught.value)
