"""The public surface as text: `python -m tests.signatures` writes it to tests/signatures.txt.

One line for each public function, class, method, property and fitted attribute, and for each option of each command.
Types are left out: they may become more precise in any release.
"""

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

PATH = Path(__file__).with_suffix(".txt")
MODULES = ("knet", "knet.plots", "knet.tables", "knet.dask", "knet.metrics", "knet.datasets")
FURTHER = (  # functions of other modules that the pages name, and what functions and methods return
    *("knet.show.report.report", "knet.model.onnx.to_onnx", "knet.tables.vectors.read_vectors", "knet.presets.paper"),
    *("knet.explore.refit.unfamiliar_groups", "knet.explore.scan.Scan", "knet.explore.compare.Comparison"),
    *("knet.explore.compare.Move", "knet.explore.explain.Explanation", "knet.explore.stability.Stability"),
    "knet.model.drift.Drift",
)


def module_lines(name: str) -> Iterator[str]:
    """Yield the public names of a module."""
    module = import_module("knet.show.plots" if name == "knet.plots" else name)
    public = getattr(module, "__all__", None) or [
        key
        for key, value in vars(module).items()
        if not key.startswith("_") and getattr(value, "__module__", None) == module.__name__ and callable(value)
    ]
    for key in sorted(public):
        yield from lines_of(f"{name}.{key}", getattr(module, key))


def lines_of(name: str, value: object) -> Iterator[str]:
    """Yield a class with its methods, a function with its parameters, or a name alone."""
    if inspect.isclass(value):
        yield from class_lines(name, value)
    else:
        yield f"{name}{parameters(value) if callable(value) else ''}"


def class_lines(name: str, kind: type) -> Iterator[str]:
    """Yield a class, its own public methods and properties, and the attributes of a fitted model."""
    yield f"{name}{parameters(kind)}"
    for key, value in inspect.getmembers(kind):
        if isinstance(value, property) and not key.startswith("_"):
            yield f"{name}.{key}"
        elif inspect.isroutine(value) and not key.startswith("_"):
            if (getattr(value, "__module__", None) or "").startswith("knet"):
                yield f"{name}.{key}{parameters(value)}"
    fitted = re.findall(r"^    ((?:\w+_)(?:, \w+_)*) : ", kind.__doc__ or "", re.MULTILINE)
    yield from (f"{name}.{key} (after fit)" for names in fitted for key in names.split(", "))


def parameters(value: object) -> str:
    """Return the parameters of a callable with their defaults, without types."""
    signature = inspect.signature(value)  # type: ignore[arg-type]
    empty = inspect.Parameter.empty
    bare = [parameter.replace(annotation=empty) for parameter in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))


def command_lines() -> Iterator[str]:
    """Yield every argument and option of every command."""
    from typer.main import get_command

    from knet.cli.app import app

    for name, command in sorted(get_command(app).commands.items()):  # type: ignore[attr-defined]
        for option in command.params:
            names = "/".join([*option.opts, *option.secondary_opts])
            yield f"knet {name} {names}{' (required)' if option.required else ''}"


def surface() -> list[str]:
    """Return all lines."""
    lines = [line for name in MODULES for line in module_lines(name)]
    for name in FURTHER:
        module, _, key = name.rpartition(".")
        lines += lines_of(name, getattr(import_module(module), key))
    return [*lines, *command_lines()]


if __name__ == "__main__":
    PATH.write_text("\n".join(surface()) + "\n", encoding="utf-8")
