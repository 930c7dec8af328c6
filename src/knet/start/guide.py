"""The start of a fit that knows something about its rows: the chosen partition, corrected by what is known.

Two rows are similar if methods put them into the same group: the chosen candidate, all candidates for the same number
of groups, candidates for two and four times as many groups, and a Gaussian kernel of the rows; each has a quarter of
the weight. A regularised regression in this kernel (Gaussian process regression) extends known labels to all rows. Its
prior mean is the chosen partition, whose weight each known row per cluster halves. Its noise is the one that predicts
known rows best if each is left out in turn. Known rows keep their labels.

Pairs that have to be together or apart work in the same way: they choose among the candidates, the rows that they
mention get the labels of the chosen one, except where that would break a pair, and these corrections are extended.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import pdist

from knet.arrays import Floats, Labels, row_blocks, squared_distances
from knet.rows.kinds import some
from knet.start.candidates import Pool
from knet.start.evidence import Evidence
from knet.start.neighbors import Indices
from knet.start.settle import settle

FINER = (2, 4)  # candidates for so many times as many groups tell finer differences
FINER_METHODS = ("graph 10", "genie 0.3", "k-means", "full mixture from k-means")
MAX_GROUPS = 60  # of finer candidates: their time grows with the groups
MAX_EXAMPLES = 1000  # rows that the regression learns from, at most
NOISES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)  # variances of the noise that are compared
CLEAR_ODDS = 20  # at which pairs overrule the judge
WIDTH = 0.5  # of the Gaussian kernel, in median distances between rows
WIDTH_ROWS = 500  # rows that the median distance is taken over


@dataclass(frozen=True)
class Similarity:
    """A kernel between rows: shares of partitions that put two rows together, and a Gaussian of their distance."""

    X: Floats
    width: float
    partitions: Sequence[Labels]
    weights: Sequence[float]
    own: float  # weight of the Gaussian

    @classmethod
    def of(cls, pool: Pool, chosen: Labels, others: Sequence[Labels], finer: Sequence[Labels]) -> "Similarity":
        """Return the kernel of a pool: a quarter of the weight for each kind of partition, and for the rows."""
        kinds = [[chosen], others, finer] if finer else [[chosen], others]
        quarter = 1 / (len(kinds) + 1)
        weights = [quarter / len(kind) for kind in kinds for _ in kind]
        width = WIDTH * float(np.median(pdist(pool.X[pool.order[:WIDTH_ROWS]]))) or 1.0
        return cls(pool.X, width, [labels for kind in kinds for labels in kind], weights, quarter)

    def between(self, rows: Indices) -> Floats:
        """Return the kernel matrix of some rows."""
        K = self.own * self._gaussian(self.X[rows], rows)
        for labels, weight in zip(self.partitions, self.weights, strict=True):
            K += weight * (labels[rows][:, None] == labels[rows])
        return K

    def extend(self, rows: Indices, coefficients: Floats) -> Floats:
        """Return the kernel matrix of all rows and some, times coefficients (rows, columns), without storing it."""
        out = np.empty((len(self.X), coefficients.shape[1]))
        for block in row_blocks(len(self.X), len(rows), 2**20):
            out[block] = self.own * self._gaussian(self.X[block], rows) @ coefficients
        for labels, weight in zip(self.partitions, self.weights, strict=True):
            sums = np.zeros((int(labels.max()) + 1, coefficients.shape[1]))
            np.add.at(sums, labels[rows], weight * coefficients)
            out += sums[labels]
        return out

    def _gaussian(self, X: Floats, rows: Indices) -> Floats:
        K: Floats = np.exp(squared_distances(X, self.X[rows]) / (-2 * self.width**2))
        return K


def most_supported(partitions: Sequence[Labels], best: int, evidence: Evidence) -> int:
    """Return the position of the partition for which pairs speak at odds of `CLEAR_ODDS`; `best` if there is none.

    If a partition breaks a share r of m pairs, their log-likelihood is m (r log r + (1 - r) log (1 - r)).
    """
    supports = []
    for labels in partitions:
        broken, n_pairs = evidence.violations(labels)
        share = min((broken + 0.5) / (n_pairs + 1), 0.5)
        supports.append(n_pairs * (share * np.log(share) + (1 - share) * np.log(1 - share)))
    clearest = int(np.argmax(supports))
    return clearest if supports[clearest] - supports[best] > np.log(CLEAR_ODDS) else best


def finer_partitions(pool: Pool, n_clusters: int) -> list[Labels]:
    """Return candidates for more groups than are asked for."""
    found = []
    for count in (factor * n_clusters for factor in FINER):
        if count <= MAX_GROUPS and 3 * count < len(pool.X):
            pool.ask([count])
            found += [pool.partition(method, count) for method in FINER_METHODS]
    return found


def guide(
    pool: Pool, chosen: Labels, candidates: Sequence[Labels], evidence: Evidence, n_clusters: int, *, is_exact: bool
) -> Labels:
    """Return the chosen partition of the rows of a pool, corrected by what is known about some of them.

    Parameters
    ----------
    pool : Pool
        The rows, and finer candidates.
    chosen, candidates : ndarray, sequence of ndarrays
        The chosen partition into `n_clusters` groups, and all candidates.
    evidence : Evidence
        What is known about the rows of the pool, at least about one of them.
    n_clusters : int
        The number of groups of the candidates.
    is_exact : bool
        Whether there have to be `n_clusters` clusters. Otherwise, groups of the same known label become one.

    Returns
    -------
    labels : ndarray of shape (n,)
        Labels from 0 on; known labels are kept.
    """
    rng, known = pool.rng(), evidence.row_labels
    labels = _numbered(chosen, known, is_exact=is_exact)
    examples = known.copy()
    labelled, unnamed = np.unique(known[known >= 0]), np.setdiff1d(labels, known)
    weight = 0.5 ** (np.count_nonzero(known >= 0) / max(1, len(labelled)))  # of the prior
    for label in unnamed if len(labelled) else ():  # a group that no known label names has examples of its own
        rows = rng.permutation(np.flatnonzero((labels == label) & (evidence.sets < 0)))
        examples[rows[: round(np.count_nonzero(known >= 0) / len(labelled))]] = label
    prior = np.eye(int(max(labels.max(), evidence.n_labels - 1)) + 1)[labels]
    similarity = Similarity.of(pool, chosen, candidates, finer_partitions(pool, n_clusters))
    scores = _regression(similarity, prior, weight, examples, rng) if len(labelled) else prior
    rows, members = evidence.rows, evidence.sets[evidence.rows]
    if (evidence.labels < 0).any():
        affinity = np.zeros((len(evidence.labels), prior.shape[1]))
        np.add.at(affinity, members, scores[rows])
        examples[rows] = settle(evidence, affinity)[members]
        scores = _regression(similarity, prior, weight, examples, rng)
    corrected: Labels = scores.argmax(1)
    corrected[rows] = examples[rows]
    return corrected


def keep_evidence(
    labels: Labels, probabilities: Floats, memberships: Callable[[Indices], Floats], evidence: Evidence | None
) -> tuple[Labels, Floats]:
    """Return the predicted labels of all rows, with those that are known, and how likely each is right.

    `memberships` returns those of some rows. Sets without a known label get the one that their memberships
    suggest and that keeps the pairs.
    """
    if evidence is None or len(evidence.rows) == 0:
        return labels, probabilities
    rows, members, P = evidence.rows, evidence.sets[evidence.rows], memberships(evidence.rows)
    affinity = np.zeros((len(evidence.labels), P.shape[1]))
    np.add.at(affinity, members, P)
    kept, sure = labels.copy(), probabilities.copy()
    kept[rows] = settle(evidence, affinity)[members]
    sure[rows] = P[np.arange(len(rows)), kept[rows]]
    return kept, sure


def about_evidence(labels: Labels, predicted: Labels) -> list[str]:
    """Return a message if known rows have another label than the model alone would give them."""
    rows = np.flatnonzero(labels != predicted)
    if not len(rows):
        return []
    plural, verb = ("s", "are") if len(rows) > 1 else ("", "is")
    return [
        f"{len(rows)} row{plural} with known labels or pairs {verb} unlike the other rows of the cluster: row{plural} "
        f"{some(list(map(str, rows)))}. labels_ has what is known, and predict would label them otherwise."
    ]


def _numbered(chosen: Labels, known: Labels, *, is_exact: bool) -> Labels:
    """Return a partition whose groups have the numbers of the known labels that they match, one to one.

    Groups that match no label get the numbers that are left. If the number of clusters is free, a group with known
    rows that matches no label joins the label of most of them.
    """
    groups = int(chosen.max()) + 1
    present = np.unique(known[known >= 0])
    counts = np.zeros((groups, len(present)))
    np.add.at(counts, (chosen[known >= 0], np.searchsorted(present, known[known >= 0])), 1)
    shares = counts / counts.sum(0)
    matched, labels = linear_sum_assignment(-shares)
    numbers = np.full(groups, -1)
    numbers[matched] = present[labels]
    unmatched = [g for g in range(groups) if numbers[g] < 0]
    if not is_exact:
        for group in [g for g in unmatched if counts[g].any()]:
            numbers[group] = present[shares[group].argmax()]
            unmatched.remove(group)
    unused = [number for number in range(groups + len(present)) if number not in present]
    numbers[unmatched] = unused[: len(unmatched)]
    numbered: Labels = numbers[chosen].astype(np.int64)
    return numbered


def _regression(
    similarity: Similarity, prior: Floats, weight: float, examples: Labels, rng: np.random.RandomState
) -> Floats:
    """Return the score of every label for every row, (n, c), learned from examples: labels of some rows, -1 of others.

    The prior mean has a weight; the rest of it is the share of each label among the examples.
    """
    rows = rng.permutation(np.flatnonzero(examples >= 0))[:MAX_EXAMPLES]
    Y = np.eye(prior.shape[1])[examples[rows]]
    mean = weight * prior + (1 - weight) * Y.mean(0)
    values, vectors = np.linalg.eigh(similarity.between(rows))
    targets = vectors.T @ (Y - mean[rows])
    best, coefficients = np.inf, np.zeros_like(Y)
    for noise in NOISES:
        inverse = 1 / (np.maximum(values, 0) + noise)
        solved = vectors @ (inverse[:, None] * targets)
        left_out = solved / (np.square(vectors) @ inverse)[:, None]  # errors of rows that are left out in turn
        if (error := float(np.square(left_out).sum())) < best:
            best, coefficients = error, solved
    scores: Floats = mean + similarity.extend(rows, coefficients)
    return scores
