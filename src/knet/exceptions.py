"""Errors and warnings of knet."""

import sys
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sklearn.exceptions import ConvergenceWarning

    class KNetConvergenceWarning(ConvergenceWarning):
        """Training stopped before K_U converged."""


class KNetError(Exception):
    """Base class of the errors that only knet raises."""


class NumericalError(KNetError, ArithmeticError):
    """The objective became infinite or NaN during training."""


class ModelFileError(KNetError, ValueError):
    """A model file is damaged, was not written by knet, or has a newer format."""


class ZeroRowError(KNetError, ValueError):
    """A row of zeros, which has no direction; `row` is its position."""

    def __init__(self, row: int) -> None:
        self.row = row
        super().__init__(
            f"Row {row} has the length 0, so that it has no direction. With metric='cosine', drop rows of zeros first, "
            "or use metric='euclidean'."
        )

    def __reduce__(self) -> tuple[type["ZeroRowError"], tuple[int]]:
        """Return how to make the same error again, in another process."""
        return type(self), (self.row,)


class KNetDataWarning(UserWarning):
    """The data or the kernel width make clustering difficult; the message names the parameter to change."""


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the line of the user's own code, not at a line of knet or scikit-learn."""
    frame, level = sys._getframe(1), 3
    while frame.f_back is not None and frame.f_back.f_globals.get("__name__", "").startswith(("knet.", "sklearn.")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


def __getattr__(name: str) -> object:
    """Make KNetConvergenceWarning at its first use: its base is scikit-learn's, which is slow to import."""
    if name != "KNetConvergenceWarning":
        raise AttributeError(f"module 'knet.exceptions' has no attribute {name!r}")
    from sklearn.exceptions import ConvergenceWarning

    text = "Training stopped before K_U converged."
    kind = type(name, (ConvergenceWarning,), {"__doc__": text, "__module__": __name__})
    return globals().setdefault(name, kind)
