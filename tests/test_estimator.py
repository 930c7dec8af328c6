"""KNet as an estimator: what goes in, what comes out, and what it leaves alone."""

import copy
import logging
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from sklearn.base import clone
from sklearn.cluster import SpectralClustering
from sklearn.datasets import load_digits, make_blobs
from sklearn.metrics import adjusted_rand_score
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from threadpoolctl import threadpool_info
from torch import nn

from knet import Advanced, KNet, load
from knet.datasets import make_moon, make_spirals
from knet.metrics import nmi
from knet.model import torch_encoder
from knet.model.certainty import Certainty
from knet.model.encoder import RowMLP
from knet.model.predictor import Clusters, Predictor
from knet.model.reference import Reference
from knet.model.torch_encoder import TorchEncoder
from knet.prepare.preparation import Preparation
from knet.prepare.scaling import Scaling
from knet.train.algorithm_1 import Iteration
from knet.train.pretrain import pretrain
from knet.train.u_steps import StiefelAscent, eig_step
from tests.estimators import make_knet

pytestmark = pytest.mark.filterwarnings("ignore::knet.exceptions.KNetConvergenceWarning")

QUICK = {"sigma": "median", "n_init": 1, "max_iter": 2, "steps_per_iter": 20, "tol": 0.0}
GOOD = {"sigma": "median", "sigma_scale": 0.1, "u_columns": "c-1", "max_iter": 8, "n_init": 1}


def quick(n_clusters=3, **options):
    return make_knet(n_clusters, **({"random_state": 0} | QUICK | options))


def blobs(seed=0, n=120, d=3, centers=3):
    """Whole numbers in well separated groups: every type of table can hold them exactly."""
    X, y = make_blobs(n, d, centers=centers, cluster_std=2.0, center_box=(-60, 60), random_state=seed + 3)
    return X.round(), y


@pytest.fixture(scope="module")
def fitted():
    return quick().fit(blobs()[0])


def assert_same_model(a, b, X):
    """Assert that two models agree to the bit in all they say about X."""
    for method in ("predict", "predict_proba", "transform", "score_samples", "kernel"):
        np.testing.assert_array_equal(getattr(a, method)(X), getattr(b, method)(X), err_msg=method)
    np.testing.assert_array_equal(a.cluster_centers_, b.cluster_centers_)


def identity_predictor(centers, spread=1.0, dtype=np.float64):
    """A predictor whose embedding is the identity, to place rows by hand."""
    centers = np.array(centers, dtype=dtype)
    d = centers.shape[1]
    layers = [np.zeros((d, 4), dtype), np.zeros((4, d), dtype)]
    encoder = RowMLP(np.eye(d, dtype=dtype), tuple(layers), tuple(W[0] for W in layers))
    return Predictor(
        preparation=Preparation(Scaling.linear(np.zeros(d), np.ones(d))),
        encoder=encoder,
        sigma=1.0,
        clusters=Clusters(centers, spread),
        landmarks=centers,
        weights=np.ones(len(centers)),
        certainty=equally_sharp(centers),
        reference=Reference.of(centers, np.arange(len(centers)), len(centers)),
    )


def equally_sharp(centers, log_beta=2.0):
    """A certainty whose memberships have the same sharpness everywhere."""
    n_columns = centers.shape[1]
    return Certainty(
        hinge_directions=np.zeros((n_columns, 1)),
        hinge_offsets=np.zeros(1),
        hinge_slopes=np.zeros(1),
        hinge_range=np.array([log_beta, log_beta, log_beta]),
        places=centers,
        place_weights=np.ones(len(centers)),
        place_width=np.ones(1),
        score_quantiles=np.linspace(-1, 0, 3),
    )


# Clusters


@pytest.mark.parametrize("u_update", ["eig", "sma"])
def test_moons_are_told_apart(seed, u_update):
    X, y = make_moon(200, random_state=seed)
    model = make_knet(2, u_update=u_update, random_state=seed, **GOOD).fit(X)
    assert nmi(y, model.labels_) > 0.9
    X_new, y_new = make_moon(400, random_state=seed + 10)
    assert nmi(y_new, model.predict(X_new)) > 0.9


def test_blobs_are_found(seed):
    X, y = blobs(seed)
    assert adjusted_rand_score(y, quick(random_state=seed).fit(X).labels_) == 1


def test_a_subset_trains_for_all_rows(seed):
    X, y = make_moon(2000, random_state=seed)
    model = make_knet(2, train_size=0.1, random_state=seed, **GOOD).fit(X)
    assert len(model.train_indices_) == 200
    assert nmi(y, model.labels_) > 0.9


# labels_ and predict


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize("train_size", ["auto", 40, 0.5])
@pytest.mark.parametrize("make", [make_moon, make_spirals, lambda n, random_state: blobs(random_state, n)])
def test_labels_are_the_prediction_of_the_training_rows(make, dtype, train_size):
    X, y = make(150, random_state=1)
    X = (10 * X).astype(dtype)
    for n_clusters in (len(np.unique(y)), 7):
        model = quick(n_clusters, train_size=train_size).fit(X)
        np.testing.assert_array_equal(model.labels_, model.predict(X))
        np.testing.assert_array_equal(model.labels_, quick(n_clusters, train_size=train_size).fit_predict(X))
        assert model.labels_.shape == (150,)
        assert model.labels_.dtype.kind == "i"
        assert set(model.labels_) <= set(range(n_clusters))


def test_labels_do_not_depend_on_the_company_of_a_row(fitted):
    X = blobs()[0]
    alone = np.concatenate([fitted.predict(X[i : i + 1]) for i in range(20)])
    np.testing.assert_array_equal(alone, fitted.labels_[:20])


def test_many_rows_pass_in_blocks(monkeypatch, fitted):
    X = blobs()[0]
    whole = [fitted.predict(X), fitted.transform(X), fitted.predict_proba(X), fitted.score_samples(X)]
    monkeypatch.setattr("knet.model.predictor.BLOCK_ROWS", 7)
    parts = [fitted.predict(X), fitted.transform(X), fitted.predict_proba(X), fitted.score_samples(X)]
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


# Randomness and the host


@pytest.mark.parametrize("options", [{}, {"u_update": "sma"}, {"degrees": "differentiated"}, {"n_init": 3}])
def test_the_same_seed_repeats_to_the_bit(options):
    X = make_moon(120, random_state=0)[0]
    first, second = (quick(2, random_state=7, **options).fit(X) for _ in range(2))
    assert_same_model(first, second, X)
    np.testing.assert_array_equal(first.spectral_embedding_, second.spectral_embedding_)
    assert [row["hsic"] for row in first.history_] == [row["hsic"] for row in second.history_]


def test_the_seed_is_used():
    X = make_moon(120, random_state=0)[0]
    first, second = (quick(2, random_state=i).fit(X) for i in (1, 2))
    assert not np.array_equal(first.transform(X), second.transform(X))


def test_a_random_state_instance_is_drawn_from():
    X = make_moon(60, random_state=0)[0]
    first, second = (quick(2, random_state=np.random.RandomState(3)).fit(X) for _ in range(2))
    assert_same_model(first, second, X)


class Host:
    """The state of a process that a library has no business with."""

    def __init__(self):
        self.numpy = np.random.get_state()  # noqa: NPY002 - it is the global state that is looked at
        self.torch = torch.get_rng_state()
        self.plain = (
            np.geterr(),
            [(pool["internal_api"], pool["num_threads"]) for pool in threadpool_info()],
            torch.get_num_threads(),
            torch.get_default_dtype(),
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            torch.are_deterministic_algorithms_enabled(),
        )

    def assert_unchanged(self):
        now = Host()
        assert now.plain == self.plain
        assert torch.equal(now.torch, self.torch)
        assert now.numpy[2] == self.numpy[2]
        np.testing.assert_array_equal(now.numpy[1], self.numpy[1])


@pytest.mark.parametrize("random_state", [0, None])
@pytest.mark.parametrize("options", [{}, {"u_update": "sma", "n_init": 2}, {"reconstruction_weight": "balanced"}])
def test_fit_leaves_the_host_alone(random_state, options):
    X = blobs()[0]
    before = Host()
    model = quick(random_state=random_state, **options).fit(X)
    if random_state is not None:
        before.assert_unchanged()
    else:  # scikit-learn's convention: None is NumPy's global generator
        assert torch.equal(Host().torch, before.torch)
        assert Host().plain == before.plain
    before = Host()
    for method in ("predict", "predict_proba", "transform", "score_samples", "kernel"):
        getattr(model, method)(X)
    before.assert_unchanged()


def test_a_host_of_double_precision_sees_the_same_model():
    X = make_moon(80, random_state=0)[0].astype(np.float32)
    plain = quick(2).fit(X)
    torch.set_default_dtype(torch.float64)
    try:
        before = Host()
        other = quick(2).fit(X)
        before.assert_unchanged()
        assert other.transform(X).dtype == np.float32
        assert_same_model(plain, other, X)
    finally:
        torch.set_default_dtype(torch.float32)


def test_the_thread_count_of_the_host_is_kept():
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        quick().fit(blobs()[0])
        assert torch.get_num_threads() == before + 1
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_fit_works_inside_any_gradient_mode(mode, own):
    X = make_moon(80, random_state=0)[0]
    options = {"encoder": own_network(2)} if own else {}
    outside = quick(2, **options).fit(X)
    with mode():
        before = Host()
        inside = quick(2, **options).fit(X)
        before.assert_unchanged()
    assert_same_model(outside, inside, X)


def test_the_given_arrays_stay_as_they_were():
    X = blobs()[0]
    before = X.copy()
    model = quick().fit(X)
    for method in ("predict", "predict_proba", "transform", "score_samples", "kernel", "recluster"):
        getattr(model, method)(X)
    np.testing.assert_array_equal(X, before)


@pytest.mark.parametrize("order", ["C", "F"])
def test_read_only_and_reordered_arrays_are_fine(order):
    X = np.array(blobs()[0], order=order)
    X.flags.writeable = False
    np.testing.assert_array_equal(quick().fit(X).labels_, quick().fit(blobs()[0]).labels_)


# Kinds of input


TABLES = {
    "list": lambda X: X.tolist(),
    "tensor": lambda X: torch.from_numpy(X.copy()),
    "pandas": lambda X: pd.DataFrame(X, columns=["a", "b", "c"]),
    "polars": lambda X: pl.DataFrame(X, schema=["a", "b", "c"]),
    "arrow": lambda X: pa.table({name: X[:, i] for i, name in enumerate("abc")}),
    "nullable pandas": lambda X: pd.DataFrame(X, columns=["a", "b", "c"]).astype("Int64"),
    "int64": lambda X: X.astype(np.int64),
    "int8": lambda X: X.astype(np.int8),
    "object": lambda X: X.astype(object),
}


@pytest.mark.parametrize("kind", TABLES)
def test_every_kind_of_table_gives_the_same_model(fitted, kind):
    X = blobs()[0]
    table = TABLES[kind](X)
    model = quick().fit(table)
    np.testing.assert_array_equal(model.labels_, fitted.labels_)
    np.testing.assert_array_equal(model.predict(table), fitted.labels_)
    np.testing.assert_allclose(model.transform(table), fitted.transform(X), atol=1e-7)  # sums run in another order
    assert model.n_features_in_ == 3
    if kind in ("pandas", "polars", "nullable pandas", "arrow"):
        assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    else:
        assert not hasattr(model, "feature_names_in_")


@pytest.mark.parametrize("kind", ["float32", "float16"])
def test_narrow_floats_find_the_same_clusters(fitted, kind):
    labels = quick().fit(blobs()[0].astype(kind)).labels_
    assert adjusted_rand_score(labels, fitted.labels_) == 1


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_type_that_goes_in_comes_out(dtype):
    X = blobs()[0].astype(dtype)
    model = quick().fit(X)
    for method in ("transform", "predict_proba", "score_samples", "kernel"):
        assert getattr(model, method)(X).dtype == dtype, method
    assert model.cluster_centers_.dtype == dtype
    other = np.float64 if dtype == np.float32 else np.float32
    assert model.transform(X.astype(other)).dtype == other


# The scikit-learn world


def test_names_of_the_embedding(fitted):
    assert fitted.get_feature_names_out().tolist() == ["embedding_0", "embedding_1", "embedding_2", "embedding_3"]
    wide = quick(n_components=5).fit(blobs()[0])
    assert len(wide.get_feature_names_out()) == 5


@pytest.mark.parametrize(("kind", "frame"), [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
def test_set_output(fitted, kind, frame):
    X = blobs()[0]
    model = quick().set_output(transform=kind)
    out = model.fit(X).transform(X)
    assert isinstance(out, frame)
    assert list(out.columns) == ["embedding_0", "embedding_1", "embedding_2", "embedding_3"]
    np.testing.assert_array_equal(out.to_numpy(), fitted.transform(X))
    assert isinstance(model.fit_transform(X), frame)


def test_set_output_does_not_disturb_recluster():
    X = blobs()[0]
    plain, framed = quick().fit(X), quick().set_output(transform="pandas").fit(X)
    np.testing.assert_array_equal(plain.recluster(X), framed.recluster(X))


def test_pipeline_and_clone(fitted):
    X = blobs()[0]
    pipeline = make_pipeline(StandardScaler(), clone(fitted))
    assert adjusted_rand_score(pipeline.fit(X).predict(X), fitted.labels_) == 1
    assert pipeline[:-1].transform(X).shape == X.shape
    copied, own = (model.get_params() for model in (clone(fitted), fitted))
    assert copied.pop("advanced") is not own.pop("advanced")
    assert copied == own
    assert not hasattr(clone(fitted), "labels_")


def test_grid_search_finds_the_number_of_clusters():
    X, y = blobs(n=150)
    search = GridSearchCV(quick(), {"n_clusters": [2, 3, 5]}, scoring="adjusted_rand_score", cv=3).fit(X, y)
    assert search.best_params_ == {"n_clusters": 3}
    assert search.best_score_ == 1


def test_the_constructor_only_assigns():
    marker = object()
    assert KNet(marker, sigma=marker).get_params()["sigma"] is marker


@pytest.mark.parametrize("how", [lambda model: pickle.loads(pickle.dumps(model)), copy.deepcopy])
def test_a_copy_of_a_fitted_model_is_the_same_model(fitted, how):
    X = blobs()[0]
    twin = how(fitted)
    assert_same_model(fitted, twin, X)
    np.testing.assert_array_equal(twin.labels_, fitted.labels_)
    assert_same_model(twin.fit(X), fitted, X)


def test_fitted_attributes():
    X = make_moon(100, random_state=0)[0]
    model = quick(2, max_iter=3).fit(X)
    assert model.n_iter_ == len(model.history_) == 3
    for i, row in enumerate(model.history_, start=1):
        assert {"iteration", "hsic", "reconstruction", "u_change", "seconds"} <= set(row)
        assert row["iteration"] == i
        assert all(isinstance(value, int | float) for value in row.values())
    assert model.cluster_centers_.shape == (2, 3)  # a column more than the data
    assert model.n_features_in_ == 2
    assert model.sigma_ > 0
    U = model.spectral_embedding_
    np.testing.assert_allclose(U.T @ U, np.eye(U.shape[1]), atol=1e-10)
    np.testing.assert_array_equal(np.sort(model.train_indices_), np.arange(100))


# The learned kernel


def new_rows(seed, n=40, d=3):
    return np.random.default_rng(seed).uniform(-80, 80, size=(n, d))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_kernel_equals_its_definition(seed, dtype):
    X, _ = blobs(seed)
    X, Y = X.astype(dtype), new_rows(seed).astype(dtype)
    model = quick(random_state=seed).fit(X)
    psi_x, psi_y = (model.transform(rows).astype(float) for rows in (X, Y))
    landmarks, weights = (model.predictor_.landmarks.astype(float), model.predictor_.weights)

    def gaussian(A, B):
        return np.exp(-((A[:, None] - B[None]) ** 2).sum(-1) / (2 * model.sigma_**2))

    d_x, d_y = (np.maximum(gaussian(psi, landmarks) @ weights, 1) for psi in (psi_x, psi_y))
    expected = gaussian(psi_x, psi_y) / np.sqrt(np.outer(d_x, d_y))
    np.testing.assert_allclose(model.kernel(X, Y), expected, rtol=1e-4 if dtype == np.float32 else 1e-8, atol=1e-20)


def test_the_kernel_is_symmetric_and_positive_semidefinite_for_any_rows(seed):
    model = quick(random_state=seed).fit(blobs(seed)[0])
    for rows in (blobs(seed)[0], new_rows(seed), 1e3 * new_rows(seed)):
        K = model.kernel(rows)
        np.testing.assert_allclose(K, K.T, rtol=1e-12)
        np.testing.assert_array_equal(K, model.kernel(rows, rows))
        assert np.linalg.eigvalsh(K).min() > -1e-12
        assert K.min() >= 0


def test_the_kernel_has_its_blocks(seed):
    X, y = blobs(seed)
    K = quick(random_state=seed, max_iter=4, steps_per_iter=50).fit(X).kernel(X)
    same = y[:, None] == y[None]
    assert K[same].mean() > 5 * K[~same].mean()


def test_the_kernel_goes_into_a_support_vector_machine(seed):
    X, y = make_moon(200, random_state=seed)
    X_new, y_new = make_moon(100, random_state=seed + 10)
    model = make_knet(2, random_state=seed, **GOOD).fit(X)
    assert SVC(kernel=model.kernel, C=1e4).fit(X, y).score(X_new, y_new) > 0.95


def test_the_kernel_is_an_affinity_for_spectral_clustering(seed):
    X, y = blobs(seed)
    model = quick(random_state=seed, max_iter=4, steps_per_iter=50).fit(X)
    K = model.kernel(X)
    spectral = SpectralClustering(3, affinity="precomputed", random_state=seed).fit(K)
    assert adjusted_rand_score(y, spectral.labels_) == 1


@pytest.mark.parametrize(("sigma_scale", "bound"), [(0.1, 0.15), (0.3, 0.01), (1.0, 0.001)])
def test_degrees_of_the_summary_are_close_to_the_exact_ones(seed, sigma_scale, bound):
    # The embedding is held at its start: training draws rows into clumps, where any summary would do.
    X = make_spirals(600, random_state=seed)[0]
    still = {"max_iter": 1, "steps_per_iter": 1, "learning_rate": 1e-9}
    model = quick(random_state=seed, sigma="median", sigma_scale=sigma_scale, **still).fit(X)
    psi = model.transform(X)
    assert psi[:, :2].std(0).min() > 0.99
    exact = np.exp(-((psi[:, None] - psi[None]) ** 2).sum(-1) / (2 * model.sigma_**2)).mean(1)
    predictor = model.predictor_
    error = np.abs(np.square(predictor._root_degrees(psi)) / predictor.weights.sum() / exact - 1)
    assert np.quantile(error, 0.95) < bound  # single rows leave no trace of their own, so the rest is looser


def test_the_summary_does_not_grow_with_the_rows():
    sizes = [len(quick(2, max_iter=1).fit(make_moon(n, random_state=0)[0]).predictor_.landmarks) for n in (100, 1500)]
    assert sizes[0] <= 100
    assert sizes[1] <= 256


# Memberships and familiarity


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_memberships_sum_to_one_and_agree_with_predict(seed, dtype):
    X = blobs(seed)[0].astype(dtype)
    model = quick(5, random_state=seed).fit(X)
    for rows in (X, new_rows(seed).astype(dtype)):
        P = model.predict_proba(rows)
        assert P.shape == (len(rows), 5)
        np.testing.assert_allclose(P.sum(1), 1, atol=1e-6 if dtype == np.float32 else 1e-12)
        assert P.min() >= 0
        assert P.max() <= 1
        np.testing.assert_array_equal(P.argmax(1), model.predict(rows))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("spread", [1.0, 1e3, 1e-3])
def test_memberships_of_exact_ties_agree_with_predict(dtype, spread):
    predictor = identity_predictor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]], spread, dtype)
    X = np.array([[0.0, 0.0], [0.0, 3.0], [2.0, 2.0], [-2.0, -2.0], [-1.0, 1.0]], dtype=dtype)
    P = predictor.memberships(X)
    np.testing.assert_array_equal(P.argmax(1), predictor.assign(X))
    np.testing.assert_allclose(P.sum(1), 1, atol=1e-6)
    assert P.max() <= 1


def test_memberships_of_near_ties_survive_the_cast_to_the_rows_type():
    predictor = identity_predictor([[1.0], [-1.0]])  # a double model, asked about single rows
    X = np.array([[-1e-10], [1e-10], [0.0]], dtype=np.float32)
    np.testing.assert_array_equal(predictor.assign(X)[:2], [1, 0])
    np.testing.assert_array_equal(predictor.memberships(X).argmax(1), predictor.assign(X))


def test_memberships_are_soft_between_centres_and_hard_at_them():
    predictor = identity_predictor([[1.0], [-1.0]], spread=0.1)
    P = predictor.memberships(np.array([[0.01], [1.0]]))
    assert 0.5 < P[0, 0] < 0.6
    assert P[1, 0] > 0.999


def test_far_rows_are_unfamiliar(seed):
    X = blobs(seed)[0]
    model = quick(random_state=seed).fit(X)
    inside = model.score_samples(X)
    assert inside.max() <= 1e-9  # the log of a mean of values up to 1
    for far in (1e3, 1e6, 1e100):
        outside = model.score_samples(X * far + far)
        assert np.isfinite(outside).all()
        assert outside.max() < inside.min()
        assert np.isfinite(model.predict_proba(X * far + far)).all()
        assert np.isfinite(model.kernel(X * far + far)).all()


@pytest.mark.parametrize(("dtype", "far"), [(np.float32, 1e30), (np.float64, 1e200), (np.float64, 1e300)])
def test_no_row_is_too_far_for_a_finite_answer(dtype, far):
    X = blobs()[0].astype(dtype)
    model = quick().fit(X)
    outside = (X * far).astype(dtype)
    assert np.isfinite(model.score_samples(outside)).all()
    np.testing.assert_allclose(model.predict_proba(outside).sum(1), 1, rtol=1e-5)
    np.testing.assert_array_equal(model.predict_proba(outside).argmax(1), model.predict(outside))
    assert np.isfinite(model.kernel(outside)).all()


def test_between_the_clusters_is_less_familiar_than_inside(seed):
    X, y = blobs(seed)
    model = quick(random_state=seed, sigma="median", sigma_scale=0.1).fit(X)
    centres = np.array([X[y == k].mean(0) for k in range(3)])
    assert model.score_samples(centres).min() > model.score_samples(centres.mean(0)[None])[0]


# The second way to label new rows


def test_recluster_follows_clusters_that_moved_and_predict_does_not(seed):
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], 60)
    X = np.column_stack([10.0 * y, np.zeros(120)]) + rng.normal(size=(120, 2)) * 0.5
    moved = X + np.array([7, 0])
    model = quick(2, max_iter=1, steps_per_iter=2, random_state=seed).fit(X)
    assert adjusted_rand_score(y, model.labels_) == 1
    assert adjusted_rand_score(y, model.predict(moved)) < 0.5
    np.testing.assert_array_equal(model.recluster(moved), model.labels_)  # and with the known ids
    np.testing.assert_array_equal(model.recluster(X), model.labels_)


def test_recluster_repeats(fitted):
    rows = new_rows(0)
    np.testing.assert_array_equal(fitted.recluster(rows), fitted.recluster(rows))


def test_recluster_of_fewer_rows_than_clusters_is_refused(fitted):
    with pytest.raises(ValueError, match="n_clusters"):
        fitted.recluster(blobs()[0][:2])


# Options


@pytest.mark.parametrize(
    ("train_size", "expected"), [(50, 50), (0.25, 30), (1.0, 120), (120, 120), (10**6, 120), ("auto", 120)]
)
def test_train_size(train_size, expected):
    model = quick(train_size=train_size).fit(blobs()[0])
    assert len(model.train_indices_) == expected == len(np.unique(model.train_indices_))
    assert model.spectral_embedding_.shape[0] == expected
    assert len(model.labels_) == 120


def test_training_rows_differ_with_the_seed():
    first, second = (quick(train_size=30, random_state=i).fit(blobs()[0]).train_indices_ for i in (0, 1))
    assert set(first) != set(second)


@pytest.mark.parametrize("n_components", [1, 2, 3, 6])
@pytest.mark.parametrize("reconstruction_weight", [0.0, 1.0, "balanced"])
def test_n_components(n_components, reconstruction_weight):
    X, y = blobs()
    model = quick(n_components=n_components, reconstruction_weight=reconstruction_weight).fit(X)
    assert model.transform(X).shape == (120, n_components)
    assert model.cluster_centers_.shape == (3, n_components)
    if n_components > 1:
        assert adjusted_rand_score(y, model.labels_) > 0.9


def test_the_embedding_has_a_column_more_than_the_data_or_as_many():
    X = blobs()[0]
    assert quick().fit(X).transform(X).shape[1] == 4
    assert quick(n_components=None).fit(X).transform(X).shape[1] == 3


def test_a_group_is_lifted_out_of_the_one_around_it(seed):
    rng = np.random.default_rng(seed)
    turn = rng.uniform(0, 2 * np.pi, 400)
    ring = 3 * np.column_stack([np.cos(turn), np.sin(turn)])
    inside = [rng.normal(0, 0.2, (100, 2)) + place for place in ((-1, 1), (1, 1), (0, -1))]
    X = np.vstack([ring + rng.normal(0, 0.1, ring.shape), *inside])
    y = np.repeat([0, 1, 2, 3], [400, 100, 100, 100])
    model = KNet(4, n_init=1, random_state=seed).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.99


@pytest.mark.parametrize(("u_columns", "expected"), [("c", 3), ("c-1", 2)])
def test_u_columns(u_columns, expected):
    assert quick(u_columns=u_columns).fit(blobs()[0]).spectral_embedding_.shape == (120, expected)


@pytest.mark.parametrize("form", ["dense", "blocked", "nystroem"])
def test_the_form_of_the_laplacian_does_not_change_the_clusters(form):
    X, y = blobs()
    assert adjusted_rand_score(y, quick(laplacian=form).fit(X).labels_) == 1


def test_own_u_update_is_called():
    calls = []

    def own(L, U):
        calls.append(U.shape)
        return eig_step(L, U)

    X = blobs()[0]
    model = quick(u_update=own, u_columns="c").fit(X)
    assert calls == [(120, 3)] * 2
    assert_same_model(model, quick(u_columns="c").fit(X), X)


def test_sma_and_its_callable_are_the_same():
    X = blobs()[0]
    assert_same_model(quick(u_update="sma").fit(X), quick(u_update=StiefelAscent()).fit(X), X)


def test_pretrained_start_finds_the_clusters(monkeypatch):
    monkeypatch.setitem(pretrain.__kwdefaults__, "max_steps", 800)  # enough for a tiny network
    X, y = blobs(n=60)
    model = quick(init="pretrain", hidden_layer_sizes=(8,)).fit(X)
    assert adjusted_rand_score(y, model.labels_) > 0.9
    embedded = model.transform(X)
    assert np.corrcoef(embedded[:, 0], X[:, 0])[0, 1] > 0.8  # psi has learned to be near x


def test_hidden_layers_have_the_size_asked_for():
    model = quick(hidden_layer_sizes=(11, 11, 11)).fit(blobs()[0])
    shapes = [W.shape for W in model.predictor_.encoder.weights]
    assert shapes == [(3, 11), (11, 11), (11, 11), (11, 4)]


def test_scaling_inside_the_model_makes_units_irrelevant():
    X = blobs()[0]
    units = np.array([1e-3, 1.0, 1e4])
    plain, scaled = quick().fit(X), quick().fit(X * units)
    assert adjusted_rand_score(plain.labels_, scaled.labels_) == 1
    np.testing.assert_allclose(plain.transform(X), scaled.transform(X * units), atol=1e-6)


def test_without_scaling_the_embedding_starts_as_the_data():
    X = blobs()[0]
    model = quick(scale="none", max_iter=1, steps_per_iter=1, learning_rate=1e-12).fit(X)
    psi = model.transform(X)
    np.testing.assert_allclose(psi[:, :3], X, atol=1e-6)
    assert np.abs(psi[:, 3]).max() < 1e-3 * np.abs(X).max()  # the added column


def test_n_init_keeps_the_restart_with_the_largest_hsic(monkeypatch):
    values, original = [], Iteration.row
    monkeypatch.setattr(Iteration, "row", lambda self: values.append((self.index, self.hsic)) or original(self))
    rows = []
    model = quick(2, n_init=4, callback=rows.append).fit(make_moon(100, random_state=0)[0])
    assert model.best_iter_ == model.n_iter_ == 2
    assert [row["iteration"] for row in rows] == [1, 2]  # the best restart of each iteration
    ends = {hsic for index, hsic in values if index == 2}
    assert len(ends) == 4
    assert model.history_[-1]["hsic"] == rows[-1]["hsic"] == max(ends)


@pytest.mark.parametrize("n_clusters", [1, 120])
def test_extreme_numbers_of_clusters(n_clusters):
    X = np.random.default_rng(0).normal(size=(120, 3))
    model = quick(n_clusters).fit(X)
    assert len(set(model.labels_)) == n_clusters
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1)
    assert np.isfinite(model.score_samples(X)).all()
    assert np.isfinite(model.kernel(X)).all()


# A user's own network


def own_network(n_columns):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(n_columns, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, 3))


@pytest.mark.parametrize("sigma", ["auto", "median"])
@pytest.mark.parametrize("module", [nn.Identity(), nn.Linear(3, 2).requires_grad_(False)])
def test_own_encoder_without_anything_to_train(module, sigma):
    X = blobs()[0]
    model = quick(encoder=module, sigma=sigma).fit(X)
    assert model.labels_.tolist() == model.predict(X).tolist()
    if isinstance(module, nn.Identity):  # of the scaled rows
        np.testing.assert_allclose(np.corrcoef(model.transform(X).T, X.T)[:3, 3:].diagonal(), 1)


def test_own_encoder_with_lazy_layers():
    X = blobs()[0]
    module = nn.Sequential(nn.LazyLinear(8), nn.Tanh(), nn.LazyLinear(3))
    before = Host()
    model = quick(encoder=module).fit(X)
    before.assert_unchanged()
    assert model.transform(X).shape == (len(X), 3)
    assert module[0].has_uninitialized_params()  # it is not changed
    assert_same_model(model, quick(encoder=module).fit(X), X)


def test_running_means_of_own_encoder_are_those_of_training(tmp_path):
    X, module = blobs()[0], nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 3))
    model = quick(encoder=module).fit(X)
    assert model.predictor_.encoder.state()["0.num_batches_tracked"] > 0
    assert module[0].num_batches_tracked == 0
    model.save(tmp_path / "m.safetensors")
    assert_same_model(model, load(tmp_path / "m.safetensors", encoder=module), X)


@pytest.mark.parametrize("device", ["auto", "cpu", torch.device("cpu")])
@pytest.mark.parametrize("own", [False, True])
def test_a_fit_on_the_cpu_is_the_same_however_it_is_asked_for(device, own):
    X = blobs()[0]
    options = {"encoder": own_network(3)} if own else {}
    if device == "auto" and own and (torch.cuda.is_available() or torch.backends.mps.is_available()):
        pytest.skip("this machine has another device")
    model = quick(device=device, **options).fit(X)
    assert isinstance(model.predictor_.encoder, TorchEncoder if own else RowMLP)
    assert_same_model(model, quick(device="cpu", **options).fit(X), X)


def test_the_default_network_labels_on_another_device(monkeypatch):
    asked = []  # of the device "meta", which every machine has; nothing is moved to it, because it holds no values
    monkeypatch.setattr(torch_encoder, "on_device", lambda encoder, device: asked.append(device) or encoder)
    quick(device="meta").fit(blobs()[0])
    assert asked == ["meta"]


class ConvNet(nn.Module):
    """Rows are 8 x 8 images."""

    def __init__(self):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.layers = nn.Sequential(
                nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(128, 10)
            )

    def forward(self, rows):
        return self.layers(rows.reshape(-1, 1, 8, 8))


def digits():
    X, y = load_digits(n_class=4, return_X_y=True)
    return X[:300].astype(np.float32), y[:300]


def test_own_convolutional_encoder(tmp_path):
    X, y = digits()
    module = ConvNet()
    before = copy.deepcopy(module.state_dict())
    model = make_knet(4, encoder=module, random_state=0, max_iter=4, steps_per_iter=40, scale="none").fit(X / 16)
    assert model.transform(X / 16).shape == (300, 10)
    np.testing.assert_array_equal(model.labels_, model.predict(X / 16))
    assert adjusted_rand_score(y, model.labels_) > 0.3  # chance is 0
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    assert all(parameter.requires_grad for parameter in module.parameters())
    assert module.training
    model.save(tmp_path / "model.safetensors")
    loaded = load(tmp_path / "model.safetensors", encoder=ConvNet())
    assert_same_model(model, loaded, X / 16)


@pytest.mark.parametrize("options", [{"n_init": 2}, {"reconstruction_weight": 1.0}, {"init": "identity"}])
def test_own_encoder_with_other_options(options):
    X, _ = digits()
    model = quick(4, encoder=ConvNet(), **options).fit(X)
    assert model.transform(X).shape == (300, 10)
    assert_same_model(model, quick(4, encoder=ConvNet(), **options).fit(X), X)


def test_own_encoder_that_draws_repeats_and_is_quiet_when_it_predicts():
    X, _ = blobs()
    before = Host()
    module = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Dropout(0.5), nn.Linear(8, 3))
    torch.set_rng_state(before.torch)
    first, second = (quick(encoder=module).fit(X) for _ in range(2))
    before.assert_unchanged()
    assert_same_model(first, second, X)
    np.testing.assert_array_equal(first.transform(X), first.transform(X))
    assert clone(first).encoder is not None


# Callbacks and logs


def test_the_callback_sees_each_row_of_the_history():
    rows = []
    model = quick(callback=rows.append, max_iter=3).fit(blobs()[0])
    assert rows == model.history_


def test_a_true_answer_ends_the_training_without_a_warning(recwarn):
    model = quick(callback=lambda row: row["iteration"] == 2, max_iter=5).fit(blobs()[0])
    assert model.n_iter_ == 2
    assert not [w for w in recwarn if "max_iter" in str(w.message)]


def test_rows_running_out_is_warned_of_with_the_knobs():
    with pytest.warns(match=r"max_iter=2 with U still changing by .*tol=0.*Increase max_iter or tol"):
        quick().fit(make_moon(80, random_state=0)[0])


def test_changes_a_callback_makes_to_its_row_stay_with_it():
    model = quick(callback=lambda row: row.clear()).fit(blobs()[0])
    assert all("hsic" in row for row in model.history_)


def test_verbose_logs_and_never_prints(caplog, capsys):
    with caplog.at_level(logging.INFO, logger="knet"):
        quick(verbose=1).fit(blobs()[0])
    assert [record.name for record in caplog.records] == ["knet"] * 2
    assert "HSIC" in caplog.text
    assert capsys.readouterr().out == ""


def test_silence_without_verbose(caplog, capsys):
    with caplog.at_level(logging.INFO, logger="knet"):
        quick().fit(blobs()[0])
    assert caplog.records == []
    assert capsys.readouterr() == ("", "")


# Interrupts


def interrupt_in_round_two(row):
    if row["iteration"] == 2:
        raise KeyboardInterrupt


def test_an_interrupt_harms_neither_arrays_nor_host():
    X = blobs()[0]
    rows, before = X.copy(), Host()
    model = quick(callback=interrupt_in_round_two, reconstruction_weight=1.0)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X)
    before.assert_unchanged()
    np.testing.assert_array_equal(X, rows)
    assert not hasattr(model, "labels_")
    model.set_params(callback=None).fit(X)
    assert_same_model(model, quick(reconstruction_weight=1.0).fit(X), X)


@pytest.mark.parametrize("other", [make_moon(80, random_state=0)[0], pd.DataFrame(blobs(1)[0], columns=list("uvw"))])
def test_an_interrupted_second_fit_leaves_the_first_one_whole(other):
    X = pd.DataFrame(blobs()[0], columns=list("abc"))
    model, twin = quick().fit(X), quick().fit(X)
    with pytest.raises(KeyboardInterrupt):
        model.set_params(callback=interrupt_in_round_two).fit(other)
    assert_same_model(model, twin, X)
    assert model.n_features_in_ == 3
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    np.testing.assert_array_equal(model.labels_, twin.labels_)


# Memory


MEMORY = """
    import resource, sys, warnings
    import numpy as np
    from knet import Advanced, KNet
    from knet.datasets import make_spirals

    warnings.simplefilter("ignore")
    X = make_spirals(30_000, random_state=0)[0]
    settings = dict(max_iter=1, advanced=Advanced(steps_per_iter=2), random_state=0)
    KNet(3, **settings).fit(X[:500])  # what the libraries need in any case
    unit = 1 if sys.platform == "darwin" else 1024
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    model = KNet(3, train_size={train_size!r}, **settings).fit(X)
    model.predict_proba(X), model.score_samples(X), model.recluster(X)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit - before)
"""


@pytest.mark.parametrize("train_size", ["auto", 1.0])
def test_thirty_thousand_rows_need_no_matrix_of_all_pairs(train_size):
    pytest.importorskip("resource")
    code = textwrap.dedent(MEMORY).format(train_size=train_size)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    growth = int(done.stdout)
    assert growth < 1e9  # the matrix would take 7.2e9 bytes, 3.6e9 in single precision


# The advanced switches


def test_clone_and_parameters_reach_the_advanced_switches():
    model = KNet(2).set_params(advanced__degrees="differentiated")
    assert model.advanced.degrees == "differentiated"
    assert model.get_params()["advanced__degrees"] == "differentiated"
    copied = clone(model)
    assert copied.advanced is not model.advanced
    assert copied.advanced.degrees == "differentiated"
    with pytest.raises(ValueError, match="Invalid parameter 'degree'"):
        model.set_params(advanced__degree="fixed")


def test_a_grid_search_reaches_the_advanced_switches():
    X, y = blobs()
    grid = {"advanced__u_columns": ["c", "c-1"], "n_clusters": [2, 3]}
    search = GridSearchCV(quick(), grid, scoring="adjusted_rand_score", cv=2).fit(X, y)
    assert search.best_params_["n_clusters"] == 3


@pytest.mark.parametrize(
    ("name", "value"), [("degrees", "free"), ("memory_budget", 0), ("init", 3), ("u_columns", "d")]
)
def test_advanced_switches_are_checked_by_fit(name, value):
    with pytest.raises(ValueError, match=f"The '{name}' parameter of Advanced must be"):
        KNet(2, advanced=Advanced(**{name: value})).fit(blobs()[0])
    with pytest.raises(ValueError, match="'advanced' parameter of KNet must be None"):
        KNet(2, advanced={name: value}).fit(blobs()[0])


def test_a_refit_forgets_what_belonged_to_the_earlier_fit():
    X = blobs()[0]
    model = quick(keep_embeddings=True).fit(X)
    model.extra_ = {"table": "the columns of another file"}
    model.set_params(advanced__keep_embeddings=False).fit(X)
    assert not hasattr(model, "embeddings_")
    assert not hasattr(model, "extra_")
