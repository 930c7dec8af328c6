"""Coarser levels of the clusters of a model: clusters join, the closest first. Needs NumPy only."""

from collections.abc import Sequence

import numpy as np

from knet.arrays import Labels

Hierarchy = Sequence[Sequence[int]]  # pairs [kept, joined], in the order in which clusters join


def join_clusters(labels: Labels, hierarchy: Hierarchy, counts: Sequence[int]) -> Labels:
    """Return labels at several levels, (n, levels): clusters join until as many are left as the level asks for.

    Rejected rows keep the label -1.
    """
    n_clusters = len(hierarchy) + 1
    if not all(1 <= count <= n_clusters for count in counts):
        raise ValueError(f"Levels must be numbers of clusters from 1 to {n_clusters}. Got {list(counts)} instead.")
    levels = []
    for count in counts:
        names = np.arange(n_clusters)
        for kept, joined in hierarchy[: n_clusters - count]:
            names[names == joined] = kept
        levels.append(np.append(np.unique(names, return_inverse=True)[1], -1)[labels])
    return np.column_stack(levels).astype(np.int64)


def level_columns(labels: Labels, hierarchy: Hierarchy, counts: Sequence[int]) -> dict[str, Labels]:
    """Return the levels that are coarser than the clusters as columns level_1, level_2, ..., coarse to fine."""
    coarser = [count for count in counts if 1 < count <= len(hierarchy)]
    if not coarser:
        return {}
    columns = join_clusters(labels, hierarchy, coarser).T
    return {f"level_{place}": column for place, column in enumerate(columns, start=1)}
