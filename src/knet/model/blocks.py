"""The work on one block of rows, for any engine that cuts data into blocks: Dask, Spark, Ray or a plain loop.

A `ModelRef` is sent to the workers. It contains the model, or the path of its file. Each process loads the model once
and keeps it. A block is processed in slices, so that the extra memory does not grow with the block.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from knet import parameters as rules
from knet.arrays import AnyArray, Floats, Frame, RowsLike, row_blocks
from knet.exceptions import ModelFileError, ZeroRowError
from knet.model.light import LightModel, load_light
from knet.model.predictor import Predictor
from knet.model.read import digest_of
from knet.rows.kinds import admit, column_names, count_rows, select_columns, table_kind, take_rows
from knet.rows.numbers import is_single
from knet.threads import limit_threads

if TYPE_CHECKING:
    from knet.estimator import KNet

OUTPUTS = ("label", "name", "proba", "score", "embedding")
SLICE_ROWS = 65_536  # rows of a block that are converted to numbers at a time
KEPT_MODELS = 4  # models that a process keeps loaded
ModelOrPath: TypeAlias = "KNet | LightModel | str | os.PathLike[str]"
Result = TypeVar("Result")


@dataclass(frozen=True)
class ModelRef:
    """A reference to a model, to be sent to workers."""

    fingerprint: str  # hash of the model's content
    path: str | None  # the model file, which every worker reads itself; None if the model is sent
    device: str  # on which workers compute
    reject: float | None  # share of `KNet.predict` at which rows are rejected
    model: Any = field(repr=False, compare=False)  # a LightModel; None on a worker that reads the file

    @classmethod
    def of(cls, model: ModelOrPath, device: str = "cpu", reject: float | None = None) -> ModelRef:
        """Return a reference to a fitted model, or to a model file that the workers can read too."""
        light = light_model(model)
        light.predictor.threshold(reject)  # an error now, not on a worker
        path = os.path.abspath(model) if isinstance(model, str | os.PathLike) else None
        return cls(fingerprint(light), path, device, reject, on_device(light, "cpu"))

    def __getstate__(self) -> dict[str, object]:
        """Return what is sent: the model itself only if it is not in a file."""
        return vars(self) | ({} if self.path is None else {"model": None})

    def load(self) -> LightModel:
        """Return the model; each process reads it once, or keeps the first one that it was sent."""
        with _LOADING:
            return _load(self)


_LOADING = threading.Lock()


def light_model(model: ModelOrPath) -> LightModel:
    """Return the part of a fitted model, or of a model file, that labels rows."""
    if isinstance(model, LightModel):
        return model
    if isinstance(model, str | os.PathLike):
        return load_light(model)
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model)
    return LightModel.of(model)


@lru_cache(KEPT_MODELS)
def _load(ref: ModelRef) -> LightModel:
    """Return the model of a reference."""
    if ref.model is not None:
        return on_device(ref.model, ref.device)
    try:
        model = load_light(str(ref.path))
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"The worker on {socket.gethostname()} has no model file {ref.path}. Put it where all workers can read it, "
            "or pass the loaded model instead of its path."
        ) from error
    if fingerprint(model) != ref.fingerprint:
        raise ModelFileError(
            f"The worker on {socket.gethostname()} has another model in {ref.path} than the requested one. "
            "Put the same file on all machines, or pass the loaded model instead of its path."
        )
    return on_device(model, ref.device)


def fingerprint(model: ModelOrPath) -> str:
    """Return a hash of everything that decides a row's label; saving and loading a model does not change it."""
    light = light_model(model)
    predictor = light.predictor
    facts = {
        "sigma": predictor.sigma,
        "spread": predictor.clusters.spread,
        "encoder": predictor.encoder.kind,
        "unit_length": predictor.preparation.unit_length,
        "names": light.names,
        "table": light.extra.get("table"),
        "naming": predictor.naming.to_json(),
    }
    arrays = predictor.arrays() | {f"encoder.{name}": value for name, value in predictor.encoder.state().items()}
    return digest_of(json.dumps(facts, sort_keys=True), arrays)


def on_device(model: LightModel, device: str) -> LightModel:
    """Return the model with its encoder on a device; the given one is not changed."""
    encoder = model.predictor.encoder
    if device == "cpu" and encoder.in_threads:  # arrays of NumPy
        return model
    from knet.model.torch_encoder import on_device as encoder_on

    return replace(model, predictor=replace(model.predictor, encoder=encoder_on(encoder, device)))


def in_slices(
    block: RowsLike, ref: ModelRef, dtype: DTypeLike, threads: int, work: Callable[[Predictor, Floats], Result]
) -> list[Result]:
    """Return `work(predictor, X)` for the rows of a block as checked numbers, `SLICE_ROWS` at a time.

    An empty block is one slice without rows, whatever its columns. An error names the row of the block.
    """
    model, results = ref.load(), []
    block = admit(block)
    n_rows = count_rows(block)
    with limit_threads(threads):
        for rows in row_blocks(n_rows, max_rows=SLICE_ROWS) or [slice(0, 0)]:
            X = model._rows(take_rows(block, rows), dtype) if n_rows else np.empty((0, model.n_features), dtype)
            try:
                results.append(work(model.predictor, X))
            except ZeroRowError as error:
                raise ZeroRowError(rows.start + error.row) from None
    return results


def columns(
    predictor: Predictor, X: Floats, outputs: Collection[str], reject: float | None = None
) -> dict[str, AnyArray]:
    """Return the chosen outputs of some rows as columns: label, label_name, proba_0 ..., score, embedding_0 ..."""
    compute: dict[str, Callable[[], AnyArray]] = {
        "label": lambda: predictor.assign(X, reject),
        "name": lambda: predictor.naming.named(predictor.assign(X, reject)),
        "proba": lambda: predictor.memberships(X),
        "score": lambda: predictor.familiarity(X),
        "embedding": lambda: predictor.embed(X),
    }
    out: dict[str, AnyArray] = {}
    for name in (name for name in OUTPUTS if name in outputs):
        values = compute[name]()
        numbered = {f"{name}_{k}": column for k, column in enumerate(values.T.copy())} if values.ndim == 2 else None
        out |= numbered or {"label_name" if name == "name" else name: values}
    return out


def label_block(
    block: RowsLike, ref: ModelRef, outputs: Collection[str], dtype: DTypeLike, threads: int = 1
) -> dict[str, AnyArray]:
    """Return the chosen outputs of the rows of a block, as named columns; an empty block has empty columns."""
    parts = in_slices(block, ref, dtype, threads, lambda model, X: columns(model, X, outputs, ref.reject))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def check_outputs(outputs: Sequence[str]) -> tuple[str, ...]:
    """Return the chosen outputs, or raise an error that lists the allowed ones."""
    for name in outputs:
        rules.check_parameter("knet", "outputs", name, OUTPUTS, [])
    if isinstance(outputs, str) or not outputs:
        raise ValueError(f"The 'outputs' parameter must list at least one of {OUTPUTS}. Got {outputs!r} instead.")
    return tuple(outputs)


def check_kept(keep: Sequence[str], present: Sequence[str], made: Collection[str]) -> list[str]:
    """Return the columns to copy to the result; raise if a column is missing or has the name of an output in `made`."""
    kept = [keep] if isinstance(keep, str) else list(keep)
    for name in kept:
        if name not in present:
            raise ValueError(f"There is no column {name!r} to keep. There are {list(present)}.")
        if name in made:
            raise ValueError(f"The column {name!r} to keep has the name of an output. Rename it first.")
    return kept


class Labeler:
    """A callable that labels one batch of a table, for engines that map a function over batches.

    Parameters
    ----------
    model : KNet, LightModel, or path of a model file
        With a path, each worker reads the file.
    outputs : sequence of {"label", "name", "proba", "score", "embedding"}, default=("label",)
        Columns to compute; "name" is the name of the row's cluster, in a column label_name.
    keep : sequence of str
        Columns of the batch to copy to the result, such as an identifier.
    reject : float in [0, 1), optional
        Share of the training rows below whose familiarity a row gets the label -1; as in `KNet.predict`.
    threads : int, default=1
        Number of threads for one batch.
    device : str, default="cpu"
        Device on which to compute.

    Examples
    --------
    >>> import pandas as pd
    >>> from knet import KNet, Labeler
    >>> from knet.datasets import make_moon
    >>> X, y = make_moon(300, random_state=0)
    >>> model = KNet(n_clusters=2, random_state=0).fit(pd.DataFrame(X, columns=["a", "b"]))
    >>> batch = pd.DataFrame({"id": ["u", "v"], "a": X[:2, 0], "b": X[:2, 1]})
    >>> list(Labeler(model, keep=["id"])(batch).columns)
    ['id', 'label']
    """

    def __init__(
        self,
        model: ModelOrPath,
        *,
        outputs: Sequence[str] = ("label",),
        keep: Sequence[str] = (),
        reject: float | None = None,
        threads: int = 1,
        device: str = "cpu",
    ) -> None:
        self.ref = ModelRef.of(model, device, reject)
        self.outputs, self.keep, self.threads = check_outputs(outputs), keep, threads

    def __call__(self, batch: Frame) -> Frame:
        """Return the outputs for a batch in the type of the batch: pandas, polars, Arrow table or record batch."""
        present = column_names(batch)
        rows = select_columns(batch, list(self.ref.load().names or [name for name in present if name not in self.keep]))
        dtype = np.float32 if is_single(rows) else np.float64
        made = label_block(rows, self.ref, self.outputs, dtype, self.threads)
        kept = check_kept(self.keep, present, made)
        kind = table_kind(batch)
        if kind == "pandas":
            return batch[kept].assign(**made)
        result = {name: batch[name] for name in kept} | made
        return type(batch).from_pydict(result) if kind == "arrow" else type(batch)(result)
