"""The paper's datasets: Moon, Spiral1 and Spiral2 generated, Wine from scikit-learn, Cancer, Face and RCV from files.

Shapes, sizes, noise and the order of the classes of the generated ones follow the files published with the paper. Rows
come sorted by class and along each curve, so that a good kernel matrix shows its blocks without reordering.
"""

import math
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from knet.public_files import PUBLIC_FILES, Dataset, download, read_public

__all__ = ["PAPER_DATASETS", "download", "load_paper", "make_moon", "make_spirals"]

Seed = int | np.random.Generator | np.random.RandomState | None

PAPER_DATASETS = ("moon", "spiral1", "spiral2", "cancer", "wine", "rcv", "face")
DATA_FOLDER = "KNET_DATA"  # the environment variable that names the folder

THREE_ARM_GAP = 4.0  # radians between the arms of the paper's spiral, which are not evenly spread


def make_moon(n_samples: int = 1000, noise: float = 0.1, random_state: Seed = None) -> Dataset:
    """Return two parabolas that reach into each other, the paper's Moon.

    With t evenly spaced in [-2, 2], class 0 is (t, t^2), open upwards, and class 1 is (t + 2, 8 - 1.4 t^2), open
    downwards. Gaussian noise is added to both coordinates.

    Parameters
    ----------
    n_samples : int, default=1000
        Rows in all; class 0 has the odd one.
    noise : float, default=0.1
        Standard deviation of the noise.
    random_state : int, Generator, RandomState or None
        Seed or source of the noise; None draws fresh entropy and leaves NumPy's global state alone.

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
    angle, so an arm is thinner near the origin. The paper's three arms start 4 radians apart, which leaves one gap
    narrower than the other two; any other number of arms is spread evenly.

    Parameters
    ----------
    n_samples : int, default=3000
        Rows in all, divided over the arms as evenly as possible. 3000 is Spiral1, 30,000 is Spiral2.
    n_arms : int, default=3
        Number of arms, one class each. From about six on, neighbouring arms touch at the default noise.
    noise : float, default=0.16
        Standard deviation of the angle, in radians.
    random_state : int, Generator, RandomState or None
        Seed or source of the noise; None draws fresh entropy and leaves NumPy's global state alone.

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


def load_paper(name: str, folder: str | Path | None = None, random_state: int = 0) -> Dataset:
    """Return one of the paper's seven datasets by name.

    Prepared files, NAME.csv with NAME_label.csv, are taken if the folder holds them. Otherwise Moon and the spirals are
    generated, Wine is scikit-learn's copy, and Cancer, Face and RCV are read from their public files, with the paper's
    preprocessing. Nothing is downloaded here: `download` does that.

    Parameters
    ----------
    name : str
        One of `PAPER_DATASETS`.
    folder : str or Path, default=None
        The data folder; None takes the environment variable KNET_DATA.
    random_state : int, default=0
        Seed of what is generated, and of the articles drawn for RCV.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features), float64
    y : ndarray of shape (n_samples,), int64
        Classes, numbered from 0.

    Examples
    --------
    >>> X, y = load_paper("wine", folder=".")
    >>> X.shape, len(set(y.tolist()))
    ((178, 13), 3)
    """
    if name not in PAPER_DATASETS:
        raise ValueError(f"The paper has no dataset {name!r}; it has {', '.join(PAPER_DATASETS)}.")
    folder = folder if folder is not None else os.environ.get(DATA_FOLDER)
    if folder is not None:
        folder = Path(folder)
        if not folder.is_dir():
            raise FileNotFoundError(f"The data folder {str(folder)!r} does not exist.")
        if (folder / f"{name}.csv").exists():
            return _read_prepared(folder, name)
    if name == "moon":
        return make_moon(random_state=random_state)
    if name in ("spiral1", "spiral2"):
        return make_spirals(3_000 if name == "spiral1" else 30_000, random_state=random_state)
    if name == "wine":
        from sklearn.datasets import load_wine

        X, y = load_wine(return_X_y=True)
        return np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.int64)
    if folder is None:
        files = ", ".join(file.name for file in PUBLIC_FILES[name])
        raise FileNotFoundError(
            f"The dataset {name!r} needs a data folder with {name}.csv and {name}_label.csv, or with {files}: pass "
            f"folder=..., or set {DATA_FOLDER}. knet.datasets.download({name!r}, folder) fetches what is public."
        )
    return read_public(name, folder, random_state)


def _read_prepared(folder: Path, name: str) -> Dataset:
    """Return NAME.csv and NAME_label.csv, with the classes numbered from 0."""
    labels = folder / f"{name}_label.csv"
    if not labels.exists():
        raise FileNotFoundError(f"{name}.csv is in {str(folder)!r}, but {name}_label.csv is not.")
    X = np.loadtxt(folder / f"{name}.csv", delimiter=",", ndmin=2)
    y = np.unique(np.loadtxt(labels, ndmin=1), return_inverse=True)[1].astype(np.int64)
    if len(X) != len(y):
        raise ValueError(f"{name}.csv has {len(X)} rows, {name}_label.csv has {len(y)}.")
    return X, y


def _check(n_samples: int, n_classes: int, noise: float) -> None:
    """Raise where a dataset of these sizes cannot be made."""
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
