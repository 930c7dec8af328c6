"""What a notebook shows of models and results: small tables in which all text is escaped."""

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.datasets import make_blobs

from knet import KNet, compare, load, scan

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def rows():
    X = make_blobs(120, 2, centers=[[0, 0], [8, 0], [0, 8]], random_state=0)[0]
    return pd.DataFrame(X, columns=[HOSTILE, "b&b"])


@pytest.fixture(scope="module")
def fitted(rows):
    return KNet(3, max_iter=1, random_state=0).fit(rows)


def html_of(model):
    return model._repr_mimebundle_()["text/html"]


def test_a_model_shows_the_diagram_and_once_it_is_fitted_its_clusters(fitted, tmp_path):
    assert "training rows" not in html_of(KNet(3))
    shown = html_of(fitted)
    assert "sk-top-container" in shown  # scikit-learn's diagram
    assert "<caption>Clusters of 120 training rows</caption>" in shown
    assert "<tr><td>2</td><td></td><td>40</td></tr>" in shown
    assert fitted.number_["advice"] in shown
    fitted.save(tmp_path / "m.safetensors")
    assert "<tr><td>2</td><td></td><td>40</td></tr>" in html_of(load(tmp_path / "m.safetensors"))
    with config_context(display="text"):
        assert "text/html" not in fitted._repr_mimebundle_()
        assert fitted._repr_mimebundle_()["text/plain"] == repr(fitted)


def test_names_are_escaped_and_sizes_of_edited_clusters_are_not_made_up(rows):
    model = KNet(3, max_iter=1, random_state=0).fit(rows).rename({0: HOSTILE})
    assert "&lt;script&gt;alert(1)&lt;/script&gt;</td><td>40</td>" in html_of(model)
    assert HOSTILE not in html_of(model)[html_of(model).index("Clusters of") :]
    merged = html_of(model.merge([0, 1]))
    assert "alert(1)&lt;/script&gt;</td><td>-</td>" in merged
    assert "<td>40</td>" not in merged


def test_results_show_escaped_tables(fitted, rows):
    other = np.where(rows["b&b"] > 4, HOSTILE, "rest")
    results = {
        "drift": fitted.drift(rows * 3),
        "comparison": compare(other, np.where(np.arange(len(rows)) < 30, "new", other), rows),
        "explanation": fitted.explain(rows, max_rows=20),
        "stability": fitted.stability(rows, n_refits=1),
        "scan": scan(rows, 3, random_state=0),
    }
    for name, result in results.items():
        shown = result._repr_html_()
        assert shown.count("<table>") == 1, name
        assert "<td>" in shown, name
        assert "<script" not in shown, name
    assert "&lt;script&gt;" in results["drift"]._repr_html_()
    assert "&lt;script&gt;" in results["comparison"]._repr_html_()
    assert "b&amp;b" in results["drift"]._repr_html_()


def test_a_comparison_shows_moves_and_changes():
    found = compare(["a"] * 4 + ["b"] * 4, ["a"] * 4 + ["b"] * 3 + ["a"])
    shown = found._repr_html_()
    assert "<td>b</td><td>a</td><td>1</td>" in shown
    assert shown.count("<li>") == len(found.changes) > 0
