"""What known labels and pairs are worth: `python -m benchmarks.guidance [FOLDER] [--labels 1,5,20] [--pairs 10,100]`.

FOLDER holds labelled data sets as for `benchmarks.quality`; without it, sets of scikit-learn and the generated battery
are used. The number of clusters is given. With labels, the ARI is that of the unknown rows alone; with pairs, that of
all rows. Means over several draws, of the labels or pairs and then over the sets of each family.

Peers see the same labels, on standardised columns: scikit-learn's LabelSpreading on 7 neighbours and with its Gaussian
kernel, self-training of a logistic regression, and the nearest labelled row. For pairs, constrained k-means
(COP-KMeans) takes part if the package `copkmeans` is installed.
"""

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from sklearn import datasets as bundled
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier

from benchmarks.generated_battery import generated
from benchmarks.quality import Found, datasets
from benchmarks.tasks import Labels, Rows
from knet import KNet
from knet.metrics import ari
from knet.threads import limit_threads


def cases(folder: Path | None) -> Iterator[Found]:
    """Yield data sets: family/name, rows and labelings, of which the first is used."""
    if folder is not None:
        yield from datasets(folder)
        return
    for name in ("iris", "wine", "breast_cancer", "digits"):
        data = getattr(bundled, f"load_{name}")()
        yield f"scikit-learn/{name}", data.data, [data.target + 1]
    for family, name, X, y in generated(0):
        yield f"generated {family}/{name}", X, [y]


def draw_labels(y: Labels, n_per_group: int, rng: np.random.RandomState) -> Labels:
    """Return the labels 0, 1, ... of some rows of every group, -1 for the others; a group keeps an unknown row."""
    known = np.full(len(y), -1)
    for label, group in enumerate(np.unique(y[y > 0])):
        rows = rng.permutation(np.flatnonzero(y == group))
        known[rows[: min(n_per_group, max(1, len(rows) - 1))]] = label
    return known


def draw_pairs(y: Labels, n_pairs: int, rng: np.random.RandomState) -> tuple[Rows, Rows]:
    """Return pairs of rows of the same group, and of different ones."""
    pairs = rng.choice(np.flatnonzero(y > 0), size=(n_pairs, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    return pairs[same], pairs[~same]


def by_knet(X: Rows, known: Labels, c: int) -> Labels:
    """Return the clusters of KNet with known labels."""
    return KNet(c, random_state=0).fit(X, known=known).labels_


def by_spreading(X: Rows, known: Labels, c: int) -> Labels:
    """Return labels spread on the graph of neighbours."""
    return LabelSpreading(kernel="knn").fit(X, known).transduction_


def by_gaussian_spreading(X: Rows, known: Labels, c: int) -> Labels:
    """Return labels spread by a Gaussian kernel, with scikit-learn's default width."""
    return LabelSpreading(kernel="rbf").fit(X, known).transduction_


def by_self_training(X: Rows, known: Labels, c: int) -> Labels:
    """Return the labels of a logistic regression that learns from its own clear predictions."""
    return SelfTrainingClassifier(LogisticRegression(max_iter=500)).fit(X, known).predict(X)


def by_nearest(X: Rows, known: Labels, c: int) -> Labels:
    """Return the label of the nearest labelled row."""
    return KNeighborsClassifier(1).fit(X[known >= 0], known[known >= 0]).predict(X)


LABEL_METHODS: dict[str, Callable[[Rows, Labels, int], Labels]] = {
    "knet": by_knet,
    "spreading": by_spreading,
    "gaussian": by_gaussian_spreading,
    "self-training": by_self_training,
    "nearest": by_nearest,
}


def by_cop(X: Rows, together: Rows, apart: Rows, c: int) -> Labels:
    """Return the clusters of constrained k-means; -1 for all rows if it finds none that keep the pairs."""
    from copkmeans.cop_kmeans import cop_kmeans

    found = cop_kmeans(X, k=c, ml=list(map(tuple, together)), cl=list(map(tuple, apart)))[0]
    return np.array(found) if found is not None else np.full(len(X), -1)


def with_labels(found: Found, n_labels: int, n_draws: int) -> dict[str, float]:
    """Return the mean ARI of the unknown rows for each method."""
    _, X, (y, *_) = found
    c, Z = len(np.unique(y[y > 0])), StandardScaler().fit_transform(X)
    without, scores = KNet(c, random_state=0).fit(X).labels_, dict[str, list[float]]()
    for seed in range(n_draws):
        known = draw_labels(y, n_labels, np.random.RandomState(seed))
        unknown = (known < 0) & (y > 0)
        scores.setdefault("without", []).append(ari(y[unknown], without[unknown]))
        for name, method in LABEL_METHODS.items():
            labels = method(X if name == "knet" else Z, known, c)
            scores.setdefault(name, []).append(ari(y[unknown], labels[unknown]))
    return {name: float(np.mean(values)) for name, values in scores.items()}


def with_pairs(found: Found, n_pairs: int, n_draws: int) -> dict[str, float]:
    """Return the mean ARI of all rows, and the number of broken pairs of knet."""
    _, X, (y, *_) = found
    c, Z, scored = len(np.unique(y[y > 0])), StandardScaler().fit_transform(X), y > 0
    without, scores = KNet(c, random_state=0).fit(X).labels_, dict[str, list[float]]()
    for seed in range(n_draws):
        together, apart = draw_pairs(y, n_pairs, np.random.RandomState(seed))
        labels = KNet(c, random_state=0).fit(X, must_link=together, cannot_link=apart).labels_
        broken = (labels[together[:, 0]] != labels[together[:, 1]]).sum() + (
            labels[apart[:, 0]] == labels[apart[:, 1]]
        ).sum()
        row = {"without": without, "knet": labels}
        try:
            row["cop-k-means"] = by_cop(Z, together, apart, c)
        except ImportError:
            pass
        for name, values in row.items():
            scores.setdefault(name, []).append(ari(y[scored], values[scored]))
        scores.setdefault("broken", []).append(float(broken))
    return {name: float(np.mean(values)) for name, values in scores.items()}


def compare(sets: list[Found], count: int, n_draws: int, kind: str) -> None:
    """Print a line for every set, and the means of the families."""
    measure = with_labels if kind == "labels per group" else with_pairs
    families: dict[str, list[dict[str, float]]] = {}
    for found in sets:
        started = time.process_time()
        with limit_threads(1):
            scores = measure(found, count, n_draws)
        families.setdefault(found[0].split("/")[0], []).append(scores)
        if len(families) == 1 and len(next(iter(families.values()))) == 1:
            print(f"\n{count} {kind:35}" + "".join(f" {name:>13}" for name in scores))
        line = "".join(f" {value:13.3f}" for value in scores.values())
        print(f"{found[0]:38}{line} {time.process_time() - started:6.1f}s", flush=True)
    for family, rows in families.items():
        line = "".join(f" {np.mean([row[name] for row in rows]):13.3f}" for name in rows[0])
        print(f"{'mean of ' + family:38}{line}", flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="guidance", description="What known labels and pairs are worth.")
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--labels", default="1,5,20", help="known rows of each group; comma-separated")
    parser.add_argument("--pairs", default="10,100,500", help="numbers of pairs; comma-separated")
    parser.add_argument("--draws", type=int, default=3)
    parser.add_argument("--max-rows", type=int, default=5000, help="larger sets are left out")
    parser.add_argument("--only", default="", help="comma-separated parts of names")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    sets = [
        found
        for found in cases(options.folder)
        if len(found[1]) <= options.max_rows and any(part in found[0] for part in options.only.split(","))
    ]
    for kind, counts in (("labels per group", options.labels), ("pairs", options.pairs)):
        for count in (int(text) for text in counts.split(",") if text):
            compare(sets, count, options.draws, kind)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
