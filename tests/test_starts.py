"""The start chosen from the data alone, and the training that begins there."""

import numpy as np
import pytest
import scipy.linalg
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import kneighbors_graph

from knet import KNet
from knet._fit import affinities as affinity
from knet._fit import learner as learning
from knet._fit import starts
from knet._fit.affinities import (
    Affinity,
    candidates,
    gaussian,
    locally_scaled,
    neighbor_graph,
    partitions,
    squared_distances,
)
from knet._fit.judge import Candidate, Judge
from knet._fit.keep import BestPartition
from knet._fit.loop import Iteration
from knet._fit.plan import median_distance
from knet._fit.starts import FINALISTS, Halves, choose_start, extend
from knet._math.agreement import rand_index
from knet._network.mlp import ResidualMLP
from knet.datasets import make_moon, make_spirals
from tests.estimators import make_knet


def standardized(X):
    return (X - X.mean(0)) / X.std(0)


def choose(X, n_clusters, seed):
    X, rng = standardized(X), np.random.RandomState(seed)
    return choose_start(X, n_clusters, median_distance(torch.from_numpy(X), rng), rng)


def shapes(seed):
    return {
        "moon": make_moon(300, random_state=seed),
        "spirals": make_spirals(400, random_state=seed),
        "circles": make_circles(300, noise=0.04, factor=0.4, random_state=seed),
        "blobs": make_blobs(300, centers=[[0, 0], [6, 1], [1, 6], [7, 7]], random_state=seed),
    }


@pytest.mark.parametrize("name", ["moon", "spirals", "circles", "blobs"])
def test_the_start_finds_separated_groups_of_any_shape(seed, name):
    X, y = shapes(seed)[name]
    start = choose(X, len(set(y)), seed)
    assert adjusted_rand_score(y, start.labels) > 0.95


@pytest.mark.parametrize("name", ["moon", "spirals", "circles", "blobs"])
def test_the_default_fit_ends_where_its_start_pointed(seed, name):
    X, y = shapes(seed)[name]
    model = KNet(len(set(y)), random_state=seed).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.95
    assert 1 <= model.best_iter_ <= model.n_iter_


def test_duplicates_and_scales_do_not_mislead_the_start(seed):
    X, y = make_moons(300, noise=0.05, random_state=seed)
    model = KNet(2, random_state=seed).fit(np.vstack([X, X[:60]]) * [1e-6, 1e6])
    assert adjusted_rand_score(y, model.labels_[:300]) > 0.95


def test_the_selection_table_says_what_was_considered():
    X, _ = make_moon(200, random_state=0)
    model = make_knet(2, random_state=0, max_iter=1, steps_per_iter=5).fit(X)
    chosen = [row for row in model.selection_ if row["chosen"]]
    assert len(chosen) == 1
    assert {row["affinity"] for row in model.selection_} == {"gaussian", "local", "neighbors"}
    finals = [row["final_score"] for row in model.selection_ if row["final_score"] is not None]
    assert 1 <= len(finals) <= FINALISTS < len(model.selection_)  # only the best on halves cluster all rows
    assert all(row["final_score"] is None for row in model.selection_[FINALISTS:])
    assert chosen[0]["final_score"] <= 1.1 * min(finals)
    scores = [row["score"] for row in model.selection_]
    assert scores == sorted(scores)
    assert KNet(2, sigma=0.3, random_state=0, tol=2.0).fit(X).selection_ == []


def test_a_candidate_proposes_what_both_its_halves_found():
    halves, stripes = np.repeat([0, 1], 10), np.tile([0, 1], 10)
    width = Affinity("gaussian", 1.0, None, gaussian(1.0))
    assert Candidate(width, (halves, 1 - halves), 0.1, 1.0).proposes(halves)
    assert not Candidate(width, (halves, stripes), 0.1, 1.0).proposes(halves)


def test_a_partition_that_several_propose_is_made_once(seed, monkeypatch):
    X, _ = make_blobs(200, centers=[[0, 0], [30, 0], [0, 30]], random_state=seed)
    made = []

    def count(V, counts, seed):
        made.append(len(V))
        return partitions(V, counts, seed)

    monkeypatch.setattr(starts, "partitions", count)
    table = choose(X, 3, seed).considered
    assert made.count(200) == 1  # all of the best find the same three groups
    assert [row["affinity"] for row in table if row["final_score"] is not None] == ["gaussian"]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=2, max_size=40))
def test_the_rand_index_is_that_of_scikit_learn(pairs):
    one, other = np.array(pairs).T
    assert rand_index(one, other) == pytest.approx(adjusted_rand_score(one, other))


def test_conductance_is_the_share_of_edges_that_leave(rng):
    X = rng.normal(size=(60, 3))
    labels = rng.integers(0, 3, 60)
    W = kneighbors_graph(X, 10).toarray()
    W = (W + W.T) / 2
    groups = [labels == k for k in range(3)]
    expected = np.mean([(1 + W[own][:, ~own].sum()) / (1 + W[own].sum()) for own in groups])
    assert Judge(X).conductance(labels) == pytest.approx(expected)


def test_a_good_cut_has_less_conductance_than_a_bad_one(seed):
    X, y = make_moon(300, random_state=seed)
    judge = Judge(standardized(X))
    assert judge.conductance(y) < judge.conductance((X[:, 0] > np.median(X[:, 0])).astype(int))


@pytest.mark.parametrize("weigh", [gaussian(0.7), locally_scaled(7, 1e-3), neighbor_graph(10)])
def test_affinities_are_symmetric_and_positive(rng, weigh):
    X = rng.normal(size=(50, 2))
    W = weigh(np.square(X[:, None] - X).sum(-1))
    np.testing.assert_allclose(W, W.T)
    assert W.min() >= 0
    assert W.sum(1).min() > 0


def test_disconnected_groups_are_found_exactly(seed):
    X, y = make_blobs(200, centers=[[0, 0], [50, 0], [0, 50], [50, 50]], random_state=seed)
    values, V = Affinity("neighbors", None, 10, neighbor_graph(10)).embed(squared_distances(X), 4)
    np.testing.assert_allclose(values, 1, rtol=1e-6)  # single precision
    assert adjusted_rand_score(y, partitions(V, [4], seed)[0]) == 1


@pytest.mark.parametrize(("n_rows", "n_columns"), [(40, 5), (300, 3)])
def test_eigenvectors_are_orthonormal_and_belong_to_the_largest_values(rng, n_rows, n_columns):
    D2 = squared_distances(rng.normal(size=(n_rows, 3)))
    for one in candidates(D2, float(np.median(np.sqrt(D2)))):
        values, V = one.embed(D2, n_columns)
        W = one.weigh(D2)
        L = W / np.sqrt(W.sum(1)[:, None] * W.sum(0))
        np.testing.assert_allclose(V.T @ V, np.eye(n_columns), atol=1e-5)
        np.testing.assert_allclose(L @ V, V * values, atol=2e-5)
        np.testing.assert_allclose(values, scipy.linalg.eigvalsh(L)[::-1][:n_columns], atol=1e-5)


def test_small_eigenvalues_of_a_wide_gaussian_keep_their_vectors(rng):
    D2 = squared_distances(rng.normal(size=(500, 1)))
    one = Affinity("gaussian", 8.0, None, gaussian(8 * np.sqrt(np.median(D2))))
    values, V = one.embed(D2, 4)
    W = one.weigh(D2)
    L = W / np.sqrt(W.sum(1)[:, None] * W.sum(0))
    assert values[-1] < 2e-5
    np.testing.assert_allclose(L @ V, V * values, atol=1e-9)


def test_a_solver_that_gives_up_is_replaced(rng, monkeypatch):
    D2 = squared_distances(rng.normal(size=(40, 3)))
    one = Affinity("gaussian", 1.0, None, gaussian(1.0))
    expected = one.embed(D2, 3)

    def gives_up(W, driver=None, **options):  # as LAPACK's evr does, silently, on some graphs in many pieces
        return (np.empty(0), np.empty((len(W), 0))) if driver is None else scipy.linalg.eigh(W, driver=driver)

    monkeypatch.setattr(affinity, "eigh", gives_up)
    values, V = one.embed(D2, 3)
    np.testing.assert_allclose(values, expected[0])
    np.testing.assert_allclose(np.abs((V * expected[1]).sum(0)), 1)


def test_partitions_for_several_numbers_are_those_of_each_alone(rng):
    V = np.linalg.qr(rng.normal(size=(60, 5)))[0]
    together = partitions(V, [2, 3, 5], 0)
    for c, labels in zip([2, 3, 5], together, strict=True):
        assert partitions(V, [c], 0)[0].tolist() == labels.tolist()
        assert len(set(labels)) == c


def test_each_half_is_clustered_alone_and_labels_all_rows(seed):
    X, y = make_blobs(120, centers=[[0, 0], [30, 0], [0, 30]], random_state=seed)
    D2 = squared_distances(X)
    width = Affinity("gaussian", 1.0, None, gaussian(2.0))
    halves = Halves(D2, 3, np.random.RandomState(seed))
    (one, other), (three, _) = halves.cluster(width, [3, 2], seed)
    assert adjusted_rand_score(one, y) == adjusted_rand_score(other, y) == 1
    assert len(set(three)) == 2
    rows = [part[0] for part in halves.parts]
    assert sorted(np.concatenate(rows)) == list(range(120))
    assert not set(rows[0]) & set(rows[1])


def test_many_clusters_are_all_found(seed):
    centers = np.stack(np.meshgrid(np.arange(6), np.arange(5)), -1).reshape(-1, 2) * 8.0
    X, y = make_blobs(900, centers=centers, random_state=seed)
    model = KNet(30, random_state=seed).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.95


def test_labels_extend_to_near_rows(rng):
    X = np.r_[rng.normal(size=(30, 2)), rng.normal(size=(30, 2)) + 20]
    labels = np.repeat([0, 1], 30)
    assert extend(labels, np.arange(len(X)), np.concatenate([X, X + 0.1])).tolist() == [*labels, *labels]


def test_training_rows_beyond_the_sample_start_from_their_neighbours():
    X, y = make_moon(1500, random_state=0)
    model = KNet(2, random_state=0).fit(X)
    assert len(model.train_indices_) == 1500
    assert adjusted_rand_score(y, model.labels_) > 0.99


def test_the_best_partition_is_kept_and_no_improvement_ends_the_fit():
    X = torch.from_numpy(make_blobs(200, centers=[[0, 0], [50, 0]], random_state=0)[0])
    good, bad = torch.eye(2, dtype=torch.float64), torch.tensor([[0.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    keeper = BestPartition(X, np.repeat([0, 1], 100), 2, seed=0)
    answers = []
    skips = [bad, good, bad, bad, bad, bad]  # all but one drop the column that separates the groups
    for index, skip in enumerate(skips, start=1):
        sizes = {"hidden_layer_sizes": (4,), "n_restarts": 1, "generator": torch.Generator()}
        one = Iteration(index, [0.0], [0.0], [0.0], 0.0, torch.full((1, 200, 1), float(index)), [0.0])
        answers.append(keeper.see(one, ResidualMLP(skip, **sizes)))
    assert answers == [False] * 5 + [True]
    assert keeper.kept.iteration == 2
    torch.testing.assert_close(keeper.kept.encoder(X)[0], X)
    assert float(keeper.kept.U[0, 0]) == 2.0


@pytest.fixture
def keepers(monkeypatch):
    """Return a list that fills with what judges each group of restarts, and how many these are."""
    found = []

    class Recorded(BestPartition):
        def see(self, one, encoder):
            self.n_restarts = len(one.U)
            return super().see(one, encoder)

        def __init__(self, *args):
            super().__init__(*args)
            found.append(self)

    monkeypatch.setattr(learning, "BestPartition", Recorded)
    return found


def test_one_restart_is_enough_where_it_keeps_the_start(seed, keepers):
    X, _ = make_blobs(150, centers=[[0, 0], [9, 0], [0, 9]], random_state=seed)
    KNet(3, random_state=seed, max_iter=2).fit(X)
    assert [one.n_restarts for one in keepers] == [1]
    assert keepers[0].shortfall == pytest.approx(1)


@pytest.mark.parametrize(("n_init", "groups"), [(1, [1]), (2, [1, 1]), (4, [1, 3])])
def test_the_other_restarts_follow_where_the_first_falls_short(monkeypatch, keepers, n_init, groups):
    X, _ = make_moons(150, noise=0.3, random_state=0)
    monkeypatch.setattr(learning, "CLEARLY_SHORT", 0.0)
    model = make_knet(2, random_state=0, n_init=n_init, max_iter=2, steps_per_iter=20).fit(X)
    assert [one.n_restarts for one in keepers] == groups
    best = min(keepers, key=lambda one: one.best)
    assert best.judge.conductance(model.labels_) == pytest.approx(best.best)
    assert model.best_iter_ == best.kept.iteration
    assert 1 <= len(model.history_) <= 2


def test_the_better_separated_restart_is_kept(monkeypatch, keepers):
    X, _ = make_moons(150, noise=0.3, random_state=0)
    shortfalls = iter([3.0, 2.0])
    monkeypatch.setattr(BestPartition, "shortfall", property(lambda self: next(shortfalls)))
    model = make_knet(2, random_state=0, max_iter=1, steps_per_iter=20).fit(X)
    np.testing.assert_allclose(model.cluster_centers_, keepers[1].kept.centers, atol=1e-5)


def test_no_more_restarts_are_tried_when_a_callback_asks_to_stop(monkeypatch, keepers):
    X, _ = make_moons(150, noise=0.3, random_state=0)
    monkeypatch.setattr(BestPartition, "shortfall", 9.0)
    make_knet(2, random_state=0, callback=lambda row: True, steps_per_iter=5).fit(X)
    assert [one.n_restarts for one in keepers] == [1]


def test_embeddings_of_all_iterations_are_stored_on_demand():
    X, _ = make_moon(200, random_state=0)
    model = make_knet(2, random_state=0, keep_embeddings=True, max_iter=3, steps_per_iter=20).fit(X)
    assert model.embeddings_.shape == (model.best_iter_ + 1, 200, 3)
    np.testing.assert_allclose(model.embeddings_[0, :, :2], standardized(X), atol=1e-12)
    np.testing.assert_allclose(model.embeddings_[-1], model.transform(X), atol=1e-5)  # trained in single precision
    assert not hasattr(KNet(2, sigma=1.0, tol=2.0, random_state=0).fit(X), "embeddings_")
