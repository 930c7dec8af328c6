"""Faults of programs that use knet: Ctrl-C at random moments of a call, and calls in processes that fork or spawn."""

import multiprocessing
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

COLUMNS = ["call", "interrupts", "other errors", "changed", "a whole call"]
N_ROWS, N_NEW = 200, 40_000
HANG_SECONDS, MAX_SECONDS = 600, 180  # of all interrupts of a call: it hangs; it has been interrupted often enough


def _rows(n_rows: int) -> Any:
    rng = np.random.default_rng(0)
    return rng.normal(size=(n_rows, 3)) + 6 * (np.arange(n_rows) % 2)[:, None]


def python_interrupts(folder: Path, n_interrupts: int, seed: int) -> list[list[str | int]]:
    """Interrupt calls; each must end with KeyboardInterrupt or a result, and leave the model and the threads as before.

    The interrupts of a call hit one process, so that what one of them breaks is seen by the next.
    """
    context, table = multiprocessing.get_context("fork"), []
    for name in CALLS:
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(
            target=_interrupt_often, args=(name, max(1, n_interrupts // len(CALLS)), seed, sender)
        )
        process.start()
        sender.close()
        try:
            row = receiver.recv() if receiver.poll(HANG_SECONDS) else [name, 0, 1, 0, "it hung"]
        except EOFError:
            row = [name, 0, 1, 0, "the process died"]
        process.kill()
        process.join()
        table.append(row)
        print(row, flush=True)
    return table


def _call_fit(model: Any, out: Path) -> None:
    model.fit(_rows(N_ROWS))


def _call_scan(model: Any, out: Path) -> None:
    from knet import scan

    scan(_rows(N_ROWS), 3, random_state=0)


CALLS: dict[str, Callable[[Any, Path], object]] = {
    "fit": _call_fit,
    "scan": _call_scan,
    "predict": lambda model, out: model.predict(_rows(N_NEW)),
    "predict_proba": lambda model, out: model.predict_proba(_rows(N_NEW)),
    "score_samples": lambda model, out: model.score_samples(_rows(N_NEW)),
    "report": lambda model, out: model.report(_rows(N_ROWS), out, n_refits=0, overwrite=True),
    "save": lambda model, out: model.save(out, overwrite=True),
}


def _interrupt_often(name: str, n_interrupts: int, seed: int, pipe: Any) -> None:
    """Interrupt a call many times, and send the row of the table."""
    import torch

    from knet import Advanced, KNet

    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    torch.set_num_threads(2)
    model = KNet(2, max_iter=1, random_state=0, advanced=Advanced(steps_per_iter=20)).fit(_rows(N_ROWS))
    rng, ends = np.random.default_rng(seed), Counter[str]()
    with TemporaryDirectory() as folder:
        out = Path(folder, "out")
        CALLS[name](model, out)  # imports what it needs
        started = time.perf_counter()
        CALLS[name](model, out)
        seconds = time.perf_counter() - started
        deadline = time.monotonic() + MAX_SECONDS
        while ends["interrupted"] < n_interrupts and ends.total() < 3 * n_interrupts and time.monotonic() < deadline:
            ends[_interrupt(CALLS[name], model, out, max(1e-5, float(rng.random()) * seconds))] += 1
    pipe.send([name, ends["interrupted"], ends["error"], ends["changed"], f"{seconds:.2f} s"])


def _interrupt(call: Callable[[Any, Path], object], model: Any, out: Path, seconds: float) -> str:
    """Interrupt a call after some time; return how it ended."""
    from benchmarks.fuzz_values import host_state

    def state() -> tuple[object, ...]:
        content = out.exists() and out.read_bytes()
        hidden = list(out.parent.glob(".*.unfinished"))
        return {name: id(value) for name, value in vars(model).items()}, host_state(), content, hidden

    before, labels = state(), model.predict(_rows(50))
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds)
        call(model, out)
    except KeyboardInterrupt:
        return "interrupted" if state() == before and np.array_equal(model.predict(_rows(50)), labels) else "changed"
    except BaseException:
        traceback.print_exc()
        return "error"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return "finished"


def processes(folder: Path, n_processes: int, seed: int) -> list[list[str | int]]:
    """Fit and label in processes that were forked, spawned, or started by joblib; the results are those of this one."""
    from joblib import Parallel, delayed

    expected, table = fit_and_label(seed), list[list[str | int]]()
    total = max(2, n_processes)
    for name in ("fork", "spawn"):
        with multiprocessing.get_context(name).Pool(2) as pool:
            found = [pool.apply_async(fit_and_label, (seed,)) for _ in range(total)]
            table.append([name, total, sum(result.get(HANG_SECONDS) != expected for result in found)])
    found = Parallel(n_jobs=2, backend="loky", timeout=HANG_SECONDS)(delayed(fit_and_label)(seed) for _ in range(total))
    table.append(["loky (joblib)", total, sum(result != expected for result in found)])
    for row in table:
        print(row, file=sys.stdout, flush=True)
    return table


def fit_and_label(seed: int) -> list[int]:
    """Return the labels of a small fit."""
    from knet import KNet

    warnings.simplefilter("ignore")
    model = KNet(2, max_iter=1, random_state=seed).fit(_rows(N_ROWS))
    labels: list[int] = model.predict(_rows(500)).tolist()
    return labels
