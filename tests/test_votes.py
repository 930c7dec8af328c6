"""Votes of the candidates for the start."""

import numpy as np
import pytest
from sklearn.datasets import make_blobs, make_moons

from knet.start.candidates import Pool
from knet.start.choice import choose_from
from knet.start.judge import Judge
from knet.start.votes import count_votes, match_groups


def votes_on(X, n_clusters, seed=0):
    """Return the chosen partition of the rows, and the share of the votes for the group of each row."""
    pool = Pool(X, [n_clusters], seed)
    chosen = choose_from(pool, Judge(X, pool.near), n_clusters)
    shares = count_votes(pool, chosen.considered, chosen.partitions, chosen.labels, n_clusters, np.arange(len(X)))
    assert shares.sum(1).max() < 1 + 1e-9
    return chosen.labels, shares[np.arange(len(X)), chosen.labels]


def triangle(seed, distance):
    """Return three round groups of spread 1 at the corners of a triangle."""
    turn = 2 * np.pi * np.arange(3) / 3
    corners = distance / np.sqrt(3) * np.column_stack([np.cos(turn), np.sin(turn)])
    return make_blobs(450, centers=corners, cluster_std=1.0, random_state=seed)[0]


def test_votes_fall_with_the_overlap(seed):
    means = [votes_on(triangle(seed, distance), 3)[1].mean() for distance in (8, 4, 2)]
    assert means[0] > 0.99
    assert means[0] > means[1] > means[2] > 1 / 3
    assert means[2] < 0.85


def test_candidates_that_are_much_worse_do_not_count(seed):
    X = make_moons(400, noise=0.05, random_state=seed)[0]
    labels, own = votes_on(X, 2)
    k_means = Pool(X, [2], 0).partition("k-means", 2)
    assert match_groups(np.eye(2)[k_means], labels, 2)[np.arange(400), labels].mean() < 0.95
    assert own.mean() > 0.97


def test_candidates_disagree_about_rows_without_groups():
    own = [votes_on(np.random.default_rng(seed).uniform(size=(400, 5)), 3)[1].mean() for seed in range(3)]
    assert np.mean(own) < 0.8


def test_groups_are_matched_one_to_one():
    labels = np.array([0, 0, 0, 0, 1, 1, 2])
    members = np.eye(3)[[2, 2, 2, 1, 1, 1, 1]]  # two of the labels agree most with the same group
    matched = match_groups(members, labels, 3)
    assert matched.argmax(1).tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert matched.sum(1).tolist() == [1] * 7
    fewer = match_groups(members, np.minimum(labels, 1), 2)
    assert fewer.argmax(1).tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert match_groups(np.eye(2)[[0, 0, 1]], np.array([2, 2, 0]), 3).argmax(1).tolist() == [2, 2, 0]


@pytest.mark.parametrize("n_clusters", [1, 3])
def test_fewer_distinct_rows_than_clusters_have_votes(n_clusters):
    X = np.repeat([[0.0, 1.0], [1.0, 0.0]], 20, 0)
    _, own = votes_on(X, n_clusters)
    assert np.isfinite(own).all()
