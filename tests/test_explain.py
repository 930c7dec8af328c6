"""What makes each cluster: rules that are true as printed, and contributions that add up."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.datasets import load_iris, load_wine, make_blobs
from sklearn.exceptions import NotFittedError

from knet import Advanced, KNet
from knet.explore.explain import Explanation, _contributions
from knet.explore.features import Feature, describe_columns, importance
from knet.explore.rules import MAX_CONDITIONS, find_rules


def numbers(n_columns, kind="number"):
    return [Feature(f"x{j}", kind, (j,)) for j in range(n_columns)]


def quick(n_clusters, X):
    return KNet(n_clusters, max_iter=1, tol=1.0, advanced=Advanced(steps_per_iter=5), random_state=0).fit(X)


@pytest.fixture(scope="module")
def wine():
    X = load_wine(as_frame=True).data
    return KNet(3, random_state=0).fit(X), X


def test_rules_of_wine_are_short_and_describe_most_of_each_cluster(wine):
    model, X = wine
    found = model.explain(X)
    assert [rule.cluster for rule in found.rules] == [0, 1, 2]
    for rule in found.rules:
        assert 1 <= len(rule.conditions) <= MAX_CONDITIONS
        assert rule.covers > 0.85
        assert rule.purity > 0.85
        assert rule.n_rows == (model.labels_ == rule.cluster).sum()


def test_a_rule_is_true_as_it_is_printed(wine):
    model, X = wine
    for rule in model.explain(X).rules:
        query = rule.text.replace("od280/od315_of_diluted_wines", "`od280/od315_of_diluted_wines`")
        satisfied = X.eval(query).to_numpy()
        own = model.labels_ == rule.cluster
        np.testing.assert_array_equal(satisfied, rule.holds(X.to_numpy()))
        assert rule.covers == pytest.approx(satisfied[own].mean())
        assert rule.purity == pytest.approx(own[satisfied].mean())


def test_an_obvious_threshold_is_found_and_rounded(rng):
    labels = np.repeat([0, 1], 100)
    X = np.column_stack([rng.normal(size=200), labels * 10 + rng.uniform(0, 4, 200)])
    rules = find_rules(X, labels, numbers(2))
    assert [len(rule.conditions) for rule in rules] == [1, 1]
    assert [rule.covers for rule in rules] == [rule.purity for rule in rules] == [1, 1]
    threshold = rules[0].conditions[0].threshold
    assert 3 < threshold < 11
    assert rules[0].text == f"x1 <= {threshold:g}"
    assert rules[1].text == f"x1 > {threshold:g}"
    assert len(f"{threshold:g}") <= 2


def test_a_cluster_in_the_middle_of_a_column_gets_an_interval(rng):
    X = rng.uniform(0, 100, (600, 1))
    labels = ((X[:, 0] > 40) & (X[:, 0] <= 60)).astype(int)
    rule = find_rules(X, labels, numbers(1))[1]
    assert rule.text == "40 < x0 <= 60"
    assert rule.covers == pytest.approx(1, abs=0.02)


def test_whole_numbers_have_whole_thresholds(rng):
    X = rng.integers(18, 90, (500, 1)).astype(float)
    rules = find_rules(X, (X[:, 0] > 41).astype(int), numbers(1, "whole"))
    assert [rule.text for rule in rules] == ["x0 <= 41", "x0 > 41"]


@pytest.mark.parametrize("low_and_high", [(750, 760), (0.1234567, 0.1234568), (-3.2, -3.1), (1e9, 1e9 + 1), (0, 5e-9)])
def test_a_short_number_between_two_values(low_and_high):
    low, high = low_and_high
    for kind in ("number", "date"):
        threshold = Feature("x", kind, (0,)).between(low, high)
        assert low <= threshold < high
    text = Feature("x", "number", (0,)).value(Feature("x", "number", (0,)).between(low, high))
    assert low <= float(text) < high


def test_categories_flags_and_dates_are_written_as_in_the_table():
    two, three = Feature("smoker", "category", (0, 1), ("no", "yes")), Feature("c", "category", (2, 3, 4), tuple("abc"))
    assert two.condition(1, above=True, threshold=0.5) == "smoker = yes"
    assert two.condition(1, above=False, threshold=0.5) == "smoker = no"
    assert three.condition(3, above=True, threshold=0.5) == "c = b"
    assert three.condition(3, above=False, threshold=0.5) == "c != b"
    assert Feature("member", "flag", (0,)).condition(0, above=True, threshold=0.5) == "member = yes"
    assert Feature("code", "binary", (0,)).condition(0, above=False, threshold=0.5) == "code = 0"
    assert Feature("day", "date", (0,)).condition(0, above=True, threshold=18_993.0) == "day > 2022-01-01"
    assert Feature("day", "date", (0,)).condition(0, above=True, threshold=18_993.5) == "day > 2022-01-01 12:00"


def test_columns_of_a_table_are_known_by_its_recipe_or_by_their_names():
    rng = np.random.default_rng(0)
    color = rng.integers(3, size=60)
    X = pd.DataFrame({"size": rng.normal(size=60), "age": rng.integers(9, size=60)})
    X = X.assign(**{f"color={name}": (color == code) * 1.0 for code, name in enumerate("abc")}, day=18_000.0)
    model = quick(2, X)
    guessed = describe_columns(model, X.to_numpy())
    assert [(feature.name, feature.kind, feature.places) for feature in guessed] == [
        ("size", "number", (0,)),
        ("age", "whole", (1,)),
        ("color", "category", (2, 3, 4)),
        ("day", "whole", (5,)),
    ]
    columns = [{"name": "size", "kind": "number"}, {"name": "age", "kind": "number"}]
    columns += [{"name": "color", "kind": "category", "levels": ["a", "b", "c"]}, {"name": "day", "kind": "date"}]
    model.extra_ = {"table": {"columns": columns}}
    stored = describe_columns(model, X.to_numpy())
    assert stored[:3] == guessed[:3]
    assert stored[3].kind == "date"
    levels = [*columns[:2], {"name": "color", "kind": "category", "levels": 3}, columns[3]]
    lists = (columns[:2], [*columns, *columns], levels, [1, 2], [*columns[:3], {"name": "day", "kind": "soup"}], "abc")
    for damaged in ({}, [1], *({"columns": damaged} for damaged in lists)):
        model.extra_ = {"table": damaged}
        assert describe_columns(model, X.to_numpy()) == guessed


def test_contributions_add_up_and_name_the_column_that_matters(rng):
    X = rng.normal(size=(80, 4))

    def memberships(rows):
        first = 1 / (1 + np.exp(-4 * rows[:, 2]))
        return np.column_stack([1 - first, first])

    labels = (X[:, 2] > 0).astype(int)
    features = [
        Feature("a", "number", (0,)),
        Feature("b", "category", (1, 3), ("u", "v")),
        Feature("c", "number", (2,)),
    ]
    found = _contributions(memberships, X, labels, X, features, rng)
    assert found.shape == (80, 3)
    np.testing.assert_allclose(found[:, :2], 0, atol=1e-12)
    own, typical = memberships(X)[np.arange(80), labels], memberships(X).mean(0)[labels]
    np.testing.assert_allclose(found.sum(1), own - typical, atol=0.3)  # a mean over 50 random rows
    assert abs((found.sum(1) - (own - typical)).mean()) < 0.05


def test_explanation_is_data_text_and_a_table(wine):
    model, X = wine
    found, again = model.explain(X, max_rows=50), model.explain(X, max_rows=50)
    assert isinstance(found, Explanation)
    assert found.contributions.shape == (len(found.rows), 13)
    assert len(found.rows) <= 51
    np.testing.assert_array_equal(found.labels, model.labels_[found.rows])
    np.testing.assert_array_equal(found.contributions, again.contributions)
    assert found.columns == list(X.columns)
    frame = found.to_frame()
    assert list(frame.columns) == ["cluster", "n_rows", "rule", "covers", "purity"]
    assert frame["rule"].tolist() == [rule.text for rule in found.rules]
    assert found.rules[0].text in repr(found)
    assert "&gt;" in found._repr_html_() or "&lt;" in found._repr_html_()


def test_importance_of_categories_is_that_of_their_table_column():
    labels = np.repeat([0, 1], 50)
    X = np.column_stack([labels, 1 - labels, np.tile([0, 1], 50)]).astype(float)
    features = [Feature("own", "category", (0, 1), ("a", "b")), Feature("other", "binary", (2,))]
    np.testing.assert_allclose(importance(X, labels, features), [1, 0], atol=1e-12)


def test_one_cluster_and_clusters_without_rows():
    X = make_blobs(40, 2, centers=1, random_state=0)[0]
    found = quick(1, X).explain(X)
    assert [(rule.text, rule.covers, rule.purity) for rule in found.rules] == [("all rows", 1, 1)]
    model = quick(2, np.vstack([X, X + 20]))
    assert len(model.explain(X).rules) == 1


def test_many_columns_are_explained_in_bounded_work(monkeypatch):
    X = make_blobs(300, 120, centers=2, random_state=0)[0]
    model = quick(2, X)
    monkeypatch.setattr("knet.explore.explain.MAX_PREDICTIONS", 20_000)
    found = model.explain(X)
    assert found.contributions.shape[1] == 120
    assert 100 <= len(found.rows) < 120


def test_equal_rows_and_constant_columns_have_rules():
    X = np.column_stack([np.repeat([1.0, 2.0], 30), np.ones(60)])
    found = quick(2, X).explain(X)
    assert all(np.isfinite(rule.covers) for rule in found.rules)
    assert found.importance[1] == 0


def test_a_model_that_is_not_fitted_is_refused():
    with pytest.raises(NotFittedError):
        KNet(2).explain(np.zeros((5, 2)))


def test_rules_repeat_for_every_kind_of_table():
    X = load_iris(as_frame=True).data
    model = KNet(3, random_state=0).fit(X)
    assert repr(model.explain(X)) == repr(model.explain(pl.from_pandas(X))) == repr(model.explain(pa.table(X)))


def test_rows_without_a_direction_belong_to_all_clusters_equally():
    rng = np.random.default_rng(0)
    X = np.eye(6)[rng.integers(6, size=120)] * rng.integers(1, 5, size=(120, 1))  # mixtures of two rows may be zero
    model = KNet(3, metric="cosine", max_iter=1, tol=1.0, advanced=Advanced(steps_per_iter=5), random_state=0).fit(X)
    assert np.isfinite(model.explain(X, max_rows=20).contributions).all()
