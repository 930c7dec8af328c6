"""Spectral clustering that learns its kernel and predicts."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from knet.advanced import Advanced
    from knet.estimator import KNet
    from knet.explore.compare import compare
    from knet.explore.scan import scan
    from knet.model.blocks import Labeler
    from knet.model.file import load
    from knet.model.light import LightModel, load_light
    from knet.show import plots

__all__ = ["Advanced", "KNet", "Labeler", "LightModel", "__version__", "compare", "load", "load_light", "plots", "scan"]

__version__ = "0.1.0rc1"

_HOMES = {
    "Advanced": "knet.advanced",
    "KNet": "knet.estimator",
    "compare": "knet.explore.compare",
    "Labeler": "knet.model.blocks",
    "LightModel": "knet.model.light",
    "load": "knet.model.file",
    "load_light": "knet.model.light",
    "plots": "knet.show",
    "scan": "knet.explore.scan",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that `knet --help` need not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'knet' has no attribute {name!r}")
    home = import_module(_HOMES[name])
    value = getattr(home, name, None) or import_module(f"{home.__name__}.{name}")  # `plots` is a module
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
