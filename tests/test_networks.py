"""Encoders: the exact start, gradients, batches, pre-training, and a user's own module."""

import copy

import numpy as np
import pytest
import torch
from scipy.spatial.distance import pdist
from sklearn.decomposition import PCA
from torch import nn

from knet.model.encoder import RowMLP
from knet.model.summary import row_encoder
from knet.model.torch_encoder import TorchEncoder, TorchMLP, on_device, torch_network
from knet.train.networks import ResidualMLP, build_networks, linear_start
from knet.train.own_encoder import OwnEncoder, seeded_torch
from knet.train.pretrain import batches, pretrain
from tests.formulas import TorchTwin

DTYPES = [np.float32, np.float64]
CPU = torch.device("cpu")


def data(seed, n=60, d=4, dtype=np.float64):
    scales = np.linspace(3, 0.5, d)  # distinct principal directions
    return (np.random.default_rng(seed).normal(size=(n, d)) * scales).astype(dtype)


def mlp(P, random_state, **options):
    return ResidualMLP(P, **({"hidden_layer_sizes": (16, 16), "rng": random_state} | options))


def copy_of_weights(module):
    return {name: value.clone() for name, value in module.state_dict().items()}


def test_a_row_encoder_is_the_network_it_was_made_from(seed, random_state):
    X = data(seed)
    net = mlp(linear_start(X, 3), random_state, zero_last=False)
    expected = net(X)
    encoder = row_encoder(net, np.float64, "cpu")
    assert isinstance(encoder, RowMLP)
    for rows_of in (encoder, TorchEncoder(TorchMLP(encoder), CPU), TorchEncoder(torch_network(encoder), CPU)):
        np.testing.assert_allclose(rows_of(X), expected, rtol=1e-12, atol=1e-12)
        assert rows_of.kind == "mlp"
    net.theta += 1
    np.testing.assert_allclose(encoder(X), expected, rtol=1e-12, atol=1e-12)  # it has weights of its own


def test_an_encoder_of_arrays_has_the_state_of_its_network(seed, random_state):
    net = mlp(linear_start(data(seed), 6), random_state)
    encoder = row_encoder(net, np.float64, "cpu")
    state = encoder.state()
    layers = {f"weights.{i}": W for i, W in enumerate(net.weights)} | {
        f"biases.{i}": b for i, b in enumerate(net.biases)
    }
    for name, value in (layers | {"skip": net.skip}).items():
        np.testing.assert_array_equal(state[name], value)
    of_torch = TorchMLP(encoder).state_dict()
    assert state.keys() == of_torch.keys() == {"skip", *layers}  # models of both kinds have the same file
    for name, value in of_torch.items():
        np.testing.assert_array_equal(state[name], value)
    again = RowMLP.from_state({name: np.asfortranarray(value) for name, value in state.items()})
    assert all(W.flags.c_contiguous for W in again.weights)


@pytest.mark.parametrize("kind", [RowMLP, TorchEncoder])
def test_an_encoder_changes_its_precision(seed, random_state, kind):
    X = data(seed)
    net = mlp(linear_start(X, 3), random_state, zero_last=False)
    encoder = row_encoder(net, np.float64, "cpu")
    if kind is TorchEncoder:
        encoder = TorchEncoder(TorchMLP(encoder), CPU)
    single = encoder.astype(np.float32)(X.astype(np.float32))
    assert single.dtype == np.float32
    assert encoder(X).dtype == np.float64  # the encoder itself keeps its precision
    np.testing.assert_allclose(single, encoder(X), atol=1e-5)
    assert row_encoder(net, np.float32, "cpu")(X.astype(np.float32)).dtype == np.float32
    assert net(X).dtype == np.float64


def test_another_device_needs_a_network_of_torch(random_state):
    net = mlp(linear_start(data(0), 3), random_state)
    encoder = row_encoder(net, np.float64, CPU)
    assert isinstance(encoder, RowMLP)
    assert on_device(encoder, "cpu") is encoder
    for there in (on_device(encoder, "meta"), row_encoder(net, np.float64, "meta")):  # a device that every machine has
        assert isinstance(there, TorchEncoder)
        assert {value.device.type for value in there.net.parameters()} == {"meta"}
        assert there.kind == "mlp"


def test_a_network_comes_back_from_another_device_as_arrays(seed, random_state):
    X = data(seed)
    encoder = row_encoder(mlp(linear_start(X, 3), random_state, zero_last=False), np.float64, "cpu")
    there = TorchEncoder(torch_network(encoder), torch.device("cpu", 1))  # stands for a device with the same memory
    back = on_device(there, "cpu")
    assert isinstance(back, RowMLP)
    np.testing.assert_array_equal(back(X), encoder(X))


# The start


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_identity_start_is_exact_to_the_bit(seed, random_state, dtype):
    X = data(seed, dtype=dtype)
    Psi = mlp(linear_start(X, 4), random_state)(X)
    np.testing.assert_array_equal(Psi, X)
    assert Psi.dtype == dtype


def test_a_wider_embedding_keeps_every_distance(seed, random_state):
    X = data(seed)
    Psi = mlp(linear_start(X, 7), random_state)(X)
    assert Psi.shape == (60, 7)
    np.testing.assert_array_equal(Psi[:, :4], X)
    np.testing.assert_allclose(pdist(Psi), pdist(X), rtol=1e-5)


def test_a_slope_reaches_the_added_columns(seed, random_state):
    X = data(seed)
    Psi = mlp(linear_start(X, 6), random_state)(X)
    assert (Psi[:, 4:].std(0) > 0).all()  # equal rows would never be moved apart by their kernel


@pytest.mark.parametrize("n_components", [1, 2, 3])
def test_a_narrower_embedding_starts_as_pca(seed, random_state, n_components):
    X = data(seed) + 5
    Psi = mlp(linear_start(X, n_components), random_state)(X)
    expected = PCA(n_components, svd_solver="full").fit_transform(X)
    Psi = Psi - Psi.mean(0)
    signs = np.sign((Psi * expected).sum(0))
    np.testing.assert_allclose(Psi * signs, expected, atol=1e-9)


def test_an_embedding_may_have_more_columns_than_there_are_rows(random_state):
    X = data(0, n=3, d=6)
    assert mlp(linear_start(X, 5), random_state)(X).shape == (3, 5)


def test_the_signs_of_the_start_do_not_depend_on_rounding(seed):
    X = data(seed)
    order = np.random.default_rng(seed).permutation(len(X))
    np.testing.assert_allclose(linear_start(X[order], 2), linear_start(X, 2), rtol=1e-7, atol=1e-7)
    P = linear_start(X, 3)
    assert (P[np.abs(P).argmax(0), range(3)] > 0).all()


def test_the_decoder_of_the_identity_start_is_exact(seed, random_state):
    X = data(seed)
    nets = build_networks(
        X,
        n_components=6,
        hidden_layer_sizes=(8,),
        init="identity",
        module=None,
        device="cpu",
        with_decoder=True,
        rng=random_state,
    )
    np.testing.assert_array_equal(nets.decoder(nets.encoder(X)), X)


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_the_network_is_the_textbook_one(seed, random_state, depth):
    X = data(seed)
    net = mlp(linear_start(X, 3), random_state, hidden_layer_sizes=(5,) * depth, zero_last=False)
    H = X
    for W, b in zip(net.weights[:-1], net.biases[:-1], strict=True):
        H = np.maximum(H @ W + b, 0)
    expected = H @ net.weights[-1] + net.biases[-1] + X @ net.skip
    np.testing.assert_allclose(net(X), expected, atol=1e-12)
    np.testing.assert_array_equal(net.forward(X), net(X))


@pytest.mark.parametrize("zero_last", [False, True])
def test_initial_weights_are_uniform_within_the_usual_bounds(seed, random_state, zero_last):
    net = mlp(np.eye(100), random_state, hidden_layer_sizes=(200, 50), zero_last=zero_last)
    for (n_in, _), W, b in list(zip(net.shapes, net.weights, net.biases, strict=True))[: 2 if zero_last else 3]:
        for values in (W, b):
            assert np.abs(values).max() <= n_in**-0.5
        assert np.abs(W).max() > 0.99 * n_in**-0.5
        assert W.std() == pytest.approx((3 * n_in) ** -0.5, rel=0.05)


def test_theta_is_all_weights_and_nothing_else(random_state):
    net = mlp(np.eye(4, 5), random_state, zero_last=False)
    assert len(net.theta) == 4 * 16 + 16 * 16 + 16 * 5 + 16 + 16 + 5
    net.theta[...] = np.arange(len(net.theta))
    held = np.concatenate([values.ravel() for values in (*net.weights, *net.biases)])
    assert sorted(held) == list(range(len(net.theta)))
    assert [W.shape for W in net.weights] == [(4, 16), (16, 16), (16, 5)]
    assert [b.shape for b in net.biases] == [(16,), (16,), (5,)]


def test_a_copy_has_weights_of_its_own(seed, random_state):
    X = data(seed)
    net = mlp(linear_start(X, 4), random_state, zero_last=False)
    twin, before = net.copy(), net(X)
    np.testing.assert_array_equal(twin(X), before)
    for optimized, other in ((twin, net), (net, twin)):
        kept = other(X)
        optimized.theta += 1
        optimized.gradient += 1
        np.testing.assert_array_equal(other(X), kept)
        assert not other.gradient.any() or other is twin
    assert not np.array_equal(twin(X), before)
    twin.forward(X)
    with pytest.raises(RuntimeError, match="forward"):
        net.backward(before)


def test_a_regression_finds_the_last_layer_and_the_linear_map(seed, random_state):
    X = np.random.default_rng(seed).normal(size=(200, 3))
    other = mlp(linear_start(X, 4), random_state, hidden_layer_sizes=(8, 8), zero_last=False)
    net = other.copy()
    net.skip, net.weights[-1][...] = 2 * net.skip, 0
    before, wanted = net(X), other(X)
    near, opposite = net.regressed(X, [wanted, -wanted], 1e-12)
    np.testing.assert_allclose(near(X), wanted, rtol=0, atol=1e-4)
    np.testing.assert_allclose(opposite(X), -wanted, rtol=0, atol=1e-4)
    (strong,) = net.regressed(X, [wanted], 1e12)
    np.testing.assert_allclose(strong(X), X @ net.skip, rtol=0, atol=1e-4)  # nothing is left of g, and P stays
    np.testing.assert_array_equal(net(X), before)  # other networks are returned


def test_hidden_units_are_placed_in_any_unit_of_the_columns(seed):
    X = np.random.default_rng(seed).normal(size=(200, 3))
    G, psi = (X[:, :2] > 0).astype(float), []
    for unit in (1, 1000):
        net = mlp(np.zeros((3, 2)), np.random.RandomState(seed))
        net.place_hidden(unit * X, G, np.random.RandomState(seed))
        psi.append(net.regressed(unit * X, [G], 1e-2)[0](unit * X))
        np.testing.assert_allclose(np.square(net._layers(unit * X)[-1]).mean(0), 1)
    np.testing.assert_allclose(*psi, atol=1e-9)


def test_networks_of_one_generator_differ_in_hidden_weights_only(random_state):
    first, second = mlp(np.eye(4), random_state), mlp(np.eye(4), random_state)
    assert not np.array_equal(first.weights[0], second.weights[0])
    assert not first.weights[-1].any()
    assert not second.weights[-1].any()


def test_the_first_step_can_leave_the_start(seed, random_state):
    X = data(seed)
    net = mlp(linear_start(X, 4), random_state)
    net.backward(2 * net.forward(X))
    assert np.abs(net.weight_gradients[-1]).max() > 0


def test_weights_come_from_the_generator_alone(seed):
    nets = []
    for global_seed in (1, 2):
        np.random.seed(global_seed)  # noqa: NPY002 (it must not matter)
        nets.append(mlp(np.eye(4), np.random.RandomState(seed)))
    other = mlp(np.eye(4), np.random.RandomState(seed + 1))
    np.testing.assert_array_equal(nets[0].theta, nets[1].theta)
    assert not np.array_equal(nets[0].weights[0], other.weights[0])


# The gradient that is written out


@pytest.mark.parametrize("zero_last", [False, True])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_written_gradient_equals_autograd(seed, random_state, depth, zero_last):
    X, slope, P = data(seed, n=30), data(seed + 1, n=30, d=2), data(seed + 2, n=4, d=2)
    net = mlp(P, random_state, hidden_layer_sizes=(7,) * depth, zero_last=zero_last)
    twin, rows = TorchTwin(net), torch.tensor(X, requires_grad=True)
    Psi = twin(rows)
    Psi.backward(torch.from_numpy(slope))
    for find in (net.backward, net.backward_to_input):
        net.gradient[...] = np.nan  # every entry is written
        np.testing.assert_allclose(net.forward(X), Psi.detach(), atol=1e-12, rtol=0)
        below = find(slope)
        for gradients, params in ((net.weight_gradients, twin.weights), (net.bias_gradients, twin.biases)):
            for found, param in zip(gradients, params, strict=True):
                np.testing.assert_allclose(found, param.grad, atol=1e-12, rtol=0)
    np.testing.assert_allclose(below, rows.grad, atol=1e-12, rtol=0)


def test_the_written_gradient_equals_finite_differences(seed, random_state):
    X, slope, h = data(seed, n=5), data(seed + 1, n=5), 1e-6
    net = mlp(linear_start(X, 4), random_state, zero_last=False)
    net.forward(X)
    net.backward(slope)
    gradient = net.gradient.copy()
    for i in range(0, len(gradient), 17):
        values = []
        for move in (h, -2 * h):
            net.theta[i] += move
            values.append((net.forward(X) * slope).sum())
        net.theta[i] += h
        assert gradient[i] == pytest.approx((values[0] - values[1]) / (2 * h), abs=1e-6)


@pytest.mark.parametrize("find", ["backward", "backward_to_input"])
def test_a_backward_pass_leaves_rows_slope_and_weights_alone(seed, random_state, find):
    X, slope = data(seed), data(seed + 1)
    net = mlp(linear_start(X, 4), random_state, zero_last=False)
    before = X.copy(), slope.copy(), net.theta.copy()
    net.forward(X)
    getattr(net, find)(slope)
    for now, then in zip((X, slope, net.theta), before, strict=True):
        np.testing.assert_array_equal(now, then)


@pytest.mark.parametrize("dtype", DTYPES)
def test_training_keeps_the_precision_of_the_start(seed, random_state, dtype):
    X = data(seed, dtype=dtype)
    net = mlp(linear_start(X, 4), random_state)
    Psi = net.forward(X)
    below = net.backward_to_input(Psi)
    assert {array.dtype for array in (net.theta, net.gradient, Psi, below)} == {np.dtype(dtype)}


@pytest.mark.parametrize("find", ["backward", "backward_to_input"])
def test_a_second_backward_pass_needs_a_forward_pass(seed, random_state, find):
    X = data(seed)
    net = mlp(np.eye(4), random_state)
    with pytest.raises(RuntimeError, match="forward"):
        getattr(net, find)(X)
    slope = np.ones_like(net.forward(X))
    getattr(net, find)(slope)
    with pytest.raises(RuntimeError, match="forward"):
        getattr(net, find)(slope)


# Batches


@pytest.mark.parametrize(("n", "batch_size"), [(60, 20), (61, 20), (59, 20), (7, 64), (100, 3)])
def test_each_pass_visits_every_row_once(random_state, n, batch_size):
    steps = batches(n, batch_size, 3 * n, random_state)
    passes = []
    for _ in range(3):
        visited = next(steps)
        while len(visited) < n:
            rows = next(steps)
            assert len(rows) <= 2 * batch_size
            visited = np.concatenate([visited, rows])
        passes.append(visited)
        assert sorted(visited) == list(range(n))
    assert not np.array_equal(passes[0], passes[1])
    assert not np.array_equal(passes[1], passes[2])


@pytest.mark.parametrize("n_steps", [1, 2, 5, 17])
def test_the_number_of_steps_is_kept(random_state, n_steps):
    assert len(list(batches(50, 20, n_steps, random_state))) == n_steps


def test_batches_repeat_from_the_generator_whatever_the_global_one(seed):
    runs = []
    for global_seed in (1, 2):
        np.random.seed(global_seed)  # noqa: NPY002 (it must not matter)
        runs.append(list(batches(50, 20, 7, np.random.RandomState(seed))))
    assert all(np.array_equal(a, b) for a, b in zip(*runs, strict=True))


# Pre-training


def test_pretraining_brings_psi_close_to_X(seed, random_state):
    X = data(seed, n=100, d=3, dtype=np.float32)
    X = (X - X.mean(0)) / X.std(0)
    P = linear_start(X, 3)
    encoder, decoder = (mlp(np.zeros_like(P), random_state, zero_last=False) for _ in range(2))
    before = np.square(encoder(X) - X).mean()
    pretrain(encoder, decoder, X, P, rng=random_state, max_steps=600)
    Psi = encoder(X)
    after, back = np.square(Psi - X).mean(), np.square(decoder(Psi) - X).mean()
    assert before > 0.3  # of a variance of 1
    assert after < 0.1
    assert back < 0.1


def test_pretraining_towards_fewer_dimensions_aims_at_the_principal_ones(seed, random_state):
    X = data(seed, n=100, dtype=np.float32)
    P = linear_start(X, 2)
    encoder = mlp(np.zeros_like(P), random_state, zero_last=False)
    decoder = mlp(np.zeros_like(P.T), random_state, zero_last=False)
    pretrain(encoder, decoder, X, P, rng=random_state, max_steps=600)
    assert np.square(encoder(X) - X @ P).mean() < 0.1 * np.square(X @ P).mean()


def test_the_slopes_of_pretraining_equal_autograd(seed, random_state):
    X, size = data(seed, n=30), 30
    P = linear_start(X, 2)
    encoder, decoder = (mlp(np.zeros_like(Q), random_state, zero_last=False) for Q in (P, P.T))
    psi, back, rows = TorchTwin(encoder), TorchTwin(decoder), torch.from_numpy(X)
    Psi = psi(rows)
    ((rows @ torch.from_numpy(P) - Psi).square().mean() + (rows - back(Psi)).square().mean()).backward()
    pretrain(encoder, decoder, X, P, rng=random_state, batch_size=size, max_steps=1)  # all rows in one step
    for net, twin in ((encoder, psi), (decoder, back)):
        expected = np.concatenate([param.grad.numpy().ravel() for param in (*twin.weights, *twin.biases)])
        np.testing.assert_allclose(net.gradient, expected, atol=1e-12, rtol=1e-9)


def test_pretraining_takes_the_steps_of_torchs_adam(seed, random_state):
    X = data(seed, n=40)
    P = linear_start(X, 3)
    encoder, decoder = (mlp(np.zeros_like(Q), random_state, zero_last=False) for Q in (P, P.T))
    psi, back, n_steps = TorchTwin(encoder), TorchTwin(decoder), 20
    steps = list(batches(40, 16, n_steps, np.random.RandomState(seed)))
    optimizer = torch.optim.Adam([*psi.parameters(), *back.parameters()])
    for step, places in enumerate(steps):
        rows = torch.from_numpy(X[places])
        Psi = psi(rows)
        optimizer.zero_grad()
        ((rows @ torch.from_numpy(P) - Psi).square().mean() + (rows - back(Psi)).square().mean()).backward()
        optimizer.param_groups[0]["lr"] = 3e-3 * (1 + np.cos(np.pi * step / n_steps)) / 2
        optimizer.step()
    pretrain(encoder, decoder, X, P, rng=np.random.RandomState(seed), batch_size=16, max_steps=n_steps)
    rows = torch.from_numpy(X)
    np.testing.assert_allclose(encoder(X), psi(rows).detach(), atol=1e-7)
    np.testing.assert_allclose(decoder(encoder(X)), back(psi(rows)).detach(), atol=1e-7)


def test_pretraining_stops_when_steps_gain_little(seed, random_state):
    X = data(seed, n=50)
    encoder, decoder = (mlp(np.zeros((4, 4)), random_state, zero_last=False) for _ in range(2))
    before = encoder.copy()
    error = pretrain(encoder, decoder, X, np.eye(4), rng=random_state, check_every=5, min_gain=1.0, max_steps=10**6)
    assert np.isfinite(error)  # after 10 steps, not a million
    assert 0 < np.abs(encoder.theta - before.theta).max() < 0.1


# A user's own module


class Own(nn.Module):
    def __init__(self, d=4):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(d, 6), nn.Tanh(), nn.Linear(6, 2))

    def forward(self, X):
        return self.layers(X)


def own_networks(module, X, random_state, **options):
    settings = {
        "n_components": 4,
        "hidden_layer_sizes": (8,),
        "init": "identity",
        "device": "cpu",
        "with_decoder": True,
    } | options
    return build_networks(X, module=module, rng=random_state, **settings)


def seeded(seed, make):
    """Return a module with weights from a seed."""
    with seeded_torch(seed):
        return make()


def own_encoder(module, X):
    return OwnEncoder(module, "cpu", X[:2])


def frozen(module):
    return module.requires_grad_(False)


def train_a_little(encoder, X, n_steps=5):
    """Take a few plain gradient steps towards zero."""
    for _ in range(n_steps):
        encoder.backward(2 * encoder.forward(X))
        encoder.theta -= 1e-3 * encoder.gradient
        encoder.store()


def test_a_users_module_is_copied_and_never_changed(seed, random_state):
    X, module = data(seed), seeded(seed, Own)
    before = copy_of_weights(module)
    nets = own_networks(module, X, random_state)
    encoder, decoder = nets.encoder, nets.decoder
    expected = copy.deepcopy(module).double()(torch.from_numpy(X)).detach()
    np.testing.assert_allclose(encoder(X), expected, atol=1e-12)
    assert decoder(encoder(X)).shape == (60, 4)
    train_a_little(encoder, X)
    assert not np.allclose(encoder(X), expected)
    after = module.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert next(module.parameters()).dtype == torch.float32
    assert module.training  # as torch makes it
    assert all(param.requires_grad and param.grad is None for param in module.parameters())


def test_an_own_module_needs_no_decoder(seed, random_state):
    nets = own_networks(seeded(seed, Own), data(seed), random_state, with_decoder=False)
    assert isinstance(nets.encoder, OwnEncoder)
    assert nets.decoder is None


@pytest.mark.parametrize("dtype", DTYPES)
def test_an_own_encoder_computes_in_the_precision_of_the_rows(seed, dtype):
    X = data(seed, dtype=dtype)
    encoder = own_encoder(seeded(seed, Own), X)
    Psi = encoder.forward(X)
    encoder.backward(Psi)
    assert {array.dtype for array in (Psi, encoder(X), encoder.theta, encoder.gradient)} == {np.dtype(dtype)}
    assert {param.dtype for param in encoder.module.parameters()} == {torch.from_numpy(X).dtype}


def test_the_gradient_of_an_own_encoder_is_that_of_the_written_network(seed, random_state):
    X, slope = data(seed), data(seed + 1, d=3)
    net = mlp(linear_start(X, 3), random_state, zero_last=False)
    own = own_encoder(TorchTwin(net), X)
    np.testing.assert_array_equal(own.theta, net.theta)  # in the same order
    for encoder in (net, own):
        encoder.forward(X)
        encoder.backward(slope)
    np.testing.assert_allclose(own.forward(X), net(X), atol=1e-12, rtol=0)
    np.testing.assert_allclose(own.gradient, net.gradient, atol=1e-12, rtol=1e-12)


def test_changed_weights_go_into_the_module_on_demand(seed):
    X = data(seed)
    encoder = own_encoder(seeded(seed, Own), X)
    before = copy_of_weights(encoder.module)
    encoder.theta += 1
    assert all(torch.equal(value, before[name]) for name, value in encoder.module.state_dict().items())
    encoder.store()
    for name, value in encoder.module.state_dict().items():
        torch.testing.assert_close(value, before[name] + 1, atol=0, rtol=0)
    again = encoder.copy()
    np.testing.assert_array_equal(again.theta, encoder.theta)
    np.testing.assert_array_equal(again(X), encoder(X))


def test_a_copy_of_an_own_encoder_has_weights_of_its_own(seed):
    X = data(seed)
    encoder = own_encoder(seeded(seed, Own), X)
    twin, before = encoder.copy(), encoder(X)
    train_a_little(twin, X)
    np.testing.assert_array_equal(encoder(X), before)
    assert not np.array_equal(twin(X), before)
    kept = twin(X)
    train_a_little(encoder, X)
    np.testing.assert_array_equal(twin(X), kept)


def test_parameters_that_require_no_gradient_stay(seed):
    module = seeded(seed, lambda: nn.Sequential(frozen(nn.Linear(4, 6)), nn.Tanh(), nn.Linear(6, 2)))
    X = data(seed)
    encoder = own_encoder(module, X)
    assert len(encoder.theta) == 6 * 2 + 2
    before = copy_of_weights(encoder.module)
    train_a_little(encoder, X)
    after = encoder.module.state_dict()
    assert {name for name in before if torch.equal(before[name], after[name])} == {"0.weight", "0.bias"}


@pytest.mark.parametrize("make", [nn.Identity, lambda: frozen(nn.Linear(4, 4)), lambda: frozen(Own())])
def test_a_module_without_anything_to_train_stays_as_it_is(seed, make):
    X = data(seed)
    encoder = own_encoder(seeded(seed, make), X)
    before = encoder(X)
    train_a_little(encoder, X)
    np.testing.assert_array_equal(encoder.copy()(X), before)
    assert len(encoder.theta) == len(encoder.gradient) == 0


def test_lazy_layers_get_their_sizes_from_the_rows(seed):
    X, module = data(seed), nn.Sequential(nn.LazyLinear(6), nn.Tanh(), nn.LazyLinear(2))
    encoder = seeded(seed, lambda: own_encoder(module, X))
    assert len(encoder.theta) == 4 * 6 + 6 + 6 * 2 + 2
    before = encoder(X)
    train_a_little(encoder, X)
    assert not np.array_equal(encoder(X), before)
    assert module[0].has_uninitialized_params()  # it is not changed


def test_weights_that_the_output_does_not_use_get_no_gradient(seed):
    class Spare(Own):
        def __init__(self):
            super().__init__()
            self.spare = nn.Linear(3, 3)

    X = data(seed)
    encoder = own_encoder(seeded(seed, Spare), X)
    encoder.gradient[...] = np.nan
    encoder.backward(encoder.forward(X))
    assert not encoder.gradient[-12:].any()
    assert encoder.gradient[:-12].all()


def test_weights_in_two_places_are_trained_as_one(seed):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(4, 4)
            self.second = self.first

        def forward(self, X):
            return self.second(torch.tanh(self.first(X)))

    X = data(seed)
    encoder = own_encoder(seeded(seed, Tied), X)
    assert len(encoder.theta) == 4 * 4 + 4
    train_a_little(encoder.copy(), X)
    assert encoder.module.first.weight is encoder.module.second.weight


def test_dropout_is_on_in_training_only(seed):
    X = np.abs(data(seed, n=400)) + 1
    encoder = own_encoder(nn.Dropout(0.5), X)
    np.testing.assert_array_equal(encoder(X), X)
    with seeded_torch(seed):
        first, second = encoder.forward(X), encoder.forward(X)
    assert 0.4 < (first == 0).mean() < 0.6
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(encoder(X), X)
    np.testing.assert_array_equal(encoder.copy()(X), X)


def test_the_gradient_is_that_of_the_units_that_dropout_left(seed):
    X = data(seed)
    module = seeded(seed, lambda: nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5)))
    encoder = own_encoder(module, X)
    with seeded_torch(seed):
        kept = encoder.forward(X) != 0
        encoder.backward(np.ones((60, 3)))
    np.testing.assert_allclose(encoder.gradient[-3:], 2 * kept.sum(0))  # of the biases


def test_buffers_follow_the_training_and_belong_to_each_copy(seed):
    X = data(seed) + 3
    module = nn.BatchNorm1d(4)
    encoder = own_encoder(module, X)
    twin = encoder.copy()
    encoder(X)
    assert not encoder.module.running_mean.any()  # only training changes them
    for _ in range(200):
        encoder.forward(X)
    np.testing.assert_allclose(encoder.module.running_mean, X.mean(0), rtol=1e-6)
    np.testing.assert_allclose(encoder(X).mean(0), 0, atol=1e-6)
    for untouched in (module, twin.module):
        assert not untouched.running_mean.any()
        assert (untouched.running_var == 1).all()
    again = encoder.copy()
    np.testing.assert_array_equal(again(X), encoder(X))


def test_an_own_encoder_works_where_gradients_are_switched_off(seed):
    X = data(seed)
    encoder = own_encoder(seeded(seed, Own), X)
    with torch.no_grad():
        encoder.backward(encoder.forward(X))
    assert encoder.gradient.any()


def test_a_trained_module_becomes_a_row_encoder(seed):
    X = data(seed)
    encoder = own_encoder(seeded(seed, Own), X)
    train_a_little(encoder, X)
    rows_of = row_encoder(encoder.copy(), np.float64, torch.device("cpu"))
    assert isinstance(rows_of, TorchEncoder)
    assert rows_of.kind == "module"
    np.testing.assert_array_equal(rows_of(X), encoder(X))
    assert not any(param.requires_grad for param in rows_of.net.parameters())


def test_seeded_torch_repeats_and_leaves_the_host_alone(seed):
    before = torch.get_rng_state()
    draws = []
    for _ in range(2):
        with seeded_torch(seed):
            draws.append(torch.rand(5))
    with seeded_torch(seed + 1):
        draws.append(torch.rand(5))
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    assert torch.equal(torch.get_rng_state(), before)
    with torch.inference_mode(), seeded_torch(seed):
        assert torch.is_grad_enabled()
        assert not torch.is_inference_mode_enabled()
