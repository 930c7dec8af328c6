"""The paper's start: the kernel's width, and the number of training rows by the spectrum rule."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.datasets import make_blobs

from knet import KNet
from knet.datasets import make_spirals
from knet.prepare.training_rows import MAX_ROWS, prepare_rows
from knet.start.choice import SMALL_DATA
from knet.train import kernels, laplacians, paper_start
from knet.train.paper_start import SUBSET_SIZES, subset_size
from knet.train.settings import embedding_width
from tests.estimators import make_knet


def normal(seed, n, d=3):
    return np.random.default_rng(seed).normal(size=(n, d))


def start(X, sigma="median", sigma_scale=1.0, n_clusters=2, train_size="auto"):
    params = KNet(n_clusters, scale="none", train_size=train_size).get_params(deep=False)
    prepared = prepare_rows(X, params, np.random.RandomState(0))
    return paper_start.paper_start(prepared, n_clusters, sigma, sigma_scale)


# The width of the kernel


def test_sigma_as_a_number_is_taken_as_it_is(seed):
    assert start(normal(seed, 30), sigma=0.37, sigma_scale=5.0).sigma == 0.37


@pytest.mark.parametrize("sigma_scale", [0.1, 1.0, 3.0])
def test_the_median_is_multiplied_by_sigma_scale(seed, sigma_scale):
    X = normal(seed, 30)
    assert start(X, sigma_scale=sigma_scale).sigma == pytest.approx(sigma_scale * np.median(pdist(X)))


@pytest.mark.parametrize("rule", ["median", "auto"])
@pytest.mark.filterwarnings("ignore::knet.exceptions.KNetDataWarning")
def test_sigma_is_positive_even_for_equal_rows(rule):
    assert KNet(2, sigma=rule, random_state=0).fit(np.ones((30, 2))).sigma_ > 0


@pytest.mark.parametrize(("n_clusters", "sigma"), [(1, "auto"), (49, "auto"), (50, "auto"), (3, "median"), (3, 0.5)])
@pytest.mark.filterwarnings("ignore::knet.exceptions.KNetConvergenceWarning")
@pytest.mark.filterwarnings("ignore::knet.exceptions.KNetDataWarning")
def test_fits_without_a_partition_use_all_their_rows(n_clusters, sigma):
    quick = {"n_init": 1, "max_iter": 1, "steps_per_iter": 1, "random_state": 0}
    model = make_knet(n_clusters, sigma=sigma, **quick).fit(normal(0, 50))
    assert model.start_labels_ is None
    assert model.selection_ == []
    assert sorted(model.spectral_indices_) == list(range(50))


# The number of training rows


@pytest.mark.parametrize(("train_size", "n_train"), [(40, 40), (0.25, 25), (1.0, 100), ("auto", 100), (1000, 100)])
def test_training_rows_are_counted_or_a_share(train_size, n_train):
    found = start(normal(0, 100), train_size=train_size)
    assert len(found.rows) == len(found.X) == len(found.core) == n_train
    assert found.rows.tolist() == sorted(set(found.rows.tolist()))


@pytest.mark.parametrize("n", [2, 100, SMALL_DATA])
def test_small_data_is_taken_whole(seed, n):
    assert subset_size(normal(seed, n), n, 1.0, 3) == n


def test_an_easy_spectrum_needs_the_fewest_rows(seed):
    X = make_blobs(5000, centers=3, cluster_std=0.1, random_state=seed)[0]
    assert subset_size(X, 5000, 1.0, 3) == SUBSET_SIZES[0]


def test_a_stricter_tolerance_needs_at_least_as_many_rows(monkeypatch, seed):
    monkeypatch.setattr(paper_start, "SUBSET_SIZES", (100, 300, 900))
    X = make_spirals(5000, random_state=seed)[0]
    X = X[np.random.default_rng(seed).permutation(5000)]
    sizes = []
    for tol in (0.5, 0.05, 0.01, 0.0):
        monkeypatch.setattr(paper_start, "SPECTRUM_TOL", tol)
        sizes.append(subset_size(X, 5000, 0.1, 3))
    assert sizes == sorted(sizes)
    assert sizes[0] == 100
    assert sizes[-1] == 900


@pytest.mark.parametrize("n_clusters", [20, 100])
def test_many_clusters_ask_for_many_rows(seed, n_clusters):
    X = make_blobs(5000, centers=3, cluster_std=0.1, random_state=seed)[0]
    assert subset_size(X, 5000, 1.0, n_clusters) >= 30 * n_clusters


def test_the_chosen_size_has_a_close_spectrum(seed):
    X = make_spirals(2500, random_state=seed)[0]
    X = X[np.random.default_rng(seed).permutation(2500)]
    size = subset_size(X, 2500, 0.3, 3)
    part, whole = (laplacians.DenseLaplacian(rows, 0.3).largest(3)[0] for rows in (X[:size], X))
    assert size < 2500
    assert np.abs(part - whole).max() < 0.03  # tol is 0.02, against an estimate of the whole


def test_the_rule_never_forms_a_matrix_of_all_pairs(monkeypatch):
    pool, sizes, original = normal(0, MAX_ROWS, d=2), [], kernels.gaussian_kernel

    def counting(X, Y, sigma):
        sizes.append(len(X) * len(Y))
        return original(X, Y, sigma)

    for module in (kernels, laplacians):
        monkeypatch.setattr(module, "gaussian_kernel", counting)
    monkeypatch.setattr(paper_start, "SUBSET_SIZES", (300, 500))
    monkeypatch.setattr(paper_start, "SPECTRUM_TOL", 0.0)
    subset_size(pool, 200_000, 0.5, 3)
    assert sizes
    assert max(sizes) <= max(kernels.BLOCK_VALUES, 2000**2) < MAX_ROWS**2


# The width of the embedding


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
    assert embedding_width(n_components, d, n_clusters, from_partition=True) == expected
    if n_components == "auto":
        assert embedding_width(n_components, d, n_clusters, from_partition=False) == d + 1
