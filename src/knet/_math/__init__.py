"""Pure functions of arrays: kernels, Laplacians, eigensolvers, U-steps, k-means, and threads to run them on.

Imports nothing else of knet.
"""
