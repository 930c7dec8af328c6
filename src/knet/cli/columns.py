"""The table that a command reads: the columns to fit, the id column, and known labels."""

from __future__ import annotations

import re
import shlex
import sys
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from knet.cli.messages import note_unseen, say
from knet.cli.models import load_light_model, without_pandas
from knet.cli.options import ColumnOptions, DialectOptions
from knet.rows.kinds import some
from knet.tables.conversion import Conversion, check_names, near_miss
from knet.tables.formats import DELIMITERS
from knet.tables.learn import Advice, Choices, learn
from knet.tables.read import Source

if TYPE_CHECKING:
    from knet.tables.recipe import Converted

MAX_KEPT = 100  # columns of a table that are copied to the output by default: more are vectors, not facts about rows
ARRAYS = (".npy", ".npz")
RESULT_COLUMNS = {name: rf"{name}_\d+" for name in ("proba", "embedding")} | {"label": "label", "score": "score"}
RESULT_COLUMNS |= {"levels": r"level_\d+"}


@dataclass(frozen=True)
class Rows:
    """A whole table, its cells as they are in the file, the recipe that makes numbers of it, and those numbers."""

    table: pa.Table
    cells: pa.Table
    recipe: Conversion
    X: Converted
    label: str  # the file
    text_col: str | None

    @property
    def names(self) -> list[object] | None:
        """Return what the report calls the rows: the ids, the text, or both; None if there is neither."""
        ids = [self.cells[name].to_pylist() for name in self.recipe.ids]
        texts = [] if self.text_col is None else self.cells[self.text_col].to_pylist()
        named = [" ".join(map(str, own)) for own in zip(*ids, strict=True)] if len(ids) > 1 else [*ids, []][0]
        if named and texts:
            return [f"{own}: {text}" for own, text in zip(named, texts, strict=True)]
        return named or texts or None

    @property
    def known_labels(self) -> NDArray[np.str_] | None:
        """Return the known labels; None without a target column."""
        return None if self.recipe.target is None else as_text(self.table[self.recipe.target])


def read_to_fit(
    data: str,
    columns: ColumnOptions,
    dialect: DialectOptions,
    text_col: str | None = None,
    weight: str | None = None,
    known: str | None = None,
) -> Rows:
    """Read a table and learn how its columns become numbers; texts, weights and known labels become none."""
    beside = [name for name in (text_col, known) if name is not None]
    with open_table(data, dialect) as source:
        check_names([known], source.names, source.label)
        choices = Choices(
            columns=_split(columns.use, source.names),
            drop=[*_split(columns.drop, source.names), *beside],
            ids=_split(columns.id_col, source.names),
            target=columns.target,
            one_hot=columns.one_hot,
            dates=columns.dates,
            auto=columns.auto,
            weight=weight,
            unnamed=source.unnamed,
            advice=Advice(shlex.join(["knet", *sys.argv[1:]])),
        )
        table = source.read()
    try:
        learned = learn(table, choices, source.names if source.is_text else (), source.dialect)
    except ValueError as error:
        raise ValueError(f"{source.label}: {error}") from error
    for note in learned.notes:
        say(f"note: {note}")
    if gaps := learned.conversion.gaps:
        shares = [f"{name!r} ({count / len(table):.1%})" for name, count in gaps.items()]
        say(
            f"note: values are missing in {some(shares)}; they stay unknown, and labels of these rows are less certain."
        )
    X = convert(learned.table, learned.conversion)
    return Rows(learned.table, table, learned.conversion, X, source.label, text_col)


def read_like(
    model: Path, data: str, dialect: DialectOptions, target: str | None = None, text_col: str | None = None
) -> Rows:
    """Read a whole table as the one that a model was fitted on."""
    recipe = load_light_model(model)[1]
    with open_table(data, dialect, recipe) as source:
        check_names([target, text_col], source.names, source.label)
        target = target or (recipe.target if recipe.target in source.names else None)
        recipe = replace(recipe, ids=tuple(name for name in recipe.ids if name in source.names), target=target)
        table = source.read(recipe.types(source.names, *recipe.ids, target, text_col))
    return Rows(table, table, recipe, convert(table, recipe), source.label, text_col)


def _split(names: Sequence[str] | None, present: Sequence[str]) -> list[str]:
    """Return the names in a list option: each is a column, or several with commas between them."""
    return [part for name in names or () for part in ([name] if name in present else name.split(","))]


def column_weights(given: list[str] | None, recipe: Conversion) -> tuple[float, ...] | None:
    """Return how often each column of numbers counts, from texts such as "age=2,kind=0.5"; None without any."""
    if not given:
        return None
    found: dict[str, float] = {}
    for part in ",".join(given).split(","):
        name, _, text = part.rpartition("=")
        try:
            found[name] = float(text)
        except ValueError:
            found[name] = 0.0
        if not 0 < found[name] < float("inf"):
            raise ValueError(f"The --weights option must have the form NAME=NUMBER, from 0 on. Got {part!r} instead.")
    names = [column.name for column in recipe.columns]
    for name in found:
        if name not in names:
            raise ValueError(f"The --weights option names {name!r}, which is no column.{near_miss(name, names)}")
    return tuple(found.get(column.name, 1.0) for column in recipe.columns for _ in column.outputs)


def convert(table: pa.Table, recipe: Conversion) -> Converted:
    """Return a table as numbers, with the recipe that made them."""
    with without_pandas():
        from knet.tables.recipe import Recipe  # with scikit-learn, which `knet predict` does not need

    unseen = Counter[str]()
    X = Recipe.of(recipe).keep(recipe.apply(table, unseen))
    note_unseen(unseen)
    return X


def open_table(data: str, dialect: DialectOptions, recipe: Conversion | None = None) -> Source:
    """Open a table; print how a text file is read, if it is not a plain CSV, and the new names of repeated columns."""
    with without_pandas():
        pa.array([])  # the first one makes Arrow look for pandas
    source = Source(data, dialect.known(None if recipe is None else recipe.dialect))
    if source.recognised:
        say(f"note: {source.label} is read with {source.recognised}.")
    if source.renamed:
        say(f"note: repeated column names in {source.label} are now {', '.join(map(repr, source.renamed))}.")
    return source


def find_kept(
    names: Sequence[str], ids: Sequence[str], keep: Sequence[str] | None, results: Collection[str], output: Path | None
) -> list[str]:
    """Return the columns that are copied to the output: `keep`, or by default the ids, or all of a narrow table.

    Ids identify the rows. Without them a label says nothing once the rows are in another order.
    """
    suffix = "" if output is None else output.suffix.lower()
    words = _split(keep, names)
    taken = re.compile("|".join(RESULT_COLUMNS[name] for name in results))
    everything = words == ["all"] or (keep is None and not ids and suffix not in ARRAYS and "label" in results)
    if everything and keep is None and len(names) > MAX_KEPT:
        say(f"note: the {len(names):,} columns of the table are not copied to the output; use --keep all to copy them.")
        return []
    if everything:
        clashes = [name for name in names if taken.fullmatch(name)]
        for name in clashes:
            say(f"note: the column {name!r} is not copied to the output, where a result has this name.")
        return [name for name in names if name not in clashes]
    kept = list(dict.fromkeys([*ids, *([] if words == ["none"] else words)]))
    check_names(kept, names)
    for name in kept:
        if taken.fullmatch(name):
            raise ValueError(
                f"The column {name!r}, which is to be copied, has the name of a result column. Rename it first."
            )
    return kept


def find_ids(source: Source, recipe: Conversion, given: Sequence[str] | None, output: Path | None = None) -> list[str]:
    """Return the columns that identify rows: the given ones, or those of the fit that the file has."""
    if given:
        return _split(given, source.names)
    names = [name for name in recipe.ids if name in source.names]
    if names and output is not None and output.suffix.lower() == ".npy":
        say(f"note: {output} can hold numbers only, so the ids of {some(list(map(repr, names)))} are left out.")
        return []
    return names


def kept_columns(
    cells: pa.Table, typed: pa.Table, names: Sequence[str], output: Path | None
) -> dict[str, pa.ChunkedArray]:
    """Return the columns to copy: text as it is in the file; in other formats with the types that the model uses."""
    as_text = output is None or output.suffix.lower() in DELIMITERS
    own = [] if as_text else typed.column_names
    return {name: typed[name] if name in own else cells[name] for name in names}


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
