"""What the data and the clusters look like: the scan over numbers of clusters, stability, rules and contributions.

Imports `arrays`, `estimator`, `metrics`, `model`, `parameters`, `prepare`, `rows`, `start`, `threads` and `train`.
"""
