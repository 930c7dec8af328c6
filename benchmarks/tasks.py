"""The input and the output of an algorithm, and the measurement of its time."""

import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler

Rows = NDArray[np.float64]
Labels = NDArray[np.int64]


@dataclass(frozen=True)
class Task:
    """A data set to be clustered as a whole, after training on some of its rows.

    Attributes
    ----------
    dataset : str
        Its name.
    raw : array of shape (n_samples, n_features)
        The rows, not scaled.
    train : array of indices
        The rows to train on.
    n_clusters, seed : int
        The number of clusters, and the seed of everything random.
    """

    dataset: str
    raw: Rows
    train: NDArray[np.int64]
    n_clusters: int
    seed: int

    @property
    def X(self) -> Rows:  # noqa: N802 (the paper's capital)
        """Return all rows, centred and scaled, as the paper prepares them."""
        return StandardScaler().fit_transform(self.raw)

    @property
    def partial(self) -> bool:
        """Return whether some rows are not used in training."""
        return len(self.train) < len(self.raw)


@dataclass(frozen=True)
class Outcome:
    """Labels of all rows, CPU seconds of preparation and of the run, and further figures of the algorithm."""

    labels: Labels
    prep: float
    run: float
    details: dict[str, float] = field(default_factory=dict)


class Stopwatch:
    """CPU seconds of this process, lap by lap: they measure work, even if the machine has other load."""

    def __init__(self) -> None:
        self._last = time.process_time()

    def lap(self) -> float:
        """Return the seconds since the last lap."""
        now = time.process_time()
        seconds, self._last = now - self._last, now
        return seconds
