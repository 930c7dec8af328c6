"""The paper's tables and figures: `python -m benchmarks.reproduce [PART ...] [--quick] [--data FOLDER]`.

Parts are datasets, full, oos, lambda and figures; without any, all. Each result is appended to a file at once, and
a run that was stopped continues from there. At the end the report is written from that file.
"""

import argparse
import os
import sys
from dataclasses import replace
from pathlib import Path

from benchmarks.algorithms import ALGORITHMS
from benchmarks.figures import draw_figures
from benchmarks.paper_numbers import SUMMARY
from benchmarks.plan import PARTS, QUICK_DATASETS, Plan
from benchmarks.render import write_report
from benchmarks.results import Job, Store, versions
from benchmarks.runner import PaperData, describe, missing_datasets, run_plan

RESULTS = Path(__file__).parent / "results"
DOCS = Path(__file__).parents[1] / "docs"


class UsageError(Exception):
    """A request that is not possible; its message is for the user."""


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(
        prog="reproduce", description="Reproduce the paper's tables and figures, with other algorithms for comparison."
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"any of {', '.join(PARTS)}; all by default")
    parser.add_argument("--quick", action="store_true", help="one seed, small data sets: minutes instead of hours")
    parser.add_argument("--data", type=Path, help="folder with the data files; by default $KNET_DATA")
    parser.add_argument("--algorithms", help=f"comma-separated, of {', '.join(ALGORITHMS)}")
    parser.add_argument("--datasets", help=f"comma-separated, of {', '.join(SUMMARY)}")
    parser.add_argument("--seeds", type=int, help="runs of each, instead of the default number of each algorithm")
    parser.add_argument("--again", action="store_true", help="also repeat finished runs; the newer result counts")
    parser.add_argument("--results", type=Path, help="the results file; by default benchmarks/results/full.jsonl")
    parser.add_argument("--to", type=Path, help="folder for reproduction.md and images/; by default docs")
    parser.add_argument("--no-report", action="store_true", help="only run; write no report")
    return parser.parse_args(arguments)


def choose(text: str | None, known: tuple[str, ...], what: str) -> tuple[str, ...]:
    """Return the names of a comma-separated list, or all known ones; raise for a name that is not known."""
    names = known if text is None else tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if name not in known:
            raise UsageError(f"there is no {what} {name!r}; there are {', '.join(known)}")
    return names


def make_plan(options: argparse.Namespace) -> Plan:
    """Return the plan that the options describe."""
    if options.seeds is not None and options.seeds < 1:
        raise UsageError(f"--seeds must be at least 1, not {options.seeds}")
    algorithms = choose(options.algorithms, tuple(ALGORITHMS), "algorithm")
    for name in algorithms if options.algorithms else ():
        if not ALGORITHMS[name].installed:
            package = ALGORITHMS[name].package
            raise UsageError(f"{name} needs the package {package}: pip install -c constraints.txt -e '.[peers]'")
    known = tuple(SUMMARY) if options.datasets or not options.quick else QUICK_DATASETS
    return Plan(
        parts=choose(",".join(options.parts) or None, tuple(PARTS), "part"),
        algorithms=algorithms,
        datasets=choose(options.datasets, known, "data set"),
        quick=options.quick,
        seeds=options.seeds,
    )


def keep_available(plan: Plan, load: PaperData, *, named: bool) -> Plan:
    """Return the plan without data sets that are not available; raise if they were requested by name."""
    missing = missing_datasets(load, plan.datasets)
    for name, reason in missing.items():
        if named:
            raise UsageError(reason)
        print(f"reproduce: left out: {name}. {reason}", file=sys.stderr)
    return replace(plan, datasets=tuple(name for name in plan.datasets if name not in missing))


def main(arguments: list[str] | None = None) -> int:
    """Run, write the report, and return the exit code: 0, or 1 if a run of ours failed, or 2 for a wrong request."""
    options = parse(arguments)
    try:
        plan = make_plan(options)
        folder = options.data or (Path(os.environ["KNET_DATA"]) if os.environ.get("KNET_DATA") else None)
        if folder is not None and not folder.is_dir():
            raise UsageError(f"the data folder {str(folder)!r} does not exist")
        load = PaperData(folder)
        plan = keep_available(plan, load, named=options.datasets is not None)
    except UsageError as error:
        print(f"reproduce: {error}", file=sys.stderr)
        return 2
    store = Store(options.results or RESULTS / f"{'quick' if options.quick else 'full'}.jsonl")
    try:
        failed = run_plan(plan, store, load, again=options.again)
    except KeyboardInterrupt:
        print(
            f"reproduce: stopped; {store.path} has the finished runs, and the same command continues", file=sys.stderr
        )
        return 130
    if not options.no_report:
        report(plan, store, load, options.to or (RESULTS / "quick" if options.quick else DOCS))
    for job in failed:
        print(f"reproduce: failed: {describe(job)}: {store.rows[job]['reason']}", file=sys.stderr)
    return 1 if any(ALGORITHMS[job.algorithm].package is None for job in failed) else 0


def report(plan: Plan, store: Store, load: PaperData, target: Path) -> None:
    """Draw the figures, if they are part of the plan, and write the report."""
    if "figures" in plan.parts:
        for (name, dataset), facts in draw_figures(load, target / "images" / "reproduction").items():
            store.add(Job("figures", name, dataset, 0), status="ok", metrics=facts, seconds={}, versions=versions())
    print(f"{write_report(store.path, target)}: {len(store.rows)} results")


if __name__ == "__main__":
    sys.exit(main())
