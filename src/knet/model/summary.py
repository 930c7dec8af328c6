"""The predictor that a fit leaves behind: centres, landmarks that summarise the training rows, and certainty."""

import numpy as np
from torch import Tensor

from knet.arrays import Floats, squared_distances
from knet.model.landmarks import landmarks
from knet.model.learn_certainty import learn_certainty
from knet.model.predictor import Clusters, Predictor
from knet.model.torch_encoder import row_encoder
from knet.prepare.preparation import Preparation
from knet.start.centers import find_centers
from knet.train.training import Trained


def summarize(
    trained: Trained, X: Tensor, preparation: Preparation, n_clusters: int, rng: np.random.RandomState
) -> Predictor:
    """Embed the training rows, find the centres, and keep what new rows need: nothing that grows with the rows."""
    net = trained.encoder.to(X.dtype).requires_grad_(False).eval()
    Psi: Floats = net(X).cpu().numpy()
    found = find_centers(Psi, n_clusters, rng) if trained.centers is None else trained.centers
    centers = found.astype(Psi.dtype)
    tiny = float(np.finfo(Psi.dtype).tiny) ** 0.5
    clusters = Clusters(centers, max(float(squared_distances(Psi, centers).min(1).mean()) / Psi.shape[1], tiny))
    points, weights = landmarks(Psi, rng)
    scores = clusters.scores(Psi)
    certainty = learn_certainty(X.cpu().numpy(), scores.argmax(1), clusters.gaps(Psi, scores), rng)
    return Predictor(
        preparation=preparation,
        encoder=row_encoder(net, X.device),
        sigma=trained.sigma,
        clusters=clusters,
        landmarks=points.astype(Psi.dtype),
        weights=weights.astype(np.float64),
        certainty=certainty.astype(Psi.dtype),
    )
