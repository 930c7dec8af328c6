"""Values for hostile inputs: sound ones and strange ones. Which of them a parameter allows is asked of its rules.

A new parameter of `KNet` or `Advanced` is therefore covered as soon as it has a rule.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.random import Generator

from knet.advanced import Advanced
from knet.parameters import ADVANCED_RULES, RULES

EXTREMES = [0, 1, -1, 2, 3, 10**6, 10**30, 0.5, -0.0, 1e-320, 1e308, float("nan"), float("inf"), -float("inf")]
OBJECTS = [None, True, False, "", "auto", "x" * 1000, "\x00\x1b[2J", [], {}, [[]], [None], {"a": {}}, [1, 2, 3]]
CELLS = ["1", "2.5", "-3e5", "", "NA", "nan", "inf", "1e999", "x", '"', '""', '"a', "a,b", "\x00", "\x1b[2J", "\u202e"]
CELLS += ["2024-01-01", "true", "\r", "9" * 400, "\ufeff", "=1+1", "#", "\u00e9", "'", "\\", " ", "\t", "0x10", "\n"]
CELLS += [
    "=cmd()",
    "+1",
    "@x",
    "label",
    "None",
    "file",
    "1;2",
    "31.12.2024",
    "1.234,5",
    "\ud7ff",
    "\U0001f600",
    "a\x85b",
    "_x0041_",
    "\r\n",
]


class Strange(torch.nn.Module):
    """An encoder of one's own that returns what no encoder may: NaN, too few rows, or something else."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.layer = kind, torch.nn.Linear(3, 2, dtype=torch.float64)

    def forward(self, X: torch.Tensor) -> Any:
        """Return the strange result."""
        if isinstance(X, dict):  # as a callback
            return _fails()
        match self.kind:
            case "nan":
                return X * float("nan")
            case "rows":
                return X[:1]
            case "list":
                return X.tolist()
            case "flat":
                return X.sum(1)
            case _:
                return X.detach()  # nothing to learn


def _fails(*arguments: Any) -> Any:
    raise ValueError("a function of the user failed")


SOUND: list[Any] = [None, True, False, 1, 2, 3, 7, 12, 1e-5, 0.01, 0.5, 1.0, 50.0, (1,), [3, 2, 4]]
SOUND += [lambda *arguments: arguments[-1], torch.nn.Linear(3, 2), torch.nn.Linear(3, 4, dtype=torch.float64)]
SOUND += [Advanced(steps_per_iter=3), Advanced(steps_per_iter=2, max_columns=1)]
STRANGE: list[Any] = [value for value in EXTREMES if not isinstance(value, int) or value < 10**6] + OBJECTS
STRANGE += [_fails, dict, torch.nn.Linear, torch.nn.Identity(), torch.nn.Linear(9, 2), Advanced(init="x")]
STRANGE += [Strange(kind) for kind in ("nan", "rows", "list", "flat", "fixed")]


def allowed_values(alternatives: Sequence[Any]) -> list[Any]:
    """Return sound values that a parameter allows, given the alternatives of its rule; each must have one."""
    found: list[Any] = []
    for choice in alternatives:
        values = [choice] if isinstance(choice, str) else [value for value in SOUND if choice[0](value)]
        if not values:
            raise LookupError(f"no sound value is {choice[1]}; add one to SOUND")
        found += values
    return found


ALLOWED = {name: allowed_values(rule) for name, rule in RULES.items() if name != "verbose"}  # which prints
ALLOWED |= {f"advanced__{name}": allowed_values(rule) for name, rule in ADVANCED_RULES.items()}


class UnsoundError(AssertionError):
    """A result that breaks a rule that holds for every input."""


def choice(rng: Generator, values: Sequence[Any]) -> Any:
    """Return one of the values."""
    return values[int(rng.integers(len(values)))]


def two_groups(rng: Generator, n: int = 40, d: int = 3) -> Any:
    """Return rows in two groups."""
    X = rng.normal(size=(n, d))
    X[: n // 2] += 6
    return X


def damage(content: bytes, rng: Generator) -> bytes:
    """Return a content with some bytes changed, cut, repeated or inserted."""
    changed = bytearray(content)
    for _ in range(rng.integers(1, 4)):
        ends = len(changed) + 1 if rng.random() < 0.5 else min(300, len(changed) + 1)
        place, length = int(rng.integers(ends)), int(rng.integers(1, 1 + 2 ** rng.integers(0, 12)))
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


def check_labels(labels: Any, n_clusters: int) -> None:
    """Raise if a label is not that of a cluster."""
    if len(labels) and not (labels.min() >= 0 and labels.max() < n_clusters):
        raise UnsoundError("a label is out of range")


def check_message(error: Exception) -> None:
    """Raise if an error says nothing, or not in one line."""
    text = str(error)
    if not text.strip() or len(text) > 20_000:
        raise UnsoundError(f"{type(error).__name__} without a readable message")


def host_state() -> tuple[Any, ...]:
    """Return what a fit must leave alone: threads, and the random states of torch and NumPy."""
    state = np.random.get_state()[1]  # noqa: NPY002  (the global state)
    return torch.get_num_threads(), torch.random.get_rng_state().numpy().tobytes(), state.tobytes()
