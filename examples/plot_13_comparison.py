"""
Compared with other methods on toy data
=======================================

*When is knet better than k-means, a Gaussian mixture, spectral clustering or HDBSCAN, and when not?* The data
sets of scikit-learn's well-known plot, and the paper's spirals, with the seconds of each fit.

All methods get the true number of clusters, except HDBSCAN, which finds it and marks noise in grey. k-means and
the Gaussian mixture are the fastest, and enough if groups are round or elliptic. The last row has no groups:
every method that is told to find three will divide it, and :func:`knet.scan` advises not to.
"""

import time
import warnings

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import ListedColormap
from sklearn.cluster import HDBSCAN, KMeans, SpectralClustering
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler

from knet import KNet
from knet.datasets import make_spirals

# %%
# The data: rings, moons, groups of different density, stretched groups, spirals, round groups, and no groups.

rng = np.random.default_rng(30)
blobs, blob_labels = make_blobs(500, random_state=8)
datasets = {
    "rings": (make_circles(500, factor=0.5, noise=0.05, random_state=30)[0], 2),
    "moons": (make_moons(500, noise=0.05, random_state=30)[0], 2),
    "densities": (make_blobs(500, cluster_std=[1.0, 2.5, 0.5], random_state=170)[0], 3),
    "stretched": (make_blobs(500, random_state=170)[0] @ np.array([[0.6, -0.6], [-0.4, 0.8]]), 3),
    "spirals": (make_spirals(500, random_state=0)[0], 3),
    "round": (blobs, 3),
    "no groups": (rng.random((500, 2)), 3),
}


def methods(n_clusters):
    """Return the methods to compare, as they are used without tuning."""
    return {
        "k-means": KMeans(n_clusters, n_init=10, random_state=0),
        "Gaussian mixture": GaussianMixture(n_clusters, random_state=0),
        "spectral": SpectralClustering(n_clusters, affinity="nearest_neighbors", random_state=0),
        "HDBSCAN": HDBSCAN(min_samples=3, min_cluster_size=15, copy=True),
        "knet": KNet(n_clusters, random_state=0),
    }


# %%
# A column for each method, a row for each data set; the number is the time of the fit in seconds.

colors = ListedColormap(["#BBBBBB", "#0072B2", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#56B4E9", "#000000"])
figure, axes = plt.subplots(len(datasets), 5, figsize=(10, 2 * len(datasets)), layout="constrained")
for row, (name, (X, n_clusters)) in zip(axes, datasets.items(), strict=True):
    X = StandardScaler().fit_transform(X)
    for ax, (method, estimator) in zip(row, methods(n_clusters).items(), strict=True):
        started = time.perf_counter()
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Graph is not fully connected")  # what it is on separate groups
            labels = estimator.fit_predict(X)
        seconds = time.perf_counter() - started
        ax.scatter(*X.T, s=5, c=np.minimum(labels + 1, 7), cmap=colors, vmin=0, vmax=7)
        ax.text(0.98, 0.02, f"{seconds:.2f} s", transform=ax.transAxes, ha="right", fontsize=8)
        ax.set(xticks=[], yticks=[], title=method if ax in axes[0] else "", ylabel=name if method == "k-means" else "")
plt.show()
