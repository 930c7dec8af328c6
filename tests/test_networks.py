"""Encoders: the exact start, gradients, batches, pre-training, and a user's own module."""

import copy

import numpy as np
import pytest
import torch
from scipy.spatial.distance import pdist
from sklearn.decomposition import PCA
from torch import nn

from knet.model.encoder import RowMLP
from knet.model.torch_encoder import TorchEncoder, on_device, row_encoder, torch_network
from knet.train.backprop import AutogradBackprop, ManualBackprop
from knet.train.networks import ResidualMLP, build_networks, linear_start
from knet.train.pretrain import batches, pretrain

DTYPES = [torch.float32, torch.float64]


def data(seed, n=60, d=4, dtype=torch.float64):
    scales = np.linspace(3, 0.5, d)  # distinct principal directions
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, d)) * scales).to(dtype)


def mlp(P, generator, **options):
    return ResidualMLP(P, hidden_layer_sizes=(16, 16), generator=generator, **options)


def copy_of_weights(module):
    return {name: value.clone() for name, value in module.state_dict().items()}


CPU = torch.device("cpu")


def test_a_row_encoder_is_the_network_it_was_made_from(seed, generator):
    X = data(seed)
    net = mlp(linear_start(X, 3), generator, zero_last=False)
    expected = net(X).detach()
    encoder = row_encoder(net, CPU)
    assert isinstance(encoder, RowMLP)
    for rows_of in (encoder, TorchEncoder(net, CPU), TorchEncoder(torch_network(encoder), CPU)):
        np.testing.assert_allclose(rows_of(X.numpy()), expected, rtol=1e-12, atol=1e-12)
        assert rows_of.kind == "mlp"


def test_an_encoder_of_arrays_has_the_state_of_its_network(seed, generator):
    net = mlp(linear_start(data(seed), 6), generator)
    state = row_encoder(net, CPU).state()
    assert state.keys() == net.state_dict().keys()
    for name, value in net.state_dict().items():
        np.testing.assert_array_equal(state[name], value)
    again = RowMLP.from_state({name: np.asfortranarray(value) for name, value in state.items()})
    assert all(W.flags.c_contiguous for W in again.weights)


@pytest.mark.parametrize("kind", [RowMLP, TorchEncoder])
def test_an_encoder_changes_its_precision(seed, generator, kind):
    X = data(seed)
    net = mlp(linear_start(X, 3), generator, zero_last=False)
    encoder = row_encoder(net, CPU) if kind is RowMLP else TorchEncoder(net, CPU)
    single = encoder.astype(np.float32)(X.float().numpy())
    assert single.dtype == np.float32
    assert encoder(X.numpy()).dtype == np.float64  # the encoder itself keeps its precision
    np.testing.assert_allclose(single, encoder(X.numpy()), atol=1e-5)


def test_another_device_needs_a_network_of_torch(generator):
    encoder = row_encoder(mlp(linear_start(data(0), 3), generator), CPU)
    assert on_device(encoder, "cpu") is encoder
    there = on_device(encoder, "meta")  # a device that every machine has
    assert isinstance(there, TorchEncoder)
    assert {value.device.type for value in there.net.parameters()} == {"meta"}


# The start


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_identity_start_is_exact_to_the_bit(seed, generator, dtype):
    X = data(seed, dtype=dtype)
    assert torch.equal(mlp(linear_start(X, 4), generator)(X), X)


def test_a_wider_embedding_keeps_every_distance(seed, generator):
    X = data(seed)
    Psi = mlp(linear_start(X, 7), generator)(X).detach()
    assert Psi.shape == (60, 7)
    assert torch.equal(Psi[:, :4], X)
    np.testing.assert_allclose(pdist(Psi), pdist(X), rtol=1e-5)


def test_a_slope_reaches_the_added_columns(seed, generator):
    X = data(seed)
    Psi = mlp(linear_start(X, 6), generator)(X)
    assert (Psi[:, 4:].std(0) > 0).all()  # equal rows would never be moved apart by their kernel


@pytest.mark.parametrize("n_components", [1, 2, 3])
def test_a_narrower_embedding_starts_as_pca(seed, generator, n_components):
    X = data(seed) + 5
    Psi = mlp(linear_start(X, n_components), generator)(X).detach().numpy()
    expected = PCA(n_components, svd_solver="full").fit_transform(X.numpy())
    Psi = Psi - Psi.mean(0)
    signs = np.sign((Psi * expected).sum(0))
    np.testing.assert_allclose(Psi * signs, expected, atol=1e-9)


def test_an_embedding_may_have_more_columns_than_there_are_rows(generator):
    X = data(0, n=3, d=6)
    assert mlp(linear_start(X, 5), generator)(X).shape == (3, 5)


def test_the_signs_of_the_start_do_not_depend_on_rounding(seed):
    X = data(seed)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(X)))
    torch.testing.assert_close(linear_start(X[order], 2), linear_start(X, 2))
    largest = linear_start(X, 3).abs().argmax(0, keepdim=True)
    assert (linear_start(X, 3).gather(0, largest) > 0).all()


def test_the_decoder_of_the_identity_start_is_exact(seed, generator):
    X = data(seed)
    nets = build_networks(
        X,
        n_components=6,
        hidden_layer_sizes=(8,),
        init="identity",
        module=None,
        with_decoder=True,
        generator=generator,
    )
    assert torch.equal(nets.decoder(nets.encoder(X)), X)


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_the_network_is_the_textbook_one(seed, generator, depth):
    X = data(seed)
    net = ResidualMLP(linear_start(X, 3), hidden_layer_sizes=(5,) * depth, generator=generator, zero_last=False)
    H = X.numpy()
    weights, biases = [W.detach().numpy() for W in net.weights], [b.detach().numpy() for b in net.biases]
    for W, b in zip(weights[:-1], biases[:-1], strict=True):
        H = np.maximum(H @ W + b, 0)
    expected = H @ weights[-1] + biases[-1] + X.numpy() @ net.skip.numpy()
    np.testing.assert_allclose(net(X).detach(), expected, atol=1e-12)


def test_a_regression_finds_the_last_layer(seed, generator):
    X = torch.from_numpy(np.random.default_rng(seed).normal(size=(200, 3)))
    other = ResidualMLP(linear_start(X, 4), hidden_layer_sizes=(8, 8), generator=generator, zero_last=False)
    net = copy.deepcopy(other)
    nn.init.zeros_(net.weights[-1])
    wanted = other(X).detach()
    net.regress(X, wanted - X @ net.skip, 1e-12)
    torch.testing.assert_close(net(X).detach(), wanted, rtol=0, atol=1e-4)
    net.regress(X, wanted - X @ net.skip, 1e12)
    torch.testing.assert_close(net(X).detach(), X @ net.skip, rtol=0, atol=1e-4)  # nothing is left of it


def test_networks_of_one_generator_differ_in_hidden_weights_only(generator):
    first, second = mlp(torch.eye(4), generator), mlp(torch.eye(4), generator)
    assert not torch.equal(first.weights[0], second.weights[0])
    assert not first.weights[-1].any()
    assert not second.weights[-1].any()


def test_the_first_step_can_leave_the_start(seed, generator):
    X = data(seed)
    net = mlp(linear_start(X, 4), generator)
    net(X).square().sum().backward()
    assert net.weights[-1].grad.abs().max() > 0


def test_weights_come_from_the_generator_alone(seed):
    nets = []
    for global_seed in (1, 2):
        torch.manual_seed(global_seed)
        nets.append(mlp(torch.eye(4), torch.Generator().manual_seed(seed)))
    other = mlp(torch.eye(4), torch.Generator().manual_seed(seed + 1))
    assert torch.equal(nets[0].weights[0], nets[1].weights[0])
    assert not torch.equal(nets[0].weights[0], other.weights[0])


# The gradient that is written out


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_manual_gradient_equals_autograd(seed, generator, depth):
    X, slope, P = data(seed, n=30), data(seed + 1, n=30, d=2), data(seed + 2, n=4, d=2)
    net = ResidualMLP(P, hidden_layer_sizes=(7,) * depth, generator=generator, zero_last=False)
    X.requires_grad_()
    net(X).backward(slope)
    manual = ManualBackprop(net)
    with torch.no_grad():
        torch.testing.assert_close(manual.forward(X.detach()), net(X), atol=1e-12, rtol=0)
        below = manual.backward_to_input(slope)
    torch.testing.assert_close(below, X.grad, atol=1e-12, rtol=0)
    for gradients, params in ((manual.weight_gradients, net.weights), (manual.bias_gradients, net.biases)):
        for found, param in zip(gradients, params, strict=True):
            torch.testing.assert_close(found, param.grad, atol=1e-12, rtol=0)


def test_the_manual_gradient_equals_finite_differences(seed, generator):
    X, slope, h = data(seed, n=5), data(seed + 1, n=5), 1e-6
    manual = ManualBackprop(mlp(linear_start(X, 4), generator, zero_last=False))
    with torch.no_grad():
        manual.forward(X)
        manual.backward(slope)
        gradient = manual.theta.grad.clone()
        for i in range(0, len(gradient), 17):
            values = []
            for move in (h, -2 * h):
                manual.theta[i] += move
                values.append(float((manual.forward(X) * slope).sum()))
            manual.theta[i] += h
            assert float(gradient[i]) == pytest.approx((values[0] - values[1]) / (2 * h), abs=1e-6)


def test_trained_weights_go_back_into_the_network_on_demand(generator):
    net = mlp(torch.eye(4, dtype=torch.float64), generator, zero_last=False)
    before = copy_of_weights(net)
    manual = ManualBackprop(net)
    with torch.no_grad():
        manual.theta += 1
        assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
        manual.restore()
    for name, value in net.state_dict().items():
        assert torch.equal(value, before[name] if name == "skip" else before[name] + 1)


def test_manual_and_autograd_gradients_agree(seed, generator):
    net = mlp(torch.eye(4, dtype=torch.float64), generator, zero_last=False)
    X, slope = data(seed), data(seed + 1)
    below = []
    with torch.no_grad():
        for form in (ManualBackprop(net), AutogradBackprop(net)):
            below.append((form.forward(X), form.backward_to_input(slope)))
    for a, b in zip(*below, strict=True):
        torch.testing.assert_close(a, b, atol=1e-12, rtol=0)


def test_a_second_backward_pass_needs_a_forward_pass(seed, generator):
    X = data(seed)
    manual = ManualBackprop(mlp(torch.eye(4, dtype=X.dtype), generator))
    gradient = torch.ones_like(manual.forward(X))
    manual.backward(gradient)
    with pytest.raises(RuntimeError, match="forward"):
        manual.backward(gradient)


# Batches


@pytest.mark.parametrize(("n", "batch_size"), [(60, 20), (61, 20), (59, 20), (7, 64), (100, 3)])
def test_each_pass_visits_every_row_once(generator, n, batch_size):
    steps = batches(n, batch_size, 3 * n, generator)
    passes = []
    for _ in range(3):
        visited = next(steps)
        while len(visited) < n:
            rows = next(steps)
            assert len(rows) <= 2 * batch_size
            visited = torch.cat([visited, rows])
        passes.append(visited)
        assert (visited.sort()[0] == torch.arange(n)).all()
    assert not torch.equal(passes[0], passes[1])
    assert not torch.equal(passes[1], passes[2])


@pytest.mark.parametrize("n_steps", [1, 2, 5, 17])
def test_the_number_of_steps_is_kept(generator, n_steps):
    assert len(list(batches(50, 20, n_steps, generator))) == n_steps


def test_batches_repeat_from_the_generator_whatever_the_global_one(seed):
    runs = []
    for global_seed in (1, 2):
        torch.manual_seed(global_seed)
        runs.append(list(batches(50, 20, 7, torch.Generator().manual_seed(seed))))
    assert all(torch.equal(a, b) for a, b in zip(*runs, strict=True))


# Pre-training


def test_pretraining_brings_psi_close_to_X(seed, generator):
    X = data(seed, n=100, d=3, dtype=torch.float32)
    X = (X - X.mean(0)) / X.std(0)
    P = linear_start(X, 3)
    encoder = mlp(torch.zeros_like(P), generator, zero_last=False)
    decoder = mlp(torch.zeros_like(P), generator, zero_last=False)
    with torch.no_grad():
        before = (encoder(X) - X).square().mean()
    pretrain(encoder, decoder, X, P, generator=generator, max_steps=600)
    with torch.no_grad():
        Psi = encoder(X)
        after, back = (Psi - X).square().mean(), (decoder(Psi) - X).square().mean()
    assert before > 0.3  # of a variance of 1
    assert after < 0.1
    assert back < 0.1


def test_pretraining_towards_fewer_dimensions_aims_at_the_principal_ones(seed, generator):
    X = data(seed, n=100, dtype=torch.float32)
    P = linear_start(X, 2)
    encoder = mlp(torch.zeros_like(P), generator, zero_last=False)
    decoder = mlp(torch.zeros_like(P).mT.contiguous(), generator, zero_last=False)
    pretrain(encoder, decoder, X, P, generator=generator, max_steps=600)
    with torch.no_grad():
        error = (encoder(X) - X @ P).square().mean()
    assert error < 0.1 * (X @ P).square().mean()


# A user's own module


class Own(nn.Module):
    def __init__(self, d=4):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(d, 6), nn.Tanh(), nn.Linear(6, 2))

    def forward(self, X):
        return self.layers(X)


def own_networks(module, X, generator, **options):
    settings = {
        "n_components": 4,
        "hidden_layer_sizes": (8,),
        "init": "identity",
        "with_decoder": True,
    } | options
    return build_networks(X, module=module, generator=generator, **settings)


def test_a_users_module_is_copied_and_never_changed(seed, generator):
    X, module = data(seed), Own()
    before = copy_of_weights(module)
    nets = own_networks(module, X, generator)
    encoder, decoder = nets.encoder, nets.decoder
    torch.testing.assert_close(encoder(X), copy.deepcopy(module).double()(X))
    assert decoder(encoder(X)).shape == (60, 4)
    with torch.no_grad():
        for parameter in encoder.parameters():
            parameter += 1
    after = module.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert next(module.parameters()).dtype == torch.float32
