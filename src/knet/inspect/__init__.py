"""What the data and the clusters look like, as numbers: the scan over numbers of clusters, rules, samples, and views.

May import the estimator and everything that the estimator imports.
"""
