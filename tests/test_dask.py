"""KNet on Dask collections, computed by threads of this process; test_dask_cluster.py uses worker processes."""

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.sparse import csr_array
from scipy.stats import chisquare
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError

import knet.dask
from knet import Advanced, KNet, load, load_light
from knet.dask.training import draw, merge_drawn
from knet.exceptions import ModelFileError
from knet.model import blocks
from knet.model.drift import Moments
from knet.model.light import LightModel

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
bag = pytest.importorskip("dask.bag")

NAMES = ["a", "b", "c"]
METHODS = ["predict", "predict_proba", "score_samples", "transform"]


def rows(n=900, seed=0):
    return make_blobs(n, 3, centers=3, cluster_std=0.4, center_box=(-4, 4), random_state=seed)[0]


def quick(seed=0, **params):
    """Return an estimator whose fit is short."""
    options = {"sigma": "median", "n_init": 1, "max_iter": 1, "tol": 1.0, "advanced": Advanced(steps_per_iter=20)}
    return KNet(n_clusters=3, random_state=seed, **{**options, **params})


def fitted(X, **params):
    return quick(**params).fit(X)


@pytest.fixture(scope="module")
def X():
    return rows()


@pytest.fixture(scope="module")
def frame(X):
    return pd.DataFrame(X, columns=NAMES, index=pd.Index(np.arange(len(X)) * 2, name="key"))


@pytest.fixture(scope="module")
def on_array(X):
    return fitted(X)


@pytest.fixture(scope="module")
def on_frame(frame):
    return fitted(frame)


def uneven(frame, sizes):
    """Cut a frame into partitions of given sizes, empty ones among them."""
    ends = np.cumsum(sizes)
    parts = [frame.iloc[end - size : end] for end, size in zip(ends, sizes, strict=True)]
    return dd.from_map(lambda part: part, parts, meta=frame.iloc[:0])


# The same results as in memory


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int32])
def test_arrays_give_what_memory_gives(on_array, X, method, dtype):
    values = (X * 100).astype(dtype)
    lazy = getattr(on_array, method)(da.from_array(values, chunks=(250, 2)))
    expected = getattr(on_array, method)(values)
    assert isinstance(lazy, da.Array)
    assert lazy.dtype == expected.dtype
    assert lazy.shape == expected.shape
    found = lazy.compute()
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-9 if dtype in (np.float64, np.int32) else 1e-4, atol=1e-5)
    assert lazy.chunks[0] == (250, 250, 250, 150)


@pytest.mark.parametrize("method", METHODS)
def test_a_light_model_gives_what_the_model_gives(on_array, on_frame, X, frame, method):
    compute = getattr(knet.dask, method)
    for model, many in ((on_array, da.from_array(X, chunks=(250, 3))), (on_frame, dd.from_pandas(frame, 3))):
        found, expected = compute(LightModel.of(model), many), compute(model, many)
        assert list(found.shape[1:]) == list(expected.shape[1:])
        np.testing.assert_array_equal(found.compute(), expected.compute())


def test_a_light_model_labels_summarizes_and_drifts(frame, tmp_path):
    many = dd.from_pandas(frame, npartitions=3)
    model = quick().fit(many)
    model.save(tmp_path / "m.safetensors")
    light = load_light(tmp_path / "m.safetensors")
    outputs = ["label", "proba"]
    pd.testing.assert_frame_equal(
        knet.dask.label(light, many, outputs=outputs).compute(), knet.dask.label(model, many, outputs=outputs).compute()
    )
    np.testing.assert_array_equal(knet.dask.summarize(light, many).means, knet.dask.summarize(model, many).means)
    found, expected = knet.dask.drift(light, many), model.drift(frame)
    np.testing.assert_allclose(found.column_shift, expected.column_shift, atol=1e-12)
    assert (found.unfamiliar, found.columns, found.advice) == (expected.unfamiliar, list("abc"), expected.advice)
    with pytest.raises(ValueError, match="lacks the model's columns 'c'"):
        knet.dask.predict(light, many[["a", "b"]])


@pytest.mark.parametrize("method", METHODS)
def test_frames_keep_partitions_divisions_and_index(on_frame, frame, method):
    lazy = getattr(on_frame, method)(dd.from_pandas(frame, npartitions=4))
    found, expected = lazy.compute(), getattr(on_frame, method)(frame)
    assert lazy.npartitions == 4
    assert lazy.divisions == dd.from_pandas(frame, npartitions=4).divisions
    assert found.index.equals(frame.index)
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    dd.utils.assert_eq(lazy, lazy)  # the computed names, dtypes and divisions are the announced ones


def test_frames_are_named(on_frame, frame):
    ddf = dd.from_pandas(frame, npartitions=2)
    assert on_frame.predict(ddf).name == "label"
    assert on_frame.score_samples(ddf).name == "score"
    assert list(on_frame.predict_proba(ddf).columns) == ["proba_0", "proba_1", "proba_2"]
    assert list(on_frame.transform(ddf).columns) == [f"embedding_{k}" for k in range(4)]
    assert list(on_frame.transform(ddf).columns) == list(on_frame.get_feature_names_out())


def test_uneven_and_empty_partitions(on_frame, frame):
    ddf = uneven(frame, [0, 1, 700, 0, 199, 0])
    for method in METHODS:
        found = getattr(on_frame, method)(ddf)
        assert found.map_partitions(len).compute().tolist() == [0, 1, 700, 0, 199, 0]
        np.testing.assert_allclose(found.compute(), getattr(on_frame, method)(frame), rtol=1e-9)


def test_all_partitions_empty(on_frame, frame):
    found = on_frame.predict(uneven(frame, [0, 0])).compute()
    assert len(found) == 0
    assert found.dtype == np.int64


def test_unknown_chunk_sizes(on_array, X):
    many = da.from_array(X, chunks=(200, 3))
    unknown = many[many[:, 0] > 0]
    assert np.isnan(unknown.shape[0])
    for method in METHODS:
        np.testing.assert_allclose(
            getattr(on_array, method)(unknown).compute(), getattr(on_array, method)(X[X[:, 0] > 0]), rtol=1e-9
        )
    split = da.concatenate([unknown[:, :1], unknown[:, 1:]], axis=1, allow_unknown_chunksizes=True)
    assert np.array_equal(on_array.predict(split).compute(), on_array.predict(X[X[:, 0] > 0]))


@pytest.mark.parametrize("dtype", ["float32", "Int64", "Float64", "double[pyarrow]", "bool", "object"])
def test_column_types_as_in_memory(frame, dtype):
    table = frame.round().astype("Int64" if dtype in ("Int64", "bool") else "float64").astype(dtype)
    model = fitted(frame)
    with dask.config.set({"dataframe.convert-string": False}):
        lazy = model.transform(dd.from_pandas(table, npartitions=3))
        expected = model.transform(table)
        assert set(lazy.dtypes) == {expected.dtype}
        np.testing.assert_allclose(lazy.compute(), expected, rtol=1e-4 if dtype == "float32" else 1e-9, atol=1e-5)


@pytest.mark.parametrize("kind", ["string", "category", "datetime64[ns]"])
def test_label_copies_columns(on_frame, frame, kind):
    ids = pd.Series(np.arange(len(frame)) % 7, index=frame.index)
    table = frame.assign(own=ids.astype("datetime64[ns]" if kind.startswith("date") else str).astype(kind))
    lazy = knet.dask.label(
        on_frame, dd.from_pandas(table, npartitions=3), keep=["own"], outputs=["label", "proba", "score", "embedding"]
    )
    found = lazy.compute()
    assert list(found.columns) == [
        "own",
        "label",
        *(f"proba_{k}" for k in range(3)),
        "score",
        *(f"embedding_{k}" for k in range(4)),
    ]
    assert found.own.astype(str).tolist() == table.own.astype(str).tolist()
    assert np.array_equal(found.label, on_frame.predict(frame))
    np.testing.assert_allclose(found.filter(like="embedding_"), on_frame.transform(frame), rtol=1e-9)
    dd.utils.assert_eq(lazy, lazy)


def test_label_of_a_model_without_names(on_array, frame):
    table = frame.assign(own="x")
    with pytest.warns(UserWarning, match="fitted without feature names"):  # as in memory
        lazy = knet.dask.label(on_array, dd.from_pandas(table, npartitions=3), keep=["own"])
    found = lazy.compute()
    assert np.array_equal(found.label, on_array.predict(frame.to_numpy()))


def test_slices_of_a_block_are_put_together(on_frame, frame, monkeypatch):
    monkeypatch.setattr(blocks, "SLICE_ROWS", 100)
    ddf = dd.from_pandas(frame, npartitions=2)
    assert np.array_equal(on_frame.predict(ddf).compute(), on_frame.predict(frame))
    np.testing.assert_allclose(on_frame.transform(ddf).compute(), on_frame.transform(frame), rtol=1e-9)


def test_own_encoder_is_sent_to_workers(frame):
    own = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
    model = fitted(frame, encoder=own)
    assert np.array_equal(model.predict(dd.from_pandas(frame, npartitions=3)).compute(), model.predict(frame))


def test_set_output_leaves_lazy_results_lazy(X):
    model = fitted(X).set_output(transform="pandas")
    assert isinstance(model.transform(da.from_array(X)), da.Array)
    assert isinstance(model.transform(X), pd.DataFrame)


# Lazy, and the graph contains the model once


def test_nothing_is_computed_before_it_is_asked_for(on_frame, frame):
    def refuse(part):
        raise RuntimeError("computed")

    ddf = dd.from_pandas(frame, npartitions=3).map_partitions(refuse, meta=frame.iloc[:0])
    results = [getattr(on_frame, method)(ddf) for method in METHODS]
    assert all(dask.is_dask_collection(result) for result in results)
    with pytest.raises(RuntimeError, match="computed"):
        results[0].compute()


@pytest.mark.parametrize("kind", ["array", "frame"])
def test_the_graph_holds_the_model_once(on_array, on_frame, kind):
    model = on_array if kind == "array" else on_frame

    def size(n_blocks):
        many = da.zeros((n_blocks * 2, 3), chunks=(2, 3))
        many = many if kind == "array" else dd.from_dask_array(many, columns=NAMES)
        (lazy,) = dask.optimize(knet.dask.predict(model, many))
        return len(pickle.dumps(dict(lazy.__dask_graph__())))

    payload = len(pickle.dumps(blocks.ModelRef.of(model)))
    assert payload > 100_000
    assert size(200) - size(10) < 190 * payload / 50


def test_equal_models_have_equal_names_in_the_graph(on_array, X, tmp_path):
    on_array.save(tmp_path / "m.safetensors")
    again = load(tmp_path / "m.safetensors")
    many = da.from_array(X, chunks=(300, 3), name="rows")
    assert blocks.fingerprint(again) == blocks.fingerprint(on_array)
    assert on_array.predict(many).name == on_array.predict(many).name
    other = fitted(X + 1)
    assert blocks.fingerprint(other) != blocks.fingerprint(on_array)
    assert on_array.predict(many).name != other.predict(many).name


def test_torch_threads_are_set_and_restored(on_array, X, monkeypatch):
    seen = []
    assign = type(on_array.predictor_).assign

    def watched(self, rows, reject=None):
        if len(rows):  # no rows are labelled when the graph is built, for the type of the result
            seen.append(torch.get_num_threads())
        return assign(self, rows, reject)

    monkeypatch.setattr(type(on_array.predictor_), "assign", watched)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        knet.dask.predict(on_array, da.from_array(X, chunks=(90, 3))).compute(scheduler="threads", num_workers=4)
        assert set(seen) == {1}
        seen.clear()
        knet.dask.predict(on_array, da.from_array(X, chunks=(90, 3)), threads=2).compute(scheduler="sync")
        assert set(seen) == {2}
        assert torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_methods_pass_their_arguments_on(on_frame, frame):
    ddf = dd.from_pandas(frame, npartitions=2)
    for method in METHODS:
        call = getattr(on_frame, method)
        with pytest.raises(TypeError, match="thread"):
            call(ddf, thread=1)
        with pytest.raises(TypeError, match="positional"):
            call(ddf, 1)
        with pytest.raises(ValueError, match="'threads' parameter"):
            call(ddf, threads=0)
        np.testing.assert_array_equal(call(ddf, threads=2).compute(), call(ddf).compute())
    with pytest.raises(TypeError, match="sample_weight"):
        quick().fit(ddf, sample_weight=np.ones(len(frame)))
    assert len(np.unique(quick().fit(ddf, None, sample_size=90).train_indices_)) == 90


def test_memory_methods_refuse_collections(on_array, X):
    many = da.from_array(X)
    for method in (on_array.kernel, on_array.recluster):
        with pytest.raises(TypeError, match=r"needs rows in memory.*knet\.dask\.sample"):
            method(many)


def test_dask_is_not_imported_without_need():
    script = (
        "import sys, numpy as np; from knet import KNet\n"
        "X = np.random.default_rng(0).normal(size=(40, 2))\n"
        "KNet(2, n_init=1, max_iter=1, random_state=0).fit(X).predict(X)\n"
        "assert not {'dask', 'distributed', 'knet.dask'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=120)


def test_a_missing_dask_is_named():
    script = (
        "import sys; sys.modules['dask'] = None\ntry:\n    import knet.dask\nexcept ImportError as e:\n    print(e)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.stdout == "knet.dask needs dask. Install it with: pip install 'knet-clustering[dask]'\n"


# Errors, when the graph is built


def test_wrong_columns_are_refused_at_once(on_frame, frame):
    ddf = dd.from_pandas(frame, npartitions=2)
    for bad, text in (
        (ddf.rename(columns={"a": "z"}), "feature names"),
        (ddf[["b", "a", "c"]], "same order"),
        (ddf[["a", "b"]], "feature names"),
        (ddf.assign(own="x"), "'own'.*hold"),
        (ddf.assign(own=1.0), "feature names"),
    ):
        with pytest.raises(ValueError, match=text):
            on_frame.predict(bad)
        with pytest.raises(ValueError, match=text):
            on_frame.predict(bad._meta_nonempty)  # as in memory


def test_wrong_shapes_and_kinds_are_refused_at_once(on_array, X):
    with pytest.raises(ValueError, match="2 features, but KNet is expecting 3"):
        on_array.predict(da.from_array(X[:, :2]))
    with pytest.raises(ValueError, match="two dimensions"):
        on_array.predict(da.from_array(X[:, 0]))
    with pytest.raises(TypeError, match=r"Dask array or DataFrame. Got Bag"):
        on_array.predict(bag.from_sequence([1]))
    with pytest.raises(TypeError, match="Got ndarray"):
        knet.dask.predict(on_array, X)
    with pytest.raises(ValueError, match="Complex data"):
        on_array.predict(da.from_array(X.astype(complex)))
    with pytest.raises(NotFittedError):
        KNet().predict(da.from_array(X))
    with pytest.raises(ValueError, match="'threads' parameter"):
        knet.dask.predict(on_array, da.from_array(X), threads=0)
    with pytest.raises(TypeError, match="use predict for arrays"):
        knet.dask.label(on_array, da.from_array(X))


def test_label_refuses_what_is_not_there(on_frame, frame):
    ddf = dd.from_pandas(frame, npartitions=2)
    with pytest.raises(ValueError, match="no column 'own' to keep"):
        knet.dask.label(on_frame, ddf, keep="own")
    with pytest.raises(ValueError, match="'label' to keep has the name of an output"):
        knet.dask.label(on_frame, ddf.assign(label="x"), keep=["label"])
    with pytest.raises(ValueError, match="'label' to keep has the name of an output"):
        blocks.Labeler(on_frame, keep=["label"])(frame.assign(label="x"))
    with pytest.raises(ValueError, match=r"'outputs' parameter .* Got 'labels' instead; did you mean 'label'"):
        knet.dask.label(on_frame, ddf, outputs=["labels"])
    with pytest.raises(ValueError, match="at least one"):
        knet.dask.label(on_frame, ddf, outputs=[])


def test_bad_values_are_named_when_computed(on_frame, frame):
    table = frame.copy()
    table.loc[table.index[5], "b"] = np.inf
    lazy = on_frame.predict(dd.from_pandas(table, npartitions=2))
    with pytest.raises(ValueError, match=r"1 infinite value in column 'b' \(1\)"):
        lazy.compute()


def test_blocks_that_are_not_what_was_announced(on_frame, frame):
    ddf = uneven(frame, [450, 450]).map_partitions(
        lambda part: part[["a", "b"]], meta=frame.iloc[:0], enforce_metadata=False
    )
    with pytest.raises(ValueError, match="lacks the model's columns 'c'"):
        on_frame.predict(ddf).compute()


def test_a_model_file_is_read_by_the_workers(on_frame, frame, tmp_path, monkeypatch):
    path = tmp_path / "m.safetensors"
    on_frame.save(path)
    ddf = dd.from_pandas(frame, npartitions=2)
    n_reads = []
    monkeypatch.setattr(blocks, "load_light", lambda *args: n_reads.append(1) or load_light(*args))
    lazy = knet.dask.predict(path, ddf)
    assert np.array_equal(lazy.compute(), on_frame.predict(frame))
    assert len(n_reads) == 1
    sent = pickle.loads(pickle.dumps(blocks.ModelRef.of(path)))
    assert len(pickle.dumps(sent)) < 1000
    blocks._load.cache_clear()
    fitted(frame + 1).save(path, overwrite=True)
    with pytest.raises(ModelFileError, match="has another model in"):
        sent.load()
    path.unlink()
    with pytest.raises(FileNotFoundError, match=r"has no model file .* or pass the loaded model"):
        sent.load()
    with pytest.raises(FileNotFoundError, match="There is no model file"):
        knet.dask.predict(path, ddf)


# The block function


@pytest.mark.parametrize("kind", ["pandas", "polars", "table", "batch"])
def test_labeler_answers_in_kind(on_frame, frame, kind):
    pa = pytest.importorskip("pyarrow")
    table = frame.assign(own="x", other="y").reset_index(drop=True)
    batch = {
        "pandas": lambda: table,
        "polars": lambda: pytest.importorskip("polars").from_pandas(table),
        "table": lambda: pa.Table.from_pandas(table),
        "batch": lambda: pa.RecordBatch.from_pandas(table),
    }[kind]()
    labeler = pickle.loads(pickle.dumps(blocks.Labeler(on_frame, outputs=["label", "score"], keep=["own"])))
    found = labeler(batch)
    assert type(found) is type(batch)
    found = found if kind == "pandas" else found.to_pandas()
    assert list(found.columns) == ["own", "label", "score"]
    assert np.array_equal(found.label, on_frame.predict(frame))
    assert len(labeler(batch[:0] if kind == "pandas" else batch.slice(0, 0))) == 0


@pytest.mark.parametrize("kind", ["array", "polars"])
def test_a_row_without_a_direction_is_named_by_its_place_in_the_block(X, kind, monkeypatch):
    model = fitted(X, metric="cosine")
    bad = X.copy()
    bad[417] = 0
    block = bad if kind == "array" else pytest.importorskip("polars").DataFrame(bad)
    monkeypatch.setattr(blocks, "SLICE_ROWS", 100)
    with pytest.raises(ValueError, match="Row 417 has the length 0"):
        blocks.label_block(block, blocks.ModelRef.of(model), ("label",), np.float64)


def test_a_folder_with_another_share_of_rejected_rows_is_refused(on_frame, tmp_path):
    pytest.importorskip("pyarrow")
    from knet.dask.files import Job, open_folder

    def job(reject, outputs=("label",)):
        return Job(blocks.ModelRef.of(on_frame, reject=reject), None, outputs, (), None, 1)

    open_folder(tmp_path / "out", job(0.05), force=False)
    open_folder(tmp_path / "out", job(0.05), force=False)
    with pytest.raises(FileExistsError, match=r"with --reject 0\.05, and this run has no --reject"):
        open_folder(tmp_path / "out", job(None), force=False)
    with pytest.raises(FileExistsError, match="contains other columns of this model"):
        open_folder(tmp_path / "out", job(0.05, ("label", "score")), force=False)
    open_folder(tmp_path / "out", job(None), force=True)


def test_labeler_keeps_single_precision(on_frame, frame):
    single = frame.astype(np.float32)
    found = blocks.Labeler(on_frame, outputs=["embedding"])(single)
    assert np.array_equal(found.to_numpy(), on_frame.transform(single))
    assert set(found.dtypes) == {np.dtype(np.float32)}


# The sample


@pytest.mark.parametrize("size", [1, 17, 899, 900, 5000])
def test_sample_has_its_size_and_the_order_of_the_rows(frame, size):
    ddf = uneven(frame, [0, 1, 600, 0, 299])
    found = knet.dask.sample(ddf, size, random_state=0)
    assert len(found) == min(size, 900)
    assert found.index.is_monotonic_increasing
    assert found.equals(frame.loc[found.index])


def test_sample_repeats_whatever_the_scheduler(X, seed):
    many = da.from_array(X, chunks=(70, 2))
    found = [
        knet.dask.sample(many, 100, random_state=seed)
        for config in ({"scheduler": "sync"}, {"scheduler": "threads", "num_workers": 4})
        if dask.config.set(**config)
    ]
    assert np.array_equal(*found)
    assert not np.array_equal(found[0], knet.dask.sample(many, 100, random_state=seed + 1))


def test_sample_is_uniform_over_uneven_blocks():
    sizes = [1, 3, 0, 12, 40, 44]
    numbers = np.split(np.arange(100)[:, None], np.cumsum(sizes)[:-1])
    counts = np.zeros(100)
    for seed in range(2000):
        drawn = merge_drawn([draw(block, i, 10, seed) for i, block in enumerate(numbers)], 10)
        counts[drawn.rows[:, 0]] += 1
        assert np.array_equal(drawn.positions, drawn.rows[:, 0])
    assert counts.sum() == 20_000
    assert chisquare(counts).pvalue > 1e-4


def test_sample_does_not_depend_on_how_it_is_merged():
    numbers = np.array_split(np.arange(500)[:, None], 9)
    drawn = [draw(block, i, 50, 3) for i, block in enumerate(numbers)]
    at_once = merge_drawn(drawn, 50)
    in_turn = merge_drawn([merge_drawn(drawn[:5], 50), merge_drawn(drawn[5:], 50)], 50)
    assert np.array_equal(at_once.rows, in_turn.rows)
    assert np.array_equal(at_once.positions, in_turn.positions)
    assert all(len(part.rows) <= 50 for part in drawn)


def test_equal_keys_are_drawn_in_order(monkeypatch):
    class Same:
        def integers(self, high, size, dtype):
            return np.zeros(size, dtype)

    monkeypatch.setattr(np.random, "Generator", lambda bits: Same())
    drawn = [draw(np.arange(5)[:, None] + 5 * i, i, 3, 0) for i in range(3)]
    assert merge_drawn(drawn, 3).rows[:, 0].tolist() == [0, 1, 2]


# Fit


def test_fit_on_all_rows_equals_the_fit_in_memory(frame):
    ddf = dd.from_pandas(frame, npartitions=4)
    here, there = quick().fit(frame), quick().fit(ddf)
    assert blocks.fingerprint(here) == blocks.fingerprint(there)
    assert list(there.feature_names_in_) == NAMES
    assert np.array_equal(there.labels_.compute(), here.labels_)
    assert np.array_equal(there.train_indices_, here.train_indices_)
    assert np.array_equal(quick().fit_predict(ddf).compute(), here.labels_)
    np.testing.assert_allclose(quick().fit_transform(ddf).compute(), here.transform(frame), rtol=1e-9)


def test_fit_trains_on_the_sample_alone(X):
    many = da.from_array(X, chunks=(100, 3))
    model = quick()
    assert knet.dask.fit(model, many, sample_size=200) is model
    drawn = knet.dask.sample(many, 200, random_state=0)
    again = fitted(drawn)
    assert blocks.fingerprint(model) == blocks.fingerprint(again)
    assert np.array_equal(X[model.train_indices_], drawn[again.train_indices_])
    assert model.labels_.shape == (900,)


def test_fit_refuses_before_it_reads(frame):
    def refuse(part):
        raise RuntimeError("computed")

    ddf = dd.from_pandas(frame.assign(own="x"), npartitions=3)
    ddf = ddf.map_partitions(refuse, meta=ddf._meta)
    for call, text in (
        (lambda: KNet(3).fit(ddf), "'own'"),
        (lambda: KNet(0).fit(ddf[NAMES]), "'n_clusters' parameter"),
        (lambda: knet.dask.fit(KNet(3), ddf[NAMES], sample_size=1), "'sample_size' parameter"),
        (lambda: knet.dask.fit(KNet(3), ddf[NAMES], threads=0), "'threads' parameter"),
        (lambda: knet.dask.sample(ddf, 0), "'n_rows' parameter"),
    ):
        with pytest.raises(ValueError, match=text):
            call()


def test_fit_and_reductions_of_no_rows_are_refused(on_frame, frame):
    empty = uneven(frame, [0, 0])
    for call in (
        lambda: KNet(2).fit(empty),
        lambda: knet.dask.summarize(on_frame, empty),
        lambda: knet.dask.drift(on_frame, empty),
    ):
        with pytest.raises(ValueError, match=r"no rows|0 sample"):
            call()


# Summary and drift


def test_summary_is_that_of_all_rows(on_frame, frame):
    found = knet.dask.summarize(on_frame, uneven(frame, [0, 1, 600, 0, 299]))
    labels = on_frame.predict(frame)
    groups = frame.groupby(labels)
    assert found.sizes.tolist() == groups.size().tolist()
    np.testing.assert_allclose(found.means, groups.mean(), rtol=1e-9)
    np.testing.assert_allclose(found.deviations, groups.std(ddof=0), rtol=1e-9)
    fitted_values = groups.mean().loc[labels].to_numpy()
    np.testing.assert_allclose(found.eta_squared, fitted_values.var(0) / frame.to_numpy().var(0), rtol=1e-9)
    assert found.doubtful == (on_frame.predict_proba(frame).max(1) < 0.7).mean()
    assert found.unfamiliar == (on_frame.score_samples(frame) < on_frame.predictor_.threshold(0.01)).mean()


def test_moments_keep_their_digits_if_means_are_large(rng):
    X = rng.normal(size=(1000, 2)) + 1e9

    def of(part):
        n, mean = np.array([len(part)]), part.mean(0)[None]
        return Moments(n, n[:, None], mean, np.square(part - mean).sum(0)[None], 0, 0, 0)

    none = np.zeros(1, np.int64)
    nothing = Moments(none, none[:, None], np.zeros((1, 2)), np.zeros((1, 2)), 0, 0, 0)
    merged = Moments.merge([nothing, *map(of, np.array_split(X, 7)), nothing])
    np.testing.assert_allclose(merged.squares[0] / 1000, X.var(0), rtol=1e-6)
    assert merged.counts.tolist() == [1000]


def test_a_cluster_without_rows_has_no_mean(on_array, X):
    some = X[on_array.predict(X) != 1]
    found = knet.dask.summarize(on_array, da.from_array(some, chunks=(100, 3)))
    assert found.sizes[1] == 0
    assert np.isnan(found.means[1]).all()


def test_no_drift_in_the_same_data_and_drift_in_other_data(X):
    many = da.from_array(X, chunks=(200, 3))
    model = quick()
    knet.dask.fit(model, many, sample_size=600)
    same = knet.dask.drift(model, many)
    assert same.n_rows == 900
    assert same.unfamiliar < 0.03
    assert same.size_shift < 0.05
    assert np.abs(same.column_shift).max() < 0.1
    labels = model.predict(X)
    single = knet.dask.drift(model, da.from_array(X[labels == 0], chunks=(50, 3)))
    assert single.size_shift == pytest.approx(1 - same.reference_shares[0])
    assert single.shares.tolist() == [1, 0, 0]
    far = knet.dask.drift(model, da.from_array(X + 50, chunks=(200, 3)))
    assert far.unfamiliar == 1
    assert np.abs(far.column_shift).min() > 5


def test_drift_compares_with_the_training_rows_of_the_last_fit(X, tmp_path):
    many = da.from_array(X, chunks=(200, 3))
    model = quick().fit(many)
    model.save(tmp_path / "m.safetensors")
    again = load(tmp_path / "m.safetensors")
    assert knet.dask.drift(again, many).unfamiliar == knet.dask.drift(model, many).unfamiliar
    assert knet.dask.drift(again, many).size_shift == 0
    model.fit(X + 50)
    assert knet.dask.drift(model, many).is_foreign
    assert model.drift(csr_array(X + 50)).size_shift == 0
