"""Attack readers, writers, fits and commands with hostile inputs: `python -m benchmarks.fuzz [--cases N] [--seed S]`.

Every input is made from its kind and a seed, and a failure is printed with the command that repeats it:
`python -m benchmarks.fuzz --replay csv:17`. The cases run in child processes, so that a crash is counted as well.
"""

import argparse
import io
import multiprocessing
import sys
import time
import traceback
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from benchmarks.fuzz_commands import hostile_commands
from benchmarks.fuzz_fits import hostile_calls, hostile_parameters, hostile_rows
from benchmarks.fuzz_models import model_bytes, model_crafted, model_raw
from benchmarks.fuzz_tables import table_crafted, table_raw, text_file, writers
from benchmarks.memory import peak_mb
from benchmarks.reliability_page import write_section

Case = Callable[[np.random.Generator, Path], bool]

SLOW_SECONDS = 30.0  # of processor time; a case that takes longer is a failure
HANG_SECONDS = 180.0  # without an answer; then the process is ended, and the case is a failure

# A case returns True if the input was accepted, and False if it was refused by an error that the documentation names.
# It raises anything else: an `UnsoundError`, or an error of another type. Each has its share of the inputs.
CASES: dict[str, Case] = {
    "model-raw": model_raw,
    "model-crafted": model_crafted,
    "text": text_file,
    "table-raw": table_raw,
    "table-crafted": table_crafted,
    "writers": writers,
    "rows": hostile_rows,
    "parameters": hostile_parameters,
    "calls": hostile_calls,
    "commands": hostile_commands,
}
SHARES = dict(zip(CASES, (0.2, 0.25, 0.15, 0.1, 0.1, 0.08, 0.03, 0.03, 0.03, 0.03), strict=True))


@dataclass
class Counts:
    """How the inputs of a kind ended."""

    accepted: int = 0
    refused: int = 0
    slowest: float = 0.0
    failures: list[str] = field(default_factory=list)


def run_case(kind: str, seed: int) -> tuple[str, float]:
    """Return how a case ended (accepted, refused, or the text of a failure), and its seconds."""
    rng = np.random.default_rng([zlib.crc32(kind.encode()), seed])
    started = time.process_time()  # of this process, since other programs may use the same cores
    with TemporaryDirectory() as folder, redirect_stderr(io.StringIO()):  # notes about the tables
        try:
            ended = "accepted" if CASES[kind](rng, Path(folder)) else "refused"
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            ended = f"{type(error).__name__}: {error} ({last.name}, line {last.lineno})"
    seconds = time.process_time() - started
    return (ended if seconds < SLOW_SECONDS else f"took {seconds:.0f} s"), seconds


def _work(kind: str, seeds: Sequence[int], pipe: Connection) -> None:
    for seed in seeds:
        pipe.send((seed, *run_case(kind, seed)))
    pipe.send(None)


def run_kind(kind: str, seeds: Sequence[int]) -> Iterator[tuple[int, str, float]]:
    """Yield (seed, end, seconds) of every case; if the process dies, the next one continues after the fatal case."""
    context, left = multiprocessing.get_context("fork"), list(seeds)
    while left:
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(target=_work, args=(kind, left, sender))
        process.start()
        sender.close()
        try:
            while receiver.poll(HANG_SECONDS) and (message := receiver.recv()) is not None:
                left.pop(0)
                yield message
            if left:
                process.kill()
                yield left.pop(0), f"no answer after {HANG_SECONDS:.0f} s", HANG_SECONDS
        except EOFError:
            process.join()
            yield left.pop(0), f"the process died with code {process.exitcode}", 0.0
        process.join()


def attack(kinds: Sequence[str], n_cases: int, seed: int) -> dict[str, Counts]:
    """Run the cases of every kind, in proportion to `SHARES`."""
    model_bytes()  # made once, before the processes start
    found = {}
    for kind in kinds:
        counts = found[kind] = Counts()
        total = max(1, round(n_cases * SHARES[kind] / sum(SHARES[name] for name in kinds)))
        for number, ended, seconds in run_kind(kind, range(seed, seed + total)):
            counts.slowest = max(counts.slowest, seconds)
            if ended in ("accepted", "refused"):
                setattr(counts, ended, getattr(counts, ended) + 1)
            else:
                counts.failures.append(f"{kind}:{number} {ended}")
    return found


def as_table(found: dict[str, Counts]) -> str:
    """Return the counts as a Markdown table."""
    lines = [
        "| input | accepted | refused | untyped errors, crashes, broken rules | slowest |",
        "|---|---|---|---|---|",
    ]
    for kind, counts in found.items():
        slowest = f"{counts.slowest * 1000:.0f} ms"
        lines.append(f"| {kind} | {counts.accepted:,} | {counts.refused:,} | {len(counts.failures):,} | {slowest} |")
    total = sum(counts.accepted + counts.refused + len(counts.failures) for counts in found.values())
    failures = sum(len(counts.failures) for counts in found.values())
    return "\n".join([*lines, f"| all {total:,} | | | {failures:,} | |"])


def main(arguments: list[str] | None = None) -> int:
    """Run the attack, print the counts and the failures, and return the exit code."""
    parser = argparse.ArgumentParser(prog="fuzz", description="Attack the readers and the fit with hostile inputs.")
    parser.add_argument("kinds", nargs="*", default=list(CASES), help=f"of {', '.join(CASES)}")
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="seed of the first case of each kind")
    parser.add_argument("--write", action="store_true", help="write the table into docs/reliability.md")
    parser.add_argument("--replay", help="KIND:SEED of a failure")
    options = parser.parse_args(arguments)
    if options.replay:
        kind, _, seed = options.replay.partition(":")
        with TemporaryDirectory() as folder:
            rng = np.random.default_rng([zlib.crc32(kind.encode()), int(seed)])
            print("accepted" if CASES[kind](rng, Path(folder)) else "refused")
        return 0
    started = time.perf_counter()
    print(f"seeds from {options.seed}")
    found = attack(options.kinds, options.cases, options.seed)
    print(as_table(found))
    if options.write:
        write_section("fuzz", as_table(found))
    print(f"{time.perf_counter() - started:.0f} s, {peak_mb():.0f} MB in the parent process")
    failures = [text for counts in found.values() for text in counts.failures]
    for text in failures:
        print(f"{text}\n    repeat: python -m benchmarks.fuzz --replay {text.split()[0]}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
