"""The cases of the speed benchmark: each is a function that a child process calls; it returns a row."""

import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.memory import peak_mb, reset_peak

SETS = {"moon": (2, 0.1), "spiral1": (3, 0.1), "cancer": (2, 1.0), "wine": (3, 1.0), "face": (20, 1.0)}
SIZES = (30_000, 100_000, 300_000, 1_000_000)
PREDICT_REPEATS = 5
FORMS = ("dense", "blocked", "nystroem", "sma")
N_SEEDS = 3
METHODS = ("knet", "kmeans", "spectral", "spectralnet", "dec", "literal")


def case_names() -> list[str]:
    """Return all cases, quick ones first."""
    fits = [f"fit:{name}:{method}" for method in METHODS for name in SETS]
    ustep = [f"ustep:{n}:{step}" for n in (3000, 10_000) for step in ("eig", "sma")]
    predict = [f"predict:{dtype}:knet" for dtype in ("float32", "float64")]
    scale = [f"scale:{n}:knet" for n in SIZES]
    shapes = [f"shape:{name}:knet" for name in ("spirals", "rings", "arcs")]
    forms = [f"form:{name}:{form}" for name in SETS for form in ("auto", *FORMS)]
    return [*predict, *ustep, *scale, *shapes, *forms, "full:rcv:knet", "full:rcv:spectral", *fits]


def run_case(name: str, folder: Path, limit: float) -> dict[str, Any]:
    """Run a case and return its row."""
    warnings.simplefilter("ignore")
    kind, what, method = name.split(":")
    row = ROWS[kind](what, method, folder, limit)
    return {"case": kind, "on": what, "method": method} | row | {"load": os.getloadavg()[0]}


def measured(work: Callable[[], Any], limit: float) -> tuple[Any, dict[str, Any]]:
    """Return the result of `work`, its seconds, and the increase of the peak memory, in MB."""
    from benchmarks.literal import OutOfTimeError

    before, wall, cpu = reset_peak(), time.perf_counter(), time.process_time()
    try:
        result, finished = work(), True
    except OutOfTimeError:
        result, finished = None, False
    row = {"seconds": time.perf_counter() - wall, "cpu_seconds": time.process_time() - cpu}
    return result, row | {"peak_mb": peak_mb() - before, "finished": finished}


def read(folder: Path, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return rows, standardised, and labels of one of the paper's files."""
    X = np.loadtxt(folder / f"{name}.csv", delimiter=",")
    return (X - X.mean(0)) / X.std(0), np.loadtxt(folder / f"{name}_label.csv").astype(int)


def fit_row(name: str, method: str, folder: Path, limit: float) -> dict[str, Any]:
    """Fit one data set with one method at its defaults."""
    from knet.metrics import nmi

    X, y = read(folder, name)
    n_clusters, sigma_scale = SETS[name]
    labels, row = measured(fitter(method, X, n_clusters, sigma_scale, limit), limit)
    return row | {"rows": len(X), "nmi": None if labels is None else nmi(y, labels)}


def fitter(method: str, X: np.ndarray, n_clusters: int, sigma_scale: float, limit: float) -> Callable[[], np.ndarray]:
    """Return the fit as a function without arguments; its imports are made before, and not timed."""
    if method == "knet":
        from knet import KNet

        return lambda: KNet(n_clusters, random_state=0).fit(X).labels_
    if method == "literal":
        from benchmarks.literal import fit_literal

        return lambda: fit_literal(X, n_clusters, sigma_scale=sigma_scale, limit=limit)
    if method == "spectralnet":
        return spectralnet_fitter(X, n_clusters)
    if method == "dec":
        return dec_fitter(X, n_clusters)
    from sklearn.cluster import KMeans, SpectralClustering

    model = KMeans(n_clusters, random_state=0) if method == "kmeans" else SpectralClustering(n_clusters, random_state=0)
    return lambda: model.fit(X).labels_


def spectralnet_fitter(X: np.ndarray, n_clusters: int) -> Callable[[], np.ndarray]:
    """Return a fit of SpectralNet at its defaults, except for the width of its last layer, which is required."""
    import torch
    from spectralnet import SpectralNet

    rows = torch.from_numpy(X).float()

    def fit() -> np.ndarray:
        model = SpectralNet(n_clusters=n_clusters, spectral_hiddens=[1024, 1024, 512, n_clusters])
        model.fit(rows)
        return np.asarray(model.predict(rows))

    return fit


def dec_fitter(X: np.ndarray, n_clusters: int) -> Callable[[], np.ndarray]:
    """Return a fit of ClustPy's DEC at its defaults."""
    from benchmarks.deep_peers import import_clustpy

    import_clustpy()
    from clustpy.deep import DEC

    return lambda: DEC(n_clusters, random_state=0).fit(X.astype(np.float32)).labels_


def full_row(name: str, method: str, folder: Path, limit: float) -> dict[str, Any]:
    """Fit on all rows of RCV: knet with train_size=1.0, and dense spectral clustering."""
    from knet import KNet
    from knet.metrics import nmi

    X, y = read(folder, name)
    if method == "knet":
        model = KNet(4, train_size=1.0, random_state=0)
        _, row = measured(lambda: model.fit(X), limit)
        return row | {"rows": len(X), "nmi": nmi(y, model.labels_), "u_error": model.history_[-1]["u_error"]}
    labels, row = measured(fitter("spectral", X, 4, 1.0, limit), limit)
    return row | {"rows": len(X), "nmi": nmi(y, labels)}


def shape_row(shape: str, method: str, folder: Path, limit: float) -> dict[str, Any]:
    """Fit 100,000 rows of one shape, with three seeds: the shape has a larger effect than the size."""
    from benchmarks.shapes import SHAPES
    from knet import KNet

    X, y = SHAPES[shape](100_000)
    return seeded_row(lambda seed: KNet(5, random_state=seed).fit(X).labels_, y, limit)


def form_row(name: str, form: str, folder: Path, limit: float) -> dict[str, Any]:
    """Fit one of the paper's sets with one form of the Laplacian, with three seeds: the effect of the approximation.

    It uses the paper's settings, because the default keeps U at its start for most of a fit.
    """
    from benchmarks.algorithms import paper_model

    X, y = read(folder, name)
    model = paper_model(name, SETS[name][0])
    model.set_params(**({"u_update": "sma"} if form == "sma" else {"advanced__laplacian": form}))
    return seeded_row(lambda seed: model.set_params(random_state=seed).fit(X).labels_, y, limit)


def seeded_row(fit: Callable[[int], np.ndarray], y: np.ndarray, limit: float) -> dict[str, Any]:
    """Return seconds per fit over three seeds, and the mean and the lowest NMI."""
    from knet.metrics import nmi

    labels, row = measured(lambda: [fit(seed) for seed in range(N_SEEDS)], limit)
    scores = [nmi(y, found) for found in labels]
    row |= {key: row[key] / N_SEEDS for key in ("seconds", "cpu_seconds")}
    return row | {"rows": len(y), "nmi": float(np.mean(scores)), "lowest_nmi": min(scores)}


def scale_row(n_rows: str, method: str, folder: Path, limit: float) -> dict[str, Any]:
    """Fit, and label all rows of, up to a million rows in ten columns."""
    from benchmarks.shapes import lifted_spirals
    from knet import KNet
    from knet.metrics import nmi

    X, y = lifted_spirals(int(n_rows))
    model = KNet(5, random_state=0)
    _, row = measured(lambda: model.fit(X), limit)
    return row | {"rows": len(X), "nmi": nmi(y, model.labels_), "train_rows": model.n_train_}


def predict_row(dtype: str, method: str, folder: Path, limit: float) -> dict[str, Any]:
    """Label a million rows, and, in turn, compute only the matrix products of it, in the same blocks and threads."""
    from benchmarks.shapes import lifted_spirals
    from knet import KNet
    from knet.model.predictor import BLOCK_ROWS
    from knet.threads import in_threads

    X = lifted_spirals(1_000_000)[0].astype(dtype)
    model = KNet(5, max_iter=1, random_state=0).fit(X[:2000])
    encoder = model.predictor_.encoder.astype(dtype)
    first, second, last = encoder.weights
    centers, skip = model.predictor_.centers.T.astype(dtype), encoder.skip

    def products(start: int) -> None:
        block = X[start : start + BLOCK_ROWS]
        (((block @ first) @ second) @ last + block @ skip) @ centers

    taken: dict[str, list[dict[str, Any]]] = {"predict": [], "products": []}
    for _ in range(PREDICT_REPEATS):
        taken["predict"].append(measured(lambda: model.predict(X), limit)[1])
        taken["products"].append(measured(lambda: in_threads(products, range(0, len(X), BLOCK_ROWS)), limit)[1])
    row = {key: median(run[key] for run in taken["predict"]) for key in ("seconds", "cpu_seconds", "peak_mb")}
    bare = {key: median(run[key] for run in taken["products"]) for key in ("seconds", "cpu_seconds")}
    row |= {"rows": len(X), "finished": True, "rows_per_second": len(X) / row["seconds"]}
    row["share_of_products"] = bare["seconds"] / row["seconds"]
    return row | {"share_of_products_cpu": bare["cpu_seconds"] / row["cpu_seconds"]}


def ustep_row(n_rows: str, method: str, folder: Path, limit: float) -> dict[str, Any]:
    """Take the second U-step of a fit, on the same operator from the same U, by eigenvectors or by ascent."""
    from knet import Advanced, KNet
    from knet.datasets import make_spirals
    from knet.train.laplacians import BlockedLaplacian, DenseLaplacian
    from knet.train.u_steps import U_STEPS, eig_step

    seen = []

    def record(L, U):
        seen.append((L, U))
        return eig_step(L, U)

    X = make_spirals(int(n_rows), random_state=0)[0]
    form = "dense" if len(X) <= 4000 else "nystroem"
    paper = {"sigma": "median", "n_init": 1, "max_iter": 2, "train_size": 1.0}
    advanced = Advanced(sigma_scale=0.1, u_columns="c", laplacian=form)
    KNet(3, **paper, u_update=record, random_state=0, advanced=advanced).fit(X)
    L, U = seen[1]
    L = L if isinstance(L, DenseLaplacian) else BlockedLaplacian(L.Psi, L.sigma)
    U_STEPS[method](L, U)
    new, row = measured(lambda: [U_STEPS[method](L, U) for _ in range(5)][-1], limit)
    row |= {key: row[key] / 5 for key in ("seconds", "cpu_seconds")}
    return row | {"rows": len(X), "operator": type(L).__name__, "value": L.trace_form(new), "before": L.trace_form(U)}


ROWS = {
    "fit": fit_row,
    "form": form_row,
    "full": full_row,
    "predict": predict_row,
    "scale": scale_row,
    "shape": shape_row,
    "ustep": ustep_row,
}
