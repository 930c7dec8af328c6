"""Clusters of tables with missing cells: `python -m benchmarks.gaps FOLDER [--sets NAME ...] [--seeds 2]`.

FOLDER holds labelled data sets as for `benchmarks.quality`; of each, at most 1,000 rows are used. Of the complete rows,
10, 30 and 50 % of the cells are removed at random. `knet` gets the rows with their gaps; the others get rows that
scikit-learn has filled: medians, means, or the mean of 10 neighbours over the columns that both rows have. Printed are
the adjusted Rand index (`complete`: without gaps), and for `knet` the calibration error of `predict_proba`.
"""

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.impute import KNNImputer, SimpleImputer
from sklearn.metrics.cluster import contingency_matrix
from sklearn.preprocessing import StandardScaler

from benchmarks.quality import Found, datasets
from benchmarks.tasks import Labels, Rows
from knet import KNet
from knet.metrics import ari

SHARES = (0.1, 0.3, 0.5)
MAX_ROWS = 1000
BINS = 10  # of the calibration error
SETS = (
    *("uci/wine", "uci/wdbc", "uci/ecoli", "uci/statlog", "tables/banknote", "tables/penguins"),
    *("tables/olive_region", "tables/body", "tables/satellite", "fcps/hepta", "fcps/tetra"),
)
FILLED: dict[str, Callable[[Rows], Rows]] = {
    "knet": lambda X: X,
    "median": lambda X: SimpleImputer(strategy="median").fit_transform(X),
    "mean": lambda X: SimpleImputer().fit_transform(X),
    "neighbours": lambda X: KNNImputer(n_neighbors=10, weights="distance").fit_transform(
        StandardScaler().fit_transform(X)
    ),
}


def with_gaps(X: Rows, share: float, seed: int) -> Rows:
    """Return rows of which a share of the cells is missing; every row keeps a value."""
    rng = np.random.default_rng(seed)
    missing = rng.random(X.shape) < share
    missing[np.arange(len(X)), rng.integers(X.shape[1], size=len(X))] = False
    return np.where(missing, np.nan, X)


def calibration_error(known: Labels, labels: Labels, P: Rows) -> float:
    """Return the mean difference between the largest probability and the share of right labels, in ten bins."""
    table = contingency_matrix(known, labels)
    classes, clusters = linear_sum_assignment(-table)
    match = dict(zip(np.unique(labels)[clusters], np.unique(known)[classes], strict=True))
    right = np.array([match.get(label) for label in labels]) == known
    top = P.max(1)
    bins = np.minimum((top * BINS).astype(int), BINS - 1)
    return float(sum(abs((top - right)[bins == place].sum()) for place in range(BINS)) / len(top))


def measure(found: Found, share: float, seeds: int) -> dict[str, float]:
    """Return the mean adjusted Rand index of each way to treat gaps, and the calibration error of knet."""
    _, X, (known, *_) = found
    scores: dict[str, list[float]] = {}
    for seed in range(seeds):
        gaps = with_gaps(X, share, seed)
        for name, fill in ({"complete": lambda _: X} | FILLED).items():
            rows = fill(gaps)
            model = KNet(len(np.unique(known)), random_state=seed).fit(rows)
            scores.setdefault(name, []).append(ari(known, model.labels_))
            if name == "knet":
                error = calibration_error(known, model.labels_, model.predict_proba(rows))
                scores.setdefault("calibration", []).append(error)
    return {name: float(np.mean(values)) for name, values in scores.items()}


def chosen(folder: Path, names: list[str]) -> list[Found]:
    """Return the data sets to measure, without noise, as samples of bounded size."""
    found = []
    for name, X, (labels, *_) in datasets(folder):
        if name in names:
            rows = np.flatnonzero(labels > 0)
            rows = rows[np.sort(np.random.default_rng(0).permutation(len(rows))[:MAX_ROWS])]
            found.append((name, np.asarray(X, np.float64)[rows], [labels[rows]]))
    return found


def main() -> None:
    """Print a table per share of missing cells, and the means."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", nargs="*", default=list(SETS))
    parser.add_argument("--seeds", type=int, default=2)
    given = parser.parse_args()
    sets = chosen(given.folder, given.sets)
    columns = ["complete", *FILLED, "calibration"]
    for share in SHARES:
        print(f"\n{share:.0%} of the cells missing".ljust(25), *(f"{name:>11}" for name in columns))
        lines = []
        for found in sets:
            with warnings.catch_warnings(action="ignore"):
                scores = measure(found, share, given.seeds)
            lines.append([scores[name] for name in columns])
            print(f"{found[0]:24}", *(f"{value:11.3f}" for value in lines[-1]), flush=True)
        print(f"{'mean':24}", *(f"{value:11.3f}" for value in np.mean(lines, axis=0)))


if __name__ == "__main__":
    main()
