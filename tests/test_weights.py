"""sample_weight: whole weights equal repeated rows to the bit, others are shares of the draws, wrong ones are named."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from knet import KNet, load
from knet.cli.app import app
from knet.rows import weights as weights_module
from knet.rows.weights import counted_rows
from tests.estimators import make_knet

pytestmark = pytest.mark.filterwarnings("ignore::knet.exceptions.KNetConvergenceWarning")

QUICK = {"max_iter": 2, "steps_per_iter": 10, "random_state": 0}
STARTS = [{}, {"sigma": "median", "n_init": 1}, {"sigma": "median", "u_update": "sma", "train_size": 50}]


def rows(seed, n=80, d=3):
    X = np.random.default_rng(seed).normal(size=(n, d))
    X[: n // 2] += 4
    return X


def whole_weights(seed, n=80):
    return np.random.default_rng(seed + 50).integers(0, 4, size=n)


def fits(weighted, plain, X, **options):
    """Return a fit with weights, and one without."""
    return make_knet(2, **QUICK, **options).fit(X, sample_weight=weighted), make_knet(2, **QUICK, **options).fit(plain)


def assert_same_bits(first, second, X):
    for method in ("predict", "transform", "predict_proba", "score_samples", "kernel"):
        np.testing.assert_array_equal(getattr(first, method)(X), getattr(second, method)(X), err_msg=method)
    assert first.sigma_ == second.sigma_
    assert first.n_train_ == second.n_train_
    np.testing.assert_array_equal(first.cluster_centers_, second.cluster_centers_)


# Whole weights


@pytest.mark.parametrize("options", STARTS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_whole_weights_equal_repeated_rows(seed, options, dtype):
    X, w = rows(seed).astype(dtype), whole_weights(seed)
    weighted, repeated = fits(w, np.repeat(X, w, axis=0), X, **options)
    assert_same_bits(weighted, repeated, X)
    np.testing.assert_array_equal(weighted.labels_, repeated.predict(X))  # of all rows, also those of weight 0


@pytest.mark.parametrize("options", STARTS)
def test_weights_of_one_change_nothing(options):
    X = rows(0)
    weighted, plain = fits(np.ones(len(X)), X, X, **options)
    assert_same_bits(weighted, plain, X)
    np.testing.assert_array_equal(weighted.train_indices_, plain.train_indices_)
    np.testing.assert_array_equal(weighted.spectral_indices_, plain.spectral_indices_)


def test_a_row_of_weight_0_is_labelled_and_has_no_influence():
    X, w = rows(0), np.ones(80)
    w[[3, 70]] = 0
    moved = X.copy()
    moved[[3, 70]] = 1e6
    first, second = (make_knet(2, **QUICK).fit(data, sample_weight=w) for data in (X, moved))
    assert_same_bits(first, second, X)
    assert first.labels_.shape == (80,)
    assert not {3, 70} & set(first.train_indices_)


def test_training_rows_are_named_by_their_positions_in_x():
    X, w = rows(1), whole_weights(1)
    model = make_knet(2, sigma="median", **QUICK).fit(X, sample_weight=w)
    np.testing.assert_array_equal(np.sort(model.train_indices_), np.repeat(np.arange(80), w))
    assert model.n_train_ == w.sum()


def test_scaling_and_centres_use_the_weights():
    X, w = rows(2), whole_weights(2)
    model = make_knet(1, scale="standard", **QUICK).fit(X, sample_weight=w)
    mean = np.average(X, axis=0, weights=w)
    np.testing.assert_allclose(model.predictor_.scaling.shift, mean)
    np.testing.assert_allclose(model.predictor_.scaling.scale**2, np.average((X - mean) ** 2, axis=0, weights=w))
    np.testing.assert_allclose(model.cluster_centers_[0], np.average(model.transform(X), axis=0, weights=w), atol=1e-6)
    assert model.predictor_.weights.sum() == w.sum()  # of the landmarks, for degrees


# Other weights


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.one_of(st.just(0.0), st.floats(1e-9, 1e9)), min_size=2, max_size=30).filter(lambda w: np.any(w)),
    st.integers(0, 2**32 - 1),
)
def test_other_weights_are_shares_of_the_draws(weights, state):
    w = np.array(weights)
    counts = weights_module._resampled(w, np.random.RandomState(state))
    expected = np.count_nonzero(w) * w / w.sum()
    assert counts.sum() == np.count_nonzero(w)
    assert (np.abs(counts - expected) < 1 + 1e-6).all()
    assert not counts[w == 0].any()


def test_the_number_of_draws_is_right_on_average():
    w = np.array([0.2, 1.0, 2.5, 0.0, 0.3])
    rng = np.random.RandomState(0)
    drawn = np.mean([weights_module._resampled(w, rng) for _ in range(4000)], axis=0)
    np.testing.assert_allclose(drawn, 4 * w / w.sum(), atol=0.05)


def test_the_unit_of_other_weights_is_irrelevant():
    X, w = rows(0), np.random.default_rng(3).uniform(0.1, 2, size=80)
    first, second = (make_knet(2, **QUICK).fit(X, sample_weight=w * unit) for unit in (1.0, 1024.0))
    assert_same_bits(first, second, X)
    assert first.n_train_ == 80


@pytest.mark.parametrize("largest", [1e7, 1e300])
def test_very_many_rows_are_drawn_instead_of_repeated(largest):
    positions = counted_rows(np.array([largest, largest, 0.0, largest]), 4, np.random.RandomState(0))
    assert positions.tolist() == [0, 1, 3]


def test_heavy_rows_move_a_boundary(seed):
    """Between two overlapping groups, more weight on one side draws the centre of k-means there."""
    X = np.random.default_rng(seed).uniform(-1, 1, size=(300, 1))
    heavy = np.where(X[:, 0] > 0.5, 8, 1)
    options = {"sigma": "median", "scale": "none", "n_components": None, "max_iter": 1, "steps_per_iter": 1}
    plain = make_knet(2, random_state=0, **options).fit(X)
    weighted = make_knet(2, random_state=0, **options).fit(X, sample_weight=heavy)
    assert weighted.cluster_centers_.mean() > plain.cluster_centers_.mean() + 0.05


# Wrong weights


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.ones(79), r"one weight per row, shape \(80,\). Got shape \(79,\)"),
        (np.ones((80, 1)), r"Got shape \(80, 1\)"),
        (2.0, r"Got shape \(\)"),
        (np.r_[np.ones(78), np.nan, np.inf], "2 of them are NaN or infinite, the first in row 78"),
        (np.r_[1.0, -1.0, np.ones(78)], "1 of them is negative, the first in row 1"),
        (np.zeros(80), "All weights in sample_weight are zero"),
        (np.r_[1, np.zeros(79)], "count 1 rows, and a fit needs at least 2"),
    ],
)
def test_wrong_weights_are_refused_and_the_earlier_fit_stays(weights, message):
    X = rows(0)
    model = make_knet(2, **QUICK).fit(X)
    labels = model.labels_
    with pytest.raises(ValueError, match=message):
        model.fit(X, sample_weight=weights)
    assert model.labels_ is labels


def test_weights_are_not_changed_and_may_be_a_list_or_a_series():
    X, w = rows(0), whole_weights(0)
    before = w.copy()
    expected = make_knet(2, **QUICK).fit_predict(X, sample_weight=w)
    np.testing.assert_array_equal(w, before)
    for same in (w.tolist(), pd.Series(w, index=np.arange(80)[::-1])):
        np.testing.assert_array_equal(make_knet(2, **QUICK).fit_predict(X, sample_weight=same), expected)


def test_dask_refuses_weights():
    da = pytest.importorskip("dask.array")
    with pytest.raises(TypeError, match="rows in memory only"):
        KNet(2).fit(da.from_array(rows(0), chunks=(40, 3)), sample_weight=np.ones(80))


# The command


@pytest.fixture
def table(tmp_path):
    frame = pd.DataFrame(rows(0).round(6), columns=["a", "b", "c"]).assign(count=whole_weights(0))
    frame.to_csv(tmp_path / "rows.csv", index=False)
    frame.loc[np.repeat(frame.index, frame["count"])].drop(columns="count").to_csv(tmp_path / "long.csv", index=False)
    return tmp_path


def call(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args])


def test_the_weight_column_repeats_rows(table):
    for name, options in (("rows", ["--weight", "count"]), ("long", [])):
        path = table / f"{name}.safetensors"
        done = call("fit", table / f"{name}.csv", "-c", 2, "--max-iter", 1, "-o", path, *options)
        assert done.exit_code == 0, done.stderr
    first, second = load(table / "rows.safetensors"), load(table / "long.safetensors")
    assert list(first.feature_names_in_) == ["a", "b", "c"]
    assert_same_bits(first, second, pd.read_csv(table / "rows.csv")[["a", "b", "c"]])


@pytest.mark.parametrize(
    ("cell", "message"),
    [("n.a.", "'count'"), ("", "'count' must hold a number in every row"), ("-1", "negative, the first in row 0")],
)
def test_a_wrong_weight_column_is_refused(table, cell, message):
    text = (table / "rows.csv").read_text().splitlines()
    text[1] = text[1].rsplit(",", 1)[0] + "," + cell
    (table / "rows.csv").write_text("\n".join(text))
    done = call("fit", table / "rows.csv", "-c", 2, "--weight", "count")
    assert done.exit_code == 2
    assert message in done.stderr
    done = call("fit", table / "rows.csv", "-c", 2, "--weight", "cuont")
    assert "There is no column 'cuont'" in done.stderr


def test_a_row_without_a_direction_is_named_by_its_position_in_the_data():
    X = np.abs(rows(0)) + 0.1
    X[10] = 0
    for weight in (3, 0):
        with pytest.raises(ValueError, match="Row 10 has the length 0"):
            KNet(2, metric="cosine").fit(X, sample_weight=np.full(len(X), 3) * (np.arange(len(X)) != 10) + weight)
