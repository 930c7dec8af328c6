"""KNet on Dask at size: `python -m benchmarks.dask_scale label|memory|plan`.

`label FOLDER` writes 50,000,000 x 10 generated rows to Parquet, labels them out of core on worker processes, and prints
rows per second and the peak memory of each worker, and the same for one process that labels file by file.
`memory` prints the memory of scheduler and workers for 10 to 1000 partitions.
`plan` estimates the cost of 10^8 to 10^10 rows from the figures that the other two print.
"""

import argparse
import logging
import os
import resource
import time
from pathlib import Path

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import psutil
import torch
from distributed import Client, LocalCluster, SubprocessCluster

import knet.dask
from benchmarks.memory import peak_mb
from knet import KNet, load

N_COLUMNS, N_CLUSTERS = 10, 5
FILE_ROWS = 1_000_000
BLOCK_ROWS = 5_000  # rows of a partition in the command `memory`


def make_rows(number: int, n_rows: int) -> pd.DataFrame:
    """Return rows around five centres, the same for the same number."""
    centers = np.random.default_rng(0).uniform(-4, 4, (N_CLUSTERS, N_COLUMNS))
    rng = np.random.default_rng([1, number])
    X = centers[rng.integers(N_CLUSTERS, size=n_rows)] + rng.normal(size=(n_rows, N_COLUMNS))
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(N_COLUMNS)])


def cpu_seconds() -> float:
    """Return the processor time of this process: unlike the clock, it does not depend on other processes."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def rss_mb() -> float:
    """Return the present memory of this process, in MB."""
    return psutil.Process().memory_info().rss / 2**20


def size_of(folder: Path) -> int:
    """Return the bytes of the Parquet files in a folder."""
    return sum(path.stat().st_size for path in folder.glob("*.parquet"))


def train(path: Path) -> KNet:
    """Return a model of the generated rows, from a sample of them, and save it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    model = KNet(N_CLUSTERS, random_state=0).fit(make_rows(-1 % 2**32, 20_000))
    model.save(path, overwrite=True)
    return model


def label(options: argparse.Namespace) -> None:
    """Generate, label and measure."""
    data, out = options.folder / "rows", options.folder / "labels"
    model = train(options.folder / "model.safetensors")
    n_files = options.rows // FILE_ROWS
    settings = {
        "n_workers": options.workers,
        "threads_per_worker": 1,
        "dashboard_address": ":0",
        "silence_logs": logging.ERROR,
    }
    if len(list(data.glob("*.parquet"))) != n_files:
        with LocalCluster(**settings) as cluster, Client(cluster):
            dd.from_map(make_rows, range(n_files), n_rows=FILE_ROWS).to_parquet(data, write_index=False)
    print(f"rows            {n_files * FILE_ROWS:,} x {N_COLUMNS} in {n_files} files, {size_of(data) / 1e9:.2f} GB")
    with LocalCluster(**settings) as cluster, Client(cluster) as client:
        before = [f"{mb:.0f}" for mb in client.run(peak_mb).values()]
        started, used = time.perf_counter(), sum(client.run(cpu_seconds).values())
        knet.dask.predict(model, dd.read_parquet(data)).to_frame().to_parquet(out, write_index=False)
        seconds, used = time.perf_counter() - started, sum(client.run(cpu_seconds).values()) - used
        peaks = [f"{mb:.0f}" for mb in client.run(peak_mb).values()]
    rate, cpu_rate = n_files * FILE_ROWS / seconds, n_files * FILE_ROWS / used
    print(f"workers         {options.workers} processes of one thread; {os.cpu_count()} cores in the machine")
    print(f"labelled        {seconds:.0f} s, {rate:,.0f} rows per second, {size_of(out) / 1e6:.0f} MB written")
    print(f"per CPU second  {cpu_rate:,.0f} rows")
    print(f"peak per worker {', '.join(peaks)} MB ({', '.join(before)} MB before the first block)")
    single(options, data, out)


def single(options: argparse.Namespace, data: Path, out: Path) -> None:
    """Label some of the files in this process, on one thread, and compare labels and speed."""
    torch.set_num_threads(1)
    model = load(options.folder / "model.safetensors")
    sources, targets = (sorted(folder.glob("*.parquet"), key=_number) for folder in (data, out))
    seconds, used, n_equal = 0.0, 0.0, 0
    for source, target in list(zip(sources, targets, strict=True))[: options.single_files]:
        started, before = time.perf_counter(), cpu_seconds()
        labels = pd.DataFrame({"label": model.predict(pd.read_parquet(source))})
        labels.to_parquet(options.folder / "single.parquet", index=False)
        seconds, used = seconds + time.perf_counter() - started, used + cpu_seconds() - before
        n_equal += int((labels.label == pd.read_parquet(target).label).sum())
    n_rows = options.single_files * FILE_ROWS
    print(f"one process     {n_rows / seconds:,.0f} rows per second over {options.single_files} files")
    print(f"per CPU second  {n_rows / used:,.0f} rows")
    print(f"labels equal    {n_equal:,} of {n_rows:,} rows compared")


def _number(path: Path) -> int:
    return int(path.name.split(".")[1])


def memory(options: argparse.Namespace) -> None:
    """Label growing numbers of partitions of the same size, and print the memory of scheduler and workers."""
    model = train(options.folder / "model.safetensors")
    print(
        f"{'partitions':>10} {'rows':>12} {'scheduler MB':>13} {'per partition kB':>17} {'worker peak MB':>15} {'s':>6}"
    )
    for n_partitions in options.partitions:
        with (
            SubprocessCluster(
                n_workers=2, worker_kwargs={"nthreads": 1}, scheduler_kwargs={"dashboard_address": ":0"}
            ) as cluster,
            Client(cluster) as client,
        ):
            X = da.random.default_rng(0).normal(
                size=(n_partitions * BLOCK_ROWS, N_COLUMNS), chunks=(BLOCK_ROWS, N_COLUMNS)
            )
            knet.dask.summarize(model, X[:BLOCK_ROWS])
            before = client.run_on_scheduler(rss_mb)
            started = time.perf_counter()
            sizes = knet.dask.summarize(model, X).sizes
            seconds = time.perf_counter() - started
            after, peaks = client.run_on_scheduler(peak_mb), client.run(peak_mb).values()
        assert sizes.sum() == len(X)
        kb = (after - before) * 1024 / n_partitions
        print(f"{n_partitions:10,} {len(X):12,} {after:13.0f} {kb:17.1f} {max(peaks):15.0f} {seconds:6.1f}", flush=True)


def plan(options: argparse.Namespace) -> None:
    """Print an estimate of the cost of large tables, from measured figures."""
    print("Estimate from measured rates; contention for disks, network or scheduler is not included.")
    print(f"{'rows':>15} {'read':>9} {'written':>9} {'worker hours':>13} {'partitions':>11} {'scheduler':>10}", end="")
    print("".join(f"{f'{n} workers':>14}" for n in options.workers))
    for power in (8, 9, 10):
        rows = 10**power
        hours = rows / options.rows_per_second / 3600
        parts = rows / options.partition_rows
        scheduler = options.scheduler_mb + parts * options.scheduler_kb / 1024
        print(
            f"{rows:15,} {rows * options.bytes_in / 1e9:6.0f} GB {rows * options.bytes_out / 1e9:6.1f} GB "
            f"{hours:13.2f} {parts:11,.0f} {scheduler:7.0f} MB"
            + "".join(f"{_duration(hours / n):>14}" for n in options.workers)
        )


def _duration(hours: float) -> str:
    return f"{hours * 3600:.0f} s" if hours < 1 / 30 else f"{hours * 60:.0f} min" if hours < 2 else f"{hours:.1f} h"


def main() -> None:
    """Run one of the three commands."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    label_parser = commands.add_parser("label")
    label_parser.add_argument("folder", type=Path)
    label_parser.add_argument("--rows", type=int, default=50_000_000)
    label_parser.add_argument("--workers", type=int, default=2)
    label_parser.add_argument("--single-files", type=int, default=5)
    label_parser.set_defaults(run=label)
    memory_parser = commands.add_parser("memory")
    memory_parser.add_argument("folder", type=Path, help="for the model file")
    memory_parser.add_argument("--partitions", type=int, nargs="+", default=[10, 100, 1000])
    memory_parser.set_defaults(run=memory)
    plan_parser = commands.add_parser("plan")
    plan_parser.add_argument("--rows-per-second", type=float, required=True, help="of one worker")
    plan_parser.add_argument("--scheduler-mb", type=float, required=True, help="memory of an idle scheduler")
    plan_parser.add_argument("--scheduler-kb", type=float, required=True, help="memory of a scheduler per partition")
    plan_parser.add_argument("--partition-rows", type=int, default=1_000_000)
    plan_parser.add_argument("--bytes-in", type=float, default=82.8, help="per row, as stored")
    plan_parser.add_argument("--bytes-out", type=float, default=0.38, help="per row, as stored")
    plan_parser.add_argument("--workers", type=int, nargs="+", default=[2, 16, 100])
    plan_parser.set_defaults(run=plan)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
