"""Model files as the commands use them: the model with the conversion of its columns, and the main facts."""

import math
from pathlib import Path
from typing import Any

from knet._fit.host import resolve_device
from knet.estimator import KNet
from knet.exceptions import ModelFileError
from knet.model_file import load
from knet.tables.conversion import COLUMN_KINDS, Conversion


def load_model(path: Path, device: str = "cpu") -> tuple[KNet, Conversion]:
    """Read a model and the conversion of its columns; a model that was not fitted by this command uses numbers only."""
    model = load(path, device=str(resolve_device(device)))
    recipe = (getattr(model, "extra_", None) or {}).get("table")
    if recipe is not None:
        return model, _read_recipe(recipe, model, path)
    names = getattr(model, "feature_names_in_", [f"x{j}" for j in range(model.n_features_in_)])
    return model, Conversion.of_numbers(str(name) for name in names)


def _read_recipe(stored: Any, model: KNet, path: Path) -> Conversion:
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
            and len(recipe.outputs) == model.n_features_in_
        )
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise ModelFileError(f"{path} has a damaged recipe of its columns: {error!r}.") from error
    if not sound:
        raise ModelFileError(f"{path} has a recipe of columns that does not fit its model.")
    return recipe


def model_facts(model: KNet) -> dict[str, Any]:
    """Return the main facts of a fitted model, under their names in Python."""
    hsic = kept_hsic(model)
    return {
        "n_clusters": model.n_clusters,
        "n_train": model.n_train_,
        "n_iter": model.n_iter_,
        "best_iter": model.best_iter_,
        "sigma": round(float(model.sigma_), 6),
        "hsic": None if hsic is None else round(hsic, 6),
        "random_state": model.random_state,
    }


def kept_hsic(model: KNet) -> float | None:
    """Return the HSIC of the iteration whose encoder was kept; None if the encoder was not trained."""
    return next((float(row["hsic"]) for row in model.history_ if row["iteration"] == model.best_iter_), None)
