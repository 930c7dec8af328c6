"""Options that several commands share, for Typer: single ones as type aliases, groups of them as dataclasses.

A command has one parameter for a group; `with_groups` shows the fields of the group as options of the command. A group
checks its values when it is created.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, TypeAlias

from typer import Argument, Option

from knet.files import check_readable
from knet.tables.dialect import Dialect, TextOptions, separator_named
from knet.tables.formats import STDIN, WRITTEN, check_ending, check_suffix

MODEL, TABLE, PAGE, IMAGE = (".safetensors",), WRITTEN, (".html", ".htm"), (".png", ".svg", ".pdf")  # ends of names

READABLE = ".csv, .tsv, .txt, .json, .jsonl (also .gz, .bz2, .zst), .xlsx, .parquet, .feather, .npy, .npz"
REJECTED = (
    "less familiar than all but this share of the training rows, for example 0.05, or more likely wrong than right"
)

Data: TypeAlias = Annotated[str, Argument(help=f"Table: {READABLE}, or - for CSV on standard input.")]
ModelFile: TypeAlias = Annotated[Path, Argument(help="Model file, written by `knet fit -o`.")]
Reject: TypeAlias = Annotated[float | None, Option(help=f"Give the label -1 to rows that are {REJECTED}.")]
IdCol: TypeAlias = Annotated[
    list[str] | None,
    Option(help="Column that identifies rows; copied to the output, not used for clustering; may be repeated."),
]
Keep: TypeAlias = Annotated[
    list[str] | None,
    Option(
        help="Columns of the table to copy to the output: all, none, or names, comma-separated or repeated; default: "
        "those of --id-col, and without any all columns, if there are at most 100."
    ),
]
Proba: TypeAlias = Annotated[bool, Option("--proba", help="Add the probability of every cluster: proba_0, ...")]
TextCol: TypeAlias = Annotated[
    str | None, Option(help="Column with texts that the report names rows by; not used for clustering.")
]
Target: TypeAlias = Annotated[
    str | None, Option(help="Column with known labels; only compared with the clusters, not used for clustering.")
]
MaxClusters = Annotated[
    int | None, Option(help="Largest number of clusters to compare; default: 15, or up to 60 if there may be more.")
]
Metric: TypeAlias = Annotated[str, Option(help="euclidean, or cosine: every row is divided by its length first.")]
RandomState: TypeAlias = Annotated[int, Option(help="Seed; the only source of randomness.")]
Refits: TypeAlias = Annotated[
    int, Option(min=0, help="Number of refits on random halves that measure stability; 0 measures none.")
]
Device: TypeAlias = Annotated[str, Option(help="auto, cpu, cuda or mps.")]
Json: TypeAlias = Annotated[bool, Option("--json", help="Print the summary as JSON to standard output.")]


@dataclass(frozen=True)
class ColumnOptions:
    """Which columns are used, and how they become numbers."""

    id_col: IdCol = None
    target: Annotated[str | None, Option(help="Column with known labels; `fit` only compares clusters with it.")] = None
    use: Annotated[list[str] | None, Option("--columns", help="Columns to use; comma-separated, or repeated.")] = None
    drop: Annotated[list[str] | None, Option(help="Columns to leave out; comma-separated, or repeated.")] = None
    one_hot: Annotated[bool, Option("--one-hot", help="Convert text columns to 0/1 columns.")] = False
    dates: Annotated[bool, Option("--dates", help="Convert dates to days since 1970.")] = False
    auto: Annotated[
        bool, Option("--auto", help="Convert text and dates, and leave out what can be no number, with notes.")
    ] = False


@dataclass(frozen=True)
class DialectOptions:
    """How a text file is written; what is not given is recognised."""

    header: Annotated[
        bool | None,
        Option("--header/--no-header", help="Whether the first line names the columns; default: recognised."),
    ] = None
    sep: Annotated[
        str | None, Option(help="Separator: a character, or comma, semicolon, tab, pipe, space; default: recognised.")
    ] = None
    decimal: Annotated[str | None, Option(help="Decimal mark: . or , (default: recognised).")] = None
    encoding: Annotated[
        str | None, Option(help="Encoding of the text, such as utf-8 or latin-1; default: recognised.")
    ] = None
    na: Annotated[
        list[str] | None, Option(help="Word that means a missing value, in addition to NA, null, ...; may be repeated.")
    ] = None

    def __post_init__(self) -> None:
        self.known().check()

    def known(self, prior: Dialect | None = None) -> TextOptions:
        """Return the options as the reader of tables takes them; `prior` is used if a file shows no evidence."""
        decimal = {"comma": ",", "point": "."}.get(self.decimal or "", self.decimal)
        return TextOptions(separator_named(self.sep), decimal, self.encoding, tuple(self.na or ()), self.header, prior)


@dataclass(frozen=True)
class RunOptions:
    """How many threads work, how the summary is printed, and whether files are replaced."""

    threads: Annotated[int | None, Option(min=1, help="Maximum number of threads.")] = None
    as_json: Json = False
    force: Annotated[bool, Option("--force", "-f", help="Overwrite existing files.")] = False

    @contextmanager
    def limited_threads(self) -> Iterator[None]:
        """Limit torch and linear algebra to the number of threads; None changes nothing."""
        if self.threads is None:
            yield
            return
        try:
            from threadpoolctl import threadpool_limits
        except ImportError as error:
            raise ImportError("--threads needs threadpoolctl. Install it with: pip install threadpoolctl") from error
        from knet.threads import limit_threads

        with limit_threads(self.threads), threadpool_limits(self.threads):
            yield

    def check_outputs(self, outputs: Iterable[tuple[Path | None, tuple[str, ...]]], *inputs: str | Path) -> None:
        """Raise an error before any work if a file cannot be written after it; each has allowed ends of its name."""
        from knet.tables.write import check_targets

        given = [(path, suffixes) for path, suffixes in outputs if path is not None]
        check_targets([path for path, _ in given], inputs, force=self.force)
        for path, suffixes in given:
            check_ending(path, *suffixes)


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command as Typer should see it: with the fields of each group in the place of the group."""

    def parameters(owner: Callable[..., object]) -> Mapping[str, inspect.Parameter]:
        return inspect.signature(owner, eval_str=True).parameters

    groups: dict[str, Any] = {
        name: part.annotation for name, part in parameters(command).items() if is_dataclass(part.annotation)
    }
    shown = [
        option.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for name, part in parameters(command).items()
        for option in (parameters(groups[name]).values() if name in groups else [part])
    ]

    @functools.wraps(command)
    def run(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group(**{field.name: values.pop(field.name) for field in fields(group)})
        command(**values)

    run.__signature__, run.__annotations__ = inspect.Signature(shown), {}  # type: ignore[attr-defined]
    return run


def check_inputs(data: str | None = None, model: Path | None = None) -> None:
    """Raise an error at once if a file to read is missing: the commands import slow libraries after this."""
    if data is not None and data != STDIN:
        check_suffix(data, "read")
        check_readable(Path(data))
    if model is not None:
        check_readable(model, "model file")


def check_roles(**roles: str | list[str] | None) -> None:
    """Raise an error if two options name the same column."""
    uses: dict[str, list[str]] = {}
    for option, names in roles.items():
        for name in [names] if isinstance(names, str) else names or []:
            uses.setdefault(name, []).append(f"--{option.replace('_', '-')}")
    for name, options in uses.items():
        if len(options) > 1:
            raise ValueError(
                f"{' and '.join(options)} name the same column, {name!r}. Use a column for one of them only."
            )
