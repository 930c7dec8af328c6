"""The paper's deep competitors from their packages: AEC and DEC from ClustPy, SN from spectralnet.

Layers, batch sizes and optimisers are those of the paper's setup and hyper-parameter table, if the packages accept
them. The deviations, which the page on the reproduction lists too:

- DEC and AEC: autoencoders are pre-trained by Adam at 0.001 for 100 epochs (that is Prep) and clustered by SGD at 0.01
  with momentum 0.9 for 150 (RT). The paper names no pre-training, and no learning rate for AEC. If training
  diverges at that rate, to an embedding that is not finite, a tenth of it is used, as in the paper.
- SN: Adam, since the package has no other optimiser, batches of 1024, the package's own, and its nearest-neighbour
  affinity instead of the Siamese network, which costs several times the time; the paper tuned SN by a grid search.
- On more than `LARGE` rows the epochs of all three are cut to `LARGE_SHARE` of these.

The output of each fit is suppressed: both packages print and draw progress bars.
"""

import contextlib
import io
import warnings
from collections.abc import Iterator

import numpy as np
import torch
from sklearn.cluster import KMeans

from benchmarks.tasks import Labels, Outcome, Rows, Stopwatch, Task

TORCHVISION_OPERATORS: list[
    torch.library.Library
] = []  # stored: the operators exist as long as the library object does
PRETRAIN_EPOCHS, CLUSTER_EPOCHS = 100, 150
LARGE, LARGE_SHARE = 5_000, 0.2
LEARNING_RATES, MOMENTUM = (0.01, 0.001, 0.0001), 0.9  # the first that does not diverge


def run_aec(task: Task) -> Outcome:
    """Cluster by an autoencoder with a k-means penalty."""
    import_clustpy()
    from clustpy.deep import AEC

    return _run_clustpy(task, AEC, hidden=[1000, 250, 50, 10], batch_size=100)


def run_dec(task: Task) -> Outcome:
    """Cluster by deep embedded clustering."""
    import_clustpy()
    from clustpy.deep import DEC

    return _run_clustpy(task, DEC, hidden=[500, 500, 2000, 10], batch_size=256)


def run_sn(task: Task) -> Outcome:
    """Cluster by SpectralNet; all rows are embedded by the trained network, then k-means."""
    from spectralnet import SpectralNet

    watch = Stopwatch()
    X, train = torch.from_numpy(task.X).float(), torch.from_numpy(task.X[task.train]).float()
    with silent(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(task.seed)
        model = SpectralNet(
            task.n_clusters,
            spectral_hiddens=[1024, 1024, 512, task.n_clusters],
            spectral_epochs=_epochs(30, train),
            spectral_n_nbg=min(30, len(train) // 10 - 2),  # it validates on a tenth of the rows
            spectral_scale_k=min(15, len(train) // 10 - 3),
        )
        model.fit(train)
        model.predict(X)
    labels = _k_means(model.embeddings_, task)
    return Outcome(labels, 0.0, watch.lap())


def _run_clustpy(task: Task, algorithm: type, hidden: list[int], batch_size: int) -> Outcome:
    """Pre-train an autoencoder, cluster by one of ClustPy's algorithms, label all rows by k-means on the embedding."""
    from clustpy.deep.neural_networks import FeedforwardAutoencoder

    watch = Stopwatch()
    X, train = task.X.astype(np.float32), task.X[task.train].astype(np.float32)
    with silent(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(task.seed)
        network = FeedforwardAutoencoder([X.shape[1], *hidden], random_state=task.seed)
        network.fit(_epochs(PRETRAIN_EPOCHS, train), {"lr": 1e-3}, batch_size=batch_size, data=train)
        prep = watch.lap()
        for rate in LEARNING_RATES:
            model = algorithm(
                task.n_clusters,
                batch_size=batch_size,
                neural_network=network,
                clustering_epochs=_epochs(CLUSTER_EPOCHS, train),
                clustering_optimizer_params={"lr": rate, "momentum": MOMENTUM},
                optimizer_class=torch.optim.SGD,
                embedding_size=hidden[-1],
                random_state=task.seed,
            ).fit(train)
            embedded = model.transform(X)
            if np.isfinite(embedded).all():
                break
    if not np.isfinite(embedded).all():
        raise ValueError(f"training diverged at every learning rate of {LEARNING_RATES}")
    labels = _k_means(embedded, task) if task.partial else model.labels_
    return Outcome(np.asarray(labels), prep, watch.lap(), {"lr": rate})


def _epochs(epochs: int, train: Rows | torch.Tensor) -> int:
    """Return the number of epochs for this number of rows."""
    return epochs if len(train) <= LARGE else round(epochs * LARGE_SHARE)


def _k_means(embedding: Rows, task: Task) -> Labels:
    """Return the labels of embedded rows by k-means, as in the paper."""
    return KMeans(task.n_clusters, n_init=10, random_state=task.seed).fit(embedding).labels_


def import_clustpy() -> None:
    """Import ClustPy, also if torchvision lacks its operators, as it does with a CPU build of torch."""
    try:
        import clustpy.deep
    except RuntimeError:
        library = torch.library.Library("torchvision", "DEF")
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        TORCHVISION_OPERATORS.append(library)
        import clustpy.deep  # noqa: F401 (the import is the point)


@contextlib.contextmanager
def silent() -> Iterator[None]:
    """Suppress printed text and warnings."""
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        yield
