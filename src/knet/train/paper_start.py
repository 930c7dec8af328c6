"""The paper's start: the width of the kernel is given or the median distance, and U_0 are the kernel's eigenvectors."""

import numpy as np

from knet.arrays import Floats
from knet.exceptions import KNetDataWarning, warn_user
from knet.prepare.training_rows import ROWS_PER_CLUSTER, Prepared
from knet.start.choice import SMALL_DATA, Start
from knet.train.laplacians import DenseLaplacian, Laplacian, NystroemLaplacian

SUBSET_SIZES = (1000, 2000, 4000)  # numbers of training rows that the rule of the spectrum tries
SPECTRUM_TOL = 0.02  # eigenvalues that differ by less count as equal
NARROWEST = 1e-9  # smallest width, as a share of the median distance: narrower kernels equal the identity


def paper_start(prepared: Prepared, n_clusters: int, sigma: str | float, sigma_scale: float) -> Start:
    """Return the rows to train on and the width of the kernel, as in the paper; there is no partition to follow."""
    given = sigma_scale * prepared.median or 1.0 if isinstance(sigma, str) else sigma
    width = max(float(given), NARROWEST * prepared.median)
    size = prepared.n_train
    if size is None:
        size = min(prepared.n_rows, subset_size(prepared.X[prepared.order], prepared.n_rows, width, n_clusters))
    drawn = prepared.first(size)
    return Start(prepared.rows[drawn], prepared.X[drawn], np.arange(size), width, None, None, [], [])


def subset_size(pool: Floats, n_rows: int, sigma: float, n_clusters: int) -> int:
    """Return the smallest number of rows whose spectrum is close to that of all rows, in the max norm.

    The paper's rule. The c largest eigenvalues of L [U-EIG] are compared; those of all rows come from the Nystroem
    form on `pool`, a random sample of bounded size, so memory stays linear. The largest candidate is returned if none
    is close enough.
    """
    if n_rows <= SMALL_DATA:
        return n_rows
    reference = NystroemLaplacian(pool, sigma).largest(n_clusters)[0]
    smallest = ROWS_PER_CLUSTER * n_clusters
    for size in (size for size in SUBSET_SIZES if size >= smallest):
        spectrum = DenseLaplacian(pool[:size], sigma).largest(n_clusters)[0]
        if float(np.abs(spectrum - reference).max()) < SPECTRUM_TOL:
            return size
    return max(SUBSET_SIZES[-1], smallest)


def check_kernel(L: Laplacian, sigma: float) -> bool:
    """Warn if the kernel cannot separate groups; return False if training is impossible."""
    n, typical = len(L.d), float(np.median(L.d))
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
