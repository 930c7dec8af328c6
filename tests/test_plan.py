"""The kernel's width and the number of training rows, chosen from the data."""

import numpy as np
import pytest
import torch
from knet.train.plan import MEDIAN_ROWS, POOL_ROWS, SMALL_DATA, SUBSET_SIZES, make_plan, median_distance, subset_size
from scipy.spatial.distance import pdist
from sklearn.datasets import make_blobs

from knet.datasets import make_spirals
from knet.metrics import rand_index
from knet.prepare.scaling import learn_scaling
from knet.train import kernels, laplacians
from knet.train import plan as planning
from knet.train.settings import Settings
from tests.estimators import make_knet


def normal(seed, n, d=3):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=(n, d)))


def state(seed):
    return np.random.RandomState(seed)


# The median distance


@pytest.mark.parametrize("n", [2, 3, 50, 51])
def test_median_distance_equals_scipy(seed, n):
    X = normal(seed, n)
    distances = np.sort(pdist(X))
    lower = distances[(len(distances) - 1) // 2]  # torch takes the lower of the two in the middle
    assert median_distance(X, state(seed)) == pytest.approx(lower, rel=1e-12)


def test_median_distance_of_hand_computed_rows():
    X = torch.tensor([[0.0], [1.0], [3.0]])  # distances 1, 2, 3
    assert median_distance(X, state(0)) == pytest.approx(2.0)


def test_median_distance_of_many_rows_is_close_to_that_of_all(seed):
    X = normal(seed, 2 * MEDIAN_ROWS)
    assert median_distance(X, state(seed)) == pytest.approx(np.median(pdist(X)), rel=0.02)


def test_duplicates_do_not_make_the_median_zero():
    X = torch.tensor([[0.0]] * 20 + [[2.0], [5.0]])
    assert median_distance(X, state(0)) > 0


def test_equal_rows_have_distance_zero():
    assert median_distance(torch.ones(10, 3), state(0)) == 0.0


def test_median_distance_scales_with_the_data(seed):
    X = normal(seed, 60)
    for factor in (1e-12, 1e12):
        assert median_distance(factor * X, state(seed)) == pytest.approx(factor * median_distance(X, state(seed)))


# sigma and the plan


def plan(X, sigma="median", sigma_scale=1.0, train_size="auto", n_clusters=2, seed=0):
    model = make_knet(n_clusters, sigma=sigma, sigma_scale=sigma_scale, train_size=train_size)
    settings = Settings.resolve(model.get_params(deep=False), X.shape[1])
    return make_plan(X.numpy(), learn_scaling(X.numpy(), "none"), settings, state(seed))


def test_sigma_as_a_number_is_taken_as_it_is(seed):
    assert plan(normal(seed, 30), sigma=0.37, sigma_scale=5.0).sigma == 0.37


@pytest.mark.parametrize("sigma_scale", [0.1, 1.0, 3.0])
def test_the_median_is_multiplied_by_sigma_scale(seed, sigma_scale):
    X = normal(seed, 30)
    assert plan(X, sigma_scale=sigma_scale).sigma == pytest.approx(sigma_scale * median_distance(X, state(0)))


@pytest.mark.parametrize("rule", ["median", "auto"])
def test_sigma_is_positive_even_for_equal_rows(rule):
    assert plan(torch.ones(30, 2), sigma=rule).sigma > 0


def test_auto_sigma_is_positive_and_within_reach_of_the_data(seed):
    X = normal(seed, 200)
    chosen = plan(X, sigma="auto", n_clusters=3, seed=seed)
    assert 0 < chosen.sigma < 10 * median_distance(X, state(seed))
    assert chosen.start.shape == (200,)
    assert set(chosen.start) == {0, 1, 2}


@pytest.mark.parametrize(("train_size", "n_train"), [(40, 40), (0.25, 25), (1.0, 100), ("auto", 100), (1000, 100)])
def test_training_rows_are_counted_or_a_share(train_size, n_train):
    chosen = plan(normal(0, 100), train_size=train_size)
    assert len(chosen.rows) == n_train
    assert chosen.rows.tolist() == sorted(set(chosen.rows.tolist()))


# The rows that the start is chosen on, and those of Algorithm 1


def small_limits(monkeypatch, **limits):
    for name, value in ({"START_ROWS": 120, "SMALL_DATA": 50, "ROWS_PER_CLUSTER": 10} | limits).items():
        monkeypatch.setattr(planning, name, value)


@pytest.mark.parametrize(
    ("train_size", "n_train", "n_start", "n_core"),
    [("auto", 120, 120, 50), (300, 300, 120, 50), (0.5, 200, 120, 50), (80, 80, 80, 50), (30, 30, 30, 30)],
)
def test_start_and_core_are_bounded(monkeypatch, train_size, n_train, n_start, n_core):
    sizes, original = [], planning.choose_start
    monkeypatch.setattr(planning, "choose_start", lambda X, *rest: sizes.append(len(X)) or original(X, *rest))
    small_limits(monkeypatch)
    X, y = make_blobs(400, centers=[[0, 0], [50, 0]], random_state=0)
    found = plan(torch.from_numpy(X) / 10, sigma="auto", train_size=train_size)
    assert (len(found.rows), sizes, len(found.core)) == (n_train, [n_start], n_core)
    assert found.rows.tolist() == sorted(set(found.rows.tolist()))
    assert found.core.tolist() == sorted(set(found.core.tolist()))
    assert found.core.max() < n_train
    np.testing.assert_allclose(found.X, X[found.rows] / 10)
    assert rand_index(found.start, y[found.rows]) == 1  # rows beyond the start are labelled by their neighbours


def test_many_clusters_ask_for_a_larger_core(monkeypatch):
    small_limits(monkeypatch)
    found = plan(normal(0, 400), sigma="auto", n_clusters=9)
    assert len(found.core) == 90
    assert len(found.rows) == 120


def test_very_many_clusters_are_chosen_on_fewer_rows(monkeypatch):
    small_limits(monkeypatch, START_PAIRS=800)
    sizes, original = [], planning.choose_start
    monkeypatch.setattr(planning, "choose_start", lambda X, *rest: sizes.append(len(X)) or original(X, *rest))
    followed = [len(plan(normal(0, 400), sigma="auto", n_clusters=c).rows) for c in (4, 8, 10)]
    assert sizes == [120, 100, 100]
    assert followed == [120, 120, 120]  # psi follows it on more


def test_sigma_after_following_is_half_the_median(seed):
    X = normal(seed, 100)
    found = plan(X, sigma="auto", sigma_scale=3.0, seed=seed)
    rng = state(seed)
    order = rng.permutation(100)
    assert found.sigma == pytest.approx(3.0 * 0.5 * median_distance(X[torch.from_numpy(order)], rng))


@pytest.mark.parametrize(("n_clusters", "sigma"), [(1, "auto"), (49, "auto"), (50, "auto"), (3, "median"), (3, 0.5)])
def test_other_fits_have_no_partition_and_use_all_their_rows(n_clusters, sigma):
    found = plan(normal(0, 50), sigma=sigma, n_clusters=n_clusters)
    assert found.start is None
    assert found.considered == []
    assert found.core.tolist() == list(range(50))


@pytest.mark.parametrize(
    ("d", "n_clusters", "n_components", "expected"),
    [
        (2, 2, "auto", 3),
        (2, 10, "auto", 9),
        (8, 10, "auto", 9),
        (20, 10, "auto", 21),
        (2, 200, "auto", 64),
        (100, 200, "auto", 101),
        (2, 10, None, 2),
        (2, 10, 5, 5),
    ],
)
def test_the_embedding_has_room_for_all_targets(d, n_clusters, n_components, expected):
    model = make_knet(n_clusters, n_components=n_components)
    settings = Settings.resolve(model.get_params(deep=False), d)
    assert settings.n_components(from_partition=True) == expected
    if n_components == "auto":
        assert settings.n_components(from_partition=False) == d + 1


# The number of training rows


@pytest.mark.parametrize("n", [2, 100, SMALL_DATA])
def test_small_data_is_taken_whole(seed, n):
    assert subset_size(normal(seed, n), n, 1.0, 3) == n


def test_an_easy_spectrum_needs_the_fewest_rows(seed):
    X = make_blobs(5000, centers=3, cluster_std=0.1, random_state=seed)[0]
    assert subset_size(torch.from_numpy(X), 5000, 1.0, 3) == SUBSET_SIZES[0]


def test_a_stricter_tolerance_needs_at_least_as_many_rows(monkeypatch, seed):
    monkeypatch.setattr(planning, "SUBSET_SIZES", (100, 300, 900))
    X = torch.from_numpy(make_spirals(5000, random_state=seed)[0])
    X = X[torch.from_numpy(np.random.default_rng(seed).permutation(5000))]
    sizes = [subset_size(X, 5000, 0.1, 3, tol=tol) for tol in (0.5, 0.05, 0.01, 0.0)]
    assert sizes == sorted(sizes)
    assert sizes[0] == 100
    assert sizes[-1] == 900


@pytest.mark.parametrize("n_clusters", [20, 100])
def test_many_clusters_ask_for_many_rows(seed, n_clusters):
    X = make_blobs(5000, centers=3, cluster_std=0.1, random_state=seed)[0]
    assert subset_size(torch.from_numpy(X), 5000, 1.0, n_clusters) >= 30 * n_clusters


def test_the_chosen_size_has_a_close_spectrum(seed):
    X = torch.from_numpy(make_spirals(2500, random_state=seed)[0])
    X = X[torch.from_numpy(np.random.default_rng(seed).permutation(2500))]
    size = subset_size(X, 2500, 0.3, 3)
    part, whole = (laplacians.DenseLaplacian(rows, 0.3).largest(3)[0] for rows in (X[:size], X))
    assert size < 2500
    assert float((part - whole).abs().max()) < 0.03  # tol is 0.02, against an estimate of the whole


def test_the_rule_never_forms_a_matrix_of_all_pairs(monkeypatch):
    pool, sizes, original = normal(0, POOL_ROWS, d=2), [], kernels.gaussian_kernel

    def counting(X, Y, sigma):
        sizes.append(len(X) * len(Y))
        return original(X, Y, sigma)

    for module in (kernels, laplacians):
        monkeypatch.setattr(module, "gaussian_kernel", counting)
    monkeypatch.setattr(planning, "SUBSET_SIZES", (300, 500))
    subset_size(pool, 200_000, 0.5, 3, tol=0.0)
    assert sizes
    assert max(sizes) <= max(kernels.BLOCK_BYTES // 8, 2000**2) < POOL_ROWS**2
