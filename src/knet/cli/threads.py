"""The option --threads."""

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def limit_threads(threads: int | None) -> Iterator[None]:
    """Limit torch and linear algebra to a number of threads; None changes nothing."""
    if threads is None:
        yield
        return
    try:
        from threadpoolctl import threadpool_limits
    except ImportError as error:
        raise ImportError("--threads needs threadpoolctl. Install it with: pip install threadpoolctl") from error

    from knet.threads import limit_threads as limit_torch

    with limit_torch(threads), threadpool_limits(threads):
        yield
