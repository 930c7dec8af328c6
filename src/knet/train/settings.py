"""The settings of one fit: the checked parameters of KNet, with every "auto" that the rows' values do not decide."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import torch
from torch import nn

from knet.advanced import Advanced
from knet.train.algorithm_1 import LambdaRule, MakeLaplacian, balanced_lambda, constant_lambda
from knet.train.host import resolve_device
from knet.train.laplacians import LAPLACIANS, laplacian
from knet.train.u_steps import U_STEPS, UStep

MAX_COMPONENTS = 64  # of an embedding that is chosen by the number of clusters
MAX_NETWORK_BYTES = 2 * 2**30


@dataclass(frozen=True)
class Settings:
    """What training needs to know."""

    n_clusters: int
    n_columns: int  # of U
    u_step: UStep
    make_laplacian: MakeLaplacian
    lambda_rule: LambdaRule
    module: nn.Module | None  # the user's own encoder
    hidden_layer_sizes: tuple[int, ...]
    n_components: int
    n_init: int
    max_iter: int
    tol: float
    batch_size: int
    learning_rate: float
    keeps_sigma: bool  # the width was given, or the encoder starts as the identity
    device: torch.device
    advanced: Advanced

    @classmethod
    def resolve(cls, params: Mapping[str, Any], n_features: int, *, from_partition: bool) -> "Settings":
        """Return the settings of a fit to prepared rows with `n_features` columns."""
        n_clusters, u_update = int(params["n_clusters"]), params["u_update"]
        advanced: Advanced = params["advanced"] or Advanced()
        hidden, lam = params["hidden_layer_sizes"], advanced.reconstruction_weight
        units, rows = min(max(128, 2 * n_features), 512), min(max(64, 4 * n_clusters), 256)
        sizes = (units, units) if isinstance(hidden, str) else tuple(hidden)
        n_components = _embedding_width(params["n_components"], n_features, n_clusters, from_partition=from_partition)
        if params["encoder"] is None:
            check_network_size(n_features, sizes, n_components)
        by_budget = partial(laplacian, budget=advanced.memory_budget * 2**20)
        return cls(
            n_clusters=n_clusters,
            n_columns=max(1, n_clusters - (advanced.u_columns == "c-1")),
            u_step=u_update if callable(u_update) else U_STEPS[u_update],
            make_laplacian=by_budget if advanced.laplacian == "auto" else LAPLACIANS[advanced.laplacian],
            lambda_rule=balanced_lambda if isinstance(lam, str) else constant_lambda(float(lam)),
            module=params["encoder"],
            hidden_layer_sizes=sizes,
            n_components=n_components,
            n_init=int(params["n_init"]),
            max_iter=int(params["max_iter"]),
            tol=params["tol"],
            batch_size=rows if isinstance(params["batch_size"], str) else int(params["batch_size"]),
            learning_rate=params["learning_rate"],
            keeps_sigma=not isinstance(params["sigma"], str)
            or (params["encoder"] is None and advanced.init == "identity"),
            device=resolve_device(params["device"]),
            advanced=advanced,
        )

    @property
    def with_decoder(self) -> bool:
        """Whether the autoencoder's error is part of the objective."""
        return self.advanced.reconstruction_weight != 0


def _embedding_width(width: str | int | None, n_features: int, n_clusters: int, *, from_partition: bool) -> int:
    """Return the dimension d' of the embedding.

    "auto" is one more than the columns, so that a group can be lifted out of one that surrounds it; the targets of
    a partition need one less than the clusters to be equally far from each other.
    """
    if not isinstance(width, str):
        return width or n_features
    return max(n_features + 1, min(n_clusters - 1, MAX_COMPONENTS) if from_partition else 0)


def check_network_size(n_features: int, hidden_layer_sizes: Sequence[int], n_components: int) -> None:
    """Raise before the allocation if the default network would need more than `MAX_NETWORK_BYTES`."""
    layers = sum(n_in * n_out for n_in, n_out in pairwise([n_features, *hidden_layer_sizes, n_components]))
    linear_map = n_features * (n_components if n_components >= n_features else n_features)  # else: a covariance matrix
    needed = 8 * (layers + linear_map)
    if needed > MAX_NETWORK_BYTES:
        raise ValueError(
            f"With {n_features:,} columns, hidden_layer_sizes={tuple(hidden_layer_sizes)} and "
            f"n_components={n_components:,}, the network would need {needed / 2**30:.1f} GB. Set max_columns of "
            "knet.Advanced, so that the model reduces the columns, or lower hidden_layer_sizes and n_components."
        )
