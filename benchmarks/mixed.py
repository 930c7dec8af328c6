"""Clusters of tables with numbers and categories: `python -m benchmarks.mixed FOLDER [--seeds 3]`.

FOLDER holds public tables as CSV files, NAME.csv; `TABLES` says where they come from, which column is the known class
and which are left out. Beside them stand generated tables. `knet` gets the table through `Recipe(auto=True)`; `numbers`
gets its numbers alone; `each` gets 0/1 columns that are standardised one by one; k-prototypes (package kmodes) takes
part if it is installed. Rows with gaps are left out, because k-prototypes allows none. Printed is the adjusted Rand
index with the number of classes given.
"""

import argparse
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.tasks import Labels
from knet import KNet
from knet.metrics import ari
from knet.tables import Recipe

# Name: where it comes from, the known class, and columns that are left out: identifiers, or another name of the class.
TABLES = {
    "penguins": ("R package palmerpenguins", "species", ()),
    "Hawks": (
        "R package Stat2Data",
        "Species",
        ("Day", "CaptureTime", "ReleaseTime", "BandNumber", "Sex", "StandardTail"),
    ),
    "possum": ("R package DAAG", "Pop", ("case", "site")),
    "ais": ("R package DAAG", "sex", ()),
    "crabs": ("R package MASS", "sp", ("index",)),
    "Cars93": ("R package MASS", "Type", ("Model", "Make")),
    "mpg": ("R package ggplot2", "drv", ("model",)),
}
MOSTLY_MISSING = 0.2  # columns with more gaps are left out, so that most rows are complete
N_ROWS = 600  # of a generated table


def public(folder: Path) -> Iterator[tuple[str, pd.DataFrame, Labels]]:
    """Yield the tables that the folder has, without rows that have gaps."""
    for name, (_, target, unused) in TABLES.items():
        path = folder / f"{name}.csv"
        if path.exists():
            table = pd.read_csv(path, na_values=["NA"]).drop(columns=["rownames", *unused], errors="ignore")
            table = table.loc[:, table.isna().mean() < MOSTLY_MISSING].dropna()
            yield name, table.drop(columns=target), table[target].astype("category").cat.codes.to_numpy()


def generated(seed: int) -> Iterator[tuple[str, pd.DataFrame, Labels]]:
    """Yield tables of Gaussians with categories that follow the groups, that do not, and that are rare."""
    rng = np.random.default_rng(seed)

    def numbers(n_groups: int, n_columns: int, distance: float) -> tuple[pd.DataFrame, Labels]:
        y = rng.integers(n_groups, size=N_ROWS)
        X = rng.normal(0, distance, (n_groups, n_columns))[y] + rng.normal(size=(N_ROWS, n_columns))
        return pd.DataFrame(X).add_prefix("x"), y

    def category(y: Labels, n_levels: int, strength: float) -> list[str]:
        own, common = rng.dirichlet(np.full(n_levels, 0.7), y.max() + 1), rng.dirichlet(np.full(n_levels, 2.0))
        shares = strength * own + (1 - strength) * common
        return [f"v{rng.choice(n_levels, p=shares[group])}" for group in y]

    table, y = numbers(3, 4, 2.0)
    yield "one of three categories", table.assign(a=category(y, 4, 0.9), b=category(y, 3, 0), c=category(y, 2, 0)), y
    table, y = numbers(3, 3, 1.0)
    yield "four good categories", table.assign(**{f"k{j}": category(y, 4, 0.95) for j in range(4)}), y
    table, y = numbers(4, 5, 2.0)
    maker = [f"m{level}" for level in np.minimum(rng.geometric(0.25, N_ROWS), 25)]
    yield "rare levels", table.assign(rare=rng.choice(["yes", "no"], N_ROWS, p=[0.02, 0.98]), maker=maker), y
    table, y = numbers(3, 4, 2.0)
    yield "year and sex", table.assign(year=2007 + rng.integers(3, size=N_ROWS), sex=rng.choice(["m", "f"], N_ROWS)), y


def by_recipe(table: pd.DataFrame, n_clusters: int, seed: int) -> Labels:
    """Return the labels of knet."""
    return np.asarray(KNet(n_clusters, random_state=seed).fit(Recipe(auto=True).fit_transform(table)).labels_)


def by_numbers(table: pd.DataFrame, n_clusters: int, seed: int) -> Labels:
    """Return the labels of knet without the categories."""
    return np.asarray(KNet(n_clusters, random_state=seed).fit(table.select_dtypes("number")).labels_)


def by_each(table: pd.DataFrame, n_clusters: int, seed: int) -> Labels:
    """Return the labels of knet if every 0/1 column is standardised."""
    X = pd.get_dummies(table).astype(float)
    return np.asarray(KNet(n_clusters, random_state=seed, scale="standard").fit(X).labels_)


def by_prototypes(table: pd.DataFrame, n_clusters: int, seed: int) -> Labels:
    """Return the labels of k-prototypes on standardised numbers."""
    from kmodes.kprototypes import KPrototypes

    numbers = table.select_dtypes("number")
    texts = table.drop(columns=numbers.columns)
    rows = pd.concat([(numbers - numbers.mean()) / numbers.std(), texts], axis=1).to_numpy(object)
    places = list(range(numbers.shape[1], rows.shape[1]))
    return np.asarray(KPrototypes(n_clusters, n_init=5, random_state=seed).fit_predict(rows, categorical=places))


METHODS: dict[str, Callable[[pd.DataFrame, int, int], Labels]] = {
    "knet": by_recipe,
    "numbers": by_numbers,
    "each": by_each,
    "prototypes": by_prototypes,
}


def score(method: str, table: pd.DataFrame, y: Labels, seeds: int) -> float:
    """Return the mean adjusted Rand index of a method; NaN if its package is missing."""
    try:
        with warnings.catch_warnings(action="ignore"):
            return float(np.mean([ari(y, METHODS[method](table, len(np.unique(y)), seed)) for seed in range(seeds)]))
    except ImportError:
        return float("nan")


def main() -> None:
    """Print a table of all methods, and the means of public and generated tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    print(" " * 28, *(f"{name:>10}" for name in METHODS))
    for group, tables in (("public", public(given.folder)), ("generated", generated(0))):
        lines = []
        for name, table, y in tables:
            lines.append([score(method, table, y, given.seeds) for method in METHODS])
            print(f"{name:28}", *(f"{value:10.3f}" for value in lines[-1]), flush=True)
        if lines:
            print(f"{f'mean, {group}':28}", *(f"{value:10.3f}" for value in np.mean(lines, axis=0)))


if __name__ == "__main__":
    main()
