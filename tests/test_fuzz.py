"""A short form of `make fuzz` and `make faults`, that both can find something, and that they know the whole surface."""

import inspect
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated

import numpy as np
import pytest
import typer

from benchmarks import fuzz, fuzz_commands, fuzz_fits, fuzz_models, fuzz_tables, fuzz_values, reliability_page
from benchmarks.fault_writers import WRITERS, is_whole
from benchmarks.fuzz import CASES, SHARES
from knet.model.read import ARRAYS, HEADER
from knet.parameters import ADVANCED_RULES, RULES, integer
from knet.tables.formats import READ
from knet.tables.read import Source

SOURCES = Path(fuzz.__file__).parents[1] / "src" / "knet"


def run(*arguments):
    """Run a module of benchmarks in a process of its own, which may fork: it has no threads."""
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=env, timeout=900)


def test_hostile_inputs_are_accepted_or_refused_with_a_message():
    done = run("benchmarks.fuzz", "--cases", "600", "--seed", "1000000")
    assert done.returncode == 0, done.stderr
    assert "| all 600 | | | 0 | |" in done.stdout


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of a fork in a process with threads
def test_the_attack_finds_errors_crashes_and_slow_cases(monkeypatch):
    def fails(rng, folder):
        if rng.integers(2):
            raise KeyError("untyped")
        return True

    def dies(rng, folder):
        if rng.integers(2):
            os.kill(os.getpid(), signal.SIGKILL)
        return False

    def hangs(rng, folder):
        time.sleep(60)

    monkeypatch.setitem(CASES, "text", fails)
    found = fuzz.attack(["text"], 20, seed=0)["text"]
    assert found.accepted + len(found.failures) == 20
    assert "KeyError" in found.failures[0]
    monkeypatch.setitem(CASES, "text", dies)
    found = fuzz.attack(["text"], 20, seed=0)["text"]
    assert found.refused + len(found.failures) == 20
    assert "died with code -9" in found.failures[0]
    monkeypatch.setitem(CASES, "text", hangs)
    monkeypatch.setattr(fuzz, "HANG_SECONDS", 0.1)
    assert fuzz.attack(["text"], 2, seed=0)["text"].failures == [f"text:{n} no answer after 0 s" for n in (0, 1)]
    monkeypatch.setattr(fuzz, "SLOW_SECONDS", 0.0)
    assert "took" in fuzz.run_case("table-raw", 0)[0]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_case_repeats_and_can_be_replayed(capsys):
    assert fuzz.run_case("model-crafted", 7)[0] == fuzz.run_case("model-crafted", 7)[0]
    assert fuzz.main(["--replay", "model-crafted:7"]) == 0
    assert capsys.readouterr().out.strip() == fuzz.run_case("model-crafted", 7)[0]
    assert fuzz.main(["text", "--cases", "5"]) == 0
    assert "seeds from 0" in capsys.readouterr().out


def test_crafted_files_are_refused_for_what_was_changed(tmp_path):
    header, tensors = fuzz_models.model_content()
    path = tmp_path / "m"

    def accepted(header, tensors):
        fuzz_models.write_model(path, json.dumps(header), tensors)
        return fuzz_models.use_model(path, np.random.default_rng(0))

    assert accepted(header, tensors)
    assert not accepted({**header, "format_version": 1}, tensors)
    assert not accepted({name: value for name, value in header.items() if name != "unit_length"}, tensors)
    for name in ("encoder.weights.0", "encoder.biases.0"):  # with an axis of restarts, as in older files
        assert not accepted(header, {**tensors, name: tensors[name][None].contiguous()})
    for name in ("places", "hinge_slopes", "score_quantiles"):  # there is no model without certainty
        assert not accepted(header, {own: value for own, value in tensors.items() if own != name})


def test_broken_promises_are_unsound(rng):
    X = fuzz_values.two_groups(rng)
    model = fuzz_fits.KNet(2, max_iter=1, random_state=0).fit(X)
    fuzz_fits.check_fit(model, X, rng)
    model.labels_ = 1 - model.labels_
    with pytest.raises(fuzz_values.UnsoundError, match="labels_ == predict"):
        fuzz_fits.check_fit(model, X, rng)
    assert sum(SHARES.values()) == pytest.approx(1)


# The attacks take what they attack from the code, so that something new is attacked too


def test_every_parameter_has_sound_values():
    assert {*RULES, *(f"advanced__{name}" for name in ADVANCED_RULES)} - {*fuzz_values.ALLOWED} == {"verbose"}
    with pytest.raises(LookupError, match="an integer >= 1000"):
        fuzz_values.allowed_values([integer(1000)])


def test_every_option_of_every_command_has_sound_values():
    for command in fuzz_commands.commands():
        assert all(fuzz_commands.sound_values(option) for option in fuzz_commands.options_of(command))

    def new(colour: Annotated[str, typer.Option()] = "red") -> None:
        """Stand for an option that nobody has described."""

    (option,) = inspect.signature(new).parameters.values()
    with pytest.raises(LookupError, match="no values for the option 'colour'"):
        fuzz_commands.sound_values(option)


def test_every_method_can_be_called():
    methods = fuzz_fits.public_methods()
    assert {"KNet.fit", "KNet.predict", "KNet.report", "LightModel.predict", "scan"} <= methods.keys()
    parts = [part for method in methods.values() for part in fuzz_fits.arguments_of(method)]
    assert {part.name for part in parts if part.default is inspect.Parameter.empty} - fuzz_fits.SAFE.keys() == set()


def test_every_entry_of_a_model_file_is_changed():
    assert {path[0] for path in fuzz_models.header_paths()} >= HEADER.keys()
    optional = {name for name, array in ARRAYS.items() if array.optional}
    assert ARRAYS.keys() - optional <= fuzz_models.model_content()[1].keys()


def test_every_format_has_a_sound_file(tmp_path):
    for suffix in READ:
        path = tmp_path / f"t{suffix}"
        path.write_bytes(fuzz_tables.table_bytes(suffix))
        with Source(str(path)) as source:
            assert len(source.read()) == 40


def test_every_writer_is_attacked():
    calls = re.compile(r"\b(?:whole_file|write_whole|new_file)\(")
    found = {path.relative_to(SOURCES).as_posix() for path in SOURCES.rglob("*.py") if calls.search(path.read_text())}
    tables = {"files.py", "tables/write.py"}
    functions = {
        "model/file.py",
        "show/comparison.py",
        "show/report.py",
        "show/plots.py",
        "tables/vectors.py",
    }  # of fuzz_tables.WRITERS
    by_commands = {"cli/scan.py", "cli/demo.py", "dask/files.py", "model/onnx.py"}
    assert found == tables | functions | by_commands, "add the new writer to an attack, then to this test"
    assert len(fuzz_tables.WRITERS) == len(functions)
    writing = {
        command
        for command in fuzz_commands.commands()
        for option in fuzz_commands.options_of(command)
        if "Path" in str(option.annotation) and "OptionInfo" in str(option.annotation)
    }
    assert writing - {writer.arguments[0] for writer in WRITERS.values()} == {"demo"}


def test_a_part_of_a_file_is_not_whole(tmp_path):
    path = tmp_path / "m.safetensors"
    path.write_bytes(fuzz_models.model_bytes())
    assert is_whole(path)
    (tmp_path / "r.html").write_text("<html>")
    assert not is_whole(tmp_path / "r.html")


def test_a_section_of_the_page_is_replaced(tmp_path, monkeypatch):
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- kills -->\nold\n<!-- end -->\nb\n<!-- fuzz -->\n<!-- end -->\n")
    monkeypatch.setattr(reliability_page, "PAGE", page)
    for name in ("kills", "fuzz", "fuzz"):
        reliability_page.write_section(name, reliability_page.markdown(["command", "n"], [["x", 1000], ["y", 2]]))
    assert page.read_text().count("| all | 1,002 |") == 2
    assert "old" not in page.read_text()
    with pytest.raises(ValueError, match="no section 'none'"):
        reliability_page.write_section("none", "")


def test_faults_lose_no_file():
    done = run("benchmarks.faults", "kills", "python", "streams", "races", "soak", "--kills", "10")
    assert done.returncode == 0, done.stderr
    assert "not one line" not in done.stderr  # Python itself may report an interruption of a destructor
