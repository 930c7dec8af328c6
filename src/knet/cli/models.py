"""Model files as the commands use them: the model with the conversion of its columns."""

import math
from pathlib import Path
from typing import Any

from knet.exceptions import ModelFileError
from knet.model.light import LightModel, load_light
from knet.tables.conversion import COLUMN_KINDS, Conversion


def load_light_model(path: Path) -> tuple[LightModel, Conversion]:
    """Read a model that labels rows, and the conversion of its columns; numbers only if no command fitted it.

    Torch is not imported, so that a command which needs a whole model uses this first: a damaged file is refused soon.
    """
    model = load_light(path)
    stored = model.extra.get("table")
    if stored is not None:
        return model, _read_recipe(stored, model, path)
    return model, Conversion.of_numbers(model.names or (f"x{j}" for j in range(model.n_features)))


def _read_recipe(stored: Any, model: LightModel, path: Path) -> Conversion:
    """Return the stored recipe, or raise an error if it does not fit the model: the file may come from a stranger."""
    try:
        recipe = Conversion.from_json(stored)
        names = [column.name for column in recipe.columns] + [recipe.id_col or "", recipe.target or ""]
        levels = [level for column in recipe.columns for level in column.levels]
        fills = [column.fill for column in recipe.columns if column.fill is not None]
        sound = (
            all(isinstance(name, str) for name in names + levels)
            and all(column.kind in COLUMN_KINDS for column in recipe.columns)
            and all(isinstance(fill, float | int) and math.isfinite(fill) for fill in fills)
            and all(isinstance(column.fills_gaps, bool) for column in recipe.columns)
            and len(recipe.outputs) == model.n_features
        )
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise ModelFileError(f"{path} has a damaged recipe of its columns: {error!r}.") from error
    if not sound:
        raise ModelFileError(f"{path} has a recipe of columns that does not fit its model.")
    return recipe
