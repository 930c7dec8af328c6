"""Model files: one safetensors file with a JSON header. Loading a file never executes code from it; see `read`."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from safetensors.numpy import save as to_bytes
from sklearn.utils.validation import check_is_fitted

from knet.advanced import Advanced
from knet.arrays import AnyArray, Json
from knet.estimator import KNet
from knet.exceptions import ModelFileError
from knet.files import check_new, write_whole
from knet.model.encoder import RowEncoder, RowMLP
from knet.model.light import encoder_state, needs_module, restore_predictor
from knet.model.predictor import Predictor
from knet.model.read import ENCODER, FITTED, FORMAT, FORMAT_VERSION, check_content, digest_of, read_file

if TYPE_CHECKING:
    from torch import nn

    from knet.model.torch_encoder import TorchEncoder

OPTIONAL = ("callback", "random_state")  # if they cannot be stored, None is a correct value after loading
UNSAVED = "not stored in the model file; set it again"  # value of a parameter that no rule accepts, so `fit` refuses it


def save(
    model: KNet, path: str | os.PathLike[str], extra: Mapping[str, Json] | None = None, *, overwrite: bool = False
) -> None:
    """Write a fitted model to `path`, completely or not at all; the same model gives the same bytes.

    `extra` are plain JSON data, which `load` returns as ``model.extra_``. If `load` would refuse the file, for example
    because `n_clusters` was changed after the fit, a ModelFileError is raised.
    """
    check_is_fitted(model)
    check_new(Path(path), overwrite=overwrite)
    predictor = model.predictor_
    state = {ENCODER + name: value for name, value in predictor.encoder.state().items()}
    arrays = {name: np.asarray(value, order="C") for name, value in {**predictor.arrays(), **state}.items()}
    params, unsaved = _plain_params(model)
    names = getattr(model, "feature_names_in_", None)
    header = {
        "format_version": FORMAT_VERSION,
        "params": params,
        "unsaved": unsaved,
        "encoder": predictor.encoder.kind,
        "sigma": predictor.sigma,
        "spread": predictor.clusters.spread,
        "unit_length": predictor.preparation.unit_length,
        **{name: getattr(model, f"{name}_") for name in FITTED},
        "n_features": model.n_features_in_,
        "feature_names": None if names is None else list(map(str, names)),
        "extra": dict(extra if extra is not None else getattr(model, "extra_", {})),
        "versions": versions(),
    }
    if (naming := predictor.naming.to_json()) is not None:
        header["naming"] = naming
    text = json.dumps(header, sort_keys=True)
    try:
        check_content(text, arrays)
    except ModelFileError as error:
        raise ModelFileError(f"The model was not saved to {path}, because it could not be loaded: {error}.") from error
    metadata = {"format": FORMAT, "header": text, "digest": digest_of(text, arrays)}
    write_whole(Path(path), _in_fixed_order(to_bytes(arrays, metadata)), overwrite=overwrite)


def _in_fixed_order(content: bytes) -> bytes:
    """Return a safetensors file with its metadata sorted by name: safetensors writes them in a random order."""
    end = 8 + int.from_bytes(content[:8], "little")
    index = json.loads(content[8:end])
    text = json.dumps(index | {"__metadata__": dict(sorted(index["__metadata__"].items()))}, separators=(",", ":"))
    padded = text.encode() + b" " * (-len(text) % 8)  # numbers start at a multiple of 8 bytes
    return len(padded).to_bytes(8, "little") + padded + content[end:]


def load(path: str | os.PathLike[str], *, encoder: nn.Module | None = None, device: str = "cpu") -> KNet:
    """Read a model that `save` wrote; its results are bit-identical to those of the saved model.

    The content is checked before anything is built from it, and no code in a file is executed, so a file from an
    unknown source can do no more than be refused or label rows badly.

    Parameters
    ----------
    path : path-like
        The model file.
    encoder : torch.nn.Module, optional
        A module with the saved architecture, needed if the model was fitted with an encoder of your own.
    device : str, default="cpu"
        Device on which the model computes.

    Returns
    -------
    model : KNet
        A fitted estimator, without attributes that belong to the training rows, such as `labels_`. Its `fit` raises a
        ValueError if a parameter could not be stored, until the parameter is set again.
    """
    header, arrays = read_file(Path(path))
    is_own = header["encoder"] == "module"
    psi: RowEncoder = _restore_module(arrays, encoder, path) if is_own else RowMLP.from_state(encoder_state(arrays))
    if is_own or str(device) != "cpu":
        from knet.model.torch_encoder import on_device

        psi = on_device(psi, device)
    return _restore_model(header, restore_predictor(header, arrays, psi), encoder)


def _restore_model(header: Mapping[str, Json], predictor: Predictor, encoder: nn.Module | None) -> KNet:
    """Return an estimator in its fitted state."""
    params = header["params"] | {name: None if name in OPTIONAL else UNSAVED for name in header["unsaved"]}
    if "encoder" in header["unsaved"]:
        params["encoder"] = encoder
    if isinstance(params["advanced"], dict):
        params["advanced"] = Advanced(**params["advanced"])
    if isinstance(params["hidden_layer_sizes"], list):
        params["hidden_layer_sizes"] = tuple(params["hidden_layer_sizes"])
    model = KNet(**params)
    model.predictor_ = predictor
    model.sigma_ = predictor.sigma
    model.cluster_centers_ = predictor.centers
    for name in FITTED:
        setattr(model, f"{name}_", header[name])
    model.n_iter_ = len(model.history_)
    model.n_clusters_ = len(predictor.naming.live(len(predictor.centers)))
    model.names_ = predictor.naming.current_names
    model.n_features_in_ = header["n_features"]
    if header["feature_names"] is not None:
        model.feature_names_in_ = np.array(header["feature_names"], dtype=object)
    model.extra_ = header["extra"]
    return model


def _restore_module(
    arrays: Mapping[str, AnyArray], module: nn.Module | None, path: str | os.PathLike[str]
) -> TorchEncoder:
    """Return a user's own encoder, which must be given, with its weights."""
    if module is None:
        raise needs_module(path)
    from knet.model.torch_encoder import TorchEncoder

    try:
        return TorchEncoder.of(module, encoder_state(arrays), arrays["centers"].dtype)
    except RuntimeError as error:
        detail = str(error).splitlines()[-1].strip()
        raise ModelFileError(f"The encoder does not fit the weights in {path}: {detail}") from error


def _plain_params(model: KNet) -> tuple[dict[str, Json], list[str]]:
    """Return the constructor parameters that JSON can store, and the names of the others."""
    params, plain = model.get_params(deep=False), {}
    params["device"] = str(params["device"])
    if isinstance(model.advanced, Advanced):
        params["advanced"] = model.advanced.get_params(deep=False)
    for name, value in params.items():
        with suppress(TypeError):
            plain[name] = json.loads(json.dumps(value, default=np.generic.item))  # numbers of NumPy become Python's
    stored = {name: value for name, value in plain.items() if value != UNSAVED}  # the value after an earlier file
    return stored, sorted(params.keys() - stored.keys())


def versions() -> dict[str, str]:
    """Return the versions of knet and of the libraries that it computes with."""
    from knet import __version__

    libraries = {name: _version_of(name) for name in ("numpy", "scikit-learn", "torch")}
    return {"knet": __version__, "python": platform.python_version(), **libraries}


def _version_of(library: str) -> str:
    """Return the version of a library, which is not imported for it."""
    try:
        return version(library)
    except PackageNotFoundError:
        return "not installed"
