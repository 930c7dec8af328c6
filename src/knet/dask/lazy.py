"""Lazy results on Dask collections: labels, memberships, scores and embeddings, block by block."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

try:
    import dask
    import dask.array as da
    import dask.dataframe as dd
    import pandas as pd
except ImportError as error:
    raise ImportError(f"knet.dask needs {error.name}. Install it with: pip install 'knet-clustering[dask]'") from error

from knet import parameters as rules
from knet.dask.tree import reduce_blocks
from knet.model.blocks import (
    ModelOrPath,
    ModelRef,
    check_kept,
    check_outputs,
    columns,
    label_block,
    numbered_columns,
    resolve_model,
)
from knet.model.file import load
from knet.model.light import LightModel
from knet.rows.numbers import check_column_types, float_dtype

if TYPE_CHECKING:
    from knet.estimator import KNet


def predict(model: ModelOrPath, X: Any, *, reject: float | None = None, threads: int = 1, device: str = "cpu") -> Any:
    """Return the cluster of each row, lazily.

    Parameters
    ----------
    model : KNet, LightModel, or path of a model file
        A fitted model, which is sent to the workers; or a file that every worker reads itself.
    X : dask.array.Array or dask.dataframe.DataFrame of shape (n_samples, n_features)
        Rows, in blocks of any length, also of unknown length. Columns are checked now, values during the computation.
    reject : float in [0, 1), optional
        Share of the training rows below whose familiarity a row gets the label -1; as in `KNet.predict`.
    threads : int, default=1
        Number of threads for one block.
    device : str, default="cpu"
        Device on which workers compute.

    Returns
    -------
    labels : dask.array.Array, or dask.dataframe.Series named "label" with the index of X
        Clusters, in the blocks of X.
    """
    return LazyModel(model, X, threads, device, reject).column("label", np.int64)


def score_samples(model: ModelOrPath, X: Any, *, threads: int = 1, device: str = "cpu") -> Any:
    """Return how familiar each row is, lazily; parameters as in `predict`. For a DataFrame, a Series named "score"."""
    lazy = LazyModel(model, X, threads, device)
    return lazy.column("score", lazy.dtype)


def predict_proba(model: ModelOrPath, X: Any, *, threads: int = 1, device: str = "cpu") -> Any:
    """Return soft memberships, lazily; parameters as in `predict`. For a DataFrame, columns named proba_0, ..."""
    lazy = LazyModel(model, X, threads, device)
    return lazy.table("proba", lazy.light.n_clusters)


def transform(model: ModelOrPath, X: Any, *, threads: int = 1, device: str = "cpu") -> Any:
    """Return psi(X), lazily; parameters as in `predict`. For a DataFrame, columns named embedding_0, ..."""
    lazy = LazyModel(model, X, threads, device)
    return lazy.table("embedding", lazy.light.predictor.centers.shape[1])


def label(
    model: ModelOrPath,
    X: Any,
    *,
    outputs: Sequence[str] = ("label",),
    keep: Sequence[str] = (),
    reject: float | None = None,
    threads: int = 1,
    device: str = "cpu",
) -> Any:
    """Return several outputs and some columns of X as one DataFrame, lazily, in one pass over the rows.

    Parameters
    ----------
    model, X, reject, threads, device
        As in `predict`; X is a Dask DataFrame.
    outputs : sequence of {"label", "proba", "score", "embedding"}, default=("label",)
        Columns to compute: label, proba_0 ..., score, embedding_0 ...
    keep : sequence of str
        Columns of X that are not features of the model, such as identifiers of any type, to copy to the result.

    Returns
    -------
    table : dask.dataframe.DataFrame
        The kept columns and the outputs, with the partitions and the index of X.
    """
    if not isinstance(X, dd.DataFrame):
        raise TypeError(f"knet.dask.label needs a Dask DataFrame. Got {type(X).__name__}; use predict for arrays.")
    keep = check_kept(keep, list(X.columns), ())
    names = [name for name in X.columns if name not in keep]
    lazy = LazyModel(model, X[names], threads, device, reject)
    no_rows = np.empty((0, lazy.light.n_features), lazy.dtype)
    made = columns(lazy.light.predictor, no_rows, check_outputs(outputs))
    meta = X._meta[check_kept(keep, list(X.columns), made)].assign(**made)
    return X.map_partitions(_kept_columns, lazy.node, names, keep, list(outputs), lazy.dtype.name, threads, meta=meta)


class LazyModel:
    """A model together with the collection it is applied to, checked when the graph is built.

    Attributes
    ----------
    model : KNet or LightModel
        The model, in this process.
    light : LightModel
        The part of it that labels rows.
    node : Delayed
        The model as a node of the graph: the graph stores it once, and every task refers to it.
    X : Dask array or DataFrame
        The rows.
    dtype : dtype
        Of the numbers that the model receives and returns, by the rules for rows in memory: never half precision.
    """

    def __init__(self, model: ModelOrPath, X: Any, threads: int, device: str, reject: float | None = None) -> None:
        rules.check_parameter("knet.dask", "threads", threads, [], [rules.integer(1)])
        self.model, ref = resolve_model(model, device, load, reject)
        self.light = self.model if isinstance(self.model, LightModel) else LightModel.of(self.model)
        self.node = dask.delayed(
            ref, name=f"knet-model-{dask.base.tokenize(ref.fingerprint, ref.path, device, reject)}", traverse=False
        )
        self.X, self.threads = check_collection(X), threads
        self.dtype: np.dtype[Any] = float_dtype(checked_rows(self.model, example_row(self.X)))

    def column(self, output: str, dtype: DTypeLike) -> Any:
        """Return an output that has one value per row."""
        args = (self.node, output, self.dtype.name, self.threads)
        if isinstance(self.X, da.Array):
            return self.X.map_blocks(_column, *args, drop_axis=1, dtype=dtype, meta=np.empty(0, dtype))
        meta = pd.Series(np.empty(0, dtype), index=self.X._meta.index, name=output)
        return self.X.map_partitions(_series, *args, meta=meta)

    def table(self, output: str, count: int) -> Any:
        """Return an output that has `count` values per row."""
        args = (self.node, output, self.dtype.name, self.threads)
        if isinstance(self.X, da.Array):
            chunks, meta = (self.X.chunks[0], (count,)), np.empty((0, 0), self.dtype)
            return self.X.map_blocks(_columns, *args, chunks=chunks, dtype=self.dtype, meta=meta)
        names = numbered_columns(output, count)
        meta = pd.DataFrame(np.empty((0, count), self.dtype), index=self.X._meta.index, columns=names)
        return self.X.map_partitions(_frame, *args, meta=meta)

    def reduce(self, block: Callable[..., Any], merge: Callable[..., Any], *args: Any) -> Any:
        """Return the merged results of `block(rows, ref, dtype, threads, *args)` for all blocks, computed now."""
        block = partial(_with_args, block, (self.dtype.name, self.threads, *args))
        return reduce_blocks(self.X, block, merge, [self.node]).compute()


def checked_rows(model: "KNet | LightModel", rows: Any) -> Any:
    """Return rows in memory as the model takes them, or raise what it raises."""
    return model._rows(rows)


def _column(block: Any, ref: ModelRef, output: str, dtype: str, threads: int) -> NDArray[Any]:
    return label_block(block, ref, (output,), dtype, threads)[output]


def _columns(block: Any, ref: ModelRef, output: str, dtype: str, threads: int) -> NDArray[Any]:
    return np.column_stack(list(label_block(block, ref, (output,), dtype, threads).values()))


def _series(part: Any, ref: ModelRef, output: str, dtype: str, threads: int) -> Any:
    return pd.Series(_column(part, ref, output, dtype, threads), index=part.index, name=output)


def _frame(part: Any, ref: ModelRef, output: str, dtype: str, threads: int) -> Any:
    return pd.DataFrame(label_block(part, ref, (output,), dtype, threads), index=part.index)


def _kept_columns(
    part: Any, ref: ModelRef, names: list[str], keep: list[str], outputs: list[str], dtype: str, threads: int
) -> Any:
    return part[keep].assign(**label_block(part[names], ref, outputs, dtype, threads))


def _with_args(block: Callable[..., Any], args: tuple[Any, ...], rows: Any, number: int, ref: ModelRef) -> Any:
    return block(rows, ref, *args)


def check_collection(X: Any) -> Any:
    """Return a Dask array with all columns in each block, or a Dask DataFrame; raise for other types."""
    if isinstance(X, dd.DataFrame):
        return X
    if not isinstance(X, da.Array):
        raise TypeError(f"knet.dask needs a Dask array or DataFrame. Got {type(X).__name__}.")
    if X.ndim != 2:
        raise ValueError(f"Expected a Dask array of two dimensions, rows and columns. Got {X.ndim}.")
    if np.isnan(X.shape[1]):
        raise ValueError("The number of columns of the Dask array is unknown. Call its compute_chunk_sizes() first.")
    return X if X.numblocks[1] == 1 else X.rechunk({1: -1})


def example_row(X: Any) -> Any:
    """Return a row of zeros with the columns and dtypes of a collection, to check them without computing rows."""
    if isinstance(X, da.Array):
        return np.zeros((1, X.shape[1]), X.dtype)
    check_column_types(X._meta)
    return pd.DataFrame(np.zeros((1, X.shape[1])), columns=X.columns).astype(dict(X.dtypes))
