"""A soak: several threads of one process label rows for some time, and the memory must stay flat."""

import gc
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd

N_THREADS, N_ROWS, MAX_SECONDS = 4, 2_000, 120.0


def current_mb() -> float:
    """Return the memory that this process uses now, in MB (Linux)."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmRSS:")[2].split()[0]) / 1024


def soak(folder: Path, n_calls: int, seed: int, seconds: float = MAX_SECONDS) -> list[list[str | int]]:
    """Label rows on all threads until `n_calls` calls are made or the time is over; return one row for the table."""
    from knet import load

    model = load(folder / "m.safetensors")
    X = pd.DataFrame(np.random.default_rng(seed).normal(size=(N_ROWS, 3)), columns=model.feature_names_in_)
    expected, done, errors, lock = model.predict(X), [0], list[str](), threading.Lock()
    deadline = time.monotonic() + seconds

    def work() -> None:
        while time.monotonic() < deadline:
            with lock:
                if done[0] >= n_calls:
                    return
                done[0] += 1
            labels, scores = model.predict(X), model.score_samples(X)
            if not np.array_equal(labels, expected) or not np.isfinite(scores).all():
                errors.append("another result")
                return

    def run(calls: int) -> None:
        nonlocal n_calls
        n_calls = calls
        threads = [threading.Thread(target=work) for _ in range(N_THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    wanted, started = n_calls, time.monotonic()
    run(max(8, wanted // 10))  # caches fill up
    gc.collect()
    before = current_mb()
    run(wanted)
    gc.collect()
    if errors:
        raise AssertionError(errors[0])
    spent = f"{time.monotonic() - started:.0f}"
    return [[N_THREADS, done[0], f"{done[0] * N_ROWS:,}", spent, f"{before:.0f} MB", f"{current_mb():.0f} MB"]]
