"""Missing cells of scaled rows: each gets the value that the other cells of its row suggest [GAPS].

One Gaussian describes the scaled rows; its mean and covariance are learned from the cells that are present, by
expectation maximisation. A missing cell gets its expected value, given the present cells of its row; a row without any
gets the mean. The original rows keep their gaps: what is filled in here is for the encoder alone.
"""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from knet.arrays import Floats, Rows
from knet.prepare.scaling import Scaling
from knet.rows.dense import dense_rows

SAMPLE_ROWS = 2000  # the Gaussian is learned from at most this many rows
MAX_COLUMNS = 500  # in wider tables, columns are taken as independent
MAX_FACTORS = 64  # directions in which columns vary together
ITERATIONS = 10
NOISE = 0.01  # share of the variance of a column that no other column explains: equations stay well conditioned
STEPS = 10  # of the conjugate gradients, at most: more do not find clusters better
SOLVED = 1e-12  # squared residual at which a row is solved, relative to that at the start


@dataclass(frozen=True, eq=False)
class Gaps:
    """How missing cells of scaled rows are filled.

    Attributes
    ----------
    gap_mean : ndarray of shape (d,)
        The mean of the rows.
    gap_factors, gap_noise : ndarrays of shape (d, k) and (d,)
        Their covariance is F F' + diag(noise).
    """

    gap_mean: Floats
    gap_factors: Floats
    gap_noise: Floats

    @property
    def shares(self) -> Floats:
        """The share of each column in the variance of the rows."""
        variances = np.square(self.gap_factors).sum(1) + self.gap_noise
        shares: Floats = variances / variances.sum() if variances.any() else np.full(len(variances), 1 / len(variances))
        return shares

    def arrays(self) -> dict[str, Floats]:
        """Return the arrays by name, as a model file stores them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def fill(self, Z: Floats) -> Floats:
        """Return scaled rows with the expected value of every cell that is NaN; each row by itself."""
        rows = np.flatnonzero(np.isnan(Z).any(1))
        if not len(rows):
            return Z
        out = Z.copy()
        out[rows] = self._expected(Z[rows])
        return out

    def _expected(self, Z: Floats) -> Floats:
        """Return the expected rows, given their present cells.

        The equations of all rows are solved together by conjugate gradients: their matrices are blocks of the same
        covariance, so that a step is one product for all rows.
        """
        mean, factors, noise = (array.astype(Z.dtype) for array in self.arrays().values())
        present = ~np.isnan(Z)
        residual = np.where(present, Z - mean, 0)
        solution, direction, size = np.zeros_like(residual), residual, np.square(residual).sum(1)
        solved = SOLVED * size
        for _ in range(min(STEPS, Z.shape[1])):
            image = (direction @ factors @ factors.T + direction * noise) * present
            step = _ratio(size, (direction * image).sum(1), size > solved)
            solution = solution + step * direction
            residual = residual - step * image
            size, before = np.square(residual).sum(1), size
            direction = residual + _ratio(size, before, size > solved) * direction
        return np.where(present, Z, mean + solution @ factors @ factors.T)


def _ratio(numerator: Floats, denominator: Floats, is_open: NDArray[np.bool_]) -> Floats:
    """Return the quotients as a column, 0 for rows that are solved."""
    quotient: Floats = np.where(is_open, numerator / np.where(is_open, denominator, 1), 0)
    return quotient[:, None]


def learn_gaps(X: Rows, scaling: Scaling) -> Gaps:
    """Return how the gaps of rows are filled after their scaling.

    The variances stay those of the present cells: filled cells vary less than real ones would.
    """
    rows = np.linspace(0, len(X) - 1, min(len(X), SAMPLE_ROWS)).astype(np.intp)
    Z = scaling(dense_rows(X[rows])).astype(np.float64)
    Z[:, np.isnan(Z).all(0)] = 0  # a column without values in these rows
    variances = np.nanvar(Z, 0)
    found = Gaps(np.nanmean(Z, 0), np.zeros((Z.shape[1], 1)), (1 + NOISE) * variances)
    n_iterations = ITERATIONS if np.isnan(Z).any() else 1
    for _ in range(n_iterations if Z.shape[1] <= MAX_COLUMNS else 0):
        found = _described(found.fill(Z), variances)
    return found


def _described(Z: Floats, variances: Floats) -> Gaps:
    """Return the Gaussian of filled rows, with at least the given variances."""
    mean = Z.mean(0)
    covariance = (Z - mean).T @ (Z - mean) / len(Z)
    values, vectors = np.linalg.eigh(covariance)
    factors = (vectors * np.sqrt(np.maximum(values, 0)))[:, -MAX_FACTORS:]
    explained = np.square(factors).sum(1)
    return Gaps(mean, factors, np.maximum(variances - explained, 0) + NOISE * np.maximum(variances, explained))
