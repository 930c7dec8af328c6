"""The layout of a neighbour graph."""

import numpy as np
import pytest
from sklearn.datasets import load_digits, make_blobs
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from threadpoolctl import threadpool_limits

from knet.start import layout as layout_module
from knet.start.candidates import Pool
from knet.start.kmeans import k_means
from knet.start.layout import fuzzy_graph, layout, neighbors_preserved
from knet.start.neighbors import neighbors


def test_groups_stay_together_and_apart(seed):
    X, y = make_blobs(400, n_features=20, centers=6, random_state=seed)
    for n_dimensions in (2, 8):
        points = layout(X, n_dimensions, np.random.RandomState(seed))
        assert points.shape == (400, n_dimensions)
        found = k_means(points, 6, 5, np.random.RandomState(seed)).labels
        assert adjusted_rand_score(y, found) > 0.99


def test_images_of_digits_separate_better_than_by_distances(seed):
    X, y = load_digits(return_X_y=True)
    points = layout(X / X.std(), 2, np.random.RandomState(seed))
    scores = [
        normalized_mutual_info_score(y, k_means(rows, 10, 5, np.random.RandomState(seed)).labels)
        for rows in (points, X)
    ]
    assert scores[0] > scores[1] + 0.08
    assert neighbors_preserved(X, points) > neighbors_preserved(X, X[:, :2]) + 0.2


def test_the_layout_is_the_same_on_any_number_of_threads(seed):
    X = make_blobs(300, n_features=12, centers=3, random_state=seed)[0]
    found = []
    for n_threads in (1, 2):
        with threadpool_limits(n_threads):
            found.append(layout(X, 3, np.random.RandomState(seed)))
    assert found[0].tobytes() == found[1].tobytes()
    assert not np.array_equal(found[0], layout(X, 3, np.random.RandomState(seed + 1)))


@pytest.mark.parametrize("n", [4, 9, 40])
def test_few_and_repeated_rows_have_finite_points(rng, n):
    for X in (rng.normal(size=(n, 5)), np.repeat(rng.normal(size=(3, 5)), n, axis=0), np.zeros((n, 5))):
        assert np.isfinite(layout(X, 2, np.random.RandomState(0))).all()


def test_weights_of_a_row_sum_to_at_least_the_logarithm_of_its_neighbors(rng):
    near = neighbors(rng.normal(size=(200, 6)), layout_module.LAYOUT_NEIGHBORS)
    graph = fuzzy_graph(near).toarray()
    np.testing.assert_allclose(graph, graph.T)
    assert graph.max() == 1  # of the nearest row
    assert (graph.sum(1) > np.log2(layout_module.LAYOUT_NEIGHBORS) - 1e-6).all()


def test_all_neighbors_are_preserved_by_the_rows_themselves_and_few_by_chance(rng):
    X = rng.normal(size=(300, 4))
    assert neighbors_preserved(X, 3 * X + 1) == 1
    assert neighbors_preserved(X, rng.normal(size=(300, 2))) < 0.15


def test_more_rows_have_fewer_epochs(rng, monkeypatch):
    X = rng.normal(size=(120, 4))
    counted = []
    original = layout_module._moves
    monkeypatch.setattr(layout_module, "_moves", lambda *args: counted.append(1) or original(*args))
    for epoch_rows, n_epochs in ((12_000, 100), (10**9, layout_module.MAX_EPOCHS), (1, layout_module.MIN_EPOCHS)):
        monkeypatch.setattr(layout_module, "EPOCH_ROWS", epoch_rows)
        counted.clear()
        layout(X, 2, np.random.RandomState(0))
        assert len(counted) == n_epochs * layout_module.N_BATCHES


def test_the_layout_is_a_candidate_from_four_columns_that_share_a_unit(rng):
    for n_columns, shares_unit, expected in ((3, True, False), (4, True, True), (4, False, False)):
        partitions = Pool(rng.normal(size=(60, n_columns)), [2], 0, shares_unit=shares_unit).partitions(2)
        assert ("layout" in partitions) is expected
