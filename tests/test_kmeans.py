"""k-means with its runs side by side."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

from knet.start import centers, kmeans
from knet.start.kmeans import distance_terms, k_means, refine, seeds


def random(seed):
    return np.random.RandomState(seed)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1000), st.integers(1, 6), st.integers(1, 4), st.sampled_from([np.float32, np.float64]))
def test_centres_are_means_and_rows_have_the_nearest(seed, n_clusters, n_columns, dtype):
    X = random(seed).normal(size=(60, n_columns)).astype(dtype)
    found = k_means(X, n_clusters, 3, random(seed))
    apart = np.square(X[:, None] - found.centers).sum(2)
    chosen = apart[np.arange(60), found.labels]
    assert found.centers.dtype == dtype
    np.testing.assert_allclose(chosen, apart.min(1), atol=1e-5)
    assert found.error == pytest.approx(chosen.mean(), abs=1e-5)
    means = np.stack([X[found.labels == k].mean(0) for k in range(n_clusters)])
    np.testing.assert_allclose(found.centers, means, atol=0.1)  # at rest to a hundredth of a deviation each


@pytest.mark.parametrize("n_clusters", [2, 5, 20])
def test_errors_are_those_of_scikit_learn(n_clusters):
    ratios = []
    for trial in range(12):
        X = random(trial).normal(size=(300, 4))
        theirs = KMeans(n_clusters, n_init=5, random_state=trial).fit(X).inertia_ / 300
        ratios.append(k_means(X, n_clusters, 5, random(trial)).error / theirs)
    assert np.mean(ratios) == pytest.approx(1, abs=0.01)


def test_separated_groups_are_found(seed):
    X, y = make_blobs(400, centers=10 * np.eye(8), random_state=seed)
    assert adjusted_rand_score(y, k_means(X, 8, 5, random(seed)).labels) == 1


def test_far_away_data_lose_no_digits(seed):
    X, y = make_blobs(200, centers=[[0, 0], [3, 0]], cluster_std=0.3, random_state=seed)
    assert adjusted_rand_score(y, k_means((X + 3000).astype(np.float32), 2, 3, random(seed)).labels) == 1


def test_beginnings_are_spread_out(seed):
    X, y = make_blobs(600, centers=50 * np.eye(6), random_state=seed)
    begun = seeds(distance_terms(X - X.mean(0)), 6, 4, random(seed))
    assert begun.shape == (4, 6)
    for rows in begun:
        assert sorted(y[rows]) == list(range(6))


def test_a_partition_to_start_from_wins_where_chance_does_not_find_it(seed):
    centers = np.stack(np.meshgrid(np.arange(10), np.arange(10)), -1).reshape(-1, 2) * 9.0
    X, y = make_blobs(500, centers=centers, random_state=seed)
    by_chance, from_start = k_means(X, 100, 1, random(seed)), k_means(X, 100, 1, random(seed), start=y)
    assert adjusted_rand_score(y, from_start.labels) == 1
    assert from_start.error < by_chance.error


def test_a_start_without_all_groups_is_left_out(rng):
    X, start = rng.normal(size=(50, 2)), np.repeat([0, 2], 25)
    plain, given_start = k_means(X, 3, 2, random(0)), k_means(X, 3, 2, random(0), start=start)
    np.testing.assert_array_equal(plain.centers, given_start.centers)


def test_an_empty_group_starts_anew(rng):
    X = np.r_[rng.normal(-10, 1, 20), rng.normal(10, 1, 20)][:, None]
    centers = np.array([[[-10.0], [10.0], [0.0]]], dtype=np.float32)
    assert 2 not in np.square(X - centers[0, :, 0]).argmin(1)  # the middle is the nearest to no row
    moved = kmeans._best_run(kmeans.distance_terms(X), centers)
    assert set(np.square(X - moved[:, 0]).argmin(1)) == {0, 1, 2}


@pytest.mark.parametrize("n_distinct", [1, 2])
def test_fewer_different_rows_than_clusters_give_finite_centres(rng, n_distinct):
    X = np.repeat(rng.normal(size=(n_distinct, 3)), 10, axis=0)
    found = k_means(X, 4, 3, random(0))
    assert np.isfinite(found.centers).all()
    assert len(set(found.labels)) == n_distinct
    assert found.error == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("n_values", [7 * 6 * 50, 1])
def test_blocks_of_rows_give_what_all_rows_give_at_once(rng, monkeypatch, n_values):
    X = rng.normal(size=(200, 3))
    at_once = k_means(X, 7, 6, random(1))
    monkeypatch.setattr(kmeans, "BLOCK_VALUES", n_values)
    assert k_means(X, 7, 6, random(1)).error == pytest.approx(at_once.error, rel=1e-3)


def test_refined_centres_are_means_of_their_rows(rng):
    X = rng.normal(size=(100, 2)) + 1000.0
    begun = np.concatenate([X[:9], [[5000.0, 5000.0]]])  # the last one is the nearest to no row
    centers, labels = refine(X, begun, 3)
    assert set(labels) == set(range(9))
    np.testing.assert_allclose(centers[:9], [X[labels == group].mean(0) for group in range(9)], atol=1e-3)
    np.testing.assert_allclose(centers[9], begun[9])


def test_the_same_randomness_repeats_to_the_bit(rng):
    X = rng.normal(size=(150, 5))
    one, other = (k_means(X, 6, 4, random(3)) for _ in range(2))
    np.testing.assert_array_equal(one.centers, other.centers)
    np.testing.assert_array_equal(one.labels, other.labels)


def test_many_rows_with_many_groups_go_to_the_k_means_that_keeps_no_pairs(rng, monkeypatch):
    X, start = rng.normal(size=(90, 2)), np.arange(90) % 9
    monkeypatch.setattr(centers, "ALL_PAIRS", 9 * 90 - 1)
    monkeypatch.setattr(centers, "k_means", None)  # calling it would fail
    assert centers.find_centers(X, 9, random(0), 3, start).shape == (9, 2)
