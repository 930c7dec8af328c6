"""Hostile inputs, each made from a seed: model files, tables, rows and parameters; and what must hold for all of them.

A case returns True if the input was accepted and False if it was refused by an error that the documentation names. It
raises anything else: an `UnsoundError` result, or an error of another type.
"""

import io
import json
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather as pa_feather
import pyarrow.parquet as pa_parquet
import torch
from numpy.random import Generator
from safetensors.torch import save
from scipy.sparse import csr_array

from knet import Advanced, KNet, load
from knet.cli.columns import read_to_fit
from knet.cli.models import load_light_model
from knet.cli.options import ColumnOptions, DialectOptions
from knet.exceptions import KNetError, ModelFileError
from knet.model import file as model_file
from knet.model import read
from knet.tables.conversion import Conversion
from knet.tables.dialect import TextOptions
from knet.tables.read import Source
from knet.threads import limit_threads

Case = Callable[[Generator, Path], bool]

EXTREMES = [0, 1, -1, 2, 3, 10**6, 10**30, 0.5, -0.0, 1e-320, 1e308, float("nan"), float("inf"), -float("inf")]
OBJECTS = [None, True, False, "", "auto", "x" * 1000, "\x00\x1b[2J", [], {}, [[]], [None], {"a": {}}, [1, 2, 3]]


class UnsoundError(AssertionError):
    """A result that breaks a rule that holds for every fit."""


def rows(rng: Generator, n: int = 40, d: int = 3) -> Any:
    """Return two groups of rows."""
    X = rng.normal(size=(n, d))
    X[: n // 2] += 6
    return X


@cache
def model_bytes() -> bytes:
    """Return a sound model file."""
    table = pd.DataFrame(rows(np.random.default_rng(0)), columns=["a", "b", "c"])
    model = KNet(2, max_iter=1, random_state=0, hidden_layer_sizes=(8, 8), advanced=Advanced(steps_per_iter=5))
    with TemporaryDirectory() as folder:
        path = Path(folder, "m")
        model_file.save(model.fit(table), path, extra={"table": Conversion.of_numbers("abc").to_json()})
        return path.read_bytes()


@cache
def model_content() -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Return the header and the arrays of a sound model file."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "m")
        path.write_bytes(model_bytes())
        header, arrays = read.read_file(path)
        return header, {name: torch.tensor(value) for name, value in arrays.items()}


def damage(content: bytes, rng: Generator) -> bytes:
    """Return a content with some bytes changed, cut, repeated or inserted."""
    changed = bytearray(content)
    for _ in range(rng.integers(1, 4)):
        place = (
            int(rng.integers(len(changed) + 1)) if rng.random() < 0.5 else int(rng.integers(min(300, len(changed) + 1)))
        )
        length = int(rng.integers(1, 1 + 2 ** rng.integers(0, 12)))
        noise = rng.bytes(length)
        match rng.integers(5):
            case 0:
                changed[place : place + length] = noise
            case 1:
                changed = changed[:place]
            case 2:
                changed[place:place] = noise
            case 3:
                changed[place:place] = changed[place : place + length]
            case _ if place < len(changed):
                changed[place] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def model_raw(rng: Generator, folder: Path) -> bool:
    """Load a damaged model file."""
    path = folder / "m"
    path.write_bytes(damage(model_bytes(), rng))
    return path.read_bytes() == model_bytes() or use_model(path)


def model_crafted(rng: Generator, folder: Path) -> bool:
    """Load a model file with a valid digest and some values, entries or arrays replaced."""
    genuine, arrays = model_content()
    header, tensors = json.loads(json.dumps(genuine)), dict(arrays)
    for _ in range(rng.integers(1, 3)):
        if rng.random() < 0.5:
            _change_value(header, rng)
        else:
            _change_array(tensors, rng)
    text = "[" * 100_000 if rng.random() < 0.01 else json.dumps(header)  # a parser may run out of stack
    path = folder / "m"
    write_model(path, text, tensors)
    return use_model(path)


def write_model(path: Path, text: str, tensors: dict[str, torch.Tensor]) -> None:
    """Write a model file of any header and arrays, with a valid digest."""
    known = {name: value for name, value in tensors.items() if value.dtype != torch.bfloat16}
    digest = read.digest_of(text, {name: value.numpy() for name, value in known.items()})
    path.write_bytes(save(tensors, {"format": read.FORMAT, "header": text, "digest": digest}))


def _change_value(header: dict[str, Any], rng: Generator) -> None:
    """Replace, remove or add a value somewhere in a header."""
    place: Any = header
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        if not keys:
            return
        key = keys[rng.integers(len(keys))]
        if isinstance(place[key], dict | list) and place[key] and rng.random() < 0.7:
            place = place[key]
            continue
        choices = EXTREMES + OBJECTS
        match rng.integers(4):
            case 0:
                del place[key]
            case 1 if isinstance(place, dict):
                place[str(choices[rng.integers(len(choices))])] = place.pop(key)
            case _:
                place[key] = choices[rng.integers(len(choices))]
        return


def _change_array(tensors: dict[str, torch.Tensor], rng: Generator) -> None:
    """Replace an array by a similar one, remove it, or rename it."""
    name = sorted(tensors)[rng.integers(len(tensors))]
    value = tensors[name]
    kinds = [torch.float16, torch.bfloat16, torch.float32, torch.int64, torch.bool, torch.uint8]
    match rng.integers(8):
        case 0:
            del tensors[name]
        case 1:
            tensors[name + "x"] = tensors.pop(name)
        case 2:
            tensors[name] = value.to(kinds[rng.integers(len(kinds))])
        case 3:
            tensors[name] = torch.full_like(value, float(EXTREMES[rng.integers(len(EXTREMES))]))
        case 4:
            tensors[name] = value[..., :-1].contiguous()
        case 5:
            tensors[name] = value[None].contiguous()
        case 6:
            tensors[name] = torch.zeros([0, *(int(n) for n in rng.integers(1, 10**5, 2))], dtype=value.dtype)
        case _:
            tensors[name] = torch.cat([value, value]) if value.ndim else value.clone()


def use_model(path: Path) -> bool:
    """Load a model file as the commands do; if it is accepted, it must label rows."""
    try:
        load(path)
        model, recipe = load_light_model(path)
    except ModelFileError as error:
        _check_message(error)
        return False
    X = rows(np.random.default_rng(0), 5, model.n_features)
    _check_labels(model.predict(X), model.n_clusters)
    json.dumps(model.facts)
    assert len(recipe.outputs) == model.n_features
    return True


def csv_text(rng: Generator, folder: Path) -> bool:
    """Read a CSV of hostile cells, for a fit and in batches."""
    cells = [
        "1",
        "2.5",
        "-3e5",
        "",
        "NA",
        "nan",
        "inf",
        "1e999",
        "x",
        '"',
        '""',
        '"a',
        "a,b",
        "\x00",
        "\x1b[2J",
        "\u202e",
    ]
    cells += ["2024-01-01", "true", "\r", "9" * 400, "\ufeff", "=1+1", "#", "\u00e9", "'", "\\", " ", "\t", "0x10"]
    plain = rng.random() < 0.4
    lines = []
    for _ in range(rng.integers(0, 8)):
        width = 3 if plain or rng.random() < 0.8 else int(rng.integers(0, 6))
        chosen = [f"{value:.3g}" for value in rng.normal(size=width)]
        for j in range(width):
            if not plain or rng.random() < 0.1:
                chosen[j] = cells[rng.integers(len(cells))]
        lines.append(",".join(chosen))
    content = ("a,b,c\n" if rng.random() < 0.7 else "") + ["\n", "\r\n", "\r"][rng.integers(3)].join(lines)
    data = content.encode()
    path = folder / "t.csv"
    path.write_bytes(damage(data, rng) if rng.random() < 0.3 and data else data)
    return _use_table(path, rng)


def table_raw(rng: Generator, folder: Path) -> bool:
    """Read a damaged table file of a binary format."""
    suffix = [".parquet", ".feather", ".npy", ".npz"][rng.integers(4)]
    path = folder / f"t{suffix}"
    path.write_bytes(damage(_table_bytes(suffix), rng))
    return _use_table(path, rng)


@cache
def _table_bytes(suffix: str) -> bytes:
    X = rows(np.random.default_rng(0))
    table, out = pa.table({"a": X[:, 0], "b": X[:, 1], "c": ["x", None] * 20}), io.BytesIO()
    match suffix:
        case ".parquet":
            pa_parquet.write_table(table, out)
        case ".feather":
            pa_feather.write_feather(table, out, compression="uncompressed")
        case ".npy":
            np.save(out, X)
        case _:
            np.savez(out, X=X)
    return out.getvalue()


def _use_table(path: Path, rng: Generator) -> bool:
    """Read a table as `knet fit` and as `knet predict` do."""
    flags = [bool(flag) for flag in rng.integers(0, 2, 3)]
    header = [None, True, False][rng.integers(3)]
    options = ColumnOptions(impute="median" if flags[0] else None, one_hot=flags[1], dates=flags[2])
    try:
        fitted = read_to_fit(str(path), options, DialectOptions(header=header))
        recipe = fitted.recipe
        X = recipe.apply(fitted.table)
        with Source(str(path), TextOptions(header=header)) as source:
            n_rows = sum(len(recipe.apply(batch)) for batch in source.batches(recipe.types(source.names)))
    except (ValueError, OSError) as error:
        _check_message(error)
        return False
    if X.shape != (n_rows, len(recipe.outputs)) or X.dtype != np.float64:
        raise UnsoundError(f"{X.shape} rows for a fit, {n_rows} in batches")
    return True


def _with_extremes(X: Any, rng: Generator) -> Any:
    if X.size:
        X.flat[rng.integers(X.size, size=3)] = EXTREMES[rng.integers(len(EXTREMES))]
    return X


def _of_other_type(X: Any, rng: Generator) -> Any:
    kinds = ["float32", "float16", "int64", "uint8", "bool", "complex64", "S3", "M8[s]", "object", "float32"]
    with np.errstate(all="ignore"):
        return X.astype(kinds[rng.integers(len(kinds))])


def _of_one_value(X: Any, rng: Generator) -> Any:
    X[:, :1] = 10.0 ** rng.uniform(-300, 300)
    return X


def _damaged_sparse(X: Any, rng: Generator) -> Any:
    """Return a sparse matrix, often with an index beyond its shape."""
    matrix = csr_array(X)
    if matrix.nnz:
        matrix.indices[rng.integers(matrix.nnz)] = [0, -1, X.shape[1], 2**31 - 1][rng.integers(4)]
    return matrix


STRANGE: list[Callable[[Any, Generator], Any]] = [
    _with_extremes,
    _of_other_type,
    _of_one_value,
    _damaged_sparse,
    lambda X, rng: np.ma.MaskedArray(X, rng.random(X.shape) < 0.1),
    lambda X, rng: OBJECTS[rng.integers(len(OBJECTS))],
    lambda X, rng: X[0] if len(X) else X[None],
    lambda X, rng: X[rng.integers(len(X), size=len(X))] if len(X) else X,
    lambda X, rng: np.repeat(X[:1], len(X), axis=0),
    lambda X, rng: pd.DataFrame(X).assign(more=OBJECTS[rng.integers(2, 5)]),
    lambda X, rng: np.asfortranarray(X)[::-1],
    lambda X, rng: torch.from_numpy(X).to([torch.float64, torch.bfloat16, torch.int32][rng.integers(3)]),
    lambda X, rng: X.tolist(),
    lambda X, rng: X,
    lambda X, rng: X.astype(np.float32),
]


def hostile_rows(rng: Generator, folder: Path) -> bool:
    """Fit rows of strange types, shapes and values."""
    n, d = int(rng.integers(0, 40)), int(rng.integers(0, 5))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-12, 12)
    strange = STRANGE[rng.integers(len(STRANGE))](X, rng)
    model = KNet(int(rng.integers(1, 5)), max_iter=1, random_state=0, hidden_layer_sizes=(8,), scale=_scale(rng))
    model.set_params(advanced__steps_per_iter=3, sigma=["auto", "median"][rng.integers(2)])
    return _fit(model, strange, rng)


def _scale(rng: Generator) -> str:
    return "none" if rng.random() < 0.25 else "standard"


ALLOWED: dict[str, list[Any]] = {
    "n_clusters": [1, 2, 3, 7],
    "u_update": ["eig", "sma"],
    "sigma": ["auto", "median", 0.01, 1.0, 50.0],
    "scale": ["standard", "none"],
    "hidden_layer_sizes": ["auto", (1,), [3, 2, 4]],
    "n_components": ["auto", None, 1, 2, 9],
    "train_size": ["auto", 0.5, 12],
    "n_init": [1, 3],
    "max_iter": [1, 3],
    "tol": [0.0, 1.0],
    "batch_size": ["auto", 2, 100],
    "learning_rate": [1e-5, 0.5],
    "advanced__u_columns": ["c-1", "c"],
    "advanced__degrees": ["fixed", "differentiated"],
    "advanced__laplacian": ["auto", "dense", "blocked", "nystroem"],
    "advanced__reconstruction_weight": ["balanced", 0.0, 1.0],
    "advanced__memory_budget": [0.01, 64],
}


def hostile_parameters(rng: Generator, folder: Path) -> bool:
    """Fit sound rows with rare or strange parameters."""
    model = KNet(2, max_iter=1, random_state=0, hidden_layer_sizes=(8,), advanced=Advanced(steps_per_iter=3))
    strange = rng.random() < 0.3
    names = sorted(set(model.get_params()) - {"advanced", "verbose", "callback", "encoder"} if strange else ALLOWED)
    small = [value for value in EXTREMES if not isinstance(value, int) or value < 10**6]
    for _ in range(rng.integers(1, 5)):
        name = names[rng.integers(len(names))]
        values = small + OBJECTS if strange else ALLOWED[name]
        model.set_params(**{name: values[rng.integers(len(values))]})
    return _fit(model, rows(rng, 30), rng)


def _fit(model: KNet, X: Any, rng: Generator) -> bool:
    """Fit a model; if the rows are accepted, everything that is promised of a fit must hold."""
    host = _host_state()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            with limit_threads(1):
                model.fit(X)
        except (ValueError, TypeError, KNetError) as error:
            _check_message(error)
            accepted = False
        else:
            accepted = True
            _check_fit(model, X, rng)
    if _host_state() != host:
        raise UnsoundError("the host's threads or random states changed")
    return accepted


def _host_state() -> tuple[Any, ...]:
    state = np.random.get_state()[1]  # noqa: NPY002  (the global state, which a fit must leave alone)
    return torch.get_num_threads(), torch.random.get_rng_state().numpy().tobytes(), state.tobytes()


def _check_fit(model: KNet, X: Any, rng: Generator) -> None:
    """Raise if a result is not finite, out of range, or depends on the batch, the order or the threads."""
    values = model._rows(X)
    labels, proba, score = model.predict(values), model.predict_proba(values), model.score_samples(values)
    _check_labels(labels, model.n_clusters)
    order = rng.permutation(values.shape[0])
    with limit_threads(2):
        again = KNet(**model.get_params(deep=False)).fit(X)
    rules = {
        "labels_ == predict": np.array_equal(labels, model.labels_),
        "finite": all(np.isfinite(result).all() for result in (proba, score, model.transform(values))),
        "proba sums to 1": np.allclose(proba.sum(1), 1, atol=1e-5),
        "proba agrees with predict": np.array_equal(proba.argmax(1), labels),
        "score at most 0": bool((score <= 1e-5).all()),
        "rows keep their labels in any order": np.array_equal(model.predict(values[order]), labels[order]),
        "one row = batch": model.predict(values[:1])[0] == labels[0],
        "same bits on two threads": np.array_equal(again.labels_, labels) and again.sigma_ == model.sigma_,
    }
    broken = [name for name, holds in rules.items() if not holds]
    if broken:
        raise UnsoundError(", ".join(broken))


def _check_labels(labels: Any, n_clusters: int) -> None:
    if len(labels) and not (labels.min() >= 0 and labels.max() < n_clusters):
        raise UnsoundError("a label is out of range")


def _check_message(error: Exception) -> None:
    if not str(error).strip():
        raise UnsoundError(f"{type(error).__name__} without a message")


CASES: dict[str, Case] = {
    "model-raw": model_raw,
    "model-crafted": model_crafted,
    "csv": csv_text,
    "table-raw": table_raw,
    "rows": hostile_rows,
    "parameters": hostile_parameters,
}
SHARES = {"model-raw": 0.35, "model-crafted": 0.3, "csv": 0.2, "table-raw": 0.1, "rows": 0.03, "parameters": 0.02}
