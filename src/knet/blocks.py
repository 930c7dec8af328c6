"""What is done to one block of rows, whichever engine cut the data into blocks: Dask, Spark, Ray or a plain loop.

A `ModelRef` is what travels, with the model inside or with the path of its file. Each process loads the model once and
keeps it; a block is worked through in slices, so that memory beyond the block and its results does not grow with it.
"""

import copy
import hashlib
import json
import os
import pickle
import socket
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray
from sklearn.utils.validation import check_is_fitted

try:  # comes with Dask, Spark and Ray; also packs an encoder that was defined in a script
    from cloudpickle import dumps
except ImportError:
    from pickle import dumps

from knet._fit import validation as rules
from knet.estimator import KNet
from knet.exceptions import ModelFileError
from knet.model_file import load
from knet.predictor import Floats, Predictor

OUTPUTS = ("label", "proba", "score", "embedding")
SLICE_ROWS = 65_536  # rows of a block that are turned into numbers at a time
KEPT_MODELS = 4  # models that a process keeps loaded
ModelOrPath: TypeAlias = KNet | str | os.PathLike[str]


@dataclass(frozen=True)
class BlockModel:
    """The part of a fitted model that a worker holds: all that labels rows, and the columns it wants."""

    predictor: Predictor
    n_features: int
    names: tuple[str, ...] | None


@dataclass(frozen=True)
class ModelRef:
    """A model on its way to the workers.

    Attributes
    ----------
    fingerprint : str
        Names the model by its content; see `fingerprint`.
    path : str, optional
        The model file, which every worker reads for itself; None where `payload` holds the model.
    device : str
        Where workers compute.
    payload : bytes
        The model, without anything that grows with the training rows.
    """

    fingerprint: str
    path: str | None
    device: str
    payload: bytes = field(default=b"", repr=False, compare=False)

    @classmethod
    def of(cls, model: ModelOrPath, device: str = "cpu") -> "ModelRef":
        """Return a reference to a fitted model, or to the file of one that the workers can read too."""
        if not isinstance(model, KNet):
            path = os.path.abspath(os.fspath(model))
            return cls(fingerprint(load(path)), path, device)
        check_is_fitted(model)
        return cls(fingerprint(model), None, device, dumps(_block_model(model)))

    def load(self) -> BlockModel:
        """Return the model, from the memory of this process after the first time."""
        with _LOADING:
            return _load(self)


_LOADING = threading.Lock()


@lru_cache(KEPT_MODELS)
def _load(ref: ModelRef) -> BlockModel:
    """Read a model from its reference."""
    if ref.path is None:
        held: BlockModel = pickle.loads(ref.payload)
        return replace(held, predictor=_on_device(held.predictor, ref.device))
    try:
        model = load(ref.path, device=ref.device)
    except FileNotFoundError as error:
        raise FileNotFoundError(
            f"The worker on {socket.gethostname()} has no model file {ref.path}. Put it where all workers can read it, "
            "or pass the loaded model instead of its path."
        ) from error
    if fingerprint(model) != ref.fingerprint:
        raise ModelFileError(
            f"The worker on {socket.gethostname()} has another model in {ref.path} than the one asked for. "
            "Put the same file everywhere, or pass the loaded model instead of its path."
        )
    return _block_model(model)


def fingerprint(model: KNet) -> str:
    """Return a hash of all that decides a row's label: the same for a model and its saved and loaded twin."""
    predictor = model.predictor_
    facts = {
        "sigma": predictor.sigma,
        "spread": predictor.spread,
        "encoder": type(predictor.encoder).__name__,
        "names": _names(model),
        "table": (getattr(model, "extra_", None) or {}).get("table"),
    }
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    arrays = {name: getattr(predictor, name) for name in ("shift", "scale", "centers", "landmarks", "weights")}
    for name, value in sorted({**arrays, **predictor.encoder.state_dict(prefix="encoder.")}.items()):
        array = torch.as_tensor(value).cpu().contiguous()
        digest.update(f"{name}{array.dtype}{tuple(array.shape)}".encode())
        digest.update(array.numpy().tobytes())
    return digest.hexdigest()


def _block_model(model: KNet) -> BlockModel:
    names = _names(model)
    held = None if names is None else tuple(names)
    return BlockModel(_on_device(model.predictor_, "cpu"), model.n_features_in_, held)


def _names(model: KNet) -> list[str] | None:
    return [str(name) for name in model.feature_names_in_] if hasattr(model, "feature_names_in_") else None


def _on_device(predictor: Predictor, device: str) -> Predictor:
    """Return the predictor with its tensors on a device; the given one stays as it is."""
    if predictor.centers.device == torch.device(device):
        return predictor
    return replace(
        predictor,
        encoder=copy.deepcopy(predictor.encoder).to(device),
        **{name: getattr(predictor, name).to(device) for name in ("centers", "landmarks", "weights")},
    )


class _ThreadLimit:
    """Keeps torch to a number of threads while blocks are computed, and then puts back what it found.

    Several worker threads come and go at once: the first one in notes the setting of the host program.
    """

    def __init__(self) -> None:
        self.lock, self.users, self.before = threading.Lock(), 0, 1

    @contextmanager
    def __call__(self, threads: int) -> Iterator[None]:
        with self.lock:
            if self.users == 0:
                self.before = torch.get_num_threads()
            self.users += 1
            torch.set_num_threads(threads)
        try:
            yield
        finally:
            with self.lock:
                self.users -= 1
                torch.set_num_threads(self.before)


torch_threads = _ThreadLimit()


def slices(block: Any, model: BlockModel, dtype: DTypeLike) -> Iterator[Floats]:
    """Yield the rows of a block as checked numbers, `SLICE_ROWS` at a time; of an empty block, nothing."""
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
    """Return some rows as an array; of a table, the columns that the model knows by name, in its order."""
    if isinstance(piece, np.ndarray):
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
        raise ValueError(f"The model needs blocks of {model.n_features} columns. Got one of shape {X.shape}.")
    return X


def columns(predictor: Predictor, X: Floats, outputs: Collection[str]) -> dict[str, NDArray[Any]]:
    """Return what is wanted of some rows (label, proba, score, embedding) as named columns."""
    out: dict[str, NDArray[Any]] = {"label": predictor.assign(X)} if "label" in outputs else {}
    if "proba" in outputs:
        out |= {f"proba_{k}": column for k, column in enumerate(predictor.memberships(X).T.copy())}
    if "score" in outputs:
        out["score"] = predictor.log_degrees(X)
    if "embedding" in outputs:
        out |= {f"psi_{k}": column for k, column in enumerate(predictor.embed(X).T.copy())}
    return out


def label_block(
    block: Any, ref: ModelRef, outputs: Collection[str], dtype: DTypeLike, threads: int = 1
) -> dict[str, NDArray[Any]]:
    """Return what is wanted of the rows of a block, as named columns; an empty block has empty columns."""
    model = ref.load()
    with torch_threads(threads):
        parts = [columns(model.predictor, X, outputs) for X in slices(block, model, dtype)]
        parts = parts or [columns(model.predictor, np.empty((0, model.n_features), dtype), outputs)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def check_outputs(outputs: Sequence[str]) -> tuple[str, ...]:
    """Return the outputs asked for, or raise a message that lists those there are."""
    for name in outputs:
        rules.check_parameter("knet", "outputs", name, OUTPUTS, [])
    if isinstance(outputs, str) or not outputs:
        raise ValueError(f"The 'outputs' parameter must list at least one of {OUTPUTS}. Got {outputs!r} instead.")
    return tuple(outputs)


def check_kept(keep: Sequence[str], present: Sequence[str], made: Collection[str]) -> list[str]:
    """Return the columns to carry along, or say which is missing or would be overwritten by a result."""
    kept = [keep] if isinstance(keep, str) else list(keep)
    for name in kept:
        if name not in present:
            raise ValueError(f"There is no column {name!r} to keep. There are {list(present)}.")
        if name in made:
            raise ValueError(f"The column {name!r} to keep has the name of a result. Rename it first.")
    return kept


class Labeler:
    """The block function as an object, for engines that map a function over batches of a table.

    Parameters
    ----------
    model : KNet, or path of a model file
        With a path, each worker reads the file.
    outputs : sequence of {"label", "proba", "score", "embedding"}, default=("label",)
        Columns to make.
    keep : sequence of str
        Columns of the batch to carry along, such as an identifier.
    threads : int, default=1
        Threads of torch for one batch.
    device : str, default="cpu"
        Where to compute.

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
        """Return the columns wanted of a batch, as the kind it came in: pandas, Arrow table or Arrow record batch."""
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
