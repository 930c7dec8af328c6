"""The command line, end to end: the installed `knet` on real files."""

import inspect
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.datasets import make_blobs
from typer.main import get_command
from typer.testing import CliRunner

from knet import KNet, load
from knet.cli import demo
from knet.cli.app import app
from knet.cli.options import with_groups
from knet.model.light import LightModel
from knet.model.predictor import Predictor
from knet.tables.write import write_batches
from tests.estimators import wrong_rows_change

KNET = Path(sys.executable).with_name("knet")
QUICK = ["--max-iter", "2"]
SUFFIXES = ["csv", "tsv", "parquet", "feather", "npy", "npz"]


def run(*args, stdin=None, cwd=None, **options):
    """Run the installed command as a process of its own."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "120"}
    command = [str(KNET), *map(str, args)]
    return subprocess.run(command, input=stdin, capture_output=True, cwd=cwd, env=env, timeout=120, **options)


def call(*args, stdin=None):
    """Run the command inside this process, which saves the time for imports."""
    return CliRunner().invoke(app, [str(arg) for arg in args], input=stdin)


def frame(n_rows=240, n_columns=3, seed=0):
    X, y = make_blobs(n_rows, n_columns, centers=3, cluster_std=0.3, center_box=(-4, 4), random_state=seed)
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(n_columns)])
    return table, np.array(["ant", "bee", "cow"])[y]


def write(table, path):
    writers = {
        ".csv": lambda: table.to_csv(path, index=False),
        ".tsv": lambda: table.to_csv(path, index=False, sep="\t"),
        ".parquet": lambda: table.to_parquet(path),
        ".feather": lambda: table.to_feather(path),
        ".npy": lambda: np.save(path, table.to_numpy()),
        ".npz": lambda: np.savez(path, X=table.to_numpy(), other=np.arange(3)),
    }
    writers[path.suffix]()
    return path


def read(path):
    readers = {
        ".csv": pd.read_csv,
        ".tsv": lambda p: pd.read_csv(p, sep="\t"),
        ".parquet": pd.read_parquet,
        ".feather": pd.read_feather,
        ".npy": lambda p: pd.DataFrame({"label": np.load(p)}),
        ".npz": lambda p: pd.DataFrame(dict(np.load(p))),
    }
    return readers[path.suffix](path)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A model file, its data, and the labels of the fit."""
    folder = tmp_path_factory.mktemp("trained")
    table, _ = frame()
    data = write(table, folder / "data.csv")
    result = call("fit", data, "-c", 3, *QUICK, "-o", folder / "m.safetensors", "--labels", folder / "labels.csv")
    assert result.exit_code == 0, result.stderr
    return folder / "m.safetensors", table, pd.read_csv(folder / "labels.csv").label.to_numpy()


def refuses(result, *texts):
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    for text in texts:
        assert text in result.stderr


# What is printed, and where


def test_a_group_of_options_is_one_parameter_of_its_command_and_the_same_in_all_commands():
    helps = {}
    for command in get_command(app).commands.values():
        for option in command.params:
            helps.setdefault(option.name, set()).add((tuple(option.opts), tuple(option.secondary_opts), option.help))
    assert {option.opts[0] for option in get_command(app).commands["fit"].params} >= {"--sep", "--drop", "--threads"}
    shared = [
        "header",
        "sep",
        "decimal",
        "encoding",
        "na",
        "use",
        "drop",
        "auto",
        "one_hot",
        "dates",
        "threads",
        "force",
    ]
    assert {name: len(helps[name]) for name in shared} == dict.fromkeys(shared, 1)

    @dataclass(frozen=True)
    class Group:
        second: int = 2
        third: str = "c"

    taken = []

    def command(*, first: int, group: Group, fourth: bool = False):
        taken.append((first, group, fourth))

    seen = with_groups(command)
    assert list(inspect.signature(seen).parameters) == ["first", "second", "third", "fourth"]
    seen(first=1, second=5, third="d", fourth=True)
    assert taken == [(1, Group(5, "d"), True)]


def test_version_is_that_of_the_package():
    from knet import __version__

    assert run("--version").stdout.decode() == f"knet {__version__}\n"


@pytest.mark.parametrize("command", ["scan", "fit", "predict", "embed", "report", "export", "info", "demo"])
def test_every_command_has_help(command):
    result = call(command, "--help")
    assert result.exit_code == 0
    assert "Usage" in result.stdout


def test_fit_writes_data_to_files_and_the_rest_to_stderr(trained, tmp_path):
    _, table, labels = trained
    write(table, tmp_path / "data.csv")
    done = run("fit", "data.csv", "-c", 3, *QUICK, "-o", "m.safetensors", "--labels", "l.csv", cwd=tmp_path)
    text = done.stderr.decode()
    assert done.returncode == 0, text
    assert done.stdout == b""
    assert "iteration 1: HSIC" in text
    assert "\x1b" not in text
    assert "\r" not in text
    np.testing.assert_array_equal(read(tmp_path / "l.csv").label, labels)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.csv", "l.csv", "m.safetensors"]


def test_unknown_option_is_wrong_usage():
    assert call("fit", "x.csv", "-c", "3", "--nope").exit_code == 2
    assert call("nope").exit_code == 2


def test_json_is_one_object_on_stdout(trained, tmp_path):
    model, table, labels = trained
    data = write(table, tmp_path / "new.csv")
    done = json.loads(call("predict", model, data, "-o", tmp_path / "out.csv", "--json").stdout)
    assert done["rows"] == len(table)
    assert done["sizes"] == np.bincount(labels, minlength=3).tolist()
    facts = json.loads(call("info", model, "--json").stdout)
    assert facts["n_clusters"] == 3
    assert facts["random_state"] == 0
    assert facts["n_train"] == len(table)
    assert facts["columns"] == ["x0", "x1", "x2"]
    refuses(call("predict", model, data, "--json"), "--output")
    done = json.loads(call("fit", data, "-c", 3, *QUICK, "--json").stdout)
    assert sum(done["sizes"]) == len(table)


def test_hsic_is_that_of_the_iteration_that_was_kept(tmp_path):
    with wrong_rows_change(-1):
        model = KNet(3, max_iter=2, tol=0.0, random_state=0).fit(frame()[0])
    assert model.n_iter_ == len(model.history_) == 2
    first, last = (round(row["hsic"], 6) for row in model.history_)
    assert first != last
    for kept, hsic in ((2, last), (1, first), (0, None)):
        model.best_iter_ = kept
        facts = LightModel.of(model).facts
        assert (facts["n_iter"], facts["best_iter"], facts["hsic"]) == (2, kept, hsic)
        model.save(tmp_path / f"{kept}.safetensors")
        assert json.loads(call("info", tmp_path / f"{kept}.safetensors", "--json").stdout)["hsic"] == hsic
    assert re.search(r"^hsic +-$", call("info", tmp_path / "0.safetensors").stdout, re.MULTILINE)


def test_info_reads_well(trained):
    text = call("info", trained[0]).stdout
    assert re.search(r"^n_clusters +3$", text, re.MULTILINE)
    assert "x0, x1, x2" in text


# Formats


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_every_format_gives_the_same_labels_from_predict_and_from_fit(trained, tmp_path, suffix):
    model, table, labels = trained
    data, out, again = write(table, tmp_path / f"new.{suffix}"), tmp_path / f"out.{suffix}", tmp_path / f"fit.{suffix}"
    for arguments in (["predict", model, data, "-o", out], ["fit", data, "-c", 3, *QUICK, "--labels", again]):
        result = call(*arguments)
        assert result.exit_code == 0, result.stderr
        np.testing.assert_array_equal(read(arguments[-1]).label, labels)


def test_stdin_and_stdout_make_a_pipe(trained):
    model, table, labels = trained
    done = run("predict", model, "-", "--keep", "none", stdin=table.to_csv(index=False).encode())
    assert done.returncode == 0, done.stderr
    lines = done.stdout.decode().splitlines()
    assert lines[0] == "label"
    assert [int(line) for line in lines[1:]] == labels.tolist()
    result = call("fit", "-", "-c", 3, *QUICK, "--keep", "none", stdin=table.to_csv(index=False))
    assert [int(line) for line in result.stdout.splitlines()[1:]] == labels.tolist()


def test_more_columns_on_request(trained, tmp_path):
    model, table, _ = trained
    data, fitted = write(table, tmp_path / "new.csv"), load(model)
    call("predict", model, data, "-o", tmp_path / "o.parquet", "--proba", "--score", "--embedding")
    out = read(tmp_path / "o.parquet")
    X = table.to_numpy()
    np.testing.assert_array_equal(out.filter(like="proba_"), fitted.predictor_.memberships(X))
    np.testing.assert_array_equal(out.score, fitted.predictor_.familiarity(X))
    np.testing.assert_array_equal(out.filter(like="embedding_"), fitted.predictor_.embed(X))
    call("embed", model, data, "-o", tmp_path / "o.npy")
    np.testing.assert_array_equal(np.load(tmp_path / "o.npy"), fitted.predictor_.embed(X))


def test_ids_and_order_are_kept(trained, tmp_path):
    model, table, labels = trained
    order = np.random.default_rng(0).permutation(len(table))
    shuffled = table.iloc[order].assign(key=[f"{i:05d}" for i in order])
    shuffled.iloc[0, 3], shuffled.iloc[1, 3], shuffled.iloc[2, 3] = "NA", 'say "a, b"', "\u00e9t\u00e9\nnew line"
    data = write(shuffled, tmp_path / "new.csv")
    result = call("predict", model, data, "--id-col", "key", "-o", tmp_path / "out.csv")
    assert result.exit_code == 0, result.stderr
    out = pd.read_csv(tmp_path / "out.csv", dtype={"key": str}, keep_default_na=False)
    assert out.key.tolist() == shuffled.key.tolist()
    np.testing.assert_array_equal(out.label, labels[order])
    refuses(call("predict", model, data, "--id-col", "kee"), "no column 'kee'", "Did you mean 'key'?")


@pytest.mark.parametrize("values", [[[1], [2]], [b"\xff", b"b"]], ids=["list", "not text"])
def test_rows_that_csv_cannot_hold_are_an_error_and_not_lost(tmp_path, values):
    batch = pa.table({"key": values, "label": [0, 1]})
    for suffix in ("csv", "tsv"):
        with pytest.raises(ValueError, match=r"cannot be written as text: .*\. Write \.parquet"):
            write_batches(iter([batch]), tmp_path / f"out.{suffix}")
    assert list(tmp_path.iterdir()) == []
    assert write_batches(iter([batch]), tmp_path / "out.parquet") == 2


def test_an_id_column_of_lists_is_an_error_for_csv(trained, tmp_path):
    model, table, _ = trained
    data = write(table.assign(key=[[i] for i in range(len(table))]), tmp_path / "new.parquet")
    result = call("predict", model, data, "--id-col", "key", "-o", tmp_path / "out.csv")
    refuses(result, "cannot be written as text", "list", ".parquet")
    assert not (tmp_path / "out.csv").exists()
    assert call("predict", model, data, "--id-col", "key", "-o", tmp_path / "out.parquet").exit_code == 0
    assert read(tmp_path / "out.parquet").key.str[0].tolist() == list(range(len(table)))


def test_columns_may_come_in_any_order_with_others_between(trained, tmp_path):
    model, table, labels = trained
    wide = table[["x2", "x0", "x1"]].assign(note="text", when="2024-01-01")
    call("predict", model, write(wide, tmp_path / "new.csv"), "-o", tmp_path / "out.csv")
    np.testing.assert_array_equal(read(tmp_path / "out.csv").label, labels)


def test_unicode_and_repeated_column_names(tmp_path):
    table, _ = frame()
    text = table.to_csv(index=False, header=False)
    data = tmp_path / "dup.csv"
    data.write_text("\ufeff\u03c3,\u03c3,\u6e29\u5ea6\n" + text, encoding="utf-8")
    result = call("fit", data, "-c", 3, *QUICK, "-o", tmp_path / "m.safetensors", "--labels", tmp_path / "l.csv")
    assert result.exit_code == 0, result.stderr
    assert "'\u03c3.1'" in result.stderr
    call("predict", tmp_path / "m.safetensors", data, "-o", tmp_path / "again.csv")
    assert (tmp_path / "l.csv").read_bytes() == (tmp_path / "again.csv").read_bytes()
    facts = json.loads(call("info", tmp_path / "m.safetensors", "--json").stdout)
    assert facts["columns"] == ["\u03c3", "\u03c3.1", "\u6e29\u5ea6"]


def test_a_file_without_header_is_recognised_and_that_is_reported(trained, tmp_path):
    model, table, labels = trained
    data = tmp_path / "bare.csv"
    data.write_text(table.to_csv(index=False, header=False))
    result = call("predict", model, data, "-o", tmp_path / "out.csv")
    assert "no header, so that the columns are x0, x1" in result.stderr
    np.testing.assert_array_equal(read(tmp_path / "out.csv").label, labels)
    result = call("predict", model, data, "--no-header", "-o", tmp_path / "again.csv")
    assert "note" not in result.stderr
    assert (tmp_path / "out.csv").read_bytes() == (tmp_path / "again.csv").read_bytes()
    refuses(call("predict", model, data, "--header"), "needs the columns 'x0', 'x1', 'x2'")


# Files that cannot be read or written


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("ragged.csv", b"a,b\n1,2\n3\n4,5\n", ["Row 2 has 1 field but the header has 2", "ragged.csv"]),
        ("wide.csv", b"a,b\n1,2\n3,4,5\n", ["Row 2 has 3 fields but the header has 2"]),
        ("empty.csv", b"", ["empty.csv is empty"]),
        ("header.csv", b"a,b\n", ["header.csv has no rows"]),
        ("damaged.csv", b"a,b\n" + b"1,2\n" * 40_000 + b"1,\xe9\n", ["damaged.csv", "UTF-8", "--encoding cp1252"]),
        ("data.xls", b"PK", ["cannot read", ".parquet", "standard input"]),
        ("not.parquet", b"a,b\n1,2\n", ["not.parquet", "Parquet"]),
        ("not.feather", b"a,b\n1,2\n", ["not.feather"]),
        ("not.npy", b"a,b\n1,2\n", ["not.npy"]),
        ("one.csv", b"a,b\n1,2\n", ["minimum of 2 is required"]),
    ],
)
def test_bad_files_are_refused_in_one_line(tmp_path, name, content, said):
    data = tmp_path / name
    data.write_bytes(content)
    result = call("fit", data, "-c", 2, "--labels", tmp_path / "l.csv")
    refuses(result, *said)
    assert result.stderr.count("\n") == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == [name]


def test_missing_files_and_models(trained, tmp_path):
    refuses(call("fit", tmp_path / "none.csv", "-c", 2), "There is no file")
    refuses(call("info", tmp_path / "none.safetensors"), "no model file")
    (tmp_path / "bad.safetensors").write_bytes(b"not a model")
    refuses(call("info", tmp_path / "bad.safetensors"), "not a model file, or it is damaged")


def test_predict_names_the_columns_it_misses(trained, tmp_path):
    model, table, _ = trained
    data = write(table.rename(columns={"x1": "x_1"}), tmp_path / "new.csv")
    refuses(call("predict", model, data, "-o", tmp_path / "out.csv"), "needs the column 'x1'", "'x_1'")
    data = write(table.astype({"x1": object}).replace({"x1": {table.x1[200]: "n.a. or so"}}), tmp_path / "text.csv")
    refuses(call("predict", model, data, "-o", tmp_path / "out.csv"), "text.csv", "'x1'", "n.a. or so")
    assert not (tmp_path / "out.csv").exists()


def outputs(model, data):
    """Every option that names a file to write, as the start of a command."""
    fit = ["fit", data, "-c", 3]
    return {
        "model": [*fit, "-o"],
        "labels": [*fit, "--labels"],
        "page": [*fit, "--report"],
        "rows": ["predict", model, data, "-o"],
        "embedding": ["embed", model, data, "-o"],
        "report": ["report", model, data, "-o"],
        "graph": ["export", model, "-o"],
        "table": ["scan", data, "-o"],
        "image": ["scan", data, "--plot"],
    }


@pytest.mark.parametrize("kind", outputs("", ""))
def test_no_output_is_lost_or_written_in_vain(trained, tmp_path, kind):
    model, table, _ = trained
    arguments = outputs(model, write(table, tmp_path / "new.csv"))[kind]
    (tmp_path / "old").write_text("precious")
    refuses(call(*arguments, tmp_path / "old"), "exists already", "--force")
    refuses(call(*arguments, tmp_path / "none" / "out.csv"), "There is no folder")
    refuses(call(*arguments, tmp_path / "out.doc"), "cannot write", "must end in .")
    refuses(call(*arguments, tmp_path), "exists already")
    assert (tmp_path / "old").read_text() == "precious"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new.csv", "old"]


def test_force_replaces_a_file(trained, tmp_path):
    model, table, _ = trained
    data, out = write(table, tmp_path / "new.csv"), tmp_path / "out.csv"
    out.write_text("old")
    assert call("predict", model, data, "-o", out, "--force").exit_code == 0
    assert len(read(out)) == len(table)


def test_read_only_folder_is_refused(tmp_path):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    script = (
        "import os; from pathlib import Path; from knet.tables.write import check_target\n"
        "os.getuid() or os.setuid(65534)\n"  # the superuser may write everywhere
        "check_target(Path('out.csv'), force=False)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=closed, timeout=60)
    assert done.returncode == 1
    assert "The folder . cannot be written to." in done.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_killed_in_the_middle_leaves_no_partial_output(trained, tmp_path, number, code):
    model, table, _ = trained
    command = [str(KNET), "predict", str(model), "-", "-o", str(tmp_path / "out.csv")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        rows = table.to_csv(index=False, header=False).encode() * 200
        process.stdin.write(b"x0,x1,x2\n" + rows)
        process.stdin.flush()
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob(".out.csv.*")) and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.3)
        process.send_signal(number)
        time.sleep(0.2)
        process.stdin.close()
        assert process.wait(timeout=30) == code
    assert not (tmp_path / "out.csv").exists()
    if number != signal.SIGKILL:
        assert list(tmp_path.iterdir()) == []


def test_a_closed_pipe_is_no_error_message(trained, tmp_path):
    model, table, _ = trained
    data = write(pd.concat([table] * 300), tmp_path / "long.csv")
    done = subprocess.run(
        f"'{KNET}' predict '{model}' '{data}' | head -n 2", shell=True, capture_output=True, timeout=60
    )
    assert done.stdout.count(b"\n") == 2
    assert b"Traceback" not in done.stderr
    assert b"rror" not in done.stderr


@pytest.mark.skipif(os.name != "posix", reason="needs a shell that closes streams")
@pytest.mark.parametrize(
    ("arguments", "closed", "code", "message"),
    [
        ("fit d.csv -c 3 -o new.safetensors", "2>&-", 0, ""),
        ("fit d.csv -c 3 -o new.safetensors", ">&-", 0, "model"),
        ("fit d.csv -c 3 -o new.safetensors", "<&- >&- 2>&-", 0, ""),
        ("fit d.csv -c 3 --n-refits 0", ">&-", 2, "The labels could not be written to standard output"),
        ("fit - -c 3", "<&-", 2, "knet: standard input is empty."),
        ("predict m.safetensors d.csv", ">&-", 2, "knet: Standard output is closed"),
        ("predict m.safetensors d.csv -o out.csv", ">&-", 0, "rows"),
        ("predict m.safetensors none.csv", "2>&-", 2, ""),
        ("info m.safetensors --json", ">&-", 2, "knet: Standard output is closed"),
        ("info m.safetensors --json", ">/dev/full", 2, "knet: [Errno 28]"),
        ("--help", ">&-", 2, "knet: Standard output is closed"),
    ],
)
def test_closed_standard_streams_lose_no_file_and_give_no_traceback(
    trained, tmp_path, arguments, closed, code, message
):
    write(trained[1], tmp_path / "d.csv")
    (tmp_path / "m.safetensors").write_bytes(trained[0].read_bytes())
    command = f"'{KNET}' {arguments} {closed}"
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, shell=True, stderr=subprocess.PIPE, cwd=tmp_path, timeout=120, text=True, env=env)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr
    if "-o new" in arguments:
        assert load(tmp_path / "new.safetensors").n_clusters == 3
    if "--n-refits" in arguments:
        assert list(tmp_path.glob("knet-model-*.safetensors"))


@pytest.mark.skipif(os.name != "posix", reason="needs a pseudo-terminal")
def test_on_a_terminal_one_line_shows_the_iterations(trained, tmp_path):
    import pty

    write(trained[1], tmp_path / "d.csv")
    ours, theirs = pty.openpty()
    command = [str(KNET), "fit", "d.csv", "-c", "3", *QUICK, "-o", "m.safetensors", "--n-refits", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=theirs) as process:
        os.close(theirs)
        text = b""
        with suppress(OSError):  # the end of a terminal
            while part := os.read(ours, 4096):
                text += part
        assert process.wait(timeout=120) == 0
    os.close(ours)
    lines = text.decode().split("\r\n")
    assert re.match(r"\riteration 1: HSIC [^\r]*\x1b\[K(\riteration 2: [^\r]*\x1b\[K)?\r\x1b\[Krows +240$", lines[0])
    assert "iteration" not in "".join(lines[1:])


# Columns that are not numbers


@pytest.fixture
def messy(tmp_path):
    table, _ = frame()
    table["kind"] = np.where(np.arange(len(table)) % 2, "r\u00f8d", "bl\u00e5")
    table["when"] = pd.date_range("2024-01-01", periods=len(table)).strftime("%Y-%m-%d")
    table["flag"] = np.arange(len(table)) % 3 == 0
    table.loc[5, "x1"] = None
    table.loc[7, "kind"] = None
    return write(table, tmp_path / "messy.csv"), table


def test_errors_name_the_columns_and_the_options(messy):
    data, _ = messy
    refuses(call("fit", data, "-c", 3), "'kind' holds text", "--one-hot", "--drop")
    refuses(call("fit", data, "-c", 3, "--one-hot"), "'when' holds dates", "--dates")
    refuses(call("fit", data, "-c", 3, "--drop", "kimd"), "no column 'kimd'", "Did you mean 'kind'?")
    refuses(call("fit", data, "-c", 3, "--columns", "kind", "--drop", "kind"), "No columns are left")


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_recipe_is_stored_with_the_model(messy, tmp_path, suffix):
    data, table = messy
    options = ["--one-hot", "--dates", "--keep", "none", *QUICK]
    result = call("fit", data, "-c", 3, *options, "-o", tmp_path / "m.safetensors", "--labels", tmp_path / "l.csv")
    assert result.exit_code == 0, result.stderr
    new = table.assign(when=pd.to_datetime(table.when)) if suffix == "parquet" else table
    new = write(new, tmp_path / f"new.{suffix}")
    result = call("predict", tmp_path / "m.safetensors", new, "-o", tmp_path / "again.csv", "--keep", "none")
    assert result.exit_code == 0, result.stderr
    assert (tmp_path / "l.csv").read_bytes() == (tmp_path / "again.csv").read_bytes()
    strange = write(table.assign(kind="gr\u00f8nn"), tmp_path / "strange.csv")
    result = call("predict", tmp_path / "m.safetensors", strange, "-o", tmp_path / "other.csv")
    assert f"{len(table)} rows have a value in 'kind' that was not seen in training" in result.stderr
    names = load(tmp_path / "m.safetensors").feature_names_in_.tolist()
    assert names == ["x0", "x1", "x2", "kind=bl\u00e5", "kind=r\u00f8d", "when", "flag"]


def test_dropping_the_columns_is_enough(messy, tmp_path):
    data, _ = messy
    result = call("fit", data, "-c", 3, "--drop", "kind,when", "--drop", "x1", *QUICK, "-o", tmp_path / "m.safetensors")
    assert result.exit_code == 0, result.stderr
    assert json.loads(call("info", tmp_path / "m.safetensors", "--json").stdout)["columns"] == ["x0", "x2", "flag"]


def test_missing_values_in_new_rows(trained, tmp_path):
    model, table, labels = trained
    table = table.copy()
    table.loc[3, "x2"] = None
    table.loc[4] = None
    out = tmp_path / "out.csv"
    result = call("predict", model, write(table, tmp_path / "gap.csv"), "-o", out, "--proba")
    assert result.exit_code == 0, result.stderr
    assert "note: 1 row has no value in the columns of the model; its label is -1." in result.stderr
    found = pd.read_csv(out)
    assert found.label[4] == -1
    np.testing.assert_array_equal(found.label.drop([3, 4]), np.delete(labels, [3, 4]))
    np.testing.assert_allclose(found.filter(like="proba").loc[4], 1 / 3)


def test_target_scores_and_is_never_used(trained, tmp_path):
    model, table, labels = trained
    data = write(table.assign(animal=frame()[1]), tmp_path / "d.csv")
    result = call("fit", data, "-c", 3, *QUICK, "--target", "animal", "--labels", tmp_path / "l.csv", "--json")
    done = json.loads(result.stdout)
    assert done["nmi"] > 0.9
    assert done["accuracy"] > 0.9
    np.testing.assert_array_equal(read(tmp_path / "l.csv").label, labels)
    result = call("predict", model, data, "--target", "animal", "-o", tmp_path / "p.csv", "--json")
    assert json.loads(result.stdout)["nmi"] == done["nmi"]


def test_fit_says_how_stable_the_clusters_are(tmp_path):
    table, _ = frame()
    data = write(table, tmp_path / "d.csv")
    found = call("fit", data, "-c", 3, *QUICK, "--labels", tmp_path / "l.csv")
    assert "2 refits to measure stability ..." in found.stderr
    assert re.search(r"^stability +1$", found.stderr, re.MULTILINE)
    assert re.search(r"^cluster_stability +1.0, 1.0, 1.0$", found.stderr, re.MULTILINE)
    without = json.loads(call("fit", data, "-c", 3, *QUICK, "--n-refits", 0, "--json").stdout)
    assert not [name for name in without if "stability" in name]
    single = call("fit", data, "-c", 1, *QUICK, "--json")
    assert "stability" not in single.stdout + single.stderr


def test_fit_prints_each_warning_as_a_line(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(200, 3)), columns=list("abc")).assign(key=rng.permutation(200))
    data = write(table, tmp_path / "d.csv")
    lines = call("fit", data, "-c", 3, *QUICK, "--n-refits", 0, "--labels", tmp_path / "l.csv").stderr.splitlines()
    warned = [line for line in lines if line.startswith("warning: ")]
    assert any("Column 'key' looks like an index" in line for line in warned)
    assert any("The data do not support 3 clusters" in line for line in warned)


def test_fit_says_that_few_rows_say_little_about_stability(tmp_path):
    data = write(frame(n_rows=12)[0], tmp_path / "d.csv")
    found = call("fit", data, "-c", 2, *QUICK, "--n-refits", 1, "--json")
    assert "note: There are too few rows to say how stable the clusters are" in found.stderr
    assert "stability" not in json.loads(found.stdout)


def test_report_of_a_fit_and_of_a_saved_model(trained, tmp_path):
    table = trained[1].assign(animal=frame()[1], key=[f"k{i}" for i in range(240)])
    data, model = write(table, tmp_path / "d.csv"), tmp_path / "m.safetensors"
    options = ["--id-col", "key", "--target", "animal", "--n-refits", 0]
    result = call("fit", data, "-c", 3, *QUICK, *options, "-o", model, "--report", tmp_path / "fit.html")
    assert result.exit_code == 0, result.stderr
    result = call("report", model, data, "-o", tmp_path / "later.html", "--n-refits", 0)
    assert result.exit_code == 0, result.stderr
    for name in ("fit.html", "later.html"):
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert "Clusters in d.csv" in text
        assert "Agreement with known labels" in text
        assert re.search(r"<td>k\d+</td>", text)


def test_the_report_of_a_fit_uses_the_labels_of_the_fit(trained, tmp_path, monkeypatch):
    counted, assign = [], Predictor.assign

    def counting(self, X):
        counted.append(len(X))
        return assign(self, X)

    monkeypatch.setattr(Predictor, "assign", counting)
    data, model = write(trained[1], tmp_path / "d.csv"), tmp_path / "m.safetensors"
    result = call("fit", data, "-c", 3, *QUICK, "--n-refits", 0, "-o", model, "--report", tmp_path / "fit.html")
    assert result.exit_code == 0, result.stderr
    assert counted == []  # the fit labels rows and finds their probabilities in one pass
    assert call("report", model, data, "-o", tmp_path / "later.html", "--n-refits", 0).exit_code == 0
    assert counted == [240]


# Options of the machine


def test_same_random_state_same_labels_and_threads_are_restored(trained, tmp_path):
    import torch

    _, table, labels = trained
    data, before = write(table, tmp_path / "d.csv"), torch.get_num_threads()
    result = call(
        "fit", data, "-c", 3, *QUICK, "--keep", "none", "--random-state", 0, "--threads", 1, "--device", "cpu"
    )
    assert [int(line) for line in result.stdout.splitlines()[1:]] == labels.tolist()
    assert torch.get_num_threads() == before
    refuses(call("fit", data, "-c", 3, "--device", "abacus"), "device", "'auto'")
    refuses(call("fit", data, "-c", 0), "n_clusters")
    refuses(call("fit", data, "-c", 3, "--sigma", "medium"), "did you mean 'median'?")


# ONNX


def test_onnx_graph_labels_a_file_as_predict_does(messy, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    table = messy[1]
    numeric = write(table.drop(columns=["kind", "when", "flag"]), tmp_path / "numeric.csv")
    model, onnx = tmp_path / "m.safetensors", tmp_path / "m.onnx"
    call("fit", numeric, "-c", 3, *QUICK, "-o", model)
    result = call("export", model, "-o", onnx, "--json")
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["largest_difference"] < 1e-6
    call("predict", model, numeric, "-o", tmp_path / "o.parquet", "--proba", "--embedding")
    out = read(tmp_path / "o.parquet")
    session = runtime.InferenceSession(onnx, providers=["CPUExecutionProvider"])
    columns = json.loads(session.get_modelmeta().custom_metadata_map["columns"])
    label, proba, embedding = session.run(None, {"X": pd.read_csv(numeric)[columns].to_numpy()})
    np.testing.assert_array_equal(label, out.label)
    np.testing.assert_allclose(proba, out.filter(like="proba_"), atol=1e-9)
    np.testing.assert_allclose(embedding, out.filter(like="embedding_"), atol=1e-9)


# The demo


def test_demo_without_matplotlib_prints_that_and_writes_the_model(tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "DEMO_ROWS", 6000)
    monkeypatch.setitem(sys.modules, "knet.show.plots", None)
    result = call("demo", "-o", tmp_path)
    assert result.exit_code == 0, result.output
    assert "NMI with the true arms" in result.stdout
    assert result.stderr.count("matplotlib is missing") == 1
    assert load(tmp_path / "spiral2.safetensors").n_clusters == 3


def test_without_arrow_the_error_says_how_to_install_it(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    script = "import sys; sys.modules['pyarrow'] = None; from knet.cli.app import app; app(['fit', 'x.csv', '-c', '3'])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr == "knet: Reading tables needs pyarrow. Install it with: pip install 'knet-clustering[tables]'\n"


# Size


@pytest.mark.slow
def test_a_million_rows_are_labelled_in_bounded_memory(trained, tmp_path):
    import resource

    model, table, labels = trained
    small, large = write(table, tmp_path / "small.csv"), tmp_path / "large.csv"
    rows = table.to_csv(index=False, header=False)
    n_copies = 1_000_000 // len(table) + 1
    with large.open("w") as file:
        file.write("x0,x1,x2\n")
        for _ in range(n_copies):
            file.write(rows)
    peaks = []
    for data in (small, large):
        assert run("predict", model, data, "-o", data.with_suffix(".parquet")).returncode == 0
        peaks.append(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
    out = read(large.with_suffix(".parquet"))
    np.testing.assert_array_equal(out.label, np.tile(labels, n_copies))
    assert peaks[1] - peaks[0] < 150, f"{peaks} MB"


# The documentation


def test_documented_options_exist():
    text = (Path(__file__).parents[1] / "docs" / "cli.md").read_text(encoding="utf-8")
    known = {option for command in app.registered_commands for option in help_options(command.callback.__name__)}
    used = set(re.findall(r"(?<![-\w])--[a-z][a-z-]*", text)) - {"--help", "--install-completion"}
    assert used <= known, used - known
    commands = set(
        re.findall(r"knet (fit|predict|embed|report|stability|drift|refit|compare|export|info|demo|scan)\b", text)
    )
    assert commands == {command.callback.__name__ for command in app.registered_commands}


def help_options(command):
    return re.findall(r"--[a-z][a-z-]*", call(command, "--help").stdout)


def test_an_id_column_that_the_output_cannot_have_is_refused(tmp_path):
    path = write(frame(60)[0].assign(label=np.arange(60)[::-1]), tmp_path / "rows.csv")
    model, out, message = tmp_path / "m.safetensors", tmp_path / "out.csv", "has the name of a result column"
    refuses(call("fit", path, "-c", 3, "--id-col", "label", "--labels", out), message)
    assert call("fit", path, "-c", 3, "--drop", "label", "-o", model, *QUICK).exit_code == 0
    refuses(call("predict", model, path, "--id-col", "label", "-o", out), message)
    assert not out.exists()


# knet scan


def test_scan_writes_table_picture_and_advice(tmp_path):
    table, names = frame(300)
    path = write(table.assign(kind=names, id=np.arange(300)), tmp_path / "rows.csv")
    out, picture = tmp_path / "scan.parquet", tmp_path / "scan.png"
    done = run("scan", path, "--target", "kind", "--id-col", "id", "--max-clusters", 4, "-o", out, "--plot", picture)
    assert done.returncode == 0, done.stderr
    assert done.stdout == b""
    assert b"3 clusters, clearly" in done.stderr
    found = pd.read_parquet(out)
    assert found["n_clusters"].tolist() == [2, 3, 4]
    assert found.loc[found["verdict"] == "clear", "n_clusters"].tolist() == [3]
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_scan_to_standard_output_and_for_machines(tmp_path):
    path = write(frame(120)[0], tmp_path / "rows.csv")
    plain = call("scan", path, "--max-clusters", 3)
    assert plain.exit_code == 0
    assert plain.stdout.startswith("n_clusters,verdict,value,border")
    assert len(plain.stdout.splitlines()) == 3
    answer = json.loads(call("scan", path, "--max-clusters", 3, "--json").stdout)
    assert answer["best"] == 3
    assert [row["n_clusters"] for row in answer["table"]] == [2, 3]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--max-clusters", "1"], "'max_clusters' parameter of KNet must be None or an integer >= 2"),
        (["--plot", "scan.txt"], "must end in .png"),
        (["-o", "rows.csv"], "exists already"),
    ],
)
def test_scan_refuses_in_one_line(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    write(frame(60)[0], tmp_path / "rows.csv")
    done = call("scan", "rows.csv", *arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["rows.csv"]


def test_if_all_rows_are_rejected_there_is_a_summary_without_scores(tmp_path):
    table, target = frame()
    table.assign(kind=target).to_csv(tmp_path / "rows.csv", index=False)
    (table * 0 + 1e6).assign(kind=target).to_csv(tmp_path / "far.csv", index=False)
    model, out = tmp_path / "m.safetensors", tmp_path / "labels.csv"
    assert call("fit", tmp_path / "rows.csv", "-c", 3, "--target", "kind", "-o", model).exit_code == 0
    result = call("predict", model, tmp_path / "far.csv", "--target", "kind", "--reject", 0.05, "-o", out)
    assert result.exit_code == 0, result.output
    assert "nmi" not in result.output
    assert set(pd.read_csv(out)["label"]) == {-1}


@pytest.mark.parametrize(
    "roles", list(combinations(["--id-col", "--target", "--weight", "--text-col"], 2)), ids="".join
)
def test_a_column_has_one_role(tmp_path, roles):
    table, target = frame()
    data = write(table.assign(kind=target), tmp_path / "d.csv")
    result = call("fit", data, "-c", 3, roles[0], "kind", roles[1], "kind", "-o", tmp_path / "m.safetensors")
    refuses(result, f"{roles[0]} and {roles[1]} name the same column, 'kind'")
