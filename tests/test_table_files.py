"""Table files that are long, damaged or hostile: each is read, or refused in one line; and what is written is whole."""

import gzip
import json
import os
import re
import subprocess
import sys
import threading
import zipfile
from collections import Counter
from contextlib import suppress

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.feather as pa_feather
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from benchmarks.embedding_cases import generated_vectors
from knet import load_light
from knet.cli.app import app
from knet.exceptions import KNetDataWarning
from knet.metrics import nmi
from knet.rows.index_columns import counts_rows, looks_like_index
from knet.tables import Recipe, json_excel, text
from knet.tables.conversion import Conversion
from knet.tables.dialect import Dialect, TextOptions
from knet.tables.json_excel import to_cell
from knet.tables.read import MAX_COLUMNS, Source
from knet.tables.vectors import read_vectors
from knet.tables.write import write_batches


def run(*arguments, code=0):
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, result.output
    return result


def read(path):
    with Source(str(path)) as source:
        return source.read()


def refused(path, match):
    with pytest.raises(ValueError, match=match) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


# Text


def test_a_wrong_row_in_a_compressed_file_ends_with_code_2(tmp_path):
    data = tmp_path / "d.csv.gz"
    data.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 400_000 + b"1,2,3\n" + b"1,2\n" * 1_000_000, 1))
    for _ in range(3):  # a thread that reads ahead would end the process in some runs only
        command = [sys.executable, "-m", "knet", "fit", str(data), "-c", "2"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        assert done.returncode == 2
        assert done.stderr == f"knet: {data}: Row 400,001 has 3 fields but the header has 2: '1,2,3'\n"


def test_no_thread_calls_python_after_an_error(tmp_path, monkeypatch):
    data = tmp_path / "d.csv.gz"
    data.write_bytes(gzip.compress(b"a,b\n" + b"1,2\n" * 400_000 + b"1\n" + b"1,2\n" * 400_000))
    calls, read_more = [], text.TextStream.read_more

    def noted(stream):
        calls.append(threading.get_ident())
        read_more(stream)

    monkeypatch.setattr(text.TextStream, "read_more", noted)
    refused(data, "Row 400,001 has 1 field ")
    assert set(calls) == {threading.get_ident()}
    assert len(calls) < 8  # the rest of the file has not been read


@pytest.mark.parametrize("seed", range(30))
def test_rows_are_never_cut_whatever_the_block(tmp_path, monkeypatch, seed):
    rng = np.random.default_rng(seed)
    parts = ["a", "b,", '"', '""', "\n", "\r\n", "\r", ",", '"x\ny",', '\u00e9"', "1"]
    path, blocks = tmp_path / "d.csv", []
    path.write_bytes("".join(rng.choice(parts, 400)).encode())
    for name in ("BEGINNING", "BLOCK", "LARGE_BLOCK"):
        monkeypatch.setattr(text, name, int(rng.integers(1, 60)))
    stream = text.TextStream(str(path), "utf-8")
    with suppress(ValueError):  # the last quote may have no end
        for block in stream.blocks(text.record_ends(Dialect())):
            blocks.append(block)
    stream.close()
    assert len(blocks) > 5
    assert sorted(row for block in blocks for row in parsed(block)) == sorted(parsed("".join(blocks)))


def parsed(block):
    """Return the rows of a text with two fields, and those with another number of fields, as Arrow reads them."""
    rows = []
    note = pa_csv.ParseOptions(newlines_in_values=True, invalid_row_handler=lambda row: rows.append(row.text) or "skip")
    reading = pa_csv.ReadOptions(column_names=["a", "b"], use_threads=False, block_size=len(block.encode()) + 9)
    kinds = pa_csv.ConvertOptions(column_types={"a": pa.string(), "b": pa.string()})
    table = pa_csv.read_csv(pa.BufferReader(b"a,b\n" + block.encode()), reading, note, kinds)
    return rows + [str(row) for row in table.to_pylist()[1:]]


def test_long_rows_are_read_and_endless_ones_refused(tmp_path, monkeypatch):
    path = tmp_path / "d.csv"
    path.write_text("a,b\n1," + "x" * (3 * 2**20) + '\n2,"y\nz"\n')
    assert [len(value) for value in read(path)["b"].to_pylist()] == [3 * 2**20, 3]
    monkeypatch.setattr(text, "MAX_ROW", 2**20)
    refused(path, "A row has more than 1,048,576 characters: a line end or a quote is missing")
    path.write_text("x" * (5 * 2**20))
    refused(path, "the first line has more than 4,194,304 characters")
    path.write_text('a,b\n1,2\n3,"x\n4,5\n')
    refused(path, r"A quote is not closed in the row '3,\"x")


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_line_ends(tmp_path, ending):
    (tmp_path / "d.csv").write_bytes(ending.join(["a,b", "1,2", "", "3,4"]).encode())
    assert read(tmp_path / "d.csv").to_pylist() == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]


@pytest.mark.parametrize("encoding", ["rot13", "zip", "base64", "undefined", "utf-9"])
def test_codecs_that_are_not_encodings_of_text_are_refused(tmp_path, encoding):
    (tmp_path / "d.csv").write_text("a,b\n1,2\n")
    result = run("fit", tmp_path / "d.csv", "-c", 2, "--encoding", encoding, code=2)
    assert f"There is no encoding '{encoding}' of text" in result.stderr
    assert result.stderr.count("\n") == 1


def test_files_that_are_not_compressed_or_cut_are_named(tmp_path):
    path = tmp_path / "d.csv.gz"
    path.write_bytes(b"a,b\n1,2\n")
    refused(path, "damaged or not compressed")
    path.write_bytes(gzip.compress(os.urandom(9000).hex().encode())[:-50])
    refused(path, "damaged or not compressed")


# JSON


@pytest.mark.parametrize(
    ("content", "match"),
    [
        ("[" * 100_000, "nested too deeply"),
        ('{"columns": 5, "data": [[1]]}', "both must be lists"),
        ('{"columns": ["a", "a"], "data": [[1, 2]]}', "the columns must differ"),
        ('{"columns": ["a"], "data": [5]}', 'Row 1 of "data" must be a list of 1 values'),
        ('{"columns": ["a", "b"], "data": [[1, 2], [3]]}', 'Row 2 of "data" must be a list of 2 values'),
        ('{"a": [1, 2], "b": [1]}', "different numbers of values"),
        ("5", "must be a list of objects"),
        ('[{"a": 1}, ', "is not JSON"),
        ('{"a": 1}\n{"a": ', "Line 2 is not JSON"),
        (" \n", "is empty"),
    ],
)
def test_json_that_is_no_table_is_refused(tmp_path, content, match):
    (tmp_path / "d.json").write_text(content)
    refused(tmp_path / "d.json", match)


def test_deep_lines_are_refused(tmp_path):
    (tmp_path / "d.jsonl").write_text('{"a": 1}\n' + '{"a":' * 100_000)
    refused(tmp_path / "d.jsonl", "Line 2 is not a table: the JSON is nested too deeply")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_values_in_json_are_exact(tmp_path, encoding):
    rows = [{"": 5, "id": 2**53 + 1, "code": "01", "when": "2024-01-02"}, {"": None, "id": 10**30, "code": "x\u2028y"}]
    expected = [{"unnamed_0": "5", "id": "9007199254740993", "code": "01", "when": "2024-01-02"}]
    expected += [{"unnamed_0": "", "id": f"1{'0' * 30}", "code": "x\u2028y", "when": ""}]
    for name, content in (
        ("a.json", json.dumps(rows, ensure_ascii=False)),
        ("b.json", "\n".join(json.dumps(row, ensure_ascii=False) for row in rows)),
        ("c.jsonl", "\n\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n"),
    ):
        (tmp_path / name).write_text(content, encoding=encoding)
        assert read(tmp_path / name).to_pylist() == expected


def test_a_small_file_that_expands_hugely_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(json_excel, "MAX_JSON", 2**20)
    monkeypatch.setattr(text, "MAX_ROW", 2**20)
    content = b'[{"a": 1}' + b" " * 2**24
    for name, match in (("d.json.gz", "more than 1,048,576 characters.*jsonl"), ("d.jsonl.gz", "A row has more than")):
        (tmp_path / name).write_bytes(gzip.compress(content))
        assert (tmp_path / name).stat().st_size < 2**15
        refused(tmp_path / name, match)


def test_json_of_too_many_values_is_refused_before_they_become_objects(tmp_path, monkeypatch):
    monkeypatch.setattr(json_excel, "MAX_VALUES", 999)
    for many in (
        "[" + "{}," * 1000 + "{}]",
        '{"a": [' + "0," * 1000 + "0]}",
        '[{"a": ' + "[" * 1000 + "]" * 1000 + "}]",
    ):
        for name in ("d.json", "d.jsonl"):
            (tmp_path / name).write_text(many)
            refused(tmp_path / name, "more than 999 values")
    (tmp_path / "d.json").write_text('{"a": [' + "0," * 900 + "0]}")
    assert len(read(tmp_path / "d.json")) == 901


def test_a_table_of_too_many_columns_is_refused_before_its_rows_are_read(tmp_path):
    width = MAX_COLUMNS + 1
    (tmp_path / "d.csv").write_text(",".join(["a"] * width) + "\n" + ",".join(["1"] * width) + "\n")
    refused(tmp_path / "d.csv", "131,073 columns; a table may have at most 131,072")


@pytest.mark.parametrize("sep", ['"', "'", "\n", "\r", "\0", "ab", ""])
def test_impossible_separators_are_refused(tmp_path, sep):
    (tmp_path / "d.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ValueError, match="must be one ASCII character"):
        Source(str(tmp_path / "d.csv"), TextOptions(sep=sep))


def test_cells_of_python_values():
    assert [to_cell(value) for value in (float("nan"), "x", 1, 1.5, False)] == ["", "x", "1", "1.5", "false"]


# Excel


HEAD = '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main">'
CELL = '<sheetData><row r="1"><c r="A1"><v>1</v></c></row>'
LAUGHS = "".join(f'<!ENTITY a{i} "{f"&a{i - 1};" * 10 if i else "ha"}">' for i in range(12))


@pytest.fixture
def workbook(tmp_path):
    """Return a function that writes a workbook with the XML of its sheet replaced."""
    pd.DataFrame({"a": [1, 2], "b": [0.5, None]}).to_excel(tmp_path / "genuine.xlsx", index=False)

    def write(xml):
        path = tmp_path / "d.xlsx"
        with zipfile.ZipFile(tmp_path / "genuine.xlsx") as source, zipfile.ZipFile(path, "w", 8) as target:
            for name in source.namelist():
                if not name.endswith("sheet1.xml"):
                    target.writestr(name, source.read(name))
                elif xml is not None:
                    target.writestr(name, xml)
        return path

    return write


@pytest.mark.parametrize(
    ("xml", "match"),
    [
        (f'{HEAD}{CELL}<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData></worksheet>', "16,777,216"),
        (f"{HEAD}{CELL}<row>{'<c/>' * 40}</row>{'<row/>' * 500_000}</sheetData></worksheet>", "16,777,216"),
        (f"{HEAD}{CELL}", "damaged"),
        (f"<!DOCTYPE worksheet [{LAUGHS}]>{HEAD}<sheetData>&a11;</sheetData></worksheet>", "damaged"),
        (f'{HEAD}<sheetData><row r="1"><c r="A1" t="s"><v>99</v></c></row></sheetData></worksheet>', "damaged"),
        (f'{HEAD}<sheetData><row r="1"><c r="{"A" * 9}1"><v>9</v></c></row></sheetData></worksheet>', "no column"),
        (f'{HEAD}<sheetData><row r="one"><c r="A1"><v>9</v></c></row></sheetData></worksheet>', "damaged"),
        (None, "damaged"),
    ],
)
def test_hostile_sheets_are_refused(workbook, xml, match):
    path = workbook(xml)
    assert path.stat().st_size < 10_000
    refused(path, match)


def test_the_cells_of_a_sheet_count_and_not_its_dimension(workbook):
    xml = f'{HEAD}<dimension ref="A1:XFD1048576"/>{CELL}<row><c t="str"><v>2</v></c></row></sheetData></worksheet>'
    assert read(workbook(xml)).to_pylist() == [{"x0": "1"}, {"x0": "2"}]


def test_a_workbook_of_too_much_xml_is_refused(workbook, monkeypatch):
    path = workbook(f"{HEAD}{CELL}</sheetData></worksheet>")
    monkeypatch.setattr(json_excel, "MAX_XML", 1000)
    refused(path, "more than 1,000 bytes of XML")


def test_cut_workbooks_are_refused_and_whole_numbers_stay_whole(tmp_path):
    path = tmp_path / "d.xlsx"
    pd.DataFrame({"a": [1, 2], "b": [0.5, None], "when": pd.Timestamp("2024-03-01 12:30")}).to_excel(path, index=False)
    when = "2024-03-01 12:30:00"
    assert read(path).to_pylist() == [{"a": "1", "b": "0.5", "when": when}, {"a": "2", "b": "", "when": when}]
    content = path.read_bytes()
    for size in (0, 3, 100, len(content) // 2, len(content) - 30):
        path.write_bytes(content[:size])
        refused(path, "is not an Excel workbook")


# Writing


def test_text_in_npz_is_not_pickled(tmp_path):
    path = tmp_path / "d.npz"
    table = pa.table({"file": ["a", None, "\u00e9\u00e9"], "label": [0, 1, 0], "day": pa.array([1, 2, 3], pa.date32())})
    write_batches(iter([table, table]), path)
    with np.load(path, allow_pickle=False) as found:
        assert found["file"].tolist() == ["a", "", "\u00e9\u00e9"] * 2
        assert found["label"].tolist() == [0, 1, 0] * 2
        assert found["day"].dtype.kind == "M"


# Categories that are new


def test_unseen_categories_are_counted_without_a_change_of_the_conversion():
    recipe = Recipe(one_hot=True).fit(pd.DataFrame({"x": [0.5, 2.0, 1.0], "kind": ["a", "b", "a"]}))
    before = recipe.conversion_.to_json()
    new = pa.table({"x": [1.0] * 3, "kind": ["a", "c", "d"]})
    unseen = Counter()
    for _ in range(2):
        X = recipe.conversion_.apply(new, unseen)
    np.testing.assert_array_equal(X[:, 1:], [[1, 0], [0, 0], [0, 0]])
    assert unseen == {"kind": 4}
    assert recipe.conversion_.to_json() == before
    assert recipe.conversion_ == Conversion.from_json(before)


@pytest.mark.parametrize(("kinds", "words"), [(["a", "c", "d"], "2 rows have"), (["a", "b", "c"], "1 row has")])
def test_a_recipe_warns_of_categories_that_are_new(kinds, words):
    recipe = Recipe(one_hot=True).fit(pd.DataFrame({"x": [0.5, 2.0, 1.0], "kind": ["a", "b", "a"]}))
    with pytest.warns(KNetDataWarning, match=f"{words} a value in 'kind' that was not seen in training") as caught:
        recipe.transform(pd.DataFrame({"x": [1.0] * 3, "kind": kinds}))
    assert caught[0].filename == __file__


# Indices


def test_a_column_that_counts_rows_looks_like_an_index(rng):
    for values in (np.arange(20), np.arange(20.0) + 7, np.arange(-5, 20).astype(np.float32)):
        assert counts_rows(values)
        assert looks_like_index(values)
    for values in (rng.permutation(20), np.cumsum(rng.integers(2, 9, 20)), np.arange(20) * 2):
        assert not counts_rows(values)
        assert looks_like_index(values)
    assert not looks_like_index(rng.permutation(20), is_all=False)
    for values in (
        np.arange(9),
        np.arange(20) + 0.5,
        rng.normal(size=20),
        np.zeros(20),
        np.r_[np.arange(19.0), np.nan],
    ):
        assert not counts_rows(values)
        assert not looks_like_index(values)


# Columns of vectors


@pytest.fixture(scope="module")
def vectors():
    return generated_vectors(600, 120, 4, separation=1.0)


@pytest.fixture(scope="module")
def parquet(vectors, tmp_path_factory):
    path = tmp_path_factory.mktemp("vectors") / "v.parquet"
    texts = pa.array([f"text {i}" for i in range(600)])
    pq.write_table(pa.table({"vector": list(vectors.X), "text": texts}), path, row_group_size=100)
    return path


def test_vectors_are_read_from_parquet_in_blocks(parquet, vectors, tmp_path, monkeypatch):
    monkeypatch.setattr("knet.tables.vectors.ROWS_AT_A_TIME", 64)
    np.testing.assert_array_equal(read_vectors(parquet, "vector"), vectors.X)
    mapped = read_vectors(parquet, "vector", tmp_path / "v.npy")
    assert isinstance(mapped, np.memmap)
    np.testing.assert_array_equal(np.load(tmp_path / "v.npy"), vectors.X)
    with pytest.raises(FileExistsError, match="overwrite=True"):
        read_vectors(parquet, "vector", tmp_path / "v.npy")
    read_vectors(parquet, "vector", tmp_path / "v.npy", overwrite=True)


def test_a_file_of_vectors_is_whole_or_absent(tmp_path, monkeypatch):
    monkeypatch.setattr("knet.tables.vectors.ROWS_AT_A_TIME", 4)
    pq.write_table(pa.table({"v": [[1.0, 2.0]] * 9 + [[3.0]]}), tmp_path / "v.parquet")
    (tmp_path / "old.npy").write_bytes(b"old")
    for name in ("new.npy", "old.npy"):
        with pytest.raises(ValueError, match="that of row 9 has 1"):
            read_vectors(tmp_path / "v.parquet", "v", tmp_path / name, overwrite=True)
    assert (tmp_path / "old.npy").read_bytes() == b"old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["old.npy", "v.parquet"]
    pq.write_table(pa.table({"v": pa.array([], pa.list_(pa.float64()))}), tmp_path / "v.parquet")
    with pytest.raises(ValueError, match="has no rows"):
        read_vectors(tmp_path / "v.parquet", "v", tmp_path / "new.npy")


def test_the_command_clusters_a_column_of_vectors(parquet, vectors, tmp_path):
    model, labels, report = tmp_path / "m.safetensors", tmp_path / "l.csv", tmp_path / "r.html"
    arguments = ["fit", parquet, "-c", 4, "-o", model, "--labels", labels, "--metric", "cosine", "--max-iter", 1]
    run(*arguments, "--text-col", "text", "--report", report, "--n-refits", 0)
    found = pd.read_csv(labels)["label"].to_numpy()
    assert nmi(vectors.y, found) > 0.95
    assert load_light(model).predictor.preparation.unit_length
    assert load_light(model).names[:2] == ("vector_0", "vector_1")
    typical = re.findall(r"text \d+", report.read_text(encoding="utf-8"))
    assert {found[int(text.split()[1])] for text in typical} == {0, 1, 2, 3}
    run("predict", model, parquet, "-o", tmp_path / "p.csv")
    np.testing.assert_array_equal(pd.read_csv(tmp_path / "p.csv")["label"], found)
    run("report", model, parquet, "-o", tmp_path / "again.html", "--text-col", "text", "--n-refits", 0)
    assert "text " in (tmp_path / "again.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_broken_columns_of_vectors_in_files_are_refused(tmp_path, suffix):
    path = tmp_path / f"v{suffix}"
    write = pq.write_table if suffix == ".parquet" else pa_feather.write_feather
    write(pa.table({"v": [[1.0, 2.0], [3.0]] * 20}), path)
    with Source(str(path)) as source:
        assert source.names == ["v_0", "v_1"]
        with pytest.raises(ValueError, match=r"Column 'v': All vectors must have the same length.*row 1 has 1"):
            source.read()


def test_wide_files_are_read_in_smaller_batches(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", np.zeros((100, 50), np.float32))
    monkeypatch.setattr("knet.tables.binary.VALUES_AT_A_TIME", 1000)
    with Source(str(tmp_path / "x.npy")) as source:
        assert [len(batch) for batch, _ in source.batches(dict.fromkeys(source.names[:2]))] == [20] * 5
