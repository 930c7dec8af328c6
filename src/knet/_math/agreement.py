"""Agreement of two partitions of the same rows, given as small whole numbers."""

import numpy as np

from knet._math.arrays import Labels


def contingency(first: Labels, second: Labels) -> Labels:
    """Return how many rows each pair of groups shares, (groups of the first, groups of the second)."""
    n_first, n_second = int(first.max()) + 1, int(second.max()) + 1
    shared: Labels = np.bincount(first * n_second + second, minlength=n_first * n_second).reshape(n_first, n_second)
    return shared


def rand_index(first: Labels, second: Labels) -> float:
    """Return the adjusted Rand index: 1 for equal partitions, about 0 for independent ones."""
    shared = contingency(first, second).astype(np.float64)
    together, first_pairs, second_pairs, pairs = (
        (sizes * (sizes - 1)).sum() for sizes in (shared, shared.sum(1), shared.sum(0), shared.sum())
    )
    expected, maximum = first_pairs * second_pairs, (first_pairs + second_pairs) / 2 * pairs
    return float((together * pairs - expected) / (maximum - expected)) if maximum != expected else 1.0
