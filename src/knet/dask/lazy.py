"""Lazy results on Dask collections: labels, memberships, scores and embeddings, block by block."""

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

try:
    import dask
    import dask.array as da
    import dask.dataframe as dd
    import pandas as pd
except ImportError as error:
    raise ImportError(f"knet.dask needs {error.name}. Install it with: pip install 'knet-clustering[dask]'") from error

from knet import parameters as rules
from knet.arrays import AnyArray, RowsLike
from knet.model.blocks import ModelOrPath, ModelRef, check_kept, check_outputs, columns, label_block
from knet.model.light import LightModel
from knet.parameters import Params
from knet.rows.kinds import table_kind
from knet.rows.numbers import check_column_types, float_dtype

Lazy = Any  # a Dask array, DataFrame or Series, or a delayed value
Part = TypeVar("Part")
MERGED_AT_ONCE = 8  # results that one task merges


def predict(model: ModelOrPath, X: Lazy, *, reject: float | None = None, threads: int = 1, device: str = "cpu") -> Lazy:
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
    return LazyModel(model, X, threads, device, reject).output("label")


def score_samples(model: ModelOrPath, X: Lazy, *, threads: int = 1, device: str = "cpu") -> Lazy:
    """Return how familiar each row is, lazily; parameters as in `predict`. For a DataFrame, a Series named "score"."""
    return LazyModel(model, X, threads, device).output("score")


def predict_proba(model: ModelOrPath, X: Lazy, *, threads: int = 1, device: str = "cpu") -> Lazy:
    """Return soft memberships, lazily; parameters as in `predict`. For a DataFrame, columns named proba_0, ..."""
    return LazyModel(model, X, threads, device).output("proba")


def transform(model: ModelOrPath, X: Lazy, *, threads: int = 1, device: str = "cpu") -> Lazy:
    """Return psi(X), lazily; parameters as in `predict`. For a DataFrame, columns named embedding_0, ..."""
    return LazyModel(model, X, threads, device).output("embedding")


def label(
    model: ModelOrPath,
    X: Lazy,
    *,
    outputs: Sequence[str] = ("label",),
    keep: Sequence[str] = (),
    reject: float | None = None,
    threads: int = 1,
    device: str = "cpu",
) -> Lazy:
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
    made = lazy.no_rows(check_outputs(outputs))
    meta = X._meta[check_kept(keep, list(X.columns), made)].assign(**made)
    return X.map_partitions(_kept_and_made, names, keep, list(outputs), *lazy.settings, meta=meta)


class LazyModel:
    """A model together with the collection it is applied to, checked when the graph is built.

    `light` is the part of the model that labels rows, in this process. `settings` are the arguments of every task: the
    model as a node of the graph, which stores it once; the dtype of the numbers that the model receives and returns, by
    the rules for rows in memory (never half precision); the threads.
    """

    def __init__(self, model: ModelOrPath, X: Lazy, threads: int, device: str, reject: float | None = None) -> None:
        rules.check_parameter("knet.dask", "threads", threads, [], [rules.integer(1)])
        ref = ModelRef.of(model, device, reject)
        self.light: LightModel = ref.model
        self.X = check_collection(X)
        given = self.light if isinstance(model, str | os.PathLike) else model
        dtype = float_dtype(given._rows(example_row(self.X)))
        name = f"knet-model-{dask.base.tokenize(ref.fingerprint, ref.path, device, reject)}"
        self.settings = (dask.delayed(ref, name=name, traverse=False), dtype.name, threads)

    def output(self, name: str) -> Lazy:
        """Return one output, with the blocks of X."""
        meta = _arrange(self.no_rows((name,)), name, self.X._meta)
        if isinstance(self.X, dd.DataFrame):
            return self.X.map_partitions(_one_output, name, *self.settings, meta=meta)
        shape: Params = {"drop_axis": 1} if meta.ndim == 1 else {"chunks": (self.X.chunks[0], meta.shape[1:])}
        return self.X.map_blocks(_one_output, name, *self.settings, dtype=meta.dtype, meta=meta, **shape)

    def no_rows(self, outputs: Sequence[str]) -> dict[str, AnyArray]:
        """Return the chosen outputs of no rows: their names and types."""
        return columns(self.light.predictor, np.empty((0, self.light.n_features), self.settings[1]), outputs)


def _one_output(block: RowsLike, name: str, ref: ModelRef, dtype: str, threads: int) -> RowsLike:
    return _arrange(label_block(block, ref, (name,), dtype, threads), name, block)


def _arrange(made: dict[str, AnyArray], name: str, block: RowsLike) -> RowsLike:
    """Return the columns of one output as an array, or as a Series or DataFrame if the block is a table."""
    if table_kind(block):
        table = pd.DataFrame(made, index=block.index)
        return table[name] if name in made else table
    return made[name] if name in made else np.column_stack(list(made.values()))


def _kept_and_made(
    part: RowsLike, names: list[str], keep: list[str], outputs: list[str], ref: ModelRef, dtype: str, threads: int
) -> RowsLike:
    return part[keep].assign(**label_block(part[names], ref, outputs, dtype, threads))


def merge_tree(parts: list[Lazy], merge: Callable[[list[Part]], Part]) -> Part:
    """Merge the delayed results of all blocks and compute them now.

    They are merged in order, a few at a time: the result has the same bits whichever worker computes a block, and when.
    """
    while len(parts) > 1:
        starts = range(0, len(parts), MERGED_AT_ONCE)
        parts = [dask.delayed(merge)(parts[start : start + MERGED_AT_ONCE]) for start in starts]
    merged: Part = parts[0].compute()
    return merged


def blocks_of(X: Lazy) -> list[Lazy]:
    """Return the blocks of a checked collection as delayed arrays or tables, in order."""
    return list(X.to_delayed() if isinstance(X, dd.DataFrame) else X.to_delayed().ravel())


def check_collection(X: Lazy) -> Lazy:
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


def example_row(X: Lazy) -> RowsLike:
    """Return a row of zeros with the columns and dtypes of a collection, to check them without computing rows."""
    if isinstance(X, da.Array):
        return np.zeros((1, X.shape[1]), X.dtype)
    check_column_types(X._meta)
    return pd.DataFrame(np.zeros((1, X.shape[1])), columns=X.columns).astype(dict(X.dtypes))
