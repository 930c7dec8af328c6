"""Memberships that say how often a label is right, familiarity, and rows that are rejected."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import make_blobs, make_moons
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

from benchmarks.certainty import calibration_error, judge
from knet import KNet, load, load_light
from knet.cli.app import app
from knet.exceptions import ModelFileError
from knet.model.blocks import Labeler
from knet.model.learn_certainty import expected_shares_right, learn_certainty
from knet.start.neighbors import neighbors
from knet.start.votes import Votes
from tests.model_files import forge, parts

pytestmark = pytest.mark.filterwarnings("ignore::knet.exceptions.KNetConvergenceWarning")

SHAPES = {
    "moons": (lambda seed: make_moons(600, noise=0.2, random_state=seed), 2),
    "blobs": (lambda seed: overlapping_blobs(seed, 2.5), 3),
    "wide blobs": (lambda seed: overlapping_blobs(seed, 4), 3),
    "columns": (lambda seed: in_columns(seed), 2),
}


def overlapping_blobs(seed, distance, n=900):
    """Return three round groups of spread 1 at the corners of a triangle."""
    turn = 2 * np.pi * np.arange(3) / 3
    corners = distance / np.sqrt(3) * np.column_stack([np.cos(turn), np.sin(turn)])
    return make_blobs(n, centers=corners, cluster_std=1.0, random_state=seed)


def in_columns(seed):
    """Return two groups in eight columns."""
    along = np.full(8, 1.5 / np.sqrt(8))
    return make_blobs(600, centers=np.stack([-along, along]), cluster_std=1.0, random_state=seed)


def matched(labels, y):
    """Return which labels are right, each cluster standing for its most frequent group."""
    groups = np.array([np.bincount(y[labels == cluster]).argmax() for cluster in range(labels.max() + 1)])
    return groups[labels] == y


def test_the_calibration_error_is_that_of_each_confidence():
    right = np.repeat([True, False], [80, 20])
    assert calibration_error(np.full(100, 0.8), right) == pytest.approx(0)
    assert calibration_error(np.ones(100), right) == pytest.approx(0.2)
    assert calibration_error(np.where(right, 0.75, 0.85), right) == pytest.approx(0.8 * 0.25 + 0.2 * 0.85)


def test_clusters_are_matched_by_the_training_rows_and_noise_is_not_judged():
    y = np.array([0, 0, 1, 1, 0, 1, 1, -1])
    labels = np.array([1, 1, 0, 0, 1, 0, 1, 0])
    row = judge(labels, np.eye(2)[labels], y, n_train=4)
    assert (row["accuracy"], row["confidence"], row["error"]) == pytest.approx((2 / 3, 1, 1 / 3))


@pytest.fixture(scope="module")
def judged():
    """Confidence and correctness of the new half of every shape, under two seeds."""
    found = []
    for maker, n_clusters in SHAPES.values():
        for seed in (0, 1):
            X, y = maker(seed)
            model = KNet(n_clusters, random_state=seed).fit(X[::2])
            found.append((model.predict_proba(X[1::2]).max(1), matched(model.predict(X[1::2]), y[1::2])))
    return found


def test_confidence_says_how_often_a_label_is_right(judged):
    errors = [calibration_error(confidence, right) for confidence, right in judged]
    assert np.mean(errors) < 0.08
    # A model that is always certain has an error equal to its share of wrong labels.
    assert np.mean(errors) < 0.6 * np.mean([1 - right.mean() for _, right in judged])


def test_wrong_labels_are_less_certain(judged):
    ranks = [roc_auc_score(right, confidence) for confidence, right in judged if not right.all()]
    assert np.mean(ranks) > 0.7


def test_rows_without_groups_are_uncertain():
    confidences = []
    for seed in range(3):
        X = np.random.default_rng(seed).uniform(size=(600, 5))
        confidences.append(KNet(3, random_state=seed).fit(X[::2]).predict_proba(X[1::2]).max(1).mean())
    assert np.mean(confidences) < 0.8


def test_the_expected_share_right_is_the_share_of_votes_around_a_row():
    near = neighbors(np.array([[0.0], [1.0], [10.0], [11.0]]), 1)
    labels = np.array([1, 1, 0, 0])
    shares = np.array([[0.6, 0.4], [0.8, 0.2], [0.0, 1.0], [0.0, 1.0]])  # the groups of the votes have other numbers
    np.testing.assert_allclose(expected_shares_right(shares, labels, near), [0.7, 0.7, 1, 1])
    against = np.array([[0.6, 0.4], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]])
    np.testing.assert_allclose(expected_shares_right(against, labels, near), [0.5, 0.5, 1, 1])  # at least 1 / c


def test_rows_that_psi_was_not_trained_on_decide_how_certain_new_rows_are(seed):
    rng = np.random.RandomState(seed)
    Z, labels = rng.standard_normal((600, 4)), rng.randint(2, size=600)
    held_out = np.arange(0, 600, 5)
    is_new = np.isin(np.arange(600), held_out)
    far = np.where(is_new, 0.2, 1.0) * rng.uniform(0.8, 1.2, 600)  # the other centre is less far from a new row
    gaps = np.where(np.eye(2, dtype=bool)[labels], 0.0, far[:, None])
    votes = Votes(np.arange(600), np.where(np.eye(2, dtype=bool)[labels], 0.95, 0.05))
    right = expected_shares_right(votes.shares, labels, neighbors(Z, 10)).mean()
    means = []
    for rows in (None, held_out):
        certainty = learn_certainty(Z, labels, gaps, votes, rows, np.random.RandomState(0))
        P = np.exp(-gaps * certainty.sharpness(Z)[:, None])
        means.append((P / P.sum(1, keepdims=True)).max(1)[is_new].mean())
    assert means[0] < right - 0.05
    assert means[1] == pytest.approx(right, abs=0.01)


@pytest.fixture(scope="module")
def data():
    return overlapping_blobs(0, 4, 400)[0]


@pytest.fixture(scope="module")
def model(data):
    return KNet(3, max_iter=2, random_state=0).fit(data)


@pytest.fixture(scope="module")
def new_rows(data):
    """Rows near the training data, between the clusters, and at all distances from them."""
    rng = np.random.default_rng(1)
    far = np.vstack([rng.normal(size=(20, 2)) * distance for distance in (10, 1e3, 1e9, 1e100)])
    return np.vstack([rng.normal(size=(300, 2)) * 2, far])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_memberships_sum_to_1_and_their_largest_is_the_label(model, new_rows, dtype):
    X = np.clip(new_rows, -1e30, 1e30).astype(dtype)
    P = model.predict_proba(X)
    assert P.dtype == dtype
    np.testing.assert_allclose(P.sum(1), 1, rtol=1e-5)
    assert np.array_equal(P.argmax(1), model.predict(X))


def test_far_rows_are_neither_certain_nor_familiar(model, data):
    far = np.random.default_rng(0).normal(size=(50, 2)) * 1e6
    assert model.predict_proba(far).max() < 0.4
    assert model.score_samples(far).max() < model.score_samples(data).min()


def test_familiarity_is_close_to_the_mean_kernel_value(model, data):
    predictor = model.predictor_
    Z, width = predictor.scaling(data), float(predictor.certainty.place_width[0])
    exact = np.exp(-np.square(Z[:, None] - Z).sum(2) / (2 * width**2)).mean(1)
    error = np.abs(np.exp(model.score_samples(data)) / exact - 1)
    assert np.median(error) < 0.1
    assert model.score_samples(data).max() <= 0


def test_rejected_rows_get_minus_1_and_the_others_keep_their_label(model, new_rows):
    labels, score, P = model.predict(new_rows), model.score_samples(new_rows), model.predict_proba(new_rows)
    for reject in (0, 0.05, 0.3):
        found = model.predict(new_rows, reject=reject)
        expected = (score < model.predictor_.certainty.threshold(reject)) | (P.max(1) < 0.5)
        assert np.array_equal(found == -1, expected)
        assert np.array_equal(found[~expected], labels[~expected])


def test_the_share_is_that_of_new_rows_of_the_same_kind(seed):
    X = overlapping_blobs(seed, 6, 2000)[0]
    model = KNet(3, max_iter=1, random_state=seed).fit(X[::2])
    shares = [(model.predict(X[1::2], reject=share) == -1).mean() for share in (0.02, 0.1, 0.3)]
    np.testing.assert_allclose(shares, [0.02, 0.1, 0.3], atol=0.05)


def test_a_label_that_is_more_likely_wrong_than_right_is_rejected():
    X = overlapping_blobs(0, 2)[0]
    model = KNet(3, max_iter=1, random_state=0).fit(X)
    unsure = model.predict_proba(X).max(1) < 0.5
    assert unsure.any()
    assert (model.predict(X, reject=0)[unsure] == -1).all()


def test_noise_is_rejected_also_if_it_is_among_the_training_rows():
    found = []
    for seed in range(3):
        X, _ = make_moons(1000, noise=0.1, random_state=seed)
        angle = np.random.default_rng(seed).uniform(0, 2 * np.pi, 50)
        far = np.column_stack([np.cos(angle), np.sin(angle)]) * np.linspace(3, 6, 50)[:, None] + [0.5, 0.25]
        model = KNet(2, random_state=seed).fit(np.vstack([X[::2], far[::2]]))
        found.append([(model.predict(rows, reject=0.05) == -1).mean() for rows in (far[1::2], X[1::2])])
    noise, rest = np.mean(found, 0)
    assert noise > 0.9
    assert rest < 0.05


@pytest.mark.parametrize("reject", [-0.1, 1, 1.5, "0.1", True, np.nan])
def test_what_is_not_a_share_is_refused(model, data, reject):
    with pytest.raises(ValueError, match=r"'reject' parameter must be None or a number in \[0, 1\)"):
        model.predict(data, reject=reject)


@pytest.mark.parametrize(
    "params",
    [
        {"sigma": "median", "n_init": 1},
        {"encoder": torch.nn.Linear(2, 2).double()},
        {"scale": "none"},
        {"n_clusters": 1},
        {"n_clusters": 8},
    ],
)
def test_every_kind_of_model_is_certain_of_something(data, params):
    model = KNet(**{"n_clusters": 3, "max_iter": 1, "random_state": 0, **params}).fit(data)
    P = model.predict_proba(data)
    assert np.isfinite(P).all()
    assert np.array_equal(P.argmax(1), model.predict(data))
    assert 1 / model.n_clusters <= P.max(1).min() <= P.max(1).mean() <= 1
    assert (model.predict(data, reject=0.1) == -1).mean() < 0.6


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("X", [np.ones((30, 2)), np.eye(4), np.arange(3.0)[:, None], np.repeat(np.eye(3), 20, 0)])
def test_small_and_repeated_rows_have_finite_memberships_and_scores(X):
    model = KNet(2, random_state=0).fit(X)
    assert np.isfinite(model.predict_proba(X)).all()
    assert np.isfinite(model.score_samples(X)).all()
    assert set(model.predict(X, reject=0.1)) <= {-1, 0, 1}


def test_a_file_keeps_certainty_to_the_bit(model, new_rows, tmp_path):
    model.save(tmp_path / "m.safetensors")
    for loaded in (load(tmp_path / "m.safetensors"), load_light(tmp_path / "m.safetensors")):
        for method in ("predict_proba", "score_samples"):
            assert np.array_equal(getattr(loaded, method)(new_rows), getattr(model, method)(new_rows))
        assert np.array_equal(loaded.predict(new_rows, reject=0.05), model.predict(new_rows, reject=0.05))


def test_a_file_with_a_part_of_certainty_is_refused(model, tmp_path):
    model.save(tmp_path / "m.safetensors")
    _, header, tensors = parts(tmp_path / "m.safetensors")
    del tensors["place_width"]
    forge(tmp_path / "forged.safetensors", header, tensors)
    with pytest.raises(ModelFileError, match="it has no array 'place_width'"):
        load(tmp_path / "forged.safetensors")


@pytest.mark.parametrize("width", [1e-200, 1e-160, 1e200])
def test_a_kernel_of_any_width_gives_finite_scores(model, new_rows, tmp_path, width):
    model.save(tmp_path / "m.safetensors")
    _, header, tensors = parts(tmp_path / "m.safetensors")
    tensors["place_width"] = torch.full_like(tensors["place_width"], width)
    forge(tmp_path / "forged.safetensors", header, tensors)
    light = load_light(tmp_path / "forged.safetensors")
    assert np.isfinite(light.score_samples(new_rows)).all()
    single = np.clip(new_rows, -1e30, 1e30).astype(np.float32)
    assert not np.isnan(light.score_samples(single)).any()
    assert (light.predict(new_rows, reject=0.05) >= -1).all()


def test_dask_and_batches_reject_the_same_rows(model, data, new_rows):
    da = pytest.importorskip("dask.array")
    dd = pytest.importorskip("dask.dataframe")
    expected = model.predict(new_rows, reject=0.05)
    lazy = da.from_array(new_rows, chunks=(100, 2))
    assert np.array_equal(model.predict(lazy, reject=0.05).compute(), expected)
    assert np.array_equal(model.predict(lazy).compute(), model.predict(new_rows))
    np.testing.assert_allclose(model.predict_proba(lazy).compute(), model.predict_proba(new_rows))
    with pytest.raises(ValueError, match="'reject' parameter"):
        model.predict(lazy, reject=2)
    table = pd.DataFrame(new_rows, columns=["a", "b"])
    named = KNet(3, max_iter=2, random_state=0).fit(pd.DataFrame(data, columns=["a", "b"]))
    assert np.array_equal(Labeler(named, reject=0.05)(table).label, expected)
    from knet.dask import label

    assert np.array_equal(label(named, dd.from_pandas(table, 2), reject=0.05).compute().label, expected)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_an_onnx_graph_rejects_the_same_rows(data, new_rows, tmp_path, dtype):
    pytest.importorskip("onnxscript")
    runtime = pytest.importorskip("onnxruntime")
    from knet.model.onnx import to_onnx

    model = KNet(3, max_iter=1, random_state=0).fit(data.astype(dtype))
    to_onnx(model, tmp_path / "m.onnx", reject=0.1)
    X = np.clip(new_rows, -1e30, 1e30).astype(dtype)
    session = runtime.InferenceSession(tmp_path / "m.onnx", providers=["CPUExecutionProvider"])
    label, proba = session.run(["label", "proba"], {"X": X})
    assert (label == -1).any()
    assert np.array_equal(label, model.predict(X, reject=0.1))
    np.testing.assert_allclose(proba, model.predict_proba(X), atol=1e-5)


def test_the_command_writes_minus_1_and_counts_the_rejected_rows(model, data, new_rows, tmp_path):
    named = KNet(3, max_iter=2, random_state=0).fit(pd.DataFrame(data, columns=["a", "b"]))
    named.save(tmp_path / "m.safetensors")
    pd.DataFrame(new_rows, columns=["a", "b"]).to_parquet(tmp_path / "new.parquet")
    paths = [str(tmp_path / name) for name in ("m.safetensors", "new.parquet", "out.csv")]
    done = CliRunner().invoke(app, ["predict", *paths[:2], "-o", paths[2], "--reject", "0.05", "--json"])
    assert done.exit_code == 0, done.output
    labels = pd.read_csv(tmp_path / "out.csv").label.to_numpy()
    assert np.array_equal(labels, model.predict(new_rows, reject=0.05))
    summary = json.loads(done.stdout)
    assert summary["rejected"] == (labels == -1).sum()
    assert sum(summary["sizes"]) == (labels >= 0).sum()


@pytest.mark.filterwarnings("ignore:1 row holds no value")
def test_the_probabilities_of_a_fit_are_those_of_its_labels():
    X, y = SHAPES["blobs"][0](0)
    X[3] = np.nan
    model = KNet(3, random_state=0).fit(X)
    np.testing.assert_allclose(model.probabilities_, np.where(model.labels_ == -1, 0, model.predict_proba(X).max(1)))
    assert model.labels_[3] == -1
    known = np.full(len(X), -1)
    known[:40] = (y[:40] + (np.arange(40) < 2)) % 3  # two of them are wrong
    with pytest.warns(UserWarning, match="known labels"):
        guided = KNet(3, random_state=0).fit(X, known=known)
    rows = guided.contradicted_
    assert len(rows)
    np.testing.assert_allclose(
        guided.probabilities_[rows], guided.predict_proba(X[rows])[:, guided.labels_[rows]].diagonal()
    )


def test_a_topic_pipeline_finds_labels_and_probabilities():
    # BERTopic calls fit(vectors, y=None), reads labels_ and probabilities_ if there are any, and calls predict.
    vectors, _ = make_blobs(300, 8, centers=4, cluster_std=0.5, random_state=0)
    clusterer = KNet(4, metric="cosine", random_state=0)
    clusterer.fit(vectors.astype(np.float32), y=None)
    assert hasattr(clusterer, "probabilities_")
    assert clusterer.labels_.shape == clusterer.probabilities_.shape == (300,)
    assert set(clusterer.labels_.tolist()) == {0, 1, 2, 3}
    assert (clusterer.predict(vectors.astype(np.float32)) == clusterer.labels_).all()
