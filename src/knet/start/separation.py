"""How well separated the groups of a partition are, without known labels."""

import numpy as np
from scipy.cluster.hierarchy import cophenet, linkage
from scipy.spatial.distance import pdist, squareform
from sklearn.metrics import silhouette_score

from knet.arrays import Floats, Labels

NEIGHBOR = 5  # a distance is at least the distance of either row to this neighbour, which outliers do not bridge


def path_silhouette(Z: Floats, labels: Labels) -> float:
    """Return the mean silhouette of groups, from -1 to 1, with the distances between rows measured along paths.

    The length of a path is its longest step, and the distance between two rows is the length of the shortest path
    between them. Rows of one group are close if they are connected through rows between them, whatever the shape of the
    group. A group that is divided in two, and two groups that are merged, both lower the value; without groups in the
    data it is about 0. If there are not at least two groups, and a group of two rows, it is -1.
    """
    if not 2 <= len(np.unique(labels)) < len(labels):
        return -1.0
    D = squareform(pdist(Z))
    core = np.partition(D, min(NEIGHBOR, len(D) - 1), axis=1)[:, min(NEIGHBOR, len(D) - 1)]
    D = np.maximum(D, np.maximum(core[:, None], core))
    np.fill_diagonal(D, 0.0)
    paths = squareform(cophenet(linkage(squareform(D, checks=False), "single")))
    return float(silhouette_score(paths, labels, metric="precomputed"))
