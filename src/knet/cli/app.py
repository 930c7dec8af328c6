"""The command `knet`. Data goes to files or standard output, everything else to standard error.

Exit codes: 0 done, 2 wrong usage or data, 130 interrupted. torch, scikit-learn and Arrow are imported when a command
needs them, so that `--help` answers at once.
"""

import functools
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Annotated, Any, ParamSpec

import typer

from knet import __version__
from knet.tables.whole_files import remove_unfinished

P = ParamSpec("P")

app = typer.Typer(
    name="knet",
    help="Spectral clustering that learns its kernel and predicts.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

DEMO_ROWS = 30_000
INTERRUPTED = 130

Data = Annotated[str, typer.Argument(help="Table: .csv, .tsv, .parquet, .feather, .npy, .npz, or - for CSV on stdin.")]
ModelFile = Annotated[Path, typer.Argument(help="A model file, as `knet fit -o` writes it.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="File to write; standard output otherwise.")]
IdCol = Annotated[str | None, typer.Option(help="Column that identifies rows; copied to the output, never used.")]
Target = Annotated[str | None, typer.Option(help="Column with known labels; only compared with, never used.")]
Header = Annotated[bool | None, typer.Option("--header/--no-header", help="Whether the first CSV line names columns.")]
Seed = Annotated[int, typer.Option(help="The only source of randomness.")]
Device = Annotated[str, typer.Option(help="auto, cpu, cuda or mps.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Most threads to use.")]
Json = Annotated[bool, typer.Option("--json", help="Print a summary for machines to standard output.")]
Force = Annotated[bool, typer.Option("--force", "-f", help="Replace files that exist.")]
Columns = Annotated[list[str] | None, typer.Option(help="Columns to use; comma-separated, or repeat.")]
Drop = Annotated[list[str] | None, typer.Option(help="Columns to leave out; comma-separated, or repeat.")]
Impute = Annotated[str | None, typer.Option(help="Fill missing values: median.")]
OneHot = Annotated[bool, typer.Option("--one-hot", help="Turn text columns into 0/1 columns.")]
Dates = Annotated[bool, typer.Option("--dates", help="Turn dates into days since 1970.")]
Refits = Annotated[int, typer.Option(min=0, help="Fits with other seeds that the report measures stability by.")]


def main() -> None:
    """Run the command line."""
    signal.signal(signal.SIGTERM, _terminated)
    try:
        app()
    except SystemExit as end:
        if end.code == INTERRUPTED:  # threads may still wait for input; do not wait for them
            sys.stderr.flush()
            os._exit(INTERRUPTED)
        raise


def _terminated(number: int, frame: FrameType | None) -> None:
    """End at once, without half-written files: an exception would have to pass through foreign code."""
    remove_unfinished()
    os._exit(128 + number)


def clear_errors(command: Callable[P, None]) -> Callable[P, None]:
    """Turn the errors that users can mend into one line on standard error and exit code 2."""

    @functools.wraps(command)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except BrokenPipeError as error:  # the reader of our output has enough
            sys.stderr.close()
            raise SystemExit(141) from error
        except (ValueError, OSError, ImportError) as error:
            say(f"knet: {error}")
            raise typer.Exit(2) from error
        except KeyboardInterrupt as error:
            say("knet: interrupted.")
            raise typer.Exit(INTERRUPTED) from error

    return wrapped


def say(text: str) -> None:
    """Write a line to standard error."""
    typer.echo(text, err=True)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"knet {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Spectral clustering that learns its kernel and predicts."""


@app.command(
    epilog="Examples:  knet fit data.csv -c 3 -o m.safetensors --labels labels.csv --report report.html   |   "
    "cat data.csv | knet fit - -c 3 --id-col id > labels.csv"
)
@clear_errors
def fit(
    data: Data,
    clusters: Annotated[int, typer.Option("--clusters", "-c", help="Number of clusters.")],
    output: Annotated[Path | None, typer.Option("--output", "-o", help="Model file to write (.safetensors).")] = None,
    labels: Annotated[Path | None, typer.Option(help="Table of labels to write; .csv, .parquet, ...")] = None,
    report: Annotated[Path | None, typer.Option(help="Report to write, one .html file.")] = None,
    id_col: IdCol = None,
    target: Target = None,
    columns: Columns = None,
    drop: Drop = None,
    impute: Impute = None,
    one_hot: OneHot = False,
    dates: Dates = False,
    header: Header = None,
    sigma: Annotated[str, typer.Option(help="Width of the kernel: auto, median, or a number.")] = "auto",
    sigma_scale: Annotated[float, typer.Option(help="Multiplies auto and median.")] = 1.0,
    train_size: Annotated[str, typer.Option(help="Rows to train on: auto, a count, or a fraction like 0.1.")] = "auto",
    restarts: Annotated[int | None, typer.Option(help="Most restarts; the best is kept.")] = None,
    rounds: Annotated[int | None, typer.Option(help="Most rounds of training.")] = None,
    refits: Refits = 2,
    seed: Seed = 0,
    device: Device = "auto",
    threads: Threads = None,
    as_json: Json = False,
    force: Force = False,
) -> None:
    """Cluster a table: write the model, the labels and a report.

    Without --output and --labels, the labels go to standard output as CSV.
    """
    from knet.cli import commands

    choices = _choices(id_col, target, columns, drop, impute, one_hot, dates)
    params: dict[str, Any] = {
        "n_clusters": clusters,
        "sigma": _number_or_word(sigma),
        "sigma_scale": sigma_scale,
        "train_size": _number_or_word(train_size),
        "device": device,
        "random_state": seed,
        **({} if restarts is None else {"n_init": restarts}),
        **({} if rounds is None else {"max_rounds": rounds}),
    }
    targets = commands.Targets(output, labels, report, force)
    with commands.limited(threads):
        done = commands.fit(data, params, choices, targets, header=header, refits=refits, quiet=as_json)
    _answer(done, as_json)


@app.command(
    epilog="Examples:  knet predict m.safetensors new.parquet -o labels.parquet --proba --score   |   "
    "knet predict m.safetensors 'big/*.parquet' -o labels/ --dask local:4"
)
@clear_errors
def predict(
    model: ModelFile,
    data: Data,
    output: Output = None,
    proba: Annotated[bool, typer.Option("--proba", help="Add the membership of every cluster.")] = False,
    score: Annotated[bool, typer.Option("--score", help="Add how familiar each row is; 0 is the most.")] = False,
    embedding: Annotated[bool, typer.Option("--embedding", help="Add the embedded row.")] = False,
    id_col: IdCol = None,
    target: Target = None,
    header: Header = None,
    dask: Annotated[
        str | None,
        typer.Option(
            help="Label a folder or pattern of files on local:N processes, or on the cluster at tcp://host:port."
        ),
    ] = None,
    device: Device = "auto",
    threads: Threads = None,
    as_json: Json = False,
    force: Force = False,
) -> None:
    """Label the rows of a table, in pieces: the table may be larger than memory.

    With --dask, many files are labelled into a folder, one file each; a second run goes on where the first ended.
    """
    from knet.cli import commands

    wanted = [
        "label",
        *(["proba"] if proba else []),
        *(["score"] if score else []),
        *(["embedding"] if embedding else []),
    ]
    if dask is not None:
        if output is None or target is not None or data == "-":
            raise ValueError(
                "--dask reads files and writes into a folder: it needs --output, and takes no --target or -."
            )
        options: dict[str, Any] = {"device": "cpu" if device == "auto" else device, "threads": threads or 1}
        done = commands.predict_on_cluster(
            dask, model, data, output, wanted, id_col=id_col, header=header, force=force, **options
        )
        return _answer(done, as_json)
    if as_json and output is None:
        raise ValueError("--json prints a summary to standard output, where the labels go; say --output as well.")
    with commands.limited(threads):
        done = commands.predict(
            model, data, output, wanted, id_col=id_col, target=target, header=header, device=device, force=force
        )
    _answer(done, as_json)


@app.command(epilog="Example:  knet embed m.safetensors new.csv -o psi.npy")
@clear_errors
def embed(
    model: ModelFile,
    data: Data,
    output: Output = None,
    id_col: IdCol = None,
    header: Header = None,
    device: Device = "auto",
    threads: Threads = None,
    as_json: Json = False,
    force: Force = False,
) -> None:
    """Write the embedded rows psi(x) of a table, in pieces."""
    from knet.cli import commands

    if as_json and output is None:
        raise ValueError("--json prints a summary to standard output, where the rows go; say --output as well.")
    with commands.limited(threads):
        done = commands.predict(
            model, data, output, ["embedding"], id_col=id_col, header=header, device=device, force=force
        )
    _answer(done, as_json)


@app.command(epilog="Example:  knet report m.safetensors data.csv -o report.html --target species")
@clear_errors
def report(
    model: ModelFile,
    data: Data,
    output: Annotated[Path, typer.Option("--output", "-o", help="The .html file to write.")],
    target: Target = None,
    header: Header = None,
    refits: Refits = 2,
    threads: Threads = None,
    as_json: Json = False,
    force: Force = False,
) -> None:
    """Write a report on a model and a table as one offline HTML file."""
    from knet.cli import commands

    with commands.limited(threads):
        done = commands.write_report(model, data, output, target=target, header=header, refits=refits, force=force)
    _answer(done, as_json)


@app.command(epilog="Example:  knet export m.safetensors --onnx m.onnx")
@clear_errors
def export(
    model: ModelFile,
    onnx: Annotated[Path, typer.Option(help="The .onnx file to write.")],
    as_json: Json = False,
    force: Force = False,
) -> None:
    """Write a model as one ONNX graph, from columns to label, probabilities and embedding."""
    from knet.cli import commands

    _answer(commands.export_onnx(model, onnx, force=force), as_json)


@app.command()
@clear_errors
def info(model: ModelFile, as_json: Json = False) -> None:
    """Say what is in a model file."""
    from knet.cli import commands

    facts = commands.describe(model)
    if as_json:
        typer.echo(json.dumps(facts))
        return
    for name, value in facts.items():
        typer.echo(f"{name:<12} {', '.join(map(str, value)) if isinstance(value, list) else value}")


@app.command(epilog="Examples:  knet scan data.csv --plot scan.png   |   knet scan data.csv --from 2 --to 20 --json")
@clear_errors
def scan(
    data: Data,
    first: Annotated[int, typer.Option("--from", help="Fewest clusters to consider.")] = 2,
    last: Annotated[int, typer.Option("--to", help="Most clusters to consider.")] = 10,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Table to write; standard output otherwise.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Picture to write: .png, .svg or .pdf.")] = None,
    id_col: IdCol = None,
    target: Annotated[str | None, typer.Option(help="Column with known labels; left out.")] = None,
    columns: Columns = None,
    drop: Drop = None,
    impute: Impute = None,
    one_hot: OneHot = False,
    dates: Dates = False,
    header: Header = None,
    seed: Seed = 0,
    threads: Threads = None,
    as_json: Json = False,
    force: Force = False,
) -> None:
    """Advise on the number of clusters: what is stable and separated, or that the data give no answer.

    The comparison goes to standard output as CSV, or to --output; the advice to standard error.
    """
    from knet.cli import commands
    from knet.cli import scan as scan_command

    if first > last:
        raise ValueError(f"--from {first} is above --to {last}.")
    choices = _choices(id_col, target, columns, drop, impute, one_hot, dates)
    with commands.limited(threads):
        done = scan_command.scan(
            data,
            choices,
            range(first, last + 1),
            output=output,
            plot=plot,
            header=header,
            seed=seed,
            quiet=as_json,
            force=force,
        )
    _answer(done, as_json)


@app.command()
@clear_errors
def demo(
    folder: Annotated[Path, typer.Option("--output", "-o", help="Folder for the model and the picture.")] = Path(
        "knet-demo"
    ),
    seed: Seed = 0,
) -> None:
    """Train on 1 % of three spirals with 30,000 rows, label all of them, save a model and a picture."""
    from knet import KNet
    from knet.datasets import make_spirals
    from knet.metrics import nmi

    X, y = make_spirals(DEMO_ROWS, random_state=seed)
    say(f"Spiral2: {len(X):,} rows in three arms, {X.shape[1]} columns.")
    started = time.perf_counter()
    model = KNet(n_clusters=3, train_size=0.01, random_state=seed).fit(X)
    trained = time.perf_counter() - started
    started = time.perf_counter()
    labels = model.predict(X)
    labelled = time.perf_counter() - started
    folder.mkdir(parents=True, exist_ok=True)
    model.save(folder / "spiral2.safetensors")
    typer.echo(f"trained on {len(model.train_indices_):,} rows in {trained:.1f} s ({model.n_iter_} rounds)")
    typer.echo(f"labelled {len(labels):,} rows in {labelled:.2f} s")
    typer.echo(f"NMI with the true arms: {nmi(y, labels):.3f}")
    typer.echo(f"model    {folder / 'spiral2.safetensors'}")
    picture = folder / "spiral2.png"
    try:
        from knet.plots import figure1
    except ImportError:
        say("No picture: matplotlib is missing. Install it with: pip install 'knet[plots]'")
        return
    figure1(model, X).savefig(picture, dpi=100)
    typer.echo(f"picture  {picture}")


def _choices(
    id_col: str | None,
    target: str | None,
    columns: list[str] | None,
    drop: list[str] | None,
    impute: str | None,
    one_hot: bool,
    dates: bool,
) -> dict[str, Any]:
    """Return how to read a table, from the options that say so."""
    if impute not in (None, "median"):
        raise ValueError(f"The --impute option must be 'median'. Got {impute!r} instead.")
    choices = {"id_col": id_col, "target": target, "impute": impute is not None, "one_hot": one_hot, "dates": dates}
    return {**choices, "columns": columns or [], "drop": drop or []}


def _number_or_word(text: str) -> str | int | float:
    """Return an option as the number it spells, or as the word it is."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _answer(done: dict[str, Any], as_json: bool) -> None:
    """Print the summary of a command: for machines to standard output, for people to standard error."""
    if as_json:
        typer.echo(json.dumps(done))
        return
    for name, value in done.items():
        if isinstance(value, float):
            value = f"{value:.4g}"
        elif isinstance(value, list):
            value = ", ".join(map(str, value))
        say(f"{name.replace('_', ' '):<12} {value}")
