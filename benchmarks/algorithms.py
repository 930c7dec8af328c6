"""The algorithms by name: the paper's eight, the default of knet, and alternatives that a user would try.

Each takes a `Task` and returns an `Outcome`. All get the same rows, centred and scaled, except `kmeans-raw`, which
shows what the paper's k-means was given.
"""

import importlib.util
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.cluster import HDBSCAN, KMeans, SpectralClustering
from sklearn.mixture import GaussianMixture

from benchmarks.deep_peers import run_aec, run_dec, run_sn, silent
from benchmarks.imsat import IMSAT
from benchmarks.paper_numbers import SUMMARY
from benchmarks.tasks import Outcome, Stopwatch, Task
from knet import Advanced, KNet
from knet.presets import paper

NO_PAPER_SIGMA = 1.0  # of scaled rows, for data sets that the paper does not have


@dataclass(frozen=True)
class Algorithm:
    """One way to cluster.

    Attributes
    ----------
    title : str
        Its name in tables.
    run : callable
        From a task to an outcome.
    seeds : int
        Runs in the full form; deterministic and slow algorithms have fewer.
    seeds_on : mapping
        Other counts, by data set.
    new_rows : bool
        Whether it can label rows that it was not trained on.
    package : str or None
        The module that it needs in addition to knet's own requirements.
    cost : float
        Rough seconds per thousand rows, to estimate the remaining time.
    """

    title: str
    run: Callable[[Task], Outcome]
    seeds: int = 10
    seeds_on: Mapping[str, int] = field(default_factory=dict)
    new_rows: bool = True
    package: str | None = None
    cost: float = 0.1

    @property
    def installed(self) -> bool:
        """Return whether its package is installed."""
        return self.package is None or importlib.util.find_spec(self.package) is not None

    def seeds_for(self, dataset: str) -> int:
        """Return the number of runs on a data set."""
        return self.seeds_on.get(dataset, self.seeds)


def run_kmeans(task: Task) -> Outcome:
    """Cluster by k-means; rows that were not trained on get the nearest centre."""
    return _kmeans(task, task.X)


def run_kmeans_raw(task: Task) -> Outcome:
    """Cluster the rows as they come, unscaled."""
    return _kmeans(task, task.raw)


def _kmeans(task: Task, X: np.ndarray) -> Outcome:
    watch = Stopwatch()
    model = KMeans(task.n_clusters, n_init=10, random_state=task.seed).fit(X[task.train])
    return Outcome(model.predict(X), 0.0, watch.lap())


def run_sc(task: Task) -> Outcome:
    """Cluster by spectral clustering with a Gaussian kernel of the paper's width."""
    sigma = SUMMARY[task.dataset][4] if task.dataset in SUMMARY else NO_PAPER_SIGMA
    return _spectral(task, gamma=1 / (2 * sigma**2))


def run_sc_neighbors(task: Task) -> Outcome:
    """Cluster by spectral clustering on the graph of ten nearest neighbours."""
    return _spectral(task, affinity="nearest_neighbors", n_neighbors=10)


def _spectral(task: Task, **affinity: Any) -> Outcome:
    watch = Stopwatch()
    with silent():
        model = SpectralClustering(task.n_clusters, random_state=task.seed, **affinity).fit(task.X)
    return Outcome(model.labels_, 0.0, watch.lap())


def run_gmm(task: Task) -> Outcome:
    """Cluster by a Gaussian mixture, the best of ten starts."""
    watch, X = Stopwatch(), task.X
    with silent():
        model = GaussianMixture(task.n_clusters, n_init=10, random_state=task.seed).fit(X[task.train])
    return Outcome(model.predict(X), 0.0, watch.lap())


def run_hdbscan(task: Task) -> Outcome:
    """Cluster by HDBSCAN, which chooses the number of clusters; its noise counts as one more cluster."""
    watch = Stopwatch()
    labels = HDBSCAN(copy=True).fit(task.X).labels_
    return Outcome(labels, 0.0, watch.lap(), {"clusters": float(labels.max() + 1), "noise": float((labels < 0).mean())})


def run_umap(task: Task) -> Outcome:
    """Cluster by k-means on a UMAP of two dimensions."""
    from umap import UMAP

    watch, X = Stopwatch(), task.X
    with silent():
        model = UMAP(n_components=2, random_state=task.seed).fit(X[task.train])
        embedded = model.transform(X) if task.partial else model.embedding_
    prep = watch.lap()
    labels = KMeans(task.n_clusters, n_init=10, random_state=task.seed).fit(embedded).labels_
    return Outcome(labels, prep, watch.lap())


def run_genie(task: Task) -> Outcome:
    """Cluster by Genie at its recommended Gini threshold, 0.3."""
    from genieclust import Genie

    watch = Stopwatch()
    labels = Genie(n_clusters=task.n_clusters, gini_threshold=0.3).fit_predict(task.X)
    return Outcome(np.asarray(labels), 0.0, watch.lap())


def run_imsat(task: Task) -> Outcome:
    """Cluster by IMSAT; the neighbour distances are Prep."""
    watch, X = Stopwatch(), task.X
    model = IMSAT(task.n_clusters, random_state=task.seed)
    sizes = model.prepare(X[task.train])
    prep = watch.lap()
    return Outcome(model.fit(X[task.train], sizes).predict(X), prep, watch.lap())


def run_knet(task: Task, model: KNet | None = None) -> Outcome:
    """Cluster by KNet, by default with its defaults; Prep is the time before the first iteration.

    After training on a subset, all rows are embedded and clustered by k-means, as in the paper.
    """
    watch, started = Stopwatch(), time.perf_counter()
    first_iteration: list[tuple[float, float]] = []

    def note_first_iteration(row: dict[str, Any]) -> None:
        if not first_iteration:
            wall = time.perf_counter() - started
            first_iteration.append((watch.lap(), min(1.0, float(row["seconds"]) / wall)))

    with silent():
        model = model or KNet(task.n_clusters)
        model.set_params(random_state=task.seed, callback=note_first_iteration).fit(task.raw[task.train])
        labels = model.recluster(task.raw) if task.partial else model.labels_
    rest = watch.lap()
    seconds, share = first_iteration[0] if first_iteration else (0.0, 0.0)
    return Outcome(labels, seconds * (1 - share), seconds * share + rest, knet_details(model, task))


def knet_details(model: KNet, task: Task) -> dict[str, float]:
    """Return the figures of the lambda tables: HSIC, and the error of the autoencoder, both at the end.

    Without a reconstruction term no decoder is trained: it stays the identity, which it is at the start.
    """
    last = model.history_[-1] if model.history_ else {"hsic": float("nan"), "reconstruction": float("nan")}
    error = float(last["reconstruction"])
    if (model.advanced or Advanced()).reconstruction_weight == 0 and model.cluster_centers_.shape[1] == task.raw.shape[
        1
    ]:
        rows = task.raw[task.train]
        scaled = (rows - rows.mean(0)) / np.where(rows.std(0) > 0, rows.std(0), 1)
        error = float(((model.transform(rows) - scaled) ** 2).mean())
    return {"hsic": float(last["hsic"]), "ae": error, "iterations": float(model.n_iter_), "sigma": float(model.sigma_)}


def run_knet_paper(task: Task, **settings: Any) -> Outcome:
    """Cluster by KNet with the paper's settings for this data set; `settings` as for `set_params`."""
    if task.partial:
        settings["train_size"] = len(task.train)
    return run_knet(task, paper_model(task.dataset, task.n_clusters, **settings))


def paper_model(dataset: str, n_clusters: int, **settings: Any) -> KNet:
    """Return KNet with the paper's settings, some of them replaced; the preset itself is not changed."""
    return clone(KNet(n_clusters, **paper(dataset))).set_params(**settings)


def run_knet_eig(task: Task) -> Outcome:
    """Cluster by KNet_EIG."""
    return run_knet_paper(task, u_update="eig")


def run_knet_sma(task: Task) -> Outcome:
    """Cluster by KNet_SMA."""
    return run_knet_paper(task, u_update="sma")


FEW_ON_RCV = {"rcv": 1}
ALGORITHMS: dict[str, Algorithm] = {
    "aec": Algorithm("AEC", run_aec, 2, {"rcv": 1, "spiral1": 1}, package="clustpy", cost=25),
    "dec": Algorithm("DEC", run_dec, 2, {"rcv": 1, "spiral1": 1}, package="clustpy", cost=50),
    "imsat": Algorithm("IMSAT", run_imsat, 3, {"rcv": 1, "spiral1": 2}, cost=30),
    "sn": Algorithm("SN", run_sn, 3, FEW_ON_RCV, package="spectralnet", cost=10),
    "sc": Algorithm("SC", run_sc, 3, FEW_ON_RCV, new_rows=False, cost=4),
    "kmeans": Algorithm("k-means", run_kmeans),
    "knet-eig": Algorithm("KNet EIG", run_knet_eig, cost=4),
    "knet-sma": Algorithm("KNet SMA", run_knet_sma, cost=4),
    "knet": Algorithm("KNet default", run_knet, 10, {"rcv": 5}, cost=5),
    "kmeans-raw": Algorithm("k-means, unscaled", run_kmeans_raw),
    "sc-neighbors": Algorithm("SC, neighbours", run_sc_neighbors, 3, FEW_ON_RCV, new_rows=False, cost=0.2),
    "gmm": Algorithm("Gaussian mixture", run_gmm, 10, {"rcv": 3}, cost=0.5),
    "hdbscan": Algorithm("HDBSCAN", run_hdbscan, 1, new_rows=False),
    "umap": Algorithm("UMAP + k-means", run_umap, 3, FEW_ON_RCV, package="umap", cost=7),
    "genie": Algorithm("Genie", run_genie, 1, new_rows=False, package="genieclust"),
}
