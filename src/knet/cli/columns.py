"""The table that a command reads: the columns to fit, the id column, and known labels."""

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from knet.cli.messages import note_unseen, say
from knet.cli.options import ColumnOptions, DialectOptions
from knet.tables.conversion import Conversion, near_miss
from knet.tables.learn import Choices, learn
from knet.tables.read import Source

RESULT_COLUMN = re.compile(r"label|score|(proba|embedding)_\d+")  # names in the output of `knet predict`
TAKEN_IN_NPZ = ("file", "allow_pickle")  # parameters of `numpy.savez`, which takes the columns as other parameters


@dataclass(frozen=True)
class Rows:
    """A whole table, the recipe that makes numbers of it, and those numbers, with the column names of the model."""

    table: pa.Table
    recipe: Conversion
    X: pa.Table
    label: str  # the file
    text_col: str | None

    @property
    def names(self) -> list[Any] | None:
        """Return what the report calls the rows: the id, the text, or both; None if there is neither."""
        columns = [self.table[name].to_pylist() for name in (self.recipe.id_col, self.text_col) if name is not None]
        if len(columns) < 2:
            return columns[0] if columns else None
        return [f"{own}: {text}" for own, text in zip(*columns, strict=True)]

    @property
    def known_labels(self) -> NDArray[np.str_] | None:
        """Return the known labels; None without a target column."""
        return None if self.recipe.target is None else as_text(self.table[self.recipe.target])


def read_to_fit(
    data: str, columns: ColumnOptions, dialect: DialectOptions, text_col: str | None = None, weight: str | None = None
) -> Rows:
    """Read a table and learn how its columns become numbers; the columns of texts and weights become none."""
    with open_table(data, dialect) as source:
        choices = Choices(
            columns=_split(columns.use, source),
            drop=[*_split(columns.drop, source), *([] if text_col is None else [text_col])],
            id_col=columns.id_col,
            target=columns.target,
            impute=columns.impute is not None,
            one_hot=columns.one_hot,
            dates=columns.dates,
            weight=weight,
            unnamed=source.unnamed,
        )
        table = source.read()
    try:
        learned = learn(table, choices, source.names if source.is_text else (), source.dialect)
    except ValueError as error:
        raise ValueError(f"{source.label}: {error}") from error
    for note in learned.notes:
        say(f"note: {note}")
    X, kept = to_named_table(learned.table, learned.conversion), learned.table
    if text_col is not None and text_col not in kept.column_names:
        kept = kept.append_column(text_col, table[text_col])
    return Rows(kept, learned.conversion, X, source.label, text_col)


def _split(names: list[str] | None, source: Source) -> list[str]:
    """Return the names in a list option: each is a column, or several with commas between them."""
    return [part for name in names or () for part in ([name] if name in source.names else name.split(","))]


def to_named_table(table: pa.Table, recipe: Conversion) -> pa.Table:
    """Return a table as numbers, with the column names that the model uses."""
    unseen = Counter[str]()
    X = recipe.apply(table, unseen)
    note_unseen(unseen)
    return pa.table(list(np.ascontiguousarray(X.T)), names=recipe.outputs)


def open_table(data: str, dialect: DialectOptions, recipe: Conversion | None = None) -> Source:
    """Open a table; print how a text file is read, if it is not a plain CSV, and the new names of repeated columns."""
    source = Source(data, dialect.known(None if recipe is None else recipe.dialect))
    if source.recognised:
        say(f"note: {source.label} is read with {source.recognised}.")
    if source.renamed:
        say(f"note: repeated column names in {source.label} are now {', '.join(map(repr, source.renamed))}.")
    return source


def find_id_column(source: Source, recipe: Conversion, id_col: str | None, output: Path | None = None) -> str | None:
    """Return the column that identifies rows: the given one, or the one of the fit if the file has it."""
    check_present(source, id_col)
    name = id_col or (recipe.id_col if recipe.id_col in source.names else None)
    check_id_name(name, output)
    if name is not None and id_col is None and output is not None and output.suffix.lower() == ".npy":
        say(f"note: {output} can hold numbers only, so the ids of {name!r} are left out.")
        return None
    return name


def check_id_name(name: str | None, output: Path | None = None) -> None:
    """Raise an error if the output cannot have an id column of this name."""
    if name is not None and RESULT_COLUMN.fullmatch(name):
        raise ValueError(f"The id column {name!r} has the name of a result column. Rename it first.")
    if name in TAKEN_IN_NPZ and output is not None and output.suffix.lower() == ".npz":
        raise ValueError(f"{output} cannot have an id column {name!r}. Rename it first, or write .parquet or .csv.")


def check_present(source: Source, *names: str | None) -> None:
    """Raise an error if the file does not have these columns."""
    for name in names:
        if name is not None and name not in source.names:
            raise ValueError(f"There is no column {name!r} in {source.label}.{near_miss(name, source.names)}")


def as_text(values: pa.ChunkedArray) -> NDArray[np.str_]:
    """Return known labels of any type as text."""
    return np.array([str(value) for value in values.to_pylist()])


def agreement(known: NDArray[np.str_] | None, labels: NDArray[np.int64]) -> dict[str, float]:
    """Return NMI, adjusted Rand index and matched accuracy of the rows that were not rejected; nothing without any."""
    if known is None or labels.max(initial=-1) < 0:
        return {}
    from knet.metrics import accuracy, ari, nmi

    measures, kept = {"nmi": nmi, "ari": ari, "accuracy": accuracy}, labels >= 0
    return {name: round(measure(known[kept], labels[kept]), 6) for name, measure in measures.items()}
