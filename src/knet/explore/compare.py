"""Two clusterings of the same rows: which clusters match, split, merged, appeared or vanished; which rows moved."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linear_sum_assignment

from knet.arrays import Floats, Frame, Json, Labels
from knet.estimator import KNet
from knet.explore.features import describe_columns, explained_variance
from knet.metrics import rand_index, rand_index_of
from knet.model.display import html_list, html_table, to_frame
from knet.model.light import LightModel, load_light
from knet.rows.dense import dense_rows
from knet.rows.kinds import admit, column_names
from knet.rows.numbers import to_numbers

Clustering: TypeAlias = KNet | LightModel | str | os.PathLike[str] | ArrayLike

DRAWS = 200  # samples of the rows for the uncertainty of the agreement
REASONS = 3  # columns that explain a move, at most
MIN_EXPLAINED = 0.02  # share of the variance of a column that a move has to explain
SHOWN_MOVES = 5  # moves with reasons, the largest ones
UNFAMILIAR = "unfamiliar"  # instead of a cluster: rows that the first model rejects


@dataclass(frozen=True)
class Move:
    """Rows, `n_rows` of them, that changed from the cluster `before` to `after`, which does not match it.

    `reasons` are columns by which they differ from the rows that stayed; empty if none does, or columns are not known.
    """

    before: str
    after: str
    n_rows: int
    reasons: list[str] = field(default_factory=list)


@dataclass(frozen=True, eq=False)
class Comparison:
    """How two clusterings of the same rows differ.

    Attributes
    ----------
    before, after : list of str
        The clusters of both, by label or name.
    counts : ndarray of shape (n_before, n_after)
        How many rows are in each pair of clusters.
    matches : dict of str to str
        Clusters of the first that match one of the second: one to one, with more than half of the rows of either.
    agreement, low, high : float
        Adjusted Rand index, 1 = identical, and the range of 95 % of its values on samples of the rows.
    changes : list of str
        What stayed, split, merged, appeared and vanished, in sentences.
    moves : list of Move
        Rows that moved between clusters that do not match, the largest moves first.
    moved_rows : ndarray of int
        The positions of these rows.
    """

    before: list[str]
    after: list[str]
    counts: Labels
    matches: dict[str, str]
    agreement: float
    low: float
    high: float
    changes: list[str]
    moves: list[Move]
    moved_rows: Labels = field(repr=False)

    @property
    def n_rows(self) -> int:
        """The number of rows that were compared."""
        return int(self.counts.sum())

    @property
    def share_moved(self) -> float:
        """The share of the rows that moved."""
        return len(self.moved_rows) / max(1, self.n_rows)

    def to_frame(self) -> Frame:
        """Return the table of moves as a pandas DataFrame: before, after, rows, and whether the clusters match."""
        return to_frame([pair | {"match": self.matches.get(pair["before"]) == pair["after"]} for pair in self._pairs()])

    def to_dict(self) -> dict[str, object]:
        """Return the comparison as plain JSON."""
        return {
            "rows": self.n_rows,
            "moved": len(self.moved_rows),
            "agreement": round(self.agreement, 4),
            "range": [round(self.low, 4), round(self.high, 4)],
            "matches": self.matches,
            "changes": self.changes,
            "moves": [vars(move) for move in self.moves],
            "table": self._pairs(),
        }

    def _pairs(self) -> list[dict[str, Json]]:
        return [
            {"before": self.before[row], "after": self.after[column], "rows": int(self.counts[row, column])}
            for row, column in zip(*np.nonzero(self.counts), strict=True)
        ]

    def _repr_html_(self) -> str:
        title, *changes = repr(self).splitlines()
        return moves_table(title, self.moves) + html_list(changes)

    def __repr__(self) -> str:
        title = (
            f"{self.n_rows:,} rows, of which {self.share_moved:.1%} moved; agreement {self.agreement:.3f} "
            f"({self.low:.3f} to {self.high:.3f}, 1 = identical)"
        )
        return "\n".join([title, *self.changes])


def moves_table(caption: str, moves: Sequence[Move]) -> str:
    """Return moves as a table in HTML."""
    rows = [(move.before, move.after, move.n_rows, "; ".join(move.reasons)) for move in moves]
    return html_table(caption, ("before", "after", "rows", "why"), rows)


def compare(first: Clustering, second: Clustering, X: ArrayLike | None = None) -> Comparison:
    """Compare two clusterings of the same rows.

    Parameters
    ----------
    first, second : KNet, LightModel, path of a model file, or array-like of shape (n_samples,)
        Models, which label X, or labels of any kind.
    X : array-like of shape (n_samples, n_features), optional
        The rows. Models need them; with labels alone, they say by which columns rows that moved differ.

    Returns
    -------
    Comparison
        Matched clusters, changes in words, moves and their reasons, agreement and its range.

    Examples
    --------
    >>> from knet import compare
    >>> compare(["a", "a", "b", "b"], [0, 0, 1, 2]).matches
    {'a': '0', 'b': '1'}
    """
    rows = None if X is None else admit(X)
    labels = [_labels(clustering, rows) for clustering in (first, second)]
    if labels[0].shape != labels[1].shape:
        raise ValueError(f"Both clusterings must have the same rows. Got {len(labels[0])} and {len(labels[1])} labels.")
    if rows is None:
        return compare_labels(labels[0], labels[1])
    models = [model for model in (first, second) if isinstance(model, KNet)]
    numbers = dense_rows(to_numbers(rows, None)).astype(np.float64)
    if models:
        owners = [name for feature in describe_columns(models[0], numbers) for name in feature.names()]
    else:
        owners = [str(name) for name in column_names(rows) or range(numbers.shape[1])]
    return compare_labels(labels[0], labels[1], numbers, owners)


def _labels(clustering: Clustering, X: ArrayLike | None) -> NDArray[np.object_]:
    """Return the labels of a clustering as texts: names of clusters if they have any."""
    if isinstance(clustering, str | os.PathLike):
        clustering = load_light(clustering)
    if not isinstance(clustering, KNet | LightModel):
        return np.array([str(label) for label in np.asarray(clustering).tolist()], dtype=object)
    if X is None:
        raise ValueError("A model needs rows to label: compare(first, second, X).")
    predictor = clustering.predictor_ if isinstance(clustering, KNet) else clustering.predictor
    return predictor.naming.named(clustering.predict(X))


def compare_labels(
    first: ArrayLike, second: ArrayLike, X: Floats | None = None, columns: Sequence[str] = ()
) -> Comparison:
    """Compare labels of the same rows; X and its column names explain moves."""
    (before, a), (after, b) = (_codes(np.asarray(labels, dtype=object)) for labels in (first, second))
    counts = np.zeros((len(before), len(after)), dtype=np.int64)
    np.add.at(counts, (a, b), 1)
    known = np.array([name != UNFAMILIAR for name in before])
    pairs = match(counts * known[:, None])
    partner = np.full(len(before), -1)
    for row, column in pairs.items():
        partner[row] = column
    moved = np.flatnonzero((partner[a] != b) & known[a])
    moves: list[Move] = []
    off = counts * known[:, None]
    off[list(pairs), list(pairs.values())] = 0
    for place in np.argsort(-off, axis=None, kind="stable")[: np.count_nonzero(off)]:
        row, column = np.unravel_index(place, off.shape)
        largest = X is not None and len(moves) < SHOWN_MOVES
        reasons = _reasons(X, columns, (a == row) & (b == column), (a == row) & (b != column)) if largest else []
        moves.append(Move(before[row], after[column], int(off[row, column]), reasons))
    low, high = _range(counts)
    matches = {before[row]: after[column] for row, column in pairs.items()}
    changes = list(_changes(before, after, counts, pairs))
    return Comparison(before, after, counts, matches, rand_index(a, b), low, high, changes, moves, moved)


def _codes(labels: NDArray[np.object_]) -> tuple[list[str], Labels]:
    """Return the different labels, numbers in their order, and the place of each row's label among them."""
    texts = [str(label) for label in labels.tolist()]
    names = sorted(set(texts), key=lambda name: (not name.lstrip("-").isdigit(), len(name), name))
    places = {name: place for place, name in enumerate(names)}
    return names, np.array([places[text] for text in texts], dtype=np.int64)


def match(counts: Labels) -> dict[int, int]:
    """Return which clusters match: one to one, with the most shared rows, if these are more than half of either."""
    mostly = (2 * counts > counts.sum(1, keepdims=True)) | (2 * counts > counts.sum(0))
    rows, columns = linear_sum_assignment(np.where(mostly, counts, 0), maximize=True)
    found = zip(rows.tolist(), columns.tolist(), strict=True)
    return {row: column for row, column in found if mostly[row, column] and counts[row, column]}


def _changes(before: list[str], after: list[str], counts: Labels, pairs: dict[int, int]) -> Iterator[str]:
    """Yield what happened to clusters, in words: splits, merges, clusters that appeared, vanished and stayed."""
    sizes, new_sizes = counts.sum(1), counts.sum(0)
    goes_to = [int(row.argmax()) if 2 * row.max() > row.sum() else -1 for row in counts]
    comes_from = [int(column.argmax()) if 2 * column.max() > column.sum() else -1 for column in counts.T]
    old = [row for row, name in enumerate(before) if name != UNFAMILIAR]
    parts = {row: [column for column, source in enumerate(comes_from) if source == row] for row in old}
    wholes = {column: [row for row in old if goes_to[row] == column] for column in range(len(after))}
    split = {row: columns for row, columns in parts.items() if len(columns) > 1}
    merged = {column: rows for column, rows in wholes.items() if len(rows) > 1}
    told = {column for columns in split.values() for column in columns} | merged.keys()
    for row, columns in split.items():
        yield f"Cluster {before[row]} ({sizes[row]:,} rows) split into {_listed(after, new_sizes, columns)}."
    for column, rows in merged.items():
        yield f"Clusters {_listed(before, sizes, rows)} merged into {after[column]} ({new_sizes[column]:,} rows)."
    for column in [column for column in range(len(after)) if column not in told and column not in pairs.values()]:
        source = "rows that were unfamiliar before" if comes_from[column] not in old else "rows of several clusters"
        yield f"Cluster {after[column]} ({new_sizes[column]:,} rows) appeared: {source}."
    done = [*split, *(row for rows in merged.values() for row in rows)]
    for row in [row for row in old if row not in done]:
        if row in pairs:
            kept, name = counts[row, pairs[row]], after[pairs[row]]
            as_name = "" if name == before[row] else f" as {name}"
            others = new_sizes[pairs[row]] - kept
            yield f"Cluster {before[row]} stayed{as_name}: {kept:,} of {sizes[row]:,} rows, and {others:,} others."
        else:
            target = f"; most of its rows are now in {after[goes_to[row]]}" if goes_to[row] >= 0 else ""
            yield f"Cluster {before[row]} ({sizes[row]:,} rows) vanished{target}."


def _listed(names: list[str], sizes: Labels, places: list[int]) -> str:
    texts = [f"{names[place]} ({sizes[place]:,} rows)" for place in places]
    return f"{', '.join(texts[:-1])} and {texts[-1]}"


def _reasons(
    X: Floats | None, columns: Sequence[str], moved: NDArray[np.bool_], stayed: NDArray[np.bool_]
) -> list[str]:
    """Return the columns by which rows that moved differ from those of the same cluster that did not."""
    if X is None or min(moved.sum(), stayed.sum()) < 2:
        return []
    rows = moved | stayed
    shares = explained_variance(X[rows], moved[rows].astype(np.int64))
    best = [place for place in np.argsort(-shares, kind="stable")[:REASONS] if shares[place] >= MIN_EXPLAINED]
    return [
        f"{columns[place]} {'higher' if np.median(X[moved, place]) > np.median(X[stayed, place]) else 'lower'}: "
        f"{np.median(X[moved, place]):.4g} instead of {np.median(X[stayed, place]):.4g}"
        for place in best
    ]


def _range(counts: Labels) -> tuple[float, float]:
    """Return the range of 95 % of the values of the adjusted Rand index on samples of as many rows."""
    n, rng = int(counts.sum()), np.random.default_rng(0)
    draws = rng.multinomial(n, counts.ravel() / n, size=DRAWS)
    values = [rand_index_of(drawn.reshape(counts.shape)) for drawn in draws]
    low, high = np.quantile(values, (0.025, 0.975))
    return float(low), float(high)
