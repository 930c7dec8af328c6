"""How partitions are compared without labels: conductance, gain, structure, and the rule that chooses."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from sklearn.datasets import make_blobs
from sklearn.metrics import adjusted_rand_score

from knet.datasets import make_spirals
from knet.metrics import rand_index
from knet.start.judge import JUDGE_NEIGHBORS, Judge, Verdict, choose
from knet.start.mixtures import PRIOR_SHARE, overall_covariance, rounding_variance
from knet.start.neighbors import neighbor_graph, neighbors


def standardized(X):
    return (X - X.mean(0)) / X.std(0)


def judge_of(X):
    return Judge(X, neighbors(X, 20))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 4)), min_size=2, max_size=40))
def test_the_rand_index_is_that_of_scikit_learn(pairs):
    first, second = np.array(pairs).T
    assert rand_index(first, second) == pytest.approx(adjusted_rand_score(first, second))


# Conductance


def test_conductance_of_two_far_groups_by_hand(rng):
    X = np.vstack([rng.normal(size=(30, 2)), rng.normal(size=(30, 2)) + 100])
    found = judge_of(X).measure(np.repeat([0, 1], 30))
    # Each row has 10 edges of weight 1/2 to others, and every other row's 1/2 to it: 300 for each group, none leaves.
    assert found.conductance == pytest.approx(1 / 301)
    assert found.cut == 0


def test_conductance_counts_the_edges_that_leave_by_hand(rng):
    X = rng.normal(size=(60, 3))
    labels = rng.integers(0, 3, 60)
    W = neighbor_graph(neighbors(X, 20), JUDGE_NEIGHBORS).toarray()
    shares, total = [], 0.0
    for group in range(3):
        inside = labels == group
        leaving = W[inside][:, ~inside].sum()
        shares.append((1 + leaving) / (1 + W[inside].sum()))
        total += leaving
    found = judge_of(X).measure(labels)
    assert found.conductance == pytest.approx(np.mean(shares))
    assert found.cut == pytest.approx(total / 2 / JUDGE_NEIGHBORS)


@pytest.mark.parametrize("n_clusters", [1, 2, 7, 50])
def test_conductance_is_a_share(rng, n_clusters):
    X = rng.normal(size=(50, 2))
    labels = rng.permutation(np.arange(50) % n_clusters)
    found = judge_of(X).measure(labels)
    assert 0 < found.conductance <= 1
    if n_clusters == 50:
        assert found.conductance == pytest.approx(1)


def test_numbers_of_groups_and_order_of_rows_do_not_matter(rng):
    X, labels, order = rng.normal(size=(80, 2)), rng.integers(0, 3, 80), rng.permutation(80)
    plain = judge_of(X).measure(labels)
    for other in (judge_of(X).measure((labels + 1) % 3), judge_of(X[order]).measure(labels[order])):
        assert other.conductance == pytest.approx(plain.conductance)
        assert other.gain == pytest.approx(plain.gain)
        assert other.score == pytest.approx(plain.score)


# Gain


def direct_gain(X, labels):
    """Return the gain as defined: log-likelihoods per row with shrunken covariances and the penalty of the BIC."""
    (n, d), c = X.shape, labels.max() + 1
    rounding = rounding_variance(X)
    overall = overall_covariance(X, rounding)

    def likelihood(groups, covariances, shares):
        value = 0.0
        for rows, S, share in zip(groups, covariances, shares, strict=True):
            value += multivariate_normal(rows.mean(0), S).logpdf(rows).sum() + len(rows) * np.log(share)
            value -= len(rows) * np.trace(np.linalg.solve(S, np.diag(rounding))) / 2
        return value / n

    def shrunk(scatter, size):
        return (scatter + size * np.diag(rounding) + (d + 1) * PRIOR_SHARE * overall) / (size + d + 1)

    def scatter(rows):
        return len(rows) * np.atleast_2d(np.cov(rows.T, bias=True))

    groups = [X[labels == group] for group in range(c)]
    shares = [len(rows) / n for rows in groups]
    single = likelihood([X], [shrunk(scatter(X), n)], [1.0])
    full = likelihood(groups, [shrunk(scatter(rows), len(rows)) for rows in groups], shares)
    tied = likelihood(groups, [shrunk(sum(map(scatter, groups)), n)] * c, shares)
    full -= np.log(n) / 2 / n * (c - 1) * (1 + d + d * (d + 1) / 2)
    tied -= np.log(n) / 2 / n * (c - 1) * (1 + d)
    return max(full, tied) - single


@pytest.mark.parametrize("d", [1, 2, 5])
@pytest.mark.parametrize("kind", ["random", "round groups", "long and short"])
def test_gain_is_the_direct_one(rng, d, kind):
    labels = np.arange(150) % 3
    X = rng.normal(size=(150, d))
    if kind == "round groups":
        X += 5 * labels[:, None]
    if kind == "long and short":
        X *= np.array([0.1, 1, 10])[labels][:, None]
    found = judge_of(X).measure(labels)
    assert found.gain == pytest.approx(direct_gain(X, labels), abs=1e-9)
    assert found.gains.mean() == pytest.approx(found.gain)
    assert found.score == pytest.approx(-np.log(found.conductance) + found.gain / np.sqrt(d))


def test_the_gains_of_rows_are_in_their_order(rng):
    X, labels, order = rng.normal(size=(80, 2)), rng.integers(0, 3, 80), rng.permutation(80)
    moved = judge_of(X[order]).measure(labels[order])
    np.testing.assert_allclose(moved.gains, judge_of(X).measure(labels).gains[order])


def test_gain_of_all_rows_in_one_group_is_zero(rng):
    assert judge_of(rng.normal(size=(60, 3))).measure(np.zeros(60, dtype=int)).gain == pytest.approx(0)


def test_random_groups_have_a_negative_gain_and_real_ones_a_positive(rng):
    y = np.arange(300) % 3
    X = rng.normal(size=(300, 2)) + 4 * np.eye(3)[y][:, :2]
    judge = judge_of(X)
    assert judge.measure(rng.permutation(y)).gain < 0 < judge.measure(y).gain


# Structure


@pytest.mark.parametrize("d", [1, 2, 5])
def test_one_gaussian_cloud_has_no_structure(rng, d):
    X = standardized(rng.normal(size=(1000, d)))
    assert abs(judge_of(X).structure) < 0.15
    correlated = standardized(X @ rng.normal(size=(d, d)))
    assert judge_of(correlated).structure < 0.15  # can be negative: neighbours are far along the long axes


def test_spirals_have_much_structure(seed):
    X = standardized(make_spirals(900, random_state=seed)[0])
    assert judge_of(X).structure > 1


def test_structure_of_separated_groups_is_what_their_gaussians_explain(seed):
    X, y = make_blobs(1500, centers=[[0, 0], [20, 0], [0, 20]], random_state=seed)
    judge = judge_of(standardized(X))
    assert judge.structure == pytest.approx(judge.measure(y).gain, abs=0.15)


def test_structure_does_not_depend_on_units(rng):
    X = rng.standard_t(3, size=(400, 2))
    assert judge_of(X * 1e3).structure == pytest.approx(judge_of(X).structure, abs=1e-3)


def test_rounding_is_not_structure(rng):
    X = np.round(rng.normal(size=(1500, 2)) * 4)  # many duplicates
    assert len(np.unique(X, axis=0)) < 700
    assert judge_of(X).structure < 0.3


# The rule


def verdict(conductance, gain, cut=0.0, spread=0.0, n=100, d=1):
    """Return a verdict; the gains of rows are above and below the mean in turn, by `spread`."""
    gains = gain + spread * np.resize([1.0, -1.0], n)
    return Verdict(conductance, cut, gain, 0.0, -np.log(conductance) + gain / np.sqrt(d), lambda: gains)


LABELS = [np.repeat([0, 1], 50), np.tile([0, 1], 50), np.arange(100) % 4 // 2]


def test_gaussians_that_explain_too_little_leave_the_choice_to_conductance():
    verdicts = [verdict(0.3, 0.9), verdict(0.1, -5.0), verdict(0.2, 0.5)]
    assert choose(verdicts, LABELS, structure=1.81) == 1
    assert choose(verdicts, LABELS, structure=1.79) == 0  # believed: the scores of 0 and 2 are equal, 0 gains more


def test_scores_decide_if_they_are_clear():
    many_cuts = {"cut": 1e6}
    verdicts = [verdict(0.1, 1.0, **many_cuts), verdict(0.1, 1.2, **many_cuts), verdict(0.02, 0.9, **many_cuts)]
    assert choose(verdicts, LABELS, structure=0.0) == 2
    assert choose(verdicts[:2], LABELS[:2], structure=0.0) == 1


def test_scores_within_a_standard_error_are_equal_and_the_gain_decides():
    first, second = (0.1, 0.5), (0.12, 0.6)  # scores 2.80 and 2.72
    few, many = ([verdict(*own, cut=cut) for own in (first, second)] for cut in (100, 10_000))
    assert choose(few, LABELS[:2], structure=0.0) == 1  # the error is sqrt(2 / 101) = 0.14
    assert choose(many, LABELS[:2], structure=0.0) == 0  # the error is 0.014


def test_of_equal_gains_the_partition_that_agrees_with_the_others_is_taken():
    near = LABELS[0].copy()
    near[:2] = 1
    nearer = LABELS[0].copy()
    nearer[:1] = 1
    partitions = [LABELS[1], near, nearer, LABELS[0]]  # nearer is between the last and near
    equal = [verdict(0.1, gain, spread=spread) for gain, spread in ((1.0, 0), (1.01, 1), (1.0, 0), (1.0, 0))]
    assert choose(equal, partitions, structure=0.0) == 2
    clear = [verdict(0.1, 1.0), verdict(0.1, 1.01), verdict(0.1, 1.0), verdict(0.1, 1.0)]
    assert choose(clear, partitions, structure=0.0) == 1  # all rows gain more: no error


def test_the_first_of_entirely_equal_candidates_is_taken():
    assert choose([verdict(0.1, 1.0)] * 3, [LABELS[0]] * 3, structure=0.0) == 0
    assert choose([verdict(0.1, -1.0)] * 3, [LABELS[0]] * 3, structure=9.0) == 0


def test_without_a_positive_gain_the_medoid_of_the_smallest_conductances_is_taken():
    near, nearer = LABELS[0].copy(), LABELS[0].copy()
    near[:2], nearer[:1] = 1, 1
    partitions = [LABELS[1], near, nearer, LABELS[0]]
    verdicts = [verdict(0.5, -0.1, cut=100)] + [verdict(0.1, gain, cut=100) for gain in (-1.0, -9.0, -0.2)]
    assert choose(verdicts, partitions, structure=5.0) == 2  # whatever the gains are
    clear = [*verdicts[:3], verdict(0.05, -20.0, cut=100)]
    assert choose(clear, partitions, structure=5.0) == 3


def test_the_large_error_of_a_tiny_group_does_not_make_it_equal():
    verdicts = [verdict(0.1, 1.0, cut=1e4), verdict(0.2, 1.1, cut=0.0)]
    assert choose(verdicts, LABELS[:2], structure=0.0) == 0


def test_negative_structure_believes_in_gaussians():
    assert choose([verdict(0.3, 0.5, cut=1e6), verdict(0.2, -0.5, cut=1e6)], LABELS[:2], structure=-0.1) == 0


def test_the_judge_prefers_the_truth_to_other_partitions(seed):
    X, y = make_spirals(600, random_state=seed)
    rng, X = np.random.default_rng(seed), standardized(X)
    halves = (X[:, 0] > 0).astype(int) + (X[:, 1] > 0)
    partitions = [rng.integers(0, 3, 600), halves, y]
    judge = judge_of(X)
    verdicts = [judge.measure(labels) for labels in partitions]
    assert choose(verdicts, partitions, judge.structure) == 2
    assert verdicts[2].conductance == min(found.conductance for found in verdicts)


@pytest.mark.parametrize("d", [1, 2, 5])
def test_a_gaussian_cloud_is_one_cloud_and_groups_are_not(seed, d):
    rng = np.random.default_rng(seed)
    cloud = rng.normal(size=(300, d))
    halves = (cloud[:, 0] > 0).astype(np.int64)
    judge = judge_of(cloud)
    assert judge.is_one_cloud(judge.measure(halves))
    groups = cloud + 8 * halves[:, None]
    judge = judge_of(groups)
    assert not judge.is_one_cloud(judge.measure(halves))


# Columns that share a unit


def random_partition(rng, n, n_groups):
    return rng.permutation(np.arange(n) % n_groups)


def test_modularity_is_that_of_newman(rng):
    X = rng.normal(size=(80, 5))
    judge, labels = judge_of(X), random_partition(rng, 80, 3)
    W = judge.graph.toarray()
    degrees, total = W.sum(1), W.sum()
    same = labels[:, None] == labels
    expected = ((W - np.outer(degrees, degrees) / total) * same).sum() / total
    assert judge.measure(labels).modularity == pytest.approx(expected)


def test_the_largest_modularity_wins_from_four_columns_that_share_a_unit():
    measured = {"gain": 0.0, "cut": 1.0, "measure_gains": lambda: np.zeros(4)}
    verdicts = [
        Verdict(0.1, **measured, modularity=0.2, score=9.0),
        Verdict(0.3, **measured, modularity=0.4, score=1.0),
    ]
    labels = [np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])]
    for n_columns, shares_unit, expected in ((4, True, 1), (3, True, 0), (4, False, 0)):
        X = np.random.default_rng(0).normal(size=(4, n_columns))
        assert Judge(X, neighbors(X, 3), shares_unit=shares_unit).choose(verdicts, labels) == expected
