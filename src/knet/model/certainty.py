"""What a model knows about the reliability of its labels: how sure it is of a row, and how familiar the row is.

Both need the scaled row alone. They are learned in `knet.model.learn_certainty`; this module needs NumPy only.
"""

from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np
from numpy.typing import DTypeLike, NDArray

from knet.arrays import Floats, log_sum_exp, squared_distances

LOG_RANGE = (-30.0, 30.0)  # of log beta: beyond it, memberships are equal or 0 and 1
N_QUANTILES = 201  # of the familiarity of the training rows
WIDTHS = (1e-100, 1e100)  # of the kernel: beyond them, squares would leave the range of doubles
MIN_CONFIDENCE = 0.5  # a label below it is more likely wrong than right
DOUBTFUL = 0.7  # a label below it is doubtful, in reports and summaries


@dataclass(frozen=True, eq=False)
class Certainty:
    """The sharpness of the memberships [PROBA] and the familiarity [FAMILIAR], as functions of scaled rows.

    log beta(x) is a constant plus the sum over u hinges of slope * max(x . direction - offset, 0).
    """

    hinge_directions: Floats  # (d, u)
    hinge_offsets: Floats  # (u,)
    hinge_slopes: Floats  # (u,)
    hinge_range: Floats  # that constant, and the smallest and largest log beta of training rows, which limit it
    places: Floats  # (p, d): a summary of the scaled training rows by the means of small groups
    place_weights: Floats  # (p,): how many rows each stands for
    place_width: Floats  # (1,): width of the Gaussian kernel in the scaled data
    score_quantiles: Floats  # familiarity of the training rows, ascending, in equal steps of their share

    def arrays(self) -> dict[str, Floats]:
        """Return the arrays by name, as a model file stores them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def astype(self, dtype: DTypeLike) -> Self:
        """Return the same functions in another precision."""
        with np.errstate(over="ignore"):  # a width of a strange file may be infinite in single precision
            return replace(self, **{name: array.astype(dtype) for name, array in self.arrays().items()})

    def sharpness(self, Z: Floats) -> NDArray[np.float64]:
        """Return beta of scaled rows."""
        hinges = Z @ self.hinge_directions
        hinges -= self.hinge_offsets
        np.maximum(hinges, 0, out=hinges)
        level, low, high = self.hinge_range.astype(np.float64)
        slopes = np.nan_to_num((hinges @ self.hinge_slopes).astype(np.float64))  # a strange file may overflow
        logs: NDArray[np.float64] = slopes + level
        beta: NDArray[np.float64] = np.exp(np.clip(logs, low, high).clip(*LOG_RANGE))
        return beta

    def familiarity(self, Z: Floats) -> Floats:
        """Return log of the mean kernel value between scaled rows and the training rows; finite for any row."""
        D2 = squared_distances(Z, self.places).astype(np.float64)
        shares = self.place_weights.astype(np.float64)
        width = min(max(float(self.place_width[0]), WIDTHS[0]), WIDTHS[1])
        return log_sum_exp(D2 * (-0.5 / width**2) + np.log(shares / shares.sum()))

    def threshold(self, share: float) -> float:
        """Return the familiarity that this share of the training rows does not reach."""
        levels = np.linspace(0, 1, len(self.score_quantiles))
        return float(np.interp(share, levels, self.score_quantiles))
