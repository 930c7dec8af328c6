"""Warnings about data and clusters: each fires where it should, and none fires on ordinary data."""

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, load_wine, make_blobs, make_circles, make_moons

from knet import Advanced, KNet
from knet.exceptions import KNetDataWarning
from knet.start.caveats import deciding_column, index_columns, reliable_size, small_clusters

pytestmark = pytest.mark.filterwarnings("always::knet.exceptions.KNetDataWarning")  # conftest.py ignores some


def warnings_of(X, n_clusters, seed=0):
    """Return the data warnings of a fit."""
    quick = Advanced(steps_per_iter=5)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        KNet(n_clusters, max_iter=1, advanced=quick, random_state=seed).fit(X)
    return [str(entry.message) for entry in caught if issubclass(entry.category, KNetDataWarning)]


def ordinary(seed):
    rng = np.random.default_rng(seed)
    rows = rng.permutation(150)
    return {
        "iris": (load_iris().data[rows], 3),
        "iris in two": (load_iris().data, 2),  # one column alone separates them, and so do the others
        "wine": (load_wine(as_frame=True).data, 3),
        "wine in four": (load_wine().data, 4),
        "tumours": (load_breast_cancer(as_frame=True).data, 2),
        "blobs": (make_blobs(300, 2, centers=4, random_state=seed)[0], 4),
        "blobs in five columns": (make_blobs(200, 5, centers=3, random_state=seed)[0], 3),
        "blobs of unequal size": (make_blobs([500, 60, 30], 3, random_state=seed)[0], 3),
        "moons": (make_moons(300, noise=0.08, random_state=seed)[0], 2),
        "noisy moons": (make_moons(300, noise=0.14, random_state=seed)[0], 2),
        "circles": (make_circles(300, noise=0.05, factor=0.4, random_state=seed)[0], 2),
        "few rows": (make_blobs(24, 2, centers=3, random_state=seed)[0], 3),
    }


@pytest.mark.parametrize("name", list(ordinary(0)))
def test_ordinary_data_give_no_warning(name, seed):
    assert warnings_of(*ordinary(seed)[name], seed) == []


@pytest.mark.parametrize("n_columns", [2, 5, 12])
def test_a_single_cloud_supports_no_clusters(n_columns, seed):
    X = np.random.default_rng(seed).normal(size=(400, n_columns))
    (text,) = warnings_of(X, 3, seed)
    assert "do not support 3 clusters" in text


def test_a_small_group_far_away_is_not_missed_in_silence(seed):
    X = np.random.default_rng(seed).normal(size=(10_010, 2))
    X[:10] += 6  # 8 deviations away
    (text,) = [text for text in warnings_of(X, 2, seed) if "gap" in text]
    assert "10 rows" in text
    assert "fewer than about 26" in text


def test_a_small_group_that_is_a_cluster_is_not_called_missed(seed):
    X = np.random.default_rng(seed).normal(size=(500, 2))
    X[:40] += 9
    assert warnings_of(X, 2, seed) == []


def test_clusters_of_very_few_rows_are_named():
    labels = np.repeat([0, 1, 2], [9000, 995, 5])
    (text,) = small_clusters(labels, 3)
    assert "2 (5)" in text
    assert "fewer than about 25" in text
    assert small_clusters(np.repeat([0, 1, 2], [9000, 900, 100]), 3) == []
    assert small_clusters(np.repeat([0, 1, 2], [4, 3, 2]), 3) == []  # all clusters of small data are small
    assert small_clusters(np.repeat([0, 2], [50, 50]), 3) == []  # an empty cluster is another matter


def test_the_size_of_a_group_that_can_be_found_grows_with_the_rows():
    assert [reliable_size(n) for n in (50, 4000, 10_000, 1_000_000)] == [10, 10, 25, 2500]


def test_a_column_that_decides_alone_is_named(seed):
    X = make_blobs(200, centers=[[0, 0, 0], [9, 0, 0]], random_state=seed)[0]
    (text,) = warnings_of(pd.DataFrame(X, columns=["a", "b", "c"]), 2, seed)
    assert text.startswith("Column 'a' alone reproduces the clusters")


def test_a_column_decides_only_if_the_others_do_not_show_the_clusters(rng):
    labels = np.repeat([0, 1, 2], 50)
    noise = rng.normal(size=(150, 2))
    alone = np.column_stack([noise, 5 * labels + rng.normal(size=150) / 4])
    (text,) = deciding_column(alone, labels, None)
    assert text.startswith("Column 2 alone")
    assert deciding_column(np.column_stack([alone, 4 * labels + noise[:, 0]]), labels, None) == []
    assert deciding_column(alone[:, 2:], labels, None) == []  # there are no other columns
    assert deciding_column(noise, labels, None) == []
    assert deciding_column(alone[::5], labels[::5], None) == []  # too few rows


def test_categories_count_as_the_column_that_they_come_from(rng):
    labels = rng.integers(3, size=200)
    X = np.column_stack([rng.normal(size=200), np.eye(3)[labels]])
    (text,) = deciding_column(X, labels, ["size", "kind=a", "kind=b", "kind=c"])
    assert text.startswith("Column 'kind' alone")


def test_index_columns_are_named(rng):
    values = rng.normal(size=(100, 2))
    for number in (np.arange(100), 7 + np.arange(100)[::1], rng.permutation(100), np.cumsum(rng.integers(1, 9, 100))):
        (text,) = index_columns(np.column_stack([values, number]), ["a", "b", "key"])
        assert text.startswith("Column 'key' looks like an index")
    for number in (rng.integers(0, 1000, 100), np.sort(values[:, 0]), np.repeat(np.arange(50), 2), np.zeros(100)):
        assert index_columns(np.column_stack([values, number]), None) == []
    assert index_columns(np.arange(100)[:, None], None) == []  # the only column
    assert index_columns(np.column_stack([np.arange(100), rng.permutation(100)]), None) == []  # ranks
    assert index_columns(np.column_stack([values, np.arange(100)])[:9], None) == []


def test_a_fit_warns_about_an_index_at_the_users_line():
    X = np.column_stack([make_blobs(100, 2, centers=2, random_state=0)[0], np.arange(100)])
    with pytest.warns(KNetDataWarning) as caught:
        KNet(2, max_iter=1, random_state=0, advanced=Advanced(steps_per_iter=5)).fit(X)
    assert str(caught[0].message).startswith("Column 2 looks like an index")
    assert {entry.filename for entry in caught} == {__file__}
