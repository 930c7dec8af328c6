"""The scan over numbers of clusters: right if the data have clusters, no answer if they have none."""

import importlib

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import make_blobs, make_circles

import knet
from knet.datasets import make_moon, make_spirals
from knet.explore.scan import MIN_JUMP, MIN_STABILITY
from knet.start.candidates import METHODS

COLUMNS = {"n_clusters", "stability", "conductance", "jump", "smallest_group", "method", "supported"}

scan_module = importlib.import_module("knet.explore.scan")

plots = pytest.importorskip("knet.show.plots", reason="plots need matplotlib")


def separated(seed):
    return {
        2: make_moon(400, random_state=seed)[0],
        3: make_spirals(600, random_state=seed)[0],
        4: make_blobs(300, centers=[[0, 0, 0], [9, 0, 0], [0, 9, 0], [0, 0, 9]], random_state=seed)[0],
    }


@pytest.mark.parametrize("c", [2, 3, 4])
def test_separated_groups_are_counted(seed, c):
    found = knet.scan(separated(seed)[c], range(2, 7), random_state=seed, n_resamples=3)
    assert found.best == c
    assert found.advice.startswith(f"{c} clusters")


@pytest.mark.parametrize("d", [1, 2, 5])
def test_one_cloud_gives_no_answer(seed, d):
    X = np.random.default_rng(seed).normal(size=(300, d))
    found = knet.scan(X, range(2, 6), random_state=seed, n_resamples=3)
    assert found.best is None
    assert found.supported == []
    assert "No number of clusters from 2 to 5" in found.advice


def test_the_table_contains_what_the_advice_uses():
    X = make_circles(300, noise=0.04, factor=0.4, random_state=0)[0]
    found = knet.scan(X, [2, 4, 3], random_state=0)
    assert [row["n_clusters"] for row in found.table] == [2, 3, 4]
    for row, following in zip(found.table, found.table[1:], strict=False):
        assert row["jump"] == pytest.approx(following["conductance"] / row["conductance"])
    for row in found.table:
        assert row["supported"] == (row["stability"] >= MIN_STABILITY and row["jump"] >= MIN_JUMP)
        assert 0 < row["conductance"] <= 1
        assert row["smallest_group"] >= 1
        assert row["method"] in METHODS
        assert set(row) == COLUMNS
    strengths = {row["n_clusters"]: row["stability"] * row["jump"] for row in found.table if row["supported"]}
    assert found.best == max(strengths, key=strengths.get)


def test_a_scan_is_a_rounded_table_as_text():
    found = knet.scan(make_moon(200, random_state=0)[0], range(2, 5), random_state=0, n_resamples=1)
    lines = repr(found).splitlines()
    assert lines[0].split() == list(found.table[0])
    assert lines[-1] == found.advice
    assert len(lines) == 5
    assert max(map(len, lines)) < 120
    assert found.advice in found._repr_html_()
    frame = found.to_frame()
    assert frame.index.tolist() == [2, 3, 4]
    assert frame["jump"].tolist() == [row["jump"] for row in found.table]


def test_a_scan_repeats_with_any_number_of_jobs():
    X = pd.DataFrame(make_moon(200, random_state=0)[0], columns=["a", "b"])
    found = knet.scan(X, range(2, 5), random_state=3, n_resamples=2)
    assert found == knet.scan(X, range(2, 5), random_state=3, n_resamples=2, n_jobs=2)


def test_a_scan_uses_a_bounded_number_of_rows(monkeypatch):
    sizes, judge = [], scan_module.Judge
    monkeypatch.setattr(scan_module, "Judge", lambda X, near: sizes.append(len(X)) or judge(X, near))
    X = make_blobs(3000, centers=[[0, 0], [9, 0]], random_state=0)[0]
    knet.scan(X, [2], random_state=0, n_resamples=1)
    assert sizes == [scan_module.SCAN_ROWS, *2 * [scan_module.SCAN_ROWS // 2]]  # all rows of the scan, and two halves


def test_the_units_of_columns_do_not_matter():
    X = make_blobs(200, centers=[[0, 0], [9, 0], [0, 9]], random_state=0)[0] * [1e-6, 1e6]
    assert knet.scan(X, range(2, 5), random_state=0, n_resamples=2).best == 3


@pytest.mark.parametrize(
    ("counts", "message"),
    [
        ([], "whole numbers from 2"),
        ([1, 2], "whole numbers from 2"),
        ([2.5], "whole numbers from 2"),
        ([2, 30], "too few to compare up to 30"),
    ],
)
def test_wrong_numbers_are_refused(rng, counts, message):
    with pytest.raises(ValueError, match=message):
        knet.scan(rng.normal(size=(100, 2)), counts)


def test_too_few_distinct_rows_are_refused():
    with pytest.raises(ValueError, match="only 3 distinct"):
        knet.scan(np.repeat(np.eye(3), 20, axis=0), range(2, 5))


def test_bad_rows_are_refused_as_in_fit(rng):
    X = rng.normal(size=(100, 2))
    X[3, 1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        knet.scan(X)


@pytest.mark.parametrize("c", [2, None])
def test_the_plot_marks_the_best(c):
    X = make_moon(200, random_state=0)[0] if c else np.random.default_rng(0).normal(size=(200, 3))
    found = knet.scan(X, range(2, 5), random_state=0, n_resamples=2)
    ax = plots.scan(found)
    assert found.best == c
    assert ("best: 2" if c else "none supported") in ax.get_title() + "".join(text.get_text() for text in ax.texts)
    assert ax.get_lines()[0].get_ydata().tolist() == [row["stability"] for row in found.table]


def test_a_numpy_generator_is_a_random_state():
    X = make_moon(200, random_state=0)[0]
    first, second = (knet.scan(X, [2, 3], random_state=np.random.default_rng(5), n_resamples=1) for _ in range(2))
    assert first == second
