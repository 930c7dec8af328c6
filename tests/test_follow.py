"""Training psi to follow a given partition, however hard, and keeping what agrees with it."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist, pdist
from sklearn.metrics import adjusted_rand_score
from torch import nn

from knet import KNet
from knet.datasets import make_moon
from knet.start import choice
from knet.start.choice import Choice
from knet.start.judge import Verdict
from knet.train import follow as follow_module
from knet.train.follow import follow, group_means, spread_points, targets
from knet.train.keep import MAX_LOSS, NearStart
from knet.train.networks import ResidualMLP, linear_start

pytestmark = pytest.mark.filterwarnings("ignore::knet.exceptions.KNetConvergenceWarning")


# Partitions that are hard to follow: rows that must part lie near each other


def wound_curves(seed, n=500):
    """Return two curves in space, wound around each other like the strands of a rope."""
    rng = np.random.default_rng(seed)
    y, along = np.arange(n) % 2, rng.uniform(0, 1, n)
    angle = 2 * np.pi * 3 * along + np.pi * y
    X = np.column_stack([4 * along, 0.2 * np.cos(angle), 0.2 * np.sin(angle)])
    return X + 0.02 * rng.normal(size=X.shape), y


def spiral_arms(seed, n=450):
    """Return three arms that wind around the origin."""
    rng = np.random.default_rng(seed)
    y, along = np.arange(n) % 3, np.sqrt(rng.uniform(0.02, 1, n))
    angle = 2 * np.pi * (1.5 * along + y / 3)
    X = along[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    return X + 0.02 * rng.normal(size=X.shape), y


def stripes(seed, n=800):
    """Return eight narrow parallel stripes, tilted, with gaps of a third of their distance."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 8
    X = np.column_stack([(y + 0.67 * rng.uniform(0, 1, n)) / 8, rng.uniform(0, 1, n)])
    return X @ [[0.8, -0.6], [0.6, 0.8]], y


def thin_rings(seed, n=800):
    """Return four rings around the origin with gaps of a fifth of their distance."""
    rng = np.random.default_rng(seed)
    y = rng.choice(4, n, p=[0.1, 0.2, 0.3, 0.4])
    radius, angle = y + 0.5 + 0.8 * rng.uniform(0, 1, n), rng.uniform(0, 2 * np.pi, n)
    return radius[:, None] * np.column_stack([np.cos(angle), np.sin(angle)]), y


def overlapping(seed, n=600):
    """Return overlapping Gaussian groups in eight columns; each row belongs to the group of the largest density."""
    rng = np.random.default_rng(seed)
    means, scales, y = rng.normal(size=(6, 8)), rng.uniform(0.5, 1.5, (6, 8)), rng.integers(0, 6, n)
    X = means[y] + scales[y] * rng.normal(size=(n, 8))
    logs = [-(((X - m) / s) ** 2).sum(1) / 2 - np.log(s).sum() for m, s in zip(means, scales, strict=True)]
    return X, np.argmax(logs, axis=0)


HARD = [wound_curves, spiral_arms, stripes, thin_rings, overlapping]


def tensors(X, y):
    return torch.from_numpy((X - X.mean(0)) / X.std(0)).float(), y.astype(np.int64)


def encoder_of(X, n_components, seed=0, width=128):
    generator = torch.Generator().manual_seed(seed)
    P = linear_start(X, n_components)
    return ResidualMLP(P, hidden_layer_sizes=(width, width), generator=generator)


@pytest.mark.parametrize("make", HARD)
def test_hard_partitions_are_followed(make):
    X, y = tensors(*make(0))
    encoder = encoder_of(X, max(X.shape[1] + 1, y.max()))
    side = 3.0
    agreement = follow(encoder, X, y, side, torch.Generator().manual_seed(0))
    with torch.no_grad():
        Psi = encoder(X)
    centers = group_means(Psi, torch.from_numpy(y))
    nearest = torch.cdist(Psi, centers).argmin(1).numpy()
    assert agreement == pytest.approx(adjusted_rand_score(y, nearest))
    assert agreement > 0.97
    assert pdist(centers).min() > side / 3  # targets are one side apart


def test_following_ends_after_the_first_stage_that_is_good_enough(seed, monkeypatch):
    monkeypatch.setattr(follow_module, "STAGES", (60, 90, 120))
    stages, original = [], follow_module._approach
    monkeypatch.setattr(follow_module, "_approach", lambda *args: stages.append(len(args[5])) or original(*args))
    rng = np.random.default_rng(seed)
    easy = rng.normal(size=(100, 2)) + 20 * np.repeat([[0], [1]], 50, axis=0)
    X, y = tensors(easy, np.repeat([0, 1], 50))
    assert follow(encoder_of(X, 3), X, y, 2.0, torch.Generator().manual_seed(seed)) == 1
    assert stages == [60]
    stages.clear()
    follow(encoder_of(X, 3), X, rng.integers(0, 2, 100), 2.0, torch.Generator().manual_seed(seed))
    assert stages == [60, 90, 120]  # random groups are not followed so fast


def test_the_same_generator_repeats_to_the_bit():
    X, y = tensors(*spiral_arms(0, 150))
    weights = []
    for _ in range(2):
        encoder = encoder_of(X, 3)
        follow(encoder, X, y, 2.0, torch.Generator().manual_seed(5))
        weights.append(encoder(X).detach())
    assert torch.equal(*weights)


def test_an_own_module_follows_too():
    X = torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
    y = (X[:, 0] * X[:, 1] > 0).long().numpy()  # opposite quadrants
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoder = nn.Sequential(
            nn.Linear(2, 64), nn.Dropout(0.01), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 2)
        )
    assert follow(encoder, X, y, 2.0, torch.Generator().manual_seed(0)) > 0.9
    assert not encoder.training


# Targets


@pytest.mark.parametrize(("n_points", "n_components"), [(2, 1), (2, 5), (3, 2), (5, 4), (10, 64), (65, 64)])
def test_a_simplex_has_equal_sides(n_points, n_components):
    points = spread_points(n_points, n_components)
    assert points.shape == (n_points, n_components)
    np.testing.assert_allclose(pdist(points), 1, rtol=1e-9)
    np.testing.assert_allclose(points.mean(0), 0, atol=1e-12)


@pytest.mark.parametrize(("n_points", "n_components"), [(4, 2), (12, 3), (40, 5), (100, 64)])
def test_points_on_a_sphere_have_distance_1_and_the_same_length(n_points, n_components):
    points = spread_points(n_points, n_components)
    lengths = np.linalg.norm(points, axis=1)
    assert pdist(points).min() == pytest.approx(1)
    np.testing.assert_allclose(lengths, lengths[0])
    assert np.array_equal(points, spread_points(n_points, n_components))


def test_repelled_points_are_nearly_optimal():
    for n in (4, 7, 12):  # a regular polygon
        assert np.linalg.norm(spread_points(n, 2)[0]) == pytest.approx(1 / (2 * math.sin(math.pi / n)), rel=0.02)
    assert np.linalg.norm(spread_points(12, 3)[0]) == pytest.approx(0.951, rel=0.02)  # an icosahedron of side 1


def test_points_on_a_line_are_equal_steps():
    assert spread_points(4, 1).ravel().tolist() == [-1.5, -0.5, 0.5, 1.5]


def test_a_single_point_is_the_origin():
    assert not spread_points(1, 3).any()


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 8), st.integers(1, 6), st.floats(0.1, 50), st.integers(0, 10**6))
def test_targets_are_spread_points_moved_without_change_of_shape(n_groups, n_components, side, seed):
    means = 5 * np.random.default_rng(seed).normal(size=(n_groups, n_components))
    placed = targets(means, side)
    expected = side * np.sort(pdist(spread_points(n_groups, n_components)))
    np.testing.assert_allclose(np.sort(pdist(placed)), expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize(("n_groups", "n_components"), [(3, 2), (5, 6), (6, 1), (9, 3)])
def test_means_that_are_in_place_stay_there(rng, n_groups, n_components):
    rotation = np.linalg.qr(rng.normal(size=(n_components, n_components)))[0]
    means = 7 * spread_points(n_groups, n_components) @ rotation
    means = rng.permutation(means - means.mean(0) + rng.normal(size=n_components))
    if n_components == 1 or n_groups <= n_components + 1:  # otherwise an assignment can be a local optimum
        placed = targets(means, 7)
        np.testing.assert_allclose(placed, means, atol=1e-6)
    near = targets(means + 0.01 * rng.normal(size=means.shape), 7)
    assert np.square(near - means).sum() <= np.square(7 * spread_points(n_groups, n_components) - means).sum()


def test_every_group_goes_to_the_target_on_its_side():
    means = np.array([[10.0, 0.1], [-9.0, 0.0]])
    placed = targets(means, 2.0)
    assert cdist(means, placed).argmin(1).tolist() == [0, 1]
    assert placed[0, 0] > placed[1, 0]


def test_group_means_of_some_rows(rng):
    Psi, groups = torch.from_numpy(rng.normal(size=(20, 3))), torch.from_numpy(np.arange(20) % 4)
    expected = np.stack([Psi.numpy()[np.arange(20) % 4 == group].mean(0) for group in range(4)])
    np.testing.assert_allclose(group_means(Psi, groups).numpy(), expected)
    groups[groups == 2] = 3
    assert not group_means(Psi, groups)[2].any()  # of an empty group


# What is kept


def linear(P):
    """Return an encoder that is the linear map P."""
    P = torch.tensor(P, dtype=torch.float64)
    return ResidualMLP(P, hidden_layer_sizes=(4,), generator=torch.Generator().manual_seed(0))


def iteration(index, n=200):
    """Return the number of an iteration and its U."""
    return index, torch.full((n, 1), float(index))


GOOD, BETTER, BAD = [[1.0, 0.0], [0.0, 1.0]], [[2.0, 0.0], [0.0, 1.0]], [[0.0, 0.0], [0.0, 1.0]]


def near_start(seed, first=GOOD):
    rng = np.random.default_rng(seed)
    X = torch.from_numpy(rng.normal(size=(200, 2)) + 50 * np.repeat([[0.0, 0.0], [1.0, 0.0]], 100, axis=0))
    return X, NearStart(X, np.repeat([0, 1], 100), 2, 0, linear(first), torch.zeros(200, 1))


def test_the_start_is_kept_if_the_first_iteration_leaves_it(seed):
    X, keeper = near_start(seed)
    assert keeper.agreement == 1
    assert not keeper.see(*iteration(1), linear(BAD))  # training ends
    assert keeper.kept.iteration == 0
    assert not keeper.kept.U.any()
    torch.testing.assert_close(keeper.kept.encoder(X), X)
    assert adjusted_rand_score(keeper.start, cdist(X.numpy(), keeper.kept.centers).argmin(1)) == 1


def test_the_last_iteration_that_agrees_is_kept(seed):
    X, keeper = near_start(seed)
    assert keeper.see(*iteration(1), linear(GOOD))
    assert keeper.see(*iteration(2), linear(BETTER))
    assert not keeper.see(*iteration(3), linear(BAD))
    assert keeper.kept.iteration == 2
    assert float(keeper.kept.U[0, 0]) == 2.0
    torch.testing.assert_close(keeper.kept.encoder(X), X * torch.tensor([2.0, 1.0]))


def test_a_start_that_was_not_followed_can_be_improved(seed):
    _, keeper = near_start(seed, first=BAD)
    assert keeper.agreement < 0.5
    assert keeper.see(*iteration(1), linear(GOOD))
    assert keeper.agreement == 1
    assert keeper.kept.iteration == 1
    assert not keeper.see(*iteration(2), linear(BAD))  # measured by the best, not by the first


@pytest.mark.parametrize(("n_wrong", "agrees"), [(0, True), (20, False)])
def test_a_small_loss_is_allowed(n_wrong, agrees):
    _, keeper = near_start(0)
    X = keeper.X.clone()
    if n_wrong:
        X[:n_wrong, 0] += 50  # these rows change the side
    keeper.X = X
    assert keeper.see(*iteration(1), linear(GOOD)) == agrees
    assert keeper.agreement == 1
    assert MAX_LOSS < 0.01


def test_starts_with_empty_groups_are_compared_too():
    X = torch.from_numpy(np.repeat([[0.0, 0.0], [5.0, 0.0]], 20, axis=0))
    keeper = NearStart(X, np.repeat([0, 1], 20), 4, 0, linear(GOOD), torch.zeros(40, 1))
    assert keeper.kept.centers.shape == (4, 2)
    assert np.isfinite(keeper.kept.centers).all()
    assert keeper.agreement == 1


def test_what_is_kept_is_not_trained_further(seed):
    X, keeper = near_start(seed)
    encoder = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Identity()).double()
    with torch.no_grad():
        encoder[0].weight.copy_(torch.eye(2))
        keeper.see(*iteration(1), encoder)
        encoder[0].weight.zero_()  # as later gradient steps change it
    torch.testing.assert_close(keeper.kept.encoder(X), X)


# A fit is never below its own start


def start_from(monkeypatch, y):
    """Make every fit of as many rows start from the partition y."""
    verdict = Verdict(0.1, 1.0, np.zeros(len(y)), 0.0)
    row = {"method": "given", "conductance": 0.1, "gain": 0.0, "score": 0.0, "chosen": True}
    chosen = Choice(y.astype(np.int64), "given", verdict, [row])
    monkeypatch.setattr(choice, "choose_from", lambda pool, judge, n_clusters: chosen)


@pytest.mark.parametrize("make", HARD)
def test_a_default_fit_is_never_below_its_own_start(monkeypatch, make):
    X, y = make(1)
    start_from(monkeypatch, y)
    model = KNet(y.max() + 1, random_state=0).fit(X)
    assert model.start_labels_.tolist() == y.tolist()
    assert model.selection_[0]["method"] == "given"
    assert adjusted_rand_score(y, model.labels_) >= 0.97
    assert model.predict(X).tolist() == model.labels_.tolist()


def test_random_groups_are_kept_as_far_as_psi_can_follow_them(monkeypatch):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), rng.integers(0, 2, 60)
    start_from(monkeypatch, y)
    assert adjusted_rand_score(y, KNet(2, random_state=0).fit(X).labels_) > 0.5
    alone = KNet(2, sigma="median", n_init=1, random_state=0).fit(X)  # knows nothing of y
    assert adjusted_rand_score(y, alone.labels_) < 0.2


@pytest.mark.parametrize("scale", ["auto", "standard", "none"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_starts_are_followed_in_any_precision_and_scale(monkeypatch, dtype, scale):
    X, y = spiral_arms(0, 300)
    start_from(monkeypatch, y)
    model = KNet(3, random_state=0, scale=scale).fit(X.astype(dtype))
    assert adjusted_rand_score(y, model.labels_) >= 0.97


def test_as_many_components_as_targets_need(monkeypatch):
    X, y = stripes(0, 400)
    start_from(monkeypatch, y)
    model = KNet(8, random_state=0, max_iter=1).fit(X)
    assert model.cluster_centers_.shape == (8, 7)


def test_an_own_encoder_is_kept_as_it_was_when_it_agreed(seed):
    X, y = make_moon(150, random_state=seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 3))
    # At this learning rate, iterations soon leave the start.
    model = KNet(2, encoder=module, learning_rate=0.1, random_state=seed).fit(X)
    assert adjusted_rand_score(model.start_labels_, model.labels_) > 0.97
    assert adjusted_rand_score(y, model.labels_) > 0.97
