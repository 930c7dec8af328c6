"""The table that a command reads: the columns to fit, the id column, and known labels."""

import re
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from knet.cli.messages import say
from knet.cli.options import ColumnOptions
from knet.tables.conversion import Conversion, near_miss, to_numbers
from knet.tables.dialect import TextOptions
from knet.tables.learn import Choices, learn
from knet.tables.read import Source

RESULT_COLUMN = re.compile(r"label|score|(proba|embedding)_\d+")  # names in the output of `knet predict`


def read_to_fit(data: str, options: ColumnOptions, text: TextOptions) -> tuple[pa.Table, Conversion]:
    """Read a whole table and learn how its columns become numbers; the column of texts becomes none."""
    with Source(data, text) as source:
        note_source(source)
        choices = Choices(
            columns=_split(options.columns, source),
            drop=[*_split(options.drop, source), *([] if options.text_col is None else [options.text_col])],
            id_col=options.id_col,
            target=options.target,
            impute=options.impute is not None,
            one_hot=options.one_hot,
            dates=options.dates,
            weight=options.weight,
            unnamed=source.unnamed,
        )
        table = source.read()
    try:
        learned = learn(table, choices, source.names if source.is_text else (), source.dialect)
    except ValueError as error:
        raise ValueError(f"{source.label}: {error}") from error
    for note in learned.notes:
        say(f"note: {note}")
    if options.text_col is None or options.text_col in learned.table.column_names:
        return learned.table, learned.conversion
    return learned.table.append_column(options.text_col, table[options.text_col]), learned.conversion


def _split(names: list[str], source: Source) -> list[str]:
    """Return the names in a list option: each is a column, or several with commas between them."""
    return [part for name in names for part in ([name] if name in source.names else name.split(","))]


def to_named_table(X: NDArray[np.float64], recipe: Conversion) -> pa.Table:
    """Return rows of numbers with the column names that the model uses."""
    return pa.table(list(np.ascontiguousarray(X.T)), names=recipe.outputs)


def row_weights(table: pa.Table, name: str | None) -> NDArray[np.float64] | None:
    """Return how often each row counts; None without a weight column."""
    return None if name is None else to_numbers(table[name], "number")


def find_id_column(source: Source, recipe: Conversion, id_col: str | None) -> str | None:
    """Return the column that identifies rows: the given one, or the one of the fit if the file has it."""
    check_present(source, id_col)
    name = id_col or (recipe.id_col if recipe.id_col in source.names else None)
    check_id_name(name)
    return name


def check_id_name(name: str | None) -> None:
    """Raise an error if a result column would replace the id column in the output."""
    if name is not None and RESULT_COLUMN.fullmatch(name):
        raise ValueError(f"The id column {name!r} has the name of a result column. Rename it first.")


def check_present(source: Source, name: str | None) -> None:
    """Raise an error if the file does not have this column."""
    if name is not None and name not in source.names:
        raise ValueError(f"There is no column {name!r} in {source.label}.{near_miss(name, source.names)}")


def note_source(source: Source) -> None:
    """Print how a text file is read, if it is not a plain CSV, and the new names of repeated columns."""
    if source.recognised:
        say(f"note: {source.label} is read with {source.recognised}.")
    if source.renamed:
        say(f"note: repeated column names in {source.label} are now {', '.join(map(repr, source.renamed))}.")


def known_labels(table: pa.Table, target: str | None) -> NDArray[np.str_] | None:
    """Return the known labels as text; None without a target column."""
    return None if target is None else np.array([str(value) for value in table[target].to_pylist()])


class Agreement:
    """Known labels and clusters, collected over batches of rows, and how well they agree."""

    def __init__(self, target: str | None) -> None:
        self.target = target
        self.known: list[NDArray[np.str_]] = []
        self.found: list[NDArray[np.int64]] = []

    def add(self, table: pa.Table, labels: NDArray[np.int64]) -> None:
        """Add a batch of rows, except those that were rejected."""
        known = known_labels(table, self.target)
        if known is not None:
            self.known.append(known[labels >= 0])
            self.found.append(labels[labels >= 0])

    def scores(self) -> dict[str, Any]:
        """Return NMI, adjusted Rand index and matched accuracy; nothing without known labels or without rows."""
        if not self.known:
            return {}
        from knet.metrics import accuracy, ari, nmi

        known, found = np.concatenate(self.known), np.concatenate(self.found)
        if not len(found):  # every row was rejected
            return {}
        measures = {"nmi": nmi, "ari": ari, "accuracy": accuracy}
        return {name: round(measure(known, found), 6) for name, measure in measures.items()}
