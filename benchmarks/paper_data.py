"""The paper's seven datasets by name: generated, from scikit-learn, or read from prepared or public files."""

import os
from pathlib import Path

import numpy as np

from benchmarks.public_files import PUBLIC_FILES, read_public
from knet.datasets import Dataset, make_moon, make_spirals

PAPER_DATASETS = ("moon", "spiral1", "spiral2", "cancer", "wine", "rcv", "face")
DATA_FOLDER = "KNET_DATA"  # the environment variable that names the folder


def load_paper(name: str, folder: str | Path | None = None, random_state: int = 0) -> Dataset:
    """Return one of the paper's seven datasets by name.

    Prepared files, NAME.csv with NAME_label.csv, are used if the folder has them. Otherwise Moon and the spirals are
    generated, Wine is scikit-learn's copy, and Cancer, Face and RCV are read from their public files, with the paper's
    preprocessing. Nothing is downloaded here: `python -m benchmarks.download` does that.

    Parameters
    ----------
    name : str
        One of `PAPER_DATASETS`.
    folder : str or Path, default=None
        The data folder; None uses the environment variable KNET_DATA.
    random_state : int, default=0
        Seed of the generated data, and of the articles drawn for RCV.

    Returns
    -------
    X : ndarray of shape (n_samples, n_features), float64
    y : ndarray of shape (n_samples,), int64
        Classes, numbered from 0.
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
            f"folder=..., or set {DATA_FOLDER}. `python -m benchmarks.download FOLDER {name}` downloads them."
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
