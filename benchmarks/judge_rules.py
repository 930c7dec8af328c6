"""Rules that choose a start, compared: `python -m benchmarks.judge_rules [FOLDER] [--seeds 1] [--scaling]`.

Every candidate of the default is made and measured once, on the generated battery and on the batteries in FOLDER (the
files of `benchmarks.quality`). The table has the mean ARI of the partition that a rule picks, per family, before any
training, and on how many sets a rule is better or worse than the one in use by more than 0.02. Of several labelings of
a set the best counts, and rows with the label 0 are not scored.

With `--scaling` the table compares other treatments of the columns instead, and adds blobs with random 0/1 columns.
"""

import argparse
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from unittest.mock import patch

import numpy as np
from sklearn.datasets import make_blobs

from benchmarks.generated_battery import generated
from benchmarks.quality import datasets
from knet.arrays import Floats, Labels
from knet.metrics import ari, rand_index
from knet.prepare.scaling import learn_scaling
from knet.prepare.training_rows import MAX_ROWS
from knet.start import columns
from knet.start.candidates import Pool
from knet.start.choice import choose_from
from knet.start.judge import Judge, Verdict, choose
from knet.threads import one_blas_thread

CLEAR = 0.02  # a difference in ARI that counts as better or worse


@dataclass(frozen=True)
class DataSet:
    """Rows with the labelings that are scored."""

    family: str
    name: str
    X: Floats
    labelings: list[Labels]


@dataclass(frozen=True)
class Candidates:
    """The candidates for a labeling: what the judge knows of them, and the ARI that it does not know."""

    methods: tuple[str, ...]
    partitions: list[Labels]
    verdicts: list[Verdict]
    structure: float
    n_columns: int
    scores: Floats

    def without(self, *parts: str) -> "Candidates":
        """Return the candidates whose names have none of these parts; all of them if none is left."""
        kept = [i for i, name in enumerate(self.methods) if not any(part in name for part in parts)]
        if not kept:
            return self
        return replace(
            self,
            methods=tuple(self.methods[i] for i in kept),
            partitions=[self.partitions[i] for i in kept],
            verdicts=[self.verdicts[i] for i in kept],
            scores=self.scores[kept],
        )

    @property
    def separation(self) -> Floats:
        """-log(conductance) of every candidate."""
        return -np.log([verdict.conductance for verdict in self.verdicts])

    @property
    def gains(self) -> Floats:
        """The gain of every candidate."""
        return np.array([verdict.gain for verdict in self.verdicts])


Rule = Callable[[Candidates], int]
Measured = list[Candidates]  # of a data set, for each labeling


def in_use(found: Candidates) -> int:
    """Follow the rule of the default."""
    return choose(found.verdicts, found.partitions, found.structure)


def without_parts(found: Candidates, *, parts: tuple[str, ...]) -> int:
    """Follow the rule of the default without some kinds of candidates."""
    fewer = found.without(*parts)
    return found.methods.index(fewer.methods[in_use(fewer)])


def smallest_conductance(found: Candidates) -> int:
    """Follow separation alone."""
    return int(found.separation.argmax())


def largest_gain(found: Candidates) -> int:
    """Follow likelihood alone."""
    return int(found.gains.argmax())


def weighted_sum(found: Candidates) -> int:
    """Maximise the sum of the default, without the structure test and without ties."""
    return int((found.separation + found.gains / np.sqrt(found.n_columns)).argmax())


def half_weight(found: Candidates) -> int:
    """Maximise the sum with the same weight for any number of columns."""
    return int((found.separation + found.gains / 2).argmax())


def without_structure_test(found: Candidates) -> int:
    """Follow the rule of the default as if Gaussians always described the groups."""
    return choose(found.verdicts, found.partitions, -np.inf)


def ties_by_both_errors(found: Candidates) -> int:
    """Follow the rule of the default with the standard errors of both candidates in a comparison of scores."""
    top, separation, gains = found.gains.max(), found.separation, found.gains
    if 0 <= top < found.structure / 2:
        return smallest_conductance(found)
    scores = separation + gains / np.sqrt(found.n_columns) if top >= 0 else separation
    variances = np.array([1 / (1 + verdict.cut) for verdict in found.verdicts])
    best = int(scores.argmax())
    equal = np.flatnonzero(scores[best] - scores <= np.sqrt(variances[best] + variances))
    if top >= 0:
        rows = [verdict.gains for verdict in found.verdicts]
        favourite = max(equal, key=lambda i: gains[i])
        errors = {i: (rows[favourite] - rows[i]).std() / np.sqrt(len(rows[i])) for i in equal}
        equal = np.array([i for i in equal if gains[favourite] - gains[i] <= errors[i]])
    return most_agreed(found, equal)


def medoid(found: Candidates) -> int:
    """Choose the candidate that agrees most with the others."""
    return most_agreed(found, range(len(found.methods)))


def most_agreed(found: Candidates, among: Sequence[int] | np.ndarray) -> int:
    """Return the candidate that agrees most with some of them."""
    parts = found.partitions
    return int(max(among, key=lambda i: sum(rand_index(parts[i], parts[j]) for j in among)))


def hindsight(found: Candidates) -> int:
    """Choose the best candidate, known only from the labels."""
    return int(found.scores.argmax())


def single(found: Candidates, *, method: str) -> int:
    """Choose a fixed candidate; follow the rule of the default if it left a group empty."""
    return found.methods.index(method) if method in found.methods else in_use(found)


RULES: dict[str, Rule] = {
    "rule in use": in_use,
    "smallest conductance": smallest_conductance,
    "largest gain": largest_gain,
    "-log phi + G / sqrt(d)": weighted_sum,
    "-log phi + G / 2": half_weight,
    "no structure test": without_structure_test,
    "ties by the errors of both": ties_by_both_errors,
    "medoid of all": medoid,
    "without graphs": partial(without_parts, parts=("graph",)),
    "without genie": partial(without_parts, parts=("genie",)),
    "without mixtures": partial(without_parts, parts=("mixture",)),
    **{
        f"only {method}": partial(single, method=method)
        for method in ("graph 10", "genie 0.3", "k-means", "full mixture from k-means", "tied mixture from k-means")
    },
    "best in hindsight": hindsight,
}


def measure(X: Floats, truth: Labels, seed: int) -> Candidates:
    """Make and measure all candidates for a labeling, as a fit does."""
    known, rng = truth > 0, np.random.RandomState(seed)
    n_clusters = len(np.unique(truth[known]))
    with one_blas_thread():
        pool, judge = pool_and_judge(X, n_clusters, rng)
        made = pool.partitions(n_clusters)
        made = {method: own for method, own in made.items() if np.bincount(own, minlength=n_clusters).all()}
        verdicts = [judge.measure(own) for own in made.values()]
    scores = np.array([ari(truth[known], own[known]) for own in made.values()])
    return Candidates(tuple(made), list(made.values()), verdicts, judge.structure, pool.X.shape[1], scores)


def pool_and_judge(X: Floats, n_clusters: int, rng: np.random.RandomState) -> tuple[Pool, Judge]:
    """Return what makes the candidates and what measures them, as in a fit."""
    rows = columns.comparable_columns(X, rng)
    pool = Pool(rows, [n_clusters], int(rng.randint(2**31 - 1)))
    return pool, Judge(rows, pool.near)


def scaled(data: DataSet, seed: int, kind: str = "auto") -> tuple[Floats, list[Labels]]:
    """Return the rows that a start is chosen on, and their labelings."""
    drawn = np.sort(np.random.RandomState(seed).permutation(len(data.X))[:MAX_ROWS])
    X = data.X.astype(np.float64)
    return learn_scaling(X, kind)(X[drawn]), [truth[drawn] for truth in data.labelings]


def files(folder: Path | None) -> Iterator[DataSet]:
    """Yield the data sets below a folder; the folder of a file is its family."""
    for name, X, labelings in datasets(folder) if folder else ():
        family, _, own = name.rpartition("/")
        yield DataSet(family or "files", own, X, labelings)


def all_sets(folder: Path | None, seed: int) -> Iterator[DataSet]:
    """Yield the data sets of the generated battery and below a folder."""
    for family, name, X, y in generated(seed):
        yield DataSet(family, name, X, [y])
    yield from files(folder)


Table = dict[str, dict[str, list[float]]]  # family, column, ARI of each data set


def compare_rules(folder: Path | None, seeds: int) -> Table:
    """Return the ARI of every rule on every data set."""
    table: Table = {}
    for seed in range(seeds):
        for data in all_sets(folder, seed):
            X, labelings = scaled(data, seed)
            measured: Measured = [measure(X, truth, seed) for truth in labelings]
            own = table.setdefault(data.family, {rule: [] for rule in RULES})
            for name, rule in RULES.items():
                own[name].append(max(float(found.scores[rule(found)]) for found in measured))
    return table


def blobs_with_flags(n_flags: int, seed: int) -> DataSet:
    """Return three blobs in the plane with random 0/1 columns."""
    X, y = make_blobs(600, centers=[(0, 0), (4, 0), (2, 3.5)], cluster_std=0.9, random_state=seed)
    flags = np.random.RandomState(seed).randint(0, 2, (len(X), n_flags))
    return DataSet(f"{n_flags} flags", str(seed), np.column_stack([X, flags]), [y + 1])


def chosen_score(data: DataSet, seed: int, kind: str, *, spread: bool) -> float:
    """Return the ARI of the chosen start after a treatment of the columns."""
    X, labelings = scaled(data, seed, kind)
    found = []
    for truth in labelings:
        known = truth > 0
        n_clusters, rng = len(np.unique(truth[known])), np.random.RandomState(seed)
        spreading = columns.spread_few_values if spread else lambda rows, rng: rows
        with patch.object(columns, "spread_few_values", spreading), one_blas_thread():
            labels = choose_from(*pool_and_judge(X, n_clusters, rng), n_clusters).labels
        found.append(ari(truth[known], labels[known]))
    return max(found)


SCALINGS: dict[str, Callable[[DataSet, int], float]] = {
    "scale=auto, as used": partial(chosen_score, kind="auto", spread=True),
    "scale=standard": partial(chosen_score, kind="standard", spread=True),
    "few values not spread": partial(chosen_score, kind="auto", spread=False),
}


def compare_scalings(folder: Path | None, seeds: int) -> Table:
    """Return the ARI of the chosen start for every treatment of the columns."""
    table: Table = {}
    for seed in range(seeds):
        for data in (*files(folder), *(blobs_with_flags(n, s) for n in (1, 2) for s in range(3 * seed, 3 * seed + 3))):
            own = table.setdefault(data.family, {name: [] for name in SCALINGS})
            for name, score in SCALINGS.items():
                own[name].append(score(data, seed))
    return table


def print_table(table: Table, names: Sequence[str]) -> None:
    """Print the mean of every family, the mean of all sets, and on how many sets a line differs from the first."""
    print(f"{'mean ARI':30}" + "".join(f" {family:>9}" for family in table) + f" {'all':>6}  better / worse")
    print(f"{'data sets':30}" + "".join(f" {len(own[names[0]]):9}" for own in table.values()))
    usual = np.concatenate([own[names[0]] for own in table.values()])
    for name in names:
        scores = np.concatenate([own[name] for own in table.values()])
        means = "".join(f" {np.mean(own[name]):9.3f}" for own in table.values())
        note = "" if name == names[0] else f"  {(scores > usual + CLEAR).sum():3} / {(scores < usual - CLEAR).sum()}"
        print(f"{name:30}{means} {scores.mean():6.3f}{note}")


def main(arguments: list[str] | None = None) -> int:
    """Print the table; return the exit code."""
    parser = argparse.ArgumentParser(prog="judge_rules", description="Rules that choose a start, compared.")
    parser.add_argument("folder", type=Path, nargs="?", help="also the batteries in this folder")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--scaling", action="store_true", help="compare treatments of the columns instead of rules")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    if options.scaling:
        print_table(compare_scalings(options.folder, options.seeds), list(SCALINGS))
    else:
        print_table(compare_rules(options.folder, options.seeds), list(RULES))
    return 0


if __name__ == "__main__":
    sys.exit(main())
