"""Threads over independent pieces of work, each on one thread, and limits that leave the host program as it was.

Torch and BLAS split a single operation over threads and wait for all of them at its end. For small arrays, or on a busy
machine, the waiting costs more than the work; independent pieces of work do not wait for each other. Neither torch nor
threadpoolctl has to be installed to label rows.
"""

import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, TypeVar

Piece = TypeVar("Piece")
Result = TypeVar("Result")

CAN_LIMIT_BLAS = find_spec("threadpoolctl") is not None  # scikit-learn installs it
LIBRARIES = ("numpy", "scipy.linalg", "sklearn", "torch")  # each may load thread pools of its own


def _loaded_torch() -> Any:
    """Return torch if this process has imported it, else None."""
    module = sys.modules.get("torch")
    return module if hasattr(module, "get_num_threads") else None


def _usual_threads() -> int:
    """Return how many threads torch may use; without torch, the number that it would choose."""
    if (torch := _loaded_torch()) is not None:
        n_threads: int = torch.get_num_threads()
        return n_threads
    chosen = os.environ.get("OMP_NUM_THREADS", "")
    if chosen.isdecimal() and int(chosen) > 0:
        return int(chosen)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Threads:
    """Knows the limits in force, so that several threads may use them at the same time.

    The number of the host program is stored when the first limit begins and restored when the last one ends.
    """

    def __init__(self) -> None:
        self.lock, self.host = threading.RLock(), 1
        self.knows_torch = False  # whether `host` is the number of torch, which may be imported within a limit
        self.limits: dict[object, int | None] = {}  # of each caller; None asks for one thread per operation
        self.local = threading.local()

    def allowed(self) -> int:
        """Return how many threads this caller may use: one inside a piece of work."""
        if getattr(self.local, "inside", False):
            return 1
        with self.lock:
            return self._smallest() if self.limits else _usual_threads()

    @contextmanager
    def limit(self, n_threads: int) -> Iterator[None]:
        """Run torch and pieces of work on at most `n_threads` threads; of several limits the smallest is in force.

        A limit never raises the number of the host program.
        """
        with self._in_force(n_threads):
            yield

    @contextmanager
    def single(self) -> Iterator[None]:
        """Run each operation of torch and BLAS on one thread; `allowed` does not change."""
        with self._in_force(None), _BLAS.single():
            yield

    @contextmanager
    def _in_force(self, n_threads: int | None) -> Iterator[None]:
        """Set a limit; an interruption at any moment ends it."""
        caller = object()
        try:
            with self.lock:
                if not self.limits:
                    self.host, self.knows_torch = _usual_threads(), _loaded_torch() is not None
                self.limits[caller] = n_threads
                self._apply()
            yield
        finally:
            with self.lock:
                if caller in self.limits:
                    del self.limits[caller]
                    self._apply()

    def _smallest(self) -> int:
        return min([self.host, *(limit for limit in self.limits.values() if limit is not None)])

    def _apply(self) -> None:
        if (torch := _loaded_torch()) is None:
            return
        if not self.knows_torch:
            self.host, self.knows_torch = torch.get_num_threads(), True
        torch.set_num_threads(1 if None in self.limits.values() else self._smallest())


class _BlasThreads:
    """Knows the callers that need BLAS on one thread: its number of threads belongs to the whole process."""

    def __init__(self) -> None:
        self.lock, self.callers = threading.RLock(), set[object]()
        self.limiter: Any = None

    @contextmanager
    def single(self) -> Iterator[None]:
        """Run each product of NumPy and SciPy on one thread; without threadpoolctl, nothing changes."""
        caller = object()
        try:
            with self.lock:
                self.callers.add(caller)
                if self.limiter is None and CAN_LIMIT_BLAS:
                    self.limiter = _thread_pools().limit(limits=1, user_api="blas")
            yield
        finally:
            with self.lock:
                self.callers.discard(caller)
                if not self.callers and self.limiter is not None:
                    self.limiter.restore_original_limits()
                    self.limiter = None


_THREADS, _BLAS = _Threads(), _BlasThreads()
limit_threads = _THREADS.limit
one_thread = _THREADS.single
allowed_threads = _THREADS.allowed


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run products and loops of NumPy, SciPy and scikit-learn on one thread, so that their sums repeat to the bit."""
    with _BLAS.single(), _thread_pools().limit(limits=1, user_api="openmp"):  # a limit of OpenMP is one of this thread
        yield


def _thread_pools() -> Any:
    """Return the thread pools of this process."""
    return _find_thread_pools(tuple(name for name in LIBRARIES if name in sys.modules))


@lru_cache
def _find_thread_pools(libraries: tuple[str, ...]) -> Any:
    """Return the thread pools of loaded libraries; the search takes milliseconds, so it is done once."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def in_threads(work: Callable[[Piece], Result], pieces: Sequence[Piece]) -> list[Result]:
    """Return `work` of every piece, in order, on as many threads as allowed; within a piece there is one.

    Without threadpoolctl the pieces run one after another: threads of BLAS inside threads would wait for each other.
    """

    def inside(piece: Piece) -> Result:
        before, _THREADS.local.inside = getattr(_THREADS.local, "inside", False), True
        try:
            return work(piece)
        finally:
            _THREADS.local.inside = before

    n_threads = min(len(pieces), allowed_threads()) if CAN_LIMIT_BLAS else 1
    with one_thread():
        if n_threads <= 1:
            return [inside(piece) for piece in pieces]
        with ThreadPoolExecutor(n_threads) as pool:
            return list(pool.map(inside, pieces))
