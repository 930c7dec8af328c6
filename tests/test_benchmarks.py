"""The reproduction: run, stop, continue, render; every algorithm by name; the paper's figures; bad requests."""

import json
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from benchmarks import download as download_command
from benchmarks import figures, paper_numbers, quality, render, reproduce, speed_page
from benchmarks.algorithms import ALGORITHMS, Algorithm
from benchmarks.causes import CAUSES, NmiCell, lambda_cause, nmi_cause, sigma_cause, time_cause
from benchmarks.figures import draw_figures
from benchmarks.plan import PARTS, Plan, expected_seconds
from benchmarks.prose import FIGURES
from benchmarks.results import Job, Store, read_rows
from benchmarks.tasks import Outcome, Task
from knet.datasets import make_moon, make_spirals
from knet.metrics import ari, nmi

PAPER = Path(__file__).parents[2] / "shared" / "paper" / "knet.tex"
FAST = ["kmeans", "kmeans-raw", "sc", "sc-neighbors", "gmm", "hdbscan"]


def blobs(n_samples=90, n_clusters=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n_samples) % n_clusters
    return rng.normal(size=(n_samples, 2)) * 0.3 + 4 * np.eye(max(2, n_clusters))[y][:, :2], y


@pytest.fixture
def folder(tmp_path):
    """Return a data folder with Moon and Wine in small."""
    data = tmp_path / "data"
    data.mkdir()
    for name, (X, y) in {"moon": make_moon(80, random_state=0), "wine": blobs()}.items():
        np.savetxt(data / f"{name}.csv", X, delimiter=",")
        np.savetxt(data / f"{name}_label.csv", y, fmt="%d")
    return data


def run(folder, tmp_path, *arguments):
    results, target = tmp_path / "results.jsonl", tmp_path / "report"
    return reproduce.main([*arguments, "--data", str(folder), "--results", str(results), "--to", str(target)])


# The pipeline


def test_a_run_is_kept_continued_and_rendered(folder, tmp_path, capsys):
    request = ("datasets", "full", "oos", "--quick", "--datasets", "moon,wine", "--algorithms", "kmeans,gmm")
    assert run(folder, tmp_path, *request) == 0
    results = tmp_path / "results.jsonl"
    rows = read_rows(results)
    assert len(rows) == 10
    assert {row["status"] for row in rows} == {"ok"}
    measured = [row for row in rows if row["part"] == "full"]
    assert all({"nmi", "ari", "accuracy"} <= set(row["metrics"]) for row in measured)
    assert all({"prep", "run", "wall"} == set(row["seconds"]) for row in measured)
    assert all({"python", "torch", "scikit-learn"} <= set(row["versions"]) for row in measured)

    # Stopped in the middle of the sixth line: the five whole ones are kept, the rest is done again.
    lines = results.read_bytes().splitlines(keepends=True)
    results.write_bytes(b"".join(lines[:5]) + lines[5][:20])
    capsys.readouterr()
    assert run(folder, tmp_path, *request) == 0
    assert capsys.readouterr().out.count("seed 0:") == 5
    assert results.read_bytes().startswith(b"".join(lines[:5]))
    assert sorted(map(str, Store(results).rows)) == sorted(str(Job(*(row[k] for k in KEYS))) for row in rows)

    assert run(folder, tmp_path, *request) == 0
    assert "seed 0:" not in capsys.readouterr().out  # all is done
    assert run(folder, tmp_path, *request, "--again") == 0
    assert capsys.readouterr().out.count("seed 0:") == len(Store(results).rows) == 10

    report = (tmp_path / "report" / "reproduction.md").read_text()
    nmi_on_wine = 100 * next(
        r["metrics"]["nmi"] for r in measured if (r["algorithm"], r["dataset"]) == ("kmeans", "wine")
    )
    assert f"| k-means | 42.8 ± 0 | {nmi_on_wine:.1f} ± 0.0 (1) |" in report
    assert all(f"## Table {number}" in report for number in range(1, 8))


KEYS = ("part", "algorithm", "dataset", "seed", "setting")


def test_the_lambda_part_measures_hsic_error_and_nmi(folder, tmp_path):
    request = ("lambda", "--quick", "--datasets", "wine", "--algorithms", "knet-eig")
    assert run(folder, tmp_path, *request) == 0
    rows = {float(row["setting"]): row["metrics"] for row in read_rows(tmp_path / "results.jsonl")}
    assert set(rows) == {1.0, 0.0}
    assert all(0 <= row["hsic"] <= 2 for row in rows.values())
    assert 0 < rows[1.0]["ae"] < rows[0.0]["ae"]  # the decoder is trained only if lambda is not 0


@pytest.mark.parametrize(("package", "code"), [("numpy", 0), (None, 1)])  # a failure of a third party, and one of ours
def test_an_algorithm_that_fails_or_is_missing_is_a_row_and_the_rest_runs(
    folder, tmp_path, monkeypatch, capsys, package, code
):
    def fail(task):
        raise RuntimeError("the peer is broken")

    monkeypatch.setitem(ALGORITHMS, "sn", Algorithm("SN", fail, package=package))
    monkeypatch.setitem(ALGORITHMS, "umap", Algorithm("UMAP", fail, package="no_such_package"))
    monkeypatch.setattr(reproduce, "QUICK_DATASETS", ("wine",))
    few = ["sn", "umap", "kmeans"]
    monkeypatch.setattr(reproduce, "ALGORITHMS", {name: ALGORITHMS[name] for name in few})
    request = ["full", "--quick", "--data", str(folder), "--results", str(tmp_path / "r"), "--no-report"]
    assert reproduce.main(request) == code
    rows = {row["algorithm"]: row for row in read_rows(tmp_path / "r")}
    assert rows["kmeans"]["status"] == "ok"
    assert rows["sn"]["reason"] == "RuntimeError: the peer is broken"
    assert rows["umap"]["status"] == "not installed"
    assert "failed: full: sn on wine, seed 0: RuntimeError: the peer is broken" in capsys.readouterr().err


def test_a_stopped_run_says_how_to_continue(folder, tmp_path, monkeypatch, capsys):
    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(reproduce, "run_plan", stop)
    assert run(folder, tmp_path, "full", "--quick") == 130
    assert "the same command continues" in capsys.readouterr().err
    assert not (tmp_path / "report").exists()


def test_missing_figures_say_why(tmp_path):
    store = Store(tmp_path / "r.jsonl")
    store.add(Job("full", "dec", "moon", 0), status="not installed", reason="needs clustpy")
    store.add(Job("full", "aec", "moon", 0), status="failed", reason="RuntimeError: x")
    report = render.write_report(store.path, tmp_path).read_text()
    moon = report.split("## Table 2")[1].split("| Moon |")[1]
    assert "| AEC | 56.2 ± 0 | failed |" in moon
    assert "| DEC | 42.2 ± 0 | not installed |" in moon
    assert "| IMSAT | 51.3 ± 20.3 | not run |" in moon


def test_means_differences_and_causes_are_those_of_the_rows(tmp_path):
    store = Store(tmp_path / "r.jsonl")
    for seed, value in enumerate((0.90, 0.94)):
        metrics = {"nmi": value, "ari": 0.0, "accuracy": 0.0}
        store.add(
            Job("full", "kmeans", "wine", seed),
            status="ok",
            metrics=metrics,
            seconds={"prep": 0.0, "run": 1.5},
            versions={},
        )
    report = render.write_report(store.path, tmp_path).read_text()
    assert "| k-means | 42.8 ± 0 | 92.0 ± 2.0 (2) | +49.2 | u |" in report
    assert "| k-means, RT | 0.06 | 1.50 | +1.44 | i |" in report
    assert "**92.0 ± 2.0 (2)** / 1.5" in report


def cell(algorithm="kmeans", dataset="wine", paper=50.0, deviation=0.0, ours=(70.0,), unscaled=(), part="full"):
    return NmiCell(part, algorithm, dataset, paper, deviation, list(ours), list(unscaled))


@pytest.mark.parametrize(
    ("found", "letters"),
    [
        (cell(ours=[51.0, 52.0]), ""),
        (cell(unscaled=[50.5]), "b"),  # unscaled rows give the paper's figure
        (cell(unscaled=[60.0]), "u"),  # and here they do not
        (cell("imsat", deviation=12.0, ours=[55.0, 75.0]), "d"),
        (cell("imsat", ours=[70.0, 71.0]), "u"),
        (cell("knet-eig", ours=[40.0, 52.0], part="oos"), "d"),
        (cell("knet-eig", ours=[40.0, 50.0], part="oos"), "d"),
        (cell("knet-eig", ours=[37.0, 47.0], part="oos"), "g"),
        (cell("dec", dataset="rcv"), "af"),
        (cell("sn"), "ah"),
        (cell("sc"), "c"),
        (cell("knet-eig"), "o"),
        (cell("knet-eig", ours=[40.0]), "u"),
    ],
)
def test_causes_follow_from_the_results(found, letters):
    assert nmi_cause(found) == letters
    assert set(letters) <= set(CAUSES)


def test_every_cause_is_used_and_written_out():
    others = {time_cause(a, p) for a in ("knet-eig", "sc") for p in ("prep", "run")}
    others |= {lambda_cause(d, m) for d in ("wine", "spiral1") for m in ("hsic", "ae", "nmi")}
    assert others | set("abcdfghou") == set(CAUSES)
    assert sigma_cause(0.001) == ""
    assert sigma_cause(-0.1) == "u"


def test_figures_are_drawn_small_and_with_their_captions(tmp_path, monkeypatch):
    monkeypatch.setattr(figures, "EPOCH_ITERATIONS", 8)
    data = {"moon": make_moon(200, random_state=0), "spiral2": make_spirals(6000, random_state=0)}
    facts = draw_figures(data.__getitem__, tmp_path / "images" / "reproduction")
    assert {name for name, _ in facts} == set(FIGURES)
    store = Store(tmp_path / "r.jsonl")
    for (name, dataset), caption in facts.items():
        path = tmp_path / "images" / "reproduction" / f"{name}.png"
        assert path.stat().st_size < 300_000
        with Image.open(path) as picture:
            assert picture.width > 400
        store.add(Job("figures", name, dataset, 0), status="ok", metrics=caption, seconds={}, versions={})
    report = render.write_report(store.path, tmp_path).read_text()
    assert report.count("](images/reproduction/") == len(FIGURES)
    assert "nan" not in report


# Plans


def test_the_full_plan_has_every_cell_of_the_papers_tables():
    jobs = Plan().jobs()
    full = {(job.algorithm, job.dataset) for job in jobs if job.part == "full"}
    oos = {(job.algorithm, job.dataset) for job in jobs if job.part == "oos"}
    assert {(a, d) for a in paper_numbers.FULL_ALGORITHMS for d in paper_numbers.DATASETS} <= full
    assert {(a, d) for a in paper_numbers.OOS_ALGORITHMS for d in paper_numbers.DATASETS} <= oos
    assert ("sc", "wine") not in oos  # it cannot label new rows
    assert ("knet", "spiral2") in oos
    lambdas = {(job.algorithm, job.dataset, float(job.setting)) for job in jobs if job.part == "lambda"}
    assert lambdas == {
        (f"knet-{u}", d, lam) for u in ("eig", "sma") for d, t in paper_numbers.LAMBDA.items() for lam in t
    }
    assert {job.dataset for job in jobs if job.part == "datasets"} == set(paper_numbers.SUMMARY)
    assert max(job.seed for job in jobs if job.algorithm == "knet-eig") == 9


def test_the_quick_plan_is_small_and_takes_each_algorithm_once():
    jobs = Plan(datasets=reproduce.QUICK_DATASETS, quick=True).jobs()
    assert {job.algorithm for job in jobs} >= set(ALGORITHMS)
    assert {job.seed for job in jobs} == {0}
    assert sum(map(expected_seconds, jobs)) < 180


# The numbers of the paper


def tex_tables():
    if not PAPER.exists():
        pytest.skip("the paper's text is not in ../shared/paper")
    text = PAPER.read_text()
    return [t for t in re.split(r"\\begin\{table\*?\}", text)[1:]]


def numbers(row):
    row = re.sub(r"\$10\^\{(-?\d+)\}\$", lambda m: f" 1e{m[1]} ", row)
    return [float(x) for x in re.findall(r"(?<![\w.])\d+\.?\d*(?:e-?\d+)?", row.split("\\end{tabular}")[0])]


def rows_of(table):
    body = table.split("\\midrule")[-2] if "\\bottomrule" not in table else table.split("\\midrule")[-1]
    return [numbers(row) for row in body.split("\\\\") if re.search(r"&", row)]


@pytest.mark.shared_data
def test_the_papers_numbers_are_those_of_its_text():
    tables = {re.search(r"\\label\{(tb:[\w-]+)\}", table)[1]: rows_of(table) for table in tex_tables()}
    flat = [[v for cell in cells for v in cell] for cells in paper_numbers.FULL_NMI.values()]
    assert tables["tb:full_dataset"] == flat
    assert tables["tb:fullset_time"] == [list(cells) for cells in paper_numbers.FULL_TIME.values()]
    oos = [
        [float(paper_numbers.SUBSET_PERCENT[d]), *(v for v in cells if v is not None)]
        for d, cells in paper_numbers.OOS_NMI.items()
    ]
    assert tables["tb:out-of-sample_results"] == oos
    assert tables["tb:out_of_sample_time"] == [list(cells) for cells in paper_numbers.OOS_TIME.values()]
    for label, dataset in (("tb:lambda", "wine"), ("tb:lambda_in_appendix", "spiral1")):
        table = paper_numbers.LAMBDA[dataset]
        assert tables[label] == [[lam, *eig, *sma] for lam, (eig, sma) in table.items()]
    summary = [[float(n), float(c), float(d), sigma] for n, c, d, _, sigma in paper_numbers.SUMMARY.values()]
    assert tables["tb:dataset_info"] == summary


# Algorithms


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("name", FAST)
def test_algorithms_label_every_row_and_find_plain_clusters(name, partial):
    if partial and not ALGORITHMS[name].new_rows:
        pytest.skip("it cannot label new rows")
    X, y = blobs()
    outcome = ALGORITHMS[name].run(Task("wine", X, np.arange(60 if partial else 90), 3, 0))
    assert ari(y, outcome.labels) > (0.5 if name == "hdbscan" else 0.99)
    assert outcome.run >= 0


@pytest.mark.parametrize("name", ["aec", "dec", "sn", "umap", "genie"])
def test_peers_run_where_they_are_installed(name):
    if not ALGORITHMS[name].installed:
        pytest.skip(f"{ALGORITHMS[name].package} is not installed")
    warnings.simplefilter("ignore")  # third parties warn when they are imported
    X, y = blobs(60)
    assert ari(y, ALGORITHMS[name].run(Task("wine", X, np.arange(60), 3, 0)).labels) > 0.4


def test_knet_reports_preparation_and_run_apart():
    X, y = make_moon(120, random_state=0)
    outcome: Outcome = ALGORITHMS["knet-eig"].run(Task("moon", X, np.arange(60) * 2, 2, 0))
    assert len(outcome.labels) == 120
    assert outcome.prep >= 0
    assert outcome.run > 0
    assert nmi(y, outcome.labels) > 0.5


# Bad requests


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tables"], "there is no part 'tables'; there are datasets, full"),
        (["--algorithms", "kmeens"], "there is no algorithm 'kmeens'; there are aec"),
        (["--datasets", "iris"], "there is no data set 'iris'; there are moon"),
        (["--seeds", "0"], "--seeds must be at least 1"),
        (["--data", "nowhere"], "the data folder 'nowhere' does not exist"),
        (["--datasets", "cancer"], "cancer.csv"),
    ],
)
def test_a_bad_request_is_one_line_and_writes_nothing(arguments, message, tmp_path, monkeypatch, capsys):
    monkeypatch.delenv("KNET_DATA", raising=False)
    before = list(tmp_path.iterdir())
    code = reproduce.main([*arguments, "--results", str(tmp_path / "r.jsonl"), "--to", str(tmp_path / "to")])
    error = capsys.readouterr().err
    assert code == 2
    assert message in error
    assert error.startswith("reproduce: ")
    assert len(error.splitlines()) == 1
    assert list(tmp_path.iterdir()) == before


def test_a_package_that_is_asked_for_by_name_has_to_be_installed(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(ALGORITHMS, "umap", Algorithm("UMAP", lambda task: None, package="no_such_package"))
    assert reproduce.main(["--algorithms", "umap", "--results", str(tmp_path / "r")]) == 2
    assert "umap needs the package no_such_package: pip install" in capsys.readouterr().err


def test_render_and_download_name_what_is_wrong(tmp_path, capsys):
    assert render.main([str(tmp_path / "none.jsonl")]) == 2
    assert "there is no results file" in capsys.readouterr().err
    assert download_command.main([str(tmp_path), "moon"]) == 2
    assert "nothing to download for 'moon'" in capsys.readouterr().err


def test_parts_are_all_described():
    assert set(PARTS) == {"datasets", "full", "oos", "lambda", "figures"}


# The battery


def test_the_battery_runner_scores_a_folder_in_the_suites_format(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(quality, "PUBLISHED", {"fcps/blobs": {"genie": 0.5, "ward": 0.25}})
    battery = tmp_path / "fcps"
    battery.mkdir()
    X, y = blobs(45)
    np.savetxt(battery / "blobs.data.gz", X)
    labels = y + 1
    np.savetxt(battery / "blobs.labels0.gz", np.where(np.arange(45) < 5, 0, labels), fmt="%d")  # five rows are noise
    np.savetxt(battery / "blobs.labels1.gz", np.arange(45) % 2 + 1, fmt="%d")
    assert quality.main([str(tmp_path), "--seeds", "1", "--peers", "gmm", "--published"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split()[:4] == ["fcps/blobs", "45", "1.000", "+-0.000"]
    assert lines[-1].split() == ["mean", "1.000", "0.500", "0.250"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no data sets in"),
        (["--peers", "x"], "no algorithm 'x'"),
        (["--seeds", "0"], "--seeds must be at least 1"),
    ],
)
def test_the_battery_runner_names_a_bad_request(tmp_path, capsys, arguments, message):
    assert quality.main([str(tmp_path), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_results_are_plain_json_lines(tmp_path):
    store = Store(tmp_path / "deep" / "r.jsonl")
    store.add(Job("full", "kmeans", "wine", 0), status="ok", metrics={"nmi": 0.5}, seconds={}, versions={})
    (line,) = (tmp_path / "deep" / "r.jsonl").read_text().splitlines()
    assert json.loads(line)["algorithm"] == "kmeans"
    assert store.is_done(Job("full", "kmeans", "wine", 0))
    assert not store.is_done(Job("full", "kmeans", "wine", 1))


# The page on speed


def test_the_page_on_speed_is_made_from_what_was_measured(tmp_path):
    common = {"seconds": 2.0, "cpu_seconds": 4.0, "peak_mb": 10.0, "nmi": 0.9, "finished": True}
    rows = [
        {"case": "fit", "on": "wine", "method": "knet", **common},
        {"case": "fit", "on": "wine", "method": "literal", **common, "cpu_seconds": 400.0, "finished": False},
        {"case": "form", "on": "wine", "method": "auto", **common},
        {"case": "form", "on": "moon", "method": "dense", **common},
        {"case": "scale", "on": "1000", "method": "knet", **common, "rows": 1000},
        {"case": "scale", "on": "4000", "method": "knet", **common, "rows": 4000, "seconds": 4.0, "cpu_seconds": 16.0},
        {
            "case": "ustep",
            "on": "3000",
            "method": "sma",
            **common,
            "rows": 3000,
            "operator": "L",
            "value": 2,
            "before": 1,
        },
    ]
    results = tmp_path / "rows.jsonl"
    results.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "performance.md").write_text(f"Before.\n\n{speed_page.BEGIN}\nold\n{speed_page.END}\n\nAfter.\n")
    for _ in range(2):  # a second time changes nothing
        speed_page.main([str(results), str(tmp_path)])
        page = (tmp_path / "performance.md").read_text()
        assert page.startswith("Before.")
        assert page.endswith("After.\n")
        assert "old" not in page
        assert ">= 400.00 (0.90), >= 100.0x" in page
        assert "0.50 (time), 1.00 (processor time)" in page
        assert "| auto | 0.900 | - |" in page
        assert page.count("## Fits") == 1
    with Image.open(tmp_path / "images" / "performance.png") as image:
        assert image.width > 500


def test_the_profile_of_a_fit_knows_all_of_its_time():
    command = [sys.executable, "-m", "benchmarks.profile", "wine", "--repeats", "1"]
    done = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=True)
    steps = re.findall(r"^  (.+?) +([\d.]+) s +([\d.]+)%$", done.stdout, re.MULTILINE)
    assert {"psi follows", "Algorithm 1", "mixtures", "certainty"} <= {name for name, _, _ in steps}
    assert sum(float(share) for _, _, share in steps) == pytest.approx(100, abs=1)
