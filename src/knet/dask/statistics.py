"""Statistics over all rows of a Dask collection: the clusters' sizes and means, and drift from the training rows."""

from dataclasses import dataclass, replace
from typing import Self

import dask
import numpy as np
from numpy.typing import NDArray

from knet.arrays import Floats, RowsLike
from knet.dask.lazy import Lazy, LazyModel, blocks_of, merge_tree
from knet.model.blocks import ModelOrPath, ModelRef, in_slices, light_model
from knet.model.drift import Drift, Moments


@dataclass(frozen=True)
class Summary:
    """Statistics of the clusters over all rows: their `sizes`, and `means` and `deviations` of each column, (c, d).

    A mean is NaN if a cluster is empty. `eta_squared` is the share of each column's variance that the clusters explain,
    from 0 to 1; `doubtful` is the share of the rows whose membership in their cluster is below 0.7, and `unfamiliar`
    that of the rows that are less familiar than 99 % of the training rows.
    """

    sizes: NDArray[np.int64]
    means: Floats
    deviations: Floats
    eta_squared: Floats
    doubtful: float
    unfamiliar: float

    @classmethod
    def of(cls, found: Moments) -> Self:
        """Return the summary of some rows."""
        n_rows, _, between, within = found.overall()
        total, counts = between + within, found.observed
        return cls(
            sizes=found.counts,
            means=np.where(counts > 0, found.means, np.nan),
            deviations=np.sqrt(found.squares / np.where(counts > 0, counts, np.nan)),
            eta_squared=between / np.where(total > 0, total, 1.0),
            doubtful=found.n_doubtful / n_rows,
            unfamiliar=found.n_unfamiliar / n_rows,
        )


def summarize(model: ModelOrPath, X: Lazy, *, threads: int = 1, device: str = "cpu") -> Summary:
    """Return sizes, means and standard deviations of the clusters over all rows, in one pass.

    Parameters are those of `predict`.
    """
    return Summary.of(_moments(LazyModel(model, X, threads, device)))


def drift(model: ModelOrPath, X: Lazy, *, threads: int = 1, device: str = "cpu") -> Drift:
    """Compare rows with the training rows, in one pass; parameters are those of `predict`."""
    light = light_model(model)
    is_plain = light.predictor.naming.is_plain
    lazy = LazyModel(model if is_plain else replace(light, predictor=light.predictor.unedited), X, threads, device)
    return Drift.of(_moments(lazy), lazy.light.predictor, lazy.light.names)


def _moments(lazy: LazyModel) -> Moments:
    parts = [dask.delayed(_block_moments)(rows, *lazy.settings) for rows in blocks_of(lazy.X)]
    found: Moments = merge_tree(parts, Moments.merge)
    return found


def _block_moments(block: RowsLike, ref: ModelRef, dtype: str, threads: int) -> Moments:
    return Moments.merge(in_slices(block, ref, dtype, threads, Moments.of_block))
