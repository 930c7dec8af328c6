"""Dataclasses from the JSON of a file that may come from a stranger: every entry is there, and has its type."""

import math
from dataclasses import is_dataclass
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints


def restore(kind: Any, data: Any, name: str = "it") -> Any:
    """Return data as the type `kind`: a dataclass, tuple[X, ...], X | None, str, bool, int or float; or raise an error.

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
