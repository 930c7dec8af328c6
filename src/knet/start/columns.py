"""Columns as the choice of a start sees them; the model itself is trained on the scaled rows as they are."""

import numpy as np

from knet.arrays import Floats
from knet.prepare.projection import principal_directions

FEW_VALUES = 10  # a column with at most this many distinct values has few
MAX_COLUMNS = 64  # wider tables are replaced by this many principal components


def comparable_columns(X: Floats, rng: np.random.RandomState) -> Floats:
    """Return scaled rows in a form in which distances mean the same in all directions."""
    return principal_components(spread_few_values(X, rng), rng)


def spread_few_values(X: Floats, rng: np.random.RandomState) -> Floats:
    """Return X with columns of few values spread evenly over the gaps between these, if other columns have many.

    The empty space between the two values of a flag would separate the rows more clearly than any group in the other
    columns does. Columns keep mean 0 and standard deviation 1.
    """
    values = [np.unique(column) for column in X.T]
    few = np.array([len(found) <= FEW_VALUES for found in values], dtype=bool)
    if few.all() or not few.any():
        return X
    out = X.copy()
    for j in np.flatnonzero(few):
        if len(found := values[j]) > 1:
            middles = (found[1:] + found[:-1]) / 2
            edges = np.concatenate([[2 * found[0] - middles[0]], middles, [2 * found[-1] - middles[-1]]])
            places = np.searchsorted(found, X[:, j])
            spread = edges[places] + rng.uniform(size=len(X)) * (edges[places + 1] - edges[places])
            out[:, j] = (spread - spread.mean()) / spread.std() * X[:, j].std()
    return out


def principal_components(X: Floats, rng: np.random.RandomState) -> Floats:
    """Return the rows in their leading principal components if there are very many columns, else as they are."""
    if X.shape[1] <= MAX_COLUMNS:
        return X
    mean = X.mean(0)
    components: Floats = (X - mean) @ principal_directions(X, mean, MAX_COLUMNS, rng)[0]
    return components
