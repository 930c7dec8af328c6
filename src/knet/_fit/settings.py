"""The parameters of a fit: the rules they are checked by, and their values with every "auto" resolved."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from knet._fit import validation as rules
from knet._fit.advanced import Advanced
from knet._fit.host import resolve_device
from knet._fit.loop import LambdaRule, balanced_lambda, constant_lambda
from knet._fit.plain_rules import PLAIN_RULES
from knet._math.laplacians import LAPLACIANS, Laplacian, laplacian
from knet._math.threads import allowed_threads
from knet._math.u_steps import U_STEPS, UStep

MAX_COMPONENTS = 64  # of an embedding that is chosen by the number of clusters

RULES: dict[str, tuple[Any, ...]] = {
    **PLAIN_RULES,
    "u_update": (*U_STEPS, rules.function()),
    "encoder": (rules.nothing(), rules.instance(nn.Module, "a torch.nn.Module")),
    "advanced": (rules.nothing(), rules.instance(Advanced, "a knet.Advanced")),
}
ADVANCED_RULES: dict[str, tuple[Any, ...]] = {
    "sigma_scale": (rules.positive_number(),),
    "init": ("identity", "pretrain"),
    "u_columns": ("c-1", "c"),
    "reconstruction_weight": ("balanced", rules.nonnegative_number()),
    "degrees": ("fixed", "differentiated"),
    "laplacian": tuple(LAPLACIANS),
    "memory_budget": (rules.positive_number(),),
    "steps_per_iter": (rules.integer(1),),
    "max_columns": (rules.nothing(), rules.integer(1)),
    "keep_embeddings": (rules.instance(bool, "a bool"),),
}

MAX_NETWORK_BYTES = 2 * 2**30

Callback = Callable[[dict[str, float]], object]


def check_parameters(owner: str, params: Mapping[str, Any]) -> None:
    """Raise if a parameter of a KNet, or of its `advanced` object, has a value that is not allowed."""
    rules.check_parameters(owner, params, RULES)
    if params["advanced"] is not None:
        rules.check_parameters("Advanced", params["advanced"].get_params(deep=False), ADVANCED_RULES)


def check_network_size(n_features: int, hidden_layer_sizes: Sequence[int], n_components: int) -> None:
    """Raise before the allocation if one copy of the default network would need more than `MAX_NETWORK_BYTES`."""
    layers = sum(n_in * n_out for n_in, n_out in pairwise([n_features, *hidden_layer_sizes, n_components]))
    linear_map = n_features * (n_components if n_components >= n_features else n_features)  # else: a covariance matrix
    needed = 8 * (layers + linear_map)
    if needed > MAX_NETWORK_BYTES:
        raise ValueError(
            f"With {n_features:,} columns, hidden_layer_sizes={tuple(hidden_layer_sizes)} and "
            f"n_components={n_components:,}, the network would need {needed / 2**30:.1f} GB. Set max_columns of "
            "knet.Advanced, so that the model reduces the columns, or lower hidden_layer_sizes and n_components."
        )


@dataclass(frozen=True)
class Settings:
    """The parameters of one fit, checked, with every "auto" that does not depend on the values in X resolved.

    `sigma` and `train_size` may still be words: `plan.make_plan` resolves them from the data.
    """

    n_clusters: int
    sigma: str | float
    sigma_scale: float
    train_size: str | int | float
    scale: str
    device: torch.device
    n_columns: int  # of U
    u_step: UStep
    make_laplacian: Callable[[Tensor, float], Laplacian] | None  # None chooses by `memory_budget`
    memory_budget: float  # bytes
    module: nn.Module | None  # the user's own encoder
    init: str
    hidden_layer_sizes: tuple[int, ...]
    n_features: int
    embedding_width: int | None  # None chooses it by the columns, and by the clusters if there is a start to follow
    n_init: int
    max_iter: int
    tol: float
    n_steps: int  # of a theta-step
    batch_size: int
    learning_rate: float
    through_degrees: bool
    lambda_rule: LambdaRule
    with_decoder: bool
    keep_embeddings: bool
    callback: Callback | None
    verbose: int

    @classmethod
    def resolve(cls, params: Mapping[str, Any], n_features: int) -> "Settings":
        """Return the settings of a fit to rows with `n_features` columns, from checked parameters of KNet."""
        n_clusters, u_update = int(params["n_clusters"]), params["u_update"]
        advanced: Advanced = params["advanced"] or Advanced()
        hidden, width, lam = params["hidden_layer_sizes"], params["n_components"], advanced.reconstruction_weight
        auto_units, auto_batch = min(max(128, 2 * n_features), 512), min(max(64, 4 * n_clusters), 256)
        hidden_layer_sizes = (auto_units, auto_units) if isinstance(hidden, str) else tuple(hidden)
        if params["encoder"] is None:
            n_components = n_features + 1 if isinstance(width, str) else width or n_features
            check_network_size(n_features, hidden_layer_sizes, n_components)
        return cls(
            n_clusters=n_clusters,
            sigma=params["sigma"],
            sigma_scale=advanced.sigma_scale,
            train_size=params["train_size"],
            scale=params["scale"],
            device=resolve_device(params["device"]),
            n_columns=max(1, n_clusters - (advanced.u_columns == "c-1")),
            u_step=u_update if callable(u_update) else U_STEPS[u_update],
            make_laplacian=None if advanced.laplacian == "auto" else LAPLACIANS[advanced.laplacian],
            memory_budget=advanced.memory_budget * 2**20,
            module=params["encoder"],
            init=advanced.init,
            hidden_layer_sizes=hidden_layer_sizes,
            n_features=n_features,
            embedding_width=None if isinstance(width, str) else width or n_features,
            n_init=int(params["n_init"]),
            max_iter=int(params["max_iter"]),
            tol=params["tol"],
            n_steps=advanced.steps_per_iter,
            batch_size=auto_batch if isinstance(params["batch_size"], str) else int(params["batch_size"]),
            learning_rate=params["learning_rate"],
            through_degrees=advanced.degrees == "differentiated",
            lambda_rule=balanced_lambda if isinstance(lam, str) else constant_lambda(float(lam)),
            with_decoder=lam != 0,
            keep_embeddings=advanced.keep_embeddings,
            callback=params["callback"],
            verbose=int(params["verbose"]),
        )

    def n_components(self, *, from_partition: bool) -> int:
        """Return the dimension d' of the embedding.

        "auto" is one more than the columns, so that a group can be lifted out of one that surrounds it; the targets of
        a partition need one less than the clusters to be equally far from each other.
        """
        if self.embedding_width is not None:
            return self.embedding_width
        needed = min(self.n_clusters - 1, MAX_COMPONENTS) if from_partition else 0
        return max(self.n_features + 1, needed)

    def laplacian_for(self, n_restarts: int) -> Callable[[Tensor, float], Laplacian]:
        """Return the function that makes L; restarts that run at the same time share the memory budget."""
        if self.make_laplacian is not None:
            return self.make_laplacian
        return partial(laplacian, budget=self.memory_budget / min(n_restarts, allowed_threads()))
