"""Labels of sets of rows of which some must be apart: the most probable ones that keep every pair, if there are any."""

from collections.abc import Iterator

import numpy as np

from knet.arrays import Floats, Labels
from knet.start.evidence import Evidence

MAX_STEPS = 200_000  # of the exact search, after which pairs count as impossible to keep
SWEEPS = 10  # through all sets, in which each may change to a better label


def settle(evidence: Evidence, affinity: Floats) -> Labels:
    """Return the label of every set: a known one, else one of large affinity that keeps the pairs.

    Parameters
    ----------
    evidence : Evidence
        The sets, their known labels, and which of them are apart.
    affinity : ndarray of shape (n_sets, c)
        How well each label suits each set.

    Raises
    ------
    ValueError
        If no choice of labels keeps all pairs.
    """
    labels = evidence.labels.copy()
    apart = _neighbours(evidence.apart, len(labels))
    free = np.flatnonzero(labels < 0)
    labels[free] = affinity[free].argmax(1)
    linked = [int(q) for q in free if apart[q]]
    if not linked:
        return labels
    labels[linked] = -1
    margins = np.sort(affinity[linked], axis=1)
    order = dict(zip(linked, margins[:, -1] - (margins[:, -2] if affinity.shape[1] > 1 else 0), strict=True))
    if not _greedy(labels, apart, affinity, order):
        labels[linked] = -1
        _search(labels, apart, affinity, linked, evidence)
    for _ in range(SWEEPS):
        if not any([_improve(labels, apart, affinity, q) for q in linked]):
            break
    return labels


def _neighbours(pairs: Labels, n_sets: int) -> list[set[int]]:
    """Return for each set those that must be apart from it."""
    found: list[set[int]] = [set() for _ in range(n_sets)]
    for first, second in pairs.tolist():
        found[first].add(second)
        found[second].add(first)
    return found


def _taken(labels: Labels, others: set[int]) -> set[int]:
    return {int(labels[q]) for q in others if labels[q] >= 0}


def _best(affinity: Floats, q: int, taken: set[int]) -> Iterator[int]:
    """Yield the labels that a set may have, the one of the largest affinity first."""
    yield from (label for label in (-affinity[q]).argsort(kind="stable").tolist() if label not in taken)


def _greedy(labels: Labels, apart: list[set[int]], affinity: Floats, margins: dict[int, float]) -> bool:
    """Label the sets in turn, the one with the fewest labels left first, then the clearest; say whether all have one.

    A heap holds an entry for every change of a set; only its last one counts.
    """
    from heapq import heapify, heappop, heappush

    taken = {q: _taken(labels, apart[q]) for q in margins}
    heap = [(-len(taken[q]), -margin, q) for q, margin in margins.items()]
    heapify(heap)
    while heap:
        count, _, q = heappop(heap)
        if labels[q] >= 0 or -count != len(taken[q]):
            continue
        label = next(_best(affinity, q, taken[q]), None)
        if label is None:
            return False
        labels[q] = label
        for other in apart[q]:
            if labels[other] < 0 and label not in taken[other]:
                taken[other].add(label)
                heappush(heap, (-len(taken[other]), -margins[other], other))
    return True


def _search(labels: Labels, apart: list[set[int]], affinity: Floats, linked: list[int], evidence: Evidence) -> None:
    """Find labels that keep all pairs by search with backtracking, or raise an error that names a contradiction."""
    trail: list[tuple[int, Iterator[int]]] = []
    left = set(linked)
    deepest, steps = linked[0], 0
    while left:
        q = max(left, key=lambda r: (len(_taken(labels, apart[r])), len(apart[r])))
        left.remove(q)
        trail.append((q, _best(affinity, q, _taken(labels, apart[q]))))
        while trail:
            steps += 1
            q, choices = trail[-1]
            label = next(choices, None) if steps <= MAX_STEPS else None
            labels[q] = -1 if label is None else label
            if label is not None:
                break
            deepest = q
            left.add(q)
            trail.pop()
        else:
            raise ValueError(_contradiction(deepest, apart, affinity.shape[1], evidence))


def _contradiction(q: int, apart: list[set[int]], n_clusters: int, evidence: Evidence) -> str:
    """Return why pairs cannot be kept: rows of which every two are apart, if so many are found near a set."""
    group = [q]
    for other in sorted(apart[q], key=lambda r: -len(apart[r] & apart[q])):
        if all(other in apart[member] for member in group):
            group.append(other)
    positions = np.arange(len(evidence.sets)) if evidence.positions is None else evidence.positions
    rows = [int(positions[evidence.sets == member].min()) for member in group]
    if len(group) > n_clusters:
        return (
            f"cannot_link puts every two of the rows {', '.join(map(str, sorted(rows)))} apart, which needs "
            f"{len(group)} clusters. Got n_clusters={n_clusters}. Raise it or remove a pair."
        )
    return (
        f"The pairs of cannot_link cannot all be kept with {n_clusters} clusters: none is left for row {rows[0]}, "
        f"which is apart from {len(apart[q])} other sets of rows. Raise n_clusters or remove some of its pairs."
    )


def _improve(labels: Labels, apart: list[set[int]], affinity: Floats, q: int) -> bool:
    """Give a set the best label that its pairs allow; say whether it changed."""
    label = next(_best(affinity, q, _taken(labels, apart[q])))
    changed = affinity[q, label] > affinity[q, labels[q]]
    if changed:
        labels[q] = label
    return bool(changed)
