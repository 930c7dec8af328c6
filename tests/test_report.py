"""The report: one offline file, safe to open for any column names, tested in a real browser if there is one."""

import hashlib
import json
import re
import shutil
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError

from knet import Advanced, KNet
from knet.predictor import Predictor
from knet.report import findings, reproduce
from knet.report.charts import line_chart, quantized, silhouette_chart
from knet.report.page import _hash, report

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


def test_all_sections_and_facts_are_present(page):
    text = page.read_text(encoding="utf-8")
    for section in (
        "Before and after",
        "Kernel matrix",
        "after each iteration",
        "Spectrum",
        "Candidates for the start",
        "Silhouettes",
    ):
        assert section in text
    for section in ("Profiles of the clusters", "Typical rows", "Least certain rows", "Agreement", "How to reproduce"):
        assert section in text
    assert "3 clusters" in text
    assert "refit on other rows" in text
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
    assert "x1 (" in text
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
def test_the_chart_of_the_objective_names_the_kept_iteration(kept, note):
    model, _, _ = fitted(tol=0.0)
    model.best_iter_ = kept
    objective, change = findings._training_charts(model)
    assert note in objective.note
    assert objective.marks == [objective.series[0].dots[kept - 1][0]] * (kept > 0)
    assert change.marks == []


def test_the_chart_of_the_candidates_marks_the_chosen():
    rows = [
        {"method": "graph 10", "conductance": 0.2, "gain": 1.0, "score": 2.0, "chosen": True},
        {"method": "k-means", "conductance": 0.1, "gain": 0.5, "score": 1.0, "chosen": False},
        {"method": "genie 0.3", "conductance": 0.4, "gain": 0.1, "score": 0.5, "chosen": False},
    ]
    chart = findings._selection_chart(rows)
    assert "the start comes from 'graph 10'" in chart.note
    assert chart.marks == [chart.series[0].dots[1][0]]  # second in the order of conductance


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
    short = quantized(np.array([[0.0, 0.0], [2.0, 1.0]]))
    assert short[:, 0].tolist() == [0, 65535]
    assert short[1, 1] - short[0, 1] in (32767, 32768)
    assert quantized(np.ones((2, 2))).tolist() == [[32768, 32768]] * 2


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
    assert re.match(r"row <i>\d+</i>, cluster \d, certainty", tip.text)
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
    assert browser.find_element("id", "iteration-name").text == "iteration 1"
    browser.find_element("id", "play").click()
    assert browser.find_element("id", "iteration-name").text in ("start", "iteration 1")


def test_browser_fits_a_phone(browser, page):
    metrics = {"width": 390, "height": 844, "deviceScaleFactor": 2, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    try:
        open_page(browser, page)
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
