"""Hostile model files: damaged bytes, and crafted content with a valid digest, from a file that has every entry."""

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.random import Generator
from safetensors.torch import save
from typer.testing import CliRunner

from benchmarks.fuzz_values import EXTREMES, OBJECTS, check_labels, check_message, choice, damage, two_groups
from knet import Advanced, KNet, load
from knet.cli.app import app
from knet.cli.models import load_light_model
from knet.exceptions import ModelFileError
from knet.model import read
from knet.tables import Recipe

WRONG: list[Any] = EXTREMES + OBJECTS


def mixed_table(n: int = 40) -> pd.DataFrame:
    """Return a table with columns of all kinds, ids and known groups."""
    X = two_groups(np.random.default_rng(0), n, 2)
    days = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(n) % 8 * 9, unit="D")
    text = {"kind": np.where(X[:, 0] > 3, "big", "small"), "day": days, "ok": X[:, 1] > 3}
    frame = pd.DataFrame({"id": [f"r{j:03}" for j in range(n)], "a": X[:, 0], "b": X[:, 1], **text})
    frame.loc[::9, "b"] = np.nan
    return frame.assign(group=np.arange(n) < n // 2)


@cache
def model_bytes() -> bytes:
    """Return a sound model file with all entries: a recipe of all kinds of columns, and numbers that were compared."""
    frame = mixed_table()
    recipe = Recipe(drop=["id", "group"], one_hot=True, dates=True).set_output(transform="pandas")
    model = KNet("auto", max_clusters=3, max_iter=1, random_state=0, hidden_layer_sizes=(8, 8))
    model.set_params(advanced=Advanced(steps_per_iter=5))
    with TemporaryDirectory() as folder:
        path = Path(folder, "m")
        model.fit(recipe.fit_transform(frame)).save(path, recipe=recipe)
        return path.read_bytes()


@cache
def model_content() -> tuple[dict[str, Any], dict[str, torch.Tensor]]:
    """Return the header and the arrays of the sound model file."""
    with TemporaryDirectory() as folder:
        path = Path(folder, "m")
        path.write_bytes(model_bytes())
        header, arrays = read.read_file(path)
        return header, {name: torch.tensor(value) for name, value in arrays.items()}


def paths_of(value: Any, start: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all entries of a header, at all depths; of a list, its first and last item are enough."""
    keys: list[Any] = list(value) if isinstance(value, dict) else sorted({0, len(value) - 1}) if value else []
    found = [(*start, key) for key in keys]
    return found + [
        path for key in keys if isinstance(value[key], dict | list) for path in paths_of(value[key], (*start, key))
    ]


@cache
def header_paths() -> list[tuple[Any, ...]]:
    """Return the paths of all entries of the sound header, which has every entry that the schema names."""
    header = model_content()[0]
    if (
        absent := {*read.HEADER, *(f"params.{name}" for name in read.PARAMS)}
        - {".".join(map(str, path)) for path in paths_of(header)}
        - {f"params.{name}" for name in header["unsaved"]}
    ):
        raise LookupError(f"the sound model file has no {sorted(absent)}")
    return paths_of(header)


def model_raw(rng: Generator, folder: Path) -> bool:
    """Load a damaged model file."""
    path = folder / "m"
    path.write_bytes(damage(model_bytes(), rng))
    return path.read_bytes() == model_bytes() or use_model(path, rng)


def model_crafted(rng: Generator, folder: Path) -> bool:
    """Load a model file with a valid digest and some values, entries or arrays replaced."""
    genuine, arrays = model_content()
    header, tensors = json.loads(json.dumps(genuine)), dict(arrays)
    for _ in range(rng.integers(1, 3)):
        if rng.random() < 0.6:
            _change_value(header, rng)
        else:
            _change_array(tensors, rng)
    text = "[" * 100_000 if rng.random() < 0.01 else json.dumps(header)  # a parser may run out of stack
    path = folder / "m"
    write_model(path, text, tensors)
    return use_model(path, rng)


def write_model(path: Path, text: str, tensors: dict[str, torch.Tensor]) -> None:
    """Write a model file of any header and arrays, with a valid digest."""
    known = {name: value for name, value in tensors.items() if value.dtype != torch.bfloat16}
    digest = read.digest_of(text, {name: value.numpy() for name, value in known.items()})
    path.write_bytes(save(tensors, {"format": read.FORMAT, "header": text, "digest": digest}))


def _change_value(header: dict[str, Any], rng: Generator) -> None:
    """Replace, remove, rename or repeat an entry somewhere in a header."""
    *parents, key = choice(rng, header_paths())
    place: Any = header
    try:
        for parent in parents:
            place = place[parent]
        before = place[key]
    except (KeyError, IndexError, TypeError):  # another change has removed it
        return
    match rng.integers(6):
        case 0:
            del place[key]
        case 1 if isinstance(place, dict):
            place[str(choice(rng, WRONG))] = place.pop(key)
        case 2 if isinstance(before, int | float) and not isinstance(before, bool):
            place[key] = before * 10.0 ** rng.integers(-400, 300) * float(rng.choice([-1, 1]))
        case 3 if isinstance(before, list):
            place[key] = [*before, *before[-1:]]
        case _:
            place[key] = choice(rng, WRONG)


def _change_array(tensors: dict[str, torch.Tensor], rng: Generator) -> None:
    """Replace an array by a similar one, remove it, or rename it."""
    name = choice(rng, sorted(tensors))
    value = tensors[name]
    kinds = [torch.float16, torch.bfloat16, torch.float32, torch.int64, torch.bool, torch.uint8]
    match rng.integers(9):
        case 0:
            del tensors[name]
        case 1:
            tensors[name + "x"] = tensors.pop(name)
        case 2:
            tensors[name] = value.to(choice(rng, kinds))
        case 3:
            tensors[name] = torch.full_like(value, float(choice(rng, EXTREMES)))
        case 4:
            tensors[name] = value[..., :-1].contiguous()
        case 5:
            tensors[name] = value[None].contiguous()
        case 6:
            tensors[name] = torch.zeros([0, *(int(n) for n in rng.integers(1, 10**5, 2))], dtype=value.dtype)
        case 7:
            tensors[name] = value * float(10.0 ** rng.integers(-30, 38))
        case _:
            tensors[name] = torch.cat([value, value]) if value.ndim else value.clone()


def use_model(path: Path, rng: Generator) -> bool:
    """Load a model file in all ways; if it is accepted, it must label rows, and the commands must be able to use it."""
    try:
        load(path)
        model, recipe = load_light_model(path)
    except ModelFileError as error:
        check_message(error)
        return False
    X = two_groups(np.random.default_rng(0), 5, model.n_features)
    check_labels(model.predict(X), model.n_clusters)
    assert all(np.isfinite(found).all() for found in (model.predict_proba(X), model.score_samples(X)))
    assert len(recipe.outputs) == model.n_features
    mixed_table().to_csv(path.with_name("t.csv"), index=False)
    commands = [["info", path, "--json"], ["predict", path, path.with_name("t.csv"), "--proba", "--levels"]]
    if rng.random() < 0.1:
        commands.append(["report", path, path.with_name("t.csv"), "-o", path.with_name("r.html"), "--n-refits", "0"])
    for arguments in commands:
        done = CliRunner().invoke(app, list(map(str, arguments)))
        if done.exit_code not in (0, 2) or (done.exception and not isinstance(done.exception, SystemExit)):
            raise done.exception or AssertionError(done.output)
    return True
