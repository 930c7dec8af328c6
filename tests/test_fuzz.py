"""A short form of `make fuzz` and `make faults`, and that both can find something."""

import os
import subprocess
import sys

import pytest

from benchmarks import fuzz, fuzz_cases, reliability_page
from benchmarks.fuzz_cases import CASES, SHARES


@pytest.mark.parametrize("kind", CASES)
def test_hostile_inputs_are_accepted_or_refused_with_a_message(kind):
    slow = kind in ("rows", "parameters")
    found = fuzz.attack([kind], 8 if slow else 150, seed=10**6)[kind]
    assert found.failures == [], "\n".join(found.failures)
    assert found.accepted + found.refused == (8 if slow else 150)


def test_the_attack_finds_errors_crashes_and_slow_cases(monkeypatch):
    def fails(rng, folder):
        if rng.integers(2):
            raise KeyError("untyped")
        return True

    def dies(rng, folder):
        if rng.integers(2):
            os.abort()
        return False

    monkeypatch.setitem(CASES, "csv", fails)
    found = fuzz.attack(["csv"], 20, seed=0)["csv"]
    assert found.accepted + len(found.failures) == 20
    assert "KeyError" in found.failures[0]
    monkeypatch.setitem(CASES, "csv", dies)
    found = fuzz.attack(["csv"], 20, seed=0)["csv"]
    assert found.refused + len(found.failures) == 20
    assert "died with code -6" in found.failures[0]
    monkeypatch.setattr(fuzz, "SLOW_SECONDS", 0.0)
    assert "took" in fuzz.attack(["csv"], 1, seed=1)["csv"].failures[0] or found.failures


def test_a_case_repeats_and_can_be_replayed(capsys):
    assert fuzz.run_case("model-crafted", 7)[0] == fuzz.run_case("model-crafted", 7)[0]
    assert fuzz.main(["--replay", "model-crafted:7"]) == 0
    assert capsys.readouterr().out.strip() == fuzz.run_case("model-crafted", 7)[0]
    assert fuzz.main(["csv", "--cases", "5"]) == 0
    assert "seeds from 0" in capsys.readouterr().out


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
    command = [sys.executable, "-m", "benchmarks.faults", "kills", "races", "soak", "--kills", "10"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, env=env, timeout=600)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
