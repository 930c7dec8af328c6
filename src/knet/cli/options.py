"""Options that several commands share, as type aliases for Typer."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from knet.files import check_readable
from knet.tables.dialect import TextOptions, separator_named
from knet.tables.formats import STDIN, check_suffix

Data: TypeAlias = Annotated[
    str,
    typer.Argument(
        help="Table: .csv, .tsv, .txt, .json, .jsonl (also .gz, .bz2, .zst), .xlsx, .parquet, .feather, .npy, .npz, "
        "or - for CSV on standard input."
    ),
]
ModelFile: TypeAlias = Annotated[Path, typer.Argument(help="Model file, written by `knet fit -o`.")]
Output: TypeAlias = Annotated[
    Path | None, typer.Option("--output", "-o", help="File to write; default: standard output.")
]
Reject: TypeAlias = Annotated[
    float | None,
    typer.Option(
        help="Give the label -1 to rows that are less familiar than all but this share of the training rows, "
        "for example 0.05, or more likely wrong than right."
    ),
]
IdCol: TypeAlias = Annotated[
    str | None, typer.Option(help="Column that identifies rows; copied to the output, not used for clustering.")
]
TextCol: TypeAlias = Annotated[
    str | None, typer.Option(help="Column with texts that the report names rows by; not used for clustering.")
]
Metric: TypeAlias = Annotated[str, typer.Option(help="euclidean, or cosine: every row is divided by its length first.")]
Target: TypeAlias = Annotated[
    str | None, typer.Option(help="Column with known labels; only compared with the clusters, not used for clustering.")
]
Weight: TypeAlias = Annotated[
    str | None, typer.Option(help="Column that says how often each row counts; not used for clustering itself.")
]
Header: TypeAlias = Annotated[
    bool | None,
    typer.Option("--header/--no-header", help="Whether the first line names the columns; default: recognised."),
]
Sep: TypeAlias = Annotated[
    str | None,
    typer.Option(help="Separator: a character, or comma, semicolon, tab, pipe, space; default: recognised."),
]
Decimal: TypeAlias = Annotated[str | None, typer.Option(help="Decimal mark: . or , (default: recognised).")]
Encoding: TypeAlias = Annotated[
    str | None, typer.Option(help="Encoding of the text, such as utf-8 or latin-1; default: recognised.")
]
Na: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(help="Word that means a missing value, in addition to NA, null, ...; may be repeated."),
]
Columns: TypeAlias = Annotated[list[str] | None, typer.Option(help="Columns to use; comma-separated, or repeated.")]
Drop: TypeAlias = Annotated[list[str] | None, typer.Option(help="Columns to leave out; comma-separated, or repeated.")]
Impute: TypeAlias = Annotated[str | None, typer.Option(help="How to fill missing values: median.")]
OneHot: TypeAlias = Annotated[bool, typer.Option("--one-hot", help="Convert text columns to 0/1 columns.")]
Dates: TypeAlias = Annotated[bool, typer.Option("--dates", help="Convert dates to days since 1970.")]
RandomState: TypeAlias = Annotated[int, typer.Option(help="Seed; the only source of randomness.")]
Refits: TypeAlias = Annotated[
    int,
    typer.Option(min=0, help="Number of refits on random halves that measure stability; 0 measures none."),
]
Device: TypeAlias = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
Threads: TypeAlias = Annotated[int | None, typer.Option(min=1, help="Maximum number of threads.")]
Json: TypeAlias = Annotated[bool, typer.Option("--json", help="Print the summary as JSON to standard output.")]
Force: TypeAlias = Annotated[bool, typer.Option("--force", "-f", help="Overwrite existing files.")]


@dataclass(frozen=True)
class ColumnOptions:
    """The options that choose columns and say how they become numbers."""

    id_col: str | None
    target: str | None
    columns: list[str]
    drop: list[str]
    impute: str | None
    one_hot: bool
    dates: bool
    weight: str | None = None
    text_col: str | None = None

    def check(self) -> None:
        """Raise an error if a value is not allowed."""
        roles = {"--id-col": self.id_col, "--target": self.target, "--weight": self.weight, "--text-col": self.text_col}
        used = [name for name in roles.values() if name is not None]
        for name in used:
            if used.count(name) > 1:
                options = " and ".join(option for option, column in roles.items() if column == name)
                raise ValueError(f"{options} name the same column, {name!r}. Use a column for one of them only.")
        if self.impute not in (None, "median"):
            raise ValueError(f"The --impute option must be 'median'. Got {self.impute!r} instead.")


def text_options(
    sep: str | None, decimal: str | None, encoding: str | None, na: list[str] | None, header: bool | None
) -> TextOptions:
    """Return the options about the dialect of a text file, or raise an error if a value is not allowed."""
    decimal = {"comma": ",", "point": "."}.get(decimal or "", decimal)
    options = TextOptions(separator_named(sep), decimal, encoding, tuple(na or ()), header)
    options.check()
    return options


def check_parameters(params: Mapping[str, Any]) -> None:
    """Raise an error if a parameter of KNet has a value that is not allowed."""
    from knet.parameters import check_parameters as check

    check("KNet", params)


def number_or_word(text: str) -> str | int | float:
    """Return an option's value as a number if it is one, otherwise as text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def check_inputs(data: str | None = None, model: Path | None = None) -> None:
    """Raise an error at once if a file to read is missing: the commands import slow libraries after this."""
    if data is not None and data != STDIN:
        check_suffix(data, "read")
        check_readable(Path(data))
    if model is not None:
        check_readable(model, "model file")
