"""The ONNX graph gives the results of the model, also for rows far from the training data and rows with gaps."""

import json

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from torch import nn

from knet import Advanced, KNet
from knet.exceptions import KNetError
from knet.model.onnx import Graph, to_onnx

pytest.importorskip("onnx")
pytest.importorskip("onnxscript")
runtime = pytest.importorskip("onnxruntime")

pytestmark = pytest.mark.filterwarnings("ignore::knet.exceptions.KNetConvergenceWarning")


def fitted(dtype=np.float64, **params):
    X = make_blobs(200, 3, centers=4, cluster_std=0.6, random_state=0)[0].astype(dtype)
    return KNet(4, max_iter=2, random_state=0, advanced=Advanced(steps_per_iter=20), **params).fit(X)


def run(path, X):
    """Return label, proba and embedding by the graph in a file."""
    session = runtime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(["label", "proba", "embedding"], {"X": X})


def far_rows(dtype):
    """Return rows at all distances from the training data, up to the largest finite numbers."""
    directions = np.random.default_rng(0).normal(size=(40, 3))
    largest = np.finfo(dtype).max / 10
    return np.vstack([directions * distance for distance in (1e2, 1e6, 1e11, 1e14, 1e30, largest)]).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("scale", ["standard", "common", "none"])
def test_far_rows_have_the_results_of_the_model(tmp_path, dtype, scale):
    model = fitted(dtype, scale=scale)
    to_onnx(model, tmp_path / "m.onnx")
    X = far_rows(dtype)
    label, proba, embedding = run(tmp_path / "m.onnx", X)
    own = model.transform(X)
    assert np.isfinite(embedding).all()
    assert (np.abs(embedding - own) <= 1e-5 * np.abs(own).max(1, keepdims=True)).all()  # sums of the row's size
    assert np.array_equal(label, model.predict(X))
    assert np.array_equal(proba.argmax(1), label)
    np.testing.assert_allclose(proba.sum(1), 1, rtol=1e-5)
    if dtype == np.float64:
        np.testing.assert_allclose(proba, model.predict_proba(X), atol=1e-6)


def test_near_rows_gaps_and_column_names(tmp_path):
    onnx = pytest.importorskip("onnx")
    model = fitted()
    error = to_onnx(model, tmp_path / "m.onnx", ["a", "b", "c"])
    assert error < 1e-6
    X = np.random.default_rng(1).normal(size=(50, 3)) * 3
    label, proba, embedding = run(tmp_path / "m.onnx", X)
    assert np.array_equal(label, model.predict(X))
    np.testing.assert_allclose(proba, model.predict_proba(X), atol=1e-6)
    np.testing.assert_allclose(embedding, model.transform(X), rtol=1e-6)
    X[np.random.default_rng(2).random(X.shape) < 0.5] = np.nan
    assert np.isnan(X).all(1).any()
    label, proba, embedding = run(tmp_path / "m.onnx", X)
    assert np.array_equal(label, model.predict(X))
    np.testing.assert_allclose(proba, model.predict_proba(X), atol=1e-6)
    np.testing.assert_allclose(embedding, model.transform(X), atol=1e-6)
    props = {prop.key: prop.value for prop in onnx.load(tmp_path / "m.onnx").metadata_props}
    assert json.loads(props["columns"]) == ["a", "b", "c"]


def test_a_wrong_graph_is_not_written(tmp_path, monkeypatch):
    model = fitted()
    forward = Graph.forward

    def wrong(self, X):
        label, proba, embedding = forward(self, X)
        return 3 - label, proba, embedding

    monkeypatch.setattr(Graph, "forward", wrong)
    with pytest.raises(KNetError, match="labels rows differently than the model"):
        to_onnx(model, tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []


def test_own_encoder(tmp_path):
    model = fitted(encoder=nn.Sequential(nn.Linear(3, 6), nn.Tanh(), nn.Linear(6, 2)))
    to_onnx(model, tmp_path / "m.onnx")
    X = np.random.default_rng(1).normal(size=(50, 3))
    assert np.array_equal(run(tmp_path / "m.onnx", X)[0], model.predict(X))


def test_an_existing_file_is_replaced_only_if_asked(tmp_path):
    model, path = fitted(), tmp_path / "m.onnx"
    path.write_bytes(b"old")
    with pytest.raises(FileExistsError, match=r"exists already\. Use overwrite=True"):
        to_onnx(model, path)
    assert path.read_bytes() == b"old"
    to_onnx(model, path, overwrite=True)
    assert path.read_bytes() != b"old"


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_with_cosine_the_length_of_a_row_has_no_effect(tmp_path, dtype):
    rng = np.random.default_rng(0)
    X = np.vstack([axis + rng.normal(scale=0.1, size=(60, 3)) for axis in np.eye(3)]).astype(dtype)
    model = KNet(3, metric="cosine", max_iter=1, random_state=0, advanced=Advanced(steps_per_iter=5)).fit(X)
    to_onnx(model, tmp_path / "m.onnx")
    large = 1e25 if dtype == np.float32 else 1e200
    for factor in (1.0, large, 1 / large):
        rows = (X * factor).astype(dtype)
        assert np.array_equal(run(tmp_path / "m.onnx", rows)[0], model.predict(rows))


def test_rows_without_a_result_get_the_label_minus_1(tmp_path):
    model = fitted(metric="cosine")
    to_onnx(model, tmp_path / "m.onnx")
    label, proba, _ = run(tmp_path / "m.onnx", np.array([[np.nan, 0.0, 0.0], [1.0, 0.0, 0.0]]))
    assert label[0] == -1
    assert np.isnan(proba[0]).all()
    assert label[1] == model.predict([[1.0, 0.0, 0.0]])[0]
