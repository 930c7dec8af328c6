"""What a user should know before using the clusters: rules that warn, each with a reason, and silent on ordinary data.

Each function returns messages, at most one per finding; `KNet.fit` warns with them, and the report prints them.
"""

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import cKDTree

from knet.arrays import Floats, Labels, Rows, row_blocks
from knet.exceptions import KNetDataWarning, warn_user
from knet.metrics import contingency
from knet.prepare.preparation import Preparation
from knet.rows.dense import DenseRows
from knet.rows.index_columns import looks_like_index
from knet.rows.kinds import quoted, some
from knet.start.candidates import GRAPH_NEIGHBORS, SAMPLE_ROWS, Pool
from knet.start.judge import JUDGE_NEIGHBORS, Judge, Verdict

MIN_GROUP = GRAPH_NEIGHBORS[0]  # fewer rows are outliers, not a group
CLEAR_GAP = 1.25  # the largest gap in the data / the second largest one
SMALL_SHARE = 0.1  # a cluster below this share of the mean size is small
COLUMN_ROWS = 1000  # rows on which columns are compared with the clusters
MIN_COLUMN_ROWS = 50  # with fewer rows a column may match by chance
REPRODUCED = 0.98  # share of the rows whose cluster follows from a column
REST_NEIGHBORS = 5  # a row and so many neighbours in the other columns are compared
SHOWN = 0.1  # 0 is chance and 1 certainty: below it, columns do not show the clusters
MOSTLY_MISSING = 0.5  # share of missing cells above which a column deserves a warning
INDEX_ROWS = 65_536  # rows in which an index is looked for


def warn_about(messages: Iterable[str]) -> None:
    """Warn at the line of the user's code, once for each message."""
    for message in messages:
        warn_user(message, KNetDataWarning)


def about_rows(X: Rows, names: Sequence[str] | None, preparation: Preparation) -> list[str]:
    """Return what rows and columns show before the fit; principal components are not columns of the user."""
    found = [] if preparation.gaps is None else about_gaps(X, names)
    return found if preparation.projection is not None else [*found, *index_columns(DenseRows(X), names)]


def about_gaps(X: Floats, names: Sequence[str] | None) -> list[str]:
    """Return messages about rows without any value, and about columns in which most cells are missing."""
    blocks = [np.isnan(X[rows]) for rows in row_blocks(*X.shape)]
    n_empty, missing = sum(int(block.all(1).sum()) for block in blocks), sum(block.sum(0) for block in blocks) / len(X)
    found = []
    if n_empty:
        what = "1 row holds" if n_empty == 1 else f"{n_empty:,} rows hold"
        found.append(f"{what} no value in any column; the label is -1 there.")
    columns = _table_columns(names, X.shape[1])
    mostly = [f"{name} ({missing[own[0]]:.0%})" for name, own in columns.items() if missing[own[0]] > MOSTLY_MISSING]
    if mostly:
        found.append(
            f"Most cells are missing in {some(mostly)}. Clusters can depend on who has a value there, and on nothing "
            "else. Leave such columns out if this is not wanted."
        )
    return found


def check_distinct(X: Floats, n_clusters: int) -> list[str]:
    """Return a message if there are fewer different training rows than clusters."""
    if n_clusters == 1 or len(np.unique(X[:, 0])) >= n_clusters:  # one column is often enough, and faster
        return []
    n_distinct = len(np.unique(X, axis=0))
    if n_distinct >= n_clusters:
        return []
    return [
        f"The training rows hold only {n_distinct} distinct row{'s' if n_distinct > 1 else ''} after scaling, "
        f"fewer than n_clusters={n_clusters}; the labels use at most {n_distinct}. Lower n_clusters."
    ]


def reliable_size(n_rows: int) -> int:
    """Return about how many rows a group needs to be found among `n_rows`.

    The neighbour graph joins each row to 10 others, so a group of fewer rows is never separated from the rest; and the
    candidates that see small groups use at most 4000 rows, of which the group needs as many.
    """
    return math.ceil(JUDGE_NEIGHBORS * max(1.0, n_rows / SAMPLE_ROWS))


def about_partition(pool: Pool, judge: Judge, labels: Labels, verdict: Verdict) -> list[str]:
    """Return what the neighbour graph shows about groups of the rows of a pool: no structure, or a missed group."""
    n_clusters = int(labels.max()) + 1
    found = _missed_group(pool, labels)
    if n_clusters > 1 and judge.is_one_cloud(verdict):
        found.append(
            f"The data do not support {n_clusters} clusters: a single Gaussian describes the rows as well. "
            "Use knet.scan to compare other numbers."
        )
    return found


def _missed_group(pool: Pool, labels: Labels) -> list[str]:
    """Return a message if the largest gap between rows separates a group that is too small to become a cluster."""
    tree, n = pool.tree, len(pool.X)
    if n < MIN_GROUP / SMALL_SHARE:
        return []
    second, gap = np.linalg.norm(pool.X[tree.heads[-2:]] - pool.X[tree.tails[-2:]], axis=1)
    if gap < CLEAR_GAP * second:
        return []
    edges = (np.ones(n - 2), (tree.heads[:-1], tree.tails[:-1]))
    side = connected_components(coo_matrix(edges, shape=(n, n)), directed=False)[1] == 1
    small = side if 2 * side.sum() <= n else ~side
    n_small, size = int(small.sum()), reliable_size(n)
    shared = np.isin(labels, labels[small]).sum()
    if not MIN_GROUP <= n_small < size or shared <= 2 * n_small:
        return []
    return [
        f"The largest gap in the data separates {n_small} rows from all others, but they are not a cluster of their "
        f"own: among {n:,} rows, groups of fewer than about {size} are not found. Look at these rows separately."
    ]


def about_clusters(
    X: Floats,
    labels: Labels,
    rows: NDArray[np.intp],
    n_clusters: int,
    preparation: Preparation,
    names: Sequence[str] | None,
) -> list[str]:
    """Return what the clusters show after the fit; X are the prepared `rows` of those that have labels."""
    small = small_clusters(labels, n_clusters)
    return small if preparation.projection is not None else [*deciding_column(X, labels[rows], names), *small]


def small_clusters(labels: Labels, n_clusters: int) -> list[str]:
    """Return a message if clusters are so small that they may be arbitrary."""
    labels = labels[labels >= 0]
    counts, n = np.bincount(labels, minlength=n_clusters), len(labels)
    limit = min(reliable_size(n), math.ceil(SMALL_SHARE * n / n_clusters))  # in small data all clusters are small
    small = [f"{cluster} ({count})" for cluster, count in enumerate(counts.tolist()) if 0 < count < limit]
    if not small:
        return []
    return [
        f"Clusters with very few rows: {some(small)}. Among {n:,} rows, groups of fewer than about "
        f"{reliable_size(n)} are not found reliably, so check them, or lower n_clusters."
    ]


def deciding_column(X: Floats, labels: Labels, names: Sequence[str] | None) -> list[str]:
    """Return a message if one column alone reproduces the clusters, and the other columns together do not.

    X are scaled rows. If the other columns show the same clusters, these are a structure of the data; if they do not,
    the clusters only repeat the column. Columns called "name=value" stand for the categories of one column.
    """
    rows = np.linspace(0, len(X) - 1, min(len(X), COLUMN_ROWS)).astype(np.intp)
    clusters, labels = np.unique(labels[rows], return_inverse=True)
    X, parts, n_clusters = X[rows], _table_columns(names, X.shape[1]), len(clusters)
    if n_clusters < 2 or len(parts) < 2 or len(X) < max(MIN_COLUMN_ROWS, MIN_GROUP * n_clusters):
        return []
    for name, places in parts.items():
        if _reproduces(X[:, places], labels, n_clusters):
            if _shown(np.delete(X, places, axis=1), labels) < SHOWN:
                return [
                    f"Column {name} alone reproduces the clusters, and the other columns do not show them. "
                    "Leave it out if it should not decide."
                ]
    return []


def index_columns(X: Rows, names: Sequence[str] | None) -> list[str]:
    """Return a message for columns of whole numbers that count the rows, in order or shuffled, or grow in every row."""
    seen = np.asarray(X[:INDEX_ROWS])
    if seen.shape[1] < 2:
        return []
    found = [j for j in range(seen.shape[1]) if looks_like_index(seen[:, j], is_all=len(seen) == len(X))]
    if not found or len(found) == seen.shape[1]:  # a table of ranks
        return []
    listed = some([quoted(names, j) for j in found])
    plural, verb = ("s", "look") if len(found) > 1 else ("", "looks")
    return [f"Column{plural} {listed} {verb} like an index or an identifier of the rows. Leave it out before fitting."]


def _table_columns(names: Sequence[str] | None, n_columns: int) -> dict[str, list[int]]:
    """Return the columns of the table by name, each with its columns of numbers."""
    found: dict[str, list[int]] = {}
    for j in range(n_columns):
        name = quoted(names, j)
        found.setdefault(repr(name[1:].partition("=")[0]) if "=" in name else name, []).append(j)
    return found


def _reproduces(column: Floats, labels: Labels, n_clusters: int) -> bool:
    """Say whether the clusters, 0 to n_clusters - 1, follow from a column: an interval for each, or some categories."""
    errors = (1 - REPRODUCED) * len(labels)
    if column.shape[1] == 1:
        ordered = labels[np.lexsort((labels, column[:, 0]))]
        if np.count_nonzero(np.diff(ordered)) > n_clusters - 1 + 2 * errors:
            return False
    counts = contingency(np.unique(column, axis=0, return_inverse=True)[1].ravel(), labels)  # (values, clusters)
    if column.shape[1] > 1:
        return bool(len(labels) - counts.max(1).sum() <= errors)
    order = np.argsort(np.arange(len(counts)) @ counts / counts.sum(0))  # of the clusters, along the column
    below = np.vstack([np.zeros(n_clusters, dtype=np.int64), counts.cumsum(0)])[:, order]
    ends = np.append((below[:, :-1] - below[:, 1:]).argmax(0), len(counts))  # the best border of each pair of them
    inside = np.take_along_axis(below, np.stack([np.append(0, ends[:-1]), ends]), axis=0)
    return bool(len(labels) - (inside[1] - inside[0]).sum() <= errors)


def _shown(X: Floats, labels: Labels) -> float:
    """Return how far neighbours belong to the same cluster, as a mean over clusters: 0 as by chance, 1 always."""
    near = cKDTree(X).query(X, REST_NEIGHBORS + 1)[1][:, 1:]
    same = (labels[near] == labels[:, None]).mean(1)
    chances = {int(cluster): float((labels == cluster).mean()) for cluster in np.unique(labels)}
    return float(np.mean([(same[labels == c].mean() - chance) / (1 - chance) for c, chance in chances.items()]))
