"""Embeddings and word counts: `python -m benchmarks.embeddings [--seeds 2] [--only PART] [--beside CHECKOUT]`.

NMI and processor time (in seconds) of knet with its defaults, with metric="cosine", and of peers: k-means with ten
starts, k-means of rows of length 1 (spherical), a tied Gaussian mixture on 50 principal components, spectral clustering
of ten neighbours, and, if they are installed, k-means on a UMAP and EVoC. `--beside` adds the default of another
checkout, in the same run. `--million` instead measures 1,000,000 x 768 rows in a memory map: the time of fit and
predict, their memory, and the bare product of the rows with the model's first matrix.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.cluster import KMeans, SpectralClustering
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import normalize

from benchmarks.embedding_cases import CASES, Case, Labels, generated_vectors
from benchmarks.memory import peak_mb, reset_peak
from knet import KNet
from knet.metrics import ari, nmi

MILLION, WIDTH, GROUPS, BLOCK = 1_000_000, 768, 20, 20_000
Method = Callable[[Case, int], Labels]


def mixture(case: Case, seed: int) -> Labels:
    """Return the labels of a tied Gaussian mixture on 50 principal components."""
    kind = TruncatedSVD if issparse(case.X) else PCA
    reduced = kind(50, random_state=seed).fit_transform(case.X)
    labels: Labels = GaussianMixture(case.n_clusters, covariance_type="tied", random_state=seed).fit_predict(reduced)
    return labels


def spectral(case: Case, seed: int) -> Labels:
    """Return the labels of spectral clustering on the graph of ten nearest neighbours."""
    model = SpectralClustering(case.n_clusters, affinity="nearest_neighbors", n_neighbors=10, random_state=seed)
    labels: Labels = model.fit(case.X).labels_
    return labels


def umap(case: Case, seed: int) -> Labels:
    """Return the labels of k-means on a UMAP of cosine distances, of five dimensions."""
    from umap import UMAP

    embedded = UMAP(n_components=5, metric="cosine", random_state=seed).fit_transform(case.X)
    labels: Labels = KMeans(case.n_clusters, n_init=10, random_state=seed).fit_predict(embedded)
    return labels


def evoc(case: Case, seed: int) -> Labels:
    """Return the labels of EVoC, which chooses the number of clusters; its noise counts as one more cluster."""
    from evoc import EVoC

    X = case.X.toarray() if issparse(case.X) else case.X
    labels: Labels = EVoC(random_state=seed).fit_predict(np.asarray(X, np.float32))
    return labels


METHODS: dict[str, Method] = {
    "knet": lambda case, seed: KNet(case.n_clusters, random_state=seed).fit(case.X).labels_,
    "knet, cosine": lambda case, seed: KNet(case.n_clusters, metric="cosine", random_state=seed).fit(case.X).labels_,
    "k-means": lambda case, seed: KMeans(case.n_clusters, n_init=10, random_state=seed).fit_predict(case.X),
    "spherical": lambda case, seed: KMeans(case.n_clusters, n_init=10, random_state=seed).fit_predict(
        normalize(case.X)
    ),
    "mixture": mixture,
    "spectral": spectral,
    "UMAP + k-means": umap,
    "EVoC": evoc,
}
PACKAGES = {"UMAP + k-means": "umap", "EVoC": "evoc"}  # that a method needs in addition


def installed() -> list[str]:
    """Return the methods whose packages are installed."""
    return [name for name in METHODS if name not in PACKAGES or find_spec(PACKAGES[name]) is not None]


def measure(case: Case, method: str, seeds: int) -> dict[str, Any]:
    """Return the mean NMI and ARI and the median processor time of a method."""
    scores, seconds = [], []
    for seed in range(seeds):
        started = time.process_time()
        labels = METHODS[method](case, seed)
        seconds.append(time.process_time() - started)
        scores.append((nmi(case.y, labels), ari(case.y, labels)))
    means = np.mean(scores, axis=0)
    return {"method": method, "nmi": float(means[0]), "ari": float(means[1]), "seconds": float(np.median(seconds))}


def measure_beside(checkout: Path, name: str, seeds: int) -> dict[str, Any]:
    """Return the row of the default of another checkout; NaN if it cannot fit the rows."""
    here = Path(__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(checkout / "src"), str(here)])}
    command = [sys.executable, "-m", "benchmarks.embeddings", "--case", name, "--seeds", str(seeds)]
    done = subprocess.run(command, env=environment, cwd=here, capture_output=True, text=True, check=False)
    row: dict[str, Any] = json.loads(done.stdout) if done.returncode == 0 else {"nmi": np.nan, "seconds": np.nan}
    return row | {"method": "beside"}


def rows(name: str, seeds: int, beside: Path | None) -> Iterator[dict[str, Any]]:
    """Yield the measurements of one case."""
    case = CASES[name]()
    for method in installed():
        yield measure(case, method, seeds)
    if beside is not None:
        yield measure_beside(beside, name, seeds)


def write_million(path: Path) -> None:
    """Write the rows of the large case in blocks."""
    case, rng = generated_vectors(BLOCK, WIDTH, GROUPS, separation=0.4), np.random.default_rng(0)
    X = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(MILLION, WIDTH))
    for start in range(0, MILLION, BLOCK):
        X[start : start + BLOCK] = case.X + rng.normal(scale=3e-3, size=case.X.shape)
    X.flush()


def print_million(folder: Path) -> None:
    """Print time and memory of the large case; the rows count as memory once they have been read."""
    path = folder / "million.npy"
    write_million(path)
    X, before = np.load(path, mmap_mode="r"), reset_peak()
    seconds, model = _timed(lambda: KNet(GROUPS, random_state=0).fit(X))
    print(f"fit: {seconds:.1f} s, {peak_mb() - before:,.0f} MB with the rows ({X.nbytes / 2**20:,.0f} MB)")
    part = np.asarray(X[: MILLION // 5])
    matrix = model.predictor_.preparation.projection.astype(np.float32)
    times = [(_timed(lambda: _product(part, matrix))[0], _timed(lambda: model.predict(part))[0]) for _ in range(5)]
    bare, predict = np.median(times, axis=0)
    print(
        f"labels: {len(part) / predict:,.0f} rows a second; bare product {len(part) / bare:,.0f}: {bare / predict:.2f}"
    )


def _product(X: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    return X @ matrix


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    started = time.process_time()
    result = work()
    return time.process_time() - started, result


def main() -> int:
    """Measure and print a line per case; return the exit code."""
    parser = argparse.ArgumentParser(prog="embeddings", description="Embeddings and word counts: NMI and time.")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--only", default="", help="part of the name of a case")
    parser.add_argument("--beside", type=Path, help="another checkout of knet, measured in the same run")
    parser.add_argument("--million", action="store_true", help="measure 1,000,000 x 768 rows instead")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.case:
        print(json.dumps(measure(CASES[options.case](), "knet", options.seeds)))
        return 0
    if options.million:
        with tempfile.TemporaryDirectory() as folder:
            print_million(Path(folder))
        return 0
    for name in CASES:
        if options.only in name:
            found = {row["method"]: row for row in rows(name, options.seeds, options.beside)}
            cells = [f"{method} {row['nmi']:.3f} ({row['seconds']:.1f} s)" for method, row in found.items()]
            ratio = found["knet"]["seconds"] / found["k-means"]["seconds"]
            print(f"{name}: {'; '.join(cells)}; time / k-means {ratio:.2f}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
