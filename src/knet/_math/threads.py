"""Threads over independent pieces of work, each with torch on one thread.

Torch shares out a single operation and waits for all threads at its end. For small tensors, or on a machine with other
work to do, the waiting costs more than the work; pieces that never wait for each other do not have the problem.
"""

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


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch on one thread for a while."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(n_threads)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Run the products of NumPy and SciPy on one thread for a while, so that their sums repeat to the bit."""
    with _thread_pools().limit(limits=1):
        yield


@cache
def _thread_pools() -> ThreadpoolController:
    """Return the thread pools of this process; to look for them takes milliseconds, so it is done once."""
    return ThreadpoolController()


def in_threads(work: Callable[[Piece], Result], pieces: Sequence[Piece]) -> list[Result]:
    """Return `work` of every piece, in order, on as many threads as torch may use; within a piece there is one."""
    n_threads = min(len(pieces), torch.get_num_threads())
    with one_thread():
        if n_threads <= 1:
            return [work(piece) for piece in pieces]
        with ThreadPoolExecutor(n_threads) as pool:
            return list(pool.map(work, pieces))


def even_groups(n_items: int) -> list[slice]:
    """Cut a range into as many groups as torch may use threads, alike in size and none of them empty."""
    n_groups = max(1, min(n_items, torch.get_num_threads()))
    bounds = [n_items * i // n_groups for i in range(n_groups + 1)]
    return [slice(start, stop) for start, stop in pairwise(bounds)]
