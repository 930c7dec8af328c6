"""Spectral clustering that learns its kernel and predicts."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from knet._fit.advanced import Advanced
    from knet.estimator import KNet
    from knet.inspect.scan import scan
    from knet.light import LightModel, load_light
    from knet.model_file import load

__all__ = ["Advanced", "KNet", "LightModel", "__version__", "load", "load_light", "scan"]

__version__ = "0.1.0"

_HOMES = {
    "Advanced": "knet._fit.advanced",
    "KNet": "knet.estimator",
    "LightModel": "knet.light",
    "load": "knet.model_file",
    "load_light": "knet.light",
    "scan": "knet.inspect.scan",
}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used, so that `knet --help` need not wait for torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'knet' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
