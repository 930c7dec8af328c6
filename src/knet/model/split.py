"""Where a cluster can be cut in two: the best partition of the model's summary of its training rows."""

import numpy as np

from knet.model.predictor import Predictor
from knet.start.candidates import Pool
from knet.start.choice import choose_from
from knet.start.judge import Judge
from knet.threads import one_blas_thread

MIN_PLACES = 8  # places that a cluster needs: fewer have no shape


def find_sides(predictor: Predictor, label: int) -> list[int]:
    """Return for each place of the model its side in a split of a cluster: 0 in the larger part, 1 in the other.

    Places of other clusters have -1. The candidates and the judge are those of the start of a fit.
    """
    places, weights = predictor.certainty.places.astype(np.float64), predictor.certainty.place_weights
    own = np.flatnonzero(predictor.label_prepared(predictor.certainty.places) == label)
    if len(own) < MIN_PLACES:
        raise ValueError(
            f"Cluster {label} is too small to be split: the model summarises its rows by {len(own)} places, and a "
            f"split needs {MIN_PLACES}. Fit the model with a larger n_clusters."
        )
    with one_blas_thread():
        pool = Pool(places[own], [2], 0)
        halves = choose_from(pool, Judge(pool.X, pool.near), 2).labels
    larger = int(np.bincount(halves, weights=weights[own]).argmax())
    sides = np.full(len(places), -1)
    sides[own] = halves != larger
    return [int(side) for side in sides]
