"""Errors and warnings of knet."""

import sys
import warnings

from sklearn.exceptions import ConvergenceWarning


class KNetError(Exception):
    """Base of the errors that only knet raises."""


class NumericalError(KNetError, ArithmeticError):
    """The objective left the finite numbers during training."""


class ModelFileError(KNetError, ValueError):
    """A model file is damaged, foreign, or of a newer format."""


class KNetConvergenceWarning(ConvergenceWarning):
    """Training stopped before K_U stood still."""


class KNetDataWarning(UserWarning):
    """The data or the kernel width leaves little to cluster; the message names the knob to turn."""


def warn_user(message: str, category: type[Warning]) -> None:
    """Warn at the line of the user's own code, however many layers of knet and scikit-learn lie between."""
    frame, level = sys._getframe(1), 3
    while frame.f_back is not None and frame.f_back.f_globals.get("__name__", "").startswith(("knet.", "sklearn.")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
