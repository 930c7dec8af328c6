"""Errors and warnings of knet."""

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
