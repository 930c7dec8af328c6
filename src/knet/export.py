"""ONNX export: one graph from the model's columns to label, proba and embedding, checked before it is written."""

import json
import logging
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from knet._network.scaling import FAR
from knet._network.torch_encoder import torch_network
from knet.estimator import KNet
from knet.exceptions import KNetError
from knet.tables.whole_files import write_whole

OUTPUTS = ("label", "proba", "embedding")
CHECK_ROWS = 500
LARGE_RATIO = 1e8  # beyond it, asinh(x) = asinh(1e8) + log(x / 1e8) to the last digit


class Graph(nn.Module):
    """The predictor of a model as one module, with all its numbers as buffers."""

    shift: Tensor
    scale: Tensor
    tail_center: Tensor
    tail_width: Tensor
    fill: Tensor
    middle: Tensor
    centers: Tensor
    heights: Tensor

    def __init__(self, model: KNet, fill: NDArray[np.float64]) -> None:
        super().__init__()
        predictor = model.predictor_
        self.encoder, self.spread = torch_network(predictor.encoder), predictor.spread
        for name, value in {**predictor.scaling.arrays(), "fill": fill}.items():
            self.register_buffer(name, torch.from_numpy(value.astype(predictor.centers.dtype)))
        for name, value in zip(("middle", "centers", "heights"), predictor.frame, strict=True):
            self.register_buffer(name, torch.from_numpy(value))

    def forward(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Fill gaps, scale, clip and encode the rows, and compare them with the centres, as `Predictor` does."""
        X = torch.where(torch.isnan(X), self.fill, X)
        heavy = self.tail_width > 0
        X = torch.where(heavy, _asinh((X - self.tail_center) / torch.where(heavy, self.tail_width, 1)), X)
        Psi = self.encoder(((X - self.shift) / self.scale).clamp(-FAR, FAR))[0]
        # -||psi - c||^2 / 2 without ||psi||^2 / 2: for far rows, its rounding would exceed the differences of centres.
        S = torch.addmm(self.heights, (Psi - self.middle).to(self.centers.dtype), self.centers.mT)
        P = torch.softmax((S - S.amax(1, keepdim=True)) / self.spread, dim=1)
        return S.argmax(1), P.to(Psi.dtype), Psi


def _asinh(X: Tensor) -> Tensor:
    """Return asinh(x) by logarithms, without overflow: ONNX Runtime has no Asinh in double precision."""
    A = X.abs()
    near = A.clamp(max=LARGE_RATIO)
    return X.sign() * (torch.log(near + torch.sqrt(near * near + 1)) + torch.log((A / LARGE_RATIO).clamp(min=1)))


def to_onnx(
    model: KNet,
    path: Path,
    columns: Sequence[str] | None = None,
    fill: Sequence[float | None] | None = None,
    *,
    overwrite: bool = True,
) -> float:
    """Write a model as an ONNX graph with the input `X` and the outputs `label`, `proba` and `embedding`.

    The file is written completely or not at all.

    Parameters
    ----------
    model : KNet
        A fitted model.
    path : Path
        The file to write.
    columns : sequence of str, optional
        Names of the columns of `X`, stored in the graph's metadata.
    fill : sequence of float or None, optional
        Value that replaces NaN in each column; with None, NaN stays and makes the row's results NaN.
    overwrite : bool, default=True
        Whether an existing file is replaced; with False it is an error.

    Returns
    -------
    error : float
        The largest difference to the model's own `embedding` and `proba` on the rows of the check.

    Raises
    ------
    KNetError
        If the graph labels rows differently than the model; then nothing is written.
    """
    onnx, runtime = _needed()
    values = [None] * model.n_features_in_ if fill is None else list(fill)
    gaps = np.array([np.nan if value is None else value for value in values])
    graph = Graph(model, gaps).eval()
    proto = _trace(graph, model.n_features_in_)
    names = list(columns) if columns is not None else [f"x{j}" for j in range(model.n_features_in_)]
    onnx.helper.set_model_props(proto, {"columns": json.dumps(names), "producer": "knet"})
    content = proto.SerializeToString()
    error = _check(model, runtime.InferenceSession(content, providers=["CPUExecutionProvider"]))
    write_whole(Path(path), content, overwrite=overwrite)
    return error


def _needed() -> tuple[Any, Any]:
    """Import the libraries that the export needs, or raise an error that says how to install them."""
    try:
        import onnx
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ImportError(f"The ONNX export needs {error.name}. Install it with: pip install 'knet[onnx]'") from error
    return onnx, onnxruntime


def _trace(graph: Graph, n_features: int) -> Any:
    """Return the graph as an ONNX model for any number of rows."""
    rows = torch.zeros(3, n_features, dtype=graph.shift.dtype)
    any_rows = {"X": {0: torch.export.Dim("rows", min=1)}}
    level = logging.getLogger("torch.onnx").level
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # the exporter warns about its own future changes
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        try:
            program = torch.onnx.export(
                graph,
                (rows,),
                input_names=["X"],
                output_names=list(OUTPUTS),
                dynamic_shapes=any_rows,
                dynamo=True,
                verbose=False,
            )
        except Exception as error:  # the exporter has many errors, with messages of many lines
            reason = " ".join(str(error.__cause__ or error).split())[:300]
            raise KNetError(f"torch.onnx.export failed: {reason}") from error
        finally:
            logging.getLogger("torch.onnx").setLevel(level)
    if program is None:
        raise KNetError("torch.onnx.export returned no graph.")
    return program.model_proto


def _check(model: KNet, session: Any) -> float:
    """Compare graph and model on random rows around the training data; return the largest difference."""
    predictor = model.predictor_
    noise = np.random.default_rng(0).normal(size=(CHECK_ROWS, model.n_features_in_))
    X = predictor.scaling.inverse(noise).astype(predictor.centers.dtype)
    label, proba, embedding = session.run(list(OUTPUTS), {"X": X})
    own, memberships = predictor.assign(X), predictor.memberships(X)
    rows = np.arange(len(X))
    apart = np.abs(memberships[rows, label] - memberships[rows, own])  # labels may differ only in ties, by rounding
    if apart.max() > 1e-4:
        raise KNetError("The ONNX graph labels rows differently than the model, so it was not written.")
    return float(max(np.abs(proba - memberships).max(), np.abs(embedding - predictor.embed(X)).max()))
