"""The number of clusters, unknown to all methods: `python -m benchmarks.number [FOLDER] [--vectors FOLDER]`.

FOLDER holds labelled data sets as for `benchmarks.quality`. Beside them stand generated sets: shapes, Gaussians, 20 to
50 groups, and rows without groups. `knet` is `KNet("auto")`; `given` knows the number. Of peers, HDBSCAN has
groups of at least 2 % of the rows, the mixture is chosen by BIC and k-means by its silhouette, up to 30 clusters;
EVoC takes part if it is installed. Columns are standardised for all of them. `right` is the share of sets whose number
is found; of rows without groups, the share that gets one cluster or is called a guess.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.decomposition import PCA
from sklearn.metrics import silhouette_score
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler

from benchmarks.generated_battery import generated
from benchmarks.quality import Found, at_most, datasets
from benchmarks.tasks import Labels, Rows
from knet import KNet
from knet.metrics import ari
from knet.threads import limit_threads

MAX_CLUSTERS = 30  # of the peers
COMPONENTS = 50  # principal ones, of vectors, for the mixture
Method = Callable[[Rows, str], Labels]


def many_groups() -> Iterator[tuple[str, Rows, Labels]]:
    """Yield sets of 20 to 50 separated groups of unequal sizes."""
    rng = np.random.default_rng(11)
    for c, d in ((20, 2), (25, 3), (30, 5), (35, 2), (40, 8), (50, 10)):
        apart = (1 / c) ** (1 / d)
        centers: list[Rows] = []
        while len(centers) < c:
            place = rng.uniform(0, 1, d)
            if all(np.linalg.norm(place - other) > 0.75 * apart for other in centers):
                centers.append(place)
        y = np.repeat(np.arange(c), rng.integers(30, 80, c))
        yield f"{c} groups, {d} columns", np.array(centers)[y] + 0.12 * apart * rng.normal(size=(len(y), d)), y + 1


def no_groups() -> Iterator[tuple[str, Rows]]:
    """Yield rows without groups: clouds of several kinds, a ring and half a ring."""
    rng = np.random.default_rng(5)
    for n in (300, 1500, 5000):
        for d in (2, 5, 12):
            yield f"normal {n} x {d}", rng.normal(size=(n, d))
            yield f"uniform {n} x {d}", rng.uniform(size=(n, d))
            yield f"student {n} x {d}", rng.standard_t(4, size=(n, d))
            yield f"exponential {n} x {d}", rng.exponential(size=(n, d))
            yield f"correlated {n} x {d}", rng.normal(size=(n, d)) @ rng.normal(size=(d, d))
        for name, extent in (("ring", 2 * np.pi), ("half a ring", np.pi)):
            angle = rng.uniform(0, extent, n)
            yield f"{name} {n}", np.c_[np.cos(angle), np.sin(angle)] + 0.08 * rng.normal(size=(n, 2))


def cases(folder: Path | None, vectors: Path | None) -> Iterator[Found]:
    """Yield all data sets: family/name, rows and labelings."""
    if folder is not None:
        yield from datasets(folder)
    for family, name, X, y in generated(0):
        yield f"generated {family}/{name}", X, [y]
    for name, X, y in many_groups():
        yield f"many groups/{name}", X, [y]
    for name, X in no_groups():
        yield f"no groups/{name}", X, [np.ones(len(X), dtype=int)]
    if vectors is not None:
        yield from stored_vectors(vectors)


def stored_vectors(folder: Path) -> Iterator[Found]:
    """Yield the vectors of files NAME.npz with X and y."""
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as file:
            groups = np.unique(file["y"], return_inverse=True)[1] + 1
            yield f"vectors/{path.stem}", file["X"].astype(np.float32), [groups]


def by_hdbscan(X: Rows, metric: str) -> Labels:
    """Return HDBSCAN's groups of at least 2 % of the rows; its noise is a group of its own."""
    return HDBSCAN(min_cluster_size=max(5, len(X) // 50), copy=True).fit(X).labels_


def by_bic(X: Rows, metric: str) -> Labels:
    """Return the mixture of full Gaussians with the smallest BIC."""
    counts = range(1, min(MAX_CLUSTERS, len(X) // 4) + 1)
    if metric == "cosine":
        X = PCA(min(COMPONENTS, *X.shape), random_state=0).fit_transform(X)
    models = [GaussianMixture(c, reg_covar=1e-4, random_state=0).fit(X) for c in counts]
    return min(models, key=lambda model: model.bic(X)).predict(X)


def by_silhouette(X: Rows, metric: str) -> Labels:
    """Return the k-means clusters with the largest silhouette."""
    counts = range(2, min(MAX_CLUSTERS, len(X) // 4) + 1)
    found = [KMeans(c, n_init=3, random_state=0).fit(X).labels_ for c in counts]
    return max(found, key=lambda labels: silhouette_score(X, labels, sample_size=1000, random_state=0))


def by_evoc(X: Rows, metric: str) -> Labels:
    """Return EVoC's clusters."""
    from evoc import EVoC

    return EVoC(random_state=0).fit_predict(X.astype(np.float32))


def by_knet(X: Rows, metric: str) -> Labels:
    """Return the clusters of KNet("auto"); a guess is marked by negative labels."""
    model = KNet("auto", metric=metric, random_state=0).fit(X)
    return model.labels_ if model.number_["verdict"] != "a guess" else -1 - model.labels_


def installed(names: list[str]) -> dict[str, Method]:
    """Return the methods of these names that can be used here."""
    methods = {"knet": by_knet, "hdbscan": by_hdbscan, "bic": by_bic, "silhouette": by_silhouette, "evoc": by_evoc}
    try:
        import evoc  # noqa: F401
    except ImportError:
        del methods["evoc"]
    return {name: method for name, method in methods.items() if not names or name in names}


def score(truths: list[Labels], labels: Labels) -> tuple[float, bool]:
    """Return the best ARI over the labelings (0 is noise), and whether the number of groups is that of one of them."""
    n_found = len(np.unique(labels[labels >= 0])) if (labels >= 0).any() else len(np.unique(labels))
    counts = [len(set(truth[truth > 0])) for truth in truths]
    best = max(ari(truth[truth > 0], labels[truth > 0]) for truth in truths)
    return best, n_found in counts or (counts == [1] and bool((labels < 0).all()))


def compare(found: Found, methods: dict[str, Method]) -> dict[str, list[float]]:
    """Print a data set's line; return ARI and rightness of each method, and of knet with the number given."""
    name, X, truths = found
    metric = "cosine" if name.startswith("vectors/") else "euclidean"
    scaled = X if metric == "cosine" else StandardScaler().fit_transform(X)
    line, scores = "", dict[str, list[float]]()
    for method, run in methods.items():
        started = time.process_time()
        with limit_threads(1):
            labels = run(X if method == "knet" else scaled, metric)
        value, right = score(truths, labels)
        line += f" {value:6.3f} {len(np.unique(labels)):3}{'*' if right else ' '} {time.process_time() - started:5.1f}s"
        scores[method] = [value, float(right)]
    n_true = max(len(set(truth[truth > 0])) for truth in truths)
    given = score(truths, KNet(n_true, metric=metric, random_state=0).fit(X).labels_)[0]
    print(f"{name:40} {n_true:5}{line} {given:18.3f}", flush=True)
    return scores | {"given": [given, 1.0]}


def main(arguments: list[str] | None = None) -> int:
    """Print ARI and number for every set and method, and the means by family."""
    parser = argparse.ArgumentParser(prog="number", description="Clusters of which the number is not known.")
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--vectors", type=Path, help="folder of NAME.npz with X and y")
    parser.add_argument("--rows", type=int, default=2000, help="rows of a set, at most")
    parser.add_argument("--only", default="", help="comma-separated parts of names")
    parser.add_argument("--methods", default="", help="comma-separated; default: all that are installed")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    methods = installed([name for name in options.methods.split(",") if name])
    print(f"{'data':40} {'true':>5}" + "".join(f" {name:>18}" for name in [*methods, "given"]), flush=True)
    families: dict[str, list[dict[str, list[float]]]] = {}
    for data in cases(options.folder, options.vectors):
        if any(part in data[0] for part in options.only.split(",")):
            families.setdefault(data[0].split("/")[0], []).append(compare(at_most(data, options.rows), methods))
    families["all with groups"] = [row for name, rows in families.items() if name != "no groups" for row in rows]
    for family, rows in families.items():
        means = np.mean([list(row.values()) for row in rows], axis=0)
        cells = "".join(f" {value:6.3f} right {right:5.2f}" for value, right in means[:-1])
        print(f"{family:40} {len(rows):5}{cells} {means[-1][0]:18.3f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
