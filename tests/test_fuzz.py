"""A short form of `make fuzz` and `make faults`, and that both can find something."""

import json
import os
import signal
import subprocess
import sys

import pytest

from benchmarks import fuzz, fuzz_cases, reliability_page
from benchmarks.fuzz_cases import CASES, SHARES


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

    monkeypatch.setitem(CASES, "csv", fails)
    found = fuzz.attack(["csv"], 20, seed=0)["csv"]
    assert found.accepted + len(found.failures) == 20
    assert "KeyError" in found.failures[0]
    monkeypatch.setitem(CASES, "csv", dies)
    found = fuzz.attack(["csv"], 20, seed=0)["csv"]
    assert found.refused + len(found.failures) == 20
    assert "died with code -9" in found.failures[0]
    monkeypatch.setattr(fuzz, "SLOW_SECONDS", 0.0)
    assert "took" in fuzz.run_case("table-raw", 0)[0]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_case_repeats_and_can_be_replayed(capsys):
    assert fuzz.run_case("model-crafted", 7)[0] == fuzz.run_case("model-crafted", 7)[0]
    assert fuzz.main(["--replay", "model-crafted:7"]) == 0
    assert capsys.readouterr().out.strip() == fuzz.run_case("model-crafted", 7)[0]
    assert fuzz.main(["csv", "--cases", "5"]) == 0
    assert "seeds from 0" in capsys.readouterr().out


def test_crafted_files_are_refused_for_what_was_changed(tmp_path):
    header, tensors = fuzz_cases.model_content()
    path = tmp_path / "m"

    def accepted(header, tensors):
        fuzz_cases.write_model(path, json.dumps(header), tensors)
        return fuzz_cases.use_model(path)

    assert accepted(header, tensors)
    assert not accepted({**header, "format_version": 1}, tensors)
    assert not accepted({name: value for name, value in header.items() if name != "unit_length"}, tensors)
    for name in ("encoder.weights.0", "encoder.biases.0"):  # with an axis of restarts, as in older files
        assert not accepted(header, {**tensors, name: tensors[name][None].contiguous()})
    for name in ("places", "hinge_slopes", "score_quantiles"):  # there is no model without certainty
        assert not accepted(header, {own: value for own, value in tensors.items() if own != name})


def test_broken_promises_are_unsound(rng):
    X = fuzz_cases.rows(rng)
    model = fuzz_cases.KNet(2, max_iter=1, random_state=0).fit(X)
    fuzz_cases._check_fit(model, X, rng)
    model.labels_ = 1 - model.labels_
    with pytest.raises(fuzz_cases.UnsoundError, match="labels_ == predict"):
        fuzz_cases._check_fit(model, X, rng)
    assert sum(SHARES.values()) == pytest.approx(1)


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
    done = run("benchmarks.faults", "kills", "races", "soak", "--kills", "10")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
