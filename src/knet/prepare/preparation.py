"""What a model does to rows before the encoder gets them: unit length, scaled columns, and fewer of many columns.

Rows are arrays of any floating-point type, half precision included, or sparse matrices in CSR form.
"""

from dataclasses import dataclass, fields
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from knet.arrays import Floats, Rows
from knet.prepare.gaps import Gaps
from knet.prepare.scaling import FAR, Scaling, compress
from knet.rows.dense import dense_rows, row_lengths
from knet.rows.kinds import is_sparse
from knet.rows.numbers import float_dtype

MAX_SHIFT = 100.0  # means in standard deviations up to which a product of unscaled rows loses no digits that matter


@dataclass(frozen=True, eq=False)
class Preparation:
    """Rows get length 1 if the metric is cosine; columns are scaled, gaps filled and, if there are many, projected.

    Attributes
    ----------
    scaling : Scaling
        What happens to each column.
    projection : ndarray of shape (d, p), optional
        Directions that the scaled rows are projected to; None keeps all columns.
    unit_length : bool
        Whether rows are divided by their length first.
    gaps : Gaps, optional
        How missing cells are filled; None if rows may have none, because they are sparse or directions.
    """

    scaling: Scaling
    projection: Floats | None = None
    unit_length: bool = False
    gaps: Gaps | None = None

    @property
    def shares_unit(self) -> bool:
        """Whether the prepared columns share a unit, so that one that varies more says more."""
        return self.projection is not None or self.scaling.kind == "common"

    def arrays(self) -> dict[str, Floats]:
        """Return the arrays by name, as a model file stores them."""
        projection = {} if self.projection is None else {"projection": self.projection}
        return self.scaling.arrays() | projection | ({} if self.gaps is None else self.gaps.arrays())

    def __call__(self, X: Rows) -> Floats:
        """Return what the encoder gets of the rows X, in single or double precision."""
        if self.projection is None:
            return self._scaled(X)
        if self._is_foldable:
            with np.errstate(over="ignore", invalid="ignore"):
                Z = self._project_unscaled(X)
                largest = np.abs(Z).max(initial=0.0)
            if largest < FAR:  # False for NaN: then cells are missing, or numbers were too large for the product
                return Z
        Z = self._scaled(X)
        return np.clip(Z @ self.projection.astype(Z.dtype), -FAR, FAR)

    def known(self, X: Rows) -> Floats | None:
        """Return the share of the variance of each row whose cells are present; None if rows can have no gaps."""
        if self.gaps is None or is_sparse(X):
            return None
        known: Floats = ~np.isnan(X) @ self.gaps.shares
        return known

    def _scaled(self, X: Rows) -> Floats:
        """Return the scaled rows, without gaps."""
        Z = self.scaling(dense_rows(X, unit_length=self.unit_length))
        return Z if self.gaps is None else self.gaps.fill(Z)

    def __getstate__(self) -> dict[str, object]:
        """Return the fields alone: what was cached can be made again."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def _project_unscaled(self, X: Rows) -> Floats:
        """Return the projected rows by one product: scaling and projection are linear, but for compressed columns."""
        dtype = float_dtype(X)
        matrix, offset = self._linear if dtype == np.float64 else self._linear_single
        rows = X if is_sparse(X) else np.asarray(X, dtype=dtype)
        lengths = row_lengths(rows)[:, None] if self.unit_length else None
        Z: Floats = rows @ matrix
        if lengths is not None:
            Z /= lengths
        Z += offset
        columns = self.scaling.compressed
        if len(columns):
            part = dense_rows(rows[:, columns])
            Z += self._compressed_part(part if lengths is None else part / lengths)
        return Z

    def _compressed_part(self, part: Floats) -> Floats:
        """Return the share of the compressed columns in the projected rows."""
        scaling, columns = self.scaling, self.scaling.compressed
        assert self.projection is not None
        values = compress(part, scaling.tail_center[columns], scaling.tail_width[columns])
        values -= scaling.shift[columns].astype(part.dtype)
        values /= scaling.scale[columns].astype(part.dtype)
        return values @ self.projection[columns].astype(part.dtype)

    @cached_property
    def _is_foldable(self) -> bool:
        """Whether a product of unscaled rows is precise: the mean of no column is far beyond its deviation."""
        ratio = np.abs(self.scaling.shift / self.scaling.scale)
        return bool(
            np.isfinite(self._linear_single[0]).all() and ratio.max(where=self._is_linear, initial=0) < MAX_SHIFT
        )

    @property
    def _is_linear(self) -> NDArray[np.bool_]:
        linear: NDArray[np.bool_] = self.scaling.tail_width == 0
        return linear

    @cached_property
    def _linear(self) -> tuple[Floats, Floats]:
        """The matrix and the offset that map the uncompressed columns to the projected ones."""
        assert self.projection is not None
        with np.errstate(over="ignore"):
            matrix = self.projection / self.scaling.scale[:, None] * self._is_linear[:, None]
            return matrix, -self.scaling.shift @ matrix

    @cached_property
    def _linear_single(self) -> tuple[Floats, Floats]:
        """The same in single precision."""
        with np.errstate(over="ignore"):
            matrix, offset = self._linear
            return matrix.astype(np.float32), offset.astype(np.float32)
