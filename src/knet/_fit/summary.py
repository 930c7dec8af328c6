"""The predictor that a fit leaves behind: centres, landmarks that summarise the training rows, and certainty."""

from dataclasses import replace

import numpy as np
from torch import Tensor

from knet._fit.certainty import learn_certainty
from knet._fit.learner import Learned
from knet._math.arrays import Floats
from knet._math.centers import find_centers
from knet._math.distances import squared_distances
from knet._math.landmarks import landmarks
from knet._network.preparation import Preparation
from knet._network.torch_encoder import row_encoder
from knet.predictor import Predictor


def summarize(
    learned: Learned, X: Tensor, preparation: Preparation, n_clusters: int, rng: np.random.RandomState
) -> Predictor:
    """Embed the training rows, find the centres, and keep what new rows need: nothing that grows with the rows."""
    kept = learned.kept
    net = kept.encoder.requires_grad_(False).eval()
    Psi: Floats = net(X)[0].cpu().numpy()
    found = find_centers(Psi, n_clusters, rng) if kept.centers is None else kept.centers
    centers = found.astype(Psi.dtype)
    nearest = squared_distances(Psi, centers).min(1)
    tiny = float(np.finfo(Psi.dtype).tiny) ** 0.5
    points, weights = landmarks(Psi, rng)
    predictor = Predictor(
        preparation=preparation,
        encoder=row_encoder(net, X.device),
        sigma=learned.sigma,
        centers=centers,
        spread=max(float(nearest.mean()) / Psi.shape[1], tiny),
        landmarks=points.astype(Psi.dtype),
        weights=weights.astype(np.float64),
    )
    scores = predictor.scores(Psi)
    certainty = learn_certainty(X.cpu().numpy(), scores.argmax(1), predictor.gaps(Psi, scores), rng)
    return replace(predictor, certainty=certainty.astype(Psi.dtype))
