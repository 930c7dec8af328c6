"""The rules for the content of a model file, checked before anything is built from it.

A model file may come from a stranger, and a digest can be computed by anybody. So names, types, shapes, finiteness and
signs of everything in the file are checked. A new array is a new line in `ARRAYS`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from knet import parameters as rules
from knet.exceptions import ModelFileError
from knet.model.certainty import N_QUANTILES

Rule = tuple[Callable[[Any], bool], str]
Kinds = Mapping[str, tuple[object, tuple[int, ...]]]  # dtype and shape of each array
Sizes = dict[str, int]  # length of each axis, by its letter

ENCODER = "encoder."
FLOATS = (np.dtype("float32"), np.dtype("float64"))
PLAIN = (*FLOATS, *map(np.dtype, ("float16", "int64", "int32", "int16", "int8", "uint8", "bool")))
MAX_DEPTH = 64  # of objects inside objects in a header


@dataclass(frozen=True)
class Array:
    """What an array of a model file must be.

    `shape` names the length of each axis: d columns, f columns that the encoder gets, c clusters, e columns of the
    embedding, m landmarks, u hinges, p places, q quantiles, or a number. The same letter is the same length in all
    arrays. `like_encoder` asks for the dtype of the centres, which the encoder uses. An `optional` array may be absent.
    """

    shape: str
    positive: bool = False
    not_negative: bool = False
    like_encoder: bool = False
    optional: bool = False


ARRAYS: dict[str, Array] = {
    "shift": Array("d"),
    "scale": Array("d", positive=True),
    "tail_center": Array("d"),
    "tail_width": Array("d", not_negative=True),
    "projection": Array("df", optional=True),
    "centers": Array("ce", like_encoder=True),
    "landmarks": Array("me", like_encoder=True),
    "weights": Array("m", positive=True),
    "hinge_directions": Array("fu"),
    "hinge_offsets": Array("u"),
    "hinge_slopes": Array("u"),
    "hinge_range": Array("3"),
    "places": Array("pf"),
    "place_weights": Array("p", positive=True),
    "place_width": Array("1", positive=True),
    "score_quantiles": Array("q"),
}


def _table_of(*columns: str) -> Rule:
    """Allow lists of objects that have at least these entries, all of them plain values."""
    plain = str | int | float | None  # bool is an int
    return (
        lambda value: (
            isinstance(value, list)
            and all(
                isinstance(row, dict)
                and row.keys() >= set(columns)
                and all(isinstance(cell, plain) for cell in row.values())
                for row in value
            )
        ),
        f"a list of objects with {', '.join(columns)}",
    )


def _text_list() -> Rule:
    return lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value), "a list of text"


HEADER: dict[str, tuple[Any, ...]] = {
    "params": (rules.instance(dict, "an object"),),
    "unsaved": (_text_list(),),
    "encoder": ("mlp", "module"),
    "sigma": (rules.positive_number(),),
    "spread": (rules.positive_number(),),
    "unit_length": (rules.instance(bool, "true or false"),),
    "history": (_table_of("iteration", "hsic", "reconstruction", "u_change"),),
    "best_iter": (rules.integer(0),),
    "selection": (_table_of("method", "conductance", "chosen"),),
    "n_train": (rules.integer(1),),
    "n_features": (rules.integer(1),),
    "feature_names": (rules.nothing(), _text_list()),
    "extra": (rules.instance(dict, "an object"),),
}


def check_header(header: Mapping[str, Any]) -> None:
    """Raise a ModelFileError if an entry of the header is missing or has a value that `save` never writes."""
    _check_depth(header)
    for name, allowed in HEADER.items():
        if name not in header:
            raise ModelFileError(f"it is not complete: its header has no {name!r}")
        try:
            rules.check_each("the header", {name: header[name]}, {name: allowed})
        except (ValueError, OverflowError) as error:
            raise ModelFileError(_short(str(error))) from error
    names = header["feature_names"]
    if names is not None and len(names) != header["n_features"]:
        raise ModelFileError(f"it names {len(names)} columns, and n_features is {header['n_features']}")


def _check_depth(header: Mapping[str, Any]) -> None:
    """Raise a ModelFileError if objects are nested so deeply that other code could fail on them."""
    level: list[Any] = [header]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for item in level
            for inner in (item.values() if isinstance(item, Mapping) else item)
            if isinstance(inner, dict | list)
        ]
        if not level:
            return
    raise ModelFileError(f"its header has more than {MAX_DEPTH} objects inside each other")


def check_shapes(header: Mapping[str, Any], kinds: Kinds) -> None:
    """Raise a ModelFileError unless names, dtypes and shapes of all arrays fit the header and each other.

    `kinds` has the dtype and the shape of each array; its numbers are not needed, so a large file is refused at once.
    """
    n_clusters = header["params"].get("n_clusters")
    if not isinstance(n_clusters, int) or isinstance(n_clusters, bool):
        raise ModelFileError(f"n_clusters must be an integer. Got {_short(repr(n_clusters))}")
    sizes: Sizes = {"d": header["n_features"], "c": n_clusters, "q": N_QUANTILES, "1": 1, "3": 3}
    if "projection" not in kinds:
        sizes["f"] = sizes["d"]
    for name, array in ARRAYS.items():
        if name in kinds or not array.optional:
            _check_array(name, array, kinds, sizes)
    own = {name: kind for name, kind in kinds.items() if name.startswith(ENCODER)}
    unknown = sorted(kinds.keys() - ARRAYS.keys() - own.keys())
    if unknown:
        raise ModelFileError(f"it holds an unknown array {_short(repr(unknown[0]))}")
    if header["encoder"] == "mlp":
        _check_layers(own, sizes, kinds["centers"][0])
    for name, (dtype, _) in own.items():
        if dtype not in PLAIN:
            raise ModelFileError(f"the array {_short(repr(name))} has the dtype {dtype}")


def _check_array(name: str, array: Array, kinds: Kinds, sizes: Sizes) -> None:
    """Check the dtype and the shape of an array, and add the lengths of its axes to `sizes`."""
    if name not in kinds:
        raise ModelFileError(f"it is not complete: it has no array {name!r}")
    dtype, shape = kinds[name]
    if dtype not in FLOATS or (array.like_encoder and dtype != kinds["centers"][0]):
        raise ModelFileError(f"the array {name!r} has the dtype {dtype}")
    fits = len(shape) == len(array.shape) and all(
        length == sizes.setdefault(axis, length) and length > 0 for axis, length in zip(array.shape, shape, strict=True)
    )
    if not fits:
        known = ", ".join(f"{axis} = {sizes[axis]}" for axis in array.shape if axis in sizes)
        raise ModelFileError(f"the array {name!r} does not fit the others: its shape is {shape}; {known}")


def _check_layers(kinds: Kinds, sizes: Sizes, dtype: object) -> None:
    """Check that the arrays of the default network form a chain of layers from f to e columns."""
    n_layers = sum(name.startswith(f"{ENCODER}weights.") for name in kinds)
    widths = [kinds.get(f"{ENCODER}weights.{layer}", (dtype, ()))[1][-1:] for layer in range(n_layers - 1)]
    if n_layers < 2 or not all(widths):
        raise ModelFileError(
            "its encoder is not complete: there must be a weights array for each of at least two layers"
        )
    chain = [sizes["f"], *(width[0] for width in widths), sizes["e"]]
    expected: dict[str, tuple[int, ...]] = {f"{ENCODER}skip": (sizes["f"], sizes["e"])}
    for layer, (n_in, n_out) in enumerate(pairwise(chain)):
        expected |= {f"{ENCODER}weights.{layer}": (n_in, n_out), f"{ENCODER}biases.{layer}": (n_out,)}
    for name in sorted(expected.keys() | kinds.keys()):
        if min(chain) < 1 or kinds.get(name) != (dtype, expected.get(name)):
            raise ModelFileError(f"the encoder does not fit: the array {_short(repr(name))} is {kinds.get(name)}")


def check_values(header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Raise a ModelFileError if an array holds NaN, infinity, or numbers of the wrong sign."""
    for name, values in arrays.items():
        checked = name in ARRAYS or header["encoder"] == "mlp"  # a user's own module may hold anything
        if checked and not np.isfinite(values).all():
            raise ModelFileError(f"the array {name!r} holds NaN or infinity")
        if name in ARRAYS and ARRAYS[name].positive and values.min() <= 0:
            raise ModelFileError(f"the array {name!r} must be positive")
        if name in ARRAYS and ARRAYS[name].not_negative and values.min() < 0:
            raise ModelFileError(f"the array {name!r} must not be negative")


def _short(text: str, most: int = 200) -> str:
    return text if len(text) <= most else f"{text[:most]}..."
