"""Warnings before training: kernels that tell no groups apart, and fewer distinct rows than clusters."""

import numpy as np

from knet._math.laplacians import Laplacian
from knet.exceptions import KNetDataWarning, warn_user
from knet.predictor import Floats


def check_kernel(L: Laplacian, sigma: float) -> bool:
    """Warn when the kernel can tell no groups apart, and say whether there is anything to train on at all."""
    n, typical = len(L.d), float(L.d.median())
    if typical < 1 + 1e-3:
        warn_user(
            f"At sigma={sigma:.3g} most rows have no neighbours (the kernel is close to the identity), so clusters "
            "are arbitrary. Raise sigma or sigma_scale.",
            KNetDataWarning,
        )
    elif typical > (1 - 1e-6) * n:
        warn_user(
            f"At sigma={sigma:.3g} all rows look alike (the kernel is close to all ones), so clusters are arbitrary. "
            "Lower sigma or sigma_scale.",
            KNetDataWarning,
        )
    return float(L.d.max()) > 1 + 1e-9


def check_distinct(X: Floats, n_clusters: int) -> int:
    """Return the number of different training rows, with a warning where that is below `n_clusters`."""
    n_distinct = len(np.unique(X, axis=0))
    if n_distinct < n_clusters:
        warn_user(
            f"The training rows hold only {n_distinct} distinct row{'s' if n_distinct > 1 else ''} after scaling, "
            f"fewer than n_clusters={n_clusters}; the labels use at most {n_distinct}. Lower n_clusters.",
            KNetDataWarning,
        )
    return n_distinct
