"""Models that label rows without torch and scikit-learn, from a model file or as the part of a KNet."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from knet.arrays import AnyArray, Floats, Json, Rows, RowsLike
from knet.exceptions import ModelFileError
from knet.model.certainty import Certainty
from knet.model.drift import Drift, drift, warn_if_foreign
from knet.model.encoder import RowEncoder, RowMLP
from knet.model.naming import Naming
from knet.model.predictor import Clusters, Predictor
from knet.model.read import ENCODER, FITTED, read_file
from knet.model.reference import Reference
from knet.prepare.gaps import Gaps
from knet.prepare.preparation import Preparation
from knet.prepare.scaling import Scaling
from knet.rows.numbers import to_numbers
from knet.rows.recipes import admit_table

if TYPE_CHECKING:
    from knet.estimator import KNet


@dataclass(frozen=True, eq=False)
class LightModel:
    """A fitted model that labels rows and cannot be fitted; it needs NumPy only. `knet.load_light` reads one.

    Attributes
    ----------
    predictor : Predictor
        What labels rows.
    names : tuple of str, or None
        Columns of the training rows, if they had names. A table may have its columns in another order, and others. A
        model with a recipe takes a table as the recipe does, and these are the numbers that the recipe makes of it.
    facts : dict
        What `knet info` prints: n_clusters, number, n_train, n_iter, best_iter, sigma, hsic, random_state.
    extra : dict
        What was stored with the model, such as the recipe of its columns.
    levels, hierarchy : list
        Numbers of clusters of coarser levels, and how the clusters join; see `knet.model.levels`.
    """

    predictor: Predictor
    names: tuple[str, ...] | None
    facts: dict[str, Json] = field(repr=False)
    extra: dict[str, Json] = field(repr=False)
    levels: list[int] = field(repr=False)
    hierarchy: list[list[int]] = field(repr=False)

    @classmethod
    def of(cls, model: KNet) -> Self:
        """Return the part of a fitted KNet that labels rows."""
        header = {name: getattr(model, f"{name}_") for name in (*FITTED, "sigma")}
        header |= {"params": model.get_params(deep=False), "extra": getattr(model, "extra_", {})}
        return cls.of_header(header | {"feature_names": getattr(model, "feature_names_in_", None)}, model.predictor_)

    @classmethod
    def of_header(cls, header: Mapping[str, Json], predictor: Predictor) -> Self:
        """Return a model with what the header of its file says about it."""
        names, number, history, best = (header[name] for name in ("feature_names", "number", "history", "best_iter"))
        facts = {
            "n_clusters": number["best"],
            "number": number["advice"],
            "n_train": header["n_train"],
            "n_iter": len(history),
            "best_iter": best,
            "sigma": round(float(header["sigma"]), 6),
            "hsic": round(history[best - 1]["hsic"], 6)
            if best
            else None,  # of the kept iteration, if it is not the start
            "random_state": header["params"].get("random_state"),
        }
        return cls(
            predictor=predictor,
            names=None if names is None else tuple(map(str, names)),
            facts=facts,
            extra=header["extra"],
            levels=number["levels"] if predictor.naming.is_plain else [],
            hierarchy=header["hierarchy"],
        )

    def __repr__(self) -> str:
        return f"LightModel(n_clusters={self.n_clusters}, n_features={self.n_features})"

    @property
    def n_features(self) -> int:
        """Number of columns that a row must have."""
        return len(self.predictor.scaling.shift)

    @property
    def n_clusters(self) -> int:
        """Number of clusters; if clusters have vanished or been split, one more than the largest label."""
        return self.predictor.n_labels

    def predict(self, X: ArrayLike, *, reject: float | None = None) -> NDArray[np.int64]:
        """Return the cluster of each row; with `reject`, -1 for rows that are rejected, as in `KNet.predict`."""
        rows = self._rows(X)
        labels = self.predictor.assign(rows, reject)
        warn_if_foreign(self.predictor, rows, self.names)
        return labels

    def drift(self, X: ArrayLike) -> Drift:
        """Return how rows differ from the training rows, as `KNet.drift` does."""
        return drift(self.predictor, self._rows(X), self.names)

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Return soft memberships, (n_samples, n_clusters); rows sum to 1 and the largest is that of `predict`."""
        return self.predictor.memberships(self._rows(X))

    def transform(self, X: ArrayLike) -> Floats:
        """Return psi(X), the embedded rows, of shape (n_samples, n_components)."""
        return self.predictor.embed(self._rows(X))

    def score_samples(self, X: ArrayLike) -> Floats:
        """Return how familiar each row is: the log of its mean kernel value to the training rows, at most 0."""
        return self.predictor.familiarity(self._rows(X))

    def _rows(self, X: RowsLike, dtype: DTypeLike | None = None) -> Rows:
        """Return rows as a finite array or CSR matrix; from a table, take the model's columns by name, in any order."""
        X = admit_table(X, self.extra.get("table"), self.n_features, self.names)
        rows = to_numbers(X, self.names, dtype=dtype, min_rows=0, gaps=self.predictor.preparation.gaps is not None)
        if rows.shape[1] != self.n_features:
            raise ValueError(f"The model needs rows of {self.n_features} columns. Got an array of shape {rows.shape}.")
        return rows


def load_light(path: str | os.PathLike[str]) -> LightModel:
    """Read a model that `KNet.save` wrote, to label rows; torch and scikit-learn are not imported.

    Results are bit-identical to those of the saved model, and the content is checked as in `knet.load`.

    Parameters
    ----------
    path : path-like
        The model file. A model with an encoder of your own is refused: it needs `knet.load` and the module.

    Returns
    -------
    model : LightModel
        A model with `predict`, `predict_proba`, `transform` and `score_samples`.
    """
    header, arrays = read_file(Path(path))
    if header["encoder"] != "mlp":
        raise needs_module(path)
    psi = RowMLP.from_state(encoder_state(arrays))
    return LightModel.of_header(header, restore_predictor(header, arrays, psi))


def needs_module(path: str | os.PathLike[str]) -> ModelFileError:
    """Return the error for a model whose encoder is the user's own, if its module was not given."""
    return ModelFileError(
        f"{path} was fitted with an encoder of your own, and files contain weights, not code. "
        "Load it in Python and pass the module: knet.load(path, encoder=MyEncoder())."
    )


def encoder_state(arrays: Mapping[str, AnyArray]) -> dict[str, AnyArray]:
    """Return the arrays of the encoder, by their names in it."""
    return {name.removeprefix(ENCODER): value for name, value in arrays.items() if name.startswith(ENCODER)}


def restore_predictor(header: Mapping[str, Json], arrays: Mapping[str, AnyArray], encoder: RowEncoder) -> Predictor:
    """Return the predictor of a model file."""
    return Predictor(
        preparation=Preparation(
            Scaling(**{column.name: arrays[column.name] for column in fields(Scaling)}),
            arrays.get("projection"),
            header["unit_length"],
            Gaps(**{part.name: arrays[part.name] for part in fields(Gaps)}) if "gap_mean" in arrays else None,
        ),
        encoder=encoder,
        sigma=float(header["sigma"]),
        clusters=Clusters(arrays["centers"], float(header["spread"])),
        landmarks=arrays["landmarks"],
        weights=arrays["weights"],
        certainty=Certainty(**{part.name: arrays[part.name] for part in fields(Certainty)}),
        reference=Reference(**{part.name: arrays[part.name] for part in fields(Reference)}),
        naming=Naming.from_json(header.get("naming"), len(arrays["centers"]), len(arrays["places"])),
    )
