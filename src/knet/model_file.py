"""Model files: one safetensors file with a JSON header. Nothing in a file is ever executed."""

import copy
import hashlib
import json
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import sklearn
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from knet._network.mlp import Copies, ResidualMLP
from knet.estimator import KNet
from knet.exceptions import ModelFileError
from knet.predictor import Predictor
from knet.tables.whole_files import whole_file

FORMAT, FORMAT_VERSION = "knet-model", 1
ARRAYS = ("shift", "scale", "centers", "landmarks", "weights")
ENCODER = "encoder."


def save(model: KNet, path: str | os.PathLike[str], extra: Mapping[str, Any] | None = None) -> None:
    """Write a fitted model to `path`, whole or not at all; no training rows go into the file.

    Parameters
    ----------
    model : KNet
        A fitted estimator. Of a user's own encoder the weights are written, and `load` asks for the module.
    path : path-like
        The file, by convention ``*.safetensors``; an existing file is replaced.
    extra : mapping, optional
        Plain JSON data to keep with the model; `load` gives it back as ``model.extra_``.
    """
    check_is_fitted(model)
    predictor = model.predictor_
    tensors = {name: torch.as_tensor(getattr(predictor, name)).cpu().contiguous() for name in ARRAYS}
    tensors |= {ENCODER + name: value.cpu().contiguous() for name, value in predictor.encoder.state_dict().items()}
    header = {
        "format_version": FORMAT_VERSION,
        "params": _plain_params(model),
        "encoder": "module" if isinstance(predictor.encoder, Copies) else "mlp",
        "sigma": predictor.sigma,
        "spread": predictor.spread,
        "history": model.history_,
        "best_round": model.best_round_,
        "selection": getattr(model, "selection_", []),
        "n_train": model.n_train_,
        "n_features": model.n_features_in_,
        "feature_names": [str(name) for name in model.feature_names_in_]
        if hasattr(model, "feature_names_in_")
        else None,
        "extra": dict(extra if extra is not None else getattr(model, "extra_", {})),
        "versions": versions(),
    }
    text = json.dumps(header, sort_keys=True)
    metadata = {"format": FORMAT, "header": text, "digest": _digest(text, tensors)}
    with whole_file(Path(path)) as temporary:
        save_file(tensors, temporary, metadata)


def load(path: str | os.PathLike[str], *, encoder: nn.Module | None = None, device: str = "cpu") -> KNet:
    """Read a model that `save` wrote; it labels rows to the bit as the saved one did.

    Parameters
    ----------
    path : path-like
        The model file.
    encoder : torch.nn.Module, optional
        A module of the saved shape, needed where the model was fitted with an encoder of your own.
    device : str, default="cpu"
        Where the model computes from now on.

    Returns
    -------
    model : KNet
        A fitted estimator, without `labels_`, which belong to the training rows.
    """
    header, tensors = _read(Path(path))
    weights = {name.removeprefix(ENCODER): value for name, value in tensors.items() if name.startswith(ENCODER)}
    try:
        net = _restore_encoder(header["encoder"], weights, encoder, path)
        predictor = Predictor(
            shift=tensors["shift"].numpy(),
            scale=tensors["scale"].numpy(),
            encoder=net.to(device).requires_grad_(False).eval(),
            sigma=float(header["sigma"]),
            centers=tensors["centers"].to(device),
            spread=float(header["spread"]),
            landmarks=tensors["landmarks"].to(device),
            weights=tensors["weights"].to(device),
        )
        return _restore_model(header, predictor)
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as error:
        if isinstance(error, ModelFileError):
            raise
        raise ModelFileError(f"{path} is not a complete knet model: {error!r} in its header or tensors.") from error


def _restore_model(header: Mapping[str, Any], predictor: Predictor) -> KNet:
    """Return an estimator in its fitted state."""
    model = KNet(**header["params"])
    model.predictor_ = predictor
    model.sigma_ = predictor.sigma
    model.cluster_centers_ = predictor.centers.cpu().numpy()
    model.history_ = header["history"]
    model.n_iter_ = len(model.history_)
    model.best_round_ = int(header["best_round"])
    model.selection_ = header["selection"]
    model.n_train_ = int(header["n_train"])
    model.n_features_in_ = int(header["n_features"])
    if header["feature_names"] is not None:
        model.feature_names_in_ = np.array(header["feature_names"], dtype=object)
    model.extra_ = header["extra"]
    model._n_features_out = predictor.centers.shape[1]
    return model


def _restore_encoder(kind: str, weights: dict[str, Tensor], module: nn.Module | None, path: Any) -> nn.Module:
    """Return the encoder with its weights; a user's own module has to be given."""
    if kind == "mlp":
        depth = sum(name.startswith("weights.") for name in weights) - 1
        width = weights["weights.0"].shape[2]
        skip = torch.zeros_like(weights["skip"])
        net: nn.Module = ResidualMLP(skip, width=width, depth=depth, n_restarts=1, generator=torch.Generator())
    elif module is None:
        raise ModelFileError(
            f"{path} was fitted with an encoder of your own, and files hold weights, not code. "
            "Pass the module: load(path, encoder=MyEncoder())."
        )
    else:
        net = Copies([copy.deepcopy(module)])
    dtype = next(iter(weights.values())).dtype
    try:
        net.to(dtype).load_state_dict(weights)
    except RuntimeError as error:
        detail = str(error).splitlines()[-1].strip()
        raise ModelFileError(f"The encoder does not fit the weights in {path}: {detail}") from error
    return net


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return header and tensors of a model file, or raise one clear error."""
    if not path.is_file():
        raise FileNotFoundError(f"There is no model file {path}.")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}
    except (safetensors.SafetensorError, OSError, ValueError) as error:
        raise ModelFileError(f"{path} is not a model file, or it is damaged: {error}") from error
    if metadata.get("format") != FORMAT:
        raise ModelFileError(f"{path} is a safetensors file, but knet did not write it.")
    text = metadata.get("header", "")
    try:
        header: dict[str, Any] = json.loads(text)
        version = int(header["format_version"])
    except (ValueError, KeyError, TypeError) as error:
        raise ModelFileError(f"{path} is not a complete model file: its header cannot be read.") from error
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"{path} has format version {version}; this knet reads up to {FORMAT_VERSION}. Upgrade knet."
        )
    if metadata.get("digest") != _digest(text, tensors):
        raise ModelFileError(f"{path} was changed after it was written: its digest does not match.")
    return header, tensors


def _plain_params(model: KNet) -> dict[str, Any]:
    """Return the constructor parameters that JSON can hold; the others fall back to their defaults on load."""
    params = model.get_params(deep=False)
    params["device"] = str(params["device"])
    plain = {}
    for name, value in params.items():
        value = value.item() if isinstance(value, np.generic) else value
        if value is None or isinstance(value, str | int | float):
            plain[name] = value
    return plain


def _digest(text: str, tensors: Mapping[str, Tensor]) -> str:
    """Return a hash of the header and every tensor, which tells a damaged file from a sound one."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        value = tensors[name]
        digest.update(f"{name}{value.dtype}{tuple(value.shape)}".encode())
        digest.update(value.contiguous().numpy().tobytes())
    return digest.hexdigest()


def versions() -> dict[str, str]:
    """Return the versions of knet and of what it computes with."""
    from knet import __version__

    return {
        "knet": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
        "torch": torch.__version__,
    }
