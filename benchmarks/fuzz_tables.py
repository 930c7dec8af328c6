"""Hostile tables: text of strange cells, damaged files of all formats, crafted content; and rows for all writers.

The formats are those that `knet.tables.formats` lists, so that a new one needs a sound file in `table_bytes`.
"""

import bz2
import csv
import gzip
import io
import json
import os
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pa_parquet
from numpy.random import Generator
from python_calamine import CalamineWorkbook

from benchmarks.fuzz_values import CELLS, EXTREMES, OBJECTS, UnsoundError, check_message, choice, damage, two_groups
from knet import Advanced, KNet, compare
from knet.cli.columns import read_to_fit
from knet.cli.options import ColumnOptions, DialectOptions
from knet.show import plots
from knet.show.comparison import report as write_page
from knet.tables.dialect import TextOptions
from knet.tables.formats import COMPRESSIONS, READ, READ_JSON, READ_TEXT, WRITTEN
from knet.tables.read import Source
from knet.tables.vectors import read_vectors
from knet.tables.write import write_batches
from knet.tables.write_excel import PARTS

SHEET = '<?xml version="1.0"?><worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>'


def text_file(rng: Generator, folder: Path) -> bool:
    """Read a text file of hostile cells, for a fit and in batches."""
    plain, lines = rng.random() < 0.4, []
    for _ in range(rng.integers(0, 8)):
        width = 3 if plain or rng.random() < 0.8 else int(rng.integers(0, 6))
        chosen = [f"{value:.3g}" for value in rng.normal(size=width)]
        for j in range(width):
            if not plain or rng.random() < 0.1:
                chosen[j] = choice(rng, CELLS)
        lines.append((choice(rng, ";\t| ") if rng.random() < 0.05 else ",").join(chosen))
    content = ("a,b,c\n" if rng.random() < 0.7 else "") + choice(rng, ["\n", "\r\n", "\r"]).join(lines)
    data = content.encode(choice(rng, ["utf-8", "utf-8", "utf-16", "latin-1"]), errors="replace")
    data = damage(data, rng) if rng.random() < 0.3 and data else data
    suffix = choice(rng, READ_TEXT) + (choice(rng, ["", "", *COMPRESSIONS]))
    path = folder / f"t{suffix}"
    path.write_bytes(_compressed(data, path.suffix))
    return _use_table(path, rng)


def table_raw(rng: Generator, folder: Path) -> bool:
    """Read a damaged file of any format, or one that is damaged inside of its compression."""
    suffix = choice(rng, READ)
    data, outer = table_bytes(suffix), ""
    if suffix in (*READ_TEXT, *READ_JSON) and rng.random() < 0.5:
        outer = choice(rng, list(COMPRESSIONS))
        data = _compressed(damage(data, rng) if rng.random() < 0.3 else data, outer)
    if suffix in (".xlsx", ".npz") and rng.random() < 0.7:
        data = _damaged_members(data, rng)
    else:
        data = damage(data, rng)
    path = folder / f"t{suffix}{outer}"
    path.write_bytes(data)
    return _use_table(path, rng)


def table_crafted(rng: Generator, folder: Path) -> bool:
    """Read a well-formed file whose content is no table, or one of strange types."""
    suffix, data = choice(rng, [_json_content, _arrow_content, _array_content, _sheet_content])(rng)
    path = folder / f"t{suffix}"
    path.write_bytes(data)
    return _use_table(path, rng)


def _compressed(data: bytes, suffix: str) -> bytes:
    if suffix == ".zst":
        return pa.compress(data, "zstd", asbytes=True)
    return {".gz": gzip.compress, ".bz2": bz2.compress}.get(suffix, bytes)(data)


def _damaged_members(data: bytes, rng: Generator) -> bytes:
    """Return an archive with one of its files damaged, removed or repeated."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name, out = choice(rng, sorted(members)), io.BytesIO()
    members[name] = damage(members[name], rng) if rng.random() < 0.8 else b""
    with zipfile.ZipFile(out, "w") as archive:
        for own, content in members.items():
            archive.writestr(own if own != name or rng.random() < 0.9 else f"../{own}", content)
    return out.getvalue()


@cache
def table_bytes(suffix: str) -> bytes:
    """Return a sound file of a format."""
    X = two_groups(np.random.default_rng(0))
    table, out = pa.table({"a": X[:, 0], "b": X[:, 1], "c": ["x", None] * 20}), io.BytesIO()
    match suffix:
        case ".csv" | ".txt" | ".tsv":
            return table.to_pandas().to_csv(index=False, sep="\t" if suffix == ".tsv" else ",").encode()
        case ".json" | ".jsonl":
            return table.to_pandas().to_json(orient="records", lines=suffix == ".jsonl").encode()
        case ".parquet":
            pa_parquet.write_table(table, out)
        case ".feather":
            with pa.ipc.new_file(out, table.schema) as writer:
                writer.write_table(table)
        case ".npy":
            np.save(out, X)
        case ".npz":
            np.savez(out, X=X)
        case ".xlsx":
            _write_sheet(out, [table.column_names, *(list(row.values()) for row in table.to_pylist())])
        case _:
            raise LookupError(f"there is no sound {suffix} file")
    return out.getvalue()


def _write_sheet(out: io.BytesIO, rows: list[list[Any]], cell: str = '<c r="{place}" t="{kind}">{value}</c>') -> None:
    """Write a workbook of one sheet."""
    lines = []
    for number, row in enumerate(rows, 1):
        cells = []
        for j, value in enumerate(row):
            shown = f"<is><t>{value}</t></is>" if isinstance(value, str) else f"<v>{value}</v>"
            kind = "inlineStr" if isinstance(value, str) else "n"
            cells.append("" if value is None else cell.format(place=f"{chr(65 + j)}{number}", kind=kind, value=shown))
        lines.append(f'<row r="{number}">{"".join(cells)}</row>')
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in PARTS.items():
            archive.writestr(name, f'<?xml version="1.0"?>{text}')
        archive.writestr("xl/worksheets/sheet1.xml", f"{SHEET}{''.join(lines)}</sheetData></worksheet>")


def _json_content(rng: Generator) -> tuple[str, bytes]:
    """Return JSON of strange shape."""

    def value(depth: int) -> Any:
        kind = rng.integers(8 if depth else 4)
        if kind < 4:
            return choice(rng, [choice(rng, EXTREMES), choice(rng, OBJECTS), choice(rng, CELLS), float(rng.normal())])
        items = [value(depth - 1) for _ in range(rng.integers(0, 5))]
        if kind < 6:
            return items
        names = ["a", "b", "columns", "data", "index", "", "a", "\u00e9", "label"]
        return {choice(rng, names): item for item in items}

    rows = [value(2) for _ in range(rng.integers(0, 5))]
    if rng.random() < 0.5:
        names = [choice(rng, ["a", "b", "", "x" * 50]) for _ in range(3)]
        rows = [{name: value(int(rng.random() < 0.2)) for name in names} for _ in range(rng.integers(1, 6))]
    if rng.random() < 0.5:
        return ".jsonl", "\n".join(map(json.dumps, rows)).encode()
    wrapped = [rows, {"columns": choice(rng, [rows, ["a", "b"]]), "data": rows}, {"a": rows, "b": rows[::-1]}, value(3)]
    return ".json", json.dumps(choice(rng, wrapped)).encode()


def _arrow_content(rng: Generator) -> tuple[str, bytes]:
    """Return a table of strange types."""
    n = int(rng.integers(0, 6))
    makers: list[Callable[[], Any]] = [
        lambda: pa.array(rng.normal(size=n)),
        lambda: pa.array([choice(rng, CELLS[:-4]) for _ in range(n)]),
        lambda: pa.array([None] * n),
        lambda: pa.array([[1.0, 2.0]] * n, pa.list_(pa.float32())),
        lambda: pa.array([[1.0, 2.0]] * n, pa.list_(pa.float64(), 2)),
        lambda: pa.array([{"x": 1, "y": None}] * n, pa.struct({"x": pa.int8(), "y": pa.string()})),
        lambda: pa.array([b"\x00\xff"] * n, pa.binary()),
        lambda: pa.array(["x", None, "=1"][:n] + ["y"] * max(0, n - 3)).dictionary_encode(),
        lambda: pa.array(rng.integers(-(2**63), 2**63 - 1, n)),
        lambda: pa.array(rng.integers(0, 2**64 - 1, n, dtype=np.uint64)),
        lambda: pa.array(rng.integers(-(2**62), 2**62, n), pa.timestamp("ns", tz=choice(rng, [None, "UTC"]))),
        lambda: pa.array(rng.integers(-(2**62), 2**62, n), pa.duration("s")),
        lambda: pa.array(rng.integers(-(2**31), 2**31, n).astype(np.int32), pa.date32()),
        lambda: pa.array(rng.normal(size=n).astype(np.float16)),
        lambda: pa.array([True, None, False][:n] + [True] * max(0, n - 3)),
        lambda: pa.array(np.resize(np.array(EXTREMES[:-4] + EXTREMES[-3:], float), n)),
        lambda: pa.array([10**30] * n, pa.decimal128(38)),
    ]
    columns = [choice(rng, makers)() for _ in range(rng.integers(0, 5))]
    names = [choice(rng, ["a", "b", "c", "", "label", "=x", "\x1b", "a.1", "__index_level_0__"]) for _ in columns]
    table, out = pa.table(columns, names=names), io.BytesIO()
    if rng.random() < 0.5:
        try:
            pa_parquet.write_table(table, out)
            return ".parquet", out.getvalue()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # Parquet has no such type
            out = io.BytesIO()
    with pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
    return ".feather", out.getvalue()


def _array_content(rng: Generator) -> tuple[str, bytes]:
    """Return arrays of strange shapes and types, also ones that only a pickle can hold, or with a false header."""
    shapes: list[tuple[int, ...]] = [(), (0,), (3,), (0, 3), (3, 0), (4, 2), (2, 2, 2), (1, 1)]
    kinds = [
        "f8",
        ">f4",
        "f2",
        "i8",
        "u1",
        "?",
        "c16",
        "S3",
        "U3",
        "M8[s]",
        "m8[D]",
        "O",
        "V4",
        [("a", "f8"), ("b", "i4")],
    ]
    array = np.zeros(choice(rng, shapes), np.dtype(choice(rng, kinds)))
    out = io.BytesIO()
    if rng.random() < 0.5:
        np.savez(out, **{choice(rng, ["X", "a", "b/c", "label", "\u00e9"]): array, "y": np.arange(3)})
        return ".npz", out.getvalue()
    np.save(out, array)
    data = out.getvalue()
    claims = [b"(9999999999, 9)", b"(-1, 2)", b"(2, 2, __import__('os'))", b"((((", b"(1e9, 1)"]
    if rng.random() < 0.3:  # a header that claims another shape, as long as the true one
        head, found, rest = data.partition(b"'shape': ")
        data = head + found + choice(rng, claims) + rest[rest.find(b")") + 1 :]
    return ".npy", data


def _sheet_content(rng: Generator) -> tuple[str, bytes]:
    """Return a workbook of strange cells and places."""
    cells = [
        *(text for text in CELLS if text.isprintable()),
        1,
        2.5,
        float("nan"),
        None,
        -1e300,
        "&amp;",
        "<x/>",
        "&y;",
    ]
    rows = [[choice(rng, cells) for _ in range(rng.integers(0, 5))] for _ in range(rng.integers(0, 6))]
    forms = [
        '<c r="{place}" t="{kind}">{value}</c>',
        '<c t="{kind}">{value}</c>',
        '<c r="{place}"><f>1+1</f>{value}</c>',
        '<c r="{place}" t="s">{value}</c>',
        '<c r="{place}" t="e"><v>#N/A</v></c>',
        '<c r="{place}" t="b">{value}</c>',
        '<c r="{place}" t="d">{value}</c>',
        '<c r="A1">{value}</c>',
        '<c r="XFD{place}" t="{kind}">{value}</c>',
        '<c r="1" t="{kind}">{value}</c>',
        '<c r="{place}" s="99" t="{kind}">{value}</c>',
    ]
    out = io.BytesIO()
    _write_sheet(out, rows, choice(rng, forms))
    return ".xlsx", out.getvalue()


def _use_table(path: Path, rng: Generator) -> bool:
    """Read a table as `knet fit` and as `knet predict` do."""
    flags = [bool(flag) for flag in rng.integers(0, 2, 3)]
    header = choice(rng, [None, True, False]) if path.suffix in READ_TEXT else None
    options = ColumnOptions(auto=flags[0], one_hot=flags[1], dates=flags[2])
    try:
        fitted = read_to_fit(str(path), options, DialectOptions(header=header))
        recipe = fitted.recipe
        X = recipe.apply(fitted.table)
        with Source(str(path), TextOptions(header=header)) as source:
            n_rows = sum(len(recipe.apply(batch)) for batch, _ in source.batches(recipe.types(source.names)))
    except (ValueError, OSError) as error:
        check_message(error)
        return False
    if X.shape != (n_rows, len(recipe.outputs)) or X.dtype != np.float64:
        raise UnsoundError(f"{X.shape} rows for a fit, {n_rows} in batches")
    return True


# Writers


@cache
def _model() -> Any:
    X = two_groups(np.random.default_rng(0))
    advanced = Advanced(steps_per_iter=3, keep_embeddings=True)
    return KNet(2, max_iter=1, random_state=0, hidden_layer_sizes=(8,), advanced=advanced).fit(X)


def _vectors(path: Path, overwrite: bool) -> None:
    source = path.with_name("vectors.parquet")
    pa_parquet.write_table(pa.table({"v": pa.array([[1.0, 2.0]] * 9)}), source)
    try:
        read_vectors(source, "v", out=path, overwrite=overwrite)
    finally:
        source.unlink()


X_REPORT = two_groups(np.random.default_rng(1), 12)
WRITERS: dict[str, tuple[str, Callable[[Path, bool], object]]] = {  # the end of the name, and the function
    "KNet.save": (".safetensors", lambda path, overwrite: _model().save(path, overwrite=overwrite)),
    "KNet.report": (".html", lambda path, over: _model().report(X_REPORT, path, n_refits=0, overwrite=over)),
    "compare": (".html", lambda path, over: write_page(compare([0, 1, 1], [0, 0, 1]), path, overwrite=over)),
    "plots.animation": (".gif", lambda path, over: plots.animation(_model(), path, size=40, overwrite=over)),
    "read_vectors": (".npy", _vectors),
}


def writers(rng: Generator, folder: Path) -> bool:
    """Write a file where nothing, a file, a link, a folder or a device is; it is whole, or all is as it was before."""
    if rng.random() < 0.8:
        suffix = choice(rng, WRITTEN)
        table, fails = _hostile_table(rng, folder), bool(rng.random() < 0.2)
        write: Callable[[Path, bool], object] = lambda path, force: write_batches(  # noqa: E731
            _batches(table, fails), path, force=force
        )
    else:
        suffix, write = choice(rng, sorted(WRITERS.values(), key=lambda entry: entry[0]))
        table = fails = None
    path, overwrite = folder / f"out{suffix}", bool(rng.integers(2))
    _make_target(path, rng)
    before, existed = _listing(folder), path.exists()
    try:
        write(path, overwrite)
    except (OSError, ValueError) as error:
        check_message(error)
        if _listing(folder) != before:
            raise UnsoundError("a refused file changed the folder") from error
        return False
    if fails or (existed and not overwrite):
        raise UnsoundError("a file was written in spite of an error, or replaced without being asked to")
    others = {name: content for name, content in _listing(folder).items() if name not in (path.name, "target")}
    if others != {name: content for name, content in before.items() if name not in (path.name, "target")}:
        raise UnsoundError("another file changed")
    if table is not None and (read := _read_back(path)) != _expected(table, suffix):
        raise UnsoundError(f"{read} was read, {_expected(table, suffix)} was written")
    return True


def _listing(folder: Path) -> dict[str, bytes | str]:
    """Return the names and contents of a folder."""
    return {
        path.name: os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else "no file"
        for path in folder.iterdir()
    }


def _make_target(path: Path, rng: Generator) -> None:
    match rng.integers(7):
        case 0:
            path.mkdir()
        case 1:
            path.symlink_to(path.with_name("target"))
        case 2:
            path.with_name("target").write_bytes(b"old")
            path.symlink_to(path.with_name("target"))
        case 3:
            os.mkfifo(path)
        case 4:
            path.write_bytes(b"old")


def _hostile_table(rng: Generator, folder: Path) -> pa.Table:
    """Return ids of strange texts beside labels and scores."""
    n = int(rng.integers(1, 6))
    columns: dict[str, Any] = {}
    if rng.random() < 0.7:
        name = choice(rng, ["id", "=id", "a,b", '"', "\u00e9", "file", "x\ny", " "])
        columns[name] = pa.array([choice(rng, [*CELLS, None]) for _ in range(n)], pa.string())
    columns["label"] = rng.integers(-1, 3, n)
    columns["score"] = np.resize(np.array([1e-320, -1e308, 0.1, -0.0, 5e-324, 1 / 3]), n)
    return pa.table(columns)


def _batches(table: pa.Table, fails: bool | None) -> Iterator[pa.Table]:
    yield table.slice(0, 1)
    if fails:
        raise ValueError("the rows end with an error")
    if len(table) > 1:
        yield table.slice(1)


def _expected(table: pa.Table, suffix: str) -> list[list[Any]]:
    """Return the names and rows of a table as `_read_back` returns them; a missing text is empty."""
    columns = [["" if value is None else value for value in column.to_pylist()] for column in table.columns]
    return [table.column_names, *map(list, zip(*columns, strict=True))]


def _read_back(path: Path) -> list[list[Any]]:
    """Return the names and rows of a file, read by other code than knet's where there is some; never a pickle."""
    match path.suffix:
        case ".csv" | ".tsv":
            with open(path, encoding="utf-8", newline="") as file:
                names, *rows = csv.reader(file, delimiter="," if path.suffix == ".csv" else "\t", strict=True)
            n_ids = len(names) - 2
            return [names, *([*row[:n_ids], int(row[n_ids]), float(row[n_ids + 1])] for row in rows)]
        case ".npy":
            return [["label", "score"], *([int(label), score] for label, score in np.load(path).tolist())]
        case ".npz":
            arrays = np.load(path)
            return [list(arrays), *map(list, zip(*(arrays[name].tolist() for name in arrays), strict=True))]
        case ".parquet" | ".feather":
            read = pd.read_parquet if path.suffix == ".parquet" else pd.read_feather
            table = pa.Table.from_pandas(read(path), preserve_index=False)
            return _expected(table, path.suffix)
        case ".xlsx":
            names, *rows = CalamineWorkbook.from_path(path).get_sheet_by_index(0).to_python(skip_empty_area=False)
            return [names, *([*row[:-2], int(row[-2]), float(row[-1])] for row in rows)]
        case _:
            raise LookupError(f"nothing reads {path.suffix} back")
