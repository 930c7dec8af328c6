"""The rules for parameters that are words and numbers: the commands check these before they import torch."""

from typing import Any

from knet._fit import validation as rules

PLAIN_RULES: dict[str, tuple[Any, ...]] = {
    "n_clusters": (rules.integer(1),),
    "sigma": ("auto", "median", rules.positive_number()),
    "scale": ("auto", "standard", "none"),
    "metric": ("euclidean", "cosine"),
    "hidden_layer_sizes": ("auto", rules.sizes()),
    "n_components": ("auto", rules.nothing(), rules.integer(1)),
    "train_size": ("auto", rules.integer(1), rules.fraction()),
    "n_init": (rules.integer(1),),
    "max_iter": (rules.integer(1),),
    "tol": (rules.nonnegative_number(),),
    "batch_size": ("auto", rules.integer(2)),
    "learning_rate": (rules.positive_number(),),
    "callback": (rules.nothing(), rules.function()),
    "verbose": (rules.integer(0),),
}
