"""Advice on data that no model has seen yet."""

from collections.abc import Iterable
from typing import Any

from numpy.typing import ArrayLike

from knet.estimator import KNet
from knet.scanning import Scan


def scan(
    X: ArrayLike,
    clusters: Iterable[int] = range(2, 11),
    *,
    scale: str = "standard",
    n_resamples: int = 5,
    n_jobs: int | None = None,
    random_state: Any = None,
) -> Scan:
    """Advise on the number of clusters of X, or say that the data give no answer.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Rows, as for `KNet.fit`; of more than 1000 a random sample is looked at.
    clusters : iterable of int, default=range(2, 11)
        The numbers to compare.
    scale : {"standard", "none"}, default="standard"
        As in `KNet`.
    n_resamples : int, default=5
        Pairs of random halves that stability is measured on.
    n_jobs : int, default=None
        As in joblib.
    random_state : int, RandomState or None, default=None
        The only source of randomness.

    Returns
    -------
    Scan
        `best` (an int or None), `supported`, `advice` in words, and `table`; draw it with `knet.plots.scan`.

    Examples
    --------
    >>> from knet import scan
    >>> from knet.datasets import make_moon
    >>> scan(make_moon(300, random_state=0)[0], range(2, 5), random_state=0).best
    2
    """
    model = KNet(scale=scale, random_state=random_state)
    return model.scan(X, clusters, n_resamples=n_resamples, n_jobs=n_jobs)
