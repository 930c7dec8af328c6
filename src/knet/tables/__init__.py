"""Table files: reading, writing (a file is written completely or not at all), and converting columns to numbers.

`terminal`, `formats` and `dialect` do not need Arrow, and only `recipe` needs scikit-learn: `knet.tables.Recipe`, the
transformer for DataFrames, is imported when it is first used.

Imports `arrays`, `exceptions`, `files` and `rows`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from knet.tables.recipe import Recipe

__all__ = ["Recipe"]


def __getattr__(name: str) -> object:
    """Import `Recipe`, with Arrow and scikit-learn, when it is asked for."""
    if name == "Recipe":
        from knet.tables.recipe import Recipe

        return Recipe
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
