"""Columns of whole numbers that are an index or an identifier of the rows, and not a measurement.

Two strengths of one rule: `counts_rows` is certain enough to leave a column out, and `looks_like_index`, which includes
it, to warn about one: ranks and sorted measurements can look the same.
"""

import numpy as np

from knet.arrays import AnyArray

MIN_INDEX_ROWS = 10  # with fewer rows whole numbers may be in order by chance


def counts_rows(values: AnyArray) -> bool:
    """Say whether every value is a whole number, and the one before it plus 1."""
    if len(values) < MIN_INDEX_ROWS or not _all_whole(values[:MIN_INDEX_ROWS]):
        return False
    return bool((np.diff(values.astype(np.float64)) == 1).all())


def looks_like_index(values: AnyArray, *, is_all: bool = True) -> bool:
    """Say whether whole numbers grow in every row or are, if these are all rows, consecutive in any order."""
    first = values[:MIN_INDEX_ROWS]
    if len(values) < MIN_INDEX_ROWS or len(np.unique(first)) < len(first) or not _all_whole(first):
        return False
    numbers = values.astype(np.float64)
    if not _all_whole(numbers):
        return False
    if (np.diff(numbers) > 0).all():
        return True
    return is_all and bool((np.diff(np.sort(numbers)) == 1).all())


def _all_whole(values: AnyArray) -> bool:
    numbers = values.astype(np.float64)
    return bool((numbers == np.floor(numbers)).all())
