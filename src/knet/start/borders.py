"""The borders between clusters on the graph of nearest neighbours: how clear they are, and in which order they fall.

The links between two neighbouring clusters are compared with those that parallel cuts through either of them would
break, a third and half of the way into the cluster. If a border is crossed by fewer links, the rows are sparse there.
In rows without groups, a border is like any other cut. The rows of a cluster are ordered by their steps from the
border, so that clusters may have any shape.
"""

from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import connected_components

from knet.arrays import Floats, Labels
from knet.prepare.training_rows import ROWS_PER_CLUSTER
from knet.start.columns import comparable_columns
from knet.start.neighbors import Neighbors, neighbor_graph, neighbors
from knet.threads import one_blas_thread

NEIGHBORS = 10  # links of a row in the graph of a fitted model's rows
COMPARED_ROWS = 2000  # training rows on which the clusters of a fitted model are compared, or more if they are many
DEPTHS = (1 / 3, 1 / 2)  # shares of a cluster between its border and the cuts through it
SMOOTHING = 4  # averages over neighbours, so that rows at the same distance have an order
WHOLE = 0.75  # share of its rows that the largest connected part of a cluster has at least, or it falls apart
CLEAR = 1.64  # standard errors by which a clear border holds: by chance, one in twenty does
ALMOST_CLEAR = 1.28  # the same for a border that wins if none is clear: one in ten
PLAUSIBLE = 0.67  # the same for a plausible border: one in four
FAR = 3.0  # standard errors: borders that hold by more count the same in an average


class Border(NamedTuple):
    """The weakest border of a partition.

    Attributes
    ----------
    strength : float
        By how many standard errors it holds; negative if the two clusters run into each other.
    sizes : tuple of int
        The rows of the two clusters.
    average : float
        The same strength as a mean over clusters, each with its own weakest border.
    falls_apart : int
        The rows of a cluster that is not connected; 0 if there is none.
    """

    strength: float
    sizes: tuple[int, int]
    average: float
    falls_apart: int

    @property
    def verdict(self) -> str:
        """How well the rows support the partition: "clear", "plausible" or "a guess"."""
        if self.falls_apart or self.strength < PLAUSIBLE:
            return "a guess"
        return "clear" if self.strength >= CLEAR else "plausible"

    @property
    def is_almost_clear(self) -> bool:
        """Whether all borders hold, with some risk that chance explains one of them."""
        return not self.falls_apart and self.strength >= ALMOST_CLEAR

    @property
    def finding(self) -> str:
        """What the verdict rests on, in a few words."""
        if self.falls_apart:
            return f"a group of {self.falls_apart} rows falls apart"
        if self.verdict == "a guess":
            return f"groups of {self.sizes[0]} and {self.sizes[1]} rows run into each other"
        return "all borders are clear" if self.verdict == "clear" else "all borders hold, some only just"


def compare_clusters(
    X: Floats, labels: Labels, n_clusters: int, rng: np.random.RandomState, near: Neighbors | None = None
) -> tuple[Border | None, list[list[int]]]:
    """Return the weakest border between the clusters of prepared rows, and the order in which clusters join.

    Without two clusters there is no border. `near` are the nearest rows of each row, if they are known.
    """
    drawn = np.sort(rng.permutation(len(X))[: max(COMPARED_ROWS, ROWS_PER_CLUSTER * n_clusters)])
    near = near if len(drawn) == len(X) else None
    if n_clusters == 1 or len(drawn) < 3:
        return None, [[0, joined] for joined in range(1, n_clusters)]
    with one_blas_thread():
        if near is None:
            near = neighbors(comparable_columns(X[drawn].astype(np.float64), rng), NEIGHBORS)
        graph = neighbor_graph(near, NEIGHBORS)
        groups = np.unique(labels[drawn], return_inverse=True)[1]
        border = weakest_border(graph, groups, NEIGHBORS) if groups.max() > 0 else None
        return border, merge_order(graph, labels[drawn], n_clusters)


def weakest_border(graph: csr_matrix, labels: Labels, n_links: int) -> Border:
    """Return the border between two groups that holds least.

    Every row has about `n_links` links, so that this many of them count as one observation.
    """
    between, sizes = links_between(graph, labels), np.bincount(labels)
    inner = _inner_links(graph, labels)
    inside = parallel_cuts(graph, inner, labels, between)
    inside = np.minimum(inside, inside.T)
    errors = np.sqrt(1 / (1 + inside / n_links) + 1 / (1 + between / n_links))
    strengths = np.log((1 + inside) / (1 + between)) / errors
    np.fill_diagonal(strengths, np.inf)
    weakest = np.unravel_index(strengths.argmin(), strengths.shape)
    pair = int(sizes[weakest[0]]), int(sizes[weakest[1]])
    average = float(np.minimum(strengths.min(0), FAR).mean())
    return Border(float(strengths[weakest]), pair, average, _falls_apart(inner, labels, sizes))


def _falls_apart(inner: csr_matrix, labels: Labels, sizes: Labels) -> int:
    """Return the size of the largest group of which no connected part has most of the rows; 0 if there is none."""
    n_parts, part = connected_components(inner, directed=False)
    group = np.zeros(n_parts, dtype=np.int64)
    group[part] = labels
    largest = np.zeros(len(sizes))
    np.maximum.at(largest, group, np.bincount(part))
    return int(sizes[largest < WHOLE * sizes].max(initial=0))


def merge_order(graph: csr_matrix, labels: Labels, n_clusters: int) -> list[list[int]]:
    """Return how the clusters join, two at a time, until one is left: [kept, joined] by their numbers.

    The next two are those with the most links between them, as a share of the links of the smaller one; the smaller
    number is kept.
    """
    between = links_between(graph, labels, n_clusters)
    volumes, order = between.sum(0), []
    np.fill_diagonal(between, 0.0)
    alive = np.ones(n_clusters, dtype=bool)
    for _ in range(n_clusters - 1):
        share = (between + 1e-9) / (1 + np.minimum(volumes[:, None], volumes))
        share[~alive] = share[:, ~alive] = -1.0
        np.fill_diagonal(share, -1.0)
        kept, joined = sorted(int(place) for place in np.unravel_index(share.argmax(), share.shape))
        between[kept] += between[joined]
        between[:, kept] += between[:, joined]
        between[kept, kept] = 0.0
        volumes[kept] += volumes[joined]
        alive[joined] = False
        order.append([kept, joined])
    return order


def links_between(graph: csr_matrix, labels: Labels, n_clusters: int | None = None) -> Floats:
    """Return the links between each two groups, (c, c)."""
    members = np.eye(int(labels.max()) + 1 if n_clusters is None else n_clusters)[labels]
    links: Floats = members.T @ (graph @ members)
    return links


def parallel_cuts(graph: csr_matrix, inner: csr_matrix, labels: Labels, between: Floats) -> Floats:
    """Return the links that cuts through group i, parallel to its border with group j, break, (c, c).

    It is the geometric mean over `DEPTHS`, with one link added. Where there are no links between i and j, it is the
    number of links within i.
    """
    linked = between * (1 - np.eye(len(between)))
    # A column for each neighbour of a group: the same column is used by all groups, for different neighbours.
    nearby = np.argsort(linked == 0, axis=1, kind="stable")[:, : int((linked > 0).sum(1).max(initial=0))]
    degrees = np.asarray(inner.sum(1)).ravel() + 1e-12
    shares = _shares(degrees, _steps(graph, inner, degrees, labels, nearby), labels)
    members = np.eye(len(between))[labels]
    logs = np.zeros(nearby.shape)
    for depth in DEPTHS:
        before = (shares <= depth).astype(np.float64)
        logs += np.log1p(members.T @ ((inner @ before) * (1 - before))) / len(DEPTHS)
    cuts = np.zeros_like(between)
    np.put_along_axis(cuts, nearby, np.expm1(logs), axis=1)
    return np.where(linked > 0, cuts, between.diagonal()[:, None] / 2)


def _inner_links(graph: csr_matrix, labels: Labels) -> csr_matrix:
    """Return the graph without links between groups."""
    same = np.repeat(labels, np.diff(graph.indptr)) == labels[graph.indices]
    ends = np.concatenate([[0], np.cumsum(same)])[graph.indptr]
    return csr_matrix((graph.data[same], graph.indices[same], ends), shape=graph.shape)


def _steps(graph: csr_matrix, inner: csr_matrix, degrees: Floats, labels: Labels, nearby: Labels) -> Floats:
    """Return the steps of each row within its group from the border with each nearby group, smoothed."""
    links = graph @ np.eye(len(nearby))[labels]
    front = np.take_along_axis(links, nearby[labels], axis=1) > 0
    steps: Floats = np.where(front, 1.0, 0.0)
    while front.any():
        front = (inner @ front.astype(np.float32) > 0) & (steps == 0)
        steps[front] = steps.max() + 1
    steps[steps == 0] = steps.max(initial=0) + 2  # parts that are not connected with the border come last
    for _ in range(SMOOTHING):
        steps = (steps + (inner @ steps) / degrees[:, None]) / 2
    return steps


def _shares(degrees: Floats, steps: Floats, labels: Labels) -> Floats:
    """Return which share of its group, by links, lies between the border and each row."""
    volumes = np.bincount(labels, degrees)
    starts = np.cumsum(volumes) - volumes
    shares = np.empty_like(steps)
    orders = np.argsort(steps + labels[:, None] * (1 + steps.max(initial=0)), axis=0, kind="stable")
    for column, order in enumerate(orders.T):
        groups = labels[order]
        shares[order, column] = (np.cumsum(degrees[order]) - starts[groups]) / volumes[groups]
    return shares
