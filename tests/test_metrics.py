"""Agreement measures: known values, invariances, and the rows they leave out."""

import math
from itertools import product

import numpy as np
import pytest
from sklearn.metrics import normalized_mutual_info_score

from knet.metrics import accuracy, ari, nmi

METRICS = [nmi, ari, accuracy]
SEEDS = [0, 1, 2]


def random_labelings(seed, n_samples=200, n_classes=4, n_clusters=5):
    rng = np.random.default_rng(seed)
    return rng.integers(n_classes, size=n_samples), rng.integers(n_clusters, size=n_samples)


def test_equal_partitions_score_one_for_any_names():
    for metric, seed in product(METRICS, SEEDS):
        true, _ = random_labelings(seed)
        names = np.array(["ox", "ant", "bee", "cat"])
        assert metric(true, names[true]) == pytest.approx(1, abs=1e-12)


def test_renumbering_and_reordering_change_nothing():
    for metric, seed in product(METRICS, SEEDS):
        true, pred = random_labelings(seed)
        rng = np.random.default_rng(seed)
        order, names = rng.permutation(len(true)), rng.permutation(5) * 10 - 7
        assert metric(true[order], names[pred][order]) == pytest.approx(metric(true, pred), abs=1e-12)


def test_chance_labels_score_far_below_one():
    for metric in METRICS:
        true, pred = random_labelings(0, n_samples=2000)
        assert metric(true, pred) < 0.4


def test_nmi_divides_by_the_geometric_mean_of_the_entropies():
    # Three clusters of a 2 + 2 split: I = H(C) = log 2, H(C') = 1.5 log 2.
    assert nmi([0, 0, 1, 1], [0, 0, 1, 2]) == pytest.approx(1 / math.sqrt(1.5), abs=1e-12)


def test_nmi_is_not_the_arithmetic_default_of_scikit_learn():
    true, pred = [0, 0, 1, 1], [0, 0, 1, 2]
    assert nmi(true, pred) > normalized_mutual_info_score(true, pred) + 0.01


def test_ari_of_hand_counted_pairs():
    # Pairs together: 1 in both, 2 in the first, 1 in the second, of 6. Expected 2 * 1 / 6, maximum 1.5.
    assert ari([0, 0, 1, 1], [0, 0, 1, 2]) == pytest.approx((1 - 1 / 3) / (1.5 - 1 / 3), abs=1e-12)


def test_accuracy_takes_the_best_matching_not_the_greedy_one():
    # Greedy takes the largest overlap, cluster 0 with class 0 (3), and is left with 0; the best is 2 + 2.
    true = [0, 0, 0, 0, 0, 1, 1]
    pred = [0, 0, 0, 1, 1, 0, 0]
    assert accuracy(true, pred) == pytest.approx(4 / 7)


@pytest.mark.parametrize(("pred", "expected"), [([0, 1, 2, 3], 0.5), ([0, 0, 0, 0], 0.5), ([0, 0, 1, 2], 0.75)])
def test_accuracy_with_too_many_or_too_few_clusters(pred, expected):
    assert accuracy([0, 0, 1, 1], pred) == expected


def test_noise_rows_are_left_out():
    for metric, noise in product(METRICS, (0, -1)):
        true, pred = random_labelings(3)
        true = true + 1
        with_noise = np.concatenate([true, np.full(50, noise)])
        padded = np.concatenate([pred, np.arange(50)])
        assert metric(with_noise, padded, noise_label=noise) == pytest.approx(metric(true, pred), abs=1e-12)
        assert metric(with_noise, padded) != pytest.approx(metric(true, pred), abs=1e-3)


def test_result_is_a_plain_float():
    for metric in METRICS:
        assert type(metric([0, 1], [0, 1])) is float


def test_unequal_lengths_are_refused_with_both_shapes():
    for metric in METRICS:
        with pytest.raises(ValueError, match=r"\(3,\) and \(2,\)"):
            metric([0, 1, 1], [0, 1])


def test_columns_are_refused():
    for metric in METRICS:
        with pytest.raises(ValueError, match="one-dimensional"):
            metric([[0], [1]], [[0], [1]])


def test_nothing_left_to_compare_is_an_error():
    for metric in METRICS:
        with pytest.raises(ValueError, match="no rows to compare"):
            metric([-1, -1], [0, 1], noise_label=-1)
