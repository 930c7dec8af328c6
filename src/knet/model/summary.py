"""The predictor that a fit leaves behind: centres, landmarks that summarise the training rows, and certainty."""

import numpy as np
from numpy.typing import DTypeLike

from knet.arrays import Floats, Labels, Rows, squared_distances
from knet.model.encoder import RowEncoder, RowMLP
from knet.model.landmarks import landmarks
from knet.model.learn_certainty import learn_certainty
from knet.model.predictor import Clusters, Predictor
from knet.model.reference import Reference
from knet.prepare.preparation import Preparation
from knet.start.centers import find_centers
from knet.start.votes import Votes
from knet.train.networks import Encoder, ResidualMLP
from knet.train.settings import Settings
from knet.train.training import Trained


def summarize(
    trained: Trained,
    X: Floats,
    some_rows: Rows,
    preparation: Preparation,
    settings: Settings,
    votes: Votes | None,
    rng: np.random.RandomState,
) -> Predictor:
    """Embed the training rows, find the centres, and keep what new rows need: nothing that grows with the rows.

    X are the prepared training rows; `some_rows` are at most `REFERENCE_ROWS` of them as they were given.
    """
    n_clusters, encoder = settings.n_clusters, row_encoder(trained.encoder, X.dtype, settings.device)
    Psi = encoder(X)
    centers = _centers(Psi, trained.labels, n_clusters, rng).astype(Psi.dtype)
    tiny = float(np.finfo(Psi.dtype).tiny) ** 0.5
    clusters = Clusters(centers, max(float(squared_distances(Psi, centers).min(1).mean()) / Psi.shape[1], tiny))
    points, weights = landmarks(Psi, rng)
    scores = clusters.scores(Psi)
    labels = scores.argmax(1)
    certainty = learn_certainty(X, labels, clusters.gaps(Psi, scores), votes, trained.held_out, rng)
    return Predictor(
        preparation=preparation,
        encoder=encoder,
        sigma=trained.sigma,
        clusters=clusters,
        landmarks=points.astype(Psi.dtype),
        weights=weights,
        certainty=certainty.astype(Psi.dtype),
        reference=Reference.of(some_rows, labels, n_clusters),
    )


def row_encoder(net: Encoder, dtype: DTypeLike, device: object) -> RowEncoder:
    """Return a trained network as a function of arrays, in a precision; only GPUs and own networks need torch."""
    if not isinstance(net, ResidualMLP):
        from knet.model.torch_encoder import TorchEncoder

        return TorchEncoder(net.module, net.device).astype(dtype)
    mlp = RowMLP(net.skip, tuple(net.weights), tuple(net.biases)).astype(dtype)
    if str(device) == "cpu":
        return mlp
    from knet.model.torch_encoder import on_device

    return on_device(mlp, str(device))


def _centers(Psi: Floats, labels: Labels | None, n_clusters: int, rng: np.random.RandomState) -> Floats:
    """Return the means of the groups that psi has followed, or else the centres of k-means on psi(X) (line 9)."""
    if labels is None or len(np.unique(labels)) < n_clusters:
        return find_centers(Psi, n_clusters, rng, start=labels)
    return np.stack([Psi[labels == group].mean(0) for group in range(n_clusters)])
