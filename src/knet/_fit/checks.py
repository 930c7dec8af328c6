"""Warnings before training: kernels that cannot separate groups, and fewer distinct rows than clusters."""

import numpy as np

from knet._math.arrays import Floats
from knet._math.laplacians import Laplacian
from knet.exceptions import KNetDataWarning, warn_user


def check_kernel(L: Laplacian, sigma: float) -> bool:
    """Warn if the kernel cannot separate groups; return False if training is impossible."""
    n, typical = len(L.d), float(L.d.median())
    if typical < 1 + 1e-3:
        warn_user(
            f"At sigma={sigma:.3g} most rows have no neighbours (the kernel is close to the identity), so clusters "
            "are arbitrary. Increase sigma or sigma_scale.",
            KNetDataWarning,
        )
    elif typical > (1 - 1e-6) * n:
        warn_user(
            f"At sigma={sigma:.3g} all rows look the same (the kernel is close to all ones), so clusters are "
            "arbitrary. Decrease sigma or sigma_scale.",
            KNetDataWarning,
        )
    return float(L.d.max()) > 1 + 1e-9


def check_distinct(X: Floats, n_clusters: int) -> int:
    """Return the number of different training rows, and warn if it is below `n_clusters`."""
    n_distinct = len(np.unique(X, axis=0))
    if n_distinct < n_clusters:
        warn_user(
            f"The training rows hold only {n_distinct} distinct row{'s' if n_distinct > 1 else ''} after scaling, "
            f"fewer than n_clusters={n_clusters}; the labels use at most {n_distinct}. Lower n_clusters.",
            KNetDataWarning,
        )
    return n_distinct
