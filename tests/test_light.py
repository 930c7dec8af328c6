"""Light models: the results of KNet with NumPy and safetensors alone, and clear answers to rows that do not fit."""

import subprocess
import sys
import textwrap

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import csc_array, csr_array
from torch import nn

from knet import KNet, load, load_light
from knet.exceptions import ModelFileError
from knet.model.blocks import Labeler, fingerprint
from knet.model.light import LightModel
from tests.estimators import make_knet

pytestmark = pytest.mark.filterwarnings("ignore::knet.exceptions.KNetConvergenceWarning")

QUICK = {"sigma": "median", "n_init": 1, "max_iter": 2, "steps_per_iter": 10, "tol": 0.0, "random_state": 0}
METHODS = ("predict", "predict_proba", "transform", "score_samples")
NAMES = ["a", "b", "c"]
HEAVY = ("torch", "sklearn", "scipy", "typer", "rich", "pandas", "pyarrow", "threadpoolctl", "joblib")


def rows(n=90, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, 3))
    X[: n // 2] += 4
    return X


@pytest.fixture(scope="module", params=[np.float32, np.float64])
def saved(request, tmp_path_factory):
    model = make_knet(3, **QUICK).fit(pd.DataFrame(rows().astype(request.param), columns=NAMES))
    path = tmp_path_factory.mktemp("light") / "m.safetensors"
    model.save(path)
    return model, path


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_a_light_model_gives_the_bits_of_the_model(saved, method, dtype):
    model, path = saved
    X = pd.DataFrame((10 * rows(5000, seed=1)).astype(dtype), columns=NAMES)
    expected, found = getattr(model, method)(X), getattr(load_light(path), method)(X)
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == expected.dtype
    for same in (X.to_numpy(), X.to_numpy().tolist() if dtype == np.float64 else X.to_numpy()):
        np.testing.assert_array_equal(getattr(load_light(path), method)(same), expected)


def test_a_table_gives_its_columns_by_name(saved):
    light, X = load_light(saved[1]), rows(40, seed=2)
    expected = light.predict(X)
    mixed = pd.DataFrame({"c": X[:, 2], "id": "x", "a": X[:, 0], "b": X[:, 1]})
    np.testing.assert_array_equal(light.predict(mixed), expected)
    np.testing.assert_array_equal(light.predict(pa.Table.from_pandas(mixed)), expected)
    with pytest.raises(ValueError, match=r"lacks the model's columns 'b'. It has \['c', 'id', 'a'\]"):
        light.predict(mixed.drop(columns="b"))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_polars_tables_are_taken_as_pandas_tables(saved, dtype):
    light, X = load_light(saved[1]), pd.DataFrame((10 * rows(40, seed=2)).astype(dtype), columns=NAMES)
    mixed = pl.DataFrame({"c": X.c.to_numpy(), "id": ["x"] * 40, "a": X.a.to_numpy(), "b": X.b.to_numpy()})
    for method in METHODS:
        expected, found = getattr(light, method)(X), getattr(light, method)(mixed)
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype
    for missing in ([None, 1], [None, True]):
        found = light.predict_proba(pl.DataFrame({"a": [1.0, 2], "b": missing, "c": [1, 2]}))
        np.testing.assert_array_equal(found, light.predict_proba(np.array([[1, np.nan, 1], [2, 1, 2]])))
    with pytest.raises(ValueError, match=r"'b'.* other values"):
        light.predict(pl.DataFrame({"a": [1.0], "b": ["x"], "c": [1]}))
    with pytest.raises(ValueError, match="lacks the model's columns 'b'"):
        light.predict(mixed.drop("b"))


@pytest.mark.parametrize("name", ["schema", "column_names", "columns", "names"])
def test_a_column_may_have_the_name_of_a_method(name):
    X = pd.DataFrame(rows(), columns=[name, "b", "c"])
    model = make_knet(3, **QUICK).fit(X)
    light = LightModel.of(model)
    np.testing.assert_array_equal(light.predict(X), model.labels_)
    np.testing.assert_array_equal(light.predict(pl.DataFrame(dict(X.items()))), model.labels_)
    found = Labeler(model, keep=["b"])(X)
    assert list(found.columns) == ["b", "label"]
    np.testing.assert_array_equal(found.label, model.labels_)


@pytest.mark.parametrize("dtype", [np.int64, np.int8, bool, np.float32])
@pytest.mark.parametrize("convert", [csr_array, csc_array])
def test_sparse_rows_of_any_type_give_the_results_of_the_model(dtype, convert):
    X = np.random.default_rng(0).integers(0, 3, size=(120, 80))
    X[:, 0] = 1
    model = make_knet(2, metric="cosine", **QUICK).fit(csr_array(X.astype(float)))
    light, given = LightModel.of(model), convert(X.astype(dtype))
    assert light.predictor.preparation.projection is not None
    for method in METHODS:
        expected, found = getattr(model, method)(given), getattr(light, method)(given)
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.zeros((4, 2)), r"rows of 3 columns. Got an array of shape \(4, 2\)"),
        (np.zeros(3), r"shape \(3,\)"),
        (np.array([[0, np.inf, 1.0]]), "1 infinite value in column 'b'"),
        (np.array([[1j, 0, 0]]), "Complex data"),
        (np.ma.masked_array([[1.0, 2, 3]], [[0, 1, 0]]), "masked"),
        (pd.DataFrame({"a": ["x"], "b": [1], "c": [2]}), r"'a' \((object|str|string)\)"),
    ],
)
def test_rows_that_do_not_fit_are_refused(saved, X, message):
    with pytest.raises(ValueError, match=message):
        load_light(saved[1]).predict(X)


def test_the_facts_are_those_of_the_model(saved):
    model, path = saved
    light = load_light(path)
    assert light.n_clusters == model.n_clusters == light.facts["n_clusters"]
    assert light.n_features == 3
    assert light.names == tuple(NAMES)
    assert light.facts["n_train"] == model.n_train_
    assert light.facts["sigma"] == round(model.sigma_, 6)
    assert light.extra == {}
    assert light.facts == LightModel.of(model).facts
    kept = [row["hsic"] for row in model.history_ if row["iteration"] == model.best_iter_]
    assert light.facts["hsic"] == (round(kept[0], 6) if kept else None)


def test_a_users_module_is_refused(tmp_path):
    path = tmp_path / "own.safetensors"
    KNet(2, encoder=nn.Linear(3, 2), max_iter=1, random_state=0).fit(rows()).save(path)
    with pytest.raises(ModelFileError, match=r"encoder of your own.*knet.load\(path, encoder="):
        load_light(path)
    assert load(path, encoder=nn.Linear(3, 2)).predict(rows()).shape == (90,)


def test_numpy_and_safetensors_are_enough(saved, tmp_path):
    """In an interpreter that refuses to import anything else, the model loads and gives the same bits."""
    model, path = saved
    X = rows(30, seed=3)
    np.save(tmp_path / "X.npy", X)
    script = f"""
        import sys

        sys.modules.update(dict.fromkeys({HEAVY}))  # importing them fails, as if they were not installed
        import numpy as np
        import knet

        model = knet.load_light(sys.argv[1])
        X = np.load(sys.argv[2])
        np.savez(sys.argv[3], **{{method: getattr(model, method)(X) for method in {METHODS}}})
        try:
            knet.load_light("missing.safetensors")
        except FileNotFoundError as error:
            assert "There is no model file" in str(error)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), path, tmp_path / "X.npy", tmp_path / "out.npz"]
    subprocess.run(command, check=True)
    with np.load(tmp_path / "out.npz") as found:
        for method in METHODS:
            np.testing.assert_array_equal(found[method], getattr(model, method)(pd.DataFrame(X, columns=NAMES)))


def test_light_models_can_be_compared_and_hashed(saved):
    first, second = load_light(saved[1]), load_light(saved[1])
    assert first == first
    assert first != second
    assert len({first, second}) == 2
    assert fingerprint(first) == fingerprint(second) == fingerprint(saved[0])
    assert first.predictor.encoder != second.predictor.encoder


def test_a_light_model_has_a_short_repr(tmp_path):
    model = KNet(2, max_iter=1, random_state=0).fit(np.random.default_rng(0).normal(size=(60, 3)))
    model.save(tmp_path / "m.safetensors")
    assert repr(load_light(tmp_path / "m.safetensors")) == "LightModel(n_clusters=2, n_features=3)"
