"""Algorithm 1: what an iteration does to HSIC, U, the reconstruction and the host."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from knet import KNet
from knet.datasets import make_moon, make_spirals
from knet.exceptions import KNetError, NumericalError
from knet.metrics import nmi
from knet.prepare.training_rows import median_distance
from knet.train.algorithm_1 import Iteration, algorithm_1, balanced_lambda, constant_lambda, reconstruction_error
from knet.train.kernels import center_rows, gaussian_kernel
from knet.train.laplacians import laplacian
from knet.train.networks import Networks, ResidualMLP, linear_start
from knet.train.theta_step import ThetaStep, normalized_clump
from knet.train.u_steps import StiefelAscent, eig_step
from tests.estimators import make_knet
from tests.formulas import alignment

pytestmark = pytest.mark.filterwarnings("ignore::knet.exceptions.KNetConvergenceWarning")


def moons(seed, n=150):
    X = make_moon(n, random_state=seed)[0]
    return torch.from_numpy((X - X.mean(0)) / X.std(0))


def networks(X, generator, decoder=False):
    P = linear_start(X, X.shape[1])
    sizes = {"hidden_layer_sizes": (32, 32), "generator": generator}
    return Networks(ResidualMLP(P, **sizes), ResidualMLP(P.mT.contiguous(), **sizes) if decoder else None)


def run(X, seed, *, scale=1.0, decoder=False, u_step=eig_step, rule=None, **options):
    """Return the HSIC of the start, the iterations, and the networks after them."""
    generator = torch.Generator().manual_seed(seed)
    sigma = scale * median_distance(X.numpy(), np.random.RandomState(0))
    nets, L = networks(X, generator, decoder), laplacian(X, sigma)
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
        generator=generator,
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
        gram = iteration.U.mT @ iteration.U
        assert (gram - torch.eye(2, dtype=torch.float64)).abs().max() < 1e-10


def test_an_iteration_reports_the_hsic_of_the_embedding_it_leaves(seed):
    X = moons(seed)
    sigma = median_distance(X.numpy(), np.random.RandomState(0))
    _, iterations, nets = run(X, seed, max_iter=2)
    with torch.no_grad():
        Psi = nets.encoder(X)
    K = gaussian_kernel(Psi, Psi, sigma)
    root = K.sum(1).rsqrt()
    expected = float(alignment(K * root[:, None] * root, iterations[-1].U))
    assert iterations[-1].hsic == pytest.approx(expected, abs=1e-9)


def test_the_iterations_end_when_U_moves_by_less_than_tol(seed):
    _, iterations, _ = run(moons(seed), seed, tol=0.3, max_iter=20)
    assert 1 < len(iterations) < 20
    assert iterations[-1].u_change < 0.3
    assert all(iteration.u_change >= 0.3 for iteration in iterations[:-1])
    assert [iteration.index for iteration in iterations] == list(range(1, len(iterations) + 1))


def test_the_rows_of_history_are_plain():
    iteration = Iteration(3, 2.0, 0.2, 0.6, 0.3, 1.5, torch.zeros(4, 1))
    expected = {"iteration": 3, "hsic": 2.0, "reconstruction": 0.2, "u_change": 0.6, "u_error": 0.3, "seconds": 1.5}
    assert iteration.row() == expected


# The gradient that differentiates through D


def test_slope_through_degrees_matches_finite_differences(seed, rng):
    Psi = torch.from_numpy(rng.normal(size=(7, 2)))
    HU = center_rows(torch.from_numpy(rng.normal(size=(7, 3))))
    theta_step, scale, h = ThetaStep(0.8, 1, 7, 1e-3, through_degrees=True), 9.0, 1e-6
    slope = theta_step._slope_through_degrees(Psi, HU, scale)
    for index in np.ndindex(*Psi.shape):
        move = torch.zeros_like(Psi)
        move[index] = h
        up, down = (normalized_clump(Psi + sign * move, HU, 0.8, math.sqrt(scale)).sum() for sign in (1, -1))
        assert float(slope[index]) == pytest.approx(-scale * float(up - down) / (2 * h), abs=1e-6)


def test_normalized_clump_of_all_rows_is_the_alignment(seed, rng):
    Psi = torch.from_numpy(rng.normal(size=(9, 2)))
    U = torch.from_numpy(np.linalg.qr(rng.normal(size=(9, 2)))[0])
    K = gaussian_kernel(Psi, Psi, 0.8)
    root = K.sum(1).rsqrt()
    expected = float(alignment(K * root[:, None] * root, U))
    assert float(normalized_clump(Psi, center_rows(U), 0.8, 1.0)) == pytest.approx(expected, abs=1e-12)


def test_the_two_gradients_differ(seed, rng):
    Psi = torch.from_numpy(rng.normal(size=(7, 2)))
    HU = center_rows(torch.from_numpy(rng.normal(size=(7, 2))))
    step = ThetaStep(0.8, 1, 7, 1e-3)
    d = gaussian_kernel(Psi, Psi, 0.8).sum(-1)
    fixed = step._slope(Psi, HU * d.rsqrt()[..., None], 1.0)
    assert not torch.allclose(fixed, step._slope_through_degrees(Psi, HU, 1.0), atol=1e-2)


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


class Plain(nn.Module):
    """A network that training does not know, so that autograd finds its gradient."""

    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, X):
        return self.net(X)


@pytest.mark.parametrize("decoder", [False, True])
@pytest.mark.parametrize("through_degrees", [False, True])
def test_a_theta_step_is_the_same_by_hand_and_by_autograd(seed, decoder, through_degrees):
    X = moons(seed)
    weights, Psi = [], []
    for known in (True, False):
        generator = torch.Generator().manual_seed(seed)
        nets = networks(X, generator, decoder)
        if not known:
            nets = Networks(Plain(nets.encoder), nets.decoder and Plain(nets.decoder))
        L = laplacian(X, 0.3)
        step = ThetaStep(0.3, 25, 50, 2e-3, through_degrees)
        step(X, nets, L.largest(2)[1], L.d, 0.7, torch.Generator().manual_seed(seed))
        weights.append([value.detach() for net in (nets.encoder, nets.decoder) if net for value in net.parameters()])
        Psi.append(nets.encoder(X).detach())
    assert len(weights[0]) == len(weights[1]) == (12 if decoder else 6)
    for by_hand, by_autograd in zip(*weights, strict=True):
        torch.testing.assert_close(by_hand, by_autograd, atol=1e-9, rtol=1e-7)
    torch.testing.assert_close(*Psi, atol=1e-9, rtol=1e-7)
    assert (Psi[0] - X).abs().max() > 1e-2  # and it did train


@pytest.mark.parametrize("n_threads", [2, 3, 7])
def test_the_number_of_threads_does_not_change_the_training(seed, n_threads):
    X, before = moons(seed), torch.get_num_threads()
    trained = []
    try:
        for threads in (1, n_threads):
            torch.set_num_threads(threads)
            nets = run(X, seed, max_iter=1)[2]
            trained.append([value.detach() for value in nets.encoder.parameters()])
    finally:
        torch.set_num_threads(before)
    for alone, shared in zip(*trained, strict=True):
        torch.testing.assert_close(shared, alone, atol=1e-9, rtol=1e-7)


# Reconstruction


def test_a_larger_lambda_lowers_the_reconstruction_error(seed):
    X = moons(seed)
    heavy, light = (run(X, seed, decoder=True, rule=constant_lambda(lam), max_iter=4)[1][-1] for lam in (10.0, 0.01))
    assert heavy.reconstruction < 0.5 * light.reconstruction
    assert heavy.hsic < light.hsic  # at a price


def test_reconstruction_error_is_the_mean_over_all_entries(seed, generator):
    X = moons(seed)
    nets = networks(X, generator, decoder=True)
    assert reconstruction_error(X, nets) == 0.0  # the identity start
    assert reconstruction_error(X, Networks(nets.encoder)) == 0.0
    with torch.no_grad():
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
        raise RuntimeError("the network stops here")


def test_a_failing_network_leaves_the_thread_count(generator):
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        X = moons(0)
        step = ThetaStep(1.0, 5, 32, 1e-3)
        with pytest.raises(RuntimeError, match="stops here"):
            step(X, Networks(Failing()), torch.zeros(150, 2), torch.ones(150), 0.0, generator)
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)


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
