"""Which runs make up the reproduction: its parts, the full form and the quick one."""

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.algorithms import ALGORITHMS
from benchmarks.paper_numbers import DATASETS, LAMBDA, SUBSET_PERCENT, SUMMARY
from benchmarks.results import Job

PARTS = {
    "datasets": "the summary of the data sets (Table 1)",
    "full": "NMI and seconds, trained on all rows (Tables 2 and 3)",
    "oos": "NMI and seconds, trained on a subset (Tables 4 and 5), and Spiral2 from 1 % of its rows",
    "lambda": "HSIC, error of the autoencoder and NMI by lambda, on Wine and Spiral1 (Tables 6 and 7)",
    "figures": "the pictures",
}
MEASURED = ("datasets", "full", "oos", "lambda")

QUICK_DATASETS = ("moon", "wine", "cancer")
QUICK_LAMBDAS = (1.0, 0.0)
QUICK_SLOW = {"aec", "dec", "imsat"}  # on Wine only
LAMBDA_SEEDS = 3
LARGE = ("kmeans", "gmm", "knet-eig", "knet-sma", "knet")  # the algorithms for Spiral2
ROWS_PERCENT = {**SUBSET_PERCENT, "spiral2": 1}


@dataclass(frozen=True)
class Plan:
    """The runs that are wanted.

    Attributes
    ----------
    parts, algorithms, datasets : tuple of str
        Names, in the order of the tables.
    quick : bool
        One seed and small data sets.
    seeds : int or None
        Runs of each; None uses the number of each algorithm.
    """

    parts: tuple[str, ...] = tuple(PARTS)
    algorithms: tuple[str, ...] = tuple(ALGORITHMS)
    datasets: tuple[str, ...] = tuple(SUMMARY)
    quick: bool = False
    seeds: int | None = None

    def jobs(self) -> list[Job]:
        """Return the runs, seed by seed and short ones first, so that a stopped reproduction has many results."""
        found = [job for part in self.parts if part in MEASURED for job in getattr(self, f"_{part}")()]
        return sorted(dict.fromkeys(found), key=lambda job: (job.seed, expected_seconds(job)))

    def _datasets(self) -> Iterator[Job]:
        for dataset in self.datasets:
            yield Job("datasets", "summary", dataset, 0)

    def _full(self) -> Iterator[Job]:
        for algorithm in self.algorithms:
            for dataset in self.datasets:
                if dataset in DATASETS and self._wanted(algorithm, dataset):
                    yield from self._seeded("full", algorithm, dataset)

    def _oos(self) -> Iterator[Job]:
        for algorithm in self.algorithms:
            for dataset in self.datasets:
                small = dataset != "spiral2" or (algorithm in LARGE and not self.quick)
                if ALGORITHMS[algorithm].new_rows and small and self._wanted(algorithm, dataset):
                    yield from self._seeded("oos", algorithm, dataset)

    def _lambda(self) -> Iterator[Job]:
        for dataset in ("wine",) if self.quick else ("wine", "spiral1"):
            for lam in LAMBDA[dataset]:
                for algorithm in ("knet-eig", "knet-sma"):
                    asked = dataset in self.datasets and algorithm in self.algorithms
                    if asked and (lam in QUICK_LAMBDAS or not self.quick):
                        for seed in range(self.seeds or (1 if self.quick else LAMBDA_SEEDS)):
                            yield Job("lambda", algorithm, dataset, seed, repr(lam))

    def _wanted(self, algorithm: str, dataset: str) -> bool:
        """Return whether a cell is part of the plan: the quick form leaves some out."""
        return not self.quick or dataset == "wine" or algorithm not in QUICK_SLOW

    def _seeded(self, part: str, algorithm: str, dataset: str) -> Iterator[Job]:
        own = 1 if self.quick else ALGORITHMS[algorithm].seeds_for(dataset if part == "full" else "")
        for seed in range(self.seeds or own):
            yield Job(part, algorithm, dataset, seed)


def expected_seconds(job: Job) -> float:
    """Return a rough duration, to estimate the remaining time."""
    rows = SUMMARY[job.dataset][0]
    if job.part == "oos":
        rows = rows * ROWS_PERCENT[job.dataset] // 100
    cost = ALGORITHMS[job.algorithm].cost if job.algorithm in ALGORITHMS else 0.1
    return 0.2 + cost * rows / 1000
