"""The pages of figures say which code they describe, and the page of boards says where knet loses."""

import json

import numpy as np
import pytest

from benchmarks import boards, boards_page, number, pages
from benchmarks.boards_page import BOARDS, Board

STAMPED = "# Title\n\nMeasured on 2026-01-01 at commit abc (sources: {}).\n\nFigures.\n"


def sources(parts, **other):
    return ", ".join(f"{part} {other.get(part, pages.source_hash(part))}" for part in parts)


def test_the_pages_describe_the_present_code_or_say_that_they_do_not():
    for name, parts in pages.PAGES.items():
        text = (pages.ROOT / "docs" / name).read_text(encoding="utf-8")
        changed = pages.changed_parts(text, parts)
        assert pages.marked(text, parts) == text, (
            f"docs/{name} was measured before a change of {changed}: measure it again, or run "
            "`python -m benchmarks.pages --mark`, which adds a notice to the page (or removes one that is not true)."
        )


def test_a_page_is_marked_if_the_code_has_changed_and_unmarked_if_it_is_measured_again():
    fresh = STAMPED.format(sources(pages.FIT))
    assert pages.marked(fresh, pages.FIT) == fresh
    old = STAMPED.format(sources(pages.FIT, start="00000000"))
    marked = pages.marked(old, pages.FIT)
    assert marked.startswith("# Title\n\n> **Older than the code.**")
    assert "`src/knet`: start. " in marked
    assert pages.marked(marked, pages.FIT) == marked
    assert pages.marked(marked.replace("00000000", pages.source_hash("start")), pages.FIT) == fresh
    for without in ("# Title\n\nFigures.\n", fresh + "<!-- end -->\n<!-- end -->\n"):
        assert pages.changed_parts(without, pages.FIT) == list(pages.FIT)


def test_a_stamp_is_read_back_and_old_rows_have_none():
    text = f"# Title\n\n{pages.stamp()}\n"
    assert pages.changed_parts(text, pages.FIT) == []
    assert pages.stamps_of([{"measured": "a"}, {"measured": "b"}, {"measured": "a"}]) == "a b"
    assert pages.stamps_of([{"measured": "a"}, {}]) == ""


def test_only_what_runs_changes_the_hash(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    path = tmp_path / "src" / "knet" / "start.py"
    path.parent.mkdir(parents=True)

    def hash_of(source):
        path.write_text(source)
        return pages.source_hash("start")

    plain = hash_of("def f(x):\n    return x + 1\n")
    assert hash_of('"""Doc."""\n\ndef f(x: int) -> int:\n    """Add."""\n    return x + 1  # why\n') == plain
    for other in (
        "def f(x):\n    return x + 2\n",
        "def f(x):\n    return x - 1\n",
        "def f(x, y=0):\n    return x + 1\n",
    ):
        assert hash_of(other) != plain


def test_the_command_marks_pages_and_then_finds_nothing(tmp_path, monkeypatch, capsys):
    (tmp_path / "docs").mkdir()
    page = tmp_path / "docs" / "benchmarks.md"
    page.write_text("# Title\n\nFigures.\n")
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    monkeypatch.setattr(pages, "PAGES", {"benchmarks.md": ("start",)})
    assert pages.main([]) == 1
    assert page.read_text() == "# Title\n\nFigures.\n"
    assert pages.main(["--mark"]) == 0
    assert "Older than the code" in page.read_text()
    assert pages.main([]) == 0
    assert capsys.readouterr().out.count("benchmarks.md") == 2


# The boards


def row(name, **scores):
    return {"set": name, "scores": {method.replace("_", "-"): values for method, values in scores.items()}}


def test_the_best_figure_is_bold_and_every_loss_is_listed():
    rows = [
        row("a/x", knet=[0.9, 0.8], k_means=[0.5, 0.9], given=[1.0, 1.0]),
        row("a/y", knet=[0.5, 0.8], k_means=[0.504, 0.9]),
        row("b/z", knet=[0.1, np.nan], k_means=[0.7, np.nan], given=[1.0, 1.0]),
    ]
    board = Board("T", "How.", ("ARI", "NMI"), aside=("given",))
    lines = boards_page.table(board, rows).splitlines()
    # a method that is not measured on all data sets of a family has no mean
    assert lines[2] == "| a | 2 | **0.700** / 0.800 | 0.502 / **0.900** | - |"
    assert lines[3] == "| b | 1 | 0.100 / - | **0.700** / - | 1.000 / 1.000 |"
    assert lines[4].startswith("| all | 3 | 0.500 / 0.800 | **0.568** / **0.900**")
    assert boards_page.losses(board, rows) == ["- b/z: knet 0.100; k-means 0.700"]
    lower = Board("T", "How.", ("error", "AUC"), lower=True)
    assert boards_page.losses(lower, rows[:1]) == ["- a/x: knet 0.900; k-means 0.500"]
    assert "**0.500** / 0.900" in boards_page.table(lower, [row("a/x", knet=[0.9, 0.95], k_means=[0.5, 0.9])])
    assert "Where knet is not first: 1 of 3." in boards_page.section(board, rows)


def test_a_board_is_stored_and_the_page_has_all_that_are_stored(tmp_path, monkeypatch):
    assert set(boards.MEASURED) == set(BOARDS)
    for name in ("suite", "mixed"):
        monkeypatch.setitem(boards.MEASURED, name, lambda request: iter([("a/x", {"knet": [0.5], "Ward": [0.25]})]))
    monkeypatch.setitem(boards.MEASURED, "speed", lambda request: iter(()))
    folders = ["--store", str(tmp_path / "rows"), "-o", str(tmp_path)]
    assert boards.main(["--quick", "--only", "mixed", *folders]) == 0
    assert boards.main(["--quick", "--only", "suite,speed", *folders]) == 0
    page = (tmp_path / "benchmarks.md").read_text()
    assert [line for line in page.splitlines() if line.startswith("## ")] == [
        f"## {BOARDS['suite'].title}",
        f"## {BOARDS['mixed'].title}",
        "## When, and with what",
    ]
    assert page.count("| a | 1 | **0.500** | 0.250 |") == 2
    assert pages.changed_parts(page, pages.FIT) == []
    assert "scikit-learn " in page
    assert json.loads((tmp_path / "rows" / "suite.json").read_text())["rows"][0]["set"] == "a/x"


@pytest.mark.parametrize("arguments", [["--only", "nothing"], ["--battery", "no-such-folder"]])
def test_boards_refuse_what_is_not_there(arguments, capsys, tmp_path):
    assert boards.main([*arguments, "-o", str(tmp_path)]) == 2
    assert "boards: there is no" in capsys.readouterr().err


def test_the_quick_form_has_the_first_set_of_each_family(tmp_path):
    request = boards.Request(rows=50, seeds=1, quick=True)
    found = list(request.tables())
    assert [name.split("/")[0] for name, *_ in found] == ["shapes", "sizes", "noise", "gaussians"]
    assert all(len(X) == len(y) == 50 for _, X, (y,) in found)
    (name, scores), *_ = boards.suite(request)
    assert name.startswith("shapes/")
    assert {"knet", "k-means", "mixture", "spectral", "Ward"} <= set(scores)
    assert all(-1 <= value <= 1 for values in scores.values() for value in values)


def test_noise_of_a_peer_is_no_guess():
    truth = np.ones(6, int)
    assert number.score([truth], np.array([0, 0, 1, 1, -1, -1]))[1] is False
    assert number.score([truth], np.array([-1, -2, -1, -2, -1, -1]))[1] is True
