"""Threads over independent pieces of work, each with torch on one thread, and limits that leave the host as it was.

Torch splits a single operation over threads and waits for all of them at its end. For small tensors, or on a busy
machine, the waiting costs more than the work; independent pieces of work do not wait for each other.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from itertools import pairwise
from typing import TypeVar

import torch
from threadpoolctl import ThreadpoolController

Piece = TypeVar("Piece")
Result = TypeVar("Result")


class _TorchThreads:
    """Counts the limits in force, so that several threads may use them at the same time.

    The number of the host program is stored when the first limit begins and restored when the last one ends.
    """

    def __init__(self) -> None:
        self.lock, self.limits, self.host = threading.Lock(), list[int](), 1
        self.n_single = 0  # how many callers need torch on one thread
        self.local = threading.local()

    def allowed(self) -> int:
        """Return how many threads this caller may use: one inside a piece of work."""
        if getattr(self.local, "inside", False):
            return 1
        with self.lock:
            return min(self.limits, default=self.host) if self._in_force else torch.get_num_threads()

    @contextmanager
    def limit(self, n_threads: int) -> Iterator[None]:
        """Run torch on at most `n_threads` threads; of several limits the smallest is in force."""
        self._begin(n_threads)
        try:
            yield
        finally:
            self._end(n_threads)

    @contextmanager
    def single(self) -> Iterator[None]:
        """Run each operation of torch on one thread; `allowed` does not change."""
        self._begin(None)
        try:
            yield
        finally:
            self._end(None)

    @property
    def _in_force(self) -> bool:
        return bool(self.limits) or self.n_single > 0

    def _begin(self, n_threads: int | None) -> None:
        with self.lock:
            if not self._in_force:
                self.host = torch.get_num_threads()
            if n_threads is None:
                self.n_single += 1
            else:
                self.limits.append(n_threads)
            self._apply()

    def _end(self, n_threads: int | None) -> None:
        with self.lock:
            if n_threads is None:
                self.n_single -= 1
            else:
                self.limits.remove(n_threads)
            self._apply()

    def _apply(self) -> None:
        torch.set_num_threads(1 if self.n_single else min(self.limits, default=self.host))


_THREADS = _TorchThreads()
limit_threads = _THREADS.limit
one_thread = _THREADS.single
allowed_threads = _THREADS.allowed


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run the products of NumPy and SciPy on one thread, so that their sums repeat to the bit."""
    with _thread_pools().limit(limits=1):
        yield


@cache
def _thread_pools() -> ThreadpoolController:
    """Return the thread pools of this process; the search takes milliseconds, so it is done once."""
    return ThreadpoolController()


def in_threads(work: Callable[[Piece], Result], pieces: Sequence[Piece]) -> list[Result]:
    """Return `work` of every piece, in order, on as many threads as allowed; within a piece there is one."""

    def inside(piece: Piece) -> Result:
        before, _THREADS.local.inside = getattr(_THREADS.local, "inside", False), True
        try:
            return work(piece)
        finally:
            _THREADS.local.inside = before

    n_threads = min(len(pieces), allowed_threads())
    with one_thread():
        if n_threads <= 1:
            return [inside(piece) for piece in pieces]
        with ThreadPoolExecutor(n_threads) as pool:
            return list(pool.map(inside, pieces))


def even_groups(n_items: int) -> list[slice]:
    """Cut a range into one group per allowed thread, equal in size to within one item and none of them empty."""
    n_groups = max(1, min(n_items, allowed_threads()))
    bounds = [n_items * i // n_groups for i in range(n_groups + 1)]
    return [slice(start, stop) for start, stop in pairwise(bounds)]
