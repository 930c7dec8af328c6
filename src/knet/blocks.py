"""The work on one block of rows, for any engine that cuts data into blocks: Dask, Spark, Ray or a plain loop.

A `ModelRef` is sent to the workers. It contains the model, or the path of its file. Each process loads the model once
and keeps it. A block is processed in slices, so that the extra memory does not grow with the block.
"""

import copy
import hashlib
import json
import os
import pickle
import socket
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from sklearn.utils.validation import check_is_fitted

try:  # installed with Dask, Spark and Ray; can also pickle an encoder that was defined in a script
    from cloudpickle import dumps
except ImportError:
    from pickle import dumps

from knet._fit import validation as rules
from knet._math.arrays import Floats
from knet._math.threads import limit_threads
from knet.estimator import KNet
from knet.exceptions import ModelFileError
from knet.model_file import load
from knet.predictor import Predictor

OUTPUTS = ("label", "proba", "score", "embedding")
SLICE_ROWS = 65_536  # rows of a block that are converted to numbers at a time
KEPT_MODELS = 4  # models that a process keeps loaded
ModelOrPath: TypeAlias = KNet | str | os.PathLike[str]


@dataclass(frozen=True)
class BlockModel:
    """The part of a fitted model that a worker needs: the predictor, and the columns that it expects."""

    predictor: Predictor
    n_features: int
    names: tuple[str, ...] | None


@dataclass(frozen=True)
class ModelRef:
    """A reference to a model that can be sent to workers.

    Attributes
    ----------
    fingerprint : str
        Hash of the model's content; see `fingerprint`.
    path : str, optional
        The model file, which every worker reads itself; None if `payload` contains the model.
    device : str
        Device on which workers compute.
    payload : bytes
        The model, without anything that grows with the training rows.
    """

    fingerprint: str
    path: str | None
    device: str
    payload: bytes = field(default=b"", repr=False, compare=False)

    @classmethod
    def of(cls, model: ModelOrPath, device: str = "cpu") -> "ModelRef":
        """Return a reference to a fitted model, or to a model file that the workers can read too."""
        return resolve_model(model, device)[1]

    def load(self) -> BlockModel:
        """Return the model; each process reads or unpickles it once and then keeps it in memory."""
        with _LOADING:
            return _load(self)


_LOADING = threading.Lock()


def resolve_model(model: ModelOrPath, device: str = "cpu") -> tuple[KNet, ModelRef]:
    """Return a fitted model and a reference to it; if `model` is a path, the file is read once."""
    if not isinstance(model, KNet):
        path = os.path.abspath(os.fspath(model))
        loaded = load(path)
        return loaded, ModelRef(fingerprint(loaded), path, device)
    check_is_fitted(model)
    return model, ModelRef(fingerprint(model), None, device, dumps(_block_model(model)))


@lru_cache(KEPT_MODELS)
def _load(ref: ModelRef) -> BlockModel:
    """Return the model of a reference."""
    if ref.path is None:
        unpickled: BlockModel = pickle.loads(ref.payload)
        return replace(unpickled, predictor=_on_device(unpickled.predictor, ref.device))
    try:
        model = load(ref.path, device=ref.device)
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
    return _block_model(model)


def fingerprint(model: KNet) -> str:
    """Return a hash of everything that decides a row's label; saving and loading a model does not change it."""
    predictor = model.predictor_
    facts = {
        "sigma": predictor.sigma,
        "spread": predictor.spread,
        "encoder": type(predictor.encoder).__name__,
        "names": _names(model),
        "table": (getattr(model, "extra_", None) or {}).get("table"),
    }
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    arrays = predictor.scaling.arrays()
    arrays |= {name: getattr(predictor, name) for name in ("centers", "landmarks", "weights")}
    for name, value in sorted({**arrays, **predictor.encoder.state_dict(prefix="encoder.")}.items()):
        array = torch.as_tensor(value).cpu().contiguous()
        digest.update(f"{name}{array.dtype}{tuple(array.shape)}".encode())
        digest.update(array.numpy().tobytes())
    return digest.hexdigest()


def _block_model(model: KNet) -> BlockModel:
    names = _names(model)
    return BlockModel(
        _on_device(model.predictor_, "cpu"), model.n_features_in_, None if names is None else tuple(names)
    )


def _names(model: KNet) -> list[str] | None:
    return [str(name) for name in model.feature_names_in_] if hasattr(model, "feature_names_in_") else None


def _on_device(predictor: Predictor, device: str) -> Predictor:
    """Return the predictor with its tensors on a device; the given predictor is not changed."""
    if predictor.centers.device == torch.device(device):
        return predictor
    return replace(
        predictor,
        encoder=copy.deepcopy(predictor.encoder).to(device),
        **{name: getattr(predictor, name).to(device) for name in ("centers", "landmarks", "weights")},
    )


def slices(block: Any, model: BlockModel, dtype: DTypeLike) -> Iterator[Floats]:
    """Yield the rows of a block as checked numbers, `SLICE_ROWS` at a time; an empty block yields nothing."""
    for start in range(0, block.shape[0], SLICE_ROWS):
        X = _numbers(_cut(block, start), model, dtype)
        rules.check_finite(X, model.names)
        yield X


def _cut(block: Any, start: int) -> Any:
    if hasattr(block, "schema"):  # Arrow
        return block.slice(start, SLICE_ROWS)
    rows = slice(start, start + SLICE_ROWS)
    return block.iloc[rows] if hasattr(block, "iloc") else block[rows]


def _numbers(piece: Any, model: BlockModel, dtype: DTypeLike) -> Floats:
    """Return some rows as an array; from a table, take the model's columns by name, in the model's order."""
    if isinstance(piece, np.ndarray):
        rules.check_unmasked(piece)
        X: Floats = np.asarray(piece, dtype=dtype)
    else:
        is_arrow = hasattr(piece, "schema")
        present = piece.schema.names if is_arrow else list(piece.columns)
        names = present if model.names is None else model.names
        missing = [repr(name) for name in names if name not in present]
        if missing:
            raise ValueError(f"The block lacks the model's columns {', '.join(missing)}. It has {present}.")
        table = piece.select(list(names)) if is_arrow else piece[list(names)]
        rules.check_columns(table)
        table = table.to_pandas() if is_arrow else table
        X = table.to_numpy(dtype=dtype, na_value=np.nan)
    if X.ndim != 2 or X.shape[1] != model.n_features:
        raise ValueError(f"The model needs blocks of {model.n_features} columns. Got a block of shape {X.shape}.")
    return X


def numbered_columns(output: str, count: int) -> list[str]:
    """Return the column names of an output with several values per row: proba_0, ... or embedding_0, ..."""
    return [f"{output}_{k}" for k in range(count)]


def columns(predictor: Predictor, X: Floats, outputs: Collection[str]) -> dict[str, NDArray[Any]]:
    """Return the chosen outputs of some rows (label, proba, score, embedding) as named columns."""
    out: dict[str, NDArray[Any]] = {"label": predictor.assign(X)} if "label" in outputs else {}
    if "proba" in outputs:
        out |= _split("proba", predictor.memberships(X))
    if "score" in outputs:
        out["score"] = predictor.log_degrees(X)
    if "embedding" in outputs:
        out |= _split("embedding", predictor.embed(X))
    return out


def _split(output: str, values: Floats) -> dict[str, NDArray[Any]]:
    return dict(zip(numbered_columns(output, values.shape[1]), values.T.copy(), strict=True))


def label_block(
    block: Any, ref: ModelRef, outputs: Collection[str], dtype: DTypeLike, threads: int = 1
) -> dict[str, NDArray[Any]]:
    """Return the chosen outputs of the rows of a block, as named columns; an empty block has empty columns."""
    model = ref.load()
    with limit_threads(threads):
        parts = [columns(model.predictor, X, outputs) for X in slices(block, model, dtype)]
        parts = parts or [columns(model.predictor, np.empty((0, model.n_features), dtype), outputs)]
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
    model : KNet, or path of a model file
        With a path, each worker reads the file.
    outputs : sequence of {"label", "proba", "score", "embedding"}, default=("label",)
        Columns to compute.
    keep : sequence of str
        Columns of the batch to copy to the result, such as an identifier.
    threads : int, default=1
        Number of torch threads for one batch.
    device : str, default="cpu"
        Device on which to compute.

    Examples
    --------
    >>> import pandas as pd
    >>> from knet import KNet
    >>> from knet.blocks import Labeler
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
        threads: int = 1,
        device: str = "cpu",
    ) -> None:
        self.ref = ModelRef.of(model, device)
        self.outputs, self.keep, self.threads = check_outputs(outputs), keep, threads

    def __call__(self, batch: Any) -> Any:
        """Return the outputs for a batch in the type of the batch: pandas, Arrow table or Arrow record batch."""
        is_arrow = hasattr(batch, "schema")
        present = batch.schema.names if is_arrow else list(batch.columns)
        names = self.ref.load().names or [name for name in present if name not in self.keep]
        rows = batch.select([name for name in present if name in names]) if is_arrow else batch.filter(names)
        single = all(str(kind) in ("float", "float32") for kind in (rows.schema.types if is_arrow else rows.dtypes))
        made: Mapping[str, Any] = label_block(
            rows, self.ref, self.outputs, np.float32 if single else np.float64, self.threads
        )
        kept = check_kept(self.keep, present, made)
        if not is_arrow:
            return batch[kept].assign(**made)
        return type(batch).from_pydict({**{name: batch.column(name) for name in kept}, **made})
