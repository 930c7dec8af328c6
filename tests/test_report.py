"""The report: one offline file, safe to open for any column names, tested in a real browser if there is one."""

import base64
import hashlib
import json
import re
import shutil
from dataclasses import replace
from functools import partial
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from scipy.sparse import csr_matrix
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError

from knet import Advanced, KNet
from knet.exceptions import KNetDataWarning
from knet.explore.features import Feature, describe_columns, importance
from knet.explore.rules import find_rules
from knet.explore.samples import Sample, sample_rows
from knet.explore.stability import Stability
from knet.model.predictor import Predictor
from knet.rows.kinds import admit
from knet.show import plots, report_notes, report_tables
from knet.show.drawing import COLORS, MARKERS
from knet.show.profiles import percent, profiles
from knet.show.report import _hash, report
from knet.show.row_map import CORNERS, quantized
from knet.tables.cells import Column
from knet.tables.conversion import Conversion
from tests.estimators import wrong_rows_change

HOSTILE = "<script>document.title='owned'</script>"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
CHROMEDRIVER = shutil.which("chromedriver")


def fitted(n_clusters=3, n_rows=300, **params):
    X, y = make_blobs(n_rows, 4, centers=max(n_clusters, 1), cluster_std=0.4, random_state=0)
    X = pd.DataFrame(X, columns=[HOSTILE, "\"quoted' & co", "{{ 7 * 7 }}", "</script><img src=x onerror=alert(1)>"])
    params = {"max_iter": 3, "advanced": Advanced(steps_per_iter=30), "tol": 1e-3, "random_state": 0, **params}
    with wrong_rows_change(-1):
        return KNet(n_clusters, **params).fit(X), X, np.array([HOSTILE, "b", "c"] * 20)[y]


def quick(n_clusters):
    return KNet(n_clusters, max_iter=1, random_state=0, advanced=Advanced(steps_per_iter=5))


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A report that has all its sections."""
    model, X, target = fitted(tol=0.0)  # never converges
    start = model.predictor_.scaling(X.to_numpy())
    model.embeddings_ = np.stack([np.column_stack([start, np.zeros(len(X))]), model.predictor_.embed(X.to_numpy())])
    model.selection_ = [
        {"method": HOSTILE, "conductance": 0.2, "gain": 1.0, "score": 2.0, "chosen": True},
        {"method": "k-means", "conductance": 0.1, "gain": 0.5, "score": 1.0, "chosen": False},
        {"method": "genie 0.3", "conductance": 0.4, "gain": 0.1, "score": 0.5, "chosen": False},
    ]
    path = tmp_path_factory.mktemp("report") / "report.html"
    ids = [f"<i>{i}</i>" for i in range(len(X))]
    model.report(X, path, target=target, ids=ids, source=f"{HOSTILE}.csv", command="knet fit '<x>'", n_refits=1)
    return path


@pytest.mark.filterwarnings("ignore::knet.exceptions.KNetConvergenceWarning")
def test_training_that_did_not_converge_is_said(tmp_path):
    for sigma, said in (
        ("median", True),
        ("auto", False),
    ):
        model, X, _ = fitted(tol=0.0, max_iter=1, sigma=sigma)
        model.report(X, tmp_path / f"{sigma}.html", n_refits=0)
        assert ("U still changed by" in (tmp_path / f"{sigma}.html").read_text(encoding="utf-8")) == said


def test_is_one_small_file_without_addresses(page):
    text = page.read_text(encoding="utf-8")
    assert len(text.encode()) < 2_000_000
    assert not re.search(r"https?:|@import|url\(", text)
    sources = re.findall(r'(?:src|href)="([^"]*)"', text)
    assert sources[0] == "data:,"
    assert {source[:26] for source in sources[1:]} == {"data:image/svg+xml;base64,"}


def figures(text):
    """Return the SVG text of the figures of a page."""
    return [base64.b64decode(found).decode() for found in re.findall(r"data:image/svg\+xml;base64,([^\"]*)", text)]


def test_figures_are_safe_have_no_background_and_have_a_text(page):
    text = page.read_text(encoding="utf-8")
    found = figures(text)
    texts = re.findall(r'<img [^>]*alt="([^"]*)"', text)
    assert len(found) == len(texts) == 10
    assert all(texts)
    for figure in found:
        assert not re.search(r"<script|<a |<foreignObject|<image[^>]*href=\"(?!data:image/png)", figure)
        assert "<dc:date>" not in figure
        assert "#ffffff" not in figure.partition('id="axes_1"')[0]


def test_the_same_rows_give_the_same_file_and_leave_matplotlib_as_it_was(tmp_path):
    import matplotlib as mpl

    model, X, _ = fitted(max_iter=1)
    pages = []
    for number, usetex in enumerate((False, True)):  # with usetex, names would be programs for LaTeX
        with mpl.rc_context({"text.usetex": usetex, "font.size": 10 + 10 * usetex}):
            before = dict(mpl.rcParams)
            report(model, X, tmp_path / f"{number}.html", n_refits=0)
            assert dict(mpl.rcParams) == before
        pages.append((tmp_path / f"{number}.html").read_bytes())
    assert pages[0] == pages[1]


def test_the_figures_are_those_of_plots(tmp_path, monkeypatch):
    model, X, _ = fitted(tol=0.0)
    drawn = []

    def counted(plot, *args, **options):
        drawn.append(plot.__name__)
        return plot(*args, **options)

    for name in ("raw_kernel", "learned_kernel", "history", "spectrum", "selection", "levels", "silhouettes"):
        monkeypatch.setattr(plots, name, partial(counted, getattr(plots, name)))
    report(model, X, tmp_path / "r.html", n_refits=0)
    assert sorted(drawn) == sorted(
        ["history", "learned_kernel", "levels", "raw_kernel", "selection", "silhouettes", "silhouettes", "spectrum"]
    )
    assert len(figures((tmp_path / "r.html").read_text())) == len(drawn)


def every_kind(X):
    """Return the same rows in every kind that `fit` takes, by name."""
    columns = {name: X[:, j] for j, name in enumerate("abcd")}
    vectors = X.astype(np.float32)
    return {
        "array": X,
        "float16": X.astype(np.float16),
        "list": X.tolist(),
        "pandas": pd.DataFrame(columns),
        "polars": pl.DataFrame(columns),
        "arrow": pa.table(columns),
        "tensor": torch.from_numpy(X),
        "bfloat16": torch.from_numpy(X).bfloat16(),
        "sparse": csr_matrix(X),
        "pandas vectors": pd.DataFrame({"v": list(vectors)}),
        "polars vectors": pl.DataFrame({"v": vectors}),
        "arrow vectors": pa.table({"v": pa.FixedSizeListArray.from_arrays(vectors.ravel(), 4)}),
    }


@pytest.mark.parametrize("kind", every_kind(np.zeros((1, 4))))
def test_every_kind_of_rows_has_a_report_plots_and_an_explanation(tmp_path, kind):
    X = every_kind(make_blobs(80, 4, centers=2, cluster_std=0.4, random_state=0)[0])[kind]
    model = quick(2).fit(X)
    report(model, X, tmp_path / "r.html", n_refits=1, target=model.labels_, ids=[f"id {i}" for i in range(80)])
    text = (tmp_path / "r.html").read_text()
    assert "2 clusters, with 50% of the rows each." in text
    assert "1 refit on other rows" in text
    assert [rule.n_rows for rule in model.explain(X, max_rows=20).rules] == [40, 40]
    for plot in (plots.data, plots.embedding, plots.raw_kernel, plots.spectrum, plots.silhouettes, plots.profiles):
        ax = plots.Figure().subplots()
        assert plot(model, X, ax) is ax


def test_values_that_are_not_one_per_row_are_refused(tmp_path):
    model, X, target = fitted()
    for options in ({"target": target[:-1]}, {"ids": ["a"] * 299}, {"target": np.append(target, "x")}, {"ids": []}):
        (name, values) = next(iter(options.items()))
        with pytest.raises(ValueError, match=rf"'{name}' must hold .* 300 rows of X\. Got {len(values)} instead"):
            model.report(X, tmp_path / "r.html", n_refits=0, **options)
    assert not (tmp_path / "r.html").exists()


def test_ids_are_taken_by_position(tmp_path):
    model, X, _ = fitted()
    ids = pd.Series([f"name {i}" for i in range(300)], index=range(1000, 1300))
    model.report(X, tmp_path / "r.html", n_refits=0, ids=ids)
    assert "name 299" in (tmp_path / "r.html").read_text()


def test_rows_are_read_once_for_the_sample_and_once_for_the_fingerprint(tmp_path, monkeypatch):
    model, X, _ = fitted()
    n_read, rows = [], KNet._rows
    monkeypatch.setattr(KNet, "_rows", lambda self, X, **options: n_read.append(len(X)) or rows(self, X, **options))
    model.report(X, tmp_path / "r.html", n_refits=0)
    assert n_read == [300, 300]


@pytest.mark.parametrize("n_rows", [1, 2])
def test_one_row_has_a_report(tmp_path, n_rows):
    model, X, _ = fitted()
    model.report(X[:n_rows], tmp_path / "r.html")
    assert f"Only {n_rows} of the 3 clusters contain rows." in (tmp_path / "r.html").read_text()


def test_nothing_from_the_data_becomes_markup(page):
    text = page.read_text(encoding="utf-8")
    assert HOSTILE not in text
    assert "<img src=x" not in text
    assert "{{ 7 * 7 }}" in text
    assert text.count("<script") == 2
    assert "&lt;script&gt;" in text


def test_policy_allows_only_the_reports_own_script_and_style(page):
    text = page.read_text(encoding="utf-8")
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1].replace("&#39;", "'")
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL)[1]
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)[1]
    assert "default-src 'none'" in policy
    assert f"script-src '{_hash(script)}'" in policy
    assert f"style-src '{_hash(style)}'" in policy
    assert "unsafe" not in policy
    assert " style=" not in text
    assert not re.search(r"\son[a-z]+=\"", text)


def test_all_sections_and_facts_are_present_in_order(page):
    text = page.read_text(encoding="utf-8")
    sections = (
        "How many, how big, how sure?",
        "What makes each cluster?",
        "Profiles",
        "Typical rows",
        "Which rows to doubt?",
        "Before and after",
        "Agreement with known labels",
        "Diagnostics",
        "Kernel matrix",
        "after each iteration",
        'alt="Training: ',
        'alt="Spectrum: ',
        'alt="Candidates for the start: chosen: &lt;script',
        "Silhouettes",
        'alt="Silhouettes in the data: mean',
        "How to reproduce",
    )
    places = [text.index(f">{section}<") if section[0].isupper() else text.index(section) for section in sections]
    assert places == sorted(places)
    assert "3 clusters, with 33% of the rows each." in text
    assert "1 refit on other rows" in text
    assert "SHA-256 of all rows" in text
    assert "random_state 0" in text
    assert "&#34;steps_per_iter&#34;: 30" in text


def test_script_uses_only_what_the_page_contains(page):
    text = page.read_text(encoding="utf-8")
    script = re.search(r"<script>(.*?)</script>", text, re.DOTALL)[1]
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    assert set(re.findall(r"\bdata\.(\w+)", script)) == set(data)
    for name in re.findall(r'getElementById\("([\w-]+)"\)', script):
        assert f'id="{name}"' in text
    for name in re.findall(r'querySelectorAll\("canvas\[([\w-]+)\]"\)', script):
        assert re.search(rf"<canvas[^>]* {name}=", text)


@pytest.mark.filterwarnings("ignore:Stopped after")
@pytest.mark.parametrize("n_clusters", [1, 40])
def test_one_cluster_or_forty(tmp_path, n_clusters):
    model, X, _ = fitted(n_clusters, max_iter=1, advanced=Advanced(steps_per_iter=5))
    report(model, X, tmp_path / "r.html", n_refits=0)
    text = (tmp_path / "r.html").read_text()
    assert ("One cluster" if n_clusters == 1 else "40 clusters") in text
    assert len(text) < 2_000_000


@pytest.mark.filterwarnings("ignore:Stopped after")
def test_plain_arrays_and_large_data_are_sampled(tmp_path):
    X, y = make_blobs(60_000, 2, centers=2, random_state=0)
    model = quick(2).fit(X)
    model.report(X, tmp_path / "r.html", target=y, n_refits=0)
    text = (tmp_path / "r.html").read_text()
    assert "50,000 of 60,000 rows" in text
    assert "SHA-256 of 10,000 rows at equal steps" in text
    assert '<td class="name">x1</td>' in text
    assert len(text) < 2_000_000


class CountedTable(pd.DataFrame):
    """A table that records how many rows are converted to an array at a time."""

    converted: ClassVar[list[int]] = []

    @property
    def _constructor(self):
        return CountedTable

    def __array__(self, *args, **kwargs):
        self.converted.append(len(self))
        return super().__array__(*args, **kwargs)

    def to_numpy(self, *args, **kwargs):
        self.converted.append(len(self))
        return super().to_numpy(*args, **kwargs)


@pytest.mark.filterwarnings("ignore:Stopped after")
def test_no_step_reads_all_rows_of_large_data(tmp_path, monkeypatch):
    X = pd.DataFrame(make_blobs(60_000, 2, centers=2, random_state=0)[0], columns=["a", "b"])
    model, n_hashed = quick(2).fit(X), []

    def counted(content):
        n_hashed.append(len(content))
        return hashlib.sha256(content)

    monkeypatch.setattr(report_notes, "hashlib", SimpleNamespace(sha256=counted))
    CountedTable.converted.clear()
    report(model, CountedTable(X), tmp_path / "r.html", n_refits=0)
    assert sorted(set(CountedTable.converted)) == [10_000, 50_000]
    assert n_hashed == [10_000 * 2 * 8]


@pytest.mark.filterwarnings("ignore:Stopped after")
@pytest.mark.parametrize("n_rows", [300, 20_001])
def test_fingerprint_can_be_recomputed_by_hand(n_rows):
    X = make_blobs(n_rows, 3, centers=2, random_state=0)[0]
    model = quick(2).fit(X)
    rows = np.linspace(0, n_rows - 1, min(n_rows, 10_000)).astype(int)
    expected = hashlib.sha256(X[rows].tobytes()).hexdigest()
    tables = (X, X.tolist(), pd.DataFrame(X), torch.from_numpy(X), np.asfortranarray(X))
    for table in tables:
        assert report_notes.fingerprint(model, admit(table)).endswith(expected)
    X[-1] += 1
    assert not report_notes.fingerprint(model, X).endswith(expected)


@pytest.mark.filterwarnings("ignore:Stopped after")
def test_known_labels_are_not_predicted_again(tmp_path, monkeypatch):
    model, X, _ = fitted()
    report(model, X, tmp_path / "predicted.html", n_refits=0)
    monkeypatch.setattr(Predictor, "assign", lambda *args: pytest.fail("the rows were predicted again"))
    report(model, X, tmp_path / "known.html", labels=model.labels_, n_refits=0)
    assert (tmp_path / "known.html").read_text() == (tmp_path / "predicted.html").read_text()


def test_labels_that_cannot_be_the_models_are_refused(tmp_path):
    model, X, _ = fitted()
    for labels, message in [
        (model.labels_[:-1], r"the 300 rows .* Got an array of shape \(299,\)"),
        (model.labels_ / 2, "one integer from -1 to 2 .* type float64"),
        (model.labels_ + 1, "one integer from -1 to 2"),
    ]:
        with pytest.raises(ValueError, match=message):
            report(model, X, tmp_path / "r.html", labels=labels, n_refits=0)


@pytest.mark.parametrize(("kept", "note"), [(0, "the start was kept as it is"), (1, "iteration 1 was kept")])
def test_the_note_on_training_names_the_kept_iteration_and_the_stop(kept, note):
    model, _, _ = fitted(tol=0.0)
    model.best_iter_ = kept
    text = report_notes.training_note(model)
    assert note in text
    assert "less than 0, or if the clusters no longer agree with the start" in text
    model.history_ = []
    assert report_notes.training_note(model) == "The encoder was not trained."


def test_a_model_that_is_not_fitted_is_refused(tmp_path):
    with pytest.raises(NotFittedError):
        report(KNet(2), np.zeros((5, 2)), tmp_path / "r.html")
    assert not (tmp_path / "r.html").exists()


def test_points_of_the_map_keep_their_proportions():
    short = quantized(np.array([[0.0, 0.0], [2.0, 1.0]]))
    assert short[:, 0].tolist() == [0, 65535]
    assert short[1, 1] - short[0, 1] in (32767, 32768)
    assert quantized(np.ones((2, 2))).tolist() == [[32768, 32768]] * 2
    assert len(CORNERS) == len(MARKERS)


def test_stability_of_a_cluster_is_a_number_only_if_it_is_known():
    labels = np.repeat([0, 1, 2], [50, 50, 2])
    X = labels[:, None].astype(float)
    rows, features = Sample(np.arange(102), X, X, X, labels, 102), [Feature("x", "whole", (0,))]
    known = Stability(0.9, np.array([0.8, np.nan, 0.5]), np.ones(102), np.array([50, 0, 2]), 2, 51)
    sizes = np.bincount(labels)
    found = report_tables.cluster_rows(rows, sizes, np.eye(3)[labels], known, find_rules(X, labels, features))
    np.testing.assert_array_equal([row.stability for row in found], [0.8, np.nan, np.nan])
    assert [row.is_poor for row in found] == [False] * 3
    none = report_tables.cluster_rows(rows, sizes, np.eye(3)[labels], None, find_rules(X, labels, features))
    assert np.isnan([row.stability for row in none]).all()


def table_with_categories():
    """Three groups that differ in age, smoker and region, and not in member; the date is stored as days."""
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 60)
    color = np.where(rng.random(180) < 0.9, y, rng.integers(3, size=180))
    X = pd.DataFrame(
        {"age": 30 + 20 * y + rng.integers(-4, 5, 180), "income": 1000 * y + rng.normal(0, 60, 180) + 5000}
    )
    X = X.assign(**{f"region={name}": (color == code) * 1.0 for code, name in enumerate(["east", "north", "west"])})
    X["member"], X["born"] = rng.integers(0, 2, 180) * 1.0, 18_000.0 + 100 * y + rng.integers(0, 30, 180)
    model = KNet(3, max_iter=1, random_state=0, advanced=Advanced(steps_per_iter=5)).fit(X)
    levels = {"region": ("east", "north", "west")}
    kinds = {"age": "number", "income": "number", "region": "category", "member": "flag", "born": "date"}
    columns = tuple(Column(name, kind, levels=levels.get(name, ())) for name, kind in kinds.items())
    model.extra_ = {"table": Conversion(columns).to_json()}
    return model, X


@pytest.mark.filterwarnings("ignore:Stopped after")
def test_profiles_are_in_the_units_of_the_table(tmp_path):
    model, X = table_with_categories()
    rows = sample_rows(model, X, 1000)
    features = describe_columns(model, rows.X)
    assert len(features) == 5
    shares = importance(rows.X, rows.labels, features)
    lines = {profile.name: profile for profile in profiles(rows, features, shares, 20)}
    assert lines["region = east"].texts == [
        percent(X["region=east"][model.labels_ == cluster].mean()) for cluster in range(3)
    ]
    assert [float(text) for text in lines["age"].texts] == [
        X["age"][model.labels_ == cluster].median() for cluster in range(3)
    ]
    assert lines["born"].texts[0].startswith("2019-")
    assert set(report_tables.color_levels(lines["member = yes"])) == {0}  # it explains nothing
    assert max(map(abs, report_tables.color_levels(lines["age"]))) >= 2
    names = report_tables.RowNames(rows, features, shares, None)
    typical = report_tables.typical_rows(names, np.zeros(len(rows.rows)))
    assert typical[0].cells[names.columns.index("region")] in ("east", "north", "west")
    assert len(profiles(rows, features, shares, 1)) in (1, 3)  # the best column, with all its categories
    model.report(X, tmp_path / "r.html", n_refits=0)
    text = (tmp_path / "r.html").read_text()
    assert "180 rows, 5 columns;" in text
    assert text.count("covers 100%") == 3


def doubted(proba, scores=None):
    """Return the rows that the report doubts, by their probabilities or their scores."""
    n = len(proba)
    rows = Sample(np.arange(n), np.zeros((n, 1)), np.zeros((n, 1)), np.zeros((n, 1)), proba.argmax(1), n)
    names = report_tables.RowNames(rows, [Feature("x", "number", (0,))], np.ones(1), None)
    found = (
        report_tables.uncertain_rows(names, proba) if scores is None else report_tables.unfamiliar_rows(names, scores)
    )
    return [(int(row.row), *row.facts) for row in found]


def test_rows_are_doubted_only_with_a_reason():
    sure = np.tile([0.98, 0.02], (50, 1))
    assert doubted(sure) == []  # and not the first rows of the file
    proba = sure.copy()
    proba[[7, 30]] = [[0.6, 0.4], [0.45, 0.55]]
    assert doubted(proba) == [(30, "0.55", "0 (0.45)"), (7, "0.60", "1 (0.40)")]
    scores = np.zeros(50)
    assert doubted(sure, scores) == []
    scores[12], scores[20] = np.log(0.1), np.log(0.9)
    assert doubted(sure, scores) == [(12, "10%")]
    assert doubted(np.ones((5, 1))) == []


def test_typical_rows_are_the_most_familiar_of_each_cluster():
    scores = np.array([-1.0, -5.0, -2.0, -0.5, -3.0, -0.1])
    rows = Sample(np.arange(6), np.zeros((6, 1)), np.zeros((6, 1)), np.zeros((6, 1)), np.array([0, 0, 0, 1, 1, 1]), 6)
    names = report_tables.RowNames(rows, [Feature("x", "number", (0,))], np.ones(1), None)
    assert [int(row.row) for row in report_tables.typical_rows(names, scores)] == [0, 2, 5, 3]
    rows.X[[0, 5]] = np.nan  # what is not known is expected to be typical
    assert [int(row.row) for row in report_tables.typical_rows(names, scores)] == [2, 1, 3, 4]


def test_shares_are_written_briefly():
    shares = {1 / 3: "33%", 0.021: "2.1%", 0.0004: "<0.1%", 0.0: "0%", 1.0: "100%", float("nan"): "\u2013"}
    assert [percent(share) for share in shares] == list(shares.values())


@pytest.mark.filterwarnings("ignore:Stopped after", "ignore:.*do not support")
def test_what_a_reader_should_know_comes_first(tmp_path):
    noise = np.column_stack([np.random.default_rng(0).normal(size=(200, 3)), np.arange(200) * 2])
    with pytest.warns(KNetDataWarning, match="looks like an index"):
        model = quick(3).fit(noise)
    model.report(noise, tmp_path / "noise.html", n_refits=1)
    text = (tmp_path / "noise.html").read_text()
    notes = re.search(r'id="warnings">(.*?)</ul>', text, re.DOTALL)[1]
    for said in ("do not support 3 clusters", "Column 3 looks like an index", "Refits find other clusters"):
        assert said in notes
    assert "They are not stable" in text
    model, X, _ = fitted()
    model.report(X, tmp_path / "clear.html", n_refits=1)
    assert 'id="warnings"' not in (tmp_path / "clear.html").read_text()


def test_probabilities_are_withheld_if_refits_disagree(tmp_path):
    X = np.random.default_rng(0).uniform(size=(200, 5))  # without groups
    model = KNet(4, max_iter=1, random_state=0)
    with pytest.warns(KNetDataWarning, match="clusters"):
        model.fit(X)
    stable = Stability(0.95, np.full(4, 0.9), np.ones(200), np.bincount(model.labels_), 2, 100)
    for found, withheld in ((replace(stable, overall=0.2, clusters=np.full(4, 0.3)), True), (stable, False)):
        model.report(X, tmp_path / "r.html", stability=found, overwrite=True)
        text = (tmp_path / "r.html").read_text()
        assert ("Probabilities are not shown" in text) == withheld
        assert ("belongs to its cluster with a probability" in text) != withheld
        data = json.loads(re.search(r'id="data">(.*?)</script>', text)[1])
        assert (data["certainty"] == []) == withheld
        table = re.search(r'<table id="clusters">(.*?)</table>', text, re.DOTALL)[1]
        assert (table.count("<td>-</td>") == 4) == withheld
    one_lost = replace(stable, clusters=np.array([0.9, 0.2, 0.9, 0.9]))
    assert one_lost.lost.tolist() == [1]


def test_sizes_are_those_of_all_rows_or_say_that_they_are_not(tmp_path, monkeypatch):
    monkeypatch.setattr("knet.explore.samples.POOL_ROWS", 100)
    monkeypatch.setattr("knet.explore.samples.MIN_POOL_ROWS", 100)
    monkeypatch.setattr("knet.explore.samples.POOL_VALUES", 100)
    model, X, _ = fitted()
    for labels, said, sizes in (
        (model.labels_, "the sizes of the clusters are those of all rows", np.bincount(model.labels_)),
        (None, "so do the sizes of the clusters", None),
    ):
        report(model, X, tmp_path / "r.html", labels=labels, n_refits=0, overwrite=True)
        text = (tmp_path / "r.html").read_text()
        assert said in text
        table = re.search(r'<table id="clusters">(.*?)</table>', text, re.DOTALL)[1]
        counts = [int(found) for found in re.findall(r"<td>([0-9]+)</td><td class=\"name\">", table)]
        assert counts == sizes.tolist() if sizes is not None else sum(counts) == 100
        assert ("<th>rows of the sample</th>" in table) == (sizes is None)
    assert model.explain(X).size_note == f"100 of {len(X)} rows"


def test_identical_rows_are_one_large_point(tmp_path):
    X = np.vstack([np.random.default_rng(0).normal(size=(60, 2)), np.repeat([[9.0, 9.0]], 40, 0)])
    model = KNet(2, max_iter=1, random_state=0).fit(X)
    model.report(X, tmp_path / "r.html", n_refits=0)
    text = (tmp_path / "r.html").read_text()
    data = json.loads(re.search(r'id="data">(.*?)</script>', text)[1])
    copies = np.frombuffer(base64.b64decode(data["copies"]), "<u2")
    assert sorted(copies) == [1] * 60 + [40] * 40
    assert "larger points are several identical rows" in text
    ax = plots.data(model, X)
    assert {round(size) for part in ax.collections for size in part.get_sizes()} == {25, 25 * 16}
    beside = {text.get_text(): text.get_position() for text in ax.texts if text.get_text().isdigit()}
    assert sorted(position == (0, 0) for position in beside.values()) == [False, True]


def test_few_rows_are_not_called_stable(tmp_path):
    X = np.array([[0.0, 1.0], [0.0, 2.0], [9.0, 9.0]])
    KNet(2, random_state=0).fit(X).report(X, tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    assert "They are stable" not in text
    assert "too few rows to say how stable" in text


def test_the_style_has_the_colours_of_the_plots():
    style = (files("knet.show") / "page.css").read_text()
    light = style.partition("@media")[0]
    assert [re.search(rf"--c{k}: (#\w+)", light)[1].upper() for k in range(8)] == list(COLORS)
    dark = re.search(r"prefers-color-scheme: dark\) \{(.*?)\n\}", style, re.DOTALL)[1]
    names = [set(re.findall(r"(--[\w-]+):", part)) for part in (light, dark)]
    assert names[0] - names[1] == {"--on-strong"}  # white text in both


# In a browser


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None or CHROMEDRIVER is None:
        pytest.skip("chromium and chromedriver are not installed")
    webdriver = pytest.importorskip("selenium.webdriver")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.add_argument("--window-size=1100,900")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(CHROMEDRIVER))
    yield driver
    driver.quit()


def open_page(browser, page):
    browser.get(Path(page).as_uri())
    assert browser.execute_script("return document.body.dataset.ready") == "yes"


def colors_of(browser, selector):
    """Return how many pixels of a canvas have a hue, and how many are the grey of what is not highlighted."""
    return browser.execute_script(
        """const c = document.querySelector(arguments[0]);
        const p = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        let hue = 0, grey = 0;
        for (let i = 0; i < p.length; i += 4) {
          if (p[i + 3] < 255) continue;
          const spread = Math.max(p[i], p[i+1], p[i+2]) - Math.min(p[i], p[i+1], p[i+2]);
          if (spread > 40) hue++; else if (p[i] === 0xd5 && p[i+2] === 0xdf) grey++;
        }
        return [hue, grey];""",
        selector,
    )


def test_browser_reports_no_error(browser, page):
    open_page(browser, page)
    assert browser.get_log("browser") == []
    assert browser.title == f"Clusters in {HOSTILE}.csv"
    assert HOSTILE in browser.find_element("id", "profiles").text
    assert browser.execute_script("return document.querySelectorAll('i').length") == 0
    for selector in ("canvas[data-view=data]", "canvas[data-view=embedding]"):
        assert colors_of(browser, selector)[0] > 100
    widths = browser.execute_script("return [...document.querySelectorAll('img')].map(image => image.naturalWidth)")
    assert len(widths) == 10
    assert min(widths) > 100


def test_browser_policy_stops_injected_scripts(browser, page, tmp_path):
    bad = tmp_path / "bad.html"
    text = page.read_text(encoding="utf-8").replace("<h1>", "<script>document.title='owned'</script><h1>")
    bad.write_text(text, encoding="utf-8")
    open_page(browser, bad)
    assert browser.title != "owned"
    assert "Content Security Policy" in str(browser.get_log("browser"))


def test_browser_hover_shows_the_row(browser, page):
    from selenium.webdriver import ActionChains

    open_page(browser, page)
    canvas = browser.find_element("css selector", "canvas[data-view=data]")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
    x, y = browser.execute_script(
        """const c = arguments[0], p = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
        for (let i = 3; i < p.length; i += 4) if (p[i] === 255) {
          const n = (i - 3) / 4, s = c.clientWidth / c.width;
          return [(n % c.width) * s - c.clientWidth / 2, Math.floor(n / c.width) * s - c.clientHeight / 2 + 1];
        }""",
        canvas,
    )
    ActionChains(browser).move_to_element_with_offset(canvas, round(x), round(y)).perform()
    tip = browser.find_element("id", "tip")
    assert tip.is_displayed()
    assert re.match(r"row <i>\d+</i>, cluster \d, probability", tip.text)
    assert HOSTILE in tip.text


def test_browser_click_highlights_a_cluster_everywhere(browser, page):
    open_page(browser, page)
    hue, grey = colors_of(browser, "canvas[data-view=embedding]")
    assert grey == 0
    button = browser.find_element("css selector", "button[data-cluster='1']")
    button.click()
    lit, grey = colors_of(browser, "canvas[data-view=embedding]")
    assert 0 < lit < hue
    assert grey > 0
    assert button.get_attribute("aria-pressed") == "true"
    dimmed = browser.execute_script("return [...document.querySelectorAll('.dim')].map(e => e.dataset.cluster)")
    assert set(dimmed) == {"0", "2"}
    browser.find_element("id", "all").click()
    assert colors_of(browser, "canvas[data-view=embedding]") == [hue, 0]


def test_browser_zoom(browser, page):
    open_page(browser, page)
    browser.find_element("css selector", "button[data-zoom-by='1.5']").click()
    canvas = browser.find_element("css selector", "canvas[data-view=data]")
    assert canvas.get_attribute("data-zoom") == "1.50"


def open_details(browser):
    browser.execute_script("document.querySelectorAll('details').forEach(part => { part.open = true; })")


def test_browser_opens_diagnostics_on_request(browser, page):
    from selenium.webdriver.common.keys import Keys

    open_page(browser, page)
    pictures = browser.find_elements("css selector", "#diagnostics img")
    assert not any(picture.is_displayed() for picture in pictures)
    browser.find_element("css selector", "#diagnostics summary").send_keys(Keys.ENTER)
    assert all(picture.is_displayed() for picture in pictures)
    for name in ("training", "reproduce"):
        assert browser.find_element("id", name).get_attribute("textContent").strip()


def test_browser_answers_the_questions(browser, page):
    open_page(browser, page)
    rows = browser.find_elements("css selector", "#clusters tbody tr")
    assert [row.text.split()[:2] for row in rows] == [["0", "100"], ["1", "100"], ["2", "100"]]
    rules = browser.find_elements("css selector", "#rules li")
    assert len(rules) == 3
    assert all("covers" in rule.text and "purity" in rule.text for rule in rules)
    assert len(browser.find_elements("css selector", "#profiles tbody tr")) == 4
    assert len(browser.find_elements("css selector", "#typical tbody tr")) == 6
    for name in ("verdict", "uncertain", "unfamiliar", "agreement"):
        assert browser.find_element("id", name).is_displayed()
    rules[1].click()
    assert browser.execute_script("return document.body.dataset.chosen") == "1"


def test_browser_can_be_used_with_the_keyboard(browser, page):
    from selenium.webdriver.common.keys import Keys

    open_page(browser, page)
    button = browser.find_element("css selector", "button[data-cluster='2']")
    button.send_keys(Keys.SPACE)
    assert browser.execute_script("return document.body.dataset.chosen") == "2"
    button.send_keys(Keys.ESCAPE)
    assert browser.execute_script("return document.body.dataset.chosen") == ""
    for area in browser.find_elements("css selector", ".scroll"):
        assert area.get_attribute("tabindex") == "0"
        assert area.get_attribute("aria-label")


def drag(browser, view, corners, *, shift=False):
    """Draw a rectangle on a map; corners are shares of its side."""
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.keys import Keys

    canvas = browser.find_element("css selector", f"canvas[data-view={view}]")
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
    x, y, right, bottom = (round((share - 0.5) * canvas.size["width"]) for share in corners)
    actions = ActionChains(browser).move_to_element_with_offset(canvas, x, y)
    actions = actions.key_down(Keys.SHIFT) if shift else actions
    actions = actions.click_and_hold().move_by_offset((right - x) // 2, (bottom - y) // 2)
    actions = actions.move_to_element_with_offset(canvas, right, bottom).release()
    (actions.key_up(Keys.SHIFT) if shift else actions).perform()


def n_selected(browser):
    return int(browser.execute_script("return document.body.dataset.selected"))


def test_browser_selects_rows_of_the_map_by_a_rectangle(browser, page):
    open_page(browser, page)
    drag(browser, "data", (0.01, 0.01, 0.99, 0.99))  # a drag before "select" selects nothing
    assert n_selected(browser) == 0
    assert not browser.find_element("id", "export").is_enabled()
    browser.find_element("css selector", "button[data-select]").click()
    drag(browser, "data", (0.01, 0.01, 0.99, 0.99))
    assert n_selected(browser) == 300
    assert len(browser.find_elements("css selector", "#selection tbody tr")) == 50
    status = browser.find_element("id", "selected").text
    assert status.startswith("300 of the 300 rows of the map: 100 of cluster 0, 100 of cluster 1, 100 of cluster 2.")
    drag(browser, "data", (0.99, 0.99, 0.5, 0.01))  # from the right and from below
    right = n_selected(browser)
    assert 0 < right < 300
    hue, grey = colors_of(browser, "canvas[data-view=embedding]")  # the other map shows the same rows
    assert hue > 0
    assert grey > 0
    drag(browser, "data", (0.01, 0.01, 0.5, 0.99), shift=True)
    assert n_selected(browser) == 300
    browser.find_element("css selector", "button[data-cluster='1']").click()
    drag(browser, "data", (0.01, 0.01, 0.99, 0.99))
    assert n_selected(browser) == 100
    header = [cell.text for cell in browser.find_elements("css selector", "#selection thead th")]
    assert header[:4] == ["row", "position", "cluster", "probability"]
    assert HOSTILE in header
    assert browser.execute_script("return document.querySelectorAll('#selection i, #selection script').length") == 0
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


def test_browser_exports_the_selection_by_keyboard_as_csv(browser, page, tmp_path):
    import csv

    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait

    browser.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    open_page(browser, page)
    assert not browser.find_element("id", "select-cluster").is_enabled()
    browser.find_element("css selector", "button[data-cluster='2']").send_keys(Keys.SPACE)
    browser.find_element("id", "select-cluster").send_keys(Keys.ENTER)
    assert n_selected(browser) == 100
    browser.find_element("id", "export").send_keys(Keys.ENTER)
    path = tmp_path / "selected-rows.csv"
    WebDriverWait(browser, 20).until(lambda _: path.exists() and path.stat().st_size > 0)
    with open(path, newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    _, X, _ = fitted(max_iter=1)
    assert set(header) == {"row", "position", "cluster", "probability", *X.columns}
    assert len(rows) == 100
    for row in (dict(zip(header, row, strict=True)) for row in rows):
        assert row["cluster"] == "2"
        assert row["row"] == f"<i>{row['position']}</i>"
        expected = X.iloc[int(row["position"])]
        assert all(float(row[name]) == pytest.approx(expected[name], rel=1e-9) for name in X.columns)
    browser.find_element("id", "clear").send_keys(Keys.ENTER)
    assert n_selected(browser) == 0
    browser.find_element("id", "select-cluster").send_keys(Keys.ENTER)
    browser.find_element("id", "export").send_keys(Keys.ESCAPE)
    assert n_selected(browser) == 0
    assert browser.get_log("browser") == []


def test_browser_export_has_no_formulas_and_shows_gaps(browser, tmp_path):
    X = pd.DataFrame(make_blobs(60, 2, centers=2, random_state=0)[0], columns=["=1+1", "b"])
    X.loc[0, "b"] = np.nan
    ids = ["=cmd|' /C calc'!A0", "+1", "-2.5e3", "@SUM(A1)", 'say "hi", all', *range(5, 60)]
    quick(2).fit(X).report(X, tmp_path / "r.html", ids=ids, n_refits=0)
    open_page(browser, tmp_path / "r.html")
    browser.execute_script(
        "window.kept = []; const make = URL.createObjectURL;"
        "URL.createObjectURL = (blob) => { blob.text().then((text) => kept.push(text)); return make(blob); }"
    )
    browser.execute_script("document.querySelector('[data-select]').click()")
    drag(browser, "data", (0.01, 0.01, 0.99, 0.99))
    gaps = [row for row in browser.find_elements("css selector", "#selection tbody tr") if "\u2013" in row.text]
    assert len(gaps) == 1
    browser.execute_script("document.getElementById('export').click()")
    text = browser.execute_async_script(
        "const done = arguments[0], wait = () => kept.length ? done(kept[0]) : setTimeout(wait, 20); wait()"
    )
    lines = text.split("\r\n")
    assert "'=1+1" in lines[0]
    assert [line[:5] for line in lines[1:6]] == ["'=cmd", "+1,1,", "-2.5e", "'@SUM", '"say ']
    assert '"say ""hi"", all",4,' in lines[5]
    assert ",," in lines[1] or lines[1].endswith(",")  # the gap is an empty cell


def test_the_values_of_the_map_have_bounded_size(tmp_path):
    X = np.random.default_rng(0).normal(size=(3000, 60))
    X[:1500, 0] += 8
    model = quick(2).fit(X)
    model.report(X, tmp_path / "r.html", n_refits=0)
    text = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert len(text) < 2_000_000
    columns = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])["columns"]
    assert 5 < len(columns) < 60
    assert columns[0]["name"] == "x0"  # the columns that the clusters explain best come first


def test_browser_follows_the_dark_scheme(browser, page):
    def look(scheme):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        open_page(browser, page)
        return browser.execute_script(
            """const style = getComputedStyle(document.body), c = document.querySelector("canvas[data-view=data]");
            const p = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, found = new Set();
            for (let i = 0; i < p.length; i += 4) if (p[i + 3] === 255) found.add([p[i], p[i + 1], p[i + 2]].join());
            const image = getComputedStyle(document.querySelector("img"));
            return [style.backgroundColor, style.color, [...found], image.filter];"""
        )

    try:
        light, dark = look("light"), look("dark")
    finally:
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    assert light[0] == "rgb(255, 255, 255)"
    assert max(map(int, re.findall(r"\d+", dark[0]))) < 50
    assert min(map(int, re.findall(r"\d+", dark[1]))) > 200
    assert "0,114,178" in light[2]
    assert "0,114,178" not in dark[2]
    assert light[3] == "none"
    assert "invert" in dark[3]  # the text of the figures is dark


@pytest.fixture(scope="module")
def large_page(tmp_path_factory):
    """A report on forty clusters in thirty columns."""
    X, y = make_blobs(800, 30, centers=40, cluster_std=0.3, random_state=0)
    path = tmp_path_factory.mktemp("large") / "report.html"
    model = KNet(40, max_iter=1, tol=1.0, random_state=0, advanced=Advanced(steps_per_iter=5)).fit(X)
    model.report(X, path, target=y, n_refits=0)
    return path


def test_browser_forty_clusters_have_forty_symbols_and_all_numbers(browser, large_page):
    open_page(browser, large_page)
    symbols = browser.execute_script(
        "return [...document.querySelectorAll('.legend button[data-cluster] svg')].map(s => s.outerHTML)"
    )
    assert len(set(symbols)) == 40
    shapes = browser.execute_script(
        "return [...document.querySelectorAll('.legend button[data-cluster] svg')].map(s => s.innerHTML)"
    )
    assert [len(set(shapes[start : start + 8])) for start in range(0, 40, 8)] == [1] * 5
    assert browser.find_element("css selector", ".legend").size["height"] < 70  # one line


def test_browser_shows_that_a_wide_table_continues(browser, large_page, page):
    open_page(browser, large_page)
    box = "document.getElementById('profiles').closest('.box')"
    assert browser.execute_script(f"return {box}.className") == "box more"
    browser.execute_async_script(
        f"const area = {box}.querySelector('.scroll'); area.scrollLeft = 1e6; "
        "requestAnimationFrame(() => setTimeout(arguments[0], 50))"
    )
    assert browser.execute_script(f"return {box}.className") == "box less"
    name = browser.find_element("css selector", "#profiles tbody td")
    assert name.rect["x"] >= 0  # the first column stays in view
    open_page(browser, page)
    assert browser.execute_script("return document.getElementById('clusters').closest('.box').className") == "box"


def test_browser_fits_a_phone(browser, page):
    metrics = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        open_page(browser, page)
        open_details(browser)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
        left = browser.execute_script(
            "return [...document.querySelectorAll('canvas[data-view]')].map(c => c.getBoundingClientRect().left)"
        )
        assert left[0] == left[1]
        boxes = browser.execute_script(
            "return [...document.querySelectorAll('img')].map(i => [i.width, i.getBoundingClientRect().right])"
        )
        assert all(300 < width and right <= 390 for width, right in boxes)
        assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
    finally:
        browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_an_existing_file_is_replaced_only_if_asked(tmp_path):
    X, path = np.random.default_rng(0).normal(size=(40, 2)), tmp_path / "r.html"
    model = KNet(2, max_iter=1, random_state=0).fit(X)
    path.write_text("old")
    with pytest.raises(FileExistsError, match=r"exists already\. Use overwrite=True"):
        model.report(X, path, n_refits=0)
    assert path.read_text() == "old"
    model.report(X, path, n_refits=0, overwrite=True)
    assert path.read_text() != "old"


def test_columns_of_a_wide_table_are_not_confused_with_its_components(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=200)
    X = pd.DataFrame(rng.normal(size=(200, 100)) + 2 * y[:, None], columns=[f"v{j}" for j in range(100)])
    report(KNet(2, random_state=0).fit(X), X, tmp_path / "wide.html", n_refits=0)
    text = (tmp_path / "wide.html").read_text()
    assert "alone reproduces the clusters" not in text
    assert "principal components of 100 columns" in text
