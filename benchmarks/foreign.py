"""Whether `predict` notices rows in other units, and stays silent otherwise: `python -m benchmarks.foreign [FOLDER]`.

Half of the rows of each data set train, the other half is new. The new rows are labelled as they are (a warning would
be a false alarm), and with one random column in another unit. The data sets are those of scikit-learn, and with FOLDER
the files NAME.data.gz below it. At most 2000 rows are used.
"""

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from knet import KNet

MAX_ROWS = 2000
SEEDS = 2
N_CLUSTERS = 3
UNITS = {"inches": 1 / 2.54, "thousands": 1e-3, "thousandths": 1e3}


def data_sets(folder: Path | None) -> Iterator[tuple[str, np.ndarray]]:
    """Yield the name and the rows of each data set."""
    for load in (load_iris, load_wine, load_breast_cancer, load_digits):
        yield load.__name__.removeprefix("load_"), load().data
    for path in sorted(folder.rglob("*.data.gz")) if folder is not None else ():
        yield path.name.removesuffix(".data.gz"), np.loadtxt(path, ndmin=2)


def main() -> None:
    """Print a line for each data set and seed, and the totals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    totals = np.zeros(1 + len(UNITS), int)
    n_cases, shares = 0, []
    print(f"{'data set':22} unfamiliar  warns  {'  '.join(UNITS)}")
    for name, X in data_sets(parser.parse_args().folder):
        for seed in range(SEEDS):
            rng = np.random.default_rng(seed)
            rows = rng.permutation(len(X))[:MAX_ROWS]
            trained, new = np.array_split(X[rows], 2)
            with warnings.catch_warnings(action="ignore"):
                model = KNet(N_CLUSTERS, max_iter=1, random_state=seed).fit(trained)
            found = model.drift(new)
            column = rng.choice(np.flatnonzero(X.std(0) > 0))
            factors = [np.where(np.arange(X.shape[1]) == column, factor, 1.0) for factor in UNITS.values()]
            noticed = [found.is_foreign, *(model.drift(new * factor).is_foreign for factor in factors)]
            print(f"{name:22} {found.unfamiliar:10.3f}  {'  '.join('yes' if own else 'no' for own in noticed)}")
            totals, n_cases = totals + noticed, n_cases + 1
            shares.append(found.unfamiliar)
    print(f"{n_cases} cases; mean share of unfamiliar new rows {np.mean(shares):.3f}; false alarms {totals[0]}")
    print("; ".join(f"{unit}: noticed {count}" for unit, count in zip(UNITS, totals[1:], strict=True)))


if __name__ == "__main__":
    main()
