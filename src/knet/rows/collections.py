"""Methods that pass Dask collections on to `knet.dask`, which computes nothing until the result is asked for."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from knet.arrays import RowsLike
from knet.rows.kinds import is_collection

Method = TypeVar("Method", bound=Callable[..., Any])


def lazy_on_collections(method: Method) -> Method:
    """Call the function of the same name in `knet.dask`, with all arguments, if X is a Dask collection."""

    @wraps(method)
    def chosen(self: Any, X: RowsLike, *args: Any, **options: Any) -> Any:
        if not is_collection(X):
            return method(self, X, *args, **options)
        from knet import dask

        return getattr(dask, method.__name__)(self, X, *args, **options)

    return chosen  # type: ignore[return-value]
