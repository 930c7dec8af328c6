"""Moon and the spirals of the paper, generated.

Shapes, sizes, noise and the order of the classes follow the files published with the paper. Rows come sorted by class
and along each curve, so that the blocks of a good kernel matrix are visible without reordering.
"""

import math

import numpy as np
from numpy.typing import NDArray

Dataset = tuple[NDArray[np.float64], NDArray[np.int64]]
Seed = int | np.random.Generator | np.random.RandomState | None

THREE_ARM_GAP = 4.0  # radians between the arms of the paper's spiral, which are not evenly spaced


def make_moon(n_samples: int = 1000, noise: float = 0.1, random_state: Seed = None) -> Dataset:
    """Return two interleaved parabolas, the paper's Moon.

    With t evenly spaced in [-2, 2], class 0 is (t, t^2), open upwards, and class 1 is (t + 2, 8 - 1.4 t^2), open
    downwards. Gaussian noise is added to both coordinates.

    Parameters
    ----------
    n_samples : int, default=1000
        Total number of rows; if it is odd, class 0 has one row more.
    noise : float, default=0.1
        Standard deviation of the noise.
    random_state : int, Generator, RandomState or None
        Seed or source of the noise; None uses fresh entropy. NumPy's global state is not used.

    Returns
    -------
    X : ndarray of shape (n_samples, 2), float64
    y : ndarray of shape (n_samples,), int64

    Examples
    --------
    >>> X, y = make_moon(random_state=0)
    >>> X.shape, y[0].item(), y[-1].item()
    ((1000, 2), 0, 1)
    """
    _check(n_samples, 2, noise)
    sizes = _class_sizes(n_samples, 2)
    up, down = (np.linspace(-2, 2, size) for size in sizes)
    X = np.vstack([np.column_stack([up, up**2]), np.column_stack([down + 2, 8 - 1.4 * down**2])])
    X += _generator(random_state).normal(0, noise, X.shape)
    return X, np.repeat(np.arange(2), sizes)


def make_spirals(n_samples: int = 3000, n_arms: int = 3, noise: float = 0.16, random_state: Seed = None) -> Dataset:
    """Return interleaved spiral arms around the origin; three arms are the paper's Spiral1 and Spiral2.

    Along an arm the radius grows evenly from 0.3 to 2 while the angle turns clockwise by 2.4 radians. The noise is an
    angle, so an arm is thinner near the origin. The paper's three arms start 4 radians apart, so one gap is
    narrower than the other two; any other number of arms is spaced evenly.

    Parameters
    ----------
    n_samples : int, default=3000
        Total number of rows, divided over the arms as evenly as possible. 3000 is Spiral1, 30,000 is Spiral2.
    n_arms : int, default=3
        Number of arms, one class each. With six or more, neighbouring arms touch at the default noise.
    noise : float, default=0.16
        Standard deviation of the angle, in radians.
    random_state : int, Generator, RandomState or None
        Seed or source of the noise; None uses fresh entropy. NumPy's global state is not used.

    Returns
    -------
    X : ndarray of shape (n_samples, 2), float64
    y : ndarray of shape (n_samples,), int64

    Examples
    --------
    >>> X, y = make_spirals(n_samples=30_000, random_state=0)
    >>> X.shape, np.bincount(y).tolist()
    ((30000, 2), [10000, 10000, 10000])
    """
    _check(n_samples, n_arms, noise)
    sizes = _class_sizes(n_samples, n_arms)
    gap = THREE_ARM_GAP if n_arms == 3 else 2 * math.pi / n_arms
    progress = np.concatenate([np.linspace(0, 1, size) for size in sizes])
    y = np.repeat(np.arange(n_arms), sizes)
    clockwise = gap * y + 2.4 * progress + _generator(random_state).normal(0, noise, n_samples)
    radius = 0.3 + 1.7 * progress
    X = np.column_stack([radius * np.sin(clockwise), radius * np.cos(clockwise)])  # angle 0 points up
    return X, y


def _check(n_samples: int, n_classes: int, noise: float) -> None:
    """Raise if a dataset of these sizes is impossible."""
    if n_classes < 1:
        raise ValueError(f"n_arms must be at least 1. Got {n_classes!r} instead.")
    if n_samples < n_classes:
        raise ValueError(f"n_samples={n_samples!r} is less than one row for each of {n_classes} classes.")
    if not noise >= 0:
        raise ValueError(f"noise must be a number of at least 0. Got {noise!r} instead.")


def _class_sizes(n_samples: int, n_classes: int) -> NDArray[np.int64]:
    """Return sizes that differ by at most one, the larger first, and sum to `n_samples`."""
    return (n_samples - np.arange(n_classes) + n_classes - 1) // n_classes


def _generator(random_state: Seed) -> np.random.Generator:
    """Return a generator for any of the seeds that scikit-learn users pass."""
    if isinstance(random_state, np.random.RandomState):
        random_state = int(random_state.randint(2**31))
    return np.random.default_rng(random_state)
