"""The report: one offline file, safe to open for any column names, tested in a real browser if there is one."""

import hashlib
import json
import re
import shutil
from importlib.resources import files
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError

from knet import Advanced, KNet, load
from knet.exceptions import KNetDataWarning
from knet.explore.features import Feature
from knet.explore.samples import Sample
from knet.model.predictor import Predictor
from knet.show import findings, reproduce, tables
from knet.show.charts import line_chart, quantized, silhouette_chart
from knet.show.page import _hash, report
from knet.show.palette import COLORS

HOSTILE = "<script>document.title='owned'</script>"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
CHROMEDRIVER = shutil.which("chromedriver")


def fitted(n_clusters=3, n_rows=300, **params):
    X, y = make_blobs(n_rows, 4, centers=max(n_clusters, 1), cluster_std=0.4, random_state=0)
    X = pd.DataFrame(X, columns=[HOSTILE, "\"quoted' & co", "{{ 7 * 7 }}", "</script><img src=x onerror=alert(1)>"])
    params = {"max_iter": 3, "advanced": Advanced(steps_per_iter=30), "tol": 1e-3, "random_state": 0, **params}
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
    assert re.findall(r'(?:src|href)="([^"]*)"', text) == ["data:,"]


def test_nothing_from_the_data_becomes_markup(page):
    text = page.read_text(encoding="utf-8")
    assert HOSTILE not in text
    assert "<img" not in text
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
        "Spectrum",
        "Candidates for the start",
        "Silhouettes",
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
    model, n_hashed, sha256 = quick(2).fit(X), [], reproduce.hashlib.sha256

    def counted(content):
        n_hashed.append(len(content))
        return sha256(content)

    monkeypatch.setattr(reproduce.hashlib, "sha256", counted)
    CountedTable.converted.clear()
    report(model, CountedTable(X), tmp_path / "r.html", n_refits=0)
    assert sorted(set(CountedTable.converted)) == [10_000, 50_000]
    assert max(n_hashed) <= max(10_000 * 2 * 8, 100_000)  # the page's script and style are hashed as well


@pytest.mark.filterwarnings("ignore:Stopped after")
@pytest.mark.parametrize("n_rows", [300, 20_001])
def test_fingerprint_can_be_recomputed_by_hand(n_rows):
    X = make_blobs(n_rows, 3, centers=2, random_state=0)[0]
    model = quick(2).fit(X)
    rows = np.linspace(0, n_rows - 1, min(n_rows, 10_000)).astype(int)
    expected = hashlib.sha256(X[rows].tobytes()).hexdigest()
    tables = (X, X.tolist(), pd.DataFrame(X), torch.from_numpy(X), np.asfortranarray(X))
    for table in tables:
        assert reproduce.fingerprint(model, table).endswith(expected)
    X[-1] += 1
    assert not reproduce.fingerprint(model, X).endswith(expected)


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
        (model.labels_[:-1], "one integer for each of the 300 rows"),
        (model.labels_ / 2, "one integer for each of the 300 rows"),
        (model.labels_ + 1, "between 0 and 2"),
    ]:
        with pytest.raises(ValueError, match=message):
            report(model, X, tmp_path / "r.html", labels=labels, n_refits=0)


@pytest.mark.parametrize(("kept", "note"), [(0, "the start was kept as it is"), (1, "iteration 1 was kept")])
def test_the_charts_of_training_mark_the_kept_iteration_and_the_stop(kept, note):
    model, _, _ = fitted(tol=0.0)
    model.best_iter_ = kept
    objective, change = findings._training_charts(model)
    assert note in objective.note
    assert objective.marks == [objective.series[0].dots[kept - 1][0]] * (kept > 0)
    assert change.marks == objective.marks
    assert change.levels == [change.bottom]  # tol = 0
    assert "or if the clusters no longer agree with the start" in change.note
    assert note in findings._training_note(model)
    model.history_ = model.history_[:1]
    assert findings._training_charts(model) == []


def test_the_chart_of_the_candidates_names_the_chosen():
    rows = [
        {"method": "graph 10", "conductance": 0.2, "gain": 1.0, "score": 2.0, "chosen": True},
        {"method": "k-means", "conductance": 0.1, "gain": 0.5, "score": 1.0, "chosen": False},
        {"method": "genie 0.3", "conductance": 0.4, "gain": 0.1, "score": 0.5, "chosen": False},
    ]
    chart = findings._selection_chart(rows)
    assert "the start comes from 'graph 10'" in chart.note
    assert [(bar.name, bar.chosen) for bar in chart.bars] == [
        ("k-means", False),
        ("graph 10", True),
        ("genie 0.3", False),
    ]
    assert chart.bars[1].width == 2 * chart.bars[0].width == chart.bars[2].width / 2
    assert findings._selection_chart(None) is None


def test_a_model_that_is_not_fitted_is_refused(tmp_path):
    with pytest.raises(NotFittedError):
        report(KNet(2), np.zeros((5, 2)), tmp_path / "r.html")
    assert not (tmp_path / "r.html").exists()


def test_charts_fit_their_box():
    chart = line_chart("t", [("a", [1, 2, 3], [0.0, 5.0, 2.0]), ("b", [1], [1.0])], x_label="x", mark=2)
    for series in chart.series:
        for x, y in series.dots:
            assert chart.left <= x <= chart.right
            assert chart.top <= y <= chart.bottom
    assert [tick.text for tick in chart.y_ticks] == ["0", "2", "4"]
    values, labels = np.array([0.5, -0.2, 0.9]), np.array([0, 0, 1])
    drawn = silhouette_chart("s", values, labels)
    assert [group.cluster for group in drawn.groups] == [0, 1]
    middles = [group.middle for group in silhouette_chart("s", np.full(400, 0.5), np.arange(400) // 10).groups]
    assert np.diff(middles).min() >= 13  # room for every number, also for 40 clusters
    short = quantized(np.array([[0.0, 0.0], [2.0, 1.0]]))
    assert short[:, 0].tolist() == [0, 65535]
    assert short[1, 1] - short[0, 1] in (32767, 32768)
    assert quantized(np.ones((2, 2))).tolist() == [[32768, 32768]] * 2


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
    columns = [{"name": name, "kind": "number"} for name in ("age", "income")]
    columns += [{"name": "region", "kind": "category", "levels": ["east", "north", "west"]}]
    columns += [{"name": "member", "kind": "flag"}, {"name": "born", "kind": "date"}]
    model.extra_ = {"table": {"columns": columns}}
    return model, X


@pytest.mark.filterwarnings("ignore:Stopped after")
def test_profiles_are_in_the_units_of_the_table(tmp_path):
    model, X = table_with_categories()
    found = findings.collect(
        model,
        X,
        target=None,
        ids=None,
        source="s",
        command=None,
        labels=None,
        stability=None,
        n_refits=0,
        random_state=0,
    )
    lines = {profile.name: profile for profile in found.profiles}
    assert found.n_columns == 5
    assert [cell.text for cell in lines["region = east"].cells] == [
        tables.percent(X["region=east"][model.labels_ == cluster].mean()) for cluster in range(3)
    ]
    assert [float(cell.text) for cell in lines["age"].cells] == [
        X["age"][model.labels_ == cluster].median() for cluster in range(3)
    ]
    assert lines["born"].cells[0].text.startswith("2019-")
    assert {cell.level for cell in lines["member = yes"].cells} == {0}  # it explains nothing
    assert max(abs(cell.level) for cell in lines["age"].cells) >= 2
    assert found.typical[0].cells[found.row_columns.index("region")] in ("east", "north", "west")
    assert all(row.covers == "100%" for row in found.clusters)


def doubted(proba, scores=None):
    """Return the rows that the report doubts, by their probabilities or their scores."""
    n = len(proba)
    rows = Sample(np.arange(n), np.zeros((n, 1)), np.zeros((n, 1)), np.zeros((n, 1)), proba.argmax(1), n)
    names = tables.RowNames(rows, [Feature("x", "number", (0,))], np.ones(1), None)
    found = tables.uncertain_rows(names, proba) if scores is None else tables.unfamiliar_rows(names, scores)
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
    names = tables.RowNames(rows, [Feature("x", "number", (0,))], np.ones(1), None)
    assert [int(row.row) for row in tables.typical_rows(names, scores)] == [0, 2, 5, 3]


def test_shares_are_written_briefly():
    shares = {1 / 3: "33%", 0.021: "2.1%", 0.0004: "<0.1%", 0.0: "0%", 1.0: "100%", float("nan"): "-"}
    assert [tables.percent(share) for share in shares] == list(shares.values())


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


def test_few_rows_are_not_called_stable(tmp_path):
    X = np.array([[0.0, 1.0], [0.0, 2.0], [9.0, 9.0]])
    KNet(2, random_state=0).fit(X).report(X, tmp_path / "r.html")
    text = (tmp_path / "r.html").read_text()
    assert "They are stable" not in text
    assert "too few rows to say how stable" in text


def test_the_style_has_the_colours_of_the_plots():
    style = (files("knet.report") / "page.css").read_text()
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
    assert browser.execute_script("return document.querySelectorAll('img, i').length") == 0
    for selector in ("canvas[data-view=data]", "canvas[data-view=embedding]", "canvas[data-iterations]"):
        assert colors_of(browser, selector)[0] > 100
    assert colors_of(browser, "canvas[data-kernel=learned]")[0] > 100


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


def test_browser_zoom_and_iterations(browser, page):
    open_page(browser, page)
    browser.find_element("css selector", "button[data-zoom-by='1.5']").click()
    canvas = browser.find_element("css selector", "canvas[data-view=data]")
    assert canvas.get_attribute("data-zoom") == "1.50"
    open_details(browser)
    assert browser.find_element("id", "iteration-name").text == "Iteration 1"
    browser.find_element("id", "play").click()
    assert browser.find_element("id", "iteration-name").text in ("Start", "Iteration 1")


def open_details(browser):
    browser.execute_script("document.querySelectorAll('details').forEach(part => { part.open = true; })")


def test_browser_opens_diagnostics_on_request_and_draws_them(browser, page):
    from selenium.webdriver.common.keys import Keys

    open_page(browser, page)
    kernel = browser.find_element("css selector", "canvas[data-kernel=learned]")
    assert not kernel.is_displayed()
    browser.find_element("css selector", "#diagnostics summary").send_keys(Keys.ENTER)
    assert kernel.is_displayed()
    browser.execute_async_script("requestAnimationFrame(() => setTimeout(arguments[0], 50))")
    assert colors_of(browser, "canvas[data-iterations]")[0] > 100
    for name in ("training", "selection", "reproduce"):
        part = browser.find_element("id", name)
        assert part.get_attribute("textContent").strip()
    assert browser.execute_script("return document.querySelectorAll('#selection .chosen').length") == 1
    width = "return getComputedStyle(document.querySelector('.chart .mark')).strokeWidth"
    assert browser.execute_script(width) == "1px"


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


def test_browser_follows_the_dark_scheme(browser, page):
    def look(scheme):
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        open_page(browser, page)
        return browser.execute_script(
            """const style = getComputedStyle(document.body), c = document.querySelector("canvas[data-view=data]");
            const p = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, found = new Set();
            for (let i = 0; i < p.length; i += 4) if (p[i + 3] === 255) found.add([p[i], p[i + 1], p[i + 2]].join());
            return [style.backgroundColor, style.color, [...found]];"""
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
    open_details(browser)
    numbers = browser.execute_script(
        "return [...document.querySelectorAll('g[data-cluster] text')].map(t => t.textContent)"
    )
    assert numbers == [str(cluster) for cluster in range(40)] * 2
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


def test_a_model_file_of_version_1_has_a_report(tmp_path):
    model = load(Path(__file__).parent / "data" / "model_v1.safetensors")
    X = make_blobs(60, model.n_features_in_, centers=2, random_state=0)[0]
    if hasattr(model, "feature_names_in_"):
        X = pd.DataFrame(X, columns=model.feature_names_in_)
    report(model, X, tmp_path / "old.html", n_refits=0)
    assert "Candidates for the start" in (tmp_path / "old.html").read_text()
