"""The commands that write files, and how to tell whether what they wrote is whole."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.feather as pa_feather
import pyarrow.parquet as pa_parquet

OLD = b"the old content of this file\n" * 40
N_ROWS, N_NEW = 200, 30_000


def make_inputs(folder: Path) -> None:
    """Write the tables that all runs read."""
    rng = np.random.default_rng(0)
    for name, n_rows in (("data.csv", N_ROWS), ("new.csv", N_NEW)):
        X = rng.normal(size=(n_rows, 3)) + 6 * rng.integers(0, 2, n_rows)[:, None]
        pd.DataFrame(X, columns=["x0", "x1", "x2"]).to_csv(folder / name, index=False)


def is_model(path: Path) -> bool:
    """Return whether a model file can be loaded."""
    from knet import load

    load(path)
    return True


def has_rows(n_rows: int) -> Callable[[Path], bool]:
    """Return a check that a table has all its rows."""
    readers = {
        ".csv": pd.read_csv,
        ".parquet": pa_parquet.read_table,
        ".feather": pa_feather.read_table,
        ".npy": np.load,
        ".npz": lambda path: np.load(path)["label"],
    }
    return lambda path: len(readers[path.suffix](path)) == n_rows


def is_page(path: Path) -> bool:
    """Return whether a report ends as every report does."""
    return path.read_text(encoding="utf-8").endswith("</html>\n")


def is_graph(path: Path) -> bool:
    """Return whether an ONNX graph can be read and is sound."""
    import onnx

    onnx.checker.check_model(onnx.load(path))
    return True


def is_image(path: Path) -> bool:
    """Return whether a PNG image has its end."""
    return path.read_bytes().endswith(b"IEND\xaeB`\x82")


def is_whole(path: Path) -> bool:
    """Return whether a file that a command wrote is whole; the end of its name says how to read it."""
    from knet.tables.formats import READ
    from knet.tables.read import Source

    if path.suffix == ".npz":  # columns of a result; a table has one array
        with np.load(path) as file:
            return min(map(len, file.values()), default=0) > 0
    if path.suffix in READ:
        with Source(str(path)) as source:
            return len(source.read()) > 0
    checks = {".safetensors": is_model, ".html": is_page, ".htm": is_page, ".onnx": is_graph, ".png": is_image}
    ends = {".svg": b"</svg>", ".pdf": b"%%EOF"}
    return (
        checks[path.suffix](path) if path.suffix in checks else path.read_bytes().rstrip().endswith(ends[path.suffix])
    )


@dataclass(frozen=True)
class Writer:
    """A command, its outputs with their checks, and its share of the kills."""

    arguments: list[str]
    outputs: dict[str, Callable[[Path], bool]]
    share: float = 1.0
    log: list[str] = field(default_factory=list)

    def prepare(self, folder: Path, *, with_old: bool) -> list[str]:
        """Write old files, or remove all outputs; return the arguments."""
        for name in self.outputs:
            (folder / name).unlink(missing_ok=True)
            if with_old:
                (folder / name).write_bytes(OLD)
        return [*self.arguments, *(["--force"] if with_old else [])]

    def damaged(self, folder: Path, *, with_old: bool) -> list[str]:
        """Return the outputs that are lost or not whole after a fault."""
        return [name for name in self.outputs if not self._is_sound(folder / name, with_old)]

    def _is_sound(self, path: Path, with_old: bool) -> bool:
        if not path.exists():
            return not with_old
        if path.read_bytes() == OLD:
            return with_old
        try:
            return self.outputs[path.name](path)
        except Exception as error:
            self.log.append(f"{path.name}: {error!r}")
            return False


def _predict(suffix: str) -> Writer:
    name = f"labels{suffix}"
    return Writer(["predict", "m.safetensors", "new.csv", "--proba", "-o", name], {name: has_rows(N_NEW)})


QUICK = ["--max-iter", "1", "--n-init", "1"]
WRITERS = {
    "fit": Writer(
        [*("fit data.csv -c 2 -o fit.safetensors --labels fit.csv --report fit.html --n-refits 0".split()), *QUICK],
        {"fit.safetensors": is_model, "fit.csv": has_rows(N_ROWS), "fit.html": is_page},
        2.0,
    ),
    "predict .csv": _predict(".csv"),
    "predict .parquet": _predict(".parquet"),
    "predict .feather": _predict(".feather"),
    "predict .npz": _predict(".npz"),
    "embed .npy": Writer("embed m.safetensors new.csv -o psi.npy".split(), {"psi.npy": has_rows(N_NEW)}),
    "report": Writer("report m.safetensors data.csv -o page.html --n-refits 0".split(), {"page.html": is_page}),
    "drift": Writer("drift m.safetensors new.csv -o drift.csv".split(), {"drift.csv": has_rows(3)}, 0.5),
    "stability": Writer(
        "stability m.safetensors data.csv -o stable.csv --n-refits 1".split(), {"stable.csv": has_rows(2)}, 0.3
    ),
    "predict .xlsx": Writer("predict m.safetensors data.csv -o labels.xlsx".split(), {"labels.xlsx": is_whole}, 0.5),
    "refit": Writer(
        "refit m.safetensors data.csv -o again.safetensors --labels again.csv".split(),
        {"again.safetensors": is_model, "again.csv": has_rows(N_ROWS)},
        0.3,
    ),
    "compare": Writer(
        "compare m.safetensors m.safetensors data.csv -o moves.csv".split(), {"moves.csv": has_rows(2)}, 0.3
    ),
    "export": Writer("export m.safetensors -o m.onnx".split(), {"m.onnx": is_graph}, 0.3),
    "scan": Writer(
        "scan data.csv --max-clusters 3 -o scan.csv --plot scan.png".split(),
        {"scan.csv": has_rows(2), "scan.png": is_image},
        0.5,
    ),
}

PRINTERS = [  # commands whose results go to standard output
    "predict m.safetensors new.csv --proba --score".split(),
    ["fit", "data.csv", "-c", "2", *QUICK],
    "scan data.csv --max-clusters 3".split(),
    "info m.safetensors".split(),
]


def model_arguments() -> list[str]:
    """Return the command that makes the model that the other commands read."""
    return ["fit", "data.csv", "-c", "2", *QUICK, "-o", "m.safetensors"]


def folder_labels(folder: Path) -> str:
    """Return all labels of a folder run as text, to compare two runs."""
    tables = {path.name: pa_parquet.read_table(path)["label"].to_pylist() for path in sorted(folder.glob("*.parquet"))}
    return json.dumps(tables)
