"""Nearest neighbours, the graphs and trees that they form, and what is cut from these."""

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.linalg import subspace_angles
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree
from scipy.spatial.distance import cdist
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

from knet.start import graph_embedding as embedding_module
from knet.start.graph_embedding import DENSE_ROWS, graph_embedding
from knet.start.linkage import Tree, connect, genie, spanning_tree
from knet.start.nearest import ONE_CELL, TREE_COLUMNS, nearest
from knet.start.neighbors import extend, neighbor_graph, neighbors, vote
from knet.threads import limit_threads

GRIDS = arrays(np.float64, st.tuples(st.integers(2, 30), st.integers(1, 3)), elements=st.integers(0, 4).map(float))


# Neighbours


def assert_nearest(X, found, k):
    """Check neighbours against all distances; of equally far rows any may be named."""
    D = cdist(X, X)
    np.fill_diagonal(D, np.inf)
    k = min(k, len(X) - 1)
    assert found.indices.shape == found.distances.shape == (len(X), k)
    np.testing.assert_allclose(found.distances, np.sort(D, axis=1)[:, :k], atol=1e-6)
    np.testing.assert_allclose(np.take_along_axis(D, found.indices, 1), found.distances, atol=1e-6)
    assert all(len(set(row)) == k for row in found.indices.tolist())
    assert not (found.indices == np.arange(len(X))[:, None]).any()


@pytest.mark.parametrize("d", [1, TREE_COLUMNS, TREE_COLUMNS + 1, 40])
@pytest.mark.parametrize("k", [1, 10, 200])
def test_neighbors_are_those_of_all_distances(rng, d, k):
    X = rng.normal(size=(120, d))
    assert_nearest(X, neighbors(X, k), k)


@settings(max_examples=100, deadline=None)
@given(GRIDS, st.integers(1, 8))
def test_neighbors_are_different_rows_and_copies_never_the_row_itself(X, k):
    found, same = neighbors(X, k), cdist(X, X) == 0
    if len(np.unique(X, axis=0)) <= 2 * k:  # few different rows: copies are neighbours
        return assert_nearest(X, found, k)
    n_others = k
    assert found.indices.shape == found.distances.shape == (len(X), n_others)
    np.testing.assert_allclose(np.take_along_axis(cdist(X, X), found.indices, 1), found.distances, atol=1e-6)
    assert all(len(set(row)) == n_others for row in found.indices.tolist())
    assert not (found.indices == np.arange(len(X))[:, None]).any()
    np.testing.assert_array_equal(found.copies, same.sum(1))
    assert same[np.arange(len(X)), found.twins].all()
    assert sorted(found.twins) == list(range(len(X)))


@pytest.mark.parametrize("d", [2, 20])
def test_a_row_that_occurs_often_has_the_neighbors_that_it_has_once(rng, d):
    X = rng.normal(size=(40, d))
    middle = np.abs(X).sum(1).argmin()  # a neighbour of its neighbours
    many, once = neighbors(np.vstack([X, np.repeat(X[[middle]], 50, axis=0)]), 3), neighbors(X, 3)
    mutual = np.array([middle in once.indices[j] for j in once.indices[middle]])
    for row in [middle, *range(40, 90)]:
        assert (many.indices[row] == once.indices[middle])[mutual].all()
        assert (many.distances[row] == 0).tolist() == (~mutual).tolist()
    far = neighbors(np.vstack([X, np.full((50, d), 100.0)]), 3)
    assert (far.indices[40:] >= 40).all()  # a neighbour of none


def test_the_graph_has_weight_1_for_mutual_neighbors_and_half_for_others():
    X = np.array([[0.0], [1.0], [2.5], [10.0]])  # 0 and 1 name each other, 2 names 1, 3 names 2
    graph = neighbor_graph(neighbors(X, 2), 1).toarray()
    expected = np.zeros((4, 4))
    expected[0, 1] = expected[1, 0] = 1
    expected[1, 2] = expected[2, 1] = expected[2, 3] = expected[3, 2] = 0.5
    np.testing.assert_array_equal(graph, expected)


@settings(max_examples=50, deadline=None)
@given(GRIDS, st.integers(1, 5))
def test_the_graph_is_symmetric_and_every_row_has_its_edges(X, k):
    near = neighbors(X, 5)
    graph = neighbor_graph(near, k).toarray()
    np.testing.assert_array_equal(graph, graph.T)
    assert not graph.diagonal().any()
    assert set(np.unique(graph)) <= {0, 0.5, 1}
    assert graph.sum() == pytest.approx(len(X) * min(k, near.indices.shape[1]))


def test_a_vote_is_the_most_frequent_label_among_five():
    X = np.arange(10.0)[:, None]
    labels = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1, 1])
    assert vote(labels, X, np.array([[0.0], [3.9], [5.1], [99.0]])).tolist() == [0, 0, 1, 1]
    assert vote(labels[:2], X[:2], X).tolist() == [0] * 10  # fewer rows than votes


def test_nearest_rows_of_other_rows_are_found(rng):
    for d in (2, 20):
        X, queries = rng.normal(size=(50, d)), rng.normal(size=(9, d))
        indices, distances = nearest(X, queries, 4)
        D = cdist(queries, X)
        np.testing.assert_array_equal(indices, D.argsort(1)[:, :4])
        np.testing.assert_allclose(distances, np.sort(D, axis=1)[:, :4], atol=1e-7)
        assert nearest(X, queries, 1)[0].shape == (9, 1)


def all_distances(X, queries, k):
    return np.sort(np.partition(cdist(queries, X), k, axis=1)[:, :k], axis=1)


def far_rows_and_clumps(rng, n, d):
    """Rows of very different density: a cloud, two clumps, and a few rows far away."""
    clumps = [rng.normal(size=(n // 4, d)) * size + size for size in (1e-3, 1e-6)]
    return np.vstack([rng.normal(size=(n // 2, d)), *clumps, 1e4 * rng.normal(size=(5, d))])


@pytest.mark.parametrize("d", [TREE_COLUMNS + 1, 20])
@pytest.mark.parametrize("kind", ["cloud", "clumps", "grid", "large", "equal"])
def test_few_rows_have_exact_neighbors(kind, d):
    rng, n = np.random.default_rng(0), ONE_CELL - 10
    X = {
        "cloud": lambda: rng.normal(size=(n, d)),
        "clumps": lambda: far_rows_and_clumps(rng, n, d),
        "grid": lambda: rng.integers(0, 2, size=(n, d)).astype(float),  # most distances are equal
        "large": lambda: 1e150 * (1e6 + rng.normal(size=(n, d))),
        "equal": lambda: np.ones((n, d)),
    }[kind]()
    indices, distances = nearest(X, X[:300], 9)
    expected = all_distances(X / np.abs(X).max(), X[:300] / np.abs(X).max(), 9) * np.abs(X).max()
    np.testing.assert_allclose(distances, expected, rtol=1e-7, atol=1e-14 * np.abs(X).max())
    assert all(len(set(row)) == 9 for row in indices.tolist())


@pytest.mark.parametrize("kind", ["cloud", "groups", "curve", "clumps", "sorted"])
@pytest.mark.parametrize("d", [TREE_COLUMNS + 1, 16])
def test_hardly_any_neighbor_is_missed_among_many_rows(kind, d):
    rng, n, k = np.random.default_rng(0), 2 * ONE_CELL, 21
    X = {
        "cloud": lambda: rng.normal(size=(n, d)),
        "groups": lambda: make_blobs(n, d, centers=12, random_state=0)[0],
        "curve": lambda: np.sin(np.outer(rng.uniform(0, 6, n), np.arange(1, d + 1))) + 1e-3 * rng.normal(size=(n, d)),
        "clumps": lambda: far_rows_and_clumps(rng, n, d),
        "sorted": lambda: np.sort(rng.normal(size=(n, d)), axis=0),
    }[kind]()
    indices, distances = nearest(X, X, k)
    np.testing.assert_allclose(distances, np.linalg.norm(X[:, None] - X[indices], axis=2), rtol=1e-12)
    assert all(len(set(row)) == k for row in indices.tolist())
    assert (np.diff(distances, axis=1) >= 0).all()
    assert (distances <= all_distances(X, X, k)[:, -1:] * (1 + 1e-9)).mean() > 0.995
    queries = rng.permutation(X)[:500] + 0.01 * rng.normal(size=(500, d))
    assert (nearest(X, queries, 5)[1] <= all_distances(X, queries, 5)[:, -1:] * (1 + 1e-9)).mean() > 0.995


def test_neighbors_are_the_same_on_any_number_of_threads(rng):
    X = rng.normal(size=(3 * ONE_CELL, 8))
    with limit_threads(1):
        indices, distances = nearest(X, X, 21)
    again = nearest(X, X, 21)
    np.testing.assert_array_equal(again[0], indices)
    np.testing.assert_array_equal(again[1], distances)


def test_labels_extend_to_near_rows_and_given_labels_stay(rng):
    X = np.vstack([rng.normal(size=(30, 2)), rng.normal(size=(30, 2)) + 20])
    sample = np.arange(0, 60, 2)
    labels = np.repeat([0, 1], 15)
    labels[0] = 1  # against the vote of its neighbours
    extended = extend(labels, sample, X)
    assert extended[sample].tolist() == labels.tolist()
    assert extended[1::2].tolist() == [0] * 15 + [1] * 15
    order = rng.permutation(60)
    assert extend(np.arange(60), order, X)[order].tolist() == list(range(60))


# Spanning trees


def lengths(X, tree):
    return np.linalg.norm(X[tree.heads] - X[tree.tails], axis=1)


def is_connected(n, tree):
    graph = np.zeros((n, n))
    graph[tree.heads, tree.tails] = 1
    return connected_components(graph, directed=False)[0] == 1


@pytest.mark.parametrize("d", [1, 2, 5, 15])
def test_the_spanning_tree_is_that_of_all_pairs(rng, d):
    X = rng.normal(size=(150, d))
    tree = spanning_tree(X, neighbors(X, 149))
    assert np.sort(lengths(X, tree)) == pytest.approx(np.sort(minimum_spanning_tree(cdist(X, X)).data))
    assert (np.diff(lengths(X, tree)) >= -1e-12).all()


@pytest.mark.parametrize("n_groups", [2, 5, 12])
def test_groups_without_common_neighbors_are_bridged(rng, n_groups):
    centers = rng.normal(size=(n_groups, 2)) * 1000
    X = make_blobs(40 * n_groups, centers=centers, random_state=0)[0]
    tree = spanning_tree(X, neighbors(X, 20))
    assert len(tree.heads) == len(X) - 1
    assert is_connected(len(X), tree)
    assert lengths(X, tree).sum() == pytest.approx(minimum_spanning_tree(cdist(X, X)).sum(), rel=1e-9)


@settings(max_examples=100, deadline=None)
@given(GRIDS)
def test_duplicates_are_in_the_tree(X):
    tree = spanning_tree(X, neighbors(X, 3))
    assert len(tree.heads) == len(X) - 1
    assert is_connected(len(X), tree)
    distinct = len(np.unique(X, axis=0))
    assert (lengths(X, tree) == 0).sum() == len(X) - distinct


def test_connecting_adds_only_edges_between_components(rng):
    X = np.vstack([rng.normal(size=(30, 2)), rng.normal(size=(30, 2)) + 50, rng.normal(size=(30, 2)) - 50])
    near = neighbors(X, 5)
    graph, tree = neighbor_graph(near, 5), spanning_tree(X, near)
    n_components = connected_components(graph, directed=False)[0]
    joined = connect(graph, tree)
    assert n_components >= 3
    assert connected_components(joined, directed=False)[0] == 1
    added = (joined - graph).toarray()
    assert np.count_nonzero(added) == 2 * (n_components - 1)
    assert set(np.unique(added)) == {0, 0.5}
    np.testing.assert_array_equal(added, added.T)
    assert connect(joined, tree) is joined


# Balanced linkage


def whole_tree(X):
    return spanning_tree(X, neighbors(X, len(X) - 1))


@pytest.mark.parametrize("n_clusters", [1, 2, 5, 40, 80])
def test_threshold_1_is_single_linkage(rng, n_clusters):
    X = rng.normal(size=(80, 2))
    expected = fcluster(linkage(X, "single"), n_clusters, "maxclust")
    assert adjusted_rand_score(expected, genie(whole_tree(X), [n_clusters], 1.0)[n_clusters]) == 1


@settings(max_examples=60, deadline=None)
@given(GRIDS, st.data())
def test_there_are_as_many_groups_as_asked_for_at_any_threshold(X, data):
    n_clusters = data.draw(st.integers(1, len(X)))
    threshold = data.draw(st.sampled_from([0.0, 0.1, 0.3, 0.7, 1.0]))
    labels = genie(whole_tree(X), [n_clusters], threshold)[n_clusters]
    assert np.unique(labels).tolist() == list(range(n_clusters))


def test_a_lone_row_is_joined_before_large_groups_are():
    # Rows 0 to 4 and 5 to 9 in a chain each; the chains are 2 apart, and row 10 is 3 away from the second.
    X = np.array([*range(5), *range(6, 11), 13], dtype=float)[:, None]
    tree = whole_tree(X)
    assert genie(tree, [2], 1.0)[2].tolist() == [0] * 10 + [1]
    assert genie(tree, [2], 0.1)[2].tolist() == [0] * 5 + [1] * 6


def gini(sizes):
    sizes = np.asarray(sizes, dtype=float)
    m = len(sizes)
    return np.abs(sizes[:, None] - sizes).sum() / 2 / sizes.sum() / (m - 1) if m > 1 else 0.0


def plain_genie(tree, n_clusters, threshold):
    """The rule as printed: recompute the Gini index and search all edges from the shortest in every step."""
    n = len(tree.heads) + 1
    labels, unused = np.arange(n), list(zip(tree.heads.tolist(), tree.tails.tolist(), strict=True))
    while len(np.unique(labels)) > n_clusters:
        sizes = dict(zip(*np.unique(labels, return_counts=True), strict=True))
        if gini(list(sizes.values())) > threshold + 1e-12:
            smallest = min(sizes.values())
            edge = next(e for e in unused if smallest in (sizes[labels[e[0]]], sizes[labels[e[1]]]))
        else:
            edge = unused[0]
        unused.remove(edge)
        labels[labels == labels[edge[1]]] = labels[edge[0]]
    return labels


@pytest.mark.parametrize("threshold", [0.07, 0.1, 0.3, 0.61])
def test_the_linked_list_gives_what_a_plain_search_gives(rng, threshold):
    X = rng.standard_t(2, size=(70, 2))
    tree = whole_tree(X)
    for n_clusters in (2, 3, 6, 20):
        expected = plain_genie(tree, n_clusters, threshold)
        assert adjusted_rand_score(expected, genie(tree, [n_clusters], threshold)[n_clusters]) == 1


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.05, 0.1, 0.2, 0.3, 0.5, 0.7]))
def test_any_tree_gives_what_a_plain_search_gives(seed, threshold):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 40))
    heads = np.arange(1, n)
    tails = np.array([rng.integers(max(0, row - rng.integers(1, 40)), row) for row in heads], dtype=int)
    order = rng.permutation(n - 1)
    tree = Tree(heads[order], tails[order])
    n_clusters = int(rng.integers(1, n + 1))
    expected = plain_genie(tree, n_clusters, threshold)
    assert adjusted_rand_score(expected, genie(tree, [n_clusters], threshold)[n_clusters]) == 1


@pytest.mark.parametrize("threshold", [0.1, 0.3])
def test_the_order_of_rows_does_not_matter(rng, threshold):
    X = rng.normal(size=(100, 2))
    order = rng.permutation(100)
    plain, shuffled = (genie(whole_tree(rows), [4], threshold)[4] for rows in (X, X[order]))
    assert adjusted_rand_score(plain[order], shuffled) == 1


def test_a_tree_of_two_rows_has_one_or_two_groups():
    tree = Tree(np.array([0]), np.array([1]))
    assert genie(tree, [2], 0.3)[2].tolist() == [0, 1]
    assert genie(tree, [1], 0.3)[1].tolist() == [0, 0]


# Eigenvectors of graphs


def dense_laplacian(W):
    roots = np.sqrt(W.sum(1))
    return W / roots[:, None] / roots


def graphs(X, k=10):
    near = neighbors(X, 20)
    graph = neighbor_graph(near, k)
    return graph, connect(graph, spanning_tree(X, near))


def gap_after(values, n_wanted):
    """Return the number of columns, at least n_wanted, before the first clear gap in descending eigenvalues."""
    gaps = values[:-1] - values[1:]
    return n_wanted + int(np.argmax(gaps[n_wanted - 1 : n_wanted + 6]))


@pytest.mark.parametrize("n", [200, DENSE_ROWS + 1, 900])
@pytest.mark.parametrize("kind", ["one cloud", "four groups", "far groups"])
def test_eigenvectors_span_what_lapack_finds(seed, n, kind):
    centers = {"one cloud": 1, "four groups": [[0, 0], [7, 0], [0, 7], [7, 7]]}
    centers["far groups"] = np.array(centers["four groups"]) * 1000
    X = make_blobs(n, n_features=2, centers=centers[kind], random_state=seed)[0]
    graph, connected = graphs(X)
    values, V = np.linalg.eigh(dense_laplacian(connected.toarray()))
    values, V = values[::-1], V[:, ::-1]
    n_columns = gap_after(values, 4)  # eigenvectors are defined up to those of nearly equal eigenvalues
    for in_plane in (False, True):
        found = graph_embedding(graph, connected, n_columns, np.random.RandomState(seed), in_plane=in_plane)
        np.testing.assert_allclose(found.T @ found, np.eye(n_columns), atol=1e-5)
        assert np.sin(subspace_angles(found, V[:, :n_columns])).max() < 0.05
        quotients = (found * (dense_laplacian(connected.toarray()) @ found)).sum(0)
        np.testing.assert_allclose(quotients, values[:n_columns], atol=1e-3)
        assert (np.diff(quotients) < 1e-6).all()


def test_eigenvectors_are_found_if_hubs_make_their_values_small(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(1000, 32)) * np.repeat([[1.0], [1.4]], 500, axis=0)  # the inner half are neighbours of all
    graph, connected = graphs(X)
    values, V = np.linalg.eigh(dense_laplacian(connected.toarray()))
    n_columns = gap_after(values[::-1], 2)
    found = graph_embedding(graph, connected, n_columns, np.random.RandomState(seed))
    assert np.sin(subspace_angles(found, V[:, ::-1][:, :n_columns])).max() < 0.05


@pytest.mark.parametrize("n", [300, 700])
def test_a_graph_in_pieces_gives_the_indicators_of_its_pieces(seed, n):
    centers = [[0, 0], [1000, 0], [0, 1000]]
    X, y = make_blobs(n, centers=centers, random_state=seed)
    graph = neighbor_graph(neighbors(X, 10), 10)
    assert connected_components(graph, directed=False)[0] == 3
    found = graph_embedding(graph, graph, 3, np.random.RandomState(seed))
    indicators = (y[:, None] == np.arange(3)) * np.sqrt(np.asarray(graph.sum(1)))
    assert np.sin(subspace_angles(found, indicators)).max() < 1e-3


def test_a_solver_that_gives_up_is_replaced(rng, monkeypatch):
    near = neighbors(rng.normal(size=(60, 3)), 10)
    graph = neighbor_graph(near, 10)
    expected = graph_embedding(graph, graph, 3, np.random.RandomState(0))

    def gives_up(L, driver=None, **options):  # as LAPACK's evr does, silently, on some graphs in many pieces
        return (np.empty(0), np.empty((len(L), 0))) if driver is None else scipy.linalg.eigh(L, driver=driver)

    monkeypatch.setattr(embedding_module, "eigh", gives_up)
    found = graph_embedding(graph, graph, 3, np.random.RandomState(0))
    np.testing.assert_allclose(np.abs((found * expected).sum(0)), 1, atol=1e-4)
