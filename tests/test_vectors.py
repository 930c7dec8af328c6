"""Vectors of many columns, half precision, sparse matrices and columns of vectors: all become rows of one model."""

import pickle

import ml_dtypes
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from scipy.sparse import csc_array, csr_array, csr_matrix, random_array

from benchmarks.embedding_cases import generated_counts, generated_vectors, weighted
from knet import KNet, load, load_light, scan
from knet.metrics import nmi
from knet.prepare.gaps import SAMPLE_ROWS
from knet.prepare.preparation import MAX_SHIFT, Preparation
from knet.prepare.projection import learn_preparation, n_structured, principal_directions
from knet.prepare.scaling import FAR, Scaling, learn_scaling
from knet.rows.dense import check_directions, row_lengths
from knet.rows.kinds import admit
from knet.rows.vectors import vector_rows

N_COLUMNS = 120


@pytest.fixture(scope="module")
def vectors():
    return generated_vectors(600, N_COLUMNS, 4, separation=1.0)


@pytest.fixture(scope="module")
def model(vectors):
    return KNet(4, random_state=0).fit(vectors.X)


def prepared(X, *, scale="auto", unit_length=False, max_columns=64, n_clusters=3, seed=0):
    rng = np.random.RandomState(seed)
    return learn_preparation(
        X, scale=scale, unit_length=unit_length, max_columns=max_columns, n_clusters=n_clusters, rng=rng
    )


# The projection


def test_wide_rows_are_projected_and_narrow_ones_are_not(seed):
    X = np.random.default_rng(seed).normal(size=(300, 65))
    assert prepared(X[:, :64]).projection is None
    assert prepared(X, max_columns=None).projection is None
    found = prepared(X)
    assert found.projection.shape[0] == 65
    np.testing.assert_allclose(found.projection.T @ found.projection, np.eye(found.projection.shape[1]), atol=1e-5)


def test_directions_are_those_of_the_covariance(seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(500, 8)) @ (rng.normal(size=(8, 90)) * np.geomspace(20, 1, 8)[:, None]) + rng.normal(size=90)
    values, exact = np.linalg.eigh(np.cov(X.T, bias=True))
    directions, variances = principal_directions(X, X.mean(0), 5, np.random.RandomState(seed))
    np.testing.assert_allclose(variances, values[::-1][:5], rtol=1e-3)
    np.testing.assert_allclose(np.abs((directions * exact[:, ::-1][:, :5]).sum(0)), 1, atol=1e-3)


@pytest.mark.parametrize("n_groups", [4, 12])
def test_the_components_of_round_groups_are_counted(seed, n_groups):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(2000, 200)) + 0.4 * rng.normal(size=(n_groups, 200))[rng.integers(n_groups, size=2000)]
    assert (
        n_groups - 1 <= prepared(X, n_clusters=2).projection.shape[1] <= n_groups
    )  # a bound for noise may fail by one


def test_noise_has_no_structured_components(seed):
    X = np.random.default_rng(seed).normal(size=(2000, 200))
    _, variances = principal_directions(X, X.mean(0), 30, np.random.RandomState(seed))
    assert n_structured(variances, float(X.var(0).sum()), X.shape) <= 1
    assert prepared(X, n_clusters=9).projection.shape[1] == 8  # the means of nine groups span eight dimensions


@pytest.mark.parametrize("unit_length", [False, True])
@pytest.mark.parametrize("scale", ["auto", "standard", "none"])
def test_one_product_gives_what_two_steps_give(seed, scale, unit_length):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(400, 80)) * rng.uniform(0.1, 10, 80) + rng.normal(size=80)
    X[:, :3] = rng.lognormal(sigma=1.5, size=(400, 3))  # compressed with scale="auto"
    prepare = prepared(X, scale=scale, unit_length=unit_length)
    rows = X / np.linalg.norm(X, axis=1, keepdims=True) if unit_length else X
    assert len(prepare.scaling.compressed) == (
        3 if scale == "auto" and not unit_length else prepare.scaling.compressed.size
    )
    assert prepare._is_foldable
    np.testing.assert_allclose(prepare(X), prepare.scaling(rows) @ prepare.projection, rtol=1e-8, atol=1e-8)


def test_columns_far_from_zero_keep_their_digits(seed):
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(300, 100)) + 1e5).astype(np.float32)
    prepare = prepared(X)
    assert np.abs(prepare.scaling.shift / prepare.scaling.scale).max() > MAX_SHIFT
    exact = prepare.scaling(X.astype(np.float64)) @ prepare.projection
    np.testing.assert_allclose(prepare(X), exact, atol=1e-2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_strange_rows_have_finite_results(model, vectors, dtype):
    largest = np.finfo(dtype).max
    X = vectors.X[:4].astype(dtype)
    X[0], X[1, ::2], X[1, 1::2], X[2, 5] = largest, largest, -largest, 1e30
    assert np.abs(model.predictor_.preparation(X)).max() <= FAR
    for method in ("transform", "predict_proba", "score_samples"):
        assert np.isfinite(getattr(model, method)(X)).all(), method


def test_wide_groups_are_found_and_labelled_from_raw_vectors(model, vectors):
    assert nmi(vectors.y, model.labels_) > 0.95
    np.testing.assert_array_equal(model.predict(vectors.X), model.labels_)
    assert model.n_features_in_ == N_COLUMNS
    assert model.predictor_.preparation.projection.shape[1] <= 64


def test_an_own_encoder_gets_all_columns(vectors):
    net = torch.nn.Linear(N_COLUMNS, 5)
    model = KNet(4, encoder=net, max_iter=2, random_state=0).fit(vectors.X)
    assert model.predictor_.preparation.projection is None
    assert model.transform(vectors.X).shape == (600, 5)


def test_a_projected_model_is_saved_and_loaded(model, vectors, tmp_path):
    path = tmp_path / "m.safetensors"
    model.save(path)
    for other in (load(path), load_light(path), pickle.loads(pickle.dumps(model))):
        assert other.transform(vectors.X).tobytes() == model.transform(vectors.X).tobytes()


def test_projected_models_are_exported(model, vectors, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    from knet.model.onnx import to_onnx

    for metric in ("euclidean", "cosine"):
        own = model if metric == "euclidean" else KNet(4, metric=metric, random_state=0).fit(vectors.X)
        to_onnx(own, tmp_path / f"{metric}.onnx")
        session = runtime.InferenceSession(tmp_path / f"{metric}.onnx", providers=["CPUExecutionProvider"])
        np.testing.assert_array_equal(session.run(["label"], {"X": vectors.X})[0], own.labels_)


def test_scan_reduces_wide_rows(vectors):
    assert scan(vectors.X, 6, random_state=0).best == 4


def test_a_projection_needs_a_bounded_sample(monkeypatch, seed):
    from knet.prepare import projection as reduction

    class Counted(np.ndarray):
        n_read = 0

        def __getitem__(self, rows):
            Counted.n_read += len(np.arange(self.shape[0])[rows])
            return np.asarray(self)[rows]

    monkeypatch.setattr(reduction, "SAMPLE_ROWS", 200)
    X = np.random.default_rng(seed).normal(size=(5000, 70)).view(Counted)
    prepared(X)
    assert Counted.n_read == 200 + SAMPLE_ROWS  # those of the projection, and those of the gaps


# Cosine


def test_cosine_does_not_depend_on_the_length_of_rows(vectors, seed):
    lengths = np.random.default_rng(seed).uniform(0.1, 10, (600, 1)).astype(np.float32)
    first = KNet(4, metric="cosine", random_state=seed).fit(vectors.X)
    second = KNet(4, metric="cosine", random_state=seed).fit(vectors.X * lengths)
    assert nmi(first.labels_, second.labels_) > 0.99
    np.testing.assert_allclose(first.transform(vectors.X * lengths), first.transform(vectors.X), atol=1e-3)


def test_cosine_of_narrow_rows(seed):
    rng = np.random.default_rng(seed)
    angles = rng.choice([0.2, 1.3], 400) + rng.normal(scale=0.05, size=400)
    X = np.column_stack([np.cos(angles), np.sin(angles)]) * rng.lognormal(size=(400, 1))
    model = KNet(2, metric="cosine", random_state=seed).fit(X)
    assert nmi(angles > 0.75, model.labels_) > 0.95
    np.testing.assert_allclose(model.transform(100 * X), model.transform(X), atol=1e-6)


@pytest.mark.parametrize("convert", [np.asarray, csr_array])
def test_a_row_without_a_direction_is_named(vectors, convert):
    X = vectors.X.copy()
    X[417] = 0
    with pytest.raises(ValueError, match="Row 417 has the length 0"):
        KNet(4, metric="cosine").fit(convert(X))
    model = KNet(4, metric="cosine", max_iter=1, random_state=0).fit(vectors.X)
    for method in ("predict", "transform", "predict_proba", "score_samples"):
        with pytest.raises(ValueError, match="Row 417 has the length 0"):
            getattr(model, method)(convert(X))
    KNet(4, random_state=0, max_iter=1).fit(convert(X))  # any other metric takes it


def test_the_metric_is_stored_with_the_model(vectors, tmp_path):
    model = KNet(4, metric="cosine", max_iter=1, random_state=0).fit(vectors.X)
    model.save(tmp_path / "m.safetensors")
    for other in (load(tmp_path / "m.safetensors"), load_light(tmp_path / "m.safetensors")):
        np.testing.assert_array_equal(other.predict(7 * vectors.X), model.labels_)
    assert load(tmp_path / "m.safetensors").metric == "cosine"


def test_an_unknown_metric_is_refused(vectors):
    with pytest.raises(
        ValueError, match=r"'metric' parameter of KNet must be 'euclidean' or 'cosine'.*did you mean 'cosine'"
    ):
        KNet(4, metric="cosin").fit(vectors.X)
    with pytest.raises(ValueError, match="'metric'"):
        scan(vectors.X, metric="angle")


def test_lengths_of_very_large_and_very_small_rows():
    X = np.array([[3e200, 4e200], [3e-200, 4e-200], [3.0, 4.0]])
    np.testing.assert_allclose(row_lengths(X), [5e200, 5e-200, 5])
    np.testing.assert_allclose(row_lengths(csr_array(X)), [5e200, 5e-200, 5])
    check_directions(X)


# Half precision


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_precision_is_taken_as_it_comes(vectors, model, dtype, monkeypatch):
    X = vectors.X.astype(dtype)
    assert nmi(vectors.y, model.predict(X)) > 0.95
    assert model.transform(X).dtype == np.float32
    np.testing.assert_array_equal(model.transform(X), model.transform(X.astype(np.float32)))
    assert nmi(vectors.y, KNet(4, random_state=0).fit(X).labels_) > 0.95
    assert KNet(4, metric="cosine", max_iter=1, random_state=0).fit(X).transform(X).dtype == np.float32


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_missing_values_in_half_precision_are_gaps_and_infinite_ones_refused(model, vectors, dtype):
    X = vectors.X.astype(dtype)
    X[3, 7] = np.nan
    np.testing.assert_array_equal(model.predict(X), model.predict(X.astype(np.float32)))
    X[3, 7] = np.inf
    with pytest.raises(ValueError, match=r"1 infinite value in column 7"):
        model.predict(X)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_tensors_of_half_precision(model, vectors, dtype):
    assert nmi(vectors.y, model.predict(torch.from_numpy(vectors.X).to(dtype))) > 0.95


def test_narrow_rows_of_half_precision(seed):
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(200, 3)) + 8 * rng.integers(2, size=(200, 1))).astype(np.float16)
    model = KNet(2, random_state=seed).fit(X)
    assert model.cluster_centers_.dtype == np.float32
    assert nmi(X[:, 0] > 4, model.labels_) > 0.95


# Sparse matrices


@pytest.fixture(scope="module")
def counts():
    return generated_counts(1200, 3000, 6)


def test_topics_are_found_in_sparse_counts(counts):
    for case, metric in ((counts, "cosine"), (weighted(counts), "cosine"), (weighted(counts), "euclidean")):
        model = KNet(6, metric=metric, random_state=0).fit(case.X)
        assert nmi(case.y, model.labels_) >= 0.95, metric
        np.testing.assert_array_equal(model.predict(case.X), model.labels_)


@pytest.mark.parametrize("kind", [csr_array, csr_matrix, csc_array])
def test_sparse_and_dense_rows_get_the_same_labels(counts, kind):
    model = KNet(6, metric="cosine", max_iter=1, random_state=0).fit(kind(counts.X))
    for method in ("predict", "transform", "predict_proba", "score_samples"):
        sparse, dense = (getattr(model, method)(X) for X in (kind(counts.X[:50]), counts.X[:50].toarray()))
        np.testing.assert_allclose(sparse, dense, atol=1e-4)


def test_narrow_sparse_rows_give_the_model_of_dense_rows(seed):
    X = random_array((300, 5), density=0.4, rng=np.random.default_rng(seed), format="csr")
    models = [KNet(3, random_state=seed, max_iter=2).fit(kind) for kind in (X, X.toarray())]
    assert models[0].transform(X).tobytes() == models[1].transform(X.toarray()).tobytes()


def test_wide_sparse_rows_are_never_dense_as_a_whole(counts, monkeypatch):
    def of_few_rows(self, *args, **options):
        assert self.shape[0] <= 100
        return whole(self, *args, **options)

    whole = csr_array.toarray
    monkeypatch.setattr("knet.model.reference.MAX_VALUES", 100 * counts.X.shape[1])
    monkeypatch.setattr(csr_array, "toarray", of_few_rows)
    model = KNet(6, metric="cosine", max_iter=1, random_state=0).fit(counts.X)
    for method in ("predict", "transform", "predict_proba", "score_samples", "score"):
        getattr(model, method)(counts.X)


@pytest.mark.filterwarnings("ignore::knet.exceptions.KNetDataWarning")  # the rows have no groups
def test_forty_thousand_sparse_columns(seed):
    rng = np.random.default_rng(seed)
    X = random_array((500, 40_000), density=0.001, rng=rng, format="csr", dtype=np.float32)
    model = KNet(3, random_state=seed, max_iter=1).fit(X)
    assert model.predictor_.preparation.projection.shape[0] == 40_000
    assert model.predict(X).shape == (500,)


def test_missing_values_in_sparse_rows_are_counted(counts):
    X = counts.X[:100].copy()
    X.data[[3, 5]] = np.nan
    with pytest.raises(ValueError, match="2 NaN values in column"):
        KNet(6).fit(X)


# Columns of vectors


def tables(X):
    values = pa.array(X.ravel())
    fixed = pa.FixedSizeListArray.from_arrays(values, X.shape[1])
    lists = pa.ListArray.from_arrays(pa.array(np.arange(0, X.size + 1, X.shape[1]), pa.int32()), values)
    return {
        "arrow": pa.table({"vector": fixed}),
        "arrow lists": pa.table({"vector": lists}),
        "arrow chunks": pa.chunked_array([fixed[:200], fixed[200:]]),
        "polars": pl.DataFrame({"vector": pl.Series(X.tolist(), dtype=pl.List(pl.Float32))}),
        "polars arrays": pl.DataFrame({"vector": pl.Series(X.tolist(), dtype=pl.Array(pl.Float32, X.shape[1]))}),
        "polars column": pl.Series(X.tolist(), dtype=pl.List(pl.Float32)),
        "pandas": pd.DataFrame({"vector": list(X)}),
        "pandas column": pd.Series(list(X)),
    }


def test_a_column_of_vectors_is_read_as_rows(model, vectors):
    for name, table in tables(vectors.X).items():
        np.testing.assert_array_equal(model.predict(table), model.labels_, err_msg=name)
        assert model.transform(table).dtype == np.float32, name
    fitted = KNet(4, random_state=0).fit(tables(vectors.X)["polars"])
    np.testing.assert_array_equal(fitted.labels_, model.labels_)


def test_half_floats_in_arrow_lists(model, vectors):
    X = vectors.X.astype(np.float16)
    table = pa.table({"vector": pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), N_COLUMNS)})
    np.testing.assert_array_equal(model.predict(table), model.predict(X))


def test_vectors_of_different_lengths_are_refused():
    for table in (pa.table({"v": [[1.0, 2.0], [3.0]]}), pd.DataFrame({"v": [[1.0, 2.0], [3.0]]})):
        with pytest.raises(ValueError, match="that of row 1 has 1"):
            KNet(2).fit(table)
    with pytest.raises(ValueError, match=r"Vectors are missing \(1\)"):
        KNet(2).fit(pa.table({"v": [[1.0, 2.0], None]}))
    with pytest.raises(ValueError, match="must be the only column"):
        KNet(2).fit(pa.table({"v": [[1.0, 2.0], [1.0, 3.0]], "n": [1, 2]}))


def test_an_empty_column_of_vectors_has_no_rows(model, vectors, tmp_path):
    model.save(tmp_path / "m.safetensors")
    for name, table in tables(vectors.X).items():
        if "pandas" in name:  # an empty column of objects does not say what they would be
            continue
        empty = table[:0]
        if name in ("arrow", "arrow chunks", "polars arrays"):  # the type says how long the vectors are
            found = admit(empty)
            assert (found.shape, found.dtype) == ((0, N_COLUMNS), np.float32), name
            assert load_light(tmp_path / "m.safetensors").predict(empty).shape == (0,), name
        else:
            with pytest.raises(ValueError, match="The column of vectors has no rows"):
                admit(empty)
            column = empty if name == "polars column" else empty["vector"]
            assert vector_rows(column, 7).shape == (0, 7)
        with pytest.raises(ValueError, match=r"no rows|0 sample"):
            model.predict(empty)


def test_a_pandas_column_may_be_called_column_names():
    X = pd.DataFrame({"column_names": [1.0, 2.0], "schema": [3.0, 4.0]})
    assert admit(X) is X
    one = pd.DataFrame({"column_names": [[1.0, 2.0], [3.0, 4.0]]})
    np.testing.assert_array_equal(admit(one), [[1, 2], [3, 4]])


def test_a_preparation_keeps_nothing_cached_in_a_pickle(seed):
    prepare = prepared(np.random.default_rng(seed).normal(size=(300, 70)))
    size = len(pickle.dumps(prepare))
    prepare(np.ones((1, 70), np.float32))
    assert len(pickle.dumps(prepare)) == size


def test_rows_without_a_projection_are_scaled_only(seed):
    X = np.random.default_rng(seed).normal(size=(100, 4))
    scaling = learn_scaling(X, "auto")
    np.testing.assert_array_equal(Preparation(scaling)(X), scaling(X))
    assert isinstance(scaling, Scaling)
