"""The one door for rows: every kind of rows works in every method, and what cannot be rows gets a clear answer."""

import decimal
import subprocess
import sys
import textwrap

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import scipy.sparse as sp
import torch

from knet import Advanced, KNet, scan
from knet.model.blocks import Labeler
from knet.model.light import LightModel
from knet.rows.kinds import admit
from knet.rows.numbers import is_single, to_numbers
from knet.show import plots

pytestmark = pytest.mark.filterwarnings("ignore::knet.exceptions.KNetConvergenceWarning")

NAMES = ["a", "b", "c"]
TOLERANCE = 2e-3  # single and half precision


def whole_rows(n=48, seed=0):
    """Return two groups of small whole numbers, which every type of numbers stores exactly."""
    X = np.random.default_rng(seed).integers(0, 12, size=(n, 3)).astype(float)
    X[: n // 2] += 40
    return X


def new_model():
    return KNet(2, max_iter=1, random_state=0, advanced=Advanced(steps_per_iter=10))


# Kinds of rows


def mapped(X, folder):
    np.save(folder / "X.npy", X.astype(np.float32))
    return np.load(folder / "X.npy", mmap_mode="r")


class WithArray:
    """An object of another library that converts itself."""

    def __init__(self, X):
        self.X = X

    def __array__(self, dtype=None, copy=None):
        return self.X if dtype is None else self.X.astype(dtype)


def vectors(X):
    return pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), X.shape[1])


def decimals(X):
    return [[decimal.Decimal(int(value)) for value in column] for column in X.T]


def arrow(X, convert=pa.array):
    return pa.table({name: convert(column) for name, column in zip(NAMES, X.T, strict=True)})


def frame(X, dtype=None):
    return pd.DataFrame(X, columns=NAMES, dtype=dtype)


NAMELESS = {
    "array": lambda X, folder: X,
    "array in F order": lambda X, folder: np.asfortranarray(X),
    "every other row of an array": lambda X, folder: np.repeat(X, 2, axis=0)[::2],
    "array that cannot be written to": lambda X, folder: np.broadcast_to(X, X.shape),
    "float32": lambda X, folder: X.astype(np.float32),
    "float16": lambda X, folder: X.astype(np.float16),
    "long double": lambda X, folder: X.astype(np.longdouble),
    "int64": lambda X, folder: X.astype(np.int64),
    "uint8": lambda X, folder: X.astype(np.uint8),
    "objects": lambda X, folder: X.astype(object),
    "numpy matrix": lambda X, folder: X.view(np.matrix),
    "masked array without a mask": lambda X, folder: np.ma.masked_array(X),
    "list": lambda X, folder: X.tolist(),
    "tuple of lists": lambda X, folder: tuple(X.tolist()),
    "list of arrays": lambda X, folder: list(X),
    "object with __array__": lambda X, folder: WithArray(X),
    "memory map": mapped,
    "float64 tensor": lambda X, folder: torch.from_numpy(X),
    "float32 tensor": lambda X, folder: torch.from_numpy(X).float(),
    "bfloat16 tensor": lambda X, folder: torch.from_numpy(X).bfloat16(),
    "tensor with a gradient": lambda X, folder: torch.from_numpy(X).requires_grad_(),
    "CSR matrix": lambda X, folder: sp.csr_matrix(X),
    "CSR array": lambda X, folder: sp.csr_array(X),
    "CSC matrix": lambda X, folder: sp.csc_matrix(X),
    "COO matrix": lambda X, folder: sp.coo_matrix(X),
    "BSR array": lambda X, folder: sp.bsr_array(X),
    "LIL matrix": lambda X, folder: sp.lil_matrix(X),
    "sparse integers": lambda X, folder: sp.csr_array(X.astype(np.int32)),
    "pandas without names": lambda X, folder: pd.DataFrame(X),
    "pandas column of vectors": lambda X, folder: pd.Series(list(X)),
    "pandas column of Arrow lists": lambda X, folder: pd.Series(
        X.tolist(), dtype=pd.ArrowDtype(pa.list_(pa.float64()))
    ),
    "pandas table of vectors": lambda X, folder: pd.DataFrame({"v": X.tolist()}),
    "polars column of vectors": lambda X, folder: pl.Series(X.tolist()),
    "polars table of vectors": lambda X, folder: pl.DataFrame({"v": pl.Series(X.tolist(), dtype=pl.List(pl.Float32))}),
    "polars table of arrays": lambda X, folder: pl.DataFrame(
        {"v": pl.Series(X.tolist(), dtype=pl.Array(pl.Float64, 3))}
    ),
    "Arrow column of vectors": lambda X, folder: vectors(X),
    "Arrow chunks of vectors": lambda X, folder: pa.chunked_array([vectors(X[:20]), vectors(X[20:])]),
    "Arrow table of vectors": lambda X, folder: pa.table({"v": vectors(X)}),
    "Arrow table of lists of integers": lambda X, folder: pa.table({"v": pa.array(X.astype(int).tolist())}),
}
NAMED = {
    "pandas": lambda X, folder: frame(X),
    "pandas float32": lambda X, folder: frame(X, np.float32),
    "pandas integers and doubles": lambda X, folder: frame(X).astype({"b": np.int16}),
    "pandas nullable": lambda X, folder: frame(X).astype({"a": "Int64", "b": "Float64", "c": "Float32"}),
    "pandas of Arrow": lambda X, folder: frame(X).astype({"a": "double[pyarrow]", "b": "int8[pyarrow]"}),
    "pandas of Arrow decimals": lambda X, folder: frame(X).astype(pd.ArrowDtype(pa.decimal128(9, 2))),
    "pandas sparse": lambda X, folder: frame(X, pd.SparseDtype(float, 0.0)),
    "pandas with one sparse column": lambda X, folder: frame(X).astype({"b": pd.SparseDtype(float, 0.0)}),
    "pandas sparse around NaN": lambda X, folder: frame(X, pd.SparseDtype(float, np.nan)),
    "pandas objects": lambda X, folder: frame(X).astype(object),
    "pandas with another index": lambda X, folder: frame(X).set_index(pd.Index(np.arange(len(X))[::-1])),
    "polars": lambda X, folder: pl.DataFrame(X, schema=NAMES),
    "polars float32": lambda X, folder: pl.DataFrame(X, schema=NAMES).cast(pl.Float32),
    "polars integers": lambda X, folder: pl.DataFrame(X, schema=NAMES).cast({"a": pl.UInt8, "b": pl.Int64}),
    "polars decimals": lambda X, folder: pl.DataFrame(dict(zip(NAMES, decimals(X), strict=True))),
    "Arrow table": lambda X, folder: arrow(X),
    "Arrow float32": lambda X, folder: arrow(X.astype(np.float32)),
    "Arrow float16": lambda X, folder: arrow(X.astype(np.float16)),
    "Arrow integers": lambda X, folder: arrow(X.astype(np.int32)),
    "Arrow decimals": lambda X, folder: pa.table(dict(zip(NAMES, map(pa.array, decimals(X)), strict=True))),
    "Arrow chunks": lambda X, folder: pa.concat_tables([arrow(X[:20]), arrow(X[20:])]),
    "Arrow record batch": lambda X, folder: arrow(X).to_batches()[0],
}
KINDS = NAMELESS | NAMED
TABLES = [*NAMED, *(kind for kind in NAMELESS if " table of " in kind), "pandas without names"]


# Methods


def report(model, rows, folder):
    path = folder / "report.html"
    model.report(rows, path, n_refits=0, overwrite=True)
    assert "<html" in path.read_text(encoding="utf-8")
    return model.predict(rows)


def drawn(model, rows, folder):
    axes = plots.embedding(model, rows)
    points = np.concatenate([part.get_offsets() for part in axes.collections])
    plt.close("all")
    return points[np.lexsort(points.T)]


def light(name):
    return lambda model, rows, folder: getattr(LightModel.of(model), name)(rows)


METHODS = {
    "fit": lambda model, rows, folder: new_model().fit(rows).labels_,
    "fit with weights": lambda model, rows, folder: new_model().fit(rows, sample_weight=[2] * 48).labels_,
    "predict": lambda model, rows, folder: model.predict(rows),
    "predict with reject": lambda model, rows, folder: model.predict(rows, reject=0.1),
    "predict_proba": lambda model, rows, folder: model.predict_proba(rows),
    "transform": lambda model, rows, folder: model.transform(rows),
    "score_samples": lambda model, rows, folder: model.score_samples(rows),
    "score": lambda model, rows, folder: model.score(rows),
    "kernel": lambda model, rows, folder: model.kernel(rows),
    "recluster": lambda model, rows, folder: model.recluster(rows),
    "stability": lambda model, rows, folder: model.stability(rows, n_refits=1).rows,
    "explain": lambda model, rows, folder: model.explain(rows, max_rows=20).importance,
    "report": report,
    "scan": lambda model, rows, folder: scan(rows, 3, n_resamples=1, random_state=0).best,
    "plots.embedding": drawn,
    "light predict": light("predict"),
    "light predict_proba": light("predict_proba"),
    "light transform": light("transform"),
    "light score_samples": light("score_samples"),
}


@pytest.fixture(scope="module")
def models():
    """Models fitted on an array and on a table of the same rows."""
    return {False: new_model().fit(whole_rows()), True: new_model().fit(frame(whole_rows()))}


@pytest.mark.parametrize("method", METHODS)
def test_every_method_takes_every_kind_of_rows(models, tmp_path, method):
    X, failed = whole_rows(), {}
    expected = METHODS[method](models[False], X, tmp_path)
    for kind, convert in KINDS.items():
        try:
            found = METHODS[method](models[kind in NAMED], convert(X, tmp_path), tmp_path)
            np.testing.assert_allclose(found, expected, rtol=TOLERANCE, atol=TOLERANCE)
        except Exception as error:
            failed[kind] = f"{type(error).__name__}: {str(error).strip()[:200]}"
    assert failed == {}


@pytest.mark.parametrize("method", ["fit", "predict", "score_samples", "scan", "light predict"])
def test_true_and_false_are_one_and_zero(tmp_path, method):
    X = np.random.default_rng(1).normal(size=(48, 12)) + np.repeat([[-1], [1]], 24, axis=0) > 0
    model = new_model().fit(X.astype(float))
    tables = [pd.DataFrame(X), pd.DataFrame(X).astype("boolean"), sp.csr_array(X)]
    expected = METHODS[method](model, X.astype(float), tmp_path)
    for rows in (X, X.tolist(), torch.from_numpy(X), *tables):
        np.testing.assert_allclose(METHODS[method](model, rows, tmp_path), expected)
    for table in (pl.DataFrame(X), pa.table({f"x{j}": column for j, column in enumerate(X.T)})):
        np.testing.assert_array_equal(to_numbers(admit(table)), X)


def test_a_labeler_takes_every_kind_of_table(models, tmp_path):
    X = whole_rows()
    for kind in TABLES:
        batch = KINDS[kind](X, tmp_path)
        found = Labeler(models[kind in NAMED])(batch)
        assert type(found) is type(batch)
        np.testing.assert_array_equal(np.asarray(found["label"]), models[False].labels_, err_msg=kind)


def test_a_light_model_takes_its_columns_from_a_table_that_has_more(models):
    X, model = whole_rows(), LightModel.of(models[True])
    more = {"id": ["x"] * 48, "vector": X.tolist(), "c": X[:, 2], "b": X[:, 1], "a": X[:, 0]}
    for table in (pd.DataFrame(more), pl.DataFrame(more), pa.table(more), pa.table(more).to_batches()[0]):
        np.testing.assert_array_equal(model.predict(table), models[True].labels_)


def test_rows_are_not_copied_without_need(models):
    for dtype in (np.float32, np.float64, np.float16):
        X = np.zeros((1000, 3), dtype)
        for rows in (X, np.asfortranarray(X)):
            assert models[False]._rows(rows) is rows
            assert LightModel.of(models[False])._rows(rows) is rows
    X = whole_rows()
    assert np.shares_memory(models[False]._rows(torch.from_numpy(X)), X)
    table = frame(X)
    assert np.shares_memory(models[True]._rows(table), table.to_numpy())
    given = sp.csr_array(X + 1)
    assert np.shares_memory(models[False]._rows(given).data, given.data)


def test_a_file_on_disk_is_not_read_as_a_whole(models, tmp_path):
    for dtype in (np.float32, np.float64, np.int16):
        np.save(tmp_path / "X.npy", whole_rows().astype(dtype))
        rows = models[False]._rows(np.load(tmp_path / "X.npy", mmap_mode="r"))
        assert isinstance(rows, np.memmap)
        assert rows.dtype == dtype


def test_sparse_columns_of_pandas_stay_sparse(models):
    assert sp.issparse(models[True]._rows(frame(whole_rows(), pd.SparseDtype(float, 0.0))))


def test_the_precision_of_a_table_is_that_of_its_columns(tmp_path):
    single = {kind for kind in TABLES if is_single(KINDS[kind](whole_rows(), tmp_path))}
    assert single == {"pandas float32", "polars float32", "Arrow float32"}
    assert is_single(frame(whole_rows(), "float[pyarrow]"))
    assert to_numbers(frame(whole_rows(), "float[pyarrow]")).dtype == np.float32


def test_the_rows_given_are_never_changed(models, tmp_path):
    for kind in ("array", "float32", "CSR array", "memory map"):
        rows = KINDS[kind](whole_rows(), tmp_path)
        before = rows.copy()
        new_model().fit(rows)
        assert abs(rows - before).max() == 0


# What is refused


def with_cell(value):
    cells = [[float(i), 1.0, 2.0] for i in range(10)]
    cells[3][1] = value
    return cells


REFUSED = {
    "None": (None, TypeError, "must be an array, a table or a list of rows. Got NoneType"),
    "a word": ("abc", TypeError, "Got str instead"),
    "a number": (5, TypeError, "Got int instead"),
    "a dict": ({"a": [1, 2]}, TypeError, "Got dict instead"),
    "a lazy table": (pl.LazyFrame({"a": [1.0, 2.0]}), TypeError, r"Call X\.collect\(\) first"),
    "0 dimensions": (np.array(3.0), ValueError, "Expected 2D array, got 0D array"),
    "a scalar tensor": (torch.tensor(3.0), ValueError, "got 0D array"),
    "1 dimension": (np.zeros(5), ValueError, r"got 1D array .*shape \(5,\).*X\.reshape\(-1, 1\)"),
    "a column": (pd.Series([1.0, 2.0]), ValueError, "got 1D array"),
    "a polars column": (pl.Series([1.0, 2.0]), ValueError, "got 1D array"),
    "an Arrow column": (pa.array([1.0, 2.0]), ValueError, "got 1D array"),
    "3 dimensions": (np.zeros((4, 3, 2)), ValueError, r"got 3D array instead, of shape \(4, 3, 2\)"),
    "a sparse vector": (sp.coo_array(np.ones(4)), ValueError, "sparse array of 1 dimension"),
    "complex": (np.ones((4, 3)) * 1j, ValueError, "Complex data not supported"),
    "sparse complex": (sp.csr_array(np.ones((4, 3)) * 1j), ValueError, "Complex data not supported"),
    "dates": (np.full((4, 3), "2020-01-01", "datetime64[D]"), ValueError, "X holds dates"),
    "times": (np.full((4, 3), 5, "timedelta64[s]"), ValueError, "X holds dates"),
    "text": (np.full((4, 3), "a"), ValueError, "X holds text, such as 'a'"),
    "digits as text": ([["1", "2", "3"]] * 4, ValueError, "X holds text, such as '1'"),
    "text among numbers": (with_cell("a"), ValueError, "text"),
    "objects": (np.array(with_cell({}), dtype=object), TypeError, "dict"),
    "rows of different lengths": ([[1.0, 2.0], [3.0]], ValueError, "X must have rows of one length"),
    "a masked value": (np.ma.masked_array(np.ones((4, 3)), np.eye(4, 3)), ValueError, "masked values"),
    "masked rows": (list(np.ma.masked_array(np.ones((4, 3)), np.eye(4, 3))), ValueError, "masked values"),
    "no rows": (np.empty((0, 3)), ValueError, "X has 0 sample"),
    "no rows in a table": (pd.DataFrame({"a": [], "b": []}), ValueError, "X has 0 sample"),
    "no rows in a list": ([], ValueError, "got 1D array"),
    "no columns": (np.empty((5, 0)), ValueError, "X has 0 feature"),
    "no columns in a table": (pd.DataFrame(index=range(5)), ValueError, "X has 0 feature"),
    "no columns of Arrow": (pa.table({}), ValueError, "X has 0 "),
    "no columns of polars": (pl.DataFrame(), ValueError, "X has 0 "),
    "a repeated name": (pd.DataFrame(np.ones((4, 2)), columns=["a", "a"]), ValueError, "more than one column 'a'"),
    "a repeated name of Arrow": (pa.table([[1.0], [2.0]], names=["a", "a"]), ValueError, "more than one column 'a'"),
    "names and numbers": (
        pd.DataFrame(np.ones((4, 2)), columns=["a", 1]),
        TypeError,
        r"string names.*\['int', 'str'\]",
    ),
    "categories of numbers": (pd.DataFrame({"a": pd.Categorical([1, 2])}), ValueError, r"'a' \(category\)"),
    "intervals": (pd.DataFrame({"a": pd.interval_range(0, 4)}), ValueError, r"'a' \(interval"),
    "Arrow categories": (pa.table({"a": pa.array([1, 2]).dictionary_encode()}), ValueError, r"'a' \(dictionary"),
    "polars text": (pl.DataFrame({"a": ["x", "y"]}), ValueError, r"'a' \(String\) holds other values"),
    "two kinds of columns": (
        pl.DataFrame({"a": [1.0, 2.0], "v": [[1.0], [2.0]]}),
        ValueError,
        "must be the only column",
    ),
    "vectors of different lengths": (pl.DataFrame({"v": [[1.0], [2.0, 3.0]]}), ValueError, "row 1 has 2"),
    "a missing vector": (pa.table({"v": [[1.0], None]}), ValueError, r"Vectors are missing \(1\)"),
    "vectors of words": (pd.DataFrame({"v": [["x"], ["y"]]}), ValueError, "X holds text, such as 'x'"),
    "only nulls": (
        pa.table({"a": [decimal.Decimal("1.5"), 2, None], "b": pa.array([None] * 3, pa.int8())}),
        ValueError,
        "Every value is missing in column 'b'",
    ),
    "NaN in a sparse matrix": (sp.csr_array([[1.0, np.nan], [0, 1]]), ValueError, "1 NaN value in column 1"),
    "infinity in a sparse matrix": (sp.csr_array([[1.0, np.inf], [0, 1]]), ValueError, "1 infinite value in column 1"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_rows_gets_a_clear_answer(kind):
    X, error, message = REFUSED[kind]
    for use in (new_model().fit, lambda X: scan(X, 2, random_state=0)):
        with pytest.raises(error, match=message) as caught:
            use(X)
        assert len(str(caught.value)) < 500


@pytest.mark.parametrize("name", ["transform", "kernel", "recluster", "stability", "explain", "score"])
def test_methods_that_need_rows_in_memory_say_so(models, name):
    da = pytest.importorskip("dask.array")
    if name == "transform":  # is lazy in KNet
        use = LightModel.of(models[False]).transform
    else:
        use = getattr(models[False], name)
    with pytest.raises(TypeError, match=r"needs rows in memory, and X is a Dask collection.*knet\.dask\.sample"):
        use(da.from_array(whole_rows(), chunks=(24, 3)))
    with pytest.raises(TypeError, match=r"LazyFrame.*X\.collect\(\)"):
        use(pl.DataFrame(whole_rows(), schema=NAMES).lazy())


DAMAGED = """
    import scipy.sparse as sp
    from knet import KNet

    def damaged(form, index):
        X = sp.random(4000, 300, density=0.2, format=form, random_state=0)
        if form == "coo":
            X.row[:] = index
        elif form == "lil":
            X.rows[5] = [index] * len(X.rows[5])
        else:
            X.indices[::7] = index
        return X

    for form in ("csr", "csc", "bsr", "coo", "lil"):
        for index in (10**8, -(10**8)):
            try:
                KNet(2).fit(damaged(form, index))
            except ValueError as error:
                assert "X is a damaged sparse matrix" in str(error), error
                print(form)
"""


def test_indices_beyond_a_sparse_matrix_do_not_end_the_process():
    """In a process of its own: SciPy reads or writes outside of the memory if it gets such a matrix."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(DAMAGED)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["csr", "csr", "csc", "csc", "bsr", "bsr", "coo", "coo", "lil", "lil"]


def test_a_message_names_the_columns_of_the_given_rows_only():
    X = whole_rows()
    model = new_model().fit(frame(X))
    X[3, 1] = np.inf
    with pytest.raises(ValueError, match=r"1 infinite value in column 'b' \(1\)"):
        model.predict(frame(X))
    with pytest.raises(ValueError, match=r"1 infinite value in column 1 \(1\)"):
        model.fit(X)  # the names are those of the earlier fit
    with pytest.raises(ValueError, match=r"2 infinite values in columns 1 \(1\), 4 \(1\)"):
        model.predict(np.c_[X, X])  # and here they are too few


@pytest.mark.parametrize("name", ["iloc", "detach", "toarray", "schema", "columns", "type", "chunks", "dtype", "shape"])
def test_a_column_may_have_any_name(name):
    X = frame(whole_rows()).rename(columns={"b": name})
    model = new_model().fit(X)
    np.testing.assert_array_equal(model.labels_, new_model().fit(whole_rows()).labels_)
    for table in (X, pl.DataFrame(dict(X.items())), pa.Table.from_pandas(X)):
        np.testing.assert_array_equal(LightModel.of(model).predict(table), model.labels_)


def test_the_crossing_can_fail(models, tmp_path, monkeypatch):
    monkeypatch.setitem(KINDS, "wrong", lambda X, folder: X[::-1])
    with pytest.raises(AssertionError, match="'wrong': 'AssertionError"):
        test_every_method_takes_every_kind_of_rows(models, tmp_path, "predict")
