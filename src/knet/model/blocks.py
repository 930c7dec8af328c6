"""The work on one block of rows, for any engine that cuts data into blocks: Dask, Spark, Ray or a plain loop.

A `ModelRef` is sent to the workers. It contains the model, or the path of its file. Each process loads the model once
and keeps it. A block is processed in slices, so that the extra memory does not grow with the block.
"""

import hashlib
import json
import os
import pickle
import socket
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

try:  # installed with Dask, Spark and Ray; can also pickle an encoder that was defined in a script
    from cloudpickle import dumps
except ImportError:
    from pickle import dumps

from knet import parameters as rules
from knet.arrays import Floats, row_blocks
from knet.exceptions import ModelFileError, ZeroRowError
from knet.model.light import LightModel, load_light
from knet.model.predictor import Predictor
from knet.rows.kinds import column_names, table_kind, take_rows
from knet.rows.numbers import is_single
from knet.threads import limit_threads

if TYPE_CHECKING:
    from knet.estimator import KNet

OUTPUTS = ("label", "proba", "score", "embedding")
SLICE_ROWS = 65_536  # rows of a block that are converted to numbers at a time
KEPT_MODELS = 4  # models that a process keeps loaded
ModelOrPath: TypeAlias = "KNet | LightModel | str | os.PathLike[str]"


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
    reject : float, optional
        Share of `KNet.predict` at which rows are rejected.
    """

    fingerprint: str
    path: str | None
    device: str
    payload: bytes = field(default=b"", repr=False, compare=False)
    reject: float | None = None

    @classmethod
    def of(cls, model: ModelOrPath, device: str = "cpu", reject: float | None = None) -> "ModelRef":
        """Return a reference to a fitted model, or to a model file that the workers can read too."""
        return resolve_model(model, device, load_light, reject)[1]

    def load(self) -> LightModel:
        """Return the model; each process reads or unpickles it once and then keeps it in memory."""
        with _LOADING:
            return _load(self)


_LOADING = threading.Lock()


def resolve_model(
    model: ModelOrPath, device: str, read: Callable[[str], Any], reject: float | None = None
) -> tuple[Any, ModelRef]:
    """Return a fitted model and a reference to it; if `model` is a path, `read` reads the file once."""
    if isinstance(model, str | os.PathLike):
        path = os.path.abspath(os.fspath(model))
        known = read(path)
        ref = ModelRef(fingerprint(known), path, device, reject=reject)
    else:
        known, light = model, _light(model)
        ref = ModelRef(fingerprint(light), None, device, dumps(on_device(light, "cpu")), reject)
    _light(known).predictor.threshold(reject)  # an error now, not on a worker
    return known, ref


@lru_cache(KEPT_MODELS)
def _load(ref: ModelRef) -> LightModel:
    """Return the model of a reference."""
    if ref.path is None:
        unpickled: LightModel = pickle.loads(ref.payload)
        return on_device(unpickled, ref.device)
    try:
        model = load_light(ref.path)
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


def _light(model: "KNet | LightModel") -> LightModel:
    """Return the part of a fitted model that a worker needs."""
    if isinstance(model, LightModel):
        return model
    from sklearn.utils.validation import check_is_fitted

    check_is_fitted(model)
    return LightModel.of(model)


def fingerprint(model: "KNet | LightModel") -> str:
    """Return a hash of everything that decides a row's label; saving and loading a model does not change it."""
    light = _light(model)
    predictor = light.predictor
    facts = {
        "sigma": predictor.sigma,
        "spread": predictor.clusters.spread,
        "encoder": predictor.encoder.kind,
        "unit_length": predictor.preparation.unit_length,
        "names": light.names,
        "table": light.extra.get("table"),
    }
    digest = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    arrays = predictor.arrays() | {f"encoder.{name}": value for name, value in predictor.encoder.state().items()}
    for name, array in sorted(arrays.items()):
        digest.update(f"{name}{array.dtype}{array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def on_device(model: LightModel, device: str) -> LightModel:
    """Return the model with its encoder on a device; the given one is not changed."""
    encoder = model.predictor.encoder
    if device == "cpu" and encoder.in_threads:  # arrays of NumPy
        return model
    from knet.model.torch_encoder import on_device as encoder_on

    return replace(model, predictor=replace(model.predictor, encoder=encoder_on(encoder, device)))


def slices(block: Any, model: LightModel, dtype: DTypeLike | None) -> Iterator[Floats]:
    """Yield the rows of a block as checked numbers, `SLICE_ROWS` at a time; an empty block yields nothing."""
    for rows in row_blocks(block.shape[0], max_rows=SLICE_ROWS):
        yield model._rows(take_rows(block, rows), dtype)


def numbered_columns(output: str, count: int) -> list[str]:
    """Return the column names of an output with several values per row: proba_0, ... or embedding_0, ..."""
    return [f"{output}_{k}" for k in range(count)]


def columns(
    predictor: Predictor, X: Floats, outputs: Collection[str], reject: float | None = None
) -> dict[str, NDArray[Any]]:
    """Return the chosen outputs of some rows (label, proba, score, embedding) as named columns."""
    out: dict[str, NDArray[Any]] = {"label": predictor.assign(X, reject)} if "label" in outputs else {}
    if "proba" in outputs:
        out |= _split("proba", predictor.memberships(X))
    if "score" in outputs:
        out["score"] = predictor.familiarity(X)
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
        parts = [
            _slice_columns(model.predictor, X, outputs, ref.reject, number * SLICE_ROWS)
            for number, X in enumerate(slices(block, model, dtype))
        ]
        parts = parts or [columns(model.predictor, np.empty((0, model.n_features), dtype), outputs)]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _slice_columns(
    predictor: Predictor, X: Floats, outputs: Collection[str], reject: float | None, first_row: int
) -> dict[str, NDArray[Any]]:
    """Return the outputs of a slice; an error names the row of the block."""
    try:
        return columns(predictor, X, outputs, reject)
    except ZeroRowError as error:
        raise ZeroRowError(first_row + error.row) from None


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
    outputs : sequence of {"label", "proba", "score", "embedding"}, default=("label",)
        Columns to compute.
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
    >>> from knet import KNet
    >>> from knet.model.blocks import Labeler
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

    def __call__(self, batch: Any) -> Any:
        """Return the outputs for a batch in the type of the batch: pandas, polars, Arrow table or record batch."""
        kind, present = table_kind(batch), column_names(batch)
        names = self.ref.load().names or [name for name in present if name not in self.keep]
        rows = batch.filter(names) if kind == "pandas" else batch.select([name for name in present if name in names])
        dtype = np.float32 if is_single(rows) else np.float64
        made: Mapping[str, Any] = label_block(rows, self.ref, self.outputs, dtype, self.threads)
        kept = check_kept(self.keep, present, made)
        if kind == "pandas":
            return batch[kept].assign(**made)
        result = {**{name: batch[name] for name in kept}, **made}
        return type(batch).from_pydict(result) if kind == "arrow" else type(batch)(result)
