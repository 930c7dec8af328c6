"""Published adjusted Rand indices of the clustering benchmark suite v1.1 (M. Gagolewski), by data set and algorithm.

The labels are those published with the suite; scored here as the suite's data are: the best over a data set's reference
labelings, each with its own number of clusters given, noise rows left out. The suite scales all columns together.
Algorithms: Genie at Gini 0.3, ITM, Gaussian mixture, spectral clustering with an RBF kernel at gamma 5, k-means, Ward,
Birch.
"""

COLUMNS = ("genie", "itm", "gmm", "sc-rbf", "kmeans", "ward", "birch")

_ARI: dict[str, tuple[float | None, ...]] = {
    "fcps/atom": (1.0, 1.0, 0.028, 1.0, 0.182, 0.099, 0.099),
    "fcps/chainlink": (1.0, 1.0, 0.91, 1.0, 0.093, 0.28, 0.28),
    "fcps/engytime": (0.844, 0.832, 0.982, 0.918, 0.849, 0.747, 0.91),
    "fcps/hepta": (1.0, 0.897, 1.0, 1.0, 1.0, 1.0, 1.0),
    "fcps/lsun": (1.0, 1.0, 1.0, 0.801, 0.44, 0.369, 0.405),
    "fcps/target": (1.0, 1.0, 0.648, 1.0, 0.635, 0.639, 0.642),
    "fcps/tetra": (1.0, 1.0, 1.0, 1.0, 1.0, 0.967, 0.967),
    "fcps/twodiamonds": (0.975, 0.985, 1.0, 1.0, 1.0, 1.0, 0.995),
    "fcps/wingnut": (1.0, 1.0, 0.863, 0.778, 0.859, 0.601, 1.0),
    "uci/ecoli": (0.465, 0.329, 0.606, 0.346, 0.461, 0.486, 0.486),
    "uci/glass": (0.246, 0.225, 0.243, 0.224, 0.274, 0.262, 0.252),
    "uci/ionosphere": (0.208, 0.09, 0.401, 0.004, 0.178, 0.187, 0.187),
    "uci/sonar": (-0.004, 0.001, 0.001, 0.001, 0.006, -0.004, -0.004),
    "uci/statlog": (0.521, 0.529, 0.467, None, 0.358, 0.308, 0.401),
    "uci/wdbc": (0.283, 0.627, 0.706, 0.002, 0.491, 0.287, 0.287),
    "uci/wine": (0.359, 0.387, 0.825, 0.323, 0.371, 0.368, 0.368),
    "uci/yeast": (0.181, 0.084, 0.048, 0.014, 0.145, 0.126, 0.115),
}

PUBLISHED: dict[str, dict[str, float]] = {
    dataset: {name: value for name, value in zip(COLUMNS, values, strict=True) if value is not None}
    for dataset, values in _ARI.items()
}
