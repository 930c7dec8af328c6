"""Names, merges and splits of clusters: what every way to label rows makes of them, and back."""

import json
import struct

import numpy as np
import pytest
from sklearn.datasets import make_blobs

from knet import KNet, Labeler, load, load_light
from knet.exceptions import KNetError, ModelFileError
from knet.metrics import ari
from knet.model.naming import Naming
from knet.model.onnx import to_onnx

CENTERS = [(0, 0), (9, 0), (0, 9), (9, 9)]


@pytest.fixture(scope="module")
def rows():
    return make_blobs(600, centers=CENTERS, random_state=0)


@pytest.fixture
def model(rows):
    return KNet(4, max_iter=2, random_state=0).fit(rows[0])


def test_a_merge_then_predict_is_predict_then_a_merge(model, rows):
    X = np.vstack([rows[0], np.random.RandomState(0).uniform(-6, 15, size=(300, 2))])
    before, probabilities = model.predict(X), model.predict_proba(X)
    model.merge([3, 1])
    assert model.n_clusters_ == 3
    after, merged = model.predict(X), model.predict_proba(X)
    assert (after == np.where(before == 3, 1, before)).all()
    assert (merged.argmax(1) == after).all()
    assert np.allclose(merged.sum(1), 1)
    sums = np.column_stack([probabilities[:, 0], probabilities[:, [1, 3]].sum(1), probabilities[:, 2]])
    same = sums.argmax(1) == after
    assert np.allclose(merged[same], sums[same])
    rejected = model.predict(X, reject=0.05)
    assert set(rejected) == {-1, 0, 1, 2}
    model.undo()
    assert (model.predict(X) == before).all()
    assert (model.predict_proba(X) == probabilities).all()


def test_a_split_cuts_a_cluster_and_nothing_else(rows):
    X, y = rows
    model = KNet(2, max_iter=2, random_state=0).fit(X)
    before = model.predict(X)
    model.split(0)
    after = model.predict(X)
    assert model.n_clusters_ == 3
    assert (after[before == 1] == 1).all()
    assert set(after[before == 0]) == {0, 2}
    own = before == 0
    assert ari(y[own], after[own]) > 0.98  # two blobs in each half
    P = model.predict_proba(X)
    assert (P.argmax(1) == after).all()
    assert np.allclose(P.sum(1), 1)
    model.merge([0, 2])
    assert (model.predict(X) == before).all()
    assert model.split(0).n_clusters_ == 3
    assert set(model.predict(X)) == {0, 1, 3}  # labels are never used again


def test_edits_are_kept_in_the_file_and_by_every_way_to_label_rows(model, rows, tmp_path):
    X = rows[0]
    model.rename({0: "small", 2: "large"}).merge([0, 1]).split(3).rename({4: "new"})
    expected, probabilities = model.predict(X), model.predict_proba(X)
    assert model.names_ == {0: "small", 2: "large", 4: "new"}
    model.save(tmp_path / "m.safetensors")
    for again in (load(tmp_path / "m.safetensors"), load_light(tmp_path / "m.safetensors")):
        assert (again.predict(X) == expected).all()
        assert (again.predict_proba(X) == probabilities).all()
    again = load(tmp_path / "m.safetensors")
    assert again.names_ == model.names_
    frame = pytest.importorskip("pandas").DataFrame(X, columns=["a", "b"])
    out = Labeler(again, outputs=("label", "name"))(frame)
    assert (out["label"] == expected).all()
    assert set(out["label_name"]) == {"small", "large", "new", "3"}
    assert again.undo().undo().undo().undo().names_ == {}
    assert (again.predict(X) == KNet(4, max_iter=2, random_state=0).fit(X).labels_).all()
    with pytest.raises(ValueError, match="no edit to undo"):
        again.undo()


def test_reports_and_explanations_use_the_edited_clusters(model, rows, tmp_path):
    X = rows[0]
    model.rename({2: "upper left"}).merge([0, 1])
    assert set(model.explain(X).labels) == {0, 2, 3}
    model.report(X, tmp_path / "report.html", n_refits=1)
    assert "upper left" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_edits_that_cannot_be_made_are_refused(model):
    for edit, message in (
        (lambda: model.merge([1]), "at least two clusters"),
        (lambda: model.merge([1, 7]), "There is no cluster 7. The clusters are 0, 1, 2, 3"),
        (lambda: model.rename({5: "x"}), "There is no cluster 5"),
        (lambda: model.rename({0: "x", 1: "x"}), "'x' would name two"),
        (lambda: model.split(9), "no cluster 9"),
    ):
        with pytest.raises(ValueError, match=message):
            edit()
    assert model.predictor_.naming == Naming()


def test_a_tiny_cluster_is_not_split():
    X = np.vstack([np.random.RandomState(0).normal(size=(200, 2)), np.random.RandomState(1).normal(20, 1, (8, 2))])
    model = KNet(2, max_iter=1, random_state=0)
    with pytest.warns(UserWarning, match="very few rows"):
        model.fit(X)
    with pytest.raises(ValueError, match="too small to be split"):
        model.split(int(model.labels_[-1]))


@pytest.mark.parametrize(
    "naming",
    [
        {"labels": [0, 1, 2], "names": {}, "edits": [], "n_used": 0},
        {"labels": [0, 1, 2, 2], "names": {}, "edits": [], "n_used": 0},
        {"labels": [0, 1, 2, 10**9], "names": {}, "edits": [], "n_used": 0},
        {"labels": [], "names": {"a": "b"}, "edits": [], "n_used": 0},
        {"labels": [], "names": {}, "edits": [{"merge": [0, 9]}], "n_used": 0},
        {"labels": [], "names": {}, "edits": [{"split": 0, "new": 4, "sides": [0, 1]}], "n_used": 0},
        {"labels": [], "names": {}, "edits": [{}], "n_used": 0},
        {"labels": [], "names": [], "edits": [], "n_used": 0},
        [],
    ],
)
def test_strange_names_in_a_file_are_refused(naming):
    with pytest.raises(ValueError, match=r".*"):
        Naming.from_json(naming, 4, 30)


def test_a_file_without_names_is_read_and_a_damaged_one_refused(model, tmp_path, rows):
    path = tmp_path / "m.safetensors"
    model.merge([0, 1]).save(path)
    content = path.read_bytes()
    end = 8 + struct.unpack("<Q", content[:8])[0]
    index = json.loads(content[8:end])
    header = json.loads(index["__metadata__"]["header"])
    assert header["naming"]["edits"] == [{"merge": [0, 1]}]
    header["naming"]["edits"] = [{"merge": [0, 17]}]
    index["__metadata__"]["header"] = json.dumps(header, sort_keys=True)
    text = json.dumps(index).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + content[end:])
    with pytest.raises(ModelFileError, match="labels and names of clusters do not fit"):
        load(path)


def test_merged_clusters_are_exported_and_split_ones_refused(model, rows, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    onnx = pytest.importorskip("onnx")
    X = np.vstack([rows[0], np.random.RandomState(0).uniform(-6, 15, size=(100, 2))])
    model.rename({2: "left"}).merge([0, 3])
    path = tmp_path / "m.onnx"
    assert to_onnx(model, path) < 1e-3
    label, proba, _ = runtime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"]).run(
        None, {"X": X}
    )
    assert (label == model.predict(X)).mean() > 0.99
    assert proba.shape == (len(X), 3)
    assert np.abs(proba - model.predict_proba(X)).max() < 1e-3
    stored = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
    assert json.loads(stored["clusters"]) == {"2": "left"}
    with pytest.raises(KNetError, match="split cluster cannot be exported"):
        to_onnx(model.split(1), tmp_path / "n.onnx")
