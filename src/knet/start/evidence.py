"""What a user knows about some rows: their clusters, and pairs that belong together or apart.

All of it becomes sets of rows: the rows of a set are in the same cluster (known labels are equal, or a chain of
`must_link` pairs connects them), some sets have a known label, and some pairs of sets are apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import breadth_first_order, connected_components

from knet.arrays import Labels
from knet.start.neighbors import Indices

SHOWN = 8  # rows of a chain of pairs that an error message lists, at most


@dataclass(frozen=True)
class Evidence:
    """What is known about some rows.

    Attributes
    ----------
    sets : ndarray of shape (n,)
        The set of each row; -1 if nothing is known about it.
    labels : ndarray of shape (n_sets,)
        The known cluster of each set; -1 if it is not known.
    apart : ndarray of shape (p, 2)
        Pairs of sets in different clusters, the smaller number first, without repetition.
    names : tuple of str
        The names of clusters 0, 1, ... if the known labels are names.
    positions : ndarray of shape (n,), or None
        Where the rows are among those of the user, for messages; None if they are the same.
    earlier : ndarray of shape (n,), or None
        In a refit: the label that the earlier model gives to each row, from 0 on without gaps.
    """

    sets: Labels
    labels: Labels
    apart: Labels
    names: tuple[str, ...] = ()
    earlier: Labels | None = None
    positions: Indices | None = None

    @classmethod
    def of_earlier(cls, labels: Labels) -> "Evidence":
        """Return what a refit knows: the labels of an earlier model."""
        none = np.full(len(labels), -1, dtype=np.int64)
        earlier = np.unique(labels, return_inverse=True)[1].astype(np.int64)
        return cls(none, none[:0], np.empty((0, 2), dtype=np.int64), earlier=earlier)

    @cached_property
    def rows(self) -> Indices:
        """The rows about which something is known."""
        return np.flatnonzero(self.sets >= 0)

    @property
    def n_labels(self) -> int:
        """The number of clusters that known labels ask for."""
        return int(self.labels.max(initial=-1)) + 1

    @property
    def has_numbers(self) -> bool:
        """Whether the numbers of the clusters are given: by known labels, or by an earlier model."""
        return self.n_labels > 0 or self.earlier is not None

    @property
    def row_labels(self) -> Labels:
        """The known label of every row; -1 if it is not known."""
        return np.append(self.labels, -1)[self.sets]

    def of(self, rows: Indices) -> "Evidence":
        """Return what is known about some of the rows, in their order."""
        positions = rows if self.positions is None else self.positions[rows]
        earlier = None if self.earlier is None else self.earlier[rows]
        return replace(self, sets=self.sets[rows], earlier=earlier, positions=positions)

    def violations(self, labels: Labels) -> tuple[int, int]:
        """Return how many of the pairs a partition of the rows breaks, and how many there are.

        A set of n rows counts as n - 1 pairs, of which those outside its most frequent group are broken. Known labels
        are no pairs.
        """
        rows = self.rows[self.labels[self.sets[self.rows]] < 0]
        counts = np.zeros((len(self.labels), int(labels.max()) + 1), dtype=np.int64)
        np.add.at(counts, (self.sets[rows], labels[rows]), 1)
        sizes, usual = counts.sum(1), counts.argmax(1)
        apart = self.apart[(sizes[self.apart] > 0).all(1)]
        broken = int((sizes - counts.max(1)).sum() + (usual[apart[:, 0]] == usual[apart[:, 1]]).sum())
        return broken, int(np.maximum(sizes - 1, 0).sum()) + len(apart)


def read_evidence(
    known: ArrayLike | None,
    must_link: ArrayLike | None,
    cannot_link: ArrayLike | None,
    n_rows: int,
    n_clusters: str | int,
) -> Evidence | None:
    """Return what the parameters of `fit` say about its rows; None if they say nothing.

    Raises
    ------
    ValueError
        If the parameters cannot be read, or contradict each other or the number of clusters.
    """
    labels, names = _read_known(known, n_rows, n_clusters)
    together, apart = (
        _read_pairs(pairs, name, n_rows) for name, pairs in (("must_link", must_link), ("cannot_link", cannot_link))
    )
    (labelled,) = np.nonzero(labels >= 0)
    if not len(labelled) and not len(together) and not len(apart):
        return None
    found, first = np.unique(labels[labelled], return_index=True)
    equal = np.column_stack([labelled[first][np.searchsorted(found, labels[labelled])], labelled])  # of the same label
    joined = np.concatenate([together, equal])
    graph = coo_matrix((np.ones(len(joined)), tuple(joined.T)), shape=(n_rows, n_rows)).tocsr()
    components = connected_components(graph, directed=False)[1]
    mentioned = np.unique(np.concatenate([joined.ravel(), apart.ravel()]))
    sets = np.full(n_rows, -1, dtype=np.int64)
    sets[mentioned] = np.unique(components[mentioned], return_inverse=True)[1]
    set_labels = np.full(sets.max() + 1, -1, dtype=np.int64)
    set_labels[sets[labelled]] = labels[labelled]
    _check_labels(labels, set_labels[sets], together)
    _check_apart(apart, sets, labels, joined, names)
    pairs = np.sort(sets[apart], axis=1)
    pairs = pairs[(set_labels[pairs] < 0).any(1)]  # two known labels are apart anyway
    return Evidence(sets, set_labels, np.unique(pairs, axis=0).reshape(-1, 2), names)


def _check_labels(labels: Labels, of_sets: Labels, together: NDArray[np.int64]) -> None:
    """Raise an error if pairs connect rows of different known labels."""
    (wrong,) = np.nonzero((labels >= 0) & (of_sets != labels))
    if len(wrong):
        last = wrong[0]
        others = np.flatnonzero((labels >= 0) & (labels != labels[last]))
        chain = next(filter(None, (_chain(together, row, last, len(labels)) for row in others.tolist())))
        first = chain[0]
        raise ValueError(
            f"must_link puts rows {_listed(chain)} together, but known gives rows {first} and {last} different labels. "
            "Remove one of the pairs or one of the labels."
        )


def _check_apart(
    apart: NDArray[np.int64], sets: Labels, labels: Labels, joined: NDArray[np.int64], names: Sequence[str]
) -> None:
    """Raise an error if a pair that has to be apart belongs together."""
    (same,) = np.nonzero(sets[apart[:, 0]] == sets[apart[:, 1]])
    if len(same):
        first, second = apart[same[0]].tolist()
        label = labels[first] if labels[first] == labels[second] else -1
        why = f"they belong together: {_listed(_chain(joined, first, second, len(labels)))}"
        if label >= 0:
            why = f"known gives both the label {repr(names[label]) if names else label}"
        raise ValueError(f"cannot_link puts rows {first} and {second} apart, but {why}. Remove one of the pairs.")


def _read_known(known: ArrayLike | None, n_rows: int, n_clusters: str | int) -> tuple[Labels, tuple[str, ...]]:
    """Return known labels as numbers of clusters, -1 for unknown ones, and the names of clusters if they are names.

    Whole numbers below `n_clusters` are numbers of clusters; other values are names.
    """
    if known is None:
        return np.full(n_rows, -1, dtype=np.int64), ()
    listed = np.asarray(known, dtype=object)
    if listed.shape != (n_rows,):
        raise ValueError(f"known must have one label per row, shape ({n_rows},). Got shape {listed.shape}.")
    given = [None if _is_unknown(value) else value for value in listed.tolist()]
    found = {value for value in given if value is not None}
    wrong = [value for value in found if not isinstance(value, str | int | float | np.generic)]
    if wrong:
        raise ValueError(f"known must hold whole numbers or texts, and -1 or None for unknown rows. Got {wrong[0]!r}.")
    whole = all(not isinstance(value, str) and float(value).is_integer() for value in found)
    limit = len(found) if n_clusters == "auto" else int(n_clusters)
    if len(found) > limit:
        raise ValueError(
            f"known has {len(found)} different labels, more than n_clusters={n_clusters}. Raise n_clusters."
        )
    if whole and all(0 <= value < limit for value in found):
        return np.array([-1 if value is None else int(value) for value in given], dtype=np.int64), ()
    ordered = sorted(found) if whole or all(isinstance(value, str) for value in found) else sorted(found, key=str)
    numbers = {value: number for number, value in enumerate(ordered)}
    labels = np.array([-1 if value is None else numbers[value] for value in given], dtype=np.int64)
    return labels, tuple(str(int(value) if whole else value) for value in ordered)


def _is_unknown(value: object) -> bool:
    """Say whether a value stands for an unknown label: None, NaN, -1 or an empty text."""
    return value is None or value != value or (value in ("", "-1") if isinstance(value, str) else value == -1)


def _read_pairs(pairs: ArrayLike | None, name: str, n_rows: int) -> NDArray[np.int64]:
    """Return pairs of positions of rows, (p, 2)."""
    if pairs is None:
        return np.empty((0, 2), dtype=np.int64)
    given = np.asarray(pairs)
    if given.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if given.ndim != 2 or given.shape[1] != 2 or given.dtype.kind not in "iu":
        raise ValueError(
            f"{name} must hold pairs of row numbers, shape (n_pairs, 2). "
            f"Got shape {given.shape} of {given.dtype}. Row numbers are positions in X, from 0 on."
        )
    (outside,) = np.nonzero(((given < 0) | (given >= n_rows)).any(1))
    if len(outside):
        raise ValueError(
            f"{name} must hold row numbers from 0 to {n_rows - 1}. "
            f"Got {given[outside[0]].tolist()} as pair {outside[0]}."
        )
    return given.astype(np.int64)


def _chain(pairs: NDArray[np.int64], first: int, last: int, n_rows: int) -> list[int]:
    """Return a shortest chain of pairs between two rows; empty if there is none."""
    graph = coo_matrix((np.ones(len(pairs)), tuple(pairs.T)), shape=(n_rows, n_rows)).tocsr()
    before = breadth_first_order(graph, first, directed=False)[1]
    chain = [int(last)]
    while chain[-1] != first:
        if before[chain[-1]] < 0:
            return []
        chain.append(int(before[chain[-1]]))
    return chain[::-1]


def _listed(rows: list[int]) -> str:
    if len(rows) > SHOWN:
        return f"{rows[0]}, {rows[1]}, ..., {rows[-1]}"
    return f"{', '.join(map(str, rows[:-1]))} and {rows[-1]}"
