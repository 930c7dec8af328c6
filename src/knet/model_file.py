"""Model files: one safetensors file with a JSON header. Loading a file never executes code from it.

The digest in a file shows damage. It is no proof of where a file comes from: anybody can compute it. Everything in a
file is therefore checked by the rules of `model_checks` before anything is built from it.
"""

import copy
import hashlib
import json
import os
import platform
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import sklearn
import torch
from safetensors import safe_open
from safetensors.torch import save as to_bytes
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from knet._fit.advanced import Advanced
from knet._network.mlp import Copies, ResidualMLP
from knet._network.scaling import Scaling
from knet.estimator import KNet
from knet.exceptions import ModelFileError
from knet.model_checks import ARRAYS, ENCODER, check_header, check_shapes, check_values
from knet.predictor import Predictor
from knet.tables.whole_files import check_readable, write_whole

FORMAT, FORMAT_VERSION = "knet-model", 2
CODES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "U8": torch.uint8, "BOOL": torch.bool}
CODES |= {"I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8}  # names in safetensors files
TAILS = ("tail_center", "tail_width")  # arrays that version 1 did not have: it compressed no columns
UNSAVED = "not stored in the model file; set it again"  # value of a parameter that no rule accepts, so `fit` refuses it
OPTIONAL = ("callback", "random_state")  # if they cannot be stored, None is a correct value after loading

# Parameters of version 1 that have another name since version 2, and those that are now fields of `Advanced`.
RENAMED = {"lr": "learning_rate", "max_rounds": "max_iter"}
ADVANCED = {
    **{name: name for name in ("sigma_scale", "init", "u_columns", "reconstruction_weight", "degrees", "laplacian")},
    "memory_budget": "memory_budget",
    "steps_per_round": "steps_per_iter",
    "keep_rounds": "keep_embeddings",
}


def save(
    model: KNet,
    path: str | os.PathLike[str],
    extra: Mapping[str, Any] | None = None,
    *,
    overwrite: bool = False,
) -> None:
    """Write a fitted model to `path`, completely or not at all; the file contains no training rows.

    Parameters
    ----------
    model : KNet
        A fitted estimator. If the encoder is the user's own, its weights are written, and `load` needs the module.
        Parameters that JSON cannot store, such as a function as `u_update`, have to be set again before a new `fit`.
    path : path-like
        The file, by convention ``*.safetensors``. The same model gives the same bytes.
    extra : mapping, optional
        Plain JSON data to store with the model; `load` returns them as ``model.extra_``.
    overwrite : bool, default=False
        Replace an existing file, as the option --force of the command does; otherwise it raises FileExistsError.

    Raises
    ------
    ModelFileError
        If `load` would refuse the file, for example because `n_clusters` was changed after the fit.
    """
    check_is_fitted(model)
    if not overwrite and Path(path).exists():
        raise FileExistsError(f"{path} exists already. Use overwrite=True to replace it.")
    predictor = model.predictor_
    scaling = predictor.scaling.arrays()
    arrays = {name: scaling[name] if name in scaling else getattr(predictor, name) for name in ARRAYS}
    tensors = {name: torch.as_tensor(value).cpu().contiguous() for name, value in arrays.items()}
    tensors |= {ENCODER + name: value.cpu().contiguous() for name, value in predictor.encoder.state_dict().items()}
    params, unsaved = _plain_params(model)
    header = {
        "format_version": FORMAT_VERSION,
        "params": params,
        "unsaved": unsaved,
        "encoder": "module" if isinstance(predictor.encoder, Copies) else "mlp",
        "sigma": predictor.sigma,
        "spread": predictor.spread,
        "history": model.history_,
        "best_iter": model.best_iter_,
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
    try:
        _check(json.loads(text), tensors)
    except ModelFileError as error:
        raise ModelFileError(f"The model was not saved to {path}, because it could not be loaded: {error}.") from error
    metadata = {"format": FORMAT, "header": text, "digest": _digest(text, tensors)}
    write_whole(Path(path), _in_fixed_order(to_bytes(tensors, metadata)), overwrite=overwrite)


def _check(header: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Check a header and its arrays by all rules."""
    check_header(header)
    check_shapes(header, {name: (value.dtype, tuple(value.shape)) for name, value in tensors.items()})
    check_values(header, tensors)


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
    header, tensors = _read(Path(path))
    weights = {name.removeprefix(ENCODER): value for name, value in tensors.items() if name.startswith(ENCODER)}
    try:
        net = _restore_encoder(header["encoder"], weights, encoder, tensors["centers"].dtype, path)
        predictor = Predictor(
            scaling=Scaling(**{field.name: tensors[field.name].numpy() for field in fields(Scaling)}),
            encoder=net.to(device).requires_grad_(False).eval(),
            sigma=float(header["sigma"]),
            centers=tensors["centers"].to(device),
            spread=float(header["spread"]),
            landmarks=tensors["landmarks"].to(device),
            weights=tensors["weights"].to(device),
        )
        return _restore_model(header, predictor, encoder)
    except (KeyError, TypeError, AttributeError) as error:
        raise ModelFileError(f"{path} is not a complete knet model: {error!r} in its parameters.") from error


def _restore_model(header: Mapping[str, Any], predictor: Predictor, encoder: nn.Module | None) -> KNet:
    """Return an estimator in its fitted state."""
    params = header["params"] | {name: None if name in OPTIONAL else UNSAVED for name in header["unsaved"]}
    if "encoder" in header["unsaved"]:
        params["encoder"] = encoder
    if params["advanced"] is not None:
        params["advanced"] = Advanced(**params["advanced"])
    if isinstance(params["hidden_layer_sizes"], list):
        params["hidden_layer_sizes"] = tuple(params["hidden_layer_sizes"])
    model = KNet(**params)
    model.predictor_ = predictor
    model.sigma_ = predictor.sigma
    model.cluster_centers_ = predictor.centers.cpu().numpy()
    model.history_ = header["history"]
    model.n_iter_ = len(model.history_)
    model.best_iter_ = int(header["best_iter"])
    model.selection_ = header["selection"]
    model.n_train_ = int(header["n_train"])
    model.n_features_in_ = int(header["n_features"])
    if header["feature_names"] is not None:
        model.feature_names_in_ = np.array(header["feature_names"], dtype=object)
    model.extra_ = header["extra"]
    return model


def _restore_encoder(
    kind: str, weights: dict[str, Tensor], module: nn.Module | None, dtype: torch.dtype, path: Any
) -> nn.Module:
    """Return the encoder with its weights; a user's own module must be given."""
    if kind == "mlp":
        shapes = {name: tuple(value.shape) for name, value in weights.items()}
        skip, sizes = torch.zeros_like(weights["skip"]), _hidden_layer_sizes(shapes)
        net: nn.Module = ResidualMLP(skip, hidden_layer_sizes=sizes, n_restarts=1, generator=torch.Generator())
    elif module is None:
        raise ModelFileError(
            f"{path} was fitted with an encoder of your own, and files contain weights, not code. "
            "Pass the module: load(path, encoder=MyEncoder())."
        )
    else:
        net = Copies([copy.deepcopy(module)])
    try:
        net.to(dtype).load_state_dict(weights)
    except RuntimeError as error:
        detail = str(error).splitlines()[-1].strip()
        raise ModelFileError(f"The encoder does not fit the weights in {path}: {detail}") from error
    return net


def _hidden_layer_sizes(shapes: Mapping[str, tuple[int, ...]]) -> tuple[int, ...]:
    """Return the number of units in each hidden layer of the default network, from the shapes of its arrays."""
    n_layers = sum(name.startswith("weights.") for name in shapes)
    return tuple(shapes[f"weights.{layer}"][2] for layer in range(n_layers - 1))


def _from_version_1(header: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """Translate the header of a version-1 file to the names of version 2."""
    params = dict(header["params"])
    unsaved = [name for name in ("u_update", "encoder", *OPTIONAL) if name not in params]
    advanced = {new: params.pop(old) for old, new in ADVANCED.items()}
    params["advanced"] = None if advanced == Advanced().get_params() else advanced
    width, n_layers = params.pop("hidden_width"), params.pop("n_hidden_layers")
    if width != "auto":
        params["hidden_layer_sizes"] = (width,) * n_layers
    elif n_layers == 2 or header["encoder"] != "mlp":
        params["hidden_layer_sizes"] = "auto"
    else:  # "auto" now means two layers
        params["hidden_layer_sizes"] = _hidden_layer_sizes(shapes)
    return {
        **header,
        "params": _renamed(params, RENAMED),
        "unsaved": unsaved,
        "best_iter": header["best_round"],
        "history": [_renamed(row, {"round": "iteration"}) for row in header["history"]],
    }


def _renamed(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in values.items()}


def _read(path: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Return header and tensors of a model file, checked, or raise one clear error."""
    check_readable(path, "model file")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            header = _read_header(metadata)
            pieces = {name: file.get_slice(name) for name in file.keys()}
            kinds = {name: (_dtype(piece.get_dtype()), tuple(piece.get_shape())) for name, piece in pieces.items()}
            if header["format_version"] == 1:
                shapes = {name.removeprefix(ENCODER): shape for name, (_, shape) in kinds.items()}
                header = _from_version_1(header, shapes)
            check_header(header)
            tails = dict.fromkeys(TAILS, kinds["shift"]) if header["format_version"] == 1 else {}
            check_shapes(header, kinds | tails)
            tensors = {name: file.get_tensor(name) for name in kinds}
        if metadata.get("digest") != _digest(metadata["header"], tensors):
            raise ModelFileError("it was changed after it was written: its digest does not match")
        if header["format_version"] == 1:
            tensors |= {name: torch.zeros_like(tensors["shift"]) for name in TAILS}
        check_values(header, tensors)
    except ModelFileError as error:
        raise ModelFileError(f"{path} is not a complete knet model: {error}.") from error
    except (safetensors.SafetensorError, OSError) as error:
        raise ModelFileError(f"{path} is not a model file, or it is damaged: {_one_line(error)}") from error
    except (KeyError, TypeError, AttributeError, IndexError, ValueError, RecursionError) as error:
        raise ModelFileError(f"{path} is not a complete knet model: {_one_line(repr(error))} in its header.") from error
    return header, tensors


def _read_header(metadata: Mapping[str, str]) -> dict[str, Any]:
    """Return the header of a file that this version of knet can read."""
    if metadata.get("format") != FORMAT:
        raise ModelFileError("it is a safetensors file, but knet did not write it")
    try:
        header: dict[str, Any] = json.loads(metadata["header"])
        version = header["format_version"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ModelFileError("its header cannot be read") from error
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise ModelFileError("its format version is not a positive integer")
    if version > FORMAT_VERSION:
        raise ModelFileError(f"it has format version {version}; this knet reads up to {FORMAT_VERSION}. Upgrade knet")
    return header


def _dtype(code: str) -> object:
    """Return the dtype of an array; the code itself if model files never have it."""
    return CODES.get(code, code)


def _one_line(error: object) -> str:
    """Return the start of an error message, as one line."""
    return " ".join(str(error).split())[:200]


def _plain_params(model: KNet) -> tuple[dict[str, Any], list[str]]:
    """Return the constructor parameters that JSON can store, and the names of the others."""
    params = model.get_params(deep=False)
    params["device"] = str(params["device"])
    if model.advanced is not None:
        params["advanced"] = model.advanced.get_params(deep=False)
    plain, unsaved = {}, []
    for name, value in params.items():
        try:
            plain[name] = json.loads(json.dumps(value, default=_python_number))
        except TypeError:
            unsaved.append(name)
    return plain, unsaved


def _python_number(value: Any) -> Any:
    """Return a NumPy number as a Python number, for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"JSON cannot store {value!r}.")


def _digest(text: str, tensors: Mapping[str, Tensor]) -> str:
    """Return a hash of the header and every tensor; it differs if a file was changed or damaged."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        value = tensors[name]
        digest.update(f"{name}{value.dtype}{tuple(value.shape)}".encode())
        digest.update(value.contiguous().numpy().tobytes())
    return digest.hexdigest()


def versions() -> dict[str, str]:
    """Return the versions of knet and of the libraries that it computes with."""
    from knet import __version__

    return {
        "knet": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
        "torch": torch.__version__,
    }
