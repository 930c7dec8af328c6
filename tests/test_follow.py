"""Training psi to follow a given partition, however hard, as far as held-out rows agree."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import cdist, pdist
from sklearn.metrics import adjusted_rand_score
from torch import nn

from knet import KNet, estimator
from knet.datasets import make_moon
from knet.start.neighbors import neighbor_shares, neighbors
from knet.train.follow import (
    MEASURED_ROWS,
    RIDGES,
    Attempt,
    Split,
    follow,
    gain,
    group_means,
    preferred,
    spread_points,
    targets,
)
from knet.train.networks import ResidualMLP, linear_start
from knet.train.own_encoder import OwnEncoder, seeded_torch
from knet.train.pretrain import batches
from tests.estimators import wrong_rows_change

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


def prepared(X, y):
    return ((X - X.mean(0)) / X.std(0)).astype(np.float32), y.astype(np.int64)


def encoder_of(X, n_components, seed=0, width=128):
    P = linear_start(X, n_components)
    return ResidualMLP(P, hidden_layer_sizes=(width, width), rng=np.random.RandomState(seed))


def near_rows(X, k=10):
    return neighbors(X.astype(np.float64), k).indices


def nearest_groups(Psi, groups):
    return cdist(Psi, group_means(Psi, groups)).argmin(1)


@pytest.mark.parametrize("make", HARD)
def test_hard_partitions_are_followed(make):
    side, agreements = 3.0, []
    for seed in range(4):
        X, y = prepared(*make(seed))
        encoder = encoder_of(X, max(X.shape[1] + 1, y.max()))
        before = encoder.theta.copy()
        followed = follow(encoder, X, y, near_rows(X), side, np.random.RandomState(seed))
        np.testing.assert_array_equal(encoder.theta, before)  # another encoder is returned
        Psi = followed.encoder(X)
        centers, nearest, split = group_means(Psi, y), nearest_groups(Psi, y), followed.split
        measured = cdist(Psi[split.held_out], group_means(Psi[split.measured], y[split.measured])).argmin(1)
        np.testing.assert_array_equal(split.wrong(followed.encoder), measured != y[split.held_out])
        np.testing.assert_array_equal(split.everywhere(followed.encoder), nearest != y)
        np.testing.assert_array_equal(followed.wrong, split.wrong(followed.encoder))
        assert followed.shares.shape == (len(X), y.max() + 1)
        np.testing.assert_allclose(followed.shares.sum(1), 1)
        assert pdist(centers).min() > side / 3  # targets are one side apart
        agreements.append(adjusted_rand_score(y, nearest))
    # Neighbours may correct labels where groups overlap: there, new rows are labelled no worse by averages.
    assert np.mean(agreements) > (0.75 if make is overlapping else 0.95)


def test_held_out_rows_are_measured_against_some_rows_of_each_group(rng):
    y = np.repeat([0, 1, 2], [2, 30, 2000])
    X = rng.normal(size=(len(y), 2)).astype(np.float32)
    split = Split.draw(encoder_of(X, 3), X, y, 2.0, np.random.RandomState(0))
    n_held_out = len(split.held_out)
    np.testing.assert_array_equal(split.measured[:n_held_out], split.held_out)
    others = split.measured[n_held_out:]
    assert len(np.unique(others)) == len(others)
    assert np.isin(others, split.trained).all()
    np.testing.assert_array_equal(np.bincount(y[others]), [2, 24, MEASURED_ROWS])


def test_following_ends_before_the_first_stage_that_gains_nothing(seed, monkeypatch):
    stages, original = [], Split.train
    monkeypatch.setattr(Split, "train", lambda self, net, shares, n: stages.append(n) or original(self, net, shares, n))
    rng = np.random.default_rng(seed)
    easy = rng.normal(size=(100, 2)) + 20 * np.repeat([[0], [1]], 50, axis=0)
    X, y = prepared(easy, np.repeat([0, 1], 50))
    followed = follow(encoder_of(X, 3), X, y, near_rows(X), 2.0, np.random.RandomState(seed))
    assert stages == []  # a regression is enough: all held-out rows get their labels
    assert len(followed.split.held_out) == 20
    stages.clear()
    X, y = prepared(*wound_curves(seed, 1000))  # so many rows that the nearest ones are of the same strand
    follow(encoder_of(X, 4), X, y, near_rows(X), 2.0, np.random.RandomState(seed))
    assert max(stages) > 200  # strands near each other take longer


def test_rows_that_their_neighbours_get_wrong_ask_for_no_gradient_steps(seed, monkeypatch):
    stages, original = [], Split.train
    monkeypatch.setattr(Split, "train", lambda self, net, shares, n: stages.append(n) or original(self, net, shares, n))
    rng = np.random.default_rng(seed)
    values = rng.normal(size=(600, 2))
    X, y = prepared(values, values[:, 0] + rng.normal(0, 0.5, 600) > 0)  # labels are mixed on both sides of the border
    followed = follow(encoder_of(X, 3), X, y, near_rows(X), 2.0, np.random.RandomState(seed))
    assert stages == []
    assert 0.05 < followed.wrong.mean() < 0.3


@pytest.mark.parametrize(("distance", "expected"), [(20, RIDGES[1:]), (2, RIDGES)])
def test_the_penalty_is_weaker_where_groups_are_separated(seed, monkeypatch, distance, expected):
    ridges, original = [], ResidualMLP.regressed
    monkeypatch.setattr(ResidualMLP, "regressed", lambda *args: ridges.append(args[-1]) or original(*args))
    values = np.random.default_rng(seed).normal(size=(400, 2)) + distance * np.repeat([[0], [1]], 200, axis=0)
    X, y = prepared(values, np.repeat([0, 1], 200))
    follow(encoder_of(X, 3), X, y, near_rows(X), 2.0, np.random.RandomState(seed))
    assert tuple(ridges) == expected


@pytest.mark.parametrize(("n_fewer", "needs_steps"), [(0, False), (1, False), (6, True)])
def test_gradient_steps_follow_if_a_weaker_penalty_is_clearly_better(monkeypatch, n_fewer, needs_steps):
    stages, solve, train = [], Split.solve, Split.train

    def with_fewer_wrong(split, *args):
        attempts = solve(split, *args)
        wrong = np.arange(len(split.held_out)) < 10  # as many as a vote gets wrong
        fewer = wrong & (np.arange(len(wrong)) >= n_fewer)
        return [[replace(a, wrong=w) for a in each] for each, w in zip(attempts, (wrong, fewer), strict=True)]

    monkeypatch.setattr(Split, "solve", with_fewer_wrong)
    monkeypatch.setattr(Split, "train", lambda self, net, shares, n: stages.append(n) or train(self, net, shares, n))
    values = np.random.default_rng(0).normal(size=(600, 2))
    X, y = prepared(values, values[:, 0] + np.random.default_rng(1).normal(0, 0.5, 600) > 0)
    follow(encoder_of(X, 3), X, y, near_rows(X), 2.0, np.random.RandomState(0))
    assert bool(stages) == needs_steps


def test_rows_are_held_out_of_every_group_with_enough_rows(seed):
    y = np.repeat([0, 1, 2], [50, 9, 4])
    X = np.random.default_rng(seed).normal(size=(63, 2))
    split = Split.draw(encoder_of(X, 2), X, y, 1.0, np.random.RandomState(seed))
    assert np.bincount(y[split.held_out], minlength=3).tolist() == [10, 1, 0]
    assert sorted([*split.held_out.tolist(), *split.trained.tolist()]) == list(range(63))


def test_training_does_not_see_held_out_rows(seed):
    X, y = prepared(*overlapping(seed, 200))
    encoder, rng = encoder_of(X, 9), np.random.RandomState(seed)
    split = Split.draw(encoder, X, y, 2.0, rng)
    own = np.eye(6)[y]
    before = rng.get_state()
    first = split.train(encoder, own, 30)
    changed = own.copy()
    changed[split.held_out] = np.roll(changed[split.held_out], 1, axis=1)
    rng.set_state(before)
    second = split.train(encoder, changed, 30)
    np.testing.assert_array_equal(first.encoder(X), second.encoder(X))
    solved = []
    for shares in (own, changed):
        rng.set_state(before)
        solved.append(split.solve(encoder, [shares], RIDGES)[0][0].encoder(X))
    np.testing.assert_array_equal(*solved)


@pytest.mark.parametrize("own", [False, True])
def test_solving_and_training_leave_the_given_encoder_alone(seed, own):
    X, y = prepared(*overlapping(seed, 200))
    encoder = OwnEncoder(small_module(seed, 8, 9), "cpu", X) if own else encoder_of(X, 9)
    split = Split.draw(encoder, X, y, 2.0, np.random.RandomState(seed))
    before = encoder.theta.copy(), encoder(X)
    ((solved,), *_), trained = split.solve(encoder, [np.eye(6)[y]], RIDGES), split.train(encoder, np.eye(6)[y], 5)
    np.testing.assert_array_equal(encoder.theta, before[0])
    np.testing.assert_array_equal(encoder(X), before[1])
    assert np.array_equal(solved.encoder(X), before[1]) == own  # regression is for the default network
    assert not np.array_equal(trained.encoder(X), before[1])


def test_an_attempt_is_judged_on_held_out_rows(seed):
    X, y = prepared(*overlapping(seed, 200))
    encoder, shares = encoder_of(X, 9), np.eye(6)[y]
    split = Split.draw(encoder, X, y, 2.0, np.random.RandomState(seed))
    attempt = split.train(encoder, shares, 20)
    Psi, held_out = attempt.encoder(X), split.held_out
    np.testing.assert_array_equal(attempt.wrong, (nearest_groups(Psi, y) != y)[held_out])
    by_group = [attempt.wrong[y[held_out] == group].mean() for group in np.unique(y[held_out])]
    assert attempt.share_wrong == pytest.approx(np.mean(by_group))
    expected = np.square(Psi - shares @ split.goals)[held_out].sum(1).mean()
    assert attempt.error == pytest.approx(expected, rel=1e-5)


def test_following_is_the_same_by_hand_and_by_autograd_and_adam_of_torch(seed):
    X, y = prepared(*overlapping(seed, 150))
    X, n_steps = X.astype(np.float64), 12
    encoder, shares = encoder_of(X, 9, width=16), np.eye(6)[y]
    split = Split.draw(encoder, X, y, 2.0, np.random.RandomState(seed))
    steps = list(batches(len(split.trained), 64, n_steps, np.random.RandomState(seed)))
    layers = [torch.tensor(array, requires_grad=True) for array in (*encoder.weights, *encoder.biases)]
    optimizer, goals = torch.optim.AdamW(layers, weight_decay=0.1), torch.from_numpy(shares @ split.goals)

    def psi(rows):
        H, (weights, biases) = rows, (layers[:3], layers[3:])
        for W, b in zip(weights[:-1], biases[:-1], strict=True):
            H = torch.relu(H @ W + b)
        return H @ weights[-1] + biases[-1] + rows @ torch.from_numpy(encoder.skip)

    for step, places in enumerate(steps):
        rows = split.trained[places]
        optimizer.zero_grad()
        ((psi(torch.from_numpy(X[rows])) - goals[rows]).square().sum(1).mean() / 2.0**2).backward()
        optimizer.param_groups[0]["lr"] = 1e-2 * (1 + math.cos(math.pi * step / n_steps)) / 2
        optimizer.step()
    trained = replace(split, rng=np.random.RandomState(seed)).train(encoder, shares, n_steps)
    np.testing.assert_allclose(trained.encoder(X), psi(torch.from_numpy(X)).detach(), atol=1e-7)


def test_errors_of_the_labels_are_not_followed(seed):
    rng = np.random.default_rng(seed)
    X, y = prepared(rng.normal(size=(600, 4)) + 4 * np.repeat([[0], [1]], 300, axis=0), np.repeat([0, 1], 300))
    noisy = np.where(rng.uniform(size=600) < 0.15, 1 - y, y)
    encoder = encoder_of(X, 5)
    followed = follow(encoder, X, noisy, near_rows(X), 2.0, np.random.RandomState(seed))
    nearest = nearest_groups(followed.encoder(X), noisy)
    assert adjusted_rand_score(y, nearest) > 0.9 > adjusted_rand_score(y, noisy)


@pytest.mark.parametrize(
    ("averaged", "exact", "expected"),
    [
        ([0, 0, 0, 0], [0, 0, 0, 0], "exact"),  # no difference: the chosen partition itself
        ([1, 0, 0, 0], [0, 0, 0, 0], "exact"),
        ([0, 0, 0, 0], [1, 0, 0, 0], "averaged"),
        ([1, 1, 0, 0], [0, 0, 1, 0], "averaged"),  # less than a standard error
        ([1, 1, 1, 1], [0, 0, 0, 0], "exact"),
    ],
)
def test_averaged_targets_are_preferred_unless_exact_ones_are_better(averaged, exact, expected):
    attempts = [
        Attempt(encoder_of(np.zeros((4, 2)), 2), np.zeros((4, 2)), wrong, float(np.mean(wrong)), 1.0)
        for wrong in (np.array(averaged, dtype=bool), np.array(exact, dtype=bool))
    ]
    assert preferred(attempts) is attempts[["averaged", "exact"].index(expected)]
    assert preferred(attempts[:1]) is attempts[0]


def test_gain_is_mcnemars_statistic():
    before, after = np.array([1, 1, 1, 0, 0], dtype=bool), np.array([0, 0, 1, 1, 0], dtype=bool)
    assert gain(before, after) == pytest.approx((2 - 1) / math.sqrt(3))
    assert gain(after, before) == -gain(before, after)
    assert gain(before, before) == 0


def test_shares_count_a_row_and_its_neighbours():
    labels = np.array([0, 0, 0, 0, 0, 1, 1, 1])
    near = np.array([[1, 5], [2, 3], [3, 6], [5, 6], [0, 1], [6, 0], [7, 0], [0, 1]])
    expected = [[2, 1], [3, 0], [2, 1], [1, 2], [3, 0], [0, 2], [0, 2], [1, 1]]  # a group of three: one neighbour
    np.testing.assert_allclose(neighbor_shares(labels, near), np.array(expected) / np.sum(expected, 1, keepdims=True))


def test_the_same_generator_repeats_to_the_bit():
    X, y = prepared(*spiral_arms(0, 150))
    first, second, other = (
        follow(encoder_of(X, 3), X, y, near_rows(X), 2.0, np.random.RandomState(seed)).encoder(X) for seed in (5, 5, 6)
    )
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, other)


def small_module(seed, n_columns, n_components, dropout=0.0):
    with seeded_torch(seed):
        return nn.Sequential(
            nn.Linear(n_columns, 64),
            nn.Dropout(dropout),
            nn.Tanh(),
            nn.Linear(64, 64),
            nn.Tanh(),
            nn.Linear(64, n_components),
        )


def test_an_own_module_follows_too():
    shares_wrong = []
    for seed in range(4):
        X = np.random.default_rng(seed).normal(size=(200, 2)).astype(np.float32)
        y = (X[:, 0] * X[:, 1] > 0).astype(np.int64)  # opposite quadrants
        encoder = OwnEncoder(small_module(seed, 2, 2, dropout=0.01), "cpu", X)
        found = []
        for _ in range(2):
            with seeded_torch(seed):
                followed = follow(encoder, X, y, near_rows(X), 2.0, np.random.RandomState(seed))
            found.append(followed.encoder(X))
        shares_wrong.append(followed.wrong.mean())
        assert not followed.encoder.module.training
        np.testing.assert_array_equal(*found)  # it draws from the seeded generator
    assert np.mean(shares_wrong) < 0.05


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
    Psi, groups = rng.normal(size=(20, 3)), np.arange(20) % 4
    expected = np.stack([Psi[groups == group].mean(0) for group in range(4)])
    np.testing.assert_allclose(group_means(Psi, groups), expected)
    assert group_means(Psi.astype(np.float32), groups).dtype == np.float32
    groups[groups == 2] = 3
    assert not group_means(Psi, groups)[2].any()  # of an empty group


# What is kept of Algorithm 1


def test_iterations_that_lose_held_out_rows_are_not_kept(seed, monkeypatch):
    X, _ = make_moon(300, random_state=seed)
    ruined = KNet(2, learning_rate=10.0, random_state=seed).fit(X)
    assert ruined.n_iter_ == 1
    assert ruined.best_iter_ == 0
    assert adjusted_rand_score(ruined.start_labels_, ruined.labels_[ruined.train_indices_]) > 0.97
    usual = KNet(2, random_state=seed).fit(X)
    assert usual.best_iter_ == usual.n_iter_ > 0


@pytest.mark.parametrize(("change", "n_iter", "best_iter"), [(-1, 3, 3), (0, 1, 1), (1, 1, 0)])
def test_another_iteration_follows_only_if_held_out_rows_gain(change, n_iter, best_iter):
    with wrong_rows_change(change):
        model = KNet(2, max_iter=3, tol=0.0, random_state=0).fit(make_moon(300, random_state=0)[0])
    assert (model.n_iter_, model.best_iter_) == (n_iter, best_iter)


# A fit follows its own start


def start_from(monkeypatch, y):
    """Make every fit of as many rows start from the partition y."""
    original = estimator.choose_start

    def given(*arguments, **options):
        start = original(*arguments, **options)
        return replace(start, labels=y[start.rows].astype(np.int64))

    monkeypatch.setattr(estimator, "choose_start", given)
    monkeypatch.setattr(estimator, "ordered_by_content", lambda X, counted, **_: counted)  # as y is ordered


def by_content(X, y):
    """Rows in the order in which a fit uses them."""
    order = np.lexsort(X.T[::-1])
    return X[order], y[order]


@pytest.mark.parametrize("make", HARD)
def test_a_default_fit_follows_its_own_start(monkeypatch, make):
    X, y = by_content(*make(1))
    start_from(monkeypatch, y)
    model = KNet(y.max() + 1, random_state=0).fit(X)
    assert model.start_labels_.tolist() == y[model.train_indices_].tolist()
    assert adjusted_rand_score(y, model.labels_) >= (0.7 if make is overlapping else 0.95)
    assert model.predict(X).tolist() == model.labels_.tolist()


@pytest.mark.parametrize("scale", ["auto", "standard", "none"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_starts_are_followed_in_any_precision_and_scale(monkeypatch, dtype, scale):
    X, y = by_content(*spiral_arms(0))  # with fewer rows, neighbours are often of another arm
    start_from(monkeypatch, y)
    model = KNet(3, random_state=0, scale=scale).fit(X.astype(dtype))
    assert adjusted_rand_score(y, model.labels_) >= 0.97


def test_as_many_components_as_targets_need(monkeypatch):
    X, y = stripes(0, 400)
    start_from(monkeypatch, y)
    model = KNet(8, random_state=0, max_iter=1).fit(X)
    assert model.cluster_centers_.shape == (8, 7)


def test_an_own_encoder_is_kept_as_it_was_when_it_agreed(seed):
    X, y = make_moon(600, random_state=seed)  # 120 held-out rows notice what is lost
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        module = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 3))
    # At this learning rate, iterations soon leave the start.
    model = KNet(2, encoder=module, learning_rate=10.0, random_state=seed).fit(X)
    assert adjusted_rand_score(model.start_labels_, model.labels_[model.train_indices_]) > 0.97
    assert adjusted_rand_score(y, model.labels_) > 0.97
