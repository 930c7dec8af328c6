"""Tables as a model with a recipe takes them: with the columns that it was fitted on, such as text and dates."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from knet.arrays import Json, RowsLike
from knet.rows.kinds import admit, column_names, is_collection, table_kind


def recipe_of(X: object) -> Any:
    """Return the recipe that made an array of numbers of a table; None for anything else."""
    recipe = getattr(X, "recipe", None) if isinstance(X, np.ndarray) else None
    return recipe if hasattr(recipe, "to_json") else None  # a record array may have a field of this name


def admit_table(
    X: RowsLike, stored: Mapping[str, Json] | None, n_features: int, names: Sequence[str] | None = None
) -> RowsLike:
    """Return rows as `kinds.admit` does, or the numbers of a table by the recipe that is stored with the model.

    A table that lacks columns of the recipe, but has the numbers that the recipe makes of them, gives these.
    """
    if stored is None or table_kind(X) is None or is_collection(X) or type(X).__name__ == "LazyFrame":
        return admit(X, None if names is None else list(names))
    from knet.tables.recipe import Recipe

    recipe, present = Recipe.from_json(dict(stored), n_features), set(map(str, column_names(X)))
    outputs = recipe.conversion_.outputs
    if present.issuperset(outputs) and not present.issuperset(column.name for column in recipe.conversion_.columns):
        return admit(X, outputs)
    return np.asarray(recipe.transform(X))
