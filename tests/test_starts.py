"""The start chosen from the data alone, and the fit that begins there."""

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.metrics import adjusted_rand_score

from knet import KNet
from knet.datasets import make_moon, make_spirals
from knet.prepare.scaling import learn_scaling
from knet.prepare.training_rows import prepare_rows
from knet.start import candidates as candidates_module
from knet.start import choice as starts_module
from knet.start.candidates import METHODS, MIXTURES, Pool
from knet.start.choice import _numbered_by_appearance, choose_from, choose_start
from knet.start.columns import comparable_columns
from knet.start.judge import Judge
from knet.start.neighbors import extend
from knet.threads import one_blas_thread
from tests.estimators import make_knet


def choose(X, n_clusters, seed):
    """Return the choice among all candidates, as `choose_start` makes it on all rows."""
    rng = np.random.RandomState(seed)
    with one_blas_thread():
        columns = comparable_columns(learn_scaling(X, "auto")(X), rng)
        pool = Pool(columns, [n_clusters], int(rng.randint(2**31 - 1)))
        return choose_from(pool, Judge(columns, pool.near), n_clusters)


def elongated(seed, n=600):
    """Return three parallel Gaussian groups that overlap at their long sides."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return rng.normal(size=(n, 2)) * [8, 1] + y[:, None] * [0, 4.5], y


def flags(seed, n=600):
    """Return three round groups in two columns, and three columns of random 0 and 1."""
    rng = np.random.default_rng(seed)
    X, y = make_blobs(n, centers=[[0, 0], [5, 0], [0, 5]], random_state=seed)
    return np.column_stack([X, rng.integers(0, 2, (n, 3))]), y


def heavy(seed, n=450):
    """Return three groups whose values lie on a logarithmic scale."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    return np.exp(rng.normal(size=(n, 2)) * 0.5 + 4 * np.array([[0, 0], [1, 0], [0, 1]])[y]), y


def shapes(seed):
    return {
        "moon": make_moon(300, random_state=seed),
        "moons": make_moons(300, noise=0.05, random_state=seed),
        "spirals": make_spirals(400, random_state=seed),
        "circles": make_circles(300, noise=0.04, factor=0.4, random_state=seed),
        "blobs": make_blobs(300, centers=[[0, 0], [6, 1], [1, 6], [7, 7]], random_state=seed),
        "unequal sizes": make_blobs([300, 60, 20], centers=[[0, 0], [9, 0], [0, 9]], random_state=seed),
    }


# What is chosen


@pytest.mark.parametrize("name", list(shapes(0)))
def test_the_start_finds_separated_groups_of_any_shape(seed, name):
    X, y = shapes(seed)[name]
    start = choose(X, len(set(y)), seed)
    assert adjusted_rand_score(y, start.labels) > 0.95


def test_the_start_finds_long_groups_that_overlap(seed):
    X, y = elongated(seed)
    assert adjusted_rand_score(y, choose(X, 3, seed).labels) > 0.9
    assert adjusted_rand_score(y, KMeans(3, n_init=5, random_state=seed).fit_predict(X)) < 0.5


def test_random_flags_do_not_hide_groups(seed):
    X, y = flags(seed)
    assert adjusted_rand_score(y, choose(X, 3, seed).labels) > 0.7


def test_heavy_tails_do_not_hide_groups(seed):
    X, y = heavy(seed)
    assert adjusted_rand_score(y, choose(X, 3, seed).labels) > 0.9


def test_groups_in_wide_tables_are_found(seed):
    X, y = make_blobs(300, n_features=100, centers=4, cluster_std=3, random_state=seed)
    assert adjusted_rand_score(y, choose(X, 4, seed).labels) > 0.95


def test_the_same_seed_gives_the_same_start(seed):
    X, _ = elongated(seed, 240)
    first, second = choose(X, 3, seed), choose(X, 3, seed)
    assert first.labels.tobytes() == second.labels.tobytes()
    assert first.considered == second.considered
    assert first.method == second.method


@pytest.mark.parametrize("units", [[1e-6, 1e6], [1e3, 1e3]])
@pytest.mark.parametrize("make", [elongated, heavy])
def test_the_units_of_columns_do_not_matter(seed, make, units):
    X, _ = make(seed, 240)
    plain, scaled = choose(X, 3, seed), choose(X * units, 3, seed)
    assert adjusted_rand_score(plain.labels, scaled.labels) > 0.99
    assert plain.method == scaled.method


def test_the_order_of_columns_does_not_matter(seed):
    X, _ = shapes(seed)["blobs"]
    assert adjusted_rand_score(choose(X, 4, seed).labels, choose(X[:, ::-1], 4, seed).labels) == 1


def test_the_given_rows_are_never_changed(seed):
    X, _ = flags(seed, 120)
    before = X.copy()
    prepared = prepare_rows(X, KNet(3, scale="none").get_params(deep=False), np.random.RandomState(seed))
    rows = prepared.X.copy()
    choose_start(prepared, 3, 1.0, np.random.RandomState(seed))
    assert np.array_equal(X, before)
    assert np.array_equal(prepared.X, rows)


@pytest.mark.parametrize("n_clusters", [2, 5, 17, 39])
def test_no_group_is_empty(rng, n_clusters):
    start = choose(rng.normal(size=(40, 2)), n_clusters, 0)
    assert np.bincount(start.labels, minlength=n_clusters).all()
    assert len(set(start.labels)) == n_clusters


@pytest.mark.parametrize("n_distinct", [2, 3, 5])
def test_fewer_distinct_rows_than_groups_give_as_many_groups_as_there_are(rng, n_distinct):
    X = np.repeat(rng.normal(size=(n_distinct, 2)), 12, axis=0)
    labels = choose(X, n_distinct, 0).labels
    assert adjusted_rand_score(np.repeat(np.arange(n_distinct), 12), labels) == 1
    labels = choose(X, n_distinct + 3, 0).labels
    groups = len(set(labels))
    assert sorted(set(labels)) == list(range(groups))
    assert groups <= n_distinct + 3
    assert len(choose(X, n_distinct + 3, 0).considered) >= 1


@pytest.mark.parametrize("n", [4, 5, 12, 30])
def test_few_rows_have_a_start(rng, n):
    for n_clusters in {2, n // 2, n - 1}:
        start = choose(rng.normal(size=(n, 3)), n_clusters, 0)
        assert len(set(start.labels)) == n_clusters


def test_the_table_names_every_candidate_and_marks_one(seed):
    X, _ = shapes(seed)["moon"]
    start = choose(X, 2, seed)
    chosen = [row for row in start.considered if row["chosen"]]
    assert len(chosen) == 1
    assert start.considered[0] is chosen[0]
    assert chosen[0]["method"] == start.method
    assert chosen[0]["conductance"] == start.verdict.conductance
    assert {row["method"] for row in start.considered} <= set(METHODS)
    assert len({row["method"] for row in start.considered}) == len(start.considered)
    for row in start.considered:
        assert list(row) == ["method", "conductance", "gain", "score", "chosen"]
    scores = [row["score"] for row in start.considered[1:]]
    assert scores == sorted(scores, reverse=True)


# The pool


def far_blobs(seed):
    return make_blobs(300, centers=[[0, 0], [30, 0], [0, 30], [30, 30]], random_state=seed)


def test_every_method_makes_groups_of_all_rows(seed):
    X, y = far_blobs(seed)
    pool = Pool(X, [4, 6], seed)
    for method in METHODS:
        labels = pool.partition(method, 4)
        assert labels.shape == (300,)
        assert labels.dtype == np.int64
        assert set(labels) <= set(range(4))
        assert adjusted_rand_score(y, labels) == 1, method


def test_the_order_of_the_calls_has_no_influence(seed):
    X, _ = elongated(seed, 150)
    forwards, backwards = Pool(X, [2, 4], seed), Pool(X, [2, 4], seed)
    found = {(method, c): forwards.partition(method, c) for method in METHODS for c in (2, 4)}
    for method, c in reversed(list(found)):
        assert np.array_equal(backwards.partition(method, c), found[method, c]), method


def test_partitions_and_graphs_are_made_once(monkeypatch):
    calls = []
    original = candidates_module.graph_embedding

    def counted(*args, **options):
        calls.append(1)
        return original(*args, **options)

    monkeypatch.setattr(candidates_module, "graph_embedding", counted)
    X, _ = shapes(0)["blobs"]
    pool = Pool(X, [4, 5], 0)
    judge = Judge(X, pool.near)
    for c in (4, 5, 4):
        choose_from(pool, judge, c)
    assert len(calls) == len(candidates_module.GRAPH_NEIGHBORS)
    assert pool.partition("k-means", 4) is pool.partition("k-means", 4)


@pytest.mark.parametrize(("n_clusters", "compared"), [(4, ["full mixture from k-means"]), (16, [])])
def test_comparisons_of_numbers_need_fewer_mixtures(n_clusters, compared):
    pool = Pool(shapes(0)["blobs"][0], [n_clusters, n_clusters + 1], 0)
    assert pool.methods(n_clusters)[1] == compared
    pool.ask([n_clusters])
    assert pool.methods(n_clusters)[1] == list(MIXTURES)


def test_large_data_goes_through_samples(seed, monkeypatch):
    for name, size in {"WARD_ROWS": 150, "SAMPLE_ROWS": 200}.items():
        monkeypatch.setattr(candidates_module, name, size)
    X, y = far_blobs(seed)
    pool = Pool(X, [4], seed)
    for method in METHODS:
        assert adjusted_rand_score(y, pool.partition(method, 4)) == 1, method


def test_equal_partitions_are_measured_once(seed, monkeypatch):
    X, _ = make_blobs(200, centers=[[0, 0], [30, 0], [0, 30]], random_state=seed)
    measured, pool = [], Pool(X, [3], seed)
    judge = Judge(X, pool.near)
    original = judge.measure
    monkeypatch.setattr(judge, "measure", lambda labels: measured.append(labels) or original(labels))
    start = choose_from(pool, judge, 3)
    assert len(measured) == 1
    assert len(start.considered) == len(METHODS) - 1  # no layout of a plane


def test_candidates_with_empty_groups_are_left_out(monkeypatch):
    X, _ = shapes(0)["blobs"]
    pool = Pool(X, [4], 0)
    for method in METHODS:
        pool.made[method, 4] = np.arange(300) % 3  # group 3 is empty
    pool.made["ward", 4] = pool.made["genie 0.1", 4] = np.arange(300) % 4
    start = choose_from(pool, Judge(X, pool.near), 4)
    assert [row["method"] for row in start.considered] == ["genie 0.1"]
    assert start.labels.tolist() == (np.arange(300) % 4).tolist()


def test_groups_are_numbered_by_appearance(rng):
    assert _numbered_by_appearance(np.array([7, 7, 2, 9, 2])).tolist() == [0, 0, 1, 2, 1]
    labels = rng.integers(0, 5, 50)
    renamed = rng.permutation(5)[labels]
    assert _numbered_by_appearance(labels).tolist() == _numbered_by_appearance(renamed).tolist()


# The fit


@pytest.mark.parametrize("name", ["moon", "spirals", "circles", "blobs"])
def test_the_default_fit_ends_where_its_start_pointed(seed, name):
    X, y = shapes(seed)[name]
    model = KNet(len(set(y)), random_state=seed).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.95
    assert 0 <= model.best_iter_ <= model.n_iter_
    assert adjusted_rand_score(model.start_labels_, model.labels_[model.train_indices_]) > 0.97


@pytest.mark.parametrize("make", [elongated, flags, heavy])
def test_the_default_fit_finds_what_the_start_finds(make):
    X, y = make(0)
    model = KNet(3, random_state=0).fit(X)
    start = adjusted_rand_score(y[model.train_indices_], model.start_labels_)
    assert adjusted_rand_score(y, model.labels_) > start - 0.03


def test_duplicates_and_scales_do_not_mislead_the_start(seed):
    X, y = make_moons(300, noise=0.05, random_state=seed)
    model = KNet(2, random_state=seed).fit(np.vstack([X, X[:60]]) * [1e-6, 1e6])
    assert adjusted_rand_score(y, model.labels_[:300]) > 0.95


def test_the_selection_says_what_was_considered():
    X, _ = make_moon(200, random_state=0)
    model = make_knet(2, random_state=0, max_iter=1, steps_per_iter=5).fit(X)
    assert sum(bool(row["chosen"]) for row in model.selection_) == 1
    assert set(model.selection_[0]) == {"method", "conductance", "gain", "score", "chosen"}
    assert KNet(2, sigma=0.3, random_state=0, tol=2.0).fit(X).selection_ == []


def test_many_clusters_are_all_found(seed):
    centers = np.stack(np.meshgrid(np.arange(6), np.arange(5)), -1).reshape(-1, 2) * 8.0
    X, y = make_blobs(900, centers=centers, random_state=seed)
    model = KNet(30, random_state=seed).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.95


def test_the_number_of_blas_threads_is_set_while_the_start_is_chosen(monkeypatch):
    entered, original = [], starts_module.one_blas_thread
    monkeypatch.setattr(starts_module, "one_blas_thread", lambda: entered.append(1) or original())
    KNet(2, max_iter=1, random_state=0).fit(make_moon(60, random_state=0)[0])
    assert entered


def test_embeddings_of_all_stages_are_stored_on_demand():
    X, _ = make_moon(200, random_state=0)
    model = make_knet(2, random_state=0, keep_embeddings=True, max_iter=3, steps_per_iter=20).fit(X)
    assert model.embeddings_.shape == (model.best_iter_ + 2, 200, 3)  # the data, the start, and the iterations
    rows = X[model.train_indices_]
    np.testing.assert_allclose(model.embeddings_[0, :, :2], (rows - X.mean(0)) / X.std(0), atol=1e-6)
    np.testing.assert_allclose(model.embeddings_[-1], model.transform(rows), atol=1e-5)  # trained in single precision
    assert not hasattr(KNet(2, sigma=1.0, tol=2.0, random_state=0).fit(X), "embeddings_")


@pytest.mark.parametrize("kind", ["full", "tied"])
def test_a_mixture_is_extended_by_its_gaussians(seed, kind):
    X, y = elongated(seed)
    half = np.flatnonzero(np.arange(len(X)) // 3 % 2)
    chosen = starts_module.Choice(y[half], f"{kind} mixture from ward", None, [], [])
    labels, voted = chosen.extended(half, X), extend(y[half], half, X)
    np.testing.assert_array_equal(labels[half], y[half])
    assert adjusted_rand_score(y, labels) > adjusted_rand_score(y, voted)
