"""Dask collections are recognized by their type: Dask is not imported unless one of its objects is given."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])


def is_collection(X: Any) -> bool:
    """Return whether X is a Dask array, DataFrame or another collection of Dask."""
    return any(base.__module__.partition(".")[0] == "dask" for base in type(X).__mro__)


def lazy_on_collections(method: Method) -> Method:
    """Call the function of the same name in `knet.dask`, with all arguments, if X is a Dask collection."""

    @wraps(method)
    def chosen(self: Any, X: Any, *args: Any, **options: Any) -> Any:
        if not is_collection(X):
            return method(self, X, *args, **options)
        from knet import dask

        return getattr(dask, method.__name__)(self, X, *args, **options)

    return chosen  # type: ignore[return-value]


def check_in_memory(X: Any) -> None:
    """Raise if X is a Dask collection or a polars LazyFrame, for methods that need all rows in memory."""
    if type(X).__name__ == "LazyFrame":
        raise TypeError("X is a polars LazyFrame, which holds no rows yet. Call X.collect() first.")
    if is_collection(X):
        raise TypeError(
            "This method needs rows in memory, and X is a Dask collection. Pass X.compute(), or some of its rows: "
            "knet.dask.sample(X, 10_000)."
        )
