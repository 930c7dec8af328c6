"""What can be said about rows and clusters: the scan for a number of clusters, and the numbers behind every picture.

Imports the estimator and everything below it.
"""
