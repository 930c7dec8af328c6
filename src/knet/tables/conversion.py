"""How the columns of a table become numbers: categories one-hot encoded, dates counted in days; gaps stay gaps (NaN).

A `Conversion` is learned once, by the fit, and stored in the model file, so that new files are converted in the same
way. `knet.tables.Recipe` is the transformer of scikit-learn that learns one from a DataFrame and applies it.
"""

import difflib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from types import UnionType
from typing import Any, Self, get_args, get_origin, get_type_hints

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from knet.arrays import Json
from knet.exceptions import ModelFileError
from knet.rows.kinds import some
from knet.tables.cells import ALL_DATE_FORMS, MISSING, Column, without
from knet.tables.dialect import Dialect

MICROSECONDS_PER_DAY = 86_400_000_000
OTHER = "(other)"  # the category of rare values
COLUMN_KINDS = ("number", "flag", "category", "date")


@dataclass(frozen=True)
class Conversion:
    """What was learned about the columns that a model uses, in order; the file is read in this dialect if in doubt."""

    columns: tuple[Column, ...]
    ids: tuple[str, ...] = ()
    target: str | None = None
    dialect: Dialect | None = None

    @classmethod
    def from_json(cls, data: object) -> Self:
        """Return a conversion from the output of `to_json`, or raise an error if it is none: it may be a stranger's."""
        found: Self = restore(cls, data, "the recipe")
        for column in found.columns:
            if column.kind not in COLUMN_KINDS or column.date_form not in ALL_DATE_FORMS:
                raise ValueError(f"there are no columns of kind {column.kind!r} with dates like {column.date_form!r}.")
        return found

    @classmethod
    def checked(cls, stored: object, n_features: int) -> Self:
        """Return the conversion that is stored with a model of so many columns, or raise a ModelFileError."""
        try:
            found = cls.from_json(stored)
        except ValueError as error:
            raise ModelFileError(f"The model has a damaged recipe of its columns: {error}") from error
        if len(found.outputs) != n_features:
            raise ModelFileError("The model has a recipe of columns that does not fit it.")
        return found

    @classmethod
    def of_numbers(cls, names: Iterable[str]) -> Self:
        """Return the conversion of a model that was fitted without one: its columns, as numbers."""
        return cls(tuple(Column(name, "number") for name in names))

    def to_json(self) -> dict[str, Json]:
        """Return the conversion as data for a JSON file."""
        return asdict(self)

    @property
    def outputs(self) -> list[str]:
        """Return the names of the numeric columns that the model uses."""
        return [name for column in self.columns for name in column.outputs]

    @property
    def gaps(self) -> dict[str, int]:
        """Return how many values were missing in training, of the columns in which some were."""
        return {column.name: column.n_missing for column in self.columns if column.n_missing}

    def types(self, present: Sequence[str], *others: str | None) -> dict[str, Column]:
        """Return what to read the columns as, `others` as text, or raise an error that names missing columns."""
        missing = [column.name for column in self.columns if column.name not in present]
        if missing:
            listed, hint = some([repr(name) for name in missing]), near_miss(missing[0], present)
            raise ValueError(f"The model needs the column{'s' * (len(missing) > 1)} {listed}, missing here.{hint}")
        types = {column.name: column for column in self.columns}
        return types | {name: Column(name, "text") for name in others if name is not None}

    def apply(self, table: pa.Table, unseen: Counter[str] | None = None) -> NDArray[np.float64]:
        """Return the rows as numbers, (n, number of outputs).

        In `unseen`, the rows with a category that was not seen in training are counted for each column.
        """
        return np.column_stack([_to_outputs(table[column.name], column, unseen) for column in self.columns])


def _to_outputs(values: pa.ChunkedArray, column: Column, unseen: Counter[str] | None) -> NDArray[np.float64]:
    """Return a column as numbers, (n,) or (n, levels)."""
    kind = kind_of(values.type)
    if kind == "number" and column.kind == "flag" and not pa.types.is_null(values.type):
        values = pc.not_equal(values, 0)
    elif kind != column.kind and not pa.types.is_null(values.type) and {kind, column.kind} != {"number", "flag"}:
        raise ValueError(f"Column {column.name!r} holds {values.type}; the model learned it as a {column.kind}.")
    if column.kind == "category":
        return _one_hot(to_text(values), column, unseen)
    return to_numbers(values, column.kind)


def _one_hot(values: pa.ChunkedArray, column: Column, unseen: Counter[str] | None) -> NDArray[np.float64]:
    """Return one 0/1 column per category, NaN for missing values.

    Values that were not seen in training, or rarely, belong to `OTHER` if there is such a category; otherwise they get
    zeros and are counted.
    """
    levels = pa.array(column.levels, pa.string())
    other = column.levels.index(OTHER) if OTHER in column.levels else -1
    codes = pc.fill_null(pc.index_in(values, value_set=levels), other).to_numpy()
    out, missing = np.zeros((len(values), len(levels))), values.is_null().to_numpy()
    known = np.flatnonzero(codes >= 0)
    out[known, codes[known]] = 1.0
    out[missing] = np.nan
    if unseen is not None and (n_unseen := int(((codes < 0) & ~missing).sum())):
        unseen[column.name] += n_unseen
    return out


def kind_of(type_: pa.DataType) -> str:
    """Return what a column of this Arrow type holds: number, flag, category, date or other."""
    types = pa.types
    if types.is_boolean(type_):
        return "flag"
    if types.is_integer(type_) or types.is_floating(type_) or types.is_decimal(type_) or types.is_null(type_):
        return "number"
    is_text = types.is_string(type_) or types.is_large_string(type_) or types.is_string_view(type_)
    if is_text or types.is_dictionary(type_):
        return "category"
    return "date" if types.is_date(type_) or types.is_timestamp(type_) else "other"


def to_numbers(values: pa.ChunkedArray, kind: str) -> NDArray[np.float64]:
    """Return numbers, flags (0 and 1) or dates (days since 1970) as floats, with NaN for missing values."""
    if kind == "date":
        zone_free = values.cast(pa.timestamp("us", tz=getattr(values.type, "tz", None)))
        values = pc.divide(zone_free.cast(pa.int64()).cast(pa.float64()), float(MICROSECONDS_PER_DAY))
    numbers: NDArray[np.float64] = values.cast(pa.float64()).to_numpy()
    return numbers


def to_text(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return categories as text; the words that mean a missing number mean a missing text too, as in pandas."""
    if pa.types.is_dictionary(values.type):
        chunks = [chunk.dictionary.cast(pa.string()).take(chunk.indices) for chunk in values.chunks]
        values = pa.chunked_array(chunks, pa.string())
    return without(values.cast(pa.string()), MISSING)


def count_missing(values: pa.ChunkedArray, kind: str) -> int:
    """Return how many values are missing or NaN."""
    return int(to_text(values).null_count if kind == "category" else np.isnan(to_numbers(values, kind)).sum())


def restore(kind: Any, data: Any, name: str = "it") -> Any:
    """Return JSON as the type `kind`: a dataclass, tuple[X, ...], X | None, str, bool, int or float; or raise an error.

    Examples
    --------
    >>> restore(tuple[str, ...], ["a", "b"])
    ('a', 'b')
    """
    inner = [argument for argument in get_args(kind) if argument not in (type(None), ...)]
    if get_origin(kind) is UnionType:
        return None if data is None else restore(inner[0], data, name)
    if get_origin(kind) is tuple and isinstance(data, list | tuple):
        return tuple(restore(inner[0], item, f"an item of {name}") for item in data)
    if is_dataclass(kind) and isinstance(data, dict):
        hints = get_type_hints(kind)
        if data.keys() != hints.keys():
            raise ValueError(f"{name} must have exactly the entries {', '.join(hints)}.")
        return kind(**{own: restore(hint, data[own], repr(own)) for own, hint in hints.items()})  # type: ignore[operator]
    value = float(data) if kind is float and type(data) is int else data
    if type(value) is not kind or (kind is float and not math.isfinite(value)):
        raise ValueError(f"{name} must be of type {getattr(kind, '__name__', kind)}. Got {str(data)[:40]!r} instead.")
    return value


def describe_unseen(counts: Mapping[str, int]) -> list[str]:
    """Return a sentence on each column in which rows have categories that were not seen in training."""
    rows = {name: "1 row has" if count == 1 else f"{count:,} rows have" for name, count in counts.items()}
    unseen = "that was not seen in training; it is encoded as zeros."
    return [f"{some_rows} a value in {name!r} {unseen}" for name, some_rows in rows.items()]


def check_names(names: Iterable[str | None], present: Sequence[str], where: str = "the table") -> None:
    """Raise an error if a table does not have these columns; None is no name."""
    for name in names:
        if name is not None and name not in present:
            raise ValueError(f"There is no column {name!r} in {where}.{near_miss(name, present)}")


def near_miss(name: str, present: Sequence[str]) -> str:
    """Return a hint: the most similar name, or the names that exist."""
    close = difflib.get_close_matches(name, present, n=1)
    return f" Did you mean {close[0]!r}?" if close else f" It has {some([repr(other) for other in present])}."
