"""The share of each step in the time of a fit: `python -m benchmarks.profile [CASE ...] [--repeats N]`.

The cases are those of `benchmarks.ratios`. Steps are timed by wrapping functions, in processor seconds on one thread; a
step that calls another one is not charged for it. cProfile would charge every call of a Python loop as well.
"""

import argparse
import importlib
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from statistics import median
from typing import Any

from benchmarks.ratios import CASES
from knet import KNet
from knet.threads import limit_threads

STEPS = {
    "preparing rows": ["knet.estimator:prepare_rows"],
    "neighbours": ["knet.start.candidates:neighbors", "knet.model.learn_certainty:neighbors"],
    "spanning tree": ["knet.start.candidates:spanning_tree"],
    "Ward's linkage": ["knet.start.candidates:linkage"],
    "graph eigenvectors": ["knet.start.candidates:graph_embedding"],
    "layout": ["knet.start.candidates:neighbor_layout"],
    "Genie": ["knet.start.candidates:genie"],
    "k-means": ["knet.start.candidates:k_means"],
    "mixtures": ["knet.start.candidates:gaussian_mixture"],
    "other work of candidates": ["knet.start.candidates:Pool.partitions"],
    "judge": ["knet.start.judge:Judge.measure", "knet.start.choice:Judge", "knet.start.judge:Judge.choose"],
    "caveats": ["knet.start.choice:about_partition"],
    "votes": ["knet.start.choice:count_votes"],
    "number of clusters": ["knet.estimator:find_number"],
    "other work of the start": ["knet.estimator:choose_start"],
    "psi follows": ["knet.train.training:follow"],
    "Algorithm 1": ["knet.train.training:Trainer.train"],
    "landmarks": ["knet.model.summary:landmarks", "knet.model.learn_certainty:landmarks"],
    "certainty": ["knet.model.summary:learn_certainty"],
    "other work of the model": ["knet.estimator:summarize"],
}


class Clock:
    """Processor seconds of steps, without those of the steps that they call."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.inner = [0.0]  # of each running step: what the steps that it called took

    def wrap(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that is timed under a name."""

        def timed(*args: Any, **kwargs: Any) -> Any:
            started = time.process_time()
            self.inner.append(0.0)
            try:
                return function(*args, **kwargs)
            finally:
                taken = time.process_time() - started
                self.seconds[name] += taken - self.inner.pop()
                self.inner[-1] += taken

        return timed

    def watch(self) -> None:
        """Replace the functions of all steps."""
        for name, places in STEPS.items():
            for place in places:
                module, _, path = place.partition(":")
                owner: Any = importlib.import_module(module)
                *parents, attribute = path.split(".")
                for parent in parents:
                    owner = getattr(owner, parent)
                setattr(owner, attribute, self.wrap(name, getattr(owner, attribute)))


def profiles(names: list[str], repeats: int) -> None:
    """Print the seconds and the share of every step, medians over fits."""
    clock = Clock()
    clock.watch()
    for name in names:
        case = CASES[name]
        X, n_clusters = case.rows(), "auto" if name.startswith("auto") else case.n_clusters
        rounds = []
        for _ in range(repeats + 1):  # the first one pays for what later ones find ready
            clock.seconds.clear()
            clock.wrap("all else", KNet(n_clusters, random_state=0).fit)(X)
            rounds.append(dict(clock.seconds))
        fits = rounds[1:] or rounds
        total = median(sum(fit.values()) for fit in fits)
        print(f"\n{name}: {total:.3f} s")
        for step in (*STEPS, "all else"):
            seconds = median(fit.get(step, 0.0) for fit in fits)
            if seconds > 0:
                print(f"  {step:26s} {seconds:8.4f} s {seconds / total:6.1%}")


def main() -> None:
    """Print the profiles of the cases that are asked for, or of the smaller ones."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", help=f"beginnings of names: {'; '.join(CASES)}")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    wanted = tuple(options.cases) or ("wine", "cancer", "moons", "5,000", "20,000")
    with limit_threads(1):
        profiles([name for name in CASES if name.startswith(wanted)], options.repeats)


if __name__ == "__main__":
    main()
