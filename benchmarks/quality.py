"""Quality of the one default, only the number of clusters given: `python -m benchmarks.quality FOLDER [--seeds 3]`.

FOLDER holds data sets as NAME.csv with NAME_label.csv, or as NAME.data.gz with NAME.labels0.gz, NAME.labels1.gz, ...
(label 0 is noise and not scored; of several labelings the best counts). Printed per data set: NMI and ARI, mean and
deviation over seeds, and k-means on the same scaled rows.
"""

import argparse
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.cluster import KMeans
from sklearn.preprocessing import StandardScaler

from knet import KNet
from knet.metrics import ari, nmi


def datasets(folder: Path) -> Iterator[tuple[str, np.ndarray, list[np.ndarray]]]:
    """Yield name, rows and labelings of every data set below a folder; labels of NAME_label.csv are all scored."""
    for path in sorted(folder.rglob("*_label.csv")):
        name = path.name.removesuffix("_label.csv")
        labels = np.loadtxt(path).astype(int)
        yield name, np.loadtxt(path.with_name(f"{name}.csv"), delimiter=","), [labels - labels.min() + 1]
    for path in sorted(folder.rglob("*.data.gz")):
        name = path.name.removesuffix(".data.gz")
        files = sorted(path.parent.glob(f"{name}.labels*.gz"))
        yield f"{path.parent.name}/{name}", np.loadtxt(path), [np.loadtxt(file).astype(int) for file in files]


def best_scores(labelings: list[np.ndarray], predict) -> tuple[float, float]:
    """Return the best NMI and ARI over the labelings; `predict` gives labels for a number of clusters."""
    scores = []
    for truth in labelings:
        scored = truth > 0
        labels = predict(len(set(truth[scored])))
        scores.append((nmi(truth[scored], labels[scored]), ari(truth[scored], labels[scored])))
    return max(score[0] for score in scores), max(score[1] for score in scores)


def main() -> None:
    """Print one line per data set and the means."""
    parser = argparse.ArgumentParser(description="Quality of the one default on labelled data sets.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="", help="comma-separated parts of names")
    options = parser.parse_args()
    found = [one for one in datasets(options.folder) if any(part in one[0] for part in options.only.split(","))]
    if not found:
        print(f"quality: no data sets in {options.folder}", file=sys.stderr)
        raise SystemExit(2)
    warnings.simplefilter("ignore")
    print(f"{'data set':20} {'rows':>6} {'NMI':>13} {'ARI':>13} {'k-means NMI':>11} {'ARI':>6} {'s/fit':>6}")
    means = []
    for name, X, labelings in found:
        started = time.perf_counter()
        ours = np.array(
            [
                best_scores(labelings, lambda c, s=seed, X=X: KNet(c, random_state=s).fit(X).labels_)
                for seed in range(options.seeds)
            ]
        )
        seconds = (time.perf_counter() - started) / options.seeds / len(labelings)
        Z = StandardScaler().fit_transform(X)
        plain = best_scores(labelings, lambda c, Z=Z: KMeans(c, n_init=10, random_state=0).fit(Z).labels_)
        (n, a), (dn, da) = ours.mean(0), ours.std(0)
        means.append((n, a, *plain))
        print(
            f"{name:20} {len(X):6} {n:6.3f} +-{dn:5.3f} {a:6.3f} +-{da:5.3f} {plain[0]:11.3f} {plain[1]:6.3f} "
            f"{seconds:6.1f}",
            flush=True,
        )
    n, a, plain_n, plain_a = np.mean(means, axis=0)
    print(f"{'mean':20} {'':6} {n:6.3f} {'':6} {a:6.3f} {'':6} {plain_n:11.3f} {plain_a:6.3f}")


if __name__ == "__main__":
    main()
