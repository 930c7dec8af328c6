"""The rows that a fit trains on, how many of them choose the start, and the median distance between them."""

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.spatial.distance import pdist
from sklearn.datasets import make_blobs

from knet.metrics import rand_index
from knet.prepare import projection, training_rows
from knet.prepare.training_rows import MEDIAN_ROWS, median, median_distance, ordered_by_content, prepare_rows
from knet.start import choice
from knet.start.choice import choose_start
from tests.estimators import make_knet


def normal(seed, n, d=3):
    return np.random.default_rng(seed).normal(size=(n, d))


def state(seed):
    return np.random.RandomState(seed)


# The median distance


@pytest.mark.parametrize("n", [2, 3, 50, 51])
def test_median_distance_equals_scipy(seed, n):
    X = normal(seed, n)
    assert median_distance(X, state(seed)) == pytest.approx(np.median(pdist(X)), rel=1e-12)


def test_median_distance_of_hand_computed_rows():
    X = np.array([[0.0], [1.0], [3.0]])  # distances 1, 2, 3
    assert median_distance(X, state(0)) == pytest.approx(2.0)


def test_median_distance_of_many_rows_is_close_to_that_of_all(seed):
    X = normal(seed, 2 * MEDIAN_ROWS)
    assert median_distance(X, state(seed)) == pytest.approx(np.median(pdist(X)), rel=0.02)


def test_duplicates_do_not_make_the_median_zero():
    X = np.array([[0.0]] * 20 + [[2.0], [5.0]])
    assert median_distance(X, state(0)) > 0


def test_equal_rows_have_distance_zero():
    assert median_distance(np.ones((10, 3)), state(0)) == 0.0


def test_median_distance_scales_with_the_data(seed):
    X = normal(seed, 60)
    for factor in (1e-12, 1e12):
        assert median_distance(factor * X, state(seed)) == pytest.approx(factor * median_distance(X, state(seed)))


# The rows


def prepared(X, n_clusters=2, seed=0, **params):
    """Return the prepared rows of a fit; scale="none" keeps the numbers, so that they can be compared."""
    model = make_knet(n_clusters, **({"scale": "none"} | params))
    return prepare_rows(X, model.get_params(deep=False), state(seed))


@pytest.mark.parametrize(("train_size", "n_train"), [(40, 40), (0.25, 25), (1.0, 100), ("auto", None), (1000, 100)])
def test_training_rows_are_counted_or_a_share(train_size, n_train):
    found = prepared(normal(0, 100), train_size=train_size)
    assert found.n_train == n_train
    assert found.rows.tolist() == sorted(set(found.rows.tolist()))


def test_the_drawn_rows_are_bounded_and_prepared_once(monkeypatch):
    monkeypatch.setattr(training_rows, "MAX_ROWS", 60)
    X = normal(0, 200)
    for params, n_drawn in [({}, 60), ({"train_size": 90}, 90), ({"n_clusters": 4}, 120), ({"train_size": 10}, 60)]:
        found = prepared(X, **params)
        assert len(found.rows) == len(found.X) == n_drawn
        np.testing.assert_array_equal(found.X, X[found.rows])
        assert sorted(found.order) == list(range(n_drawn))
        assert found.median > 0


def test_the_first_rows_of_a_draw_are_random_ones_in_order(seed):
    found = prepared(normal(0, 100), seed=seed)
    first, more = found.first(20), found.first(50)
    assert first.tolist() == sorted(first)
    assert set(first) < set(more)
    assert first.tolist() != list(range(20))


def test_a_draw_depends_on_the_seed_alone():
    X = normal(0, 100)
    assert prepared(X, seed=1).order.tolist() == prepared(X, seed=1).order.tolist()
    assert prepared(X, seed=1).order.tolist() != prepared(X, seed=2).order.tolist()


@pytest.mark.parametrize(
    ("train_size", "advice"),
    [("auto", r"n_samples=5\. Lower"), (3, r"n_samples=3 \(train_size=3 of 5\)\. Raise train_size")],
)
def test_more_clusters_than_rows_are_refused(train_size, advice):
    with pytest.raises(ValueError, match=f"n_clusters=6 exceeds the number of training rows, {advice}") as caught:
        prepared(normal(0, 5), n_clusters=6, train_size=train_size)
    assert "\n" not in str(caught.value)


# The rows that the start is chosen on, and those of Algorithm 1


def start(X, n_clusters=2, seed=0, sigma_scale=1.0, **params):
    return choose_start(prepared(X, n_clusters, seed, **params), n_clusters, sigma_scale, state(seed))


def small_limits(monkeypatch, **limits):
    start, core = {"SMALL_DATA": 50, "ROWS_PER_CLUSTER": 10}, {"CORE_ROWS": 50, "CORE_ROWS_PER_CLUSTER": 10}
    for name, value in ({"MAX_ROWS": 120} | start | core | limits).items():
        for module in (training_rows, choice):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, value)


def sizes_of_the_choice(monkeypatch):
    """Return a list that gets the number of rows of every choice."""
    sizes, original = [], choice.Pool
    monkeypatch.setattr(choice, "Pool", lambda X, *rest, **names: sizes.append(len(X)) or original(X, *rest, **names))
    return sizes


@pytest.mark.parametrize(
    ("train_size", "n_train", "n_start", "n_core"),
    [("auto", 120, 120, 50), (300, 300, 120, 50), (0.5, 200, 120, 50), (80, 80, 80, 50), (30, 30, 30, 30)],
)
def test_start_and_core_are_bounded(monkeypatch, train_size, n_train, n_start, n_core):
    sizes = sizes_of_the_choice(monkeypatch)
    small_limits(monkeypatch)
    X, y = make_blobs(400, centers=[[0, 0], [50, 0]], random_state=0)
    found = start(X / 10, train_size=train_size)
    assert (len(found.rows), sizes, len(found.core)) == (n_train, [n_start], n_core)
    assert found.rows.tolist() == sorted(set(found.rows.tolist()))
    assert found.core.tolist() == sorted(set(found.core.tolist()))
    assert found.core.max() < n_train
    np.testing.assert_allclose(found.X, X[found.rows] / 10)
    assert rand_index(found.labels, y[found.rows]) == 1  # rows beyond the start are labelled by their neighbours


def test_many_clusters_ask_for_a_larger_core(monkeypatch):
    small_limits(monkeypatch)
    found = start(normal(0, 400), n_clusters=9)
    assert len(found.core) == 90
    assert len(found.rows) == 120


def test_very_many_clusters_are_chosen_on_fewer_rows(monkeypatch):
    small_limits(monkeypatch, START_PAIRS=800)
    sizes = sizes_of_the_choice(monkeypatch)
    followed = [len(start(normal(0, 400), n_clusters=c).rows) for c in (4, 8, 10)]
    assert sizes == [120, 100, 100]
    assert followed == [120, 120, 120]  # psi follows it on more


def test_sigma_after_following_is_half_the_median(seed):
    X = normal(seed, 100)
    assert start(X, sigma_scale=3.0, seed=seed).sigma == pytest.approx(3.0 * 0.5 * np.median(pdist(X)))


def test_a_start_has_a_partition_of_all_training_rows(seed):
    found = start(normal(seed, 200), n_clusters=3, seed=seed)
    assert found.labels.shape == (200,)
    assert set(found.labels) == {0, 1, 2}


# Principal directions


@pytest.mark.parametrize("kind", [np.asarray, csr_matrix])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_exact_and_the_randomised_directions_are_those_of_the_covariance(monkeypatch, seed, kind, dtype):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(300, 6)) @ (rng.normal(size=(6, 40)) * np.geomspace(20, 1, 6)[:, None]) + rng.normal(size=40)
    values, exact = np.linalg.eigh(np.cov(X.T, bias=True))
    for n_exact in (projection.EXACT_COLUMNS, 0):
        monkeypatch.setattr(projection, "EXACT_COLUMNS", n_exact)
        directions, variances = projection.principal_directions(kind(X.astype(dtype)), X.mean(0), 4, state(seed))
        assert directions.dtype == variances.dtype == np.float64
        np.testing.assert_allclose(variances, values[::-1][:4], rtol=1e-3)
        np.testing.assert_allclose(np.abs((directions * exact[:, ::-1][:, :4]).sum(0)), 1, atol=1e-3)
        largest = np.abs(directions).argmax(0)
        assert (directions[largest, np.arange(4)] > 0).all()


# The order of the rows


@pytest.mark.parametrize("kind", ["few columns", "many columns", "equal rows", "sparse"])
def test_the_order_of_the_rows_changes_nothing(seed, kind):
    X = make_blobs([70, 50, 30], n_features=20 if kind == "many columns" else 3, random_state=seed)[0]
    X = np.round(X) if kind == "equal rows" else X
    X = csr_matrix(X) if kind == "sparse" else X
    shuffled = state(seed).permutation(150)
    first, second = (make_knet(3, random_state=0, max_iter=2).fit(rows) for rows in (X, X[shuffled]))
    np.testing.assert_array_equal(first.labels_[shuffled], second.labels_)
    np.testing.assert_array_equal(first.transform(X), second.transform(X))
    assert first.selection_ == second.selection_


def test_rows_are_ordered_by_all_their_columns_and_positions_are_kept():
    X = np.zeros((6, 40))
    X[:, 39] = [5, 1, -0.0, 3, 0.0, 2]  # they differ in the last column only
    assert ordered_by_content(X, None).tolist() == [2, 4, 1, 5, 3, 0]
    assert ordered_by_content(X, np.array([0, 1, 1, 3])).tolist() == [1, 1, 3, 0]


def test_very_many_rows_keep_their_order(monkeypatch):
    monkeypatch.setattr(training_rows, "MAX_ROWS", 5)
    assert ordered_by_content(normal(0, 6), None) is None
    assert ordered_by_content(normal(0, 6), np.array([4, 4, 3, 2, 1, 0])).tolist() == [4, 4, 3, 2, 1, 0]


def test_clusters_are_numbered_by_their_size(seed):
    sizes = [20, 60, 40, 30]
    X, _ = make_blobs(sizes, centers=[[0, 0], [20, 0], [0, 20], [20, 20]], shuffle=False, random_state=seed)
    model = make_knet(4, random_state=seed, max_iter=2).fit(X)
    assert np.bincount(model.labels_).tolist() == sorted(sizes, reverse=True)
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    weights = np.repeat([9, 1, 1, 1], sizes)  # the smallest group counts most
    weighted = make_knet(4, random_state=seed, max_iter=2).fit(X, sample_weight=weights)
    assert (weighted.labels_[:20] == 0).all()


@pytest.mark.parametrize("n", [1, 2, 3, 50, 4097, 30_000])
def test_the_median_is_that_of_numpy(seed, n):
    rng = np.random.default_rng(seed)
    periodic = np.arange(n) % (1 + n // 4096)  # the values that are looked at first are all 0
    for values in (rng.normal(size=n), rng.integers(3, size=n), np.sort(rng.normal(size=n)), np.ones(n), periodic):
        assert median(values.astype(np.float64)) == np.median(values)
