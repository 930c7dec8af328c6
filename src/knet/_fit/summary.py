"""The predictor that a fit leaves behind: centres, and landmarks that summarise the training rows."""

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist
from torch import Tensor

from knet._fit.learner import Learned
from knet._math.arrays import Floats
from knet._math.centers import find_centers, large_k_means
from knet._math.distances import squared_distances
from knet._math.threads import one_blas_thread
from knet._network.scaling import Scaling
from knet._network.torch_encoder import row_encoder
from knet.predictor import Predictor

SUMMARY_ROWS = 256  # landmarks that represent the training rows in degrees
SUMMARY_SHARE = 4  # minimum of training rows per landmark


def summarize(learned: Learned, X: Tensor, scaling: Scaling, n_clusters: int, rng: np.random.RandomState) -> Predictor:
    """Embed the training rows, find the centres, and keep what new rows need: nothing that grows with the rows."""
    kept = learned.kept
    net = kept.encoder.requires_grad_(False).eval()
    Psi: Floats = net(X)[0].cpu().numpy()
    found = find_centers(Psi, n_clusters, rng) if kept.centers is None else kept.centers
    centers = found.astype(Psi.dtype)
    nearest = squared_distances(Psi, centers).min(1)
    tiny = float(np.finfo(Psi.dtype).tiny) ** 0.5
    landmarks, weights = _landmarks(Psi, rng)
    return Predictor(
        scaling=scaling,
        encoder=row_encoder(net, X.device),
        sigma=learned.sigma,
        centers=centers,
        spread=max(float(nearest.mean()) / Psi.shape[1], tiny),
        landmarks=landmarks.astype(Psi.dtype),
        weights=weights.astype(np.float64),
    )


def _landmarks(embedded: Floats, rng: np.random.RandomState) -> tuple[Floats, NDArray[np.int64]]:
    """Return centres of small groups of embedded rows, and how many rows each stands for."""
    n_groups = max(1, min(SUMMARY_ROWS, len(np.unique(embedded, axis=0)) // SUMMARY_SHARE))
    with one_blas_thread():
        groups = large_k_means(len(embedded))(n_groups, n_init=1, max_iter=20, random_state=rng).fit(embedded)
    centers, counts = groups.cluster_centers_, np.bincount(groups.labels_, minlength=n_groups)
    large = counts > 1  # the centre of a single row would be that row: it joins the nearest group
    joins = cdist(centers[~large], centers[large]).argmin(1)
    sums = centers[large] * counts[large, None]
    np.add.at(sums, joins, centers[~large])
    totals = counts[large] + np.bincount(joins, minlength=len(sums))
    return sums / totals[:, None], totals
