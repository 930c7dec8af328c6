"""Labels come back to the table: which columns are copied, in which form, and in which formats."""

import re
import zipfile
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.datasets import load_iris
from typer.testing import CliRunner

from knet.cli.app import app
from knet.tables import write_excel
from knet.tables.read import Source
from knet.tables.write import write_batches

QUICK = ("--max-iter", "1", "--n-refits", "0")
FEATURES = ["sepal length (cm)", "sepal width (cm)", "petal length (cm)", "petal width (cm)"]


def call(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args])


def done(result):
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture(scope="module")
def iris(tmp_path_factory):
    """The Iris table as people have it, and a model of its measurements."""
    folder = tmp_path_factory.mktemp("iris")
    table = load_iris(as_frame=True).frame.drop(columns="target")
    table.insert(0, "plant", [f"00{i}" for i in range(150)])  # leading zeros have to survive
    table.insert(1, "day", np.arange(150) % 7)
    table["score"] = 'a, or "b"'
    path = folder / "iris.csv"
    table.to_csv(path, index=False)
    drop = ("--drop", "day", "--drop", "score")
    done(call("fit", path, "-c", 3, *QUICK, "--id-col", "plant", *drop, "-o", folder / "ids.safetensors"))
    done(call("fit", path, "-c", 3, *QUICK, "--drop", "plant", *drop, "-o", folder / "none.safetensors"))
    return folder, path, pd.read_csv(path, dtype=str)


def test_the_columns_that_are_copied(iris, tmp_path):
    folder, path, cells = iris
    everything = list(cells.columns)
    out = tmp_path / "out.csv"
    for model, options, kept in (
        ("ids", (), ["plant"]),
        ("none", (), everything),
        ("ids", ("--keep", "all"), everything),
        ("none", ("--keep", "none"), []),
        ("none", ("--keep", "day,score"), ["day", "score"]),
        ("ids", ("--keep", "score"), ["plant", "score"]),
        ("none", ("--id-col", "plant", "--id-col", "day"), ["plant", "day"]),
        ("none", ("--score", "--keep", "all"), everything[:-1]),
    ):
        said = done(call("predict", folder / f"{model}.safetensors", path, "-o", out, "--force", *options)).stderr
        found = pd.read_csv(out, dtype=str)
        assert [name for name in found.columns if name not in ("label", "score")] == [n for n in kept if n != "score"]
        shared = [name for name in kept if name in found.columns]
        pd.testing.assert_frame_equal(found[shared], cells[shared])  # as they are in the file, in its order
        assert ("'score' is not copied" in said) == ("--score" in options)


def test_columns_that_cannot_be_copied_are_refused(iris, tmp_path):
    folder, path, _ = iris
    predict = ("predict", folder / "none.safetensors", path, "-o", tmp_path / "out.csv")
    for options, message in (
        (("--keep", "dai"), "Did you mean 'day'?"),
        (("--keep", "score", "--score"), "has the name of a result"),
        (("--id-col", "plnt"), "Did you mean 'plant'?"),
    ):
        result = call(*predict, *options)
        assert result.exit_code == 2
        assert message in result.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_wide_table_is_copied_only_if_asked(tmp_path):
    rng = np.random.default_rng(0)
    wide = pd.DataFrame(np.vstack([rng.normal(size=(40, 101)), rng.normal(9, 1, (40, 101))])).add_prefix("v")
    wide.to_csv(tmp_path / "wide.csv", index=False)
    said = done(call("fit", tmp_path / "wide.csv", "-c", 2, *QUICK, "--labels", tmp_path / "labels.csv")).stderr
    assert "use --keep all to copy them" in said
    assert list(pd.read_csv(tmp_path / "labels.csv")) == ["label"]


def test_a_fit_writes_what_predict_writes(iris, tmp_path):
    path = iris[1]
    model, options = tmp_path / "m.safetensors", ("--drop", "plant,day,score")
    done(call("fit", path, "-c", 3, *QUICK, *options, "--proba", "-o", model, "--labels", tmp_path / "fit.csv"))
    done(call("predict", model, path, "--proba", "-o", tmp_path / "predict.csv"))
    fitted, predicted = (pd.read_csv(tmp_path / f"{name}.csv", dtype=str) for name in ("fit", "predict"))
    names = [name for name in fitted.columns if not name.startswith("level_")]
    pd.testing.assert_frame_equal(fitted[names], predicted)
    assert [name for name in names if name.startswith("proba_")] == ["proba_0", "proba_1", "proba_2"]


@pytest.mark.parametrize("suffix", ["xlsx", "parquet", "feather", "npz"])
def test_other_formats_have_numbers_and_text(iris, tmp_path, suffix):
    folder, path, cells = iris
    out = tmp_path / f"out.{suffix}"
    done(call("predict", folder / "none.safetensors", path, "-o", out, "--keep", "all"))
    readers = {
        "xlsx": partial(pd.read_excel, engine="openpyxl", dtype={"plant": str}),
        "parquet": pd.read_parquet,
        "feather": pd.read_feather,
    }
    if suffix == "npz":
        with np.load(out, allow_pickle=False) as arrays:
            found = pd.DataFrame({name: arrays[name] for name in arrays})
    else:
        found = readers[suffix](out)
    assert found[FEATURES].to_numpy() == pytest.approx(cells[FEATURES].astype(float).to_numpy())
    assert found["plant"].tolist() == cells["plant"].tolist()
    assert found["score"].tolist() == cells["score"].tolist()
    assert found["label"].tolist() == pd.read_csv(_labels(folder, path, tmp_path))["label"].tolist()


def _labels(folder, path, tmp_path):
    done(call("predict", folder / "none.safetensors", path, "-o", tmp_path / "labels.csv"))
    return tmp_path / "labels.csv"


def test_a_workbook_is_read_by_other_programs_and_back(tmp_path):
    odd = ["=1+1", "<&>\"'", "  spaces ", "bell\x07", "\u4e2d\u6587", "", None, "x" * 32_767]
    numbers = [0.1, -1e300, float("nan"), 3.0, 2.0**60, None, float("inf"), 7.0]
    table = pa.table({"text": odd, "number": numbers, "whole": list(range(8)), "flag": [True, False] * 4})
    path = tmp_path / "odd.xlsx"
    assert write_batches(iter([table.slice(0, 3), table.slice(3)]), path) == 8
    for engine in ("openpyxl", "calamine"):
        found = pd.read_excel(path, engine=engine, keep_default_na=False)
        assert found["text"].tolist()[:3] == odd[:3] if engine == "openpyxl" else found["text"].tolist()[:2] == odd[:2]
        assert found["whole"].tolist() == list(range(8))
        assert found["flag"].tolist() == [True, False] * 4
        assert found["number"][0] == 0.1
        assert str(found["number"][4]) == str(2.0**60)  # as text: it has more digits than a sheet keeps exact
    sheet = zipfile.ZipFile(path).read("xl/worksheets/sheet1.xml").decode()
    assert "<f>" not in sheet  # no cell is a formula
    assert re.search(r"bell_x0007_", sheet)


def test_texts_that_xml_or_excel_would_change_come_back(tmp_path):
    texts = ["_x0041_", "_x000D_", "\r", "a\r\nb", "__x0007_", "\x07", "x_0041_"]
    write_batches(iter([pa.table({"text": texts})]), tmp_path / "t.xlsx")
    with Source(str(tmp_path / "t.xlsx")) as source:
        assert source.read()["text"].to_pylist() == texts


def test_what_a_sheet_cannot_hold_is_refused(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match="32,767 characters"):
        write_batches(iter([pa.table({"a": ["x" * 32_768]})]), tmp_path / "a.xlsx")
    monkeypatch.setattr("knet.tables.write.MAX_ROWS", 10)
    with pytest.raises(ValueError, match=r"10 rows\. Write \.csv"):
        write_batches(iter([pa.table({"a": range(6)})] * 2), tmp_path / "a.xlsx")
    assert list(tmp_path.iterdir()) == []
    assert write_excel.MAX_ROWS == 1_048_575
