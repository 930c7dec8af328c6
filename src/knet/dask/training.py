"""Fits on a uniform sample of the rows of a Dask collection."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import dask
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from knet import parameters as rules
from knet.arrays import RowsLike
from knet.dask.lazy import blocks_of, check_collection, example_row, merge_tree, predict
from knet.estimator import KNet, RandomState
from knet.rows.kinds import count_rows, table_kind, take_rows
from knet.train.host import random_generator

SAMPLE_ROWS = 50_000  # rows that `fit` loads into memory


def sample(X: RowsLike, n_rows: int, *, random_state: RandomState = None) -> RowsLike:
    """Return a uniform sample of rows in memory, in the order of X, from one pass.

    Parameters
    ----------
    X : dask.array.Array or dask.dataframe.DataFrame
        Rows, in blocks.
    n_rows : int
        Number of rows to draw without replacement; if X has fewer rows, all of them are returned.
    random_state : int, RandomState, Generator or None
        Decides the sample together with the blocks of X. The result does not depend on the workers.

    Returns
    -------
    rows : ndarray or pandas DataFrame
        The drawn rows.
    """
    rules.check_parameter("knet.dask.sample", "n_rows", n_rows, [], [rules.integer(1)])
    return _draw(check_collection(X), n_rows, random_generator(random_state)).rows


@dataclass(frozen=True)
class Drawn:
    """The rows of some blocks that have the smallest keys: a uniform sample, since keys are independent of the rows."""

    keys: NDArray[np.uint64]  # a random number for every row
    positions: NDArray[np.int64]  # of the rows in these blocks
    rows: RowsLike  # an array or a DataFrame
    n_read: int  # number of rows of the blocks


def _draw(X: RowsLike, size: int, rng: np.random.RandomState) -> Drawn:
    seed = int(rng.randint(np.iinfo(np.int32).max))
    parts = [dask.delayed(draw)(rows, number, size, seed) for number, rows in enumerate(blocks_of(X))]
    drawn: Drawn = merge_tree(parts, partial(merge_drawn, size=size))
    return drawn


def draw(block: RowsLike, number: int, size: int, seed: int) -> Drawn:
    """Draw at most `size` rows of a block; the keys depend only on the seed and the number of the block."""
    n_rows = count_rows(block)
    keys = np.random.Generator(np.random.Philox([seed, number])).integers(2**64 - 1, size=n_rows, dtype=np.uint64)
    kept = _smallest(keys, size)
    return Drawn(keys[kept], kept, take_rows(block, kept), n_rows)


def merge_drawn(parts: Sequence[Drawn], size: int) -> Drawn:
    """Keep the `size` smallest keys of samples of consecutive blocks."""
    keys = np.concatenate([part.keys for part in parts])
    kept = _smallest(keys, size)
    first_place = np.cumsum([0, *(len(part.keys) for part in parts)])
    first_row = np.cumsum([0, *(part.n_read for part in parts)])
    own = np.split(kept, np.searchsorted(kept, first_place[1:-1]))
    places = [own_places - first for own_places, first in zip(own, first_place, strict=False)]
    return Drawn(
        keys[kept],
        np.concatenate([first + part.positions[at] for part, at, first in zip(parts, places, first_row, strict=False)]),
        _join([take_rows(part.rows, at) for part, at in zip(parts, places, strict=True)]),
        int(first_row[-1]),
    )


def _smallest(keys: NDArray[np.uint64], size: int) -> NDArray[np.int64]:
    """Return the places of the `size` smallest keys in their order; the first keys win ties."""
    smallest: NDArray[np.int64] = np.sort(np.argsort(keys, kind="stable")[:size])
    return smallest


def _join(parts: list[RowsLike]) -> RowsLike:
    """Concatenate tables or arrays; empty ones are left out because their dtypes may be wrong."""
    filled = [part for part in parts if len(part)] or parts[:1]
    return pd.concat(filled) if table_kind(filled[0]) else np.concatenate(filled)


def fit(
    model: KNet,
    X: RowsLike,
    y: object = None,
    sample_weight: None = None,
    *,
    known: None = None,
    must_link: None = None,
    cannot_link: None = None,
    sample_size: int = SAMPLE_ROWS,
    threads: int = 1,
    device: str = "cpu",
) -> KNet:
    """Fit a model to a sample of the rows, in this process.

    Parameters
    ----------
    model : KNet
        The estimator to fit. Its `train_size` applies to the sample.
    X : dask.array.Array or dask.dataframe.DataFrame
        Rows to cluster.
    y : ignored
        Present by convention.
    sample_weight, known, must_link, cannot_link : None
        Weights, known labels and pairs are supported for rows in memory only.
    sample_size : int, default=50_000
        Number of rows to draw; see `sample`. The model's `random_state` decides which rows.
    threads, device
        As in `predict`, for the labels.

    Returns
    -------
    model : KNet
        The same estimator, fitted. `labels_` is lazy, with a label for every row of X; `train_indices_` are positions
        in X. There is no `probabilities_`: use `predict_proba`.
    """
    rules.check_parameters(type(model).__name__, model.get_params(deep=False))
    in_memory = {"sample_weight": sample_weight, "known": known, "must_link": must_link, "cannot_link": cannot_link}
    for name in (name for name, value in in_memory.items() if value is not None):
        raise TypeError(
            f"{name} is supported for rows in memory only. Draw rows first, for example with "
            "knet.dask.sample(X, 50_000), and fit these."
        )
    for name, value, minimum in (("sample_size", sample_size, 2), ("threads", threads, 1)):
        rules.check_parameter("knet.dask.fit", name, value, [], [rules.integer(minimum)])
    X = check_collection(X)
    example_row(X)
    drawn = _draw(X, sample_size, random_generator(model.random_state))
    model.fit(drawn.rows)
    model.train_indices_ = drawn.positions[model.train_indices_]
    model.labels_ = predict(model, X, threads=threads, device=device)
    del model.probabilities_  # those of the sample
    return model
