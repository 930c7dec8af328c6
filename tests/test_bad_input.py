"""Bad input: every error message says what is wrong, which parameter or column it is, and what to do."""

import datetime
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
import torch
from sklearn.exceptions import NotFittedError

from knet import KNet
from knet.exceptions import KNetDataWarning
from tests.estimators import ADVANCED, make_knet

pytestmark = pytest.mark.filterwarnings("ignore::knet.exceptions.KNetConvergenceWarning")

QUICK = {"max_iter": 2, "steps_per_iter": 10, "tol": 0.0, "random_state": 0}
NAMES = ["age", "height", "weight"]


def quick(n_clusters=2, **options):
    return make_knet(n_clusters, **(QUICK | options))


def rows(n=40, d=3, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, d))
    X[: n // 2] += 6
    return X


def frame(**columns):
    return pd.DataFrame({"age": rows()[:, 0], **columns})


def assert_refused(X, *fragments, model=None, error=ValueError):
    """Assert one error whose message holds every fragment and does not dump the data."""
    with pytest.raises(error) as caught:
        (model or quick()).fit(X)
    message = str(caught.value)
    for fragment in fragments:
        assert re.search(fragment, message), f"{fragment!r} is not in {message!r}"
    assert len(message) < 700


def assert_sound(model, X):
    """Assert that a fitted model has labels and finite numbers for X."""
    assert set(model.labels_) <= set(range(model.n_clusters))
    np.testing.assert_array_equal(model.labels_, model.predict(X))
    assert np.isfinite(model.transform(X)).all()
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1, rtol=1e-5)
    assert np.isfinite(model.score_samples(X)).all()
    assert np.isfinite(model.kernel(X)).all()


# NaN and infinity


def with_bad(value):
    X = rows()
    X[[3, 4], 1] = value
    X[5, 2] = value
    return X


TABLES = {
    "pandas": lambda X: pd.DataFrame(X, columns=NAMES),
    "polars": lambda X: pl.DataFrame(X, schema=NAMES),
    "arrow": lambda X: pa.table({name: X[:, i] for i, name in enumerate(NAMES)}),
}


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_bad_numbers_are_counted_per_named_column(kind, value):
    assert_refused(
        TABLES[kind](with_bad(value)), "3 infinite values", r"'height' \(2\)", r"'weight' \(1\)", "drop them"
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_bad_numbers_in_arrays_are_counted_per_column(dtype):
    assert_refused(with_bad(np.inf).astype(dtype), r"3 infinite values in columns 1 \(2\), 2 \(1\)")


def test_one_bad_number_is_singular():
    X = rows()
    X[0, 2] = np.inf
    assert_refused(X, r"1 infinite value in column 2 \(1\)\.")


def test_opposite_infinities_are_still_infinite():
    X = rows()
    X[0, 0], X[1, 0] = np.inf, -np.inf
    assert_refused(X, r"2 infinite values in column 0 \(2\)")


def test_many_bad_columns_are_not_all_listed():
    assert_refused(np.full((10, 50), np.inf), "500 infinite values", "and 45 more")
    assert_refused(np.full((10, 50), np.nan), "Every value is missing in columns 0, 1", "and 45 more")


@pytest.mark.parametrize("method", ["predict", "transform", "predict_proba", "score_samples", "kernel", "recluster"])
def test_bad_numbers_are_refused_after_fitting_too(method):
    model = quick().fit(pd.DataFrame(rows(), columns=NAMES))
    with pytest.raises(ValueError, match=r"3 infinite values in columns 'height' \(2\), 'weight' \(1\)"):
        getattr(model, method)(pd.DataFrame(with_bad(np.inf), columns=NAMES))


def test_directions_and_sparse_rows_have_no_gaps():
    X = TABLES["pandas"](with_bad(np.nan))
    for bad, params in ((X, {"metric": "cosine"}), (sp.csr_matrix(with_bad(np.nan)), {})):
        with pytest.raises(ValueError, match=r"3 NaN values in columns .*metric='cosine' allow no missing values"):
            quick(**params).fit(bad)


def test_every_kind_of_missing_value_is_a_gap():
    X, expected = rows(), quick().fit(with_bad(np.nan)).labels_
    assert (expected >= 0).all()
    tables = [table(with_bad(np.nan)) for table in TABLES.values()]
    nullable = pd.DataFrame({name: pd.array(X[:, j], "Float64") for j, name in enumerate(NAMES)})
    nullable.iloc[[3, 4], 1] = nullable.iloc[5, 2] = pd.NA
    nested = [[None if value != value else value for value in row] for row in with_bad(np.nan).tolist()]
    for given in (*tables, nullable, nested):
        np.testing.assert_array_equal(quick().fit(given).labels_, expected)


# Columns that are not numbers


WORDS = ["x", "y"] * 20
DAYS = [datetime.date(2020, 1, 1 + i % 20) for i in range(40)]


@pytest.mark.parametrize(
    "X",
    [
        frame(city=WORDS),
        frame(city=pd.Series(WORDS, dtype=object)),
        frame(city=pd.array(WORDS, dtype="string")),
        frame(city=pd.Categorical(WORDS)),
        frame(city=pd.Categorical([1, 2] * 20)),
        frame(city=pd.date_range("2020", periods=40)),
        frame(city=pd.date_range("2020", periods=40, tz="UTC")),
        frame(city=pd.to_timedelta(range(40), unit="D")),
        pl.DataFrame({"age": rows()[:, 0], "city": WORDS}),
        pl.DataFrame({"age": rows()[:, 0], "city": DAYS}),
        pl.DataFrame({"age": rows()[:, 0], "city": pl.Series(WORDS, dtype=pl.Categorical)}),
        pa.table({"age": rows()[:, 0], "city": WORDS}),
        pa.table({"age": rows()[:, 0], "city": pa.array(DAYS)}),
    ],
    ids=lambda X: (
        f"{type(X).__module__.split('.')[0]}-{X.schema.types[-1] if isinstance(X, pa.Table) else list(X.dtypes)[-1]}"
    ),
)
def test_columns_of_other_kinds_are_named(X):
    assert_refused(X, "'city'", "encode|Drop")


def test_several_columns_of_other_kinds_are_all_named():
    assert_refused(frame(city=WORDS, born=pd.date_range("2020", periods=40)), "'city'", "'born'")


@pytest.mark.parametrize("method", ["predict", "kernel"])
def test_columns_of_other_kinds_are_named_after_fitting_too(method):
    model = quick().fit(frame(city=np.arange(40) % 7))
    with pytest.raises(ValueError, match="'city'"):
        getattr(model, method)(frame(city=WORDS))


@pytest.mark.parametrize("X", [np.array([["a", "b"]] * 5), np.array([["a", 1.0]] * 5, dtype=object), [["a", 1]] * 5])
def test_text_in_arrays_is_refused(X):
    assert_refused(X, "'a'", "number|float")


def test_dates_in_arrays_are_refused():
    assert_refused(np.array([["2020-01-01", "2021-05-05"], ["2020-02-02", "2023-01-01"]] * 5, "datetime64[D]"), "date")


# Shapes and other kinds of data


@pytest.mark.parametrize("make", [sp.csr_matrix, sp.csc_array, sp.coo_array])
def test_sparse_matrices_of_complex_numbers_are_refused(make):
    assert_refused(make(rows() + 1j), "[Cc]omplex")


@pytest.mark.parametrize("X", [rows() + 1j, pd.DataFrame(rows() + 1j), torch.from_numpy(rows()) + 1j, [[1j], [2.0]]])
def test_complex_numbers_are_refused_without_a_dump(X):
    assert_refused(X, "[Cc]omplex")


@pytest.mark.parametrize(
    ("X", "fragments"),
    [
        (np.empty((0, 3)), ["0 sample"]),
        (np.empty((5, 0)), ["0 feature"]),
        (pd.DataFrame({"age": []}), ["0 sample"]),
        (rows()[:1], ["1 sample", "minimum of 2"]),
        (rows()[:, 0], ["2D array", "reshape"]),
        (rows().reshape(4, 10, 3), ["got 3D array"]),
    ],
)
def test_wrong_shapes_are_refused(X, fragments):
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the fragments are checked below
        quick().fit(X)
    for fragment in fragments:
        assert re.search(fragment, str(caught.value))


@pytest.mark.parametrize("X", [None, "abc", {"a": [1, 2]}, [[1, 2], [3]], 5])
def test_things_that_are_no_table_are_refused(X):
    with pytest.raises((ValueError, TypeError)):
        quick().fit(X)


def test_a_tensor_that_wants_gradients_is_accepted():
    X = torch.from_numpy(rows())
    labels = quick().fit(X.clone().requires_grad_()).labels_
    np.testing.assert_array_equal(labels, quick().fit(X).labels_)


# Numbers of rows and clusters


def test_fewer_rows_than_clusters():
    assert_refused(rows(), "n_clusters=50", "n_samples=40", "Lower n_clusters", model=quick(50))


def test_fewer_training_rows_than_clusters():
    fragments = ["n_clusters=10", "n_samples=4", r"train_size=0.1 of 40", "Raise train_size or lower n_clusters"]
    assert_refused(rows(), *fragments, model=quick(10, train_size=0.1))


@pytest.mark.parametrize("n_clusters", [1, "auto"])
def test_a_single_training_row_is_too_few(n_clusters):
    for X, size in ((rows()[:2], 0.5), (rows(), 1)):
        assert_refused(
            X, "at least 2 training rows", "Got 1", "Raise train_size", model=quick(n_clusters, train_size=size)
        )


@pytest.mark.parametrize("n_clusters", [0, -1, 2.0, 1.5, "2", None, True, np.nan])
def test_impossible_numbers_of_clusters(n_clusters):
    assert_refused(
        rows(),
        f"'n_clusters' parameter of KNet must be 'auto' or an integer >= 1. Got {n_clusters!r} instead",
        model=quick(n_clusters),
    )


def test_one_cluster_is_allowed():
    X = rows()
    model = quick(1).fit(X)
    assert set(model.labels_) == {0}
    assert_sound(model, X)
    np.testing.assert_array_equal(model.predict_proba(X), np.ones((40, 1)))


def test_as_many_clusters_as_rows():
    X = rows(12)
    model = quick(12).fit(X)
    assert sorted(model.labels_) == list(range(12))
    assert_sound(model, X)


@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize("laplacian", ["dense", "blocked", "nystroem"])
def test_a_handful_of_rows_is_enough(n, laplacian):
    X = rows(n)
    assert_sound(quick(2, laplacian=laplacian).fit(X), X)


# Degenerate data


def test_constant_columns_change_nothing():
    X = rows()
    padded = np.column_stack([X, np.full(40, 7.0), np.full(40, 0.1), np.zeros(40)])
    model = quick().fit(padded)
    assert_sound(model, padded)
    np.testing.assert_array_equal(model.labels_ == model.labels_[0], np.arange(40) < 20)


@pytest.mark.parametrize("value", [0.0, 0.1, 7.0, 1e30, -1e-30])
@pytest.mark.parametrize("n_clusters", [2, 5])
def test_equal_rows_are_one_cluster_and_a_warning(value, n_clusters):
    X = np.full((20, 3), value)
    with pytest.warns(KNetDataWarning, match=rf"only 1 distinct row .*n_clusters={n_clusters}.*Lower n_clusters"):
        model = quick(n_clusters).fit(X)
    assert len(set(model.labels_)) == 1
    assert_sound(model, X)


def test_duplicate_rows_have_the_same_cluster():
    X = np.repeat(rows()[[0, 1, 30]], 10, axis=0)
    model = quick(2).fit(X)
    assert_sound(model, X)
    assert all(len(set(model.labels_[i : i + 10])) == 1 for i in (0, 10, 20))
    assert model.labels_[0] == model.labels_[10] != model.labels_[20]


@pytest.mark.parametrize("laplacian", ["dense", "blocked", "nystroem"])
def test_fewer_distinct_rows_than_clusters_is_warned_of(laplacian):
    X = np.repeat(rows()[[0, 1, 30]], 10, axis=0)
    with pytest.warns(KNetDataWarning, match=r"only 3 distinct rows .*n_clusters=5"):
        model = quick(5, laplacian=laplacian).fit(X)
    assert len(set(model.labels_)) <= 3
    assert_sound(model, X)


def test_a_row_alone_has_its_label_in_a_batch_if_centres_are_equal_but_for_rounding(seed):
    X = np.random.default_rng(seed).normal(size=(37, 1)) * 1e6
    with pytest.warns(KNetDataWarning, match="only 2 distinct rows"):  # directions: left and right
        model = KNet(3, sigma="median", metric="cosine", scale="standard", max_iter=1, random_state=seed).fit(X)
    alone = np.concatenate([model.predict(row[None]) for row in X])
    np.testing.assert_array_equal(alone, model.predict(X))
    moved = replace(model.predictor_.clusters, centers=model.cluster_centers_[[0, 1, 0]] + 1e-16 * np.eye(3, 2))
    scores = moved.scores(model.transform(X))
    assert (scores.argmax(1) < 2).all()
    assert (scores.max(1) - scores[:, 2] > 0).all()


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e300])
def test_scales_of_any_size(scale):
    X = rows()
    model = quick().fit(X * scale)
    np.testing.assert_array_equal(model.labels_ == model.labels_[0], np.arange(40) < 20)
    assert_sound(model, X * scale)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scales_may_be_mixed(dtype):
    X = (rows() * [1e30, 1e-30, 1.0]).astype(dtype)
    model = quick().fit(X)
    np.testing.assert_array_equal(model.labels_ == model.labels_[0], np.arange(40) < 20)
    assert_sound(model, X)


@pytest.mark.parametrize("scale", [1e-300, 1e-100, 1e-30, 1e30, 1e300])
def test_unscaled_data_beyond_single_precision_is_refused(scale):
    assert_refused(rows() * scale, "scale='none'", "scale='auto'", model=quick(scale="none"))


def test_unscaled_tiny_data_in_single_precision_is_refused():
    X = (rows() * 1e-38).astype(np.float32)
    assert_refused(X, "scale='none'", "standard deviation of at least 1e-06", model=quick(scale="none"))


@pytest.mark.parametrize("scale", [1e-6, 1e4])
def test_unscaled_data_of_extreme_size_gives_sound_labels_or_a_warning(recwarn, scale):
    X = rows() * scale
    model = quick(scale="none").fit(X)
    warned = [w for w in recwarn if issubclass(w.category, KNetDataWarning)]
    assert warned or np.array_equal(model.labels_ == model.labels_[0], np.arange(40) < 20)
    assert_sound(model, X)


def test_the_largest_floats():
    X = np.clip(rows() * 1e307, -1.7e308, 1.7e308)  # finite, but their sum is not
    assert_sound(quick().fit(X), X)


# After fitting


def test_unfitted_models_raise_an_error():
    for method in ("predict", "transform", "predict_proba", "score_samples", "kernel", "recluster"):
        with pytest.raises(NotFittedError, match="not fitted yet"):
            getattr(quick(), method)(rows())


@pytest.mark.parametrize("method", ["predict", "transform", "predict_proba", "score_samples", "kernel", "recluster"])
def test_the_wrong_number_of_features_is_counted(method):
    model = quick().fit(rows())
    with pytest.raises(ValueError, match=r"X has 2 features, but KNet is expecting 3 features"):
        getattr(model, method)(rows()[:, :2])


def test_the_second_argument_of_the_kernel_is_checked_too():
    model = quick().fit(rows())
    with pytest.raises(ValueError, match="2 features"):
        model.kernel(rows(), rows()[:, :2])


@pytest.mark.parametrize("kind", TABLES)
def test_wrong_names_are_named(kind):
    model = quick().fit(TABLES[kind](rows()))
    other = pd.DataFrame(rows(), columns=["age", "size", "weight"])
    with pytest.raises(ValueError, match=r"(?s)feature names should match.*size.*height"):
        model.predict(other)
    with pytest.raises(ValueError, match=r"(?s)feature names should match.*order"):
        model.predict(pd.DataFrame(rows(), columns=["height", "age", "weight"]))


def test_an_array_for_a_model_with_names_is_warned_of():
    model = quick().fit(pd.DataFrame(rows(), columns=NAMES))
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.predict(rows())


@pytest.mark.parametrize(
    "bad", [np.full((10, 5), np.nan), rows()[:1, :2], np.empty((0, 4)), pd.DataFrame({"z": WORDS})]
)
def test_a_refused_second_fit_leaves_the_first_one_whole(bad):
    X = pd.DataFrame(rows(), columns=NAMES)
    model = quick().fit(X)
    labels = model.labels_
    with pytest.raises(ValueError):  # noqa: PT011 - the messages are checked elsewhere
        model.fit(bad)
    np.testing.assert_array_equal(model.predict(X), labels)
    assert model.n_features_in_ == 3
    assert model.feature_names_in_.tolist() == NAMES


# Parameters


TYPOS = {
    "u_update": [("EIG", "eig"), ("smaa", "sma")],
    "sigma": [("medain", "median"), ("Auto", "auto")],
    "init": [("identify", "identity"), ("pre-train", "pretrain")],
    "hidden_layer_sizes": [("aut", "auto")],
    "u_columns": [("C-1", "c-1")],
    "reconstruction_weight": [("balance", "balanced")],
    "degrees": [("fix", "fixed"), ("differentiate", "differentiated")],
    "laplacian": [("nystrom", "nystroem"), ("blocks", "blocked"), ("Dense", "dense")],
    "train_size": [("automatic", "auto"), ("AUTO", "auto")],
    "scale": [("standart", "standard"), ("comon", "common"), ("None", "none")],
}


def owner(name):
    """Return the class whose parameter this is."""
    return "Advanced" if name in ADVANCED else "KNet"


@pytest.mark.parametrize("name", TYPOS)
def test_a_typo_gets_a_suggestion(name):
    for typo, meant in TYPOS[name]:
        fragments = (f"'{name}' parameter of {owner(name)}", re.escape(repr(typo)), f"did you mean '{meant}'")
        assert_refused(rows(), *fragments, model=quick(**{name: typo}))


def test_without_a_similar_choice_the_error_lists_all_choices():
    with pytest.raises(ValueError, match=r"must be 'eig', 'sma' or a callable. Got 'xyz' instead\.$"):
        quick(u_update="xyz").fit(rows())


BAD_VALUES = {
    "sigma": (0, -1.0, np.nan, np.inf, None, True),
    "sigma_scale": (0, -1, "x"),
    "reconstruction_weight": (-1, np.nan, None),
    "train_size": (0, -5, 0.0, 1.5, None),
    "learning_rate": (0, -1e-3, "x", np.inf),
    "tol": (-1, np.nan, "x"),
    "batch_size": (0, 1, 2.5),
    "max_iter": (0, -1, 1.5, None),
    "steps_per_iter": (0, -1, 1.5, None),
    "n_init": (0, -1, 1.5, None),
    "n_components": (0,),
    "hidden_layer_sizes": (0, 64, (), (0,), (64, 0), (64, 1.5), None),
    "verbose": (-1,),
    "callback": (3,),
    "encoder": (3, torch.nn.Linear),
    "u_update": (None,),
    "init": (3,),
    "memory_budget": (0,),
    "keep_embeddings": (1,),
}


@pytest.mark.parametrize("name", BAD_VALUES)
def test_bad_parameters_are_named_with_what_is_allowed(name):
    for value in BAD_VALUES[name]:
        fragment = f"The '{name}' parameter of {owner(name)} must be .*Got .* instead"
        assert_refused(rows(), fragment, model=quick(**{name: value}))


def test_advanced_must_be_an_advanced_object():
    fragment = "The 'advanced' parameter of KNet must be None or a knet.Advanced. Got .* instead"
    assert_refused(rows(), fragment, model=KNet(2, advanced={"init": "identity"}))


@pytest.mark.parametrize("device", ["cudda", "cpux", 3, "cuda:99"])
def test_devices_this_machine_lacks(device):
    assert_refused(
        rows(), "'device' parameter of KNet must be 'auto'", "use 'auto' or 'cpu'", model=quick(device=device)
    )


def test_a_bad_seed_is_refused():
    assert_refused(rows(), "seed", model=quick(random_state="x"))


def test_unknown_parameters_are_refused():
    with pytest.raises(TypeError, match="sigmaa"):
        KNet(2, sigmaa=3)
    with pytest.raises(ValueError, match=r"(?s)Invalid parameter 'sigmaa'.*'sigma'"):
        KNet(2).set_params(sigmaa=3)


def test_parameters_are_checked_before_the_data():
    with pytest.raises(ValueError, match="'learning_rate' parameter"):
        quick(learning_rate=-1).fit("not even a table")


# Kernels that separate nothing


@pytest.mark.parametrize("sigma", [1e-3, 1e-100, 1e-200, 1e-300])
def test_a_kernel_close_to_the_identity_warns_and_names_the_parameter(sigma):
    X = rows()
    with pytest.warns(KNetDataWarning, match=r"close to the identity.*Increase sigma or sigma_scale"):
        model = quick(sigma=sigma).fit(X)
    assert_sound(model, X)


@pytest.mark.parametrize("sigma", [1e6, 1e100, 1e200, 1e300])
def test_a_kernel_close_to_all_ones_warns_and_names_the_parameter(sigma):
    X = rows()
    with pytest.warns(KNetDataWarning, match=r"close to all ones.*Decrease sigma or sigma_scale"):
        model = quick(sigma=sigma).fit(X)
    assert_sound(model, X)


@pytest.mark.parametrize("sigma_scale", [1e-6, 1e6])
def test_sigma_scale_warns_too(sigma_scale):
    with pytest.warns(KNetDataWarning, match="sigma_scale"):
        quick(sigma="median", sigma_scale=sigma_scale).fit(rows())


def test_an_ordinary_fit_warns_of_nothing(recwarn):
    quick(tol=2.0).fit(rows())  # stops after the first iteration
    assert [w for w in recwarn if issubclass(w.category, KNetDataWarning)] == []


def test_warnings_point_to_the_line_of_the_user():
    with pytest.warns(KNetDataWarning) as caught:
        quick(sigma=1e6).fit(rows())
    assert caught[0].filename == __file__


def test_the_helper_can_fail():
    with pytest.raises(AssertionError, match="is not in"):
        assert_refused(with_bad(np.inf), "a text that is not there")
    with pytest.raises(pytest.fail.Exception):
        assert_refused(rows(), "")


def test_columns_of_pandas_may_be_called_like_attributes_of_arrow():
    X = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=["schema", "column_names"])
    model = KNet(2, max_iter=1, random_state=0).fit(X)
    assert list(model.feature_names_in_) == ["schema", "column_names"]
    with pytest.raises(ValueError, match="'schema'"):
        model.fit(X.assign(schema="text"))
