"""Reads a model file and checks everything in it, before anything is built from it.

A model file may come from a stranger. Its digest shows damage and is no proof of where the file comes from: anybody can
compute it. So the length and depth of the header's text, the type of each entry, and the name, type, shape, finiteness,
size and sign of each array are checked. A new entry is a new line in `HEADER`, a new array one in `ARRAYS`.
"""

import hashlib
import json
import math
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path

import numpy as np
import safetensors

from knet import parameters as rules
from knet.arrays import AnyArray, Json
from knet.exceptions import ModelFileError
from knet.files import check_readable
from knet.model.certainty import N_QUANTILES
from knet.model.naming import Naming
from knet.parameters import Allowed, Rule

Kinds = Mapping[str, tuple[object, tuple[int, ...]]]  # dtype and shape of each array

FORMAT, FORMAT_VERSION = "knet-model", 3
ENCODER = "encoder."
CODES = {"F64": "float64", "F32": "float32", "F16": "float16", "U8": "uint8", "BOOL": "bool"}
CODES |= {"I64": "int64", "I32": "int32", "I16": "int16", "I8": "int8"}  # their names in safetensors files
FLOATS = (np.dtype("float32"), np.dtype("float64"))
MAX_LENGTH = 2**24  # characters of a header
MAX_DEPTH = 64  # of objects inside objects in a header
MAX_DIGITS = 18  # of a whole number in a header
MAX_SIZE = 1e15  # of the numbers of a network: their products are finite in single precision
QUOTED = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"?', re.DOTALL)  # a text in JSON, also one that does not end


@dataclass(frozen=True)
class Array:
    """What an array of a model file must be.

    `shape` names the length of each axis: d columns, f columns that the encoder gets, c clusters, e columns of the
    embedding, k factors, m landmarks, u hinges, p places, q quantiles, or a number. The same name is the same length in
    all arrays. No number is smaller than `least` or, in absolute value, larger than `most`. `like_encoder` asks for the
    dtype of the centres, which the encoder uses. An `optional` array may be absent.
    """

    shape: Sequence[str]
    least: float = -math.inf
    most: float = math.inf
    like_encoder: bool = False
    optional: bool = False


TINY = 5e-324  # the smallest positive number
ARRAYS: dict[str, Array] = {
    "shift": Array("d"),
    "scale": Array("d", least=TINY),
    "tail_center": Array("d"),
    "tail_width": Array("d", least=0),
    "projection": Array("df", most=MAX_SIZE, optional=True),
    "gap_mean": Array("d", most=MAX_SIZE, optional=True),
    "gap_factors": Array("dk", most=MAX_SIZE, optional=True),
    "gap_noise": Array("d", least=0, most=MAX_SIZE, optional=True),
    "centers": Array("ce", most=MAX_SIZE, like_encoder=True),
    "landmarks": Array("me", most=MAX_SIZE, like_encoder=True),
    "weights": Array("m", least=1 / MAX_SIZE, most=MAX_SIZE),
    "hinge_directions": Array("fu"),
    "hinge_offsets": Array("u"),
    "hinge_slopes": Array("u"),
    "hinge_range": Array("3"),
    "places": Array("pf", most=MAX_SIZE),
    "place_weights": Array("p", least=1 / MAX_SIZE, most=MAX_SIZE),
    "place_width": Array("1", least=TINY),
    "score_quantiles": Array("q"),
    "cluster_sizes": Array("c", least=0),
    "column_means": Array("d"),
    "column_deviations": Array("d", least=TINY),
    "column_low": Array("d"),
    "column_high": Array("d"),
}


def _list_of(item: Rule) -> Rule:
    return lambda value: isinstance(value, list) and all(map(item[0], value)), f"a list, each item {item[1]}"


def _object_of(**entries: Rule) -> Rule:
    """Allow objects that have exactly these entries."""
    return (
        lambda value: (
            isinstance(value, dict)
            and value.keys() == entries.keys()
            and all(rule(value[name]) for name, (rule, _) in entries.items())
        ),
        f"an object of {', '.join(entries)}",
    )


NUMBER: Rule = (lambda value: isinstance(value, int | float) and not isinstance(value, bool), "a number")
TEXT, FLAG = rules.instance(str, "a text"), rules.instance(bool, "true or false")
OBJECT, TEXTS, COUNT, NO_VALUE = rules.instance(dict, "an object"), _list_of(TEXT), rules.integer(1), rules.nothing()
SCALARS = ("hsic", "reconstruction", "u_change", "u_error", "seconds")  # of an iteration
COMPARED = dict.fromkeys(("value", "border", "conductance", "gain"), NUMBER) | {
    "n_clusters": COUNT,
    "verdict": TEXT,
    "smallest_group": COUNT,
    "method": TEXT,
    "next_step": TEXT,
}
HEADER: dict[str, Allowed] = {
    "params": (OBJECT,),
    "unsaved": (TEXTS,),
    "encoder": ("mlp", "module"),
    "sigma": (rules.positive_number(),),
    "spread": (rules.positive_number(),),
    "unit_length": (FLAG,),
    "history": (_list_of(_object_of(iteration=COUNT, **dict.fromkeys(SCALARS, NUMBER))),),
    "best_iter": (rules.integer(0),),
    "selection": (_list_of(_object_of(method=TEXT, conductance=NUMBER, gain=NUMBER, score=NUMBER, chosen=FLAG)),),
    "caveats": (TEXTS,),
    "number": (
        _object_of(
            best=COUNT, verdict=TEXT, levels=_list_of(COUNT), advice=TEXT, table=_list_of(_object_of(**COMPARED))
        ),
    ),
    "hierarchy": (_list_of(_list_of(rules.integer(0))),),
    "n_train": (COUNT,),
    "n_features": (COUNT,),
    "feature_names": (NO_VALUE, TEXTS),
    "extra": (OBJECT,),
    "versions": (_object_of(**dict.fromkeys(("knet", "python", "numpy", "scikit-learn", "torch"), TEXT)),),
}
FITTED = ("history", "best_iter", "selection", "caveats", "number", "hierarchy", "n_train")  # attributes of KNet
PARAMS = rules.RULES | {"advanced": (NO_VALUE, OBJECT), "device": (TEXT,), "random_state": (NO_VALUE, rules.integer(0))}


def read_file(path: Path) -> tuple[dict[str, Json], dict[str, AnyArray]]:
    """Return header and arrays of a model file, checked, or raise one clear error."""
    check_readable(path, "model file")
    try:
        with safetensors.safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            if metadata.get("format") != FORMAT:
                raise ModelFileError("it is a safetensors file, but knet did not write it")
            header = read_header(metadata.get("header", ""))
            pieces = {name: file.get_slice(name) for name in file.keys()}
            kinds = {name: (_dtype(piece.get_dtype()), tuple(piece.get_shape())) for name, piece in pieces.items()}
            check_shapes(header, kinds)  # before any number is read
            arrays = {name: file.get_tensor(name) for name in kinds}
        if metadata.get("digest") != digest_of(metadata["header"], arrays):
            raise ModelFileError("it was changed after it was written: its digest does not match")
        check_values(header, arrays)
    except ModelFileError as error:
        raise ModelFileError(f"{path} is not a complete knet model: {_one_line(error)}.") from error
    except (safetensors.SafetensorError, OSError) as error:
        raise ModelFileError(f"{path} is not a model file, or it is damaged: {_one_line(error)}") from error
    return header, arrays


def check_content(text: str, arrays: Mapping[str, AnyArray]) -> None:
    """Raise a ModelFileError if a file with this header and these arrays would be refused."""
    header = read_header(text)
    check_shapes(header, {name: (value.dtype, value.shape) for name, value in arrays.items()})
    check_values(header, arrays)


def digest_of(text: str, arrays: Mapping[str, AnyArray]) -> str:
    """Return a hash of the header and every array; it differs if a file was changed or damaged."""
    digest = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        value = arrays[name]
        digest.update(f"{name}{value.dtype}{value.shape}".encode())
        digest.update(value.tobytes())
    return digest.hexdigest()


def read_header(text: str) -> dict[str, Json]:
    """Return the header of a file that this version of knet can read, or raise a ModelFileError.

    The length and depth of the text are checked first, so that the parser's memory and recursion are limited.
    """
    if len(text) > MAX_LENGTH:
        raise ModelFileError(f"its header has more than {MAX_LENGTH} characters")
    brackets = re.finditer(r"[\[\]{}]", QUOTED.sub("", text))
    if max(accumulate(1 if found[0] in "[{" else -1 for found in brackets), default=0) > MAX_DEPTH:
        raise ModelFileError(f"its header has more than {MAX_DEPTH} objects inside each other")
    try:
        header = json.loads(text, parse_int=_whole, parse_float=_finite, parse_constant=_finite)
    except ValueError as error:  # a ModelFileError is one
        raise ModelFileError(f"its header cannot be read: {error}") from error
    if not isinstance(header, dict):
        raise ModelFileError("its header is not an object")
    version = header.get("format_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ModelFileError("its format version is not a positive integer")
    if version != FORMAT_VERSION:
        advice = "Upgrade knet" if version > FORMAT_VERSION else "Fit the model again"
        raise ModelFileError(f"it has format version {version}; this knet reads version {FORMAT_VERSION}. {advice}")
    _check_entries(header)
    return header


def _whole(text: str) -> int:
    return int(text if len(text) <= MAX_DIGITS else _finite("inf"))


def _finite(text: str) -> float:
    """Return a number of the header; those that are not finite would make results NaN."""
    value = float(text)
    if not math.isfinite(value):
        raise ModelFileError("it holds NaN, infinity or a number that is too large")
    return value


def _check_entries(header: Mapping[str, Json]) -> None:
    """Raise a ModelFileError if an entry is missing, has a value that `save` never writes, or contradicts another."""
    missing = [name for name in HEADER if name not in header]
    if missing:
        raise ModelFileError(f"its header has no {missing[0]!r}")
    try:
        rules.check_each("the header", header, HEADER)
        params = header["params"]
        rules.check_each("KNet", params, PARAMS)
        rules.check_each("Advanced", params.get("advanced") or {}, rules.ADVANCED_RULES)
    except ValueError as error:
        raise ModelFileError(str(error)) from error
    names, history, chosen = header["feature_names"], header["history"], [row["chosen"] for row in header["selection"]]
    advanced, numbers = params.get("advanced"), [row["iteration"] for row in history]
    complaints = {
        "its parameters are not those of KNet": {*params, *header["unsaved"]} != PARAMS.keys(),
        "n_clusters is not its number of clusters": params.get("n_clusters") not in ("auto", header["number"]["best"]),
        "its hierarchy does not join all clusters": not _joins_all(header["hierarchy"], header["number"]["best"]),
        "its parameter 'advanced' is not complete": advanced is not None
        and advanced.keys() != rules.ADVANCED_RULES.keys(),
        "it does not name n_features columns": names is not None and len(names) != header["n_features"],
        "it has two columns of the same name": names is not None and len(set(names)) < len(names),
        "its iterations are not numbered from 1": numbers != list(range(1, len(history) + 1)),
        "best_iter is none of its iterations": header["best_iter"] > len(history),
        "its selection does not have one chosen candidate": sum(chosen) != bool(chosen),
    }
    for complaint, applies in complaints.items():
        if applies:
            raise ModelFileError(complaint)


def _joins_all(hierarchy: list[list[int]], n_clusters: int) -> bool:
    """Say whether pairs [kept, joined] leave one of the clusters 0, 1, ..., n_clusters - 1."""
    left = set(range(n_clusters))
    for pair in hierarchy:
        if len(pair) != 2 or pair[0] >= pair[1] or not left.issuperset(pair):
            return False
        left.remove(pair[1])
    return len(left) == 1


def _expected(header: Mapping[str, Json], names: Collection[str]) -> dict[str, Array]:
    """Return what the arrays must be; the layers of the default network form a chain from f to e columns."""
    if header["encoder"] == "module":  # a user's own module may hold anything
        return ARRAYS
    n_layers = max(2, sum(name.startswith(f"{ENCODER}weights.") for name in names))
    layers = {f"{ENCODER}skip": Array("fe", most=MAX_SIZE, like_encoder=True)}
    for layer, ends in enumerate(pairwise(["f", *(f"h{layer}" for layer in range(1, n_layers)), "e"])):
        layers[f"{ENCODER}weights.{layer}"] = Array(ends, most=MAX_SIZE, like_encoder=True)
        layers[f"{ENCODER}biases.{layer}"] = Array(ends[1:], most=MAX_SIZE, like_encoder=True)
    return ARRAYS | layers


def check_shapes(header: Mapping[str, Json], kinds: Kinds) -> None:
    """Raise a ModelFileError unless names, dtypes and shapes of all arrays fit the header and each other.

    `kinds` has the dtype and the shape of each array; its numbers are not needed, so a large file is refused at once.
    """
    sizes = {"d": header["n_features"], "c": header["number"]["best"], "q": N_QUANTILES, "1": 1, "3": 3}
    if "projection" not in kinds:
        sizes["f"] = sizes["d"]
    expected = _expected(header, kinds)
    for name, array in expected.items():
        if name in kinds or not array.optional:
            _check_array(name, array, kinds, sizes)
    if len({name in kinds for name in ("gap_mean", "gap_factors", "gap_noise")}) > 1:
        raise ModelFileError("it has only some of the arrays 'gap_mean', 'gap_factors' and 'gap_noise'")
    for name in sorted(kinds.keys() - expected.keys()):
        of_module = header["encoder"] == "module" and name.startswith(ENCODER)
        if not of_module or not isinstance(kinds[name][0], np.dtype):
            raise ModelFileError(f"it holds an unknown array {name!r}, of dtype {kinds[name][0]}")
    try:
        Naming.from_json(header.get("naming"), sizes["c"], sizes["p"])
    except ValueError as error:
        raise ModelFileError(f"its labels and names of clusters do not fit: {error}") from error


def _check_array(name: str, array: Array, kinds: Kinds, sizes: dict[str, int]) -> None:
    """Check the dtype and the shape of an array, and add the lengths of its axes to `sizes`."""
    if name not in kinds:
        raise ModelFileError(f"it has no array {name!r}")
    dtype, shape = kinds[name]
    if dtype not in FLOATS or (array.like_encoder and dtype != kinds["centers"][0]):
        raise ModelFileError(f"the array {name!r} has the dtype {dtype}")
    fits = len(shape) == len(array.shape) and all(
        length == sizes.setdefault(axis, length) and length > 0 for axis, length in zip(array.shape, shape, strict=True)
    )
    if not fits:
        known = ", ".join(f"{axis} = {sizes[axis]}" for axis in array.shape if axis in sizes)
        raise ModelFileError(f"the array {name!r} does not fit the others: its shape is {shape}; {known}")


def check_values(header: Mapping[str, Json], arrays: Mapping[str, AnyArray]) -> None:
    """Raise a ModelFileError if an array holds NaN, infinity, or numbers that are too large or of the wrong sign."""
    for name, rule in _expected(header, arrays).items():
        values = arrays.get(name, np.ones(1))  # an optional array may be absent
        if not np.isfinite(values).all() or float(np.abs(values).max()) > rule.most:
            raise ModelFileError(f"the array {name!r} holds NaN, infinity or numbers that are too large")
        if float(values.min()) < rule.least:
            raise ModelFileError(f"the array {name!r} must be {'positive' if rule.least else 'zero or positive'}")


def _dtype(code: str) -> object:
    """Return the dtype of an array; the code itself if model files never have it."""
    return np.dtype(CODES[code]) if code in CODES else code


def _one_line(error: object) -> str:
    """Return the start of an error message, as one line."""
    return " ".join(str(error).split())[:200].rstrip(".")
