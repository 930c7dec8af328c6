"""How a conversion is learned from a table: columns that are used, what they hold, and what has to be decided."""

import shlex
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from knet.rows.index_columns import MIN_INDEX_ROWS, counts_rows
from knet.rows.kinds import some
from knet.tables.cells import ISO, Column, code_of, convert, describe_wrong, infer, is_ambiguous, remedy
from knet.tables.conversion import OTHER, Conversion, check_names, count_missing, kind_of, to_numbers, to_text
from knet.tables.dialect import Dialect

MAX_LEVELS = 100  # categories per column
MIN_LEVEL_ROWS = 10  # rarer categories are joined: a group of fewer rows is not found
MANY_NUMBERS, MOST_NUMBERS = 0.5, 0.9  # share of numbers from which other cells are taken for mistakes; with one-hot
MAX_WORDS = 10  # different cells of a column that are taken for words for a missing value
MIN_PRESENT = 0.05  # a column with values in fewer rows is almost empty


@dataclass(frozen=True)
class Advice:
    """What the user has written, how choices are called in messages, and the number of the first row."""

    command: str = "knet fit"
    one_hot: str = "--one-hot"
    dates: str = "--dates"
    drop: str = "--drop"
    columns: str = "--columns"
    auto: str = "--auto"
    id_col: str = ", or --id-col {} to copy it to the output"
    first_row: int = 1

    def remedy(self, word: str) -> str:
        """Return how to read a cell that is not a number."""
        return remedy(word) if self.first_row else f"na=[{word!r}]"

    def ready(self, obstacles: Iterable["Obstacle"]) -> str:
        """Return the call that would work."""
        found = list(obstacles)
        flags = list(dict.fromkeys(item.flag for item in found if item.flag))
        drop, words = ([value for item in found for value in getattr(item, name)] for name in ("drop", "words"))
        if self.first_row:
            options = [f"--drop {shlex.quote(name)}" for name in drop] + [remedy(word) for word in words]
            return " ".join([self.command, *flags, *dict.fromkeys(options)])
        lists = [f"{name}={values!r}" for name, values in (("drop", drop), ("na", words)) if values]
        return f"Recipe({', '.join([*flags, *lists])})"


COMMAND = Advice()
PYTHON = Advice("Recipe", "one_hot=True", "dates=True", "drop", "columns", "auto=True", "", 0)


@dataclass(frozen=True)
class Choices:
    """The user's choices: which columns to use and how to convert them; `unnamed` columns have no name in the file.

    `auto` converts text and dates, reads words among numbers as missing, and leaves out what can be no number.
    """

    columns: Sequence[str] = ()
    drop: Sequence[str] = ()
    ids: Sequence[str] = ()
    target: str | None = None
    one_hot: bool = False
    dates: bool = False
    auto: bool = False
    weight: str | None = None
    unnamed: Collection[str] = ()
    advice: Advice = COMMAND


@dataclass(frozen=True)
class Learned:
    """A conversion, the table with typed columns, and notes for the user."""

    conversion: Conversion
    table: pa.Table
    notes: list[str]


@dataclass(frozen=True)
class Found:
    """What a column holds, its values, what a message adds about them, and a note for the user.

    `wrong` describes cells that are not numbers in a column of numbers, and `words` are these cells; none if there are
    too many to be words for a missing value.
    """

    column: Column
    values: pa.ChunkedArray
    detail: str = ""
    note: str = ""
    wrong: str = ""
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Obstacle:
    """What the user has to decide about some columns, and the choice that is suggested."""

    text: str
    flag: str = ""
    drop: tuple[str, ...] = ()
    words: tuple[str, ...] = ()


def learn(table: pa.Table, choices: Choices, text: Collection[str] = (), dialect: Dialect | None = None) -> Learned:
    """Learn how a table becomes numbers, or raise an error that lists what has to be decided first.

    `text` are the columns whose cells are text as in a CSV, so that their types are inferred, and `dialect` is that of
    this text.
    """
    if choices.auto:
        choices = replace(choices, one_hot=True, dates=True)
    names = feature_names(table.column_names, choices)
    found = {name: _examine(name, table[name], choices, dialect, name in text) for name in names}
    notes = [] if choices.columns else _leave_out(found, choices)
    obstacles = _obstacles(found, choices)
    if choices.auto:
        notes += _accept(found, obstacles)
    elif obstacles:
        say = choices.advice
        problems = " ".join(obstacle.text for obstacle in obstacles)
        raise ValueError(f"{problems} Try: {say.ready(obstacles)}  ({say.auto} does the same).")
    if not found:
        sentences = " ".join(note[0].upper() + note[1:] for note in notes)
        raise ValueError(f"No columns are left to cluster. {sentences}")
    columns = tuple(_learn_column(item) for item in found.values())
    notes += [item.note for item in found.values() if item.note]
    others = {name: table[name] for name in (*choices.ids, choices.target) if name is not None}
    notes += _repeated_ids(choices.ids, table)
    if choices.weight is not None:
        others[choices.weight] = _weights(choices.weight, table, choices, dialect, text)
    typed = pa.table({**others, **{name: item.values for name, item in found.items()}})
    return Learned(Conversion(columns, tuple(choices.ids), choices.target, dialect), typed, notes)


def _weights(
    name: str, table: pa.Table, choices: Choices, dialect: Dialect | None, text: Collection[str]
) -> pa.ChunkedArray:
    """Return the column of weights, or raise an error if it holds anything else than numbers."""
    found = _examine(name, table[name], choices, dialect, name in text)
    kind = found.column.kind
    if found.wrong:
        raise ValueError(f"{found.wrong}, and it is the weight column.")
    if kind != "number" or (n_missing := count_missing(found.values, "number")):
        what = f"{n_missing} missing values" if kind == "number" else f"values of another kind: {kind}"
        raise ValueError(f"The weight column {name!r} must hold a number in every row, and it holds {what}.")
    return found.values


def _repeated_ids(ids: Sequence[str], table: pa.Table) -> list[str]:
    """Return a note if several rows have the same id."""
    n_rows, n_ids = len(table), len(table.group_by(list(ids)).aggregate([])) if ids else len(table)
    if n_ids == n_rows:
        return []
    names = some(list(map(repr, ids)))
    return [
        f"the ids in {names} repeat: {n_rows:,} rows have {n_ids:,} different ids, and each row gets its own label."
    ]


def feature_names(present: Sequence[str], choices: Choices) -> list[str]:
    """Return the columns to use, in the order of the file."""
    check_names((*choices.columns, *choices.drop, *choices.ids, choices.target, choices.weight), present)
    left_out = {*choices.drop, *choices.ids, choices.target, choices.weight}
    names = [name for name in present if name not in left_out and (not choices.columns or name in choices.columns)]
    if not names:
        raise ValueError("No columns are left to cluster: all are dropped, or are the id, the target or the weight.")
    return names


def _examine(name: str, values: pa.ChunkedArray, choices: Choices, dialect: Dialect | None, is_text: bool) -> Found:
    """Find out what a column holds."""
    if not is_text:
        return Found(Column(name, kind_of(values.type)), values)
    dialect = dialect or Dialect()
    column, detail, note = infer(name, values, dialect), "", ""
    if column.kind == "category":
        code = code_of(values)
        if code is None:
            return _text_or_numbers(name, values, choices, dialect)
        detail = f" (codes such as {code!r})"
    converted = convert(values, column, dialect).values
    if column.kind == "date":
        form = column.date_form
        detail = f" ({form})"
        if not form.startswith(ISO):
            unclear = is_ambiguous(values.filter(pc.is_valid(converted)), form)
            also = "; days and months could also be exchanged, so write 2024-12-31 to be certain" * unclear
            note = f"dates in {name!r} are read as {form}{also}."
    return Found(column, converted, detail, note)


def _text_or_numbers(name: str, values: pa.ChunkedArray, choices: Choices, dialect: Dialect) -> Found:
    """Return a column of text; if most of its cells are numbers, it is one of numbers in which others are wrong."""
    cells = convert(values, Column(name, "number"), dialect)
    n_numbers = len(values) - cells.values.null_count
    if n_numbers < (MOST_NUMBERS if choices.one_hot else MANY_NUMBERS) * (n_numbers + cells.n_wrong):
        column = Column(name, "category")
        return Found(column, convert(values, column, dialect).values)
    words = tuple(pc.unique(values.filter(cells.wrong)).to_pylist())
    wrong = describe_wrong(name, values, cells, "number", choices.advice.first_row)[0]
    return Found(Column(name, "number"), cells.values, wrong=wrong, words=words if len(words) <= MAX_WORDS else ())


def _leave_out(found: dict[str, Found], choices: Choices) -> list[str]:
    """Remove columns that are no features, and return why."""
    reasons = {name: reason for name, item in found.items() if (reason := _reason_to_leave_out(item, choices))}
    for name in reasons:
        del found[name]
    return list(reasons.values())


def _reason_to_leave_out(found: Found, choices: Choices) -> str:
    """Return why a column is almost empty, an index or an identifier, and not a feature; empty if it is a feature."""
    name, kind, values, advice = found.column.name, found.column.kind, found.values, choices.advice
    n_present = len(values) - (values.null_count if kind == "other" else count_missing(values, kind))
    if name in choices.unnamed:
        reason = "has no name in the file, so it is left out as an index"
    elif n_present < MIN_PRESENT * len(values):
        reason = f"has a value in {n_present:,} of {len(values):,} rows, so it is left out as almost empty"
        return f"column {name!r} {reason}; use {advice.columns} to choose columns."
    elif kind == "number" and counts_rows(to_numbers(values, kind)):
        reason = "counts the rows, so it is left out as an index"
    elif kind == "category" and (n_texts := _n_texts_of_identifier(values)):
        what = "a different text in every row" if n_texts == len(values) else f"{n_texts:,} different texts"
        reason = f"has {what}, so it is left out as an identifier"
    else:
        return ""
    return f"column {name!r} {reason}; use {advice.columns} to choose columns{advice.id_col.format(name)}."


def _n_texts_of_identifier(values: pa.ChunkedArray) -> int:
    """Return the number of different texts if rows seldom share one and nobody declared them as categories; else 0."""
    if len(values) < MIN_INDEX_ROWS or pa.types.is_dictionary(values.type):
        return 0
    text = to_text(values).drop_null()
    n_texts = int(pc.count_distinct(text).as_py())
    return n_texts if 2 * n_texts > len(text) else 0


def _obstacles(found: dict[str, Found], choices: Choices) -> list[Obstacle]:
    """Return what the user has to decide: text and dates to convert, cells that are no numbers, other values."""
    say, obstacles = choices.advice, []
    for kind, flag, what, advice in (
        ("category", say.one_hot, "text", f"{say.one_hot} converts it to 0/1 columns, {say.drop} leaves it out"),
        ("date", say.dates, "dates", f"{say.dates} converts them to days, {say.drop} leaves them out"),
        ("other", "", "values that are not numbers", f"{say.drop} leaves them out"),
    ):
        names = [name for name, item in found.items() if item.column.kind == kind]
        if names and not (choices.one_hot if kind == "category" else choices.dates and kind == "date"):
            ending, verb = ("s", "hold") if len(names) > 1 else ("", "holds")
            detail = next(item.detail for item in found.values() if item.column.kind == kind)
            text = f"Column{ending} {some(list(map(repr, names)))} {verb} {what}{detail}: {advice}."
            obstacles.append(Obstacle(text, flag, () if flag else tuple(names)))
    for name, item in found.items():
        if item.wrong:
            remedies = f"{say.remedy(item.words[0])} reads it as missing, " if item.words else ""
            text = f"{item.wrong}: {remedies}{say.drop} leaves the column out."
            obstacles.append(Obstacle(text, drop=() if item.words else (name,), words=item.words))
    return obstacles


def _accept(found: dict[str, Found], obstacles: Iterable[Obstacle]) -> list[str]:
    """Do what is suggested about columns, and return notes."""
    notes = [obstacle.text[0].lower() + obstacle.text[1:] for obstacle in obstacles]
    for name in [name for obstacle in obstacles for name in obstacle.drop]:
        del found[name]
    for name, item in found.items():
        if item.words:
            found[name] = replace(item, column=replace(item.column, missing=item.words))
    return notes


def _learn_column(found: Found) -> Column:
    """Learn the categories of a column, and count what is missing."""
    column, values = found.column, found.values
    if column.kind == "category":
        column = replace(column, levels=_levels(to_text(values)))
    n_missing = count_missing(values, column.kind)
    if n_missing == len(values):
        raise ValueError(f"Column {column.name!r} holds no values. Leave it out.")
    return replace(column, n_missing=n_missing)


def _levels(text: pa.ChunkedArray) -> tuple[str, ...]:
    """Return the categories, sorted; rare ones, if there are several, are joined as `OTHER`."""
    counts = {str(pair["values"]): pair["counts"] for pair in pc.value_counts(text.drop_null()).to_pylist()}
    frequent = sorted((level for level in counts if counts[level] >= MIN_LEVEL_ROWS), key=lambda level: -counts[level])
    if not frequent:  # a small table
        frequent = sorted(counts, key=lambda level: -counts[level])
    kept = frequent if len(frequent) <= MAX_LEVELS else frequent[: MAX_LEVELS - 1]
    return tuple(sorted(counts if len(counts) - len(kept) < 2 else kept)) + (OTHER,) * (len(counts) - len(kept) >= 2)
