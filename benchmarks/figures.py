"""The paper's figures, from fits with the paper's settings; on Spiral2 with the width of its caption and c-1 columns.

Kernel matrices go from white (0) to dark blue (1), with rows ordered by cluster. The colour of a row is its cluster,
except in the picture of the data sets, in which it is its class.
"""

import io
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from PIL import Image
from scipy.spatial.distance import cdist

from benchmarks.algorithms import paper_model
from benchmarks.tasks import Labels, Rows
from knet import KNet
from knet.metrics import nmi
from knet.show import plots

Loader = Callable[[str], tuple[Rows, Labels]]
Drawn = tuple[str, str, Figure, dict[str, float]]  # name, data set, picture, figures for its caption

DPI, COLOURS = 80, 96  # small files: the pictures are few colours on white
FIGURE1 = {
    "sigma": 0.3,
    "advanced__sigma_scale": 1.0,
    "advanced__u_columns": "c-1",
}  # the width that the caption of Figure 1 names
NOISE = 0.3  # deviation of the noise on Moon, three times that of the data
EPOCH_STEPS, EPOCH_ITERATIONS = 10, 80


def draw_figures(load: Loader, folder: Path) -> dict[tuple[str, str], dict[str, float]]:
    """Draw all figures into a folder, and return the figures of their captions by name and data set."""
    facts = {}
    folder.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for draw in (draw_spiral, draw_epochs, draw_datasets, draw_moon):
            for name, dataset, figure, caption in draw(load):
                save(figure, folder / f"{name}.png")
                facts[name, dataset] = caption
    return facts


def save(figure: Figure, path: Path) -> None:
    """Write a picture with few colours, whole or not at all."""
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=DPI, format="png")
    picture = Image.open(buffer).convert("RGB").quantize(COLOURS)
    unfinished = path.with_suffix(".part")
    picture.save(unfinished, format="PNG", optimize=True)
    unfinished.replace(path)


def fit(X: Rows, dataset: str, **settings: Any) -> KNet:
    """Fit with the paper's settings, some of them replaced."""
    n_clusters = 3 if dataset.startswith("spiral") else 2
    return paper_model(dataset, n_clusters, random_state=0, **settings).fit(X)


def draw_spiral(load: Loader) -> Iterator[Drawn]:
    """Draw Spiral2 trained on 1 %, with the width of the caption of Figure 1: all rows, then the training rows."""
    X, y = load("spiral2")
    model = fit(X, "spiral2", **FIGURE1)
    rows = model.train_indices_
    yield "spiral-full", "spiral2", plots.figure1(model, X), {"nmi": nmi(y, model.labels_), "rows": len(X)}
    score = {"nmi": nmi(y[rows], model.labels_[rows]), "rows": len(rows)}
    yield "spiral-subset", "spiral2", plots.figure1(model, X[rows]), score


def draw_epochs(load: Loader) -> Iterator[Drawn]:
    """Draw the embedded training rows of Spiral2 during training, in iterations of a few gradient steps."""
    X, y = load("spiral2")
    steps = {"advanced__steps_per_iter": EPOCH_STEPS, "max_iter": EPOCH_ITERATIONS, "tol": 0.0}
    model = fit(X, "spiral2", advanced__keep_embeddings=True, **FIGURE1, **steps)
    embeddings = model.embeddings_
    labels = cdist(embeddings[-1], model.cluster_centers_).argmin(1)
    shown = np.unique(np.geomspace(1, len(embeddings), 6).astype(int) - 1)
    figure = Figure(figsize=(8.4, 5.6), layout="constrained")
    for ax, index in zip(figure.subplots(2, 3).flat, shown, strict=False):
        for cluster in range(model.n_clusters):
            ax.plot(*embeddings[index][labels == cluster][:, :2].T, ".", markersize=3, color=plots.color(cluster))
        ax.set_title(f"after {index * EPOCH_STEPS} gradient steps" if index else "before training", fontsize=10)
    yield "epochs", "spiral2", figure, {"nmi": nmi(y, model.labels_), "rows": len(embeddings[0])}


def draw_datasets(load: Loader) -> Iterator[Drawn]:
    """Draw Moon and Spiral2, coloured by class."""
    figure = Figure(figsize=(8.4, 4), layout="constrained")
    for ax, (name, title) in zip(figure.subplots(1, 2), (("moon", "Moon"), ("spiral2", "Spiral2")), strict=True):
        X, y = load(name)
        for label in np.unique(y):
            ax.plot(*X[y == label].T, ".", markersize=1.5, color=plots.color(int(label)))
        ax.set_title(f"{title}, {len(X):,} rows")
        ax.set_aspect("equal")
    yield "datasets", "moon", figure, {}


def draw_moon(load: Loader) -> Iterator[Drawn]:
    """Draw Moon through psi, then Moon with more noise through the same psi."""
    X, y = load("moon")
    model = fit(X, "moon")
    yield "moon", "moon", plots.figure1(model, X), {"nmi": nmi(y, model.labels_), "rows": len(X)}
    noisy = X + np.random.default_rng(0).normal(0, NOISE, X.shape)
    score = {"nmi": nmi(y, model.predict(noisy)), "rows": len(X), "noise": NOISE}
    yield "moon-noise", "moon", plots.figure1(model, noisy), score
