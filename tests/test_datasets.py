"""The generated datasets have the geometry of the paper's files, and accept any size and seed."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from knet.datasets import make_moon, make_spirals

PAPER = Path(__file__).parents[2] / "shared" / "datasets" / "paper"
SEEDS = [0, 1, 2]
MAKERS = [make_moon, make_spirals]


def read_paper(name):
    if not (PAPER / f"{name}.csv").exists():
        pytest.skip(f"the paper's file {name}.csv is not in ../shared/datasets/paper")
    X = np.loadtxt(PAPER / f"{name}.csv", delimiter=",")
    y = np.loadtxt(PAPER / f"{name}_label.csv").astype(np.int64)
    return X, y - y.min()


def test_shapes_and_dtypes():
    for make in MAKERS:
        X, y = make(n_samples=300, random_state=0)
        assert X.shape == (300, 2)
        assert y.shape == (300,)
        assert X.dtype == np.float64
        assert y.dtype == np.int64
        assert np.isfinite(X).all()


def test_default_sizes_are_the_papers():
    assert np.bincount(make_moon()[1]).tolist() == [500, 500]
    assert np.bincount(make_spirals()[1]).tolist() == [1000, 1000, 1000]


def test_any_size_is_divided_evenly_and_sorted_by_class():
    for n_samples, n_arms in product((5, 100, 101, 104), (1, 2, 3, 5)):
        _, y = make_spirals(n_samples, n_arms, random_state=0)
        sizes = np.bincount(y, minlength=n_arms)
        assert len(y) == n_samples
        assert sizes.max() - sizes.min() <= 1
        assert (np.diff(y) >= 0).all()


def test_same_seed_same_data_other_seed_other_data():
    for make, seed in product(MAKERS, SEEDS):
        X, _ = make(random_state=seed)
        assert np.array_equal(X, make(random_state=seed)[0])
        assert not np.array_equal(X, make(random_state=seed + 1)[0])


def test_generators_and_random_states_are_seeds_too():
    for make in MAKERS:
        for source in (np.random.default_rng, np.random.RandomState):
            assert np.array_equal(make(random_state=source(4))[0], make(random_state=source(4))[0])


def test_the_global_random_state_is_untouched():
    for make in MAKERS:
        before = np.random.get_state()[1].copy()  # noqa: NPY002 (it is the global state that is looked at)
        make()
        make(random_state=0)
        assert np.array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_moon_without_noise_lies_on_its_parabolas():
    X, y = make_moon(noise=0)
    t, s = X[y == 0], X[y == 1]
    np.testing.assert_allclose(t[:, 1], t[:, 0] ** 2, atol=1e-12)
    np.testing.assert_allclose(s[:, 1], 8 - 1.4 * (s[:, 0] - 2) ** 2, atol=1e-12)


def test_spirals_without_noise_grow_from_radius_03_to_2():
    X, y = make_spirals(noise=0)
    for arm in range(3):
        radius = np.hypot(*X[y == arm].T)
        np.testing.assert_allclose(radius, np.linspace(0.3, 2, 1000), atol=1e-12)


def test_noise_of_spirals_is_an_angle():
    for seed in SEEDS:
        X, _ = make_spirals(noise=0.3, random_state=seed)
        np.testing.assert_allclose(np.hypot(*X.T), np.hypot(*make_spirals(noise=0)[0].T), atol=1e-12)


def test_classes_are_separable_by_neighbours_and_not_by_their_means():
    for make, seed in product(MAKERS, SEEDS):
        X, y = make(random_state=seed)
        fresh, truth = make(random_state=seed + 100)
        assert KNeighborsClassifier(5).fit(X, y).score(fresh, truth) > 0.999
        means = np.array([X[y == k].mean(0) for k in np.unique(y)])
        by_mean = ((X[:, None] - means) ** 2).sum(-1).argmin(1)
        assert (by_mean == y).mean() < 0.95


@pytest.mark.shared_data
@pytest.mark.parametrize(("name", "n_samples"), [("moon", 1000), ("spiral1", 3000), ("spiral2", 30000)])
@pytest.mark.parametrize("seed", SEEDS)
def test_generated_data_looks_like_the_papers_file(name, n_samples, seed):
    paper, labels = read_paper(name)
    X, y = (make_moon if name == "moon" else make_spirals)(n_samples, random_state=seed)
    assert np.array_equal(y, labels)
    for k in np.unique(y):
        theirs, ours = paper[labels == k], X[y == k]
        scale = theirs.std(0)
        np.testing.assert_allclose(ours.mean(0) / scale, theirs.mean(0) / scale, atol=0.05)
        np.testing.assert_allclose(np.cov(ours.T), np.cov(theirs.T), atol=0.1 * scale.max() ** 2)
    swapped = KNeighborsClassifier(5).fit(X, y).score(paper, labels)
    assert swapped > 0.999


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"n_samples": 2}, "n_samples=2 is less than one row for each of 3 classes"),
        ({"n_arms": 0}, "n_arms must be at least 1"),
        ({"noise": -0.1}, "noise must be a number of at least 0"),
        ({"noise": float("nan")}, "noise must be a number of at least 0"),
    ],
)
def test_impossible_requests_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_spirals(**arguments)
