"""What a user knows about rows, on the command line: a column of known labels, and files of pairs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Option

from knet.cli import options as opt

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import ArrayLike

PAIRS = "File of two columns: pairs of rows that belong to"
NAMED_BY = "by their ids in --id-col, else by row numbers from 0 on"


@dataclass(frozen=True)
class EvidenceOptions:
    """A column of known labels, and files of pairs of rows."""

    known: Annotated[
        str | None, Option(help="Column with known labels of some rows, which the clusters keep; gaps are unknown.")
    ] = None
    must_link: Annotated[Path | None, Option(help=f"{PAIRS} the same cluster, {NAMED_BY}.")] = None
    cannot_link: Annotated[Path | None, Option(help=f"{PAIRS} different clusters, {NAMED_BY}.")] = None

    def __post_init__(self) -> None:
        for path in (self.must_link, self.cannot_link):
            if path is not None:
                opt.check_inputs(str(path))

    def read(self, table: pa.Table, ids: Sequence[str]) -> dict[str, ArrayLike]:
        """Return the parameters of `KNet.fit`; pairs name rows by the first id column, or by their numbers."""
        names = table[ids[0]].to_pylist() if ids else list(range(len(table)))
        known = {} if self.known is None else {"known": table[self.known].to_pylist()}
        files = {"must_link": self.must_link, "cannot_link": self.cannot_link}
        return known | {name: _read_pairs(path, names) for name, path in files.items() if path is not None}


def _read_pairs(path: Path, ids: list[object]) -> list[tuple[int, int]]:
    """Return the pairs of a file as row numbers."""
    from knet.cli.columns import open_table

    with open_table(str(path), opt.DialectOptions()) as source:
        table = source.read()
    if table.num_columns != 2:
        raise ValueError(f"{path} must have two columns, the rows of each pair. It has {table.num_columns}.")
    places: dict[str, int] = {}
    for place, name in enumerate(map(str, ids)):
        places[name] = -1 if name in places else place
    pairs = [tuple(map(str, pair)) for pair in zip(*(column.to_pylist() for column in table.columns), strict=True)]
    for name in (name for pair in pairs for name in pair):
        if places.get(name, -1) < 0:
            problem = "names several rows" if name in places else "names no row"
            raise ValueError(f"{path} has the id {name!r}, which {problem} of the table.")
    return [(places[first], places[second]) for first, second in pairs]
