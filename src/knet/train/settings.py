"""The settings of one fit: the checked parameters of KNet, with every "auto" that the rows' values do not decide."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from knet.advanced import Advanced
from knet.arrays import Floats
from knet.parameters import Params
from knet.train.algorithm_1 import Iteration, MakeLaplacian, algorithm_1, balanced_lambda, constant_lambda
from knet.train.host import resolve_device
from knet.train.laplacians import LAPLACIANS, laplacian
from knet.train.networks import Networks, build_networks
from knet.train.theta_step import ThetaStep
from knet.train.u_steps import U_STEPS

MAX_COMPONENTS = 64  # an embedding whose width follows the number of clusters has at most this many columns
MAX_NETWORK_BYTES = 2 * 2**30  # a default network that needs more memory is refused


@dataclass(frozen=True)
class Settings:
    """What training needs to know; the functions have every parameter that does not depend on the rows."""

    n_clusters: int
    n_columns: int  # of U
    n_init: int
    max_iter: int
    tol: float
    keeps_sigma: bool  # the width was given, or the encoder starts as the identity
    keep_embeddings: bool
    device: Any  # of torch, or "cpu" if the fit does not need torch
    make_networks: Callable[[Floats, np.random.RandomState], Networks]
    make_theta_step: Callable[[float], ThetaStep]
    make_laplacian: MakeLaplacian
    alternate: Callable[..., Iterator[Iteration]]  # Algorithm 1

    @classmethod
    def resolve(cls, params: Params, n_features: int, *, from_partition: bool) -> "Settings":
        """Return the settings of a fit to prepared rows with `n_features` columns."""
        n_clusters, u_update, batch = int(params["n_clusters"]), params["u_update"], params["batch_size"]
        advanced: Advanced = params["advanced"] or Advanced()
        hidden, lam, steps = params["hidden_layer_sizes"], advanced.reconstruction_weight, advanced.steps_per_iter
        units, rows = min(max(128, 2 * n_features), 512), min(max(64, 4 * n_clusters), 256)
        sizes = (units, units) if isinstance(hidden, str) else tuple(hidden)
        width = embedding_width(params["n_components"], n_features, n_clusters, from_partition=from_partition)
        device, own = params["device"], params["encoder"] is not None
        device = resolve_device(device) if own or str(device) not in ("auto", "cpu") else "cpu"
        if not own:
            check_network_size(n_features, sizes, width)
        is_identity = not own and advanced.init == "identity"
        by_budget = partial(laplacian, budget=advanced.memory_budget * 2**20)
        make_laplacian = by_budget if advanced.laplacian == "auto" else LAPLACIANS[advanced.laplacian]
        return cls(
            n_clusters=n_clusters,
            n_columns=max(1, n_clusters - (advanced.u_columns == "c-1")),
            n_init=int(params["n_init"]),
            max_iter=int(params["max_iter"]),
            tol=params["tol"],
            keeps_sigma=is_identity or not isinstance(params["sigma"], str),
            keep_embeddings=advanced.keep_embeddings,
            device=device,
            make_networks=partial(
                build_networks,
                n_components=width,
                hidden_layer_sizes=sizes,
                init=advanced.init,
                module=params["encoder"],
                device=device,
                with_decoder=lam != 0,
            ),
            make_theta_step=partial(
                ThetaStep,
                n_steps=(20 if from_partition else 200) if isinstance(steps, str) else int(steps),
                batch_size=rows if isinstance(batch, str) else int(batch),
                learning_rate=params["learning_rate"],
                through_degrees=advanced.degrees == "differentiated",
            ),
            make_laplacian=make_laplacian,
            alternate=partial(
                algorithm_1,
                u_step=u_update if callable(u_update) else U_STEPS[u_update],
                laplacian=make_laplacian,
                lambda_rule=balanced_lambda if isinstance(lam, str) else constant_lambda(float(lam)),
                max_iter=int(params["max_iter"]),
            ),
        )


def embedding_width(width: str | int | None, n_features: int, n_clusters: int, *, from_partition: bool) -> int:
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
