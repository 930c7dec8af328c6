"""Hostile command lines: every command with every option, found in the signatures of the commands.

A flag, a number, a file to write and a column are covered by their type and help. Another text needs sound values in
`TEXTS`, by the name of the parameter; a parameter of `KNet` takes them from its rule. `tests/test_fuzz.py` fails if an
option has none.
"""

import inspect
import re
import tempfile
from collections.abc import Callable
from contextlib import chdir
from functools import cache
from pathlib import Path
from types import NoneType
from typing import Any, get_args, get_origin
from unittest import mock

import numpy as np
from numpy.random import Generator
from typer.testing import CliRunner

from benchmarks.fault_writers import is_whole
from benchmarks.fuzz_models import mixed_table, model_bytes
from benchmarks.fuzz_tables import table_bytes
from benchmarks.fuzz_values import ALLOWED, CELLS, UnsoundError, choice
from knet.cli import demo
from knet.cli.app import app
from knet.tables.formats import READ, WRITTEN

COLUMNS = ["id", "a", "b", "kind", "day", "ok", "group", "a,b", "kind,ok"]
TEXTS: dict[str, list[str]] = {
    "data": ["mixed.csv", "mixed.csv", "mixed.csv", "-", *(f"t{suffix}" for suffix in READ)],
    "model": ["m.safetensors"],
    "first": ["m.safetensors", "kind", "a"],
    "second": ["m.safetensors", "kind", "a"],
    "sep": [",", "comma", "semicolon", "tab", "pipe", ";", "\\t"],
    "decimal": [".", ",", "comma", "point"],
    "encoding": ["utf-8", "latin-1", "cp1252", "utf-16"],
    "na": ["NA", "-", "x", "-1", ""],
    "device": ["auto", "cpu"],
    "dask": ["local:0", "local:x", "x", ""],  # clusters that cannot be started; benchmarks.fault_dask starts some
    "weights": ["a=2", "kind=0.5", "a=2,b=3", "b=0"],
    "must_link": ["pairs.csv"],
    "cannot_link": ["pairs.csv"],
}
NUMBERS = ["0", "1", "2", "3", "0.5", "0.05"]
STRANGE = [
    "",
    " ",
    "-1",
    "nan",
    "inf",
    "1e400",
    "9" * 30,
    "x" * 300,
    "../x",
    "/",
    "a=b",
    ",",
    ",,",
    "[]",
    "None",
    *CELLS,
]
SLOW = {"demo": 0.02, "export": 0.05, "report": 0.4, "scan": 0.6}  # shares of the runs, of commands that take long


@cache
def commands() -> dict[str, Callable[..., None]]:
    """Return the commands by name."""
    found = (command.callback for command in app.registered_commands)
    return {command.__name__: command for command in found if command is not None}


def options_of(command: str) -> list[inspect.Parameter]:
    """Return the arguments and options of a command."""
    return list(inspect.signature(commands()[command]).parameters.values())


def _information(option: inspect.Parameter) -> tuple[Any, Any]:
    """Return the type of an option, without None and the list around it, and what Typer knows about it."""
    kind, information = get_args(option.annotation)[:2]
    inner = [own for own in get_args(kind) if own is not NoneType] or [kind]
    return (get_args(inner[0])[0] if get_origin(inner[0]) is list else inner[0]), information


def sound_values(option: inspect.Parameter) -> list[str]:
    """Return sound values of an option; a LookupError if it is a text whose values nobody has named."""
    kind, information = _information(option)
    if option.name in TEXTS:
        return TEXTS[option.name]
    if (information.help or "").startswith("Column"):
        return COLUMNS
    if option.name in ALLOWED:
        return [str(value) for value in ALLOWED[option.name] if isinstance(value, str | int | float)]
    if kind is bool:
        return [""]
    if kind in (int, float):
        return NUMBERS
    if kind is Path:
        named = re.findall(r"\.[a-z0-9]+\b", information.help or "")
        return [f"{option.name}{suffix}" for suffix in named or WRITTEN]
    raise LookupError(f"benchmarks.fuzz_commands.TEXTS has no values for the option {option.name!r}")


def _words(option: inspect.Parameter, value: str, rng: Generator) -> list[str]:
    """Return an option with its value as words of a command line."""
    kind, information = _information(option)
    if type(information).__name__ == "ArgumentInfo":
        return [value]
    names = [name for text in information.param_decls or () for name in text.split("/")]
    name = choice(rng, names or [f"--{option.name.replace('_', '-')}"])
    return [name] if kind is bool and value == "" else [name, value]


def command_line(rng: Generator) -> list[str]:
    """Return the words of a random command line: its required parts, some options, a few strange values."""
    names = sorted(commands())
    shares = np.array([SLOW.get(name, 1.0) for name in names])
    name = names[rng.choice(len(names), p=shares / shares.sum())]
    words, strange = [name], rng.random() < 0.4
    for option in options_of(name):
        required = option.default is inspect.Parameter.empty
        if not required and rng.random() < 0.87:
            continue
        value = choice(rng, sound_values(option))
        if strange and rng.random() < (0.1 if required else 0.4):
            value = choice(rng, [*STRANGE, *COLUMNS, *TEXTS["data"]])
        words += _words(option, value, rng)
    return words


def hostile_commands(rng: Generator, folder: Path) -> bool:
    """Run a command in a folder of tables; it ends with code 0 or 2 and one line, and loses and changes no file."""
    mixed_table().to_csv(folder / "mixed.csv", index=False)
    (folder / "m.safetensors").write_bytes(model_bytes())
    pairs = [[0, 1], ["r000", "r001"], [0, 39], ["x", 1]]
    (folder / "pairs.csv").write_text("first,second\n{},{}\n".format(*choice(rng, pairs)))
    for suffix in READ:
        (folder / f"t{suffix}").write_bytes(table_bytes(suffix))
    words = command_line(rng)
    if rng.random() < 0.3:
        for word in words[1:]:
            if word.count(".") == 1 and len(word) < 30 and word[:1].isalpha() and not (folder / word).exists():
                (folder / word).write_bytes(b"old")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    input_bytes = before[folder / "mixed.csv"]
    with chdir(folder), mock.patch.object(tempfile, "tempdir", str(folder)), mock.patch.object(demo, "DEMO_ROWS", 600):
        done = CliRunner().invoke(app, words, input=input_bytes)
    _check_end(words, done)
    _check_files(words, folder, before)
    return done.exit_code == 0


def _check_end(words: list[str], done: Any) -> None:
    """Raise if a command ended with a defect, or without a message."""
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise UnsoundError(f"{words} raised {done.exception!r}") from done.exception
    if done.exit_code not in (0, 2):
        raise UnsoundError(f"{words} ended with code {done.exit_code}: {done.stderr[-300:]}")
    if "Traceback" in done.stderr or (done.exit_code == 2 and not re.search(r"knet: |Usage: |Error", done.stderr)):
        raise UnsoundError(f"{words} ended without a clear message: {done.stderr[-300:]}")


def _check_files(words: list[str], folder: Path, before: dict[Path, bytes]) -> None:
    """Raise if a file was lost, replaced without --force, or is not whole; or if something stayed behind."""
    after = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    if lost := [path.name for path in before if path not in after]:
        raise UnsoundError(f"{words} removed {lost}")
    changed = [path for path in after if after[path] != before.get(path)]
    for path in changed:
        if path in before and not {"--force", "-f"} & {*words}:
            raise UnsoundError(f"{words} replaced {path.name}")
        if path.name.endswith(".unfinished") or not is_whole(path):
            raise UnsoundError(f"{words} left {path.name}, which is not whole")
