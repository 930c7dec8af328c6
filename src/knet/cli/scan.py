"""The command `knet scan`: a table in, a comparison of numbers of clusters out."""

import time
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa

from knet.cli.commands import read_to_fit
from knet.inspect.scan import Scan
from knet.inspect.scan import scan as scan_clusters
from knet.tables.read import check_suffix
from knet.tables.write import check_target, new_file, write_batches

PICTURES = (".png", ".svg", ".pdf")


def scan(
    data: str,
    choices: Mapping[str, Any],
    clusters: range,
    *,
    output: Path | None = None,
    plot: Path | None = None,
    header: bool | None = None,
    seed: int = 0,
    quiet: bool = False,
    force: bool = False,
) -> dict[str, Any]:
    """Compare numbers of clusters for a table; the comparison goes to standard output where no file is given."""
    for path in (output, plot):
        if path is not None:
            check_target(path, force=force)
    if output is not None:
        check_suffix(str(output), "write")
    if plot is not None:
        _check_picture(plot)
    table, recipe = read_to_fit(data, choices, header)
    X = recipe.apply(table)
    started = time.perf_counter()
    found = scan_clusters(X, clusters, random_state=seed)
    done: dict[str, Any] = {"rows": len(X), "best": found.best, "supported": found.supported, "advice": found.advice}
    done["seconds"] = round(time.perf_counter() - started, 2)
    if output is not None or not quiet:
        write_batches(iter([pa.Table.from_pylist(found.table)]), output, force=force)
        done |= {} if output is None else {"output": str(output)}
    if plot is not None:
        _draw_scan(found, plot, force)
        done["plot"] = str(plot)
    return done | ({"table": found.table} if quiet else {})


def _check_picture(path: Path) -> None:
    """Raise before the work starts where a picture could not be drawn after it."""
    if path.suffix.lower() not in PICTURES:
        raise ValueError(f"{path} must end in one of {', '.join(PICTURES)}.")
    if find_spec("matplotlib") is None:
        raise ValueError("Pictures need matplotlib. Install it with: pip install 'knet[plots]'")


def _draw_scan(found: Scan, path: Path, force: bool) -> None:
    """Write the picture of a scan."""
    from matplotlib.figure import Figure

    from knet import plots

    figure = Figure(figsize=(7, 4.2), layout="constrained")
    plots.scan(found, figure.subplots())
    with new_file(path, force=force) as temporary:
        figure.savefig(temporary, dpi=120, format=path.suffix[1:].lower())
