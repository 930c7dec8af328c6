"""The part of a fitted model that labels rows: scale, encode, compare with the centres. Nothing here is trained.

NumPy is all that it needs: a row is labelled without torch, scikit-learn and SciPy.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from numbers import Real
from typing import Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from knet.arrays import LOG_FLOOR, AnyArray, Floats, Labels, Rows, row_blocks, squared_distances
from knet.exceptions import ZeroRowError
from knet.model.certainty import MIN_CONFIDENCE, Certainty
from knet.model.encoder import RowEncoder
from knet.model.naming import PLAIN, Naming
from knet.model.reference import Reference
from knet.prepare.preparation import Preparation
from knet.prepare.scaling import Scaling
from knet.rows.numbers import float_dtype
from knet.threads import in_threads

Filled = TypeVar("Filled", bound=AnyArray)

BLOCK_ROWS = 1024  # rows that pass through the network at a time: their hidden layer stays in a core's cache
KERNEL_VALUES = 2**20  # values of a block of kernel rows, which should stay in a cache
TORCH_BLOCKS = 16  # blocks of a network that is not entered by several threads: it uses threads itself


@dataclass(frozen=True, eq=False)
class Clusters:
    """Cluster centres in the embedding, and what is computed from them."""

    centers: Floats  # (c, d'), in the precision of the encoder
    spread: float  # mean squared distance of the training rows to their centre, per dimension

    def gaps(self, Psi: Floats, scores: Floats) -> Floats:
        """Return how much farther than its own centre each centre is from embedded rows, (n, c) [PROBA].

        The difference of the squared distances, divided by the squared distance to the own centre plus that between
        neighbouring centres. Far from all centres it tends to 0.
        """
        top = scores.max(1)
        nearest = np.maximum(np.square((Psi - self.frame[0]).astype(np.float64)).sum(1) - 2 * top, 0)
        gaps: Floats = 2 * (top[:, None] - scores) / (nearest + self.side)[:, None]
        return gaps

    def scores(self, Psi: Floats) -> Floats:
        """Return psi c' - ||c||^2 / 2 of embedded rows, from the middle of the centres; largest for the nearest one."""
        middle, centers, heights = self.frame
        scores: Floats = (Psi - middle).astype(centers.dtype, copy=False) @ centers.T
        scores += heights
        return scores

    @cached_property
    def side(self) -> float:
        """The squared distance between neighbouring centres: the median over clusters; at least the spread."""
        D2 = squared_distances(self.frame[1], self.frame[1])
        np.fill_diagonal(D2, np.inf)
        return max(float(np.median(D2.min(1))), self.spread) if len(D2) > 1 else 1.0

    @cached_property
    def frame(self) -> tuple[Floats, Floats, Floats]:
        """The middle of the centres, the centres from there, and minus half their squared norms.

        A centre that equals an earlier one but for rounding is never the nearest: a fit of fewer different rows than
        clusters has such centres, and a row must get the same label in every batch.
        """
        middle = self.centers.mean(0)
        centers = (self.centers - middle).astype(np.float64)  # double tells near ties apart
        rounding = 32 * np.finfo(self.centers.dtype).eps * float(np.abs(self.centers).max(initial=0))
        first = np.array([int((np.abs(centers - center).max(1) <= rounding).argmax()) for center in centers])
        norms = np.square(centers).sum(1)
        lowered = np.where(first < np.arange(len(centers)), 1e-6 * norms.max() + self.spread, 0)
        return middle, centers[first], -0.5 * norms[first] - lowered

    def __getstate__(self) -> dict[str, object]:
        """Return the fields alone: what was cached can be made again."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True, eq=False)
class Predictor:
    """All that new rows need, and nothing that grows with the training rows."""

    preparation: Preparation  # what happens to rows before they are encoded
    encoder: RowEncoder  # psi: prepared rows, (n, d), to their embedding, (n, d')
    sigma: float  # width of the learned kernel
    clusters: Clusters  # centres in the embedding
    landmarks: Floats  # (m, d'): a summary of the embedded training rows, whose degrees are sums over it
    weights: Floats  # (m,): how many rows each landmark stands for
    certainty: Certainty  # how sure the model is of a row and how familiar the row is
    reference: Reference  # what the training rows were like, so that rows that are unlike them are noticed
    naming: Naming = PLAIN  # the labels of the centres, and what the user changed about them

    def arrays(self) -> dict[str, Floats]:
        """Return all arrays except those of the encoder by name, as a model file stores them."""
        own = {name: getattr(self, name) for name in ("centers", "landmarks", "weights")}
        return {**self.preparation.arrays(), **own, **self.certainty.arrays(), **self.reference.arrays()}

    @property
    def centers(self) -> Floats:
        """Cluster centres in the embedding, in the precision of the encoder, (c, d')."""
        return self.clusters.centers

    def numbered(
        self, X: Rows, counted: NDArray[np.intp] | None, *, by_size: bool
    ) -> tuple[Self, NDArray[np.int64], Floats]:
        """Return the predictor, its labels of the rows X and their probabilities; the largest cluster comes first.

        Sizes are those of the labels at the positions `counted`, each as often as it occurs; None is all. If not
        `by_size`, the clusters keep their numbers. The probability of a row without any value, label -1, is 0.
        """

        def both_of(model: Predictor, block: Rows) -> Floats:
            Z, known = model.features(block), model.preparation.known(block)
            P, labels = model._memberships(Z, model.encoder(Z), known)
            both: Floats = np.stack([labels.astype(np.float64), P.max(1)], axis=1)
            if known is not None:
                both[known == 0] = -1, 0
            return both

        found = self._in_blocks(both_of, X, np.empty((X.shape[0], 2)))
        labels, probabilities = found[:, 0].astype(np.int64), found[:, 1].astype(float_dtype(X))
        if not by_size:
            return self, labels, probabilities
        counts = np.bincount(1 + (labels if counted is None else labels[counted]), minlength=1 + len(self.centers))
        order = np.argsort(-counts[1:], kind="stable")  # rows without any value have the label -1
        clusters = replace(self.clusters, centers=self.centers[order])
        reference = replace(self.reference, cluster_sizes=self.reference.cluster_sizes[order])
        predictor = replace(self, clusters=clusters, reference=reference)
        return predictor, np.append(np.argsort(order), -1)[labels], probabilities

    @property
    def n_labels(self) -> int:
        """One more than the largest label: the number of clusters, unless clusters have vanished or been split."""
        return self.naming.n_labels(len(self.centers))

    @property
    def unedited(self) -> "Predictor":
        """The same model with the clusters of the fit, before any merge or split."""
        return self if self.naming.is_plain else replace(self, naming=PLAIN)

    @property
    def scaling(self) -> Scaling:
        """The scaling of the columns."""
        return self.preparation.scaling

    def features(self, block: Rows) -> Floats:
        """Return what the encoder gets: prepared rows, in the precision of the encoder."""
        return self.preparation(block).astype(self.centers.dtype, copy=False)

    def embed(self, X: Rows) -> Floats:
        """Return psi of every row, block by block, in the dtype of X."""
        out = np.empty((X.shape[0], self.centers.shape[1]), float_dtype(X))
        return self._in_blocks(lambda model, block: model.encoder(model.features(block)), X, out)

    def assign(self, X: Rows, reject: float | None = None) -> NDArray[np.int64]:
        """Return the nearest centre of every row, or -1 for a row without any value or one that is rejected.

        With `reject`, a row gets -1 if it is less familiar than all but this share of the training rows, or if its
        largest membership is below 1/2.
        """
        threshold = self.threshold(reject)

        def labels_of(model: Predictor, block: Rows) -> Labels:
            Z, known = model.features(block), model.preparation.known(block)
            if threshold is None:
                labels = model.label_prepared(Z)
            else:
                P, labels = model._memberships(Z, model.encoder(Z), known)
                rejected = (model.certainty.familiarity(Z) < threshold) | (P.max(1) < MIN_CONFIDENCE)
                labels = np.where(rejected, -1, labels)
            return labels if known is None else np.where(known == 0, -1, labels)

        return self._in_blocks(labels_of, X, np.empty(X.shape[0], np.int64))

    def threshold(self, reject: float | None) -> float | None:
        """Return the familiarity below which a row is rejected; None if no row is. Raise if `reject` is not a share."""
        if reject is None:
            return None
        if isinstance(reject, bool) or not isinstance(reject, Real) or not 0 <= reject < 1:
            raise ValueError(f"The 'reject' parameter must be None or a number in [0, 1). Got {reject!r} instead.")
        return self.certainty.threshold(float(reject))

    def memberships(self, X: Rows) -> Floats:
        """Return soft memberships, (n, c), whose largest says how often the label is right [PROBA]."""
        out = np.empty((X.shape[0], self.n_labels), float_dtype(X))

        def memberships_of(model: Predictor, block: Rows) -> Floats:
            Z = model.features(block)
            P, labels = model._memberships(Z, model.encoder(Z), model.preparation.known(block))
            return _with_argmax(P.astype(out.dtype), labels)

        return self._in_blocks(memberships_of, X, out)

    def familiarity(self, X: Rows) -> Floats:
        """Return log of the mean kernel value between every row and the training rows [FAMILIAR]; always finite."""
        out = np.empty(X.shape[0], float_dtype(X))

        least = np.finfo(out.dtype).min  # the value of a row may exceed the range of single precision
        return self._in_blocks(
            lambda model, block: np.maximum(model.certainty.familiarity(model.features(block)), least), X, out
        )

    def kernel(self, X: Rows, Y: Rows) -> Floats:
        """Return the normalised learned kernel between rows of X and rows of Y [KERNEL]."""
        Psi_X, Psi_Y = self.embed(X).astype(np.float64), self.embed(Y).astype(np.float64)
        root_X, root_Y = self._root_degrees(Psi_X), self._root_degrees(Psi_Y)
        out = np.empty((X.shape[0], Y.shape[0]), float_dtype(X))

        def fill(rows: slice) -> None:
            out[rows] = self._gaussian(Psi_X[rows], Psi_Y) / root_X[rows, None] / root_Y

        in_threads(fill, row_blocks(X.shape[0], Y.shape[0], KERNEL_VALUES))
        return out

    def _gaussian(self, Psi: Floats, others: Floats) -> Floats:
        """Return exp(-||psi_i - psi_j||^2 / (2 sigma^2)) for all pairs."""
        exponents = squared_distances(Psi / self.sigma, others / self.sigma)
        exponents *= -0.5
        return np.exp(np.maximum(exponents, LOG_FLOOR, out=exponents), out=exponents)

    def _root_degrees(self, Psi: Floats) -> Floats:
        """Return the square root of each row's degree; a row is at least its own neighbour, so none is below 1."""
        landmarks, d = self.landmarks.astype(np.float64), np.empty(len(Psi))

        def fill(rows: slice) -> None:
            d[rows] = self._gaussian(Psi[rows], landmarks) @ self.weights

        in_threads(fill, row_blocks(len(Psi), len(landmarks), KERNEL_VALUES))
        return np.sqrt(np.maximum(d, 1.0))

    def _in_blocks(self, compute: Callable[["Predictor", Rows], AnyArray], X: Rows, out: Filled) -> Filled:
        """Fill `out` block by block, in single precision if X is; blocks of the default network run on all cores."""
        model = self._single if float_dtype(X) == np.float32 and self.centers.dtype == np.float64 else self

        def work(rows: slice) -> None:
            with np.errstate(all="ignore"):  # rows far from the training rows may overflow on the way to their label
                try:
                    out[rows] = compute(model, X[rows])
                except ZeroRowError as error:
                    raise ZeroRowError(rows.start + error.row) from None

        if self.encoder.in_threads:
            in_threads(work, row_blocks(X.shape[0], max_rows=BLOCK_ROWS))
        else:
            for rows in row_blocks(X.shape[0], max_rows=TORCH_BLOCKS * BLOCK_ROWS):
                work(rows)
        return out

    @cached_property
    def _single(self) -> "Predictor":
        """The same model in single precision."""
        single = np.float32
        return replace(
            self,
            encoder=self.encoder.astype(single),
            clusters=replace(self.clusters, centers=self.centers.astype(single)),
            landmarks=self.landmarks.astype(single),
            certainty=self.certainty.astype(single),
        )

    def __getstate__(self) -> dict[str, object]:
        """Return the fields alone: what was cached can be made again."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def _memberships(self, Z: Floats, Psi: Floats, known: Floats | None) -> tuple[Floats, NDArray[np.int64]]:
        """Return the memberships of prepared and embedded rows, and their labels.

        A row of which nothing is known belongs to all clusters equally. The share of the row that is missing counts
        squared: what a few missing cells say is mostly said by the others [GAPS].
        """
        scores = self.clusters.scores(Psi)
        P = np.exp(-self.clusters.gaps(Psi, scores) * self.certainty.sharpness(Z)[:, None])
        P /= P.sum(1, keepdims=True)
        labels = self._relabelled(scores.argmax(1), Z)
        P = P if self.naming.is_plain else self.naming.spread(P, Z, self.certainty.places, labels)
        if known is not None:
            unknown = np.square(1 - known)[:, None]
            P = (1 - unknown) * P + unknown / P.shape[1]
        return P, labels

    def label_prepared(self, Z: Floats) -> NDArray[np.int64]:
        """Return the labels of a few prepared rows."""
        return self._relabelled(self.clusters.scores(self.encoder(Z)).argmax(1), Z)

    def _relabelled(self, nearest: NDArray[np.intp], Z: Floats) -> NDArray[np.int64]:
        """Return the labels of prepared rows from the numbers of their nearest centres."""
        return nearest if self.naming.is_plain else self.naming.relabel(nearest, Z, self.certainty.places)


def _with_argmax(P: Floats, labels: NDArray[np.int64]) -> Floats:
    """Make the label the argmax of every row: rounding may have made two memberships equal."""
    (tied,) = np.nonzero(P.argmax(1) != labels)
    P[tied, labels[tied]] = np.nextafter(P[tied].max(1), P.dtype.type(2))
    return P
