"""How the clusters of a model are numbered and named: ids that survive refits, and edits that can be undone.

A predictor finds the nearest of its centres. Each centre has a label: its number, unless a refit has kept the label of
an earlier cluster. Edits change labels in their order: a merge gives several clusters the smallest of their labels, a
split gives a new label to one side of a cluster. Labels are never used again. Needs NumPy only.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral
from typing import Self, TypedDict

import numpy as np
from numpy.typing import NDArray

from knet.arrays import Floats, Json, Labels, squared_distances

MAX_LABELS = 2**20  # larger labels would make memberships of very many columns
MAX_EDITS = 1000  # splits of a model


class Edit(TypedDict, total=False):
    """A change that a user made: names of clusters, or clusters that are one, or a cluster and its new part.

    `sides` says for each place of the model (`Certainty.places`) whether it is in the new part (1), in the rest of the
    cluster (0), or in another cluster (-1).
    """

    names: dict[str, str]
    merge: list[int]
    split: int
    new: int
    sides: list[int]


@dataclass(frozen=True)
class Naming:
    """Labels and names of clusters."""

    labels: tuple[int, ...] = ()  # of each centre, without edits; empty if it is the number of the centre
    names: Mapping[int, str] = field(default_factory=dict)  # of clusters, without edits
    edits: tuple[Edit, ...] = ()  # what the user changed, in this order
    n_used: int = 0  # how many labels have been used, those of clusters that vanished included

    def to_json(self) -> dict[str, object] | None:
        """Return the naming as plain JSON; None if there is nothing to store."""
        if self == PLAIN:
            return None
        names = {str(label): name for label, name in self.names.items()}
        return {"labels": list(self.labels), "names": names, "edits": list(self.edits), "n_used": self.n_used}

    @classmethod
    def from_json(cls, stored: Json, n_centers: int, n_places: int) -> Self:
        """Return a stored naming, or raise a ValueError if it does not fit the model: it may come from a stranger."""
        if stored is None:
            return cls()
        try:
            names = {int(label): str(name) for label, name in stored["names"].items()}
            naming = cls(tuple(stored["labels"]), names, (), stored["n_used"])
            numbers = [*naming.labels, naming.n_used, *names]
            if any(type(number) is not int or not 0 <= number < MAX_LABELS for number in numbers):
                raise ValueError("labels are whole numbers")
            if naming.labels and len(set(naming.labels)) != n_centers:
                raise ValueError("every centre has a label of its own")
            for edit in stored["edits"]:
                naming = naming._redo(edit, n_centers, n_places)
        except (KeyError, TypeError, AttributeError, OverflowError) as error:
            raise ValueError(f"{error!r}") from error
        return naming

    def _redo(self, edit: Edit, n_centers: int, n_places: int) -> Self:
        """Return the naming with a stored edit, or raise a ValueError if it could not have been made."""
        if edit.keys() == {"names"}:
            return self.renamed({int(label): name for label, name in edit["names"].items()}, n_centers)
        if edit.keys() == {"merge"}:
            return self.merged(edit["merge"], n_centers)
        sides = edit["sides"]
        if edit.keys() != {"split", "new", "sides"} or len(sides) != n_places or not {0, 1} <= set(sides) <= {-1, 0, 1}:
            raise ValueError("a split has two sides")
        if len(self.edits) >= MAX_EDITS or edit["new"] != self.next_label(n_centers):
            raise ValueError("a split uses the next label")
        return self.split(edit["split"], sides, n_centers)

    @property
    def is_plain(self) -> bool:
        """Whether the label of a row is the number of its centre."""
        return not self.labels and all("names" in edit for edit in self.edits)

    def of_centers(self, n_centers: int) -> list[int]:
        """Return the label of each centre, without edits."""
        return list(self.labels) or list(range(n_centers))

    def live(self, n_centers: int) -> list[int]:
        """Return the labels that rows may have, in ascending order."""
        found = set(self.of_centers(n_centers))
        for edit in self.edits:
            if "merge" in edit:
                found -= set(edit["merge"][1:])
            if "split" in edit:
                found.add(edit["new"])
        return sorted(found)

    def n_labels(self, n_centers: int) -> int:
        """Return one more than the largest label."""
        return self.live(n_centers)[-1] + 1

    def next_label(self, n_centers: int) -> int:
        """Return a label that has never been used."""
        used = [*self.of_centers(n_centers), *(edit["new"] for edit in self.edits if "split" in edit)]
        return max(self.n_used, max(used) + 1)

    @property
    def current_names(self) -> dict[int, str]:
        """The names of clusters, after all edits."""
        found = dict(self.names)
        for edit in self.edits:
            found |= {int(label): name for label, name in edit.get("names", {}).items()}
            for label in edit.get("merge", [])[1:]:
                found.pop(label, None)
        return found

    def renamed(self, names: Mapping[int, str], n_centers: int) -> Self:
        """Return the naming with other names of some clusters."""
        if not isinstance(names, Mapping) or not all(isinstance(name, str) and name for name in names.values()):
            raise ValueError(f"names must map clusters to texts, such as {{0: 'small'}}. Got {names!r} instead.")
        self.check(names, n_centers)
        given = {**self.current_names, **names}
        repeated = sorted({name for name in names.values() if list(given.values()).count(name) > 1})
        if repeated:
            raise ValueError(f"Names of clusters must differ. {repeated[0]!r} would name two of them.")
        return self._with(Edit(names={str(label): str(name) for label, name in names.items()}))

    def merged(self, labels: Sequence[int], n_centers: int) -> Self:
        """Return the naming in which some clusters are one, with the smallest of their labels."""
        self.check(labels, n_centers)
        if len(set(labels)) < 2:
            raise ValueError(f"A merge needs at least two clusters. Got {list(labels)}.")
        return self._with(Edit(merge=sorted({int(label) for label in labels})))

    def split(self, label: int, sides: Sequence[int], n_centers: int) -> Self:
        """Return the naming in which a side of a cluster is a cluster of its own."""
        self.check([label], n_centers)
        return self._with(Edit(split=int(label), new=self.next_label(n_centers), sides=list(sides)))

    def undone(self) -> Self:
        """Return the naming without the last edit."""
        if not self.edits:
            raise ValueError("There is no edit to undo: the clusters are those of the fit.")
        return replace(self, edits=self.edits[:-1])

    def _with(self, edit: Edit) -> Self:
        return replace(self, edits=(*self.edits, edit))

    def check(self, labels: Sequence[int] | Mapping[int, str], n_centers: int) -> None:
        """Raise an error if a label is none of the clusters'."""
        if isinstance(labels, str) or not isinstance(labels, Collection):
            raise ValueError(f"Clusters must be a list of labels, such as [0, 2]. Got {labels!r} instead.")
        live = self.live(n_centers)
        for label in labels:
            if isinstance(label, bool) or not isinstance(label, Integral) or label not in live:
                raise ValueError(f"There is no cluster {label!r}. The clusters are {', '.join(map(str, live))}.")

    def named(self, labels: Labels) -> NDArray[np.object_]:
        """Return the names of labels; one without a name is the number itself as text, and -1 is "rejected"."""
        names = self.current_names | {-1: "rejected"}
        found: NDArray[np.object_] = np.array([names.get(label, str(label)) for label in labels.tolist()], dtype=object)
        return found

    def relabel(self, nearest: Labels, Z: Floats, places: Floats) -> Labels:
        """Return the labels of prepared rows from the numbers of their nearest centres."""
        labels = np.array(self.labels, dtype=np.int64)[nearest] if self.labels else nearest
        for edit in self.edits:
            if "merge" in edit:
                labels = np.where(np.isin(labels, edit["merge"]), edit["merge"][0], labels)
            if "split" in edit:
                new = _new_shares(Z, places, edit["sides"]) > 0.5
                labels = np.where((labels == edit["split"]) & new, edit["new"], labels)
        return labels

    def spread(self, P: Floats, Z: Floats, places: Floats, labels: Labels) -> Floats:
        """Return the memberships of labels from those of centres; the largest is that of the row's label.

        If clusters that were merged are together more probable than the row's own cluster, both get their mean.
        """
        n_centers = P.shape[1]
        width = max(self.next_label(n_centers), self.n_labels(n_centers))
        out = np.zeros((len(P), width), dtype=P.dtype)
        out[:, self.of_centers(n_centers)] = P
        for edit in self.edits:
            if "merge" in edit:
                first, *others = edit["merge"]
                out[:, first] += out[:, others].sum(1)
                out[:, others] = 0
            if "split" in edit:
                new = out[:, edit["split"]] * _new_shares(Z, places, edit["sides"])
                out[:, edit["split"]] -= new
                out[:, edit["new"]] = new
        out = out[:, : self.n_labels(n_centers)]
        rows, top = np.arange(len(out)), out.argmax(1)
        means = (out[rows, top] + out[rows, labels]) / 2
        out[rows, top] = out[rows, labels] = means
        return out


def _new_shares(Z: Floats, places: Floats, sides: Sequence[int]) -> Floats:
    """Return how far prepared rows belong to the new part of a cluster: above 1/2 if their nearest place does."""
    own = np.array(sides)
    old, new = (squared_distances(Z, places[own == side]).min(1).astype(np.float64) for side in (0, 1))
    total = old + new
    shares: Floats = np.where(total > 0, old / np.where(total > 0, total, 1), 0.0)
    return shares


PLAIN = Naming()
