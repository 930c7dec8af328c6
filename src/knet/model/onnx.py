"""ONNX export: one graph from the model's columns to label, proba and embedding, checked before it is written."""

import json
import logging
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from knet.estimator import KNet
from knet.exceptions import KNetError
from knet.files import check_new, write_whole
from knet.model.certainty import LOG_RANGE, MIN_CONFIDENCE, WIDTHS
from knet.model.predictor import Predictor
from knet.model.torch_encoder import torch_network
from knet.prepare.gaps import SOLVED, STEPS
from knet.prepare.scaling import FAR

OUTPUTS = ("label", "proba", "embedding")
CHECK_ROWS = 500
MAX_SHARE_APART = 0.01  # of the rows of the check, that only the graph or only the model rejects
LEAD = 1e-6  # of the largest membership, in logarithms: far rows would have equal ones in single precision
LARGE_RATIO = 1e8  # beyond it, asinh(x) = asinh(1e8) + log(x / 1e8) to the last digit


class Graph(nn.Module):
    """The predictor of a model as one module, with all its numbers as buffers."""

    def __init__(self, model: KNet, reject: float | None = None) -> None:
        super().__init__()
        predictor = model.predictor_
        self.encoder, self.side = torch_network(predictor.encoder), predictor.clusters.side
        self.threshold, certainty = predictor.threshold(reject), predictor.certainty.arrays()
        self.unit_length = predictor.preparation.unit_length
        self.is_projected = predictor.preparation.projection is not None
        gaps = predictor.preparation.gaps
        self.has_gaps, shares = gaps is not None, {} if gaps is None else {"gap_shares": gaps.shares}
        for name, value in {**predictor.preparation.arrays(), **certainty, **shares}.items():
            self.register_buffer(name, torch.from_numpy(value.astype(predictor.centers.dtype)))
        for name, value in zip(("middle", "centers", "heights"), predictor.clusters.frame, strict=True):
            self.register_buffer(name, torch.from_numpy(value))
        self.register_buffer("members", _members(predictor))

    def __getattr__(self, name: str) -> Any:
        """Return a buffer or the encoder."""
        return super().__getattr__(name)

    def forward(self, X: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Scale, fill, clip and encode the rows, and compare them with the centres, as `Predictor` does."""
        present = ~torch.isnan(X)
        if self.unit_length:
            X = X / X.abs().amax(1, keepdim=True)  # so that squares neither overflow nor vanish
            X = X / torch.linalg.vector_norm(X, dim=1, keepdim=True)
        heavy = self.tail_width > 0
        X = torch.where(heavy, _asinh((X - self.tail_center) / torch.where(heavy, self.tail_width, 1)), X)
        Z = ((X - self.shift) / self.scale).clamp(-FAR, FAR)
        Z = self._filled(Z, present) if self.has_gaps else Z
        Z = (Z @ self.projection).clamp(-FAR, FAR) if self.is_projected else Z
        Psi = self.encoder(Z)
        # -||psi - c||^2 / 2 without ||psi||^2 / 2: for far rows, its rounding would exceed the differences of centres.
        S = torch.addmm(self.heights, (Psi - self.middle).to(self.centers.dtype), self.centers.mT)
        labels = S.argmax(1)
        own = torch.arange(len(self.centers)) == labels[:, None]
        P = torch.softmax(torch.where(own, 0, self._exponents(Z, Psi, S).clamp(max=-LEAD)), dim=1)
        if self.members is not None:
            labels, P = self._merged(labels, P)
        if self.has_gaps:
            missing = (~present).to(P.dtype) @ self.gap_shares.to(P.dtype)
            P = P + missing.square()[:, None] * (1 / P.shape[1] - P)
            labels = torch.where(present.any(1), labels, -1)
        if self.threshold is not None:
            rejected = (self._familiarity(Z) < self.threshold) | (P.amax(1) < MIN_CONFIDENCE)
            labels = torch.where(rejected, -1, labels)
        return torch.where(S.isnan().any(1), -1, labels), P.to(Psi.dtype), Psi

    def _merged(self, centers: Tensor, P: Tensor) -> tuple[Tensor, Tensor]:
        """Return labels and memberships of clusters from those of centres, as `knet.model.naming.Naming` does."""
        P = P @ self.members.to(P.dtype)
        labels = self.members.argmax(1)[centers]
        own = torch.arange(P.shape[1]) == labels[:, None]
        mean = (P.amax(1, keepdim=True) + (P * own).sum(1, keepdim=True)) / 2
        top = P >= P.amax(1, keepdim=True)
        return labels, torch.where(own, mean * (1 + LEAD), torch.where(top, mean, P))

    def _filled(self, Z: Tensor, present: Tensor) -> Tensor:
        """Return rows with the expected values of their missing cells, as `Gaps` computes them [GAPS]."""
        Z, factors, noise = torch.where(present, Z, self.gap_mean), self.gap_factors, self.gap_noise
        residual = Z - self.gap_mean
        solution, direction, size = torch.zeros_like(residual), residual, residual.square().sum(1, keepdim=True)
        solved = SOLVED * size
        for _ in range(min(STEPS, Z.shape[1])):
            image = (direction @ factors @ factors.mT + direction * noise) * present
            step = _quotient(size, (direction * image).sum(1, keepdim=True), size > solved)
            solution = solution + step * direction
            residual = residual - step * image
            size, before = residual.square().sum(1, keepdim=True), size
            direction = residual + _quotient(size, before, size > solved) * direction
        return torch.where(present, Z, self.gap_mean + solution @ factors @ factors.mT)

    def _exponents(self, Z: Tensor, Psi: Tensor, S: Tensor) -> Tensor:
        """Return the logarithms of the memberships, up to a constant per row [PROBA]."""
        top = S.amax(1, keepdim=True)
        level, low, high = self.hinge_range.to(S.dtype)
        hinges = (Z @ self.hinge_directions - self.hinge_offsets).relu()
        logs = ((hinges @ self.hinge_slopes).to(S.dtype) + level).clamp(low, high).clamp(*LOG_RANGE)
        nearest = ((Psi - self.middle).to(S.dtype).square().sum(1, keepdim=True) - 2 * top).clamp(min=0)
        exponents: Tensor = 2 * (S - top) / (nearest + self.side) * logs.exp()[:, None]
        return exponents

    def _familiarity(self, Z: Tensor) -> Tensor:
        """Return log of the mean kernel value between scaled rows and the training rows [FAMILIAR]."""
        Z, places = (array - self.places.mean(0) for array in (Z, self.places))
        D2 = (Z.square().sum(1, keepdim=True) + places.square().sum(1) - 2 * Z @ places.mT).clamp(min=0)
        shares = (self.place_weights / self.place_weights.sum()).log()
        return torch.logsumexp(D2.double() * (-0.5 / self.place_width.double().clamp(*WIDTHS).square()) + shares, dim=1)


def _members(predictor: Predictor) -> Tensor | None:
    """Return which label each centre has, (c, labels), as 0 and 1; None if it is the number of the centre."""
    naming, n_centers = predictor.naming, len(predictor.centers)
    if naming.is_plain:
        return None
    if any("split" in edit for edit in naming.edits):
        raise KNetError("A model with a split cluster cannot be exported. Use model.undo() first.")
    labels = naming.relabel(np.arange(n_centers), predictor.certainty.places[:1], predictor.certainty.places)
    return torch.from_numpy(np.eye(predictor.n_labels)[labels])


def _quotient(numerator: Tensor, denominator: Tensor, is_open: Tensor) -> Tensor:
    """Return the quotients, 0 for rows that are solved."""
    return torch.where(is_open, numerator / torch.where(is_open, denominator, 1), 0)


def _asinh(X: Tensor) -> Tensor:
    """Return asinh(x) by logarithms, without overflow: ONNX Runtime has no Asinh in double precision."""
    A = X.abs()
    near = A.clamp(max=LARGE_RATIO)
    return X.sign() * (torch.log(near + torch.sqrt(near * near + 1)) + torch.log((A / LARGE_RATIO).clamp(min=1)))


def to_onnx(
    model: KNet,
    path: Path,
    columns: Sequence[str] | None = None,
    *,
    reject: float | None = None,
    overwrite: bool = False,
) -> float:
    """Write a model as an ONNX graph with the input `X` and the outputs `label`, `proba` and `embedding`.

    The file is written completely or not at all. A row without any value gets the label -1. With metric="cosine", so
    does a row of zeros or with a missing value, and NaN as its other results.

    Parameters
    ----------
    model : KNet
        A fitted model.
    path : Path
        The file to write.
    columns : sequence of str, optional
        Names of the columns of `X`, stored in the graph's metadata.
    reject : float in [0, 1), optional
        Share of the training rows below whose familiarity a row gets the label -1; as in `KNet.predict`.
    overwrite : bool, default=False
        Replace an existing file, as the option --force of the command does; otherwise it raises FileExistsError.

    Returns
    -------
    error : float
        The largest difference to the model's own `embedding` and `proba` on the rows of the check.

    Raises
    ------
    KNetError
        If the graph labels rows differently than the model; then nothing is written.
    """
    check_new(Path(path), overwrite=overwrite)
    onnx, runtime = _needed()
    graph = Graph(model, reject).eval()
    proto = _trace(graph, model.n_features_in_)
    names = list(columns) if columns is not None else [f"x{j}" for j in range(model.n_features_in_)]
    clusters = json.dumps(getattr(model, "names_", {}))
    onnx.helper.set_model_props(proto, {"columns": json.dumps(names), "clusters": clusters, "producer": "knet"})
    content = proto.SerializeToString()
    error = _check(model, reject, runtime.InferenceSession(content, providers=["CPUExecutionProvider"]))
    write_whole(Path(path), content, overwrite=overwrite)
    return error


def _needed() -> tuple[ModuleType, ModuleType]:
    """Import the libraries that the export needs, or raise an error that says how to install them."""
    try:
        import onnx
        import onnxruntime
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ImportError(
            f"The ONNX export needs {error.name}. Install it with: pip install 'knet-clustering[onnx]'"
        ) from error
    return onnx, onnxruntime


def _trace(graph: Graph, n_features: int) -> Any:
    """Return the graph as an ONNX model for any number of rows."""
    rows = torch.zeros(3, n_features, dtype=graph.shift.dtype)
    any_rows = {"X": {0: torch.export.Dim("rows", min=1)}}
    names: dict[str, Any] = {"input_names": ["X"], "output_names": list(OUTPUTS)}
    log = logging.getLogger("torch.onnx")
    level = log.level
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # the exporter warns about its own future changes
        log.setLevel(logging.ERROR)
        try:
            program = torch.onnx.export(graph, (rows,), **names, dynamic_shapes=any_rows, dynamo=True, verbose=False)
        except Exception as error:  # the exporter has many errors, with messages of many lines
            reason = " ".join(str(error.__cause__ or error).split())[:300]
            raise KNetError(f"torch.onnx.export failed: {reason}") from error
        finally:
            log.setLevel(level)
    assert program is not None  # dynamo=True returns a program
    return program.model_proto


def _check(model: KNet, reject: float | None, session: Any) -> float:
    """Compare graph and model on random rows around the training data; return the largest difference."""
    predictor = model.predictor_
    noise = np.random.default_rng(0).normal(size=(CHECK_ROWS, model.n_features_in_))
    X = predictor.scaling.inverse(noise).astype(predictor.centers.dtype)
    if predictor.preparation.gaps is not None:
        X[CHECK_ROWS // 2 :][np.random.default_rng(1).random((CHECK_ROWS - CHECK_ROWS // 2, X.shape[1])) < 0.3] = np.nan
    label, proba, embedding = session.run(list(OUTPUTS), {"X": X})
    own, memberships = predictor.assign(X, reject), predictor.memberships(X)
    rows = np.flatnonzero((label >= 0) & (own >= 0))
    apart = np.abs(memberships[rows, label[rows]] - memberships[rows, own[rows]])
    # Labels may differ only in ties, and rejections only at the threshold, by rounding.
    if apart.max(initial=0) > 1e-4 or np.mean((label < 0) != (own < 0)) > MAX_SHARE_APART:
        raise KNetError("The ONNX graph labels rows differently than the model, so it was not written.")
    return float(max(np.abs(proba - memberships).max(), np.abs(embedding - predictor.embed(X)).max()))
