"""Tables as people have them: dialects, formats, types and messages, from real files; and `Recipe` on DataFrames."""

import bz2
import gzip
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.datasets import make_blobs
from sklearn.pipeline import make_pipeline
from typer.testing import CliRunner

from knet import KNet, load, load_light
from knet.cli.app import app
from knet.exceptions import KNetDataWarning
from knet.tables import Recipe
from knet.tables.conversion import Conversion
from knet.tables.dialect import Dialect, TextOptions, recognise, recognise_encoding, separator_named
from knet.tables.learn import Choices, learn
from knet.tables.read import Source

KNET = Path(sys.executable).with_name("knet")
QUICK = ["--max-iter", "2"]
N = 150


def call(*args, stdin=None):
    return CliRunner().invoke(app, [str(arg) for arg in args], input=stdin)


def done(result):
    assert result.exit_code == 0, result.output
    return result


def refused(result, *texts):
    assert result.exit_code == 2, result.output
    for text in texts:
        assert text in result.stderr
    return result


def rows(seed=0):
    """Return three groups of rows with two columns, with few digits so that every format holds them exactly."""
    X, y = make_blobs(N, 2, centers=3, cluster_std=0.3, center_box=(-4, 4), random_state=seed)
    return pd.DataFrame(X.round(5), columns=["length", "weight"]), y


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """Return a folder with a model of a plain CSV, the table, and the labels of the fit."""
    folder = tmp_path_factory.mktemp("plain")
    table, _ = rows()
    table.to_csv(folder / "plain.csv", index=False)
    files = ["-o", folder / "m.safetensors", "--labels", folder / "l.csv"]
    result = done(call("fit", folder / "plain.csv", "-c", 3, *QUICK, *files))
    assert "note" not in result.stderr
    return folder / "m.safetensors", table, pd.read_csv(folder / "l.csv").label.to_numpy()


def predicted(plain, data, tmp_path, *options):
    """Label a file with the model of the plain CSV; return the labels and what was printed."""
    result = done(call("predict", plain[0], data, *options, "-o", tmp_path / "out.csv", "--force"))
    return pd.read_csv(tmp_path / "out.csv").label.to_numpy(), result.stderr


def refitted(data, tmp_path, *options):
    """Fit a file; return the labels and what was printed."""
    result = done(call("fit", data, "-c", 3, *QUICK, *options, "--labels", tmp_path / "fit.csv", "--force"))
    return pd.read_csv(tmp_path / "fit.csv").label.to_numpy(), result.stderr


# Dialects


DIALECTS = {
    "semicolon": ({"sep": ";"}, "utf-8", "separator semicolon"),
    "decimal comma": ({"sep": ";", "decimal": ","}, "utf-8", "separator semicolon, decimal ','"),
    "tab": ({"sep": "\t"}, "utf-8", "separator tab"),
    "tab and comma": ({"sep": "\t", "decimal": ","}, "utf-8", "separator tab, decimal ','"),
    "pipe": ({"sep": "|"}, "utf-8", "separator pipe"),
    "quoted comma": ({"sep": ",", "decimal": ",", "quoting": 1}, "utf-8", "decimal ','"),
    "byte order mark": ({}, "utf-8-sig", ""),
    "utf-16": ({}, "utf-16", "encoding utf-16"),
    "utf-16 without mark": ({}, "utf-16-le", "encoding utf-16-le"),
    "single quotes": ({"quotechar": "'", "quoting": 1}, "utf-8", "quotes '"),
    "lines of Windows": ({"lineterminator": "\r\n"}, "utf-8", ""),
}


@pytest.mark.parametrize("name", DIALECTS)
def test_a_dialect_is_recognised_and_reported_in_one_line(plain, tmp_path, name):
    writing, encoding, note = DIALECTS[name]
    table, labels = plain[1:]
    data = tmp_path / "data.csv"
    table.to_csv(data, index=False, encoding=encoding, **writing)
    for found, stderr in (predicted(plain, data, tmp_path), refitted(data, tmp_path)):
        np.testing.assert_array_equal(found, labels)
        assert stderr.count("note:") == (1 if note else 0)
        assert f"note: {data} is read with {note}.\n" in stderr if note else "note" not in stderr


def test_thousands_are_recognised(plain, tmp_path):
    table, labels = plain[1:]
    large = (table * 100_000).round().astype(int)
    for mark, sep, text in ((",", ",", "','"), ("'", ",", '"\'"'), ("\u00a0", ",", repr("\u00a0"))):
        cells = large.map(lambda value, mark=mark: f"{value:,}".replace(",", mark))
        data = tmp_path / "data.csv"
        cells.to_csv(data, index=False, sep=sep)
        found, stderr = refitted(data, tmp_path)
        np.testing.assert_array_equal(found, labels)
        assert f"thousands {text}" in stderr
    swiss = large.map(lambda value: f"{value / 100:,.2f}".translate(str.maketrans(",.", ".,")))
    swiss.to_csv(data, index=False, sep=";")
    np.testing.assert_array_equal(refitted(data, tmp_path)[0], labels)


@pytest.mark.parametrize("encoding", ["cp1252", "latin-1"])
def test_western_text_is_read_and_categories_match_those_in_utf_8(tmp_path, encoding):
    table = rows()[0].assign(kind=np.where(np.arange(N) % 2, "r\u00f8d", "bl\u00e5"))
    table.to_csv(tmp_path / "a.csv", index=False, encoding=encoding)
    table.to_csv(tmp_path / "b.csv", index=False)
    model = tmp_path / "m.safetensors"
    result = done(call("fit", tmp_path / "a.csv", "-c", 3, "--one-hot", *QUICK, "-o", model))
    assert "encoding cp1252" in result.stderr
    assert load(model).feature_names_in_.tolist() == ["length", "weight", "kind=bl\u00e5", "kind=r\u00f8d"]
    result = done(call("predict", model, tmp_path / "b.csv", "-o", tmp_path / "out.csv"))
    assert "not seen in training" not in result.stderr


def test_options_override_what_is_recognised(plain, tmp_path):
    table, labels = plain[1:]
    data = tmp_path / "data.csv"
    table.to_csv(data, index=False, sep=";", decimal=",", encoding="utf-16")
    options = ["--sep", "semicolon", "--decimal", ",", "--encoding", "utf-16", "--header"]
    found, stderr = predicted(plain, data, tmp_path, *options)
    np.testing.assert_array_equal(found, labels)
    assert "note" not in stderr
    refused(call("predict", plain[0], data, "--sep", ",,"), "--sep", "one ASCII character", "',,'")
    refused(call("predict", plain[0], data, "--decimal", ";"), "--decimal", "';'")
    refused(call("predict", plain[0], data, "--encoding", "utf-9"), "no encoding 'utf-9'")
    refused(call("fit", data, "-c", 3, "--sep", ",", "--decimal", ","), "are both ','")
    refused(call("fit", data, "-c", 3, "--encoding", "utf-8"), "data.csv", "not UTF-8 text", "--encoding")
    refused(call("predict", plain[0], data, "--sep", "|"), "needs the columns 'length', 'weight'")


def test_a_file_without_header_gets_names_and_numbers_as_names_stay(tmp_path):
    table, _ = rows()
    table.to_csv(tmp_path / "bare.csv", index=False, header=False, sep=";", decimal=",")
    assert "no header, so that the columns are x0, x1" in refitted(tmp_path / "bare.csv", tmp_path)[1]
    pd.DataFrame(table.to_numpy()).to_csv(tmp_path / "numbered.csv", index=False)
    model = tmp_path / "m.safetensors"
    assert "no header" not in done(call("fit", tmp_path / "numbered.csv", "-c", 3, *QUICK, "-o", model)).stderr
    assert json.loads(call("info", model, "--json").stdout)["columns"] == ["0", "1"]
    (tmp_path / "unclear.csv").write_text("1,2\n3,4\n5,7\n")
    refused(call("fit", tmp_path / "unclear.csv", "-c", 2), "may be names or values", "--no-header", "--header")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a;b\n1,5;2,5\n", Dialect(";", decimal=",", thousands=".")),
        ("1,5;2,5;3,5\n1,25;2,5;3,5\n", Dialect(";", decimal=",", thousands=".", header=False)),
        ("a;b\n1,234;5,678\n", Dialect(";", decimal=",", thousands=".")),
        ('a,b\n"1,234",2.5\n', Dialect(thousands=",")),
        ("a,b\n1.234,2.345\n", Dialect()),
        ("sep=|\na|b\n1|2\n", Dialect("|")),
        ("name;place\nx,y;z\n", Dialect(";")),
        ("ant,1\nbee,2\nant,3\n", Dialect(header=False)),
        ("a,b\n1,2\n3\n4,5\n", Dialect()),
        ("x\n1\n2\n", Dialect()),
        ("x\n1,5\n2,25\n", Dialect(";", decimal=",", thousands=".")),
        ('a,"b\nc"\n1,2\n', Dialect()),
    ],
)
def test_recognition(text, expected):
    assert recognise(text, complete=True, usual=Dialect(), options=TextOptions()).dialect == expected


@pytest.mark.parametrize("seed", range(40))
def test_random_tables_are_read_as_they_were_written(tmp_path, seed):
    rng = np.random.default_rng(seed)
    n_rows, words = int(rng.integers(3, 60)), ["red", "blue; ish", "a,b", 'q"x', "x|y", "two words"]
    makers = [
        lambda: rng.normal(size=n_rows).round(2) * 10.0 ** rng.integers(0, 4),
        lambda: rng.normal(size=n_rows) * 10.0 ** rng.integers(-8, 8),
        lambda: rng.integers(0, 5000, n_rows),
        lambda: rng.choice(words, n_rows),
        lambda: rng.random(n_rows) < 0.5,
    ]
    table = pd.DataFrame({f"c{j}": makers[rng.integers(5)]() for j in range(rng.integers(1, 6))})
    writing = {
        "sep": str(rng.choice([*",;|", "\t"])),
        "decimal": str(rng.choice([*",."])),
        "quoting": int(rng.integers(2)),
    }
    table.to_csv(tmp_path / "d.csv", index=False, encoding=str(rng.choice(["utf-8", "utf-16", "cp1252"])), **writing)
    with Source(str(tmp_path / "d.csv")) as source:
        choices = Choices(columns=source.names, one_hot=True)
        found = learn(source.read(), choices, source.names, source.dialect).table
    for name, column in table.items():
        values = found[name].to_pandas()
        assert (values.dtype == column.dtype) or column.dtype.kind not in "bf"
        np.testing.assert_array_equal(values, column)


def test_a_cut_record_at_the_end_of_the_beginning_is_not_looked_at():
    found = recognise("a;b\n1;2\n3", complete=False, usual=Dialect(), options=TextOptions())
    assert (found.dialect.sep, found.header_length) == (";", 4)
    assert recognise_encoding("a,b\n1,\u00e9".encode()[:-1]) == "utf-8"
    assert recognise_encoding(b"a,b\n1,\x81\xe9\n") == "latin-1"
    assert [separator_named(word) for word in ("tab", "\\t", ";", None)] == ["\t", "\t", ";", None]


def test_a_header_longer_than_the_beginning_is_read(tmp_path):
    names = [f"column_{j:06}" for j in range(20_000)]
    (tmp_path / "wide.csv").write_text(";".join(names) + "\n" + ";".join(["1,5"] * len(names)) + "\n")
    with Source(str(tmp_path / "wide.csv")) as source:
        assert source.names == names
        assert source.read()["column_019999"].to_pylist() == ["1,5"]


def test_the_dialect_is_stored_with_the_model_and_decides_without_evidence(tmp_path):
    table = pd.DataFrame({"a": np.arange(N) % 3 + 0.5, "b": (np.arange(N) % 3) * 2.25})
    table.to_csv(tmp_path / "a.csv", sep=";", decimal=",", index=False)
    model = tmp_path / "m.safetensors"
    done(call("fit", tmp_path / "a.csv", "-c", 3, *QUICK, "-o", model, "--na", "n.a."))
    stored = Conversion.from_json(load(model).extra_["table"]).dialect
    assert stored == Dialect(";", decimal=",", thousands=".", na=("n.a.",))
    ambiguous = "a\tb\n1,234\t2,345\n"
    options = TextOptions(prior=stored)
    assert recognise(ambiguous, complete=True, usual=Dialect(), options=options).dialect.decimal == ","
    assert recognise(ambiguous, complete=True, usual=Dialect(), options=TextOptions()).dialect.decimal == "."
    table.to_csv(tmp_path / "b.csv", index=False)  # a plain CSV is recognised anew by its own evidence
    done(call("predict", model, tmp_path / "b.csv", "-o", tmp_path / "out.csv"))


# Formats


def write_zst(path, data):
    with pa.CompressedOutputStream(str(path), "zstd") as file:
        file.write(data)


@pytest.mark.parametrize("suffix", ["csv.gz", "csv.bz2", "csv.zst", "tsv.gz", "txt", "json", "jsonl", "jsonl.gz"])
def test_other_formats_give_the_same_labels(plain, tmp_path, suffix):
    table, labels = plain[1:]
    if "json" in suffix:
        text = table.to_json(orient="records", lines="jsonl" in suffix, double_precision=15)
    else:
        text = table.to_csv(index=False, sep={"tsv": "\t", "txt": " "}.get(suffix[:3], ","))
    data, encoded = tmp_path / f"data.{suffix}", text.encode()
    writers = {
        "gz": lambda: data.write_bytes(gzip.compress(encoded)),
        "bz2": lambda: data.write_bytes(bz2.compress(encoded)),
        "zst": lambda: write_zst(data, encoded),
    }
    writers.get(suffix.rpartition(".")[2], lambda: data.write_bytes(encoded))()
    np.testing.assert_array_equal(predicted(plain, data, tmp_path)[0], labels)
    np.testing.assert_array_equal(refitted(data, tmp_path)[0], labels)


@pytest.mark.parametrize("orient", ["columns", "split", "records", "lines"])
def test_json_in_the_forms_of_pandas(plain, tmp_path, orient):
    table, labels = plain[1:]
    options = {"orient": "records", "lines": True} if orient == "lines" else {"orient": orient}
    table.to_json(tmp_path / "data.json", double_precision=15, **options)
    np.testing.assert_array_equal(predicted(plain, tmp_path / "data.json", tmp_path)[0], labels)


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.json", "[1, 2]", "must be a list of objects"),
        ("a.json", "{", "not JSON"),
        ("a.jsonl", '{"a": 1}\n[2]\n', "Line 2 must be an object"),
        ("a.jsonl", '{"a": 1}\n{"a"\n', "Line 2 is not JSON"),
        ("a.jsonl", '{"a": 1}\n' * 1200 + '{"b": 1}\n', "Row 1201 has the field 'b'"),
        ("a.json", "[]", "a.json is empty"),
    ],
)
def test_wrong_json_is_refused(tmp_path, name, text, said):
    (tmp_path / name).write_text(text)
    result = refused(call("fit", tmp_path / name, "-c", 2), name, said)
    assert result.stderr.count("\n") == 1


def test_types_in_json(tmp_path):
    kinds = ["a", None, "b"]
    lines = [
        {"x": i % 7, "flag": i % 2 == 0, "kind": kinds[i % 3], "when": f"2024-01-{i % 28 + 1:02}"} for i in range(N)
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, lines)))
    model, options = tmp_path / "m.safetensors", ["--one-hot", "--dates"]
    done(call("fit", tmp_path / "a.jsonl", "-c", 2, *QUICK, *options, "-o", model))
    columns = Conversion.from_json(load(model).extra_["table"]).columns
    assert [(column.name, column.kind, column.n_missing) for column in columns] == [
        ("x", "number", 0),
        ("flag", "flag", 0),
        ("kind", "category", N // 3),
        ("when", "date", 0),
    ]


def test_excel(plain, tmp_path):
    pytest.importorskip("openpyxl")
    table, labels = plain[1:]
    data = tmp_path / "data.xlsx"
    table.to_excel(data, index=False)
    found, stderr = predicted(plain, data, tmp_path)
    np.testing.assert_array_equal(found, labels)
    assert "note" not in stderr
    np.testing.assert_array_equal(refitted(data, tmp_path)[0], labels)
    with pd.ExcelWriter(data) as book:
        table.assign(when=pd.Timestamp("2024-03-01"), code="007", ok=True).to_excel(
            book, sheet_name="rows", index=False
        )
        table.to_excel(book, sheet_name="other")
    options = ["--dates", "--one-hot", "-o", tmp_path / "m.safetensors"]
    assert "sheet 'rows' of 2" in done(call("fit", data, "-c", 3, *QUICK, *options)).stderr
    columns = Conversion.from_json(load(tmp_path / "m.safetensors").extra_["table"]).columns
    assert [column.kind for column in columns] == ["number", "number", "date", "category", "flag"]
    data.write_bytes(b"PK")
    refused(call("predict", plain[0], data), "is not an Excel workbook")


def test_excel_without_calamine_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    (tmp_path / "data.xlsx").write_bytes(b"PK")
    refused(call("fit", tmp_path / "data.xlsx", "-c", 2), "pip install 'knet-clustering[excel]'")


def test_a_damaged_compressed_file_is_refused(tmp_path):
    data = tmp_path / "data.csv.gz"
    data.write_bytes(gzip.compress(rows()[0].to_csv().encode())[:-200])
    assert refused(call("fit", data, "-c", 2)).stderr.count("\n") == 1
    data.write_bytes(b"a,b\n1,2\n")
    assert refused(call("fit", data, "-c", 2)).stderr.count("\n") == 1
    refused(call("fit", tmp_path / "data.parquet.gz", "-c", 2), "cannot read")


# Messages that name the cell


def with_word(word="n.a.", row=8):
    table = rows()[0].astype(object)
    table.iloc[row - 1, 1] = word
    return table


@pytest.mark.parametrize("sep", [",", ";"])
def test_a_value_that_is_not_a_number_is_named_with_its_row(tmp_path, sep):
    data = tmp_path / "d.csv"
    with_word().to_csv(data, index=False, sep=sep)
    message = "Column 'weight' has 1 value that is not a number: 'n.a.' in row 8: --na n.a. reads it as missing"
    refused(call("fit", data, "-c", 3), "d.csv", message, "Try: knet", "--na n.a.  (--auto does the same)")
    refused(call("fit", data, "-c", 3, "--one-hot"), message)
    assert "note: values are missing in 'weight' (0.7%)" in refitted(data, tmp_path, "--na", "n.a.")[1]
    with_word("not known").to_csv(data, index=False, sep=sep)
    refused(call("fit", data, "-c", 3), "'not known' in row 8: --na 'not known' reads")
    table = with_word()
    table.iloc[20, 1] = "?"
    table.to_csv(data, index=False, sep=sep)
    refused(call("fit", data, "-c", 3), "has 2 values that are not numbers: first 'n.a.' in row 8")


@pytest.mark.parametrize("options", [["--auto"], ["--na", "n.a."]])
def test_the_word_is_then_missing_in_new_files_too(tmp_path, options):
    data, model = tmp_path / "d.csv", tmp_path / "m.safetensors"
    with_word().to_csv(data, index=False)
    result = done(call("fit", data, "-c", 3, *QUICK, *options, "-o", model, "--labels", tmp_path / "l.csv"))
    note = "note: column 'weight' has 1 value that is not a number: 'n.a.' in row 8: --na n.a. reads it as missing"
    assert (note in result.stderr) == ("--na" not in options)
    assert re.search(r"^missing +weight$", result.stderr, re.MULTILINE)
    assert json.loads(call("info", model, "--json").stdout)["missing"] == ["weight"]
    done(call("predict", model, data, "-o", tmp_path / "again.csv"))
    assert (tmp_path / "l.csv").read_bytes() == (tmp_path / "again.csv").read_bytes()
    with_word("?", row=140).to_csv(data, index=False)
    refused(call("predict", model, data), "'weight' has a value that is not a number: '?' in row 140; use --na '?'")
    done(call("predict", model, data, "--na", "?", "-o", tmp_path / "third.csv"))


def test_a_decimal_comma_that_comes_late_is_named_with_the_option(plain, tmp_path):
    data = tmp_path / "d.csv"
    data.write_text("length;weight\n" + "1;2\n2;3\n" * 30_000 + "1,5;2\n")
    refused(call("predict", plain[0], data), "'1,5' in row 60,001; use --decimal ,.")
    refused(call("fit", data, "-c", 2), "'1,5' in row 60,001: --decimal , reads")
    done(call("predict", plain[0], data, "--decimal", ",", "-o", tmp_path / "out.csv"))


def test_bytes_that_the_encoding_does_not_have_are_refused(plain, tmp_path):
    data = tmp_path / "d.csv"
    data.write_bytes(b"length,weight,caf\xe9\n" + b"1,2,3\n" * 40_000 + b"1,2,\x81\n")
    refused(call("predict", plain[0], data), "is not cp1252 text", "--encoding latin-1")
    done(call("predict", plain[0], data, "--encoding", "latin-1", "-o", tmp_path / "out.csv"))


def test_rows_are_counted_over_batches(plain, tmp_path):
    data = tmp_path / "long.csv"
    text = plain[1].to_csv(index=False, header=False) * 1000
    data.write_text("length,weight\n" + text + "1,oops\n")
    assert data.stat().st_size > 2 * 2**20
    refused(call("predict", plain[0], data), f"'oops' in row {N * 1000 + 1:,}")


def test_dates_say_which_form_is_assumed(tmp_path):
    days = pd.date_range("2024-01-01", periods=N)
    forms = {
        "%Y-%m-%d": "year-month-day",
        "%Y-%m-%dT%H:%M:%S": "year-month-day",
        "%Y-%m-%d %H:%M:%SZ": "year-month-day with a time zone",
        "%d.%m.%Y": "day.month.year",
        "%m/%d/%Y": "month/day/year",
        "%d/%m/%Y %H:%M": "day/month/year",
        "%Y/%m/%d": "year/month/day",
        "%b %d %Y": "Dec 31 2024",
        "%B %d, %Y": "Dec 31, 2024",
        "%d %b %Y": "31 Dec 2024",
        "%d-%b-%Y": "31-Dec-2024",
    }
    data, model = tmp_path / "d.csv", tmp_path / "m.safetensors"
    for pattern, form in forms.items():
        rows()[0].assign(when=days.strftime(pattern)).to_csv(data, index=False)
        refused(call("fit", data, "-c", 3), f"Column 'when' holds dates ({form}): --dates")
        result = done(call("fit", data, "-c", 3, *QUICK, "--dates", "-o", model, "--force"))
        assert (f"dates in 'when' are read as {form}." in result.stderr) == (not form.startswith("year-month"))
        with Source(str(data)) as source:
            conversion = Conversion.from_json(load(model).extra_["table"])
            X = conversion.apply(source.read(conversion.types(source.names)))
        np.testing.assert_array_equal(X[:, 2], np.arange(N) + 19723.0)
    wrong = rows()[0].assign(when=[*days.strftime(pattern)[:-1], "soon"])
    wrong.to_csv(data, index=False)
    refused(call("predict", model, data), "'when' has a value that is not a date: 'soon' in row 150")


def test_days_and_months_that_could_be_exchanged_are_mentioned(tmp_path):
    short = [f"0{i % 9 + 1}/0{i % 7 + 1}/2024" for i in range(N)]
    for sep, form in ((",", "month/day/year"), (";", "day/month/year")):
        rows()[0].assign(when=short).to_csv(tmp_path / "d.csv", index=False, sep=sep)
        stderr = refitted(tmp_path / "d.csv", tmp_path, "--dates")[1]
        assert f"read as {form}; days and months could also be exchanged" in stderr


def test_suffixes_of_all_outputs_are_checked_before_the_work(plain, tmp_path):
    model, data = plain[0], plain[0].with_name("plain.csv")
    refused(call("fit", data, "-c", 3, "-o", tmp_path / "m.pkl"), "m.pkl", "must end in .safetensors")
    refused(call("fit", data, "-c", 3, "--report", tmp_path / "r.pdf"), "r.pdf", "must end in .html")
    refused(call("report", model, data, "-o", tmp_path / "r.pdf"), "must end in .html")
    refused(call("export", model, "-o", tmp_path / "m.pb"), "must end in .onnx")
    refused(call("predict", model, data, "-o", tmp_path / "o.ods"), "cannot write", ".parquet")
    assert list(tmp_path.iterdir()) == []


def test_ids_of_the_model_are_left_out_of_npy(tmp_path):
    table = rows()[0].assign(key=[f"k{i}" for i in range(N)])
    data, model = tmp_path / "d.csv", tmp_path / "m.safetensors"
    table.to_csv(data, index=False)
    done(call("fit", data, "-c", 3, *QUICK, "--id-col", "key", "-o", model))
    result = done(call("predict", model, data, "-o", tmp_path / "out.npy", "--proba"))
    assert "the ids of 'key' are left out" in result.stderr
    assert np.load(tmp_path / "out.npy").shape == (N, 4)
    refused(call("predict", model, data, "-o", tmp_path / "b.npy", "--id-col", "key"), "numbers only", ".npz")


def test_plurals(plain, tmp_path):
    table = rows()[0].assign(kind=np.where(np.arange(N) % 2, "a", "b"))
    table.to_csv(tmp_path / "d.csv", index=False)
    model = tmp_path / "m.safetensors"
    done(call("fit", tmp_path / "d.csv", "-c", 3, "--one-hot", *QUICK, "-o", model))
    table.iloc[3, 2] = "c"
    table.to_csv(tmp_path / "d.csv", index=False)
    result = done(call("predict", model, tmp_path / "d.csv", "-o", tmp_path / "out.csv"))
    assert "note: 1 row has a value in 'kind' that was not seen" in result.stderr


# Types


def test_codes_indices_and_identifiers_are_not_numbers(tmp_path):
    table = rows()[0]
    table.insert(0, "", np.arange(N))
    table["row"] = np.arange(100, 100 + N)
    table["zip"] = [f"0{i % 9 + 1000}" for i in range(N)]
    table["name"] = [f"person {i}" for i in range(N)]
    data, model = tmp_path / "d.csv", tmp_path / "m.safetensors"
    table.to_csv(data, index=False)
    refused(call("fit", data, "-c", 3), "Column 'zip' holds text (codes such as '01000'): --one-hot")
    result = done(call("fit", data, "-c", 3, *QUICK, "--drop", "zip", "-o", model))
    assert "column 'unnamed_0' has no name in the file, so it is left out as an index" in result.stderr
    assert "column 'row' counts the rows, so it is left out as an index; use --columns" in result.stderr
    assert "'name' has a different text in every row, so it is left out as an identifier" in result.stderr
    assert "--id-col name to copy it" in result.stderr
    assert json.loads(call("info", model, "--json").stdout)["columns"] == ["length", "weight"]
    done(call("fit", data, "-c", 3, *QUICK, "--columns", "length,row,unnamed_0", "-o", model, "--force"))
    assert json.loads(call("info", model, "--json").stdout)["columns"] == ["unnamed_0", "length", "row"]
    table[["row", "name"]].to_csv(data, index=False)
    refused(call("fit", data, "-c", 3), "No columns are left to cluster. Column 'row' counts the rows")


def test_gaps_are_listed_only_for_columns_that_have_some(tmp_path):
    table = rows()[0]
    data, model = tmp_path / "d.csv", tmp_path / "m.safetensors"
    table.to_csv(data, index=False)
    result = done(call("fit", data, "-c", 3, *QUICK, "-o", model))
    assert "values are missing" not in result.stderr
    assert "missing" not in call("info", model).stdout
    table.iloc[5, 0] = np.nan
    table.to_csv(data, index=False)
    done(call("predict", model, data, "-o", tmp_path / "out.csv"))  # new gaps are allowed all the same


def test_missing_means_the_same_in_python_and_on_the_command_line(tmp_path):
    """R writes NA everywhere, also for a missing text; pandas reads it as missing, polars does not."""
    kind = np.where(np.arange(N) % 3, "NA", np.where(np.arange(N) % 2, "dog", "cat"))
    data, model = tmp_path / "d.csv", tmp_path / "m.safetensors"
    rows()[0].assign(kind=kind).to_csv(data, index=False)
    result = done(call("fit", data, "-c", 3, "--one-hot", *QUICK, "-o", model, "--labels", tmp_path / "l.csv"))
    assert "values are missing in 'kind' (66.7%)" in result.stderr
    fitted = load_light(model)
    recipe = Recipe.from_json(fitted.extra["table"])
    assert recipe.conversion_.columns[2].levels == ("cat", "dog")
    labels = pd.read_csv(tmp_path / "l.csv").label
    for table in (pd.read_csv(data), pl.read_csv(data), pd.read_csv(data, keep_default_na=False)):
        X = recipe.transform(table)
        np.testing.assert_array_equal(np.isnan(X[:, 2]), kind == "NA")
        np.testing.assert_array_equal(fitted.predict(X), labels)
        assert Recipe(one_hot=True).fit(table).to_json()["columns"] == recipe.to_json()["columns"]


def obstacles():
    """Return a table with text, dates, words among numbers, an empty and an almost empty column, and repeated ids."""
    return rows()[0].assign(
        kind=np.where(np.arange(N) % 2, "dog", "cat"),
        born=pd.date_range("2000-01-01", periods=N).strftime("%b %d %Y"),
        age=["unknown" if i == 3 else i % 7 for i in range(N)],
        empty="",
        seldom=[1.5 if i == 2 else None for i in range(N)],
        owner=[f"person {i // 2 * 2}" if i < 20 else f"person {i}" for i in range(N)],
    )


def test_all_obstacles_are_named_at_once_with_a_command_that_works(tmp_path):
    data, model = tmp_path / "my data.csv", tmp_path / "m.safetensors"
    obstacles().to_csv(data, index=False)
    command = [sys.executable, "-m", "knet", "fit", str(data), "-c", "3", *map(str, QUICK), "-o", str(model)]
    refusal = subprocess.run(command, capture_output=True, text=True, check=False)
    assert refusal.returncode == 2
    for part in ("'kind' holds text", "'born' holds dates (Dec 31 2024)", "'unknown' in row 4"):
        assert part in refusal.stderr
    suggested = re.search(r"Try: knet (.*)  \(--auto does the same\)", refusal.stderr)[1]
    assert suggested.endswith("--one-hot --dates --na unknown")
    followed = subprocess.run(
        [sys.executable, "-m", "knet", *shlex.split(suggested)], capture_output=True, text=True, check=False
    )
    assert followed.returncode == 0, followed.stderr
    by_auto = done(call(*command[3:], "--auto", "--force", "--labels", tmp_path / "l.csv"))
    for result in (followed, by_auto):
        assert "'empty' has a value in 0 of 150 rows, so it is left out" in result.stderr
        assert "'seldom' has a value in 1 of 150 rows, so it is left out" in result.stderr
        assert "'owner' has 140 different texts, so it is left out as an identifier" in result.stderr
    info = json.loads(call("info", model, "--json").stdout)
    assert info["columns"] == ["length", "weight", "kind", "born", "age"]
    assert info["missing"] == ["age"]
    assert "ids in 'owner' repeat: 150 rows have 140" in refitted(data, tmp_path, "--auto", "--id-col", "owner")[1]


def test_the_recipe_names_all_obstacles_too():
    table = obstacles().assign(mixed=[1, *["x"] * 2, *range(N - 3)])
    table["born"] = pd.to_datetime(table.born)
    with pytest.raises(ValueError, match=r"Try: Recipe\(one_hot=True, dates=True, na=\['unknown', 'x'\]\)"):
        Recipe().fit(table)
    with pytest.warns(KNetDataWarning) as caught:
        names = Recipe(auto=True).fit(table).get_feature_names_out().tolist()
    assert any("left out as almost empty" in str(warning.message) for warning in caught)
    assert names == ["length", "weight", "kind=cat", "kind=dog", "born", "age", "mixed"]


def test_rare_categories_are_joined(tmp_path):
    maker = ["ford"] * 60 + ["opel"] * 50 + [f"m{i % 10}" for i in range(N - 110)]
    table = pd.DataFrame({"x": np.arange(N) % 7.0, "maker": maker})
    recipe = Recipe(one_hot=True).fit(table)
    assert recipe.get_feature_names_out().tolist() == ["x", "maker=ford", "maker=opel", "maker=(other)"]
    new = pd.DataFrame({"x": [1.0] * 4, "maker": ["opel", "m3", "never seen", None]})
    np.testing.assert_array_equal(recipe.transform(new)[:, 1:], [[0, 1, 0], [0, 0, 1], [0, 0, 1], [np.nan] * 3])
    small = pd.DataFrame({"x": range(8), "kind": list("aabbccdd")})
    assert Recipe(one_hot=True, columns=["kind"]).fit_transform(small).shape == (8, 4)


# The recipe in Python


def people():
    """Return a DataFrame with categories, booleans, dates and gaps."""
    table = rows()[0]
    table["kind"] = pd.Categorical(np.where(np.arange(N) % 2, "a", "b"))
    table["member"] = np.arange(N) % 3 == 0
    table["since"] = pd.date_range("2024-01-01", periods=N) - pd.to_timedelta(np.arange(N) % 5, unit="D")
    table.loc[3, "weight"] = np.nan
    table.loc[4, "kind"] = None
    return table


OPTIONS = {"one_hot": True, "dates": True}


@pytest.mark.parametrize("library", ["pandas", "polars", "arrow"])
def test_a_frame_is_clustered_through_a_recipe_in_a_pipeline(tmp_path, library):
    convert = {"pandas": lambda X: X, "polars": pl.from_pandas, "arrow": lambda X: pa.Table.from_pandas(X)}[library]
    table = people()
    pipeline = make_pipeline(Recipe(**OPTIONS), KNet(3, max_iter=2, random_state=0)).fit(convert(table))
    recipe, model = pipeline
    names = ["length", "weight", "kind=a", "kind=b", "member", "since"]
    assert recipe.get_feature_names_out().tolist() == names
    X = recipe.transform(convert(table))
    np.testing.assert_array_equal(np.argwhere(np.isnan(X)), [[3, 1], [4, 2], [4, 3]])
    np.testing.assert_array_equal(pipeline.predict(convert(table)), model.labels_)
    table.to_csv(tmp_path / "d.csv", index=False)
    options = ["--one-hot", "--dates", *QUICK]
    np.testing.assert_array_equal(refitted(tmp_path / "d.csv", tmp_path, *options)[0], model.labels_)


def test_a_model_takes_the_table_that_its_recipe_was_learned_on(tmp_path):
    table, path = people(), tmp_path / "m.safetensors"
    pipeline = make_pipeline(Recipe(**OPTIONS), KNet(3, max_iter=2, random_state=0)).fit(table)
    recipe, model = pipeline
    model.save(path)
    table.to_csv(tmp_path / "new.csv", index=False, sep=";", decimal=",")
    done(call("predict", path, tmp_path / "new.csv", "-o", tmp_path / "out.csv"))
    np.testing.assert_array_equal(pd.read_csv(tmp_path / "out.csv").label, model.labels_)
    loaded = load(path)
    numbers = pd.DataFrame(recipe.transform(table), columns=recipe.get_feature_names_out())
    shuffled = table[sorted(table.columns)].assign(note="not a column of the model")
    for given in (table, shuffled, pl.from_pandas(table), numbers):
        for other in (model, loaded, load_light(path), pipeline)[: 3 if given is not table else 4]:
            np.testing.assert_array_equal(other.predict(given), model.labels_)
    np.testing.assert_array_equal(loaded.predict(recipe.transform(table)), model.labels_)
    np.testing.assert_array_equal(loaded.predict(numbers.to_numpy()), model.labels_)
    assert Recipe.from_json(loaded.extra_["table"]).to_json() == recipe.to_json()
    loaded.save(path, overwrite=True)
    assert load(path).extra_ == loaded.extra_
    with pytest.raises(ValueError, match="needs the column 'kind'"):
        loaded.predict(table.drop(columns="kind"))
    with pytest.raises(ValueError, match="has 2 features"):
        loaded.predict(numbers.to_numpy()[:, :2])


def test_rules_stability_and_report_have_the_names_of_the_table(tmp_path):
    table = people()
    model = make_pipeline(Recipe(**OPTIONS), KNet(3, max_iter=2, random_state=0)).fit(table)[-1]
    found = model.explain(table, max_rows=20)
    assert found.columns == ["length", "weight", "kind", "member", "since"]
    assert set(re.findall(r"[a-z]+(?= [<>=])", " ".join(rule.text for rule in found.rules))) <= set(found.columns)
    assert model.stability(table, n_refits=1).rows.shape == (len(table),)
    model.report(table, tmp_path / "r.html", n_refits=0)
    page = (tmp_path / "r.html").read_text()
    assert found.rules[0].text.replace("<", "&lt;").replace(">", "&gt;") in page


def test_numbers_that_were_changed_after_the_recipe_have_none():
    X = Recipe(**OPTIONS).fit_transform(people())
    assert X.recipe is not None
    for changed in (X * 2, X[:, :3], np.asarray(X), X.copy()):
        assert getattr(changed, "recipe", None) is None


def test_a_recipe_is_a_transformer_of_scikit_learn():
    recipe = Recipe(columns=["weight", "kind"], one_hot=True)
    assert clone(recipe).get_params() == recipe.get_params()
    out = recipe.set_output(transform="pandas").fit_transform(people())
    assert out.columns.tolist() == ["weight", "kind=a", "kind=b"]
    assert recipe.n_features_in_ == 5
    with pytest.raises(ValueError, match="needs the column 'weight', missing"):
        recipe.transform(people()[["kind"]])
    np.testing.assert_array_equal(Recipe().fit_transform(np.eye(3)), np.eye(3))


@pytest.mark.parametrize(
    ("change", "parameters", "message"),
    [
        ({}, {"dates": True}, "'kind' holds text: one_hot=True"),
        ({}, {"one_hot": True}, "'since' holds dates: dates=True"),
        ({}, {"columns": ["kinds"]}, "Did you mean 'kind'"),
        (
            {"weight": [1.5] * 7 + ["n.a."] + [2.5] * (N - 8)},
            {"drop": ["kind", "since"]},
            r"'n.a.' in row 7: na=\[",
        ),
    ],
)
def test_a_recipe_refuses_and_names_its_parameters(change, parameters, message):
    with pytest.raises(ValueError, match=message):
        Recipe(**parameters).fit(people().assign(**change))


def test_mixed_objects_indices_and_gaps_in_frames():
    table = people()[["length"]].assign(
        mixed=[None, "n.a.", *np.arange(N - 2) % 5], flag=[True, None, *[False] * (N - 2)], row=np.arange(N)
    )
    recipe = Recipe(na=["n.a."])
    with pytest.warns(UserWarning, match="Column 'row' counts the rows"):
        X = recipe.fit_transform(table)
    assert recipe.get_feature_names_out().tolist() == ["length", "mixed", "flag"]
    np.testing.assert_array_equal(X[:3, 1], [np.nan, np.nan, 0])
    np.testing.assert_array_equal(X[:3, 2], [1, np.nan, 0])
    table.loc[9, "mixed"] = "oops"
    with pytest.raises(ValueError, match="'mixed' has 1 value that is not a number: 'oops' in row 9"):
        recipe.transform(table)


def test_frames_that_cannot_be_read_are_refused():
    lazy = pl.from_pandas(people()).lazy()
    for estimator in (Recipe(), KNet(2)):
        with pytest.raises(TypeError, match=r"LazyFrame, which holds no rows yet\. Call X\.collect\(\) first"):
            estimator.fit(lazy)
    with pytest.raises(TypeError, match="Got str instead"):
        Recipe().fit("rows.csv")
    with pytest.raises(ValueError, match="more than one column 'a'"):
        Recipe().fit(pd.DataFrame(np.eye(3), columns=["a", "a", "b"]))


def test_importing_the_folder_imports_nothing_heavy():
    script = (
        "import sys, knet.tables, knet.tables.dialect\n"
        "assert not {'pyarrow', 'sklearn', 'torch', 'numpy'} & set(sys.modules)\n"
        "assert knet.tables.Recipe().get_params() and 'pyarrow' in sys.modules\n"
        "assert dir(knet.tables) == ['Recipe']\n"
        "try: knet.tables.Recipes\n"
        "except AttributeError: print('done')"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert result.stdout == "done\n", result.stderr


# Size


@pytest.mark.slow
def test_a_million_rows_with_decimal_commas_are_labelled_in_bounded_memory(plain, tmp_path):
    script = "import resource, sys; from knet.cli.app import app\n" + (
        "try: app(sys.argv[1:])\n"
        "except SystemExit as end: print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, end.code)"
    )
    model, table, labels = plain
    peaks, text = [], table.to_csv(index=False, header=False, sep=";", decimal=",").encode()
    n_copies = 1_000_000 // N + 1
    for count, name in ((1, "small.csv"), (n_copies, "large.csv"), (n_copies, "large.csv.gz")):
        data = tmp_path / name
        opened = gzip.open(data, "wb", 1) if name.endswith("gz") else data.open("wb")
        with opened as file:
            file.write(b"length;weight\n")
            for _ in range(count):
                file.write(text)
        out = tmp_path / f"{name}.parquet"
        command = [sys.executable, "-c", script, "predict", str(model), str(data), "-o", str(out)]
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        result = subprocess.run(command, capture_output=True, text=True, env=env, timeout=300)
        peak, code = result.stdout.split()
        assert code == "0", result.stderr
        assert "separator semicolon, decimal ','" in result.stderr
        peaks.append(int(peak))
        np.testing.assert_array_equal(pd.read_parquet(out).label, np.tile(labels, count))
    assert max(peaks) - peaks[0] < 150, f"{peaks} MB"


@pytest.mark.parametrize(
    ("suffix", "option"),
    [
        *((suffix, option) for suffix in (".npy", ".parquet") for option in ("--na=n.a.", "--sep=;", "--no-header")),
        (".jsonl", "--decimal=,"),
        (".jsonl", "--header"),
        (".json", "--encoding=latin-1"),
        (".xlsx", "--sep=;"),
    ],
)
def test_options_for_text_are_refused_for_formats_that_do_not_use_them(tmp_path, suffix, option):
    path = tmp_path / f"data{suffix}"
    path.write_bytes(b"")
    name = option.split("=")[0]
    refused(call("fit", path, "-c", 2, option), f"{name} has no effect on a {suffix} file")
