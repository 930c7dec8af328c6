"""The parameters of `KNet` and of `Advanced`: which values are allowed, and the messages for those that are not.

The commands check parameters before they import torch, so nothing here needs it.
"""

import difflib
import math
from collections.abc import Callable, Collection, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np

Rule = tuple[Callable[[Any], bool], str]  # a test of a value, and what the message calls the allowed values
Allowed = tuple[str | Rule, ...]  # of a parameter: texts, and rules for other values
Params = dict[str, Any]  # parameters by name; a parameter may have a value of any type, and is checked


def _is_int(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool | np.bool_)


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_) and math.isfinite(value)


def integer(minimum: int) -> Rule:
    """Allow whole numbers from `minimum` on."""
    return lambda value: _is_int(value) and value >= minimum, f"an integer >= {minimum}"


def positive_number() -> Rule:
    """Allow finite numbers above zero."""
    return lambda value: _is_number(value) and value > 0, "a number > 0"


def nonnegative_number() -> Rule:
    """Allow finite numbers from zero on."""
    return lambda value: _is_number(value) and value >= 0, "a number >= 0"


def factor() -> Rule:
    """Allow numbers that multiply a measured width; squares of much smaller or larger ones are no floats."""
    return lambda value: _is_number(value) and 1e-9 <= value <= 1e9, "a number in [1e-9, 1e9]"


def fraction() -> Rule:
    """Allow floats in (0, 1]."""
    return lambda value: _is_number(value) and not _is_int(value) and 0 < value <= 1, "a fraction in (0, 1]"


def sizes() -> Rule:
    """Allow tuples and lists of whole numbers from 1 on, not empty."""
    return lambda value: _are_sizes(value), "a tuple of integers >= 1"


def _are_sizes(value: object) -> bool:
    return isinstance(value, tuple | list) and len(value) > 0 and all(_is_int(n) and n >= 1 for n in value)


def positive_numbers() -> Rule:
    """Allow tuples and lists of positive numbers, not empty."""
    is_positive, _ = positive_number()
    return (
        lambda value: isinstance(value, tuple | list) and len(value) > 0 and all(map(is_positive, value)),
        "a tuple of positive numbers",
    )


def nothing() -> Rule:
    """Allow None."""
    return lambda value: value is None, "None"


def function() -> Rule:
    """Allow anything that can be called."""
    return callable, "a callable"


def instance(kind: type, name: str) -> Rule:
    """Allow instances of `kind`."""
    return lambda value: isinstance(value, kind), name


def module() -> Rule:
    """Allow networks of torch, not their classes."""
    return lambda value: hasattr(value, "state_dict") and not isinstance(value, type), "a torch.nn.Module"


def advanced() -> Rule:
    """Allow a `knet.Advanced`."""
    return lambda value: type(value).__name__ == "Advanced" and hasattr(value, "get_params"), "a knet.Advanced"


def check_parameter(owner: str, name: str, value: object, choices: Collection[str], rules: list[Rule]) -> None:
    """Raise unless `value` is one of the strings in `choices` or passes one of `rules`."""
    if (isinstance(value, str) and value in choices) or any(rule(value) for rule, _ in rules):
        return
    allowed = [repr(choice) for choice in choices] + [text for _, text in rules]
    listed = " or ".join(filter(None, [", ".join(allowed[:-1]), allowed[-1]]))
    close = difflib.get_close_matches(value.lower(), choices, n=1) if isinstance(value, str) else []
    hint = f"; did you mean {close[0]!r}?" if close else "."
    raise ValueError(f"The {name!r} parameter of {owner} must be {listed}. Got {value!r} instead{hint}")


def check_each(owner: str, params: Mapping[str, object], rules: Mapping[str, Allowed]) -> None:
    """Check the given parameters by `rules`, whose entries list allowed strings and (rule, text) pairs."""
    for name, value in params.items():
        if allowed := rules.get(name):
            choices = [item for item in allowed if isinstance(item, str)]
            check_parameter(owner, name, value, choices, [item for item in allowed if not isinstance(item, str)])


def check_parameters(owner: str, params: Params) -> None:
    """Raise if a parameter of a KNet, or of its `advanced` object, has a value that is not allowed."""
    check_each(owner, params, RULES)
    if params.get("advanced") is not None:
        check_each("Advanced", params["advanced"].get_params(deep=False), ADVANCED_RULES)


RULES: dict[str, Allowed] = {
    "n_clusters": ("auto", integer(1)),
    "max_clusters": (nothing(), integer(2)),
    "u_update": ("eig", "sma", function()),
    "sigma": ("auto", "median", positive_number()),
    "scale": ("auto", "standard", "common", "none"),
    "metric": ("euclidean", "cosine"),
    "encoder": (nothing(), module()),
    "hidden_layer_sizes": ("auto", sizes()),
    "n_components": ("auto", nothing(), integer(1)),
    "train_size": ("auto", integer(1), fraction()),
    "n_init": (integer(1),),
    "max_iter": (integer(1),),
    "tol": (nonnegative_number(),),
    "batch_size": ("auto", integer(2)),
    "learning_rate": (positive_number(),),
    "callback": (nothing(), function()),
    "verbose": (instance(bool, "a bool"), integer(0)),
    "advanced": (nothing(), advanced()),
}
ADVANCED_RULES: dict[str, Allowed] = {
    "sigma_scale": (factor(),),
    "init": ("identity", "pretrain"),
    "u_columns": ("c-1", "c"),
    "reconstruction_weight": ("balanced", nonnegative_number()),
    "degrees": ("fixed", "differentiated"),
    "laplacian": ("auto", "dense", "blocked", "nystroem"),
    "memory_budget": (positive_number(),),
    "steps_per_iter": ("auto", integer(1)),
    "max_columns": (nothing(), integer(1)),
    "keep_embeddings": (instance(bool, "a bool"),),
    "column_weights": (nothing(), positive_numbers()),
}
