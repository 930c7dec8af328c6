"""Hostile rows, parameters and calls: what is fitted, with which parameters, and what a fitted model is asked.

Parameters come from the rules (`fuzz_values.ALLOWED`), methods from the classes: a new one is called too.
"""

import inspect
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from numpy.random import Generator
from scipy.sparse import csr_array

from benchmarks import fuzz_values as hostile
from benchmarks.fuzz_values import ALLOWED, OBJECTS, UnsoundError, choice, two_groups
from knet import Advanced, KNet, LightModel, scan
from knet.exceptions import KNetError
from knet.threads import limit_threads


def _with_extremes(X: Any, rng: Generator) -> Any:
    if X.size:
        X.flat[rng.integers(X.size, size=3)] = choice(rng, hostile.EXTREMES)
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


ROWS: list[Callable[[Any, Generator], Any]] = [
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
    strange = choice(rng, ROWS)(X, rng)
    model = KNet(choice(rng, [1, 2, 3, 4, "auto"]), max_iter=1, random_state=0, hidden_layer_sizes=(8,))
    model.set_params(advanced__steps_per_iter=3, sigma=choice(rng, ["auto", "median"]))
    model.set_params(**{name: choice(rng, ALLOWED[name]) for name in ("scale", "metric") if rng.random() < 0.5})
    return _fit(model, strange, rng)


def hostile_parameters(rng: Generator, folder: Path) -> bool:
    """Fit sound rows with rare or strange parameters."""
    model = KNet(2, max_iter=1, random_state=0, hidden_layer_sizes=(8,), advanced=Advanced(steps_per_iter=3))
    strange = rng.random() < 0.3
    names = sorted({*ALLOWED, "device", "random_state"} if strange else ALLOWED)
    for _ in range(rng.integers(1, 5)):
        name = choice(rng, names)
        if name.startswith("advanced__") and not isinstance(model.advanced, Advanced | None):
            continue
        model.set_params(**{name: choice(rng, hostile.STRANGE if strange else ALLOWED[name])})
    return _fit(model, two_groups(rng, 30), rng)


# Methods


@cache
def _fitted() -> KNet:
    X = pd.DataFrame(two_groups(np.random.default_rng(0)), columns=["a", "b", "c"])
    advanced = Advanced(steps_per_iter=3, keep_embeddings=True)
    return KNet(2, max_iter=1, random_state=0, hidden_layer_sizes=(8,), advanced=advanced).fit(X)


def public_methods() -> dict[str, Callable[..., Any]]:
    """Return what can be called: the methods of KNet and of the light model that knet defines, and `scan`."""
    found: dict[str, Callable[..., Any]] = {"scan": scan}
    for owner in (KNet, LightModel):
        for name, method in inspect.getmembers(owner, inspect.isfunction):
            if not name.startswith("_") and inspect.unwrap(method).__module__.startswith("knet."):
                found[f"{owner.__name__}.{name}"] = method
    return found


SAFE: dict[str, Callable[[Generator, Path], Any]] = {  # sound values of arguments; others have their default
    "X": lambda rng, folder: pd.DataFrame(two_groups(rng, 20), columns=["a", "b", "c"]),
    "Y": lambda rng, folder: pd.DataFrame(two_groups(rng, 5), columns=["a", "b", "c"]),
    "y": lambda rng, folder: None,
    "path": lambda rng, folder: folder / "out",
    "sample_weight": lambda rng, folder: choice(rng, [None, np.arange(20) % 3, rng.random(20)]),
    "known": lambda rng, folder: choice(
        rng, [None, [0, 1] + [None] * 18, ["a"] * 10 + ["b"] * 10, rng.integers(-1, 2, 20)]
    ),
    "must_link": lambda rng, folder: choice(rng, [None, [[0, 1]], rng.integers(0, 20, (3, 2))]),
    "cannot_link": lambda rng, folder: choice(rng, [None, [[0, 19]], rng.integers(0, 20, (3, 2))]),
    "clusters": lambda rng, folder: [0, 1],
    "cluster": lambda rng, folder: int(rng.integers(2)),
    "names": lambda rng, folder: {0: choice(rng, ["a", "=b", ""])},
    "n_clusters": lambda rng, folder: choice(rng, [None, "auto", 2, 3]),
    "counts": lambda rng, folder: choice(rng, [None, [1, 2], [2]]),
    "reject": lambda rng, folder: choice(rng, [None, 0.0, 0.05, 0.5]),
    "recipe": lambda rng, folder: None,
    "options": lambda rng, folder: {"n_refits": 0, "overwrite": bool(rng.integers(2))},
    "params": lambda rng, folder: {"tol": 0.1},
    "n_refits": lambda rng, folder: 1,
    "n_jobs": lambda rng, folder: None,
    "random_state": lambda rng, folder: 0,
    "max_rows": lambda rng, folder: 5,
    "max_clusters": lambda rng, folder: 3,
    "input_features": lambda rng, folder: None,
    "model": lambda rng, folder: _fitted(),
}


def arguments_of(method: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the arguments of a method, without `self`."""
    return [part for part in inspect.signature(method).parameters.values() if part.name != "self"]


def hostile_calls(rng: Generator, folder: Path) -> bool:
    """Call a method of a fitted model with strange rows or arguments; it must answer or refuse, and change nothing."""
    name = choice(rng, sorted(public_methods()))
    method, fitted = public_methods()[name], _fitted()
    given: dict[str, Any] = {}
    for part in arguments_of(method):
        if part.default is inspect.Parameter.empty or rng.random() < 0.5:
            value = SAFE[part.name](rng, folder) if part.name in SAFE else part.default
            given |= value if part.kind is inspect.Parameter.VAR_KEYWORD else {part.name: value}
    victims = [name for name in given if name not in ("path", "model")]
    if victims and rng.random() < 0.7:
        victim = choice(rng, victims)
        X = two_groups(rng, int(rng.integers(0, 9)), int(rng.integers(0, 5)))
        small = [value for value in hostile.STRANGE if not isinstance(value, float) or abs(value) < 100]
        given[victim] = choice(rng, ROWS)(X, rng) if victim in ("X", "Y") else choice(rng, small)
    owner = LightModel.of(fitted) if name.startswith("LightModel.") else KNet(**fitted.get_params(deep=False))
    if isinstance(owner, KNet):
        owner.__dict__.update(fitted.__dict__)
    before = {key: id(value) for key, value in vars(owner).items()}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            result = method(**given) if method is scan else method(owner, **given)
        except (ValueError, TypeError, OSError, KNetError) as error:
            hostile.check_message(error)
            if {key: id(value) for key, value in vars(owner).items()} != before:
                raise UnsoundError(f"{name} changed the model and failed") from error
            return False
    if isinstance(result, np.ndarray) and result.dtype.kind == "f" and not np.isfinite(result).all():
        raise UnsoundError(f"{name} returned NaN or infinity")
    return True


# What must hold


def _fit(model: KNet, X: Any, rng: Generator) -> bool:
    """Fit a model; if the rows are accepted, everything that is promised of a fit must hold."""
    host = hostile.host_state()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            with limit_threads(1):
                model.fit(X)
        except (ValueError, TypeError, KNetError) as error:
            hostile.check_message(error)
            accepted = False
        else:
            accepted = True
            check_fit(model, X, rng)
    if hostile.host_state() != host:
        raise UnsoundError("the host's threads or random states changed")
    return accepted


def check_fit(model: KNet, X: Any, rng: Generator) -> None:
    """Raise if a result is not finite, out of range, or depends on the batch, the order or the threads."""
    values = model._rows(X)
    labels, proba, score = model.predict(values), model.predict_proba(values), model.score_samples(values)
    with_values = ~np.isnan(values).all(1) if isinstance(values, np.ndarray) else np.ones(values.shape[0], dtype=bool)
    hostile.check_labels(labels[with_values], model.n_clusters_)
    order = rng.permutation(values.shape[0])
    with limit_threads(2):
        again = KNet(**model.get_params(deep=False)).fit(X)
    rules = {
        "labels_ == predict": np.array_equal(labels, model.labels_),
        "finite": all(np.isfinite(result).all() for result in (proba, score, model.transform(values))),
        "proba sums to 1": np.allclose(proba.sum(1), 1, atol=1e-5),
        "proba agrees with predict": np.array_equal(proba.argmax(1)[with_values], labels[with_values]),
        "rows without values have no label": bool((labels[~with_values] == -1).all()),
        "score at most 0": bool((score <= 1e-5).all()),
        "rows keep their labels in any order": np.array_equal(model.predict(values[order]), labels[order]),
        "one row = batch": model.predict(values[:1])[0] == labels[0],
        "same bits on two threads": np.array_equal(again.labels_, labels) and again.sigma_ == model.sigma_,
    }
    broken = [name for name, holds in rules.items() if not holds]
    if broken:
        raise UnsoundError(", ".join(broken))
