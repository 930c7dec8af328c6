"""Dask collections, known by their type alone: nothing here imports Dask unless it was handed one of its objects."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

Method = TypeVar("Method", bound=Callable[..., Any])


def is_collection(X: Any) -> bool:
    """Say whether X is a Dask array, DataFrame or another collection of Dask."""
    return any(base.__module__.partition(".")[0] == "dask" for base in type(X).__mro__)


def lazy_on_collections(method: Method) -> Method:
    """Hand a Dask collection over to the function of the same name in `knet.dask`."""

    @wraps(method)
    def chosen(self: Any, X: Any, *args: Any, **options: Any) -> Any:
        if not is_collection(X):
            return method(self, X, *args, **options)
        from knet import dask

        return getattr(dask, method.__name__)(self, X)

    return chosen  # type: ignore[return-value]


def check_in_memory(X: Any) -> None:
    """Raise where a method that needs all rows at once is handed a Dask collection."""
    if is_collection(X):
        raise TypeError(
            "This method needs rows in memory, and X is a Dask collection. Pass X.compute(), or some of its rows: "
            "knet.dask.sample(X, 10_000)."
        )
