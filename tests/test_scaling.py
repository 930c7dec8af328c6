"""The scaling of columns inside a model: which columns are compressed, and that every copy of a model does the same."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.stats import skew
from sklearn.decomposition import PCA

from knet import Advanced, KNet, load
from knet.prepare import scaling as scaling_module
from knet.prepare.preparation import Preparation
from knet.prepare.scaling import FAR, HEAVY_TAIL, Scaling, learn_scaling, one_hot_blocks

VALUES = st.floats(-1e6, 1e6).filter(lambda value: value == 0 or abs(value) > 1e-3)
ARBITRARY = arrays(np.float64, st.tuples(st.integers(3, 40), st.integers(1, 4)), elements=VALUES)


@st.composite
def tailed(draw):
    """Draw columns with tails of any weight, on either side."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    powers = draw(st.lists(st.floats(0.05, 2.5), min_size=1, max_size=4))
    columns = [np.exp(power * rng.normal(size=60)) for power in powers]
    signs = draw(st.lists(st.sampled_from([-1, 1, 1e-3, 1e4]), min_size=len(powers), max_size=len(powers)))
    return np.column_stack(columns) * signs


TABLES = ARBITRARY | tailed()


def mixed(rng, n=400, dtype=np.float64):
    """Return columns without and with heavy tails: normal, lognormal, its mirror image, mostly zero, constant."""
    heavy = rng.lognormal(sigma=1.5, size=(n, 2))
    rare = np.where(rng.uniform(size=n) < 0.1, 10 ** rng.uniform(0, 4, n), 0)
    return np.column_stack([rng.normal(3, 5, n), heavy[:, 0], -1e3 * heavy[:, 1], rare, np.full(n, 7)]).astype(dtype)


@settings(max_examples=100, deadline=None)
@given(TABLES)
def test_exactly_the_columns_beyond_the_limit_are_compressed(X):
    varies = np.ptp(X, axis=0) > 1e-6 * np.abs(X).max(0)
    skewness = np.array([skew(column) if differs else 0.0 for column, differs in zip(X.T, varies, strict=True)])
    assume((np.abs(np.abs(skewness) - HEAVY_TAIL) > 1e-6).all())
    scaling = learn_scaling(X, "auto")
    has_many = np.array([len(np.unique(column)) > 2 for column in X.T])  # a flag is not compressed
    assert (scaling.tail_width > 0).tolist() == ((np.abs(skewness) > HEAVY_TAIL) & has_many).tolist()
    assert not len(learn_scaling(X, "standard").compressed)
    assert not len(Scaling.linear(np.zeros(2), np.ones(2)).compressed)


@settings(max_examples=100, deadline=None)
@given(TABLES)
def test_scaled_columns_have_mean_0_and_deviation_1_and_the_inverse_undoes_it(X):
    scaling = learn_scaling(X, "auto")
    Z = scaling(X)
    varies = np.ptp(X, axis=0) > 1e-9 * np.abs(X).max(0)
    np.testing.assert_allclose(Z[:, varies].mean(0), 0, atol=1e-6)
    two_values = np.array([len(np.unique(column)) == 2 for column in X.T])
    np.testing.assert_allclose(Z[:, varies & ~two_values].std(0), 1, rtol=1e-6)
    np.testing.assert_allclose(np.ptp(Z[:, varies & two_values], axis=0), 1, rtol=1e-6)
    np.testing.assert_allclose(scaling.inverse(Z), X, rtol=1e-7, atol=1e-7 * max(1.0, np.abs(X).max()))


@settings(max_examples=100, deadline=None)
@given(TABLES, st.lists(st.floats(-1e300, 1e300), min_size=2, max_size=20))
def test_the_order_of_values_is_kept_even_far_away(X, places):
    scaling = learn_scaling(X, "auto")
    Z = scaling(np.repeat(np.sort(places)[:, None], X.shape[1], axis=1))
    assert np.isfinite(Z).all()
    assert (np.diff(Z, axis=0) >= 0).all()
    assert np.abs(Z).max() <= FAR


def test_compression_is_strictly_increasing_over_many_powers_of_ten(rng):
    scaling = learn_scaling(mixed(rng), "auto")
    grid = np.concatenate([-np.logspace(9, -3, 100), np.logspace(-3, 9, 100)])
    Z = scaling(np.repeat(grid[:, None], 5, axis=1))
    assert (np.diff(Z[:, scaling.compressed], axis=0) > 0).all()
    assert np.abs(Z[:, scaling.compressed]).max() < 100  # 1e9 is near, on a logarithmic scale


def test_compressed_columns_lose_their_tails(rng):
    X = mixed(rng)
    scaling = learn_scaling(X, "auto")
    assert scaling.compressed.tolist() == [1, 2, 3]
    before, after = np.abs(skew(X[:, 1:3])), np.abs(skew(scaling(X)[:, 1:3]))
    assert (after < before / 2).all()
    assert np.abs(scaling(X)[:, 1:3]).max() < np.abs(learn_scaling(X, "standard")(X)[:, 1:3]).max()


def test_a_column_that_is_mostly_one_value_separates_it_from_the_others(rng):
    X = mixed(rng)
    Z = learn_scaling(X, "auto")(X)[:, 3]
    rare = X[:, 3] > 0
    assert np.ptp(Z[~rare]) == 0
    assert Z[rare].min() > Z[~rare].max()
    assert learn_scaling(X, "auto").tail_width[3] == pytest.approx(X[rare, 3].min())  # the smallest difference


def test_the_width_is_the_upper_quartile_of_the_distances(rng):
    X = mixed(rng)
    scaling = learn_scaling(X, "auto")
    median = np.median(X[:, 1])
    assert scaling.tail_center[1] == pytest.approx(median)
    assert scaling.tail_width[1] == pytest.approx(np.quantile(np.abs(X[:, 1] - median), 0.75))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_row_has_the_same_bits_alone_and_in_any_batch(rng, dtype):
    X = mixed(rng, 203, dtype)
    scaling = learn_scaling(X, "auto")
    whole = scaling(X)
    for size in (1, 2, 3, 7, 64):
        parts = np.vstack([scaling(X[start : start + size]) for start in range(0, len(X), size)])
        assert parts.tobytes() == whole.tobytes()
    assert scaling(np.asfortranarray(X)).tobytes() == whole.tobytes()


def test_single_precision_gives_nearly_the_same_values(rng):
    X = mixed(rng)
    scaling = learn_scaling(X, "auto")
    single = scaling(X.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, scaling(X), atol=1e-5)
    other = learn_scaling(X.astype(np.float32), "auto")
    assert other.compressed.tolist() == scaling.compressed.tolist()
    for name, value in scaling.arrays().items():
        np.testing.assert_allclose(other.arrays()[name], value, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.int32, np.bool_])
def test_whole_numbers_are_scaled_in_double_precision(rng, dtype):
    X = rng.poisson(0.2, size=(200, 2)).astype(dtype)
    scaling = learn_scaling(X, "auto")
    assert scaling(X).dtype == np.float64
    np.testing.assert_allclose(scaling(X), scaling(X.astype(np.float64)))


@pytest.mark.parametrize("kind", ["auto", "standard", "none"])
def test_the_given_rows_are_never_changed(rng, kind):
    X = mixed(rng)
    before = X.copy()
    learn_scaling(X, kind)(X)
    assert np.array_equal(X, before)


def test_blocks_and_the_sample_of_the_tails_do_not_matter(rng, monkeypatch):
    X = mixed(rng, 3000)
    whole = learn_scaling(X, "auto")
    monkeypatch.setattr(scaling_module, "BLOCK_ROWS", 64)
    blocks = learn_scaling(X, "auto")
    for name, value in whole.arrays().items():
        np.testing.assert_allclose(blocks.arrays()[name], value, rtol=1e-12, atol=1e-12)
    monkeypatch.setattr(scaling_module, "TAIL_ROWS", 1000)
    assert learn_scaling(X, "auto").compressed.tolist() == whole.compressed.tolist()


@pytest.mark.parametrize("unit", [1e-200, 1e-6, 1e6, 1e200])
def test_units_do_not_matter(rng, unit):
    X = mixed(rng)
    np.testing.assert_allclose(learn_scaling(X * unit, "auto")(X * unit), learn_scaling(X, "auto")(X), atol=1e-9)


def pixels(rng, n=200, d=12):
    """Return columns with values from 0 to 1, some of which rarely leave 0."""
    X = np.clip(rng.normal(np.linspace(-0.8, 0.8, d), 0.5, size=(n, d)), 0, 1)
    X[0], X[1, 3:] = 0, 1
    return X


def test_columns_of_one_range_share_a_unit(rng):
    X = pixels(rng)
    X[:, :3] *= 0.5  # these do not reach the upper end
    found = learn_scaling(X, "auto")
    assert found.kind == "common"
    np.testing.assert_allclose(found(X), (X - X.mean(0)) / np.sqrt(X.var(0).mean()))
    np.testing.assert_allclose(learn_scaling(X * 255, "auto")(X * 255), found(X))
    assert learn_scaling(np.column_stack([X, np.full(len(X), 7.0)]), "auto").kind == "common"  # a constant column


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("whiten", [False, True])
def test_principal_components_share_a_unit(rng, dtype, whiten):
    X = rng.normal(size=(150, 8)) @ rng.normal(size=(8, 8))
    components = PCA(5, whiten=whiten).fit_transform(X).astype(dtype)
    found = learn_scaling(components, "auto")
    assert found.kind == "common"
    assert Preparation(found).shares_unit
    two = components[:, :2] * [1, 2]  # whitened ones have equal deviations up to rounding: both kinds would be the same
    for other in (components[:75], components + 1, standardized(X), two.astype(dtype)):
        assert learn_scaling(other, "auto").kind == "standard"


def standardized(X):
    return (X - X.mean(0)) / X.std(0)


def test_columns_of_different_kinds_share_no_unit(rng):
    X = pixels(rng)
    X[:, :3] *= 0.5
    own_range = (X - X.min(0)) / (X.max(0) - X.min(0))  # each column scaled to its own range
    equal = np.clip(rng.normal(0.5, 0.5, size=(200, 8)), 0, 1)
    equal[:, 0] *= 0.8  # the deviations are similar
    counts = rng.poisson(np.geomspace(1, 30, 8), size=(200, 8)) * 1.0  # the largest values differ
    shifted = X + rng.uniform(size=X.shape[1])  # the smallest values differ
    for rows in (own_range, equal, counts, shifted, rng.normal(size=(100, 6)), np.ones((50, 4))):
        assert learn_scaling(rows, "auto").kind != "common"


def test_a_common_unit_can_be_asked_for_and_is_kept(rng, tmp_path):
    X = rng.normal(size=(90, 5)) * [1, 1, 1, 0.01, 0.01] + 9 * np.eye(3)[np.arange(90) % 3] @ np.eye(3, 5)
    model = KNet(3, scale="common", random_state=0, max_iter=1).fit(X)
    assert model.scale_ == "common"
    assert len(np.unique(model.predictor_.scaling.scale)) == 1
    model.save(tmp_path / "model.safetensors")
    loaded = load(tmp_path / "model.safetensors")
    assert loaded.scale_ == "common"
    np.testing.assert_array_equal(loaded.predict(X), model.labels_)
    assert [KNet(3, scale=kind, max_iter=1).fit(X).scale_ for kind in ("none", "auto")] == ["none", "standard"]


@pytest.mark.parametrize("kind", ["auto", "standard", "common"])
def test_constant_columns_become_zero(kind):
    X = np.column_stack([np.full(50, 1e8 / 3), np.zeros(50), np.full(50, -1e-9)])
    assert not learn_scaling(X, kind)(X).any()


def heavy_groups(rng, n=150, dtype=np.float64):
    """Return three groups that lie powers of ten apart, and their labels."""
    y = np.arange(n) % 3
    X = np.column_stack([10.0 ** (3 * y + rng.normal(0, 0.2, n)), 10.0 ** (-2 * y + rng.normal(0, 0.2, n))])
    return X.astype(dtype), y


def quick(rng, dtype):
    X, _ = heavy_groups(rng, dtype=dtype)
    model = KNet(3, random_state=0, max_iter=1, advanced=Advanced(steps_per_iter=5)).fit(X)
    assert len(model.predictor_.scaling.compressed)
    return model, X


def far_rows(dtype):
    directions = np.random.default_rng(1).normal(size=(30, 2))
    distances = (1e-8, 1.0, 1e4, 1e9, 1e20, np.finfo(dtype).max / 10)
    return np.vstack([directions * distance for distance in distances]).astype(dtype)


@pytest.mark.filterwarnings("ignore::knet.exceptions.KNetConvergenceWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_model_file_keeps_the_compression_and_every_label(tmp_path, dtype):
    model, X = quick(np.random.default_rng(0), dtype)
    model.save(tmp_path / "model.safetensors")
    loaded = load(tmp_path / "model.safetensors")
    for name, value in model.predictor_.scaling.arrays().items():
        assert loaded.predictor_.scaling.arrays()[name].tobytes() == value.tobytes()
    for rows in (X, far_rows(dtype)):
        assert loaded.predict(rows).tolist() == model.predict(rows).tolist()
        assert loaded.transform(rows).tobytes() == model.transform(rows).tobytes()
    assert model.predict(X).tolist() == model.labels_.tolist()
    assert np.isfinite(model.transform(far_rows(dtype))).all()


@pytest.mark.filterwarnings("ignore::knet.exceptions.KNetConvergenceWarning")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_onnx_graph_compresses_too(tmp_path, dtype):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    from knet.model.onnx import to_onnx

    model, X = quick(np.random.default_rng(0), dtype)
    to_onnx(model, tmp_path / "model.onnx")
    session = runtime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    for rows in (X, far_rows(dtype)):
        label, embedding = session.run(["label", "embedding"], {"X": rows})
        own = model.transform(rows)
        assert label.tolist() == model.predict(rows).tolist()
        assert (np.abs(embedding - own) <= 1e-5 * np.maximum(1, np.abs(own).max(1, keepdims=True))).all()


def test_a_category_counts_as_one_column(rng):
    """Rows of different categories are one standard deviation of a number apart; a rare level is not farther."""
    kind = rng.choice(4, 500, p=[0.5, 0.3, 0.18, 0.02])
    flag = (rng.random(500) < 0.02).astype(float)
    X = np.column_stack([rng.normal(3, 9, 500), np.eye(4)[kind], 7 * flag])
    X[11, 1:5] = np.nan
    scaling = learn_scaling(X, "auto")
    assert one_hot_blocks(X) == [slice(1, 5)]
    Z = scaling(X)
    np.testing.assert_allclose(np.square(np.diff(scaling(np.eye(6)[[1, 4]] * 1.0), axis=0))[0, 1:5].sum(), 1)
    np.testing.assert_allclose([np.ptp(Z[:, 5]), Z[:, 0].std()], 1)
    assert one_hot_blocks(np.column_stack([flag, np.eye(4)[kind], np.eye(2)[kind % 2]])) == [slice(1, 5), slice(5, 7)]
    assert one_hot_blocks(rng.integers(0, 2, (500, 6)).astype(float)) == []
