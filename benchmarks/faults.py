"""Kill, starve and race every command that writes files: `python -m benchmarks.faults [PARTS] [--kills N] [--write]`.

Every fault is drawn from a seed. The tables of counts are printed; `--write` puts them into docs/reliability.md.
"""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from tempfile import TemporaryDirectory

import numpy as np

import knet
from benchmarks import fault_dask
from benchmarks.fault_python import COLUMNS as PYTHON_COLUMNS
from benchmarks.fault_python import processes, python_interrupts
from benchmarks.fault_runs import (
    Fault,
    count_events,
    few_descriptors,
    full_output,
    limit_files,
    limit_memory,
    piped_output,
    random_interrupt,
    random_kill,
    run,
    start,
    wait,
)
from benchmarks.fault_writers import OLD, PRINTERS, WRITERS, Writer, make_inputs, model_arguments
from benchmarks.reliability_page import markdown, write_section
from benchmarks.soak import soak

Row = list[str | int]


LIBRARIES = ("matplotlib.figure", "onnx", "onnxruntime", "onnxscript", "torch", "sklearn.cluster", "pyarrow.parquet")


def imports() -> None:
    """Import the libraries and the modules of all commands, before the processes are forked, on one thread."""
    modules = [module.name for module in walk_packages(knet.__path__, "knet.")]
    for name in (*LIBRARIES, *(name for name in modules if not name.endswith("__main__"))):
        import_module(name)


def measure(writer: Writer, folder: Path) -> tuple[float, int, int]:
    """Return the seconds, the number of file operations and the largest output of an undisturbed run."""
    arguments, counts = writer.prepare(folder, with_old=False), folder.with_name("counts")
    started = time.perf_counter()
    ended = run(arguments, folder, count_events(counts))
    seconds = time.perf_counter() - started
    if ended.code != 0 or writer.damaged(folder, with_old=False) or not (folder / next(iter(writer.outputs))).exists():
        raise RuntimeError(f"{arguments} fails without a fault: {ended.text}")
    return seconds, counts.stat().st_size, max((folder / name).stat().st_size for name in writer.outputs)


def kills(folder: Path, n_kills: int, seed: int) -> list[Row]:
    """Kill every writer at random moments, file operations and bytes; count lost files and what stays behind."""
    return _stop_writers(folder, n_kills, seed, random_kill)


def interrupts(folder: Path, n_interrupts: int, seed: int) -> list[Row]:
    """Interrupt every writer at random moments, as Ctrl-C does."""
    return _stop_writers(folder, n_interrupts, seed, random_interrupt)


def _stop_writers(
    folder: Path, n_stops: int, seed: int, draw: Callable[..., tuple[Fault | None, float | None, int]]
) -> list[Row]:
    shares, table = sum(writer.share for writer in WRITERS.values()), []
    for name, writer in WRITERS.items():
        seconds, n_events, n_bytes = measure(writer, folder)
        total, stopped, lost, unclean = max(1, round(n_stops * writer.share / shares)), 0, 0, 0
        number = 0
        while stopped < total and number < 3 * total:
            rng = np.random.default_rng([seed, number])
            number += 1
            with_old = bool(rng.random() < 0.5)
            arguments = writer.prepare(folder, with_old=with_old)
            fault, share, signal_number = draw(rng, n_events, n_bytes)
            child = start(arguments, folder, fault)
            if share is not None:
                time.sleep(share * seconds)
                os.kill(child, signal_number)
            ended = wait(child, folder)
            stopped += ended.code != 0
            unclean += report_unclean(name, number, ended.is_clean, ended.text)
            for output in writer.damaged(folder, with_old=with_old):
                lost += 1
                print(f"lost: {name} {output} in fault {number - 1} {writer.log[-1:]}", file=sys.stderr)
        run(writer.prepare(folder, with_old=True), folder)
        hidden = len(list(folder.glob(".*.unfinished")))
        table.append([name, stopped, lost, unclean, hidden, f"{seconds:.1f} s"])
        print(table[-1], flush=True)
    return table


def streams(folder: Path, n_faults: int, seed: int) -> list[Row]:
    """Give writers few descriptors; put full disks and pipes that are full or end early behind what others print."""
    table: list[Row] = []
    for name in ("few descriptors", "full disk behind a stream", "pipe that is full or ends early"):
        total, ends, lost, unclean = max(1, n_faults // 3), Counter[int](), 0, 0
        for number in range(total):
            rng = np.random.default_rng([seed, number])
            writer = list(WRITERS.values())[number % len(WRITERS)]
            if name == "few descriptors":
                ended = run(writer.prepare(folder, with_old=True), folder, few_descriptors(int(rng.integers(0, 6))))
                lost += len(writer.damaged(folder, with_old=True))
            else:
                stream, words = int(rng.integers(1, 3)), PRINTERS[number % len(PRINTERS)]
                fault = full_output(stream)
                if name.startswith("pipe"):
                    fault = piped_output(stream, int(2 ** rng.uniform(0, 20)), float(rng.uniform(0, 0.5)))
                ended = run(words, folder, fault)
            ends[ended.code] += 1
            unclean += report_unclean(f"{name}, {writer.arguments[0]}", number + 1, ended.is_clean, ended.text)
        table.append([name, total, ends[0], ends[2], ends[141], lost, unclean])
        print(table[-1], flush=True)
    return table


def report_unclean(name: str, number: int, clean: bool, text: str) -> int:
    """Print what a run printed instead of one line; return 1 if it did."""
    if not clean:
        print(f"not one line: {name} in fault {number - 1}: {text[-600:]}", file=sys.stderr)
    return int(not clean)


def disks(folder: Path, n_faults: int, seed: int) -> list[Row]:
    """Let every writer meet a full disk, by a limit of file sizes and on a small disk, and a read-only disk."""
    table: list[Row] = []
    for name, writer in WRITERS.items():
        _, _, n_bytes = measure(writer, folder)
        total, lost, unclean = max(2, round(n_faults * writer.share / len(WRITERS))), 0, 0
        for number in range(total):
            rng = np.random.default_rng([seed, number])
            arguments = writer.prepare(folder, with_old=True)
            ended = run(arguments, folder, limit_files(int(rng.integers(0, n_bytes)), kill=False))
            lost += len(writer.damaged(folder, with_old=True))
            unclean += report_unclean(name, number, ended.is_clean and ended.code == 2, ended.text)
        small = [_small_disk(writer, folder, options) for options in ("size=24k", "size=4m,ro")]
        lost += sum(found[1] for found in small)
        unclean += sum(found[2] for found in small)
        table.append([name, total, small[0][0], small[1][0], lost, unclean])
        print(table[-1], flush=True)
    return table


def _small_disk(writer: Writer, folder: Path, options: str) -> tuple[int, int, int]:
    """Run a writer on a disk of its own, with old files on it; return the numbers of runs, lost files, unclear ends."""
    disk = folder / "disk"
    disk.mkdir(exist_ok=True)
    before, _, ro = options.partition(",")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", before, "tmpfs", disk], capture_output=True).returncode:
        return 0, 0, 0  # only the superuser may mount a disk
    try:
        arguments = [f"disk/{word}" if word in writer.outputs else word for word in [*writer.arguments, "--force"]]
        for name in writer.outputs:
            (disk / name).write_bytes(OLD)
        if ro:
            subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        ended = run(arguments, folder)
        lost = len(writer.damaged(disk, with_old=True))
        small = not ro and ended.code == 0  # there was enough space
        return 1, lost, report_unclean(arguments[0], 1, ended.is_clean and (ended.code == 2 or small), ended.text)
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


def memory(folder: Path, n_faults: int, seed: int) -> list[Row]:
    """Give every writer too little memory."""
    table = []
    for name, writer in WRITERS.items():
        total, finished, aborted, lost, unclean = max(2, round(n_faults * writer.share / len(WRITERS))), 0, 0, 0, 0
        for number in range(total):
            more = int(np.random.default_rng([seed, number]).integers(0, 40))
            ended = run(writer.prepare(folder, with_old=True), folder, limit_memory(more))
            lost += len(writer.damaged(folder, with_old=True))
            finished += ended.code == 0
            by_library = ended.code in {-signal.SIGABRT, -signal.SIGSEGV, -signal.SIGALRM}
            aborted += by_library
            unclean += report_unclean(name, number + 1, ended.is_clean or by_library, ended.text)
        table.append([name, total, finished, aborted, lost, unclean])
        print(table[-1], flush=True)
    return table


def races(folder: Path, n_pairs: int, seed: int) -> list[Row]:
    """Let two processes create the same output without --force: one of them must be refused."""
    table = []
    for name in ("predict .csv", "predict .parquet", "embed .npy", "fit"):
        writer, single, damaged = WRITERS[name], 0, 0
        for _ in range(max(1, n_pairs // 4)):
            arguments = writer.prepare(folder, with_old=False)
            ended = [wait(child, folder) for child in [start(arguments, folder) for _ in range(2)]]
            single += sorted(run.code for run in ended) == [0, 2]
            damaged += len(writer.damaged(folder, with_old=False))
        table.append([name, max(1, n_pairs // 4), single, damaged])
        print(table[-1], flush=True)
    for path in Path("/tmp").glob("fit-*.safetensors"):  # models of the refused fits, saved elsewhere
        path.unlink()
    return table


MUST_BE_ZERO = {
    "files lost or partial",
    "files partial",
    "parts lost or partial",
    "other errors",
    "changed",
    "other results",
}
UNCLEAR = "ends without a clear message"
KILLS = ["command", "kills", "files lost or partial", UNCLEAR, "hidden files after the next run", "a whole run"]
DISKS = ["command", "limit of file sizes", "full disk", "read-only disk", "files lost or partial", UNCLEAR]
MEMORY = ["command", "runs", "finished", "ended or stopped by a library", "files lost or partial", UNCLEAR]
STREAMS = ["fault", "runs", "finished", "refused", "ended by the pipe", "files lost or partial", UNCLEAR]
PARTS: dict[str, tuple[Callable[[Path, int, int], list[Row]], list[str], float]] = {
    "kills": (kills, KILLS, 1.0),
    "interrupts": (interrupts, [word.replace("kills", "interrupts") for word in KILLS], 0.5),
    "python": (python_interrupts, PYTHON_COLUMNS, 0.5),
    "streams": (streams, STREAMS, 0.1),
    "processes": (processes, ["start of the processes", "processes", "other results"], 0.01),
    "disks": (disks, DISKS, 0.1),
    "memory": (memory, MEMORY, 0.1),
    "races": (races, ["command", "pairs without --force", "exactly one created the file", "files partial"], 0.1),
    "dask": (fault_dask.faults, fault_dask.COLUMNS, 0.01),
    "soak": (soak, ["threads", "calls", "rows labelled", "seconds", "memory at the start", "memory at the end"], 50.0),
}


def main(arguments: list[str] | None = None) -> int:
    """Run the parts, print their tables, and write them into the page if asked to."""
    parser = argparse.ArgumentParser(prog="faults", description="Kill, starve and race every writer.")
    parser.add_argument("parts", nargs="*", default=list(PARTS), help=f"of {', '.join(PARTS)}")
    parser.add_argument("--kills", type=int, default=1000, help="number of kills; other faults in proportion")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help="write the tables into docs/reliability.md")
    options = parser.parse_args(arguments)
    print(f"seed {options.seed}")
    imports()
    with TemporaryDirectory() as parent:
        folder = Path(parent, "work")
        folder.mkdir()
        make_inputs(folder)
        ended = run(model_arguments(), folder)
        if ended.code:
            raise RuntimeError(ended.text)
        broken = 0
        for name in options.parts:
            part, columns, share = PARTS[name]
            rows = part(folder, max(1, round(share * options.kills)), options.seed)
            table = markdown(columns, rows)
            print(f"\n{name}\n{table}\n", flush=True)
            broken += sum(row[columns.index(column)] != 0 for row in rows for column in MUST_BE_ZERO & set(columns))
            if options.write:
                write_section(name, table)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
