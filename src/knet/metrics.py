"""Agreement of a clustering with reference labels: NMI as in the paper, adjusted Rand index, matched accuracy.

All three are 1 for equal partitions, ignore how clusters are numbered, and take labels of any kind (integers, strings).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from knet.arrays import AnyArray, Labels

__all__ = ["accuracy", "ari", "nmi"]


def nmi(labels_true: ArrayLike, labels_pred: ArrayLike, *, noise_label: object = None) -> float:
    """Return the normalised mutual information, I(C, C') / sqrt(H(C) H(C')), in [0, 1].

    The geometric mean of the entropies is the paper's choice (its appendix on NMI); scikit-learn's default is the
    arithmetic mean, which gives different values.

    Parameters
    ----------
    labels_true, labels_pred : array-like of shape (n_samples,)
        Reference labels and the clustering to judge.
    noise_label : optional
        Rows whose reference label equals this are left out. The default leaves out none.

    Returns
    -------
    float
        1 for equal partitions, 0 for independent ones.

    Examples
    --------
    >>> nmi([0, 0, 1, 1], ["b", "b", "a", "a"])
    1.0
    >>> nmi([0, 0, 1, 1, -1], [1, 1, 0, 0, 0], noise_label=-1)
    1.0
    """
    true, pred = _paired_codes(labels_true, labels_pred, noise_label)
    shared = contingency(true, pred) / len(true)
    first, second = shared.sum(1), shared.sum(0)
    if len(first) == len(second) == 1:
        return 1.0
    together = shared > 0
    information = (shared[together] * np.log(shared[together] / np.outer(first, second)[together])).sum()
    entropies = [-(shares * np.log(shares)).sum() for shares in (first, second)]
    return float(np.clip(information / np.sqrt(np.prod(entropies)), 0, 1)) if min(entropies) > 0 else 0.0


def ari(labels_true: ArrayLike, labels_pred: ArrayLike, *, noise_label: object = None) -> float:
    """Return the adjusted Rand index: pairs on which both partitions agree, corrected for chance.

    Parameters
    ----------
    labels_true, labels_pred : array-like of shape (n_samples,)
        Reference labels and the clustering to judge.
    noise_label : optional
        Rows whose reference label equals this are left out. The default leaves out none.

    Returns
    -------
    float
        1 for equal partitions, about 0 for random ones; below 0 if worse than chance.

    Examples
    --------
    >>> ari([0, 0, 1, 1], [1, 1, 0, 0])
    1.0
    >>> ari([0, 0, 1, 1], [0, 1, 0, 1])
    -0.5
    """
    true, pred = _paired_codes(labels_true, labels_pred, noise_label)
    return rand_index(true, pred)


def accuracy(labels_true: ArrayLike, labels_pred: ArrayLike, *, noise_label: object = None) -> float:
    """Return the share of rows labelled right under the best one-to-one matching of clusters to classes.

    The matching is optimal (Hungarian method). If there are more clusters than classes, some are matched to no
    class, and all their rows count as wrong.

    Parameters
    ----------
    labels_true, labels_pred : array-like of shape (n_samples,)
        Reference labels and the clustering to judge.
    noise_label : optional
        Rows whose reference label equals this are left out. The default leaves out none.

    Returns
    -------
    float
        In (0, 1]; 1 for equal partitions.

    Examples
    --------
    >>> accuracy([0, 0, 1, 1], [7, 7, 7, 3])
    0.75
    >>> accuracy([0, 0, 0, 0], [0, 0, 1, 1])
    0.5
    """
    from scipy.optimize import linear_sum_assignment  # slow, and only needed here

    true, pred = _paired_codes(labels_true, labels_pred, noise_label)
    counts = contingency(true, pred)
    classes, clusters = linear_sum_assignment(counts, maximize=True)
    return float(counts[classes, clusters].sum() / len(true))


def contingency(first: Labels, second: Labels) -> Labels:
    """Return how many rows each pair of groups shares, (groups of the first, groups of the second)."""
    n_first, n_second = int(first.max()) + 1, int(second.max()) + 1
    shared: Labels = np.bincount(first * n_second + second, minlength=n_first * n_second).reshape(n_first, n_second)
    return shared


def rand_index(first: Labels, second: Labels) -> float:
    """Return the adjusted Rand index: 1 for equal partitions, about 0 for independent ones."""
    return rand_index_of(contingency(first, second))


def rand_index_of(counts: Labels) -> float:
    """Return the adjusted Rand index of two partitions from the number of rows that each pair of groups shares."""
    shared = counts.astype(np.float64)
    together, first_pairs, second_pairs, pairs = (
        (sizes * (sizes - 1)).sum() for sizes in (shared, shared.sum(1), shared.sum(0), shared.sum())
    )
    expected, maximum = first_pairs * second_pairs, (first_pairs + second_pairs) / 2 * pairs
    return float((together * pairs - expected) / (maximum - expected)) if maximum != expected else 1.0


def _paired_codes(labels_true: ArrayLike, labels_pred: ArrayLike, noise_label: object) -> tuple[Labels, Labels]:
    """Return both labelings as integer codes, without the rows that the reference calls noise."""
    true, pred = np.asarray(labels_true), np.asarray(labels_pred)
    if true.ndim != 1 or true.shape != pred.shape:
        raise ValueError(
            "labels_true and labels_pred must be one-dimensional and of the same length. "
            f"Got shapes {true.shape!r} and {pred.shape!r}."
        )
    if noise_label is not None:
        kept = true != noise_label
        true, pred = true[kept], pred[kept]
    if not len(true):
        raise ValueError(f"There are no rows to compare (noise_label={noise_label!r}).")
    return _codes(true), _codes(pred)


def _codes(labels: AnyArray) -> Labels:
    """Return labels numbered 0, 1, ... in sorted order."""
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)
