"""No file is lost and nothing hostile gets in: full disks, crafted model files, control characters, two writers."""

import os
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import dask.array
import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from threadpoolctl import threadpool_info
from typer.testing import CliRunner

import knet.cli.fit
from knet import Advanced, KNet, load, load_light
from knet import files as whole_files
from knet.cli.app import app
from knet.exceptions import ModelFileError, NumericalError
from knet.files import whole_file, write_whole
from knet.model.onnx import to_onnx
from knet.model.read import ARRAYS, FORMAT_VERSION, MAX_SIZE
from knet.tables.terminal import TerminalWriter, printable
from knet.train import networks
from tests.model_files import forge, parts

QUICK = {"max_iter": 1, "random_state": 0, "advanced": Advanced(steps_per_iter=10)}
COMMAND = [sys.executable, "-m", "knet"]


def rows(n=60, d=3, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, d))
    X[: n // 2] += 6
    return X


def call(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args])


def refuses(result, *texts):
    assert result.exit_code == 2, result.output
    assert result.stderr.count("\n") == 1
    for text in texts:
        assert text in result.stderr


@pytest.fixture(scope="module")
def model():
    return KNet(2, **QUICK).fit(rows())


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model.safetensors"
    model.save(path)
    return path


@pytest.fixture
def data(tmp_path):
    pd.DataFrame(rows(), columns=["x0", "x1", "x2"]).to_csv(tmp_path / "data.csv", index=False)
    return tmp_path / "data.csv"


def half_written(path, content):
    with open(path, "wb") as file:
        file.write(content[: len(content) // 2])
    raise OSError(28, "No space left on device")


# Files that must not be lost


@pytest.mark.parametrize("command", ["predict", "embed"])
@pytest.mark.parametrize("suffix", ["csv", "parquet", "npy"])
def test_a_table_without_rows_does_not_replace_a_file(saved, tmp_path, command, suffix):
    empty, out = tmp_path / "empty.csv", tmp_path / f"out.{suffix}"
    empty.write_text("x0,x1,x2\n")
    out.write_text("precious")
    refuses(call(command, saved, empty, "-o", out, "-f"), "has no rows")
    assert out.read_text() == "precious"


@pytest.fixture
def full_disk(tmp_path, monkeypatch):
    """A folder on which no file can be written to its end."""
    folder, genuine = tmp_path / "full", Path.write_bytes
    folder.mkdir()

    def write_bytes(path, content):
        return half_written(path, content) if path.parent == folder else genuine(path, content)

    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    monkeypatch.setattr(knet.cli.fit.tempfile, "gettempdir", lambda: str(tmp_path))
    return folder


def test_a_full_disk_for_the_model_loses_neither_labels_nor_the_fit(data, full_disk, tmp_path):
    labels, page = tmp_path / "labels.csv", tmp_path / "page.html"
    outputs = ["-o", full_disk / "m.safetensors", "--labels", labels, "--report", page, "--n-refits", 0]
    result = call("fit", data, "-c", 2, "--max-iter", 1, *outputs)
    assert result.exit_code == 2
    last = result.stderr.splitlines()[-1]
    assert last.startswith("knet: The model could not be written to")
    assert "No space left" in last
    assert len(pd.read_csv(labels)) == 60
    assert page.exists()
    assert list(full_disk.iterdir()) == []
    (rescued,) = tmp_path.glob("m-*.safetensors")
    assert str(rescued) in last
    np.testing.assert_array_equal(load(rescued).predict(pd.read_csv(data)), pd.read_csv(labels).label)


def test_a_full_disk_for_the_report_alone_saves_the_model_too(data, full_disk, tmp_path):
    result = call("fit", data, "-c", 2, "--max-iter", 1, "--report", full_disk / "page.html", "--n-refits", 0)
    assert result.exit_code == 2
    assert "The report could not be written" in result.stderr
    assert list(tmp_path.glob("knet-model-*.safetensors"))


def test_without_any_space_the_message_says_so(data, full_disk, monkeypatch):
    monkeypatch.setattr(knet.cli.fit.tempfile, "gettempdir", lambda: str(full_disk))
    monkeypatch.setattr(Path, "home", lambda: full_disk)
    monkeypatch.setattr(Path, "cwd", lambda: full_disk)
    result = call("fit", data, "-c", 2, "--max-iter", 1, "-o", full_disk / "m.safetensors")
    assert result.exit_code == 2
    assert "could not be saved in another folder either" in result.stderr
    assert list(full_disk.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_behind_standard_output_does_not_lose_the_fit(data, tmp_path):
    with open("/dev/full", "w") as full:
        command = [*COMMAND, "fit", str(data), "-c", "2", "--max-iter", "1"]
        env = {**os.environ, "TMPDIR": str(tmp_path)}
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, env=env, timeout=120)
    assert done.returncode == 2, done.stderr
    assert b"standard output: [Errno 28]" in done.stderr
    assert b"Traceback" not in done.stderr
    assert list(tmp_path.glob("knet-model-*.safetensors"))


@pytest.mark.parametrize("writer", ["report", "onnx", "save"])
@pytest.mark.parametrize("error", [OSError(28, "disk full"), KeyboardInterrupt()])
def test_python_writers_leave_the_old_file_or_a_whole_new_one(model, tmp_path, monkeypatch, writer, error):
    write = {
        "report": lambda path: model.report(rows(), path, n_refits=0, overwrite=True),
        "onnx": lambda path: to_onnx(model, path, overwrite=True),
        "save": lambda path: model.save(path, overwrite=True),
    }[writer]
    path = tmp_path / "out"
    path.write_text("precious")

    def crash(path, content):
        with open(path, "wb") as file:
            file.write(content[:100])
        raise error

    monkeypatch.setattr(Path, "write_bytes", crash)
    with pytest.raises(type(error)):
        write(path)
    monkeypatch.undo()
    assert path.read_text() == "precious"
    assert [file.name for file in tmp_path.iterdir()] == ["out"]


def test_an_existing_file_keeps_its_permissions(saved, data, tmp_path):
    out = tmp_path / "out.csv"
    out.write_text("old")
    for mode in (0o600, 0o640, 0o664):
        out.chmod(mode)
        assert call("predict", saved, data, "-o", out, "-f").exit_code == 0
        assert stat.S_IMODE(out.stat().st_mode) == mode


def test_two_outputs_with_the_same_name_are_refused_before_the_fit(data, tmp_path):
    out, link = tmp_path / "out.csv", tmp_path / "link"
    link.symlink_to(tmp_path)
    for other in (out, tmp_path / "." / "out.csv", link / "out.csv"):
        refuses(call("fit", data, "-c", 2, "-o", out, "--labels", other), "also another output")
    refuses(call("scan", data, "-o", tmp_path / "a.csv", "--plot", tmp_path / "a.csv"), "also another output")
    assert not out.exists()


def test_an_output_that_is_an_input_is_refused(saved, data, tmp_path):
    content = data.read_bytes()
    refuses(call("predict", saved, data, "-o", data, "-f"), "also an input")
    refuses(call("fit", data, "-c", 2, "--labels", data, "-f"), "also an input")
    refuses(call("report", saved, data, "-o", saved, "-f"), "also an input")
    refuses(call("export", saved, "-o", saved, "-f"), "also an input")
    assert data.read_bytes() == content


def test_only_one_of_many_writers_creates_a_file(tmp_path):
    path, barrier, created, refused = tmp_path / "out", threading.Barrier(8), [], []

    def write(number):
        try:
            with whole_file(path, overwrite=False) as temporary:
                temporary.write_text(str(number))
                barrier.wait()
            created.append(number)
        except FileExistsError as error:
            refused.append(str(error))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(created) == 1
    assert len(refused) == 7
    assert all("exists already" in text for text in refused)
    assert path.read_text() == str(created[0])
    assert [file.name for file in tmp_path.iterdir()] == ["out"]


def test_a_file_that_appears_during_the_fit_is_not_replaced(data, tmp_path, monkeypatch):
    out, genuine = tmp_path / "m.safetensors", KNet.fit

    def fit(self, X, y=None, sample_weight=None):
        out.write_text("of another process")
        return genuine(self, X, y, sample_weight)

    monkeypatch.setattr(KNet, "fit", fit)
    monkeypatch.setattr(knet.cli.fit.tempfile, "gettempdir", lambda: str(tmp_path))
    assert call("fit", data, "-c", 2, "--max-iter", 1, "-o", out).exit_code == 2
    assert out.read_text() == "of another process"


def test_without_hard_links_a_file_is_still_not_replaced(tmp_path, monkeypatch):
    def no_links(source, target):
        raise PermissionError(1, "not supported")

    monkeypatch.setattr(os, "link", no_links)
    write_whole(tmp_path / "new", b"1", overwrite=False)
    with pytest.raises(OSError, match="not supported"):
        write_whole(tmp_path / "new", b"2", overwrite=False)
    assert (tmp_path / "new").read_bytes() == b"1"


def test_saving_twice_gives_the_same_bytes(model, tmp_path):
    contents = set()
    for number in range(5):
        model.save(tmp_path / str(number))
        contents.add((tmp_path / str(number)).read_bytes())
    load(tmp_path / "0").save(tmp_path / "again")
    assert contents == {(tmp_path / "again").read_bytes()}


def test_a_symbolic_link_stays_and_its_target_is_written(model, tmp_path):
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "real", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    model.save(link, overwrite=True)
    assert link.is_symlink()
    load(target)
    assert [file.name for file in target.parent.iterdir()] == ["real"]


def test_a_device_is_never_replaced(model, tmp_path):
    with pytest.raises(OSError, match="device or a pipe"):
        model.save("/dev/null", overwrite=True)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="device or a pipe"):
        model.save(tmp_path / "pipe", overwrite=True)
    with pytest.raises(IsADirectoryError):
        model.save(tmp_path, overwrite=True)


def test_leftovers_of_killed_processes_are_removed_and_others_stay(tmp_path):
    script = (
        "import os, sys; from pathlib import Path; from knet.files import whole_file\n"
        "with whole_file(Path(sys.argv[1])) as temporary:\n"
        "    temporary.write_text('half'); os.kill(os.getpid(), 9)"
    )
    out, mine = tmp_path / "out.csv", tmp_path / ".out.csv.backup"
    mine.write_text("mine")
    for _ in range(2):
        subprocess.run([sys.executable, "-c", script, str(out)], timeout=60)
    assert len(list(tmp_path.glob(".out.csv.*.unfinished"))) == 1  # the second process removed that of the first
    with whole_file(out) as alive:
        alive.write_text("first")
        write_whole(out, b"second")
        assert alive.exists()
    assert out.read_text() == "first"
    assert sorted(file.name for file in tmp_path.iterdir()) == [".out.csv.backup", "out.csv"]


def test_an_interruption_while_a_file_is_created_leaves_nothing_behind(tmp_path, monkeypatch):
    def interrupted(handle):
        raise KeyboardInterrupt

    monkeypatch.setattr(whole_files, "_lock", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_whole(tmp_path / "out", b"new")
    assert list(tmp_path.iterdir()) == []
    assert whole_files.UNFINISHED == set()


def test_long_names_can_be_written(tmp_path):
    write_whole(tmp_path / ("\u00e9" * 120), b"content")
    assert [len(path.name) for path in tmp_path.iterdir()] == [120]


def test_without_locks_files_are_written_too(tmp_path, monkeypatch):
    monkeypatch.setattr(whole_files, "fcntl", None)
    write_whole(tmp_path / "out", b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


# Files that must not get in


@pytest.fixture(scope="module")
def content(saved):
    return parts(saved)[1:]


def nested(depth):
    value = []
    for _ in range(depth):
        value = [value]
    return value


NAN, INF, HUGE = float("nan"), float("inf"), 10**400
ITERATION = {"iteration": 1, "hsic": 0.1, "reconstruction": 0.0, "u_change": 0.1, "u_error": 0.0, "seconds": 1.0}
CANDIDATE = {"method": "k-means", "conductance": 0.1, "gain": 0.1, "score": 0.1, "chosen": True}


def one_changed(name, row, **values):
    """Return headers in which the only row of a table has one wrong entry."""
    return {f"{name}: {key} = {value!r:.20}": {name: [row | {key: value}]} for key, value in values.items()}


HEADERS = {
    "deep": {"extra": nested(200)},
    "infinite sigma": {"sigma": INF},
    "sigma 0": {"sigma": 0},
    "NaN sigma": {"sigma": NAN},
    "negative spread": {"spread": -1.0},
    "spread 0": {"spread": 0.0},
    "true as a number": {"sigma": True},
    "huge number": {"sigma": HUGE},
    "huge number in extra": {"extra": {"reference": {"mean": HUGE}}},
    "NaN in extra": {"extra": {"reference": {"mean": NAN}}},
    "infinite best_iter": {"best_iter": INF},
    "best_iter beyond the history": {"best_iter": 7},
    "negative n_train": {"n_train": -3},
    "wrong n_features": {"n_features": 4},
    "huge n_features": {"n_features": 10**30},
    "names": {"feature_names": ["a"]},
    "names of numbers": {"feature_names": [1, 2, 3]},
    "a name twice": {"feature_names": ["a", "b", "a"]},
    "history of text": {"history": ["x"]},
    "history as an object": {"history": {}},
    "history without hsic": {"history": [{"iteration": 1}]},
    "iterations from 2": {"history": [ITERATION | {"iteration": 2}]},
    **one_changed("history", ITERATION, iteration="1", hsic="x", u_change=None, u_error=HUGE, seconds=[], more=1),
    **one_changed("history", ITERATION, hsic=HUGE, reconstruction=True),
    **one_changed("history", ITERATION, hsic=None),
    "selection of objects": {"selection": [{"affinity": {}, "ratio": 1}]},
    "two chosen": {"selection": [CANDIDATE, CANDIDATE]},
    "none chosen": {"selection": [CANDIDATE | {"chosen": False}]},
    **one_changed("selection", CANDIDATE, method=3, conductance=NAN, gain="x", score=None, chosen=1),
    "caveats as text": {"caveats": "x"},
    "caveats of numbers": {"caveats": [1]},
    "params as a list": {"params": []},
    "unknown encoder": {"encoder": "code"},
    "unsaved numbers": {"unsaved": [3]},
    "unsaved unknown": {"unsaved": ["more"]},
    "extra as text": {"extra": "x"},
    "versions as a list": {"versions": []},
    "versions of numbers": {"versions": {"knet": 1}},
    "version as text": {"format_version": "2"},
    "version 0": {"format_version": 0},
    "version infinite": {"format_version": INF},
}


def assert_refused(path):
    """Assert that both loaders give the same answer of one line."""
    for read in (load, load_light):
        with pytest.raises(ModelFileError) as caught:
            read(path)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 500


@pytest.mark.parametrize("name", HEADERS)
def test_crafted_headers_are_refused(content, tmp_path, name):
    header, tensors = content
    forge(tmp_path / "m", header | HEADERS[name], tensors)
    assert_refused(tmp_path / "m")


def test_the_rows_of_the_crafted_headers_are_sound(content, tmp_path):
    header, tensors = content
    forge(tmp_path / "m", header | {"history": [ITERATION], "selection": [CANDIDATE], "best_iter": 1}, tensors)
    assert load(tmp_path / "m").history_ == [ITERATION]
    assert load_light(tmp_path / "m").facts["hsic"] == 0.1


@pytest.mark.parametrize(
    ("name", "value"),
    [("sigma", "x"), ("max_iter", 0), ("tol", None), ("device", 3), ("random_state", "x"), ("learning_rate", [1])],
)
def test_crafted_parameters_are_refused(content, tmp_path, name, value):
    header, tensors = content
    forge(tmp_path / "m", header | {"params": header["params"] | {name: value}}, tensors)
    assert_refused(tmp_path / "m")
    advanced = header["params"]["advanced"] | {"degrees": value}
    forge(tmp_path / "m", header | {"params": header["params"] | {"advanced": advanced}}, tensors)
    assert_refused(tmp_path / "m")


VERSION_ONLY = f'{{"format_version": {FORMAT_VERSION}}}'


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 5000, "9" * 10_000, VERSION_ONLY, "{}", '"' * 9999, r"[\"[" * 9999, ""]
)
def test_crafted_json_is_refused(content, tmp_path, text):
    forge(tmp_path / "m", text, content[1])
    assert_refused(tmp_path / "m")


def test_the_depth_of_a_header_does_not_depend_on_the_recursion_limit(content, tmp_path):
    """Some packages raise Python's limit so far that a deep text ends the process, for example clustpy."""
    forge(tmp_path / "m", '{"a": ' + "[" * 1_000_000, content[1])
    script = (
        "import sys; sys.setrecursionlimit(10**9)\n"
        "from knet import load_light; from knet.exceptions import ModelFileError\n"
        "try:\n    load_light(sys.argv[1])\nexcept ModelFileError as error:\n"
        "    assert 'inside each other' in str(error)\n    sys.exit(7)"
    )
    assert subprocess.run([sys.executable, "-c", script, tmp_path / "m"], timeout=120).returncode == 7


def test_brackets_in_texts_are_not_levels(content, tmp_path):
    header, tensors = content
    note = {"note": "[{" * 1000 + '\\"[' * 1000}
    forge(tmp_path / "m", header | {"extra": note}, tensors)
    assert load(tmp_path / "m").extra_ == note


def changed(value, change):
    return {
        "bfloat16": lambda: value.to(torch.bfloat16),
        "half": lambda: value.half(),
        "integers": lambda: value.long(),
        "complex": lambda: value.to(torch.complex64),
        "one more axis": lambda: value[None].clone(),
        "one axis less": lambda: value.flatten().clone() if value.ndim > 1 else value[0].clone(),
        "empty": lambda: value[:0].clone(),
        "one row more": lambda: torch.cat([value, value[:1]]),
        "NaN": lambda: value.clone().fill_(NAN),
        "infinity": lambda: value.clone().fill_(INF),
        "other dtype": lambda: value.float(),
    }[change]()


CHANGES = ["bfloat16", "half", "integers", "complex", "one more axis", "one axis less", "empty", "one row more", "NaN"]


@pytest.mark.parametrize("change", [*CHANGES, "infinity"])
@pytest.mark.parametrize("name", [*ARRAYS, "encoder.weights.0", "encoder.biases.1", "encoder.skip"])
def test_crafted_arrays_are_refused(content, tmp_path, name, change):
    header, tensors = content
    square = torch.eye(len(tensors["shift"]), dtype=torch.float64)  # a projection, which this model does without
    forge(tmp_path / "m", header, tensors | {name: changed(tensors.get(name, square), change)})
    assert_refused(tmp_path / "m")


@pytest.mark.parametrize("name", ["centers", "landmarks", "encoder.weights.0", "encoder.skip"])
def test_arrays_of_different_precision_are_refused(content, tmp_path, name):
    header, tensors = content
    forge(tmp_path / "m", header, tensors | {name: changed(tensors[name], "other dtype")})
    with pytest.raises(ModelFileError):
        load(tmp_path / "m")


@pytest.mark.parametrize("name", ["scale", "weights"])
@pytest.mark.parametrize("value", [0.0, -1.0])
def test_arrays_of_the_wrong_sign_are_refused(content, tmp_path, name, value):
    header, tensors = content
    forge(tmp_path / "m", header, tensors | {name: tensors[name].clone().fill_(value)})
    with pytest.raises(ModelFileError, match="must be positive"):
        load(tmp_path / "m")


@pytest.mark.parametrize("value", [MAX_SIZE, 1e30, 1e300, -1e300, 1e-300, 5e-324])
def test_results_are_finite_whatever_the_size_of_the_numbers(content, tmp_path, value):
    """A file with numbers of any size is refused, or its model gives finite results in both precisions."""
    header, tensors = content
    loaded = 0
    for name in [*ARRAYS, *(name for name in tensors if name.startswith("encoder."))]:
        ones = torch.ones_like(tensors.get(name, torch.eye(3, dtype=torch.float64)))
        signs = torch.where(torch.arange(ones.numel()).reshape(ones.shape) % 2 == 0, ones, -ones)
        for forged in (ones * value, signs * value):
            forge(tmp_path / "m", header, tensors | {name: forged})
            try:
                light = load_light(tmp_path / "m")
            except ModelFileError:
                continue
            loaded += 1
            for X in (rows(20), 1e12 * rows(20), np.zeros((1, 3))):
                for dtype in (np.float32, np.float64):
                    for method in ("predict_proba", "score_samples"):
                        found = getattr(light, method)(X.astype(dtype))
                        assert np.isfinite(found).all(), (name, method, dtype)
    assert loaded >= 8


@pytest.mark.parametrize("n_clusters", [1, 3, 2.0, True, None, "2", [2]])
def test_a_wrong_number_of_clusters_is_refused(content, tmp_path, n_clusters):
    header, tensors = content
    forge(tmp_path / "m", header | {"params": header["params"] | {"n_clusters": n_clusters}}, tensors)
    with pytest.raises(ModelFileError):
        load(tmp_path / "m")


def test_an_unknown_array_is_refused(content, tmp_path):
    header, tensors = content
    for name in ("more", "encoder.more", "encoder.weights.7"):
        forge(tmp_path / "m", header, tensors | {name: torch.ones(3, dtype=torch.float64)})
        with pytest.raises(ModelFileError):
            load(tmp_path / "m")


def test_a_small_file_cannot_ask_for_much_memory(content, tmp_path):
    header, tensors = content
    wide = {f"encoder.weights.{layer}": torch.zeros(1, 0, 20_000, dtype=torch.float64) for layer in range(3)}
    forge(tmp_path / "m", header, tensors | wide)
    script = (
        "import resource, sys; from knet import load; from knet.exceptions import ModelFileError\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "try:\n    load(sys.argv[1])\nexcept ModelFileError:\n"
        "    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before\n"
        "    assert more < 50_000, more\n    sys.exit(7)"
    )
    assert subprocess.run([sys.executable, "-c", script, tmp_path / "m"], timeout=120).returncode == 7


def test_a_recipe_that_does_not_fit_is_refused(data, tmp_path):
    path = tmp_path / "m.safetensors"
    assert call("fit", data, "-c", 2, "--max-iter", 1, "-o", path).exit_code == 0
    _, header, tensors = parts(path)
    table = header["extra"]["table"]
    column = table["columns"][0]
    wrong_parts = ({"date_form": "month"}, {"missing": [1]}, {"missing": "NA"}, {"fills_gaps": 1}, {"n_missing": None})
    wrong_dialects = ({"na": [1]}, {"sep": ",,"}, {"sep": '"'}, {"decimal": ""}, {"thousands": "]"}, {"header": None})
    for recipe in (
        [],
        {},
        "x",
        table | {"columns": table["columns"][:1]},
        table | {"columns": [column | {"kind": "code"}, *table["columns"][1:]]},
        table | {"columns": [column | {"name": 3}, *table["columns"][1:]]},
        table | {"columns": [column | {"fill": "x"}, *table["columns"][1:]]},
        table | {"columns": [column | {"levels": 3}, *table["columns"][1:]]},
        table | {"columns": [column | {"more": 3}, *table["columns"][1:]]},
        *(table | {"columns": [column | part, *table["columns"][1:]]} for part in wrong_parts),
        *(table | {"dialect": table["dialect"] | part} for part in wrong_dialects),
        table | {"dialect": 5},
        table | {"ids": 3},
        table | {"ids": [3]},
    ):
        forge(tmp_path / "bad", header | {"extra": {"table": recipe}}, tensors)
        refuses(call("info", tmp_path / "bad"), "recipe")


def test_a_model_that_could_not_be_loaded_is_not_saved(tmp_path):
    changed_model = KNet(2, **QUICK).fit(rows()).set_params(n_clusters=3)
    with pytest.raises(ModelFileError, match="was not saved"):
        changed_model.save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["m.safetensors", "data.csv", "data.npy", "data.parquet"])
def test_a_file_without_permission_is_not_called_missing_or_damaged(tmp_path, name):
    (tmp_path / name).write_bytes(b"x")
    (tmp_path / name).chmod(0)
    script = (
        "import os, sys; from knet import load; from knet.tables.read import Source\n"
        "os.getuid() or os.setuid(65534)\n"  # the superuser may read everything
        "(load if sys.argv[1].endswith('safetensors') else Source)(sys.argv[1])"
    )
    tmp_path.chmod(0o755)
    done = subprocess.run(
        [sys.executable, "-c", script, name], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert "PermissionError: You have no permission to read" in done.stderr.splitlines()[-1]


# Hostile tables


def test_a_field_that_is_too_long_is_one_line(tmp_path):
    (tmp_path / "long.csv").write_text(f'a,"{"b" * 200_000}"\n1,2\n')
    refuses(call("fit", tmp_path / "long.csv", "-c", 2), "a field is too long")


def test_an_open_quote_is_found_at_once(tmp_path):
    (tmp_path / "open.csv").write_text('"' + "a\n" * 3_000_000)
    refuses(call("fit", tmp_path / "open.csv", "-c", 2), "a quote is missing")


def test_control_characters_are_escaped(tmp_path):
    evil = "x\x1b[2J\x07\u202e"
    table = pd.DataFrame(rows(), columns=[evil, "x1", "x2"])
    table.to_csv(tmp_path / "a.csv", index=False)
    for arguments in (["--drop", "nothing"], ["-o", tmp_path / "m.safetensors", "--max-iter", 1]):
        result = call("fit", tmp_path / "a.csv", "-c", 2, *arguments)
        assert not set("\x1b\x07\u202e") & set(result.output), result.output
    result = call("info", tmp_path / "m.safetensors")
    assert r"x\x1b[2J\x07\u202e" in result.stdout
    table[[evil]].to_csv(tmp_path / "b.csv", index=False)
    assert "\x1b" not in call("predict", tmp_path / "m.safetensors", tmp_path / "b.csv").output
    table.assign(x1="\x1b]0;title\x07").to_csv(tmp_path / "c.csv", index=False)
    assert "\x1b" not in call("predict", tmp_path / "m.safetensors", tmp_path / "c.csv").output


def test_a_table_on_a_terminal_is_escaped(tmp_path):
    with open(tmp_path / "out", "wb") as file:
        TerminalWriter(file).write("id,label\nr\u00f8d\x1b[31m,0\n".encode())
    assert (tmp_path / "out").read_text(encoding="utf-8") == "id,label\nr\u00f8d\\x1b[31m,0\n"
    assert printable("r\u00f8d \u4e2d") == "r\u00f8d \u4e2d"
    assert printable("a\nb\udcff") == "a\\nb\\udcff"


def test_masked_arrays_are_refused_with_the_remedy(model):
    X = np.ma.MaskedArray(rows(), mask=False)
    model.predict(X)  # nothing is masked
    X[3, 1] = np.ma.masked
    for bad in (X, list(X)):
        for use in (KNet(2, **QUICK).fit, model.predict, model.transform):
            with pytest.raises(ValueError, match=r"masked.*X\.filled\(np\.nan\)"):
                use(bad)
    with pytest.raises(ValueError, match="masked"):
        model.predict(dask.array.from_array(X, asarray=False)).compute()


def test_too_many_columns_are_refused_before_the_allocation():
    X = np.random.default_rng(0).normal(size=(12, 40_000)).astype(np.float32)
    for options in ({}, {"n_components": 5}):
        with pytest.raises(ValueError, match=r"With 40,000 columns.* GB\. Set max_columns"):
            KNet(2, **options, advanced=Advanced(max_columns=None)).fit(X)


def test_pretraining_follows_the_rule_for_threads(monkeypatch):
    seen, genuine = [], networks.pretrain

    def pretrain(*args, **options):
        blas = {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}
        seen.append((torch.get_num_threads(), blas))
        return genuine(*args, **options, max_steps=3)

    monkeypatch.setattr(networks, "pretrain", pretrain)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        KNet(2, max_iter=1, random_state=0, advanced=Advanced(init="pretrain", steps_per_iter=2)).fit(rows())
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert seen == [(1, {1})]


# Interruptions


@pytest.mark.parametrize("moment", [0.05, 0.15, 0.3, 0.6])
def test_an_interruption_during_the_start_is_one_line(moment):
    """Interrupt as soon as the handler is installed, and then after some time."""
    script = (
        "import os, sys, threading, time, signal, knet.cli\n"
        f"threading.Timer({moment}, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "sys.argv = ['knet', 'fit', '-', '-c', '2']\n"
        "knet.cli.main()"
    )
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        text = process.stderr.read()
        assert process.wait(timeout=60) == 130
    assert text == b"knet: interrupted.\n"


def test_an_interruption_that_python_would_ignore_ends_the_command():
    """Interrupt a destructor: Python ignores exceptions there, and the command would go on."""
    script = (
        "import os, signal, sys, knet.cli.app\n"
        "class Ended:\n    def __del__(self):\n        os.kill(os.getpid(), signal.SIGINT)\n"
        "def run():\n    Ended()\n    print('went on', flush=True)\n"
        "knet.cli.app.main = run\nknet.cli.main()"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"knet: interrupted.\n")


def test_too_little_memory_is_one_line(data, tmp_path, monkeypatch):
    for error in (MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate")):

        def fit(self, X, y=None, sample_weight=None, error=error):
            raise error

        monkeypatch.setattr(KNet, "fit", fit)
        refuses(call("fit", data, "-c", 2, "-o", tmp_path / "m.safetensors"), "memory is not sufficient")


def test_errors_of_knet_are_one_line_and_defects_are_not_hidden(data, saved, tmp_path, monkeypatch):
    def fit(self, X, y=None, sample_weight=None):
        raise error

    monkeypatch.setattr(KNet, "fit", fit)
    error = NumericalError("the objective is infinite")
    refuses(call("fit", data, "-c", 2, "-o", tmp_path / "m.safetensors"), "the objective is infinite")
    error = KeyError("a defect")
    assert call("fit", data, "-c", 2, "-o", tmp_path / "m.safetensors").exit_code == 1

    def export(*args, **options):
        raise RuntimeError("line 1\nline 2")

    monkeypatch.setattr(torch.onnx, "export", export)
    refuses(call("export", saved, "-o", tmp_path / "m.onnx"), "torch.onnx.export failed: line 1 line 2")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_nothing_hidden_stays_after_a_signal(tmp_path, number):
    script = (
        "import signal, sys, time; from pathlib import Path; from knet import cli\n"
        "from knet.files import whole_file\n"
        "for number in (signal.SIGINT, signal.SIGTERM):\n    signal.signal(number, cli._stop)\n"
        "with whole_file(Path(sys.argv[1])) as temporary:\n"
        "    print('ready', flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "out")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        process.wait(timeout=30)
    assert list(tmp_path.iterdir()) == []


def test_no_installed_package_replaces_the_helpers_of_the_tests(tmp_path):
    """A folder without __init__.py loses against an installed package of its name, wherever that is on the path."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "__init__.py").write_text("")
    folder = Path(__file__).parent.parent
    script = (
        f"import sys; sys.path[:0] = [{str(folder)!r}]; sys.path.append({str(tmp_path)!r}); import tests.estimators"
    )
    subprocess.run([sys.executable, "-P", "-c", script], check=True, cwd=tmp_path, timeout=120)


def test_the_helper_makes_files_that_load(content, tmp_path):
    forge(tmp_path / "m", *content)
    assert load_file(tmp_path / "m").keys() == content[1].keys()
    load(tmp_path / "m").predict(rows())
