"""KNet on Dask: rows beyond one machine are labelled lazily, block by block, and a sample of them is trained on.

The model is one node of the graph, which every worker fetches once and every task names; a worker that dies takes
nothing along that is not computed again. Nothing here needs a cluster: without one, Dask's threads do the work.

Examples
--------
>>> import dask.array as da
>>> import knet.dask
>>> from knet import KNet
>>> from knet.datasets import make_moon
>>> X, y = make_moon(1000, random_state=0)
>>> many = da.from_array(X, chunks=(250, 2))
>>> model = knet.dask.fit(KNet(n_clusters=2, random_state=0), many, sample_size=300)
>>> knet.dask.predict(model, many).compute().shape
(1000,)
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

try:
    import dask
    import dask.array as da
    import dask.dataframe as dd
    import pandas as pd
    from dask.base import tokenize
    from dask.core import flatten
    from dask.delayed import Delayed, delayed
    from dask.highlevelgraph import HighLevelGraph
except ImportError as error:
    raise ImportError(f"knet.dask needs {error.name}. Install it with: pip install 'knet[dask]'") from error

from knet._fit import validation as rules
from knet.blocks import ModelOrPath, ModelRef, check_kept, check_outputs, columns, fingerprint, label_block
from knet.dask.reductions import (
    Drawn,
    LloydSums,
    Moments,
    draw,
    lloyd_sums,
    merge_drawn,
    merge_lloyd,
    merge_moments,
    moments,
)
from knet.estimator import RULES, KNet
from knet.model_file import load
from knet.predictor import Floats

SAMPLE_ROWS = 50_000  # rows that `fit` brings into memory
MERGED_AT_ONCE = 8  # results of blocks that one task of a tree merges
UNFAMILIAR = 0.01  # share of the training sample that counts as unfamiliar
STILL = 1e-4  # movement of the centres, in typical distances to a centre, that ends a refinement


def predict(model: ModelOrPath, X: Any, *, threads: int = 1, device: str = "cpu") -> Any:
    """Return the cluster of each row, lazily.

    Parameters
    ----------
    model : KNet, or path of a model file
        A fitted model, which travels to the workers; or a file that every worker reads for itself.
    X : dask.array.Array or dask.dataframe.DataFrame of shape (n_samples, n_features)
        Rows, in blocks of any and also unknown length. Columns are checked now, values when they are computed.
    threads : int, default=1
        Threads of torch for one block.
    device : str, default="cpu"
        Where workers compute.

    Returns
    -------
    labels : dask.array.Array, or dask.dataframe.Series named "label" with the index of X
        Clusters, in the blocks of X.
    """
    return _Call(model, X, threads, device).column("label", np.int64)


def score_samples(model: ModelOrPath, X: Any, *, threads: int = 1, device: str = "cpu") -> Any:
    """Return how familiar each row is, lazily; parameters as in `predict`, the result of a DataFrame named "score"."""
    call = _Call(model, X, threads, device)
    return call.column("score", call.dtype)


def predict_proba(model: ModelOrPath, X: Any, *, threads: int = 1, device: str = "cpu") -> Any:
    """Return soft memberships, lazily; parameters as in `predict`, columns of a DataFrame named proba_0, ..."""
    call = _Call(model, X, threads, device)
    return call.table("proba", [f"proba_{k}" for k in range(len(call.model.cluster_centers_))])


def transform(model: ModelOrPath, X: Any, *, threads: int = 1, device: str = "cpu") -> Any:
    """Return psi(X), lazily; parameters as in `predict`, columns of a DataFrame as `get_feature_names_out` has them."""
    call = _Call(model, X, threads, device)
    return call.table("embedding", list(call.model.get_feature_names_out()))


def label(
    model: ModelOrPath,
    X: Any,
    *,
    outputs: Sequence[str] = ("label",),
    keep: Sequence[str] = (),
    threads: int = 1,
    device: str = "cpu",
) -> Any:
    """Return several results and columns to carry along as one DataFrame, lazily, in one pass over the rows.

    Parameters
    ----------
    model, X, threads, device
        As in `predict`; X is a Dask DataFrame.
    outputs : sequence of {"label", "proba", "score", "embedding"}, default=("label",)
        Columns to make: label, proba_0 ..., score, psi_0 ...
    keep : sequence of str
        Columns of X that are no features of the model, such as identifiers of any type, to carry along.

    Returns
    -------
    table : dask.dataframe.DataFrame
        The kept columns and the results, with the partitions and the index of X.
    """
    if not isinstance(X, dd.DataFrame):
        raise TypeError(f"knet.dask.label needs a Dask DataFrame. Got {type(X).__name__}; use predict for arrays.")
    keep = check_kept(keep, list(X.columns), ())
    names = [name for name in X.columns if name not in keep]
    call = _Call(model, X[names], threads, device)
    nothing = np.empty((0, call.model.n_features_in_), call.dtype)
    made = columns(call.model.predictor_, nothing, check_outputs(outputs))
    meta = X._meta[check_kept(keep, list(X.columns), made)].assign(**made)
    return X.map_partitions(_kept_columns, call.node, names, keep, list(outputs), call.dtype.name, threads, meta=meta)


class _Call:
    """A model and a collection that fit together: checked when the graph is built, not when it is computed.

    Attributes
    ----------
    model : KNet
        The model, here.
    node : Delayed
        The model as a node of the graph: it is stored there once, and every task names it.
    X : Dask array or DataFrame
        The rows.
    dtype : dtype
        Of the numbers that the model sees, by the rules for rows in memory.
    """

    def __init__(self, model: ModelOrPath, X: Any, threads: int, device: str) -> None:
        rules.check_parameter("knet.dask", "threads", threads, [], [rules.integer(1)])
        self.model = model if isinstance(model, KNet) else load(model)
        check_is_fitted(self.model)
        ref = ModelRef.of(model, device)
        self.node = delayed(ref, name=f"knet-model-{tokenize(ref.fingerprint, ref.path, device)}", traverse=False)
        self.X, self.threads = _collection(X), threads
        self.dtype: np.dtype[Any] = self.model._validate(_one_row(self.X)).dtype

    def column(self, output: str, dtype: DTypeLike) -> Any:
        """Return an output that has one value per row."""
        args = (self.node, output, self.dtype.name, self.threads)
        if isinstance(self.X, da.Array):
            return self.X.map_blocks(_column, *args, drop_axis=1, dtype=dtype, meta=np.empty(0, dtype))
        meta = pd.Series(np.empty(0, dtype), index=self.X._meta.index, name=output)
        return self.X.map_partitions(_series, *args, meta=meta)

    def table(self, output: str, names: list[str]) -> Any:
        """Return an output that has several values per row."""
        args = (self.node, output, self.dtype.name, self.threads)
        if isinstance(self.X, da.Array):
            chunks, meta = (self.X.chunks[0], (len(names),)), np.empty((0, 0), self.dtype)
            return self.X.map_blocks(_columns, *args, chunks=chunks, dtype=self.dtype, meta=meta)
        meta = pd.DataFrame(np.empty((0, len(names)), self.dtype), index=self.X._meta.index, columns=names)
        return self.X.map_partitions(_frame, *args, names, meta=meta)

    def reduce(self, block: Callable[..., Any], merge: Callable[..., Any], *args: Any) -> Any:
        """Return what `merge` makes of the results of `block` for all blocks."""
        block = partial(_with_args, block, (self.dtype.name, self.threads, *args))
        return _tree(self.X, block, merge, [self.node]).compute()


def _column(block: Any, ref: ModelRef, output: str, dtype: str, threads: int) -> NDArray[Any]:
    return label_block(block, ref, (output,), dtype, threads)[output]


def _columns(block: Any, ref: ModelRef, output: str, dtype: str, threads: int) -> NDArray[Any]:
    return np.column_stack(list(label_block(block, ref, (output,), dtype, threads).values()))


def _series(part: Any, ref: ModelRef, output: str, dtype: str, threads: int) -> Any:
    return pd.Series(_column(part, ref, output, dtype, threads), index=part.index, name=output)


def _frame(part: Any, ref: ModelRef, output: str, dtype: str, threads: int, names: list[str]) -> Any:
    return pd.DataFrame(_columns(part, ref, output, dtype, threads), index=part.index, columns=names)


def _kept_columns(
    part: Any, ref: ModelRef, names: list[str], keep: list[str], outputs: list[str], dtype: str, threads: int
) -> Any:
    return part[keep].assign(**label_block(part[names], ref, outputs, dtype, threads))


def _with_args(block: Callable[..., Any], args: tuple[Any, ...], rows: Any, number: int, ref: ModelRef) -> Any:
    return block(rows, ref, *args)


def _collection(X: Any) -> Any:
    """Return a Dask array with all columns in each block, or a Dask DataFrame; raise for anything else."""
    if isinstance(X, dd.DataFrame):
        return X
    if not isinstance(X, da.Array):
        raise TypeError(f"knet.dask needs a Dask array or DataFrame. Got {type(X).__name__}.")
    if X.ndim != 2:
        raise ValueError(f"Expected a Dask array of two dimensions, rows and columns. Got {X.ndim}.")
    if np.isnan(X.shape[1]):
        raise ValueError("The number of columns of the Dask array is unknown. Call its compute_chunk_sizes() first.")
    return X if X.numblocks[1] == 1 else X.rechunk({1: -1})


def _one_row(X: Any) -> Any:
    """Return a row of zeros in the columns and dtypes of a collection, to check them by."""
    if isinstance(X, da.Array):
        return np.zeros((1, X.shape[1]), X.dtype)
    rules.check_columns(X._meta)
    return pd.DataFrame(np.zeros((1, X.shape[1])), columns=X.columns).astype(dict(X.dtypes))


def _tree(X: Any, block: Callable[..., Any], merge: Callable[..., Any], nodes: Sequence[Delayed] = ()) -> Delayed:
    """Return `merge` of the results of `block(rows, number of the block, *nodes)`, a few at a time."""
    (X,) = dask.optimize(X)
    name = f"knet-tree-{tokenize(X, block, merge, *nodes)}"
    keys = [node.key for node in nodes]
    graph: dict[Any, Any] = {}
    level = []
    for number, rows in enumerate(flatten(X.__dask_keys__())):
        graph[name, 0, number] = (block, rows, number, *keys)
        level.append((name, 0, number))
    depth = 0
    while depth == 0 or len(level) > 1:
        depth += 1
        groups = [level[at : at + MERGED_AT_ONCE] for at in range(0, len(level), MERGED_AT_ONCE)]
        graph |= {(name, depth, number): (merge, group) for number, group in enumerate(groups)}
        level = [(name, depth, number) for number in range(len(groups))]
    layers = HighLevelGraph.from_collections(name, graph, dependencies=[X, *nodes])
    return Delayed(level[0], layers, layer=name)


def sample(X: Any, n_rows: int, *, random_state: Any = None) -> Any:
    """Return a uniform sample of rows, in memory and in their order, in one pass.

    Parameters
    ----------
    X : dask.array.Array or dask.dataframe.DataFrame
        Rows, in blocks.
    n_rows : int
        Exactly so many rows are drawn, without replacement; all of them where X has no more.
    random_state : int, RandomState or None
        Decides the sample together with the blocks of X. Workers and their order have no part in it.

    Returns
    -------
    rows : ndarray or pandas DataFrame
        The rows drawn.
    """
    rules.check_parameter("knet.dask.sample", "n_rows", n_rows, [], [rules.integer(1)])
    return _draw(_collection(X), n_rows, check_random_state(random_state)).rows


def _draw(X: Any, size: int, rng: np.random.RandomState) -> Drawn:
    block = partial(draw, size=size, seed=int(rng.randint(np.iinfo(np.int32).max)))
    drawn: Drawn = _tree(X, block, partial(merge_drawn, size=size)).compute()
    return drawn


def fit(
    model: KNet, X: Any, *, sample_size: int = SAMPLE_ROWS, refine: int = 0, threads: int = 1, device: str = "cpu"
) -> KNet:
    """Fit a model to a sample of the rows, here, and optionally refine its centres on all rows, on the workers.

    Parameters
    ----------
    model : KNet
        The estimator to fit. Its `train_size` counts within the sample.
    X : dask.array.Array or dask.dataframe.DataFrame
        Rows to cluster.
    sample_size : int, default=50_000
        Rows to draw; see `sample`. The model's `random_state` decides which.
    refine : int, default=0
        Most rounds of Lloyd's algorithm that move the centres in the embedding, each a pass over all rows.
    threads, device
        As in `predict`, for the refinement.

    Returns
    -------
    model : KNet
        The same estimator, fitted. `labels_` is lazy, with a label for every row of X; `train_indices_` are positions
        in X; `extra_["reference"]` is what `drift` compares with, and is saved with the model.
    """
    rules.check_parameters(type(model).__name__, model.get_params(deep=False), RULES)
    for name, value, least in (("sample_size", sample_size, 2), ("refine", refine, 0), ("threads", threads, 1)):
        rules.check_parameter("knet.dask.fit", name, value, [], [rules.integer(least)])
    X = _collection(X)
    rules.check_columns(_one_row(X))
    drawn = _draw(X, sample_size, check_random_state(model.random_state))
    model.fit(drawn.rows)
    if refine:
        _set_centers(model, *_lloyd(_Call(model, X, threads, device), refine))
    model.extra_ = {**getattr(model, "extra_", {}), "reference": _reference(model, drawn.rows)}
    model.train_indices_ = drawn.positions[model.train_indices_]
    model.labels_ = predict(model, X, threads=threads, device=device)
    return model


def refine(model: KNet, X: Any, *, max_rounds: int = 10, threads: int = 1, device: str = "cpu") -> KNet:
    """Return a copy of the model whose centres are moved to the middle of their rows in X by Lloyd's algorithm.

    Each round is a pass over X; they end early when the centres stand still. A cluster without rows stays as it is.
    """
    rules.check_parameter("knet.dask.refine", "max_rounds", max_rounds, [], [rules.integer(1)])
    moved = copy.copy(model)
    _set_centers(moved, *_lloyd(_Call(model, X, threads, device), max_rounds))
    for name in ("labels_", "train_indices_"):
        moved.__dict__.pop(name, None)
    return moved


def _lloyd(call: _Call, max_rounds: int) -> tuple[Floats, float]:
    """Return the centres after some rounds over all rows, and the mean squared distance to them per dimension."""
    centers = call.model.cluster_centers_.astype(np.float64)
    for _ in range(max_rounds):
        found: LloydSums = call.reduce(lloyd_sums, merge_lloyd, centers)
        n_rows = found.counts.sum()
        if n_rows == 0:
            raise ValueError("X has no rows to refine the centres on.")
        spread = found.inertia / n_rows / centers.shape[1]
        means = found.sums / np.maximum(found.counts, 1)[:, None]
        moved = np.where(found.counts[:, None] > 0, means, centers)
        step = np.square(moved - centers).sum(1).max()
        centers = moved
        if step <= STILL**2 * spread * centers.shape[1]:
            break
    return centers, spread


def _set_centers(model: KNet, centers: Floats, spread: float) -> None:
    """Give a model other centres."""
    old = model.predictor_
    tiny = torch.finfo(old.centers.dtype).tiny ** 0.5
    model.predictor_ = replace(old, centers=torch.from_numpy(centers).to(old.centers), spread=max(spread, tiny))
    model.cluster_centers_ = model.predictor_.centers.cpu().numpy()


@dataclass(frozen=True)
class Summary:
    """What all rows say about the clusters.

    Attributes
    ----------
    sizes : ndarray of shape (c,)
        Rows in each cluster.
    means, deviations : ndarrays of shape (c, d)
        Of each column, per cluster; NaN where a cluster is empty.
    telling : ndarray of shape (d,)
        How far the clusters account for a column's variance, from 0 to 1.
    doubtful : float
        Share of the rows that belong to their cluster with a certainty below 0.7.
    """

    sizes: NDArray[np.int64]
    means: Floats
    deviations: Floats
    telling: Floats
    doubtful: float


def summarize(model: ModelOrPath, X: Any, *, threads: int = 1, device: str = "cpu") -> Summary:
    """Return sizes, means and deviations of the clusters over all rows, in one pass; parameters as in `predict`."""
    found = _moments(_Call(model, X, threads, device), -np.inf)
    counts = found.counts[:, None].astype(np.float64)
    filled = np.where(counts > 0, counts, np.nan)
    middle = (counts * found.means).sum(0) / counts.sum()
    between, within = (counts * np.square(found.means - middle)).sum(0), found.squares.sum(0)
    total = between + within
    return Summary(
        sizes=found.counts,
        means=np.where(counts > 0, found.means, np.nan),
        deviations=np.sqrt(found.squares / filled),
        telling=between / np.where(total > 0, total, 1.0),
        doubtful=found.n_doubtful / int(found.counts.sum()),
    )


def _moments(call: _Call, threshold: float) -> Moments:
    found: Moments = call.reduce(moments, merge_moments, threshold)
    if not found.counts.sum():
        raise ValueError("X has no rows.")
    return found


@dataclass(frozen=True)
class Drift:
    """How rows differ from those that the model was trained on.

    Attributes
    ----------
    n_rows : int
        Rows compared.
    unfamiliar : float
        Share of the rows that score below 99 % of the training sample: about 0.01 where nothing has changed.
    shares, reference_shares : ndarrays of shape (c,)
        Share of each cluster, in these rows and in the training sample.
    size_shift : float
        Share of the rows that would have to change clusters to restore the sizes of the training sample, from 0 to 1.
    column_shift : ndarray of shape (d,)
        Difference between the means of each column, in deviations of the training sample.
    """

    n_rows: int
    unfamiliar: float
    shares: Floats
    reference_shares: Floats
    size_shift: float
    column_shift: Floats


def drift(model: KNet, X: Any, reference: Any = None, *, threads: int = 1, device: str = "cpu") -> Drift:
    """Compare rows with the training sample, in one pass.

    Parameters
    ----------
    model, X, threads, device
        As in `predict`.
    reference : array-like in memory, optional
        The training sample, or rows that stand for it. A model that was fitted by `knet.dask.fit` knows its own.
    """
    call = _Call(model, X, threads, device)
    known = _reference(call.model, reference) if reference is not None else _known_reference(call.model)
    found = _moments(call, known["threshold"])
    n_rows = int(found.counts.sum())
    shares = found.counts / n_rows
    before = np.array(known["sizes"]) / np.sum(known["sizes"])
    means = (found.counts[:, None] * found.means).sum(0) / n_rows
    return Drift(
        n_rows=n_rows,
        unfamiliar=found.n_unfamiliar / n_rows,
        shares=shares,
        reference_shares=before,
        size_shift=float(np.abs(shares - before).sum() / 2),
        column_shift=(means - known["means"]) / np.array(known["deviations"]),
    )


def _reference(model: KNet, rows: Any) -> dict[str, Any]:
    """Return what drift is measured against, as plain data that can be saved with the model."""
    X = model._validate(rows)
    sizes = np.bincount(model.predictor_.assign(X), minlength=len(model.cluster_centers_))
    deviations = X.std(0, dtype=np.float64)
    return {
        "model": fingerprint(model),
        "sizes": sizes.tolist(),
        "threshold": float(np.quantile(model.predictor_.log_degrees(X), UNFAMILIAR)),
        "means": X.mean(0, dtype=np.float64).tolist(),
        "deviations": np.where(deviations > 0, deviations, 1.0).tolist(),
    }


def _known_reference(model: KNet) -> dict[str, Any]:
    known: dict[str, Any] = (getattr(model, "extra_", None) or {}).get("reference", {})
    if known.get("model") != fingerprint(model):
        raise ValueError(
            "The model does not know its training sample: only knet.dask.fit keeps what drift compares with. "
            "Pass the sample, or rows that stand for it, as `reference`."
        )
    return known
