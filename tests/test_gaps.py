"""Missing values: filled for the encoder alone, never shown as data, and labels of such rows are less certain."""

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.datasets import load_wine
from sklearn.impute import SimpleImputer

from knet import Advanced, KNet, load, load_light
from knet.explore.features import MISSING, Feature
from knet.explore.rules import find_rules
from knet.explore.samples import sample_rows
from knet.metrics import ari
from knet.prepare.gaps import learn_gaps
from knet.prepare.scaling import Scaling, learn_scaling
from knet.show.profiles import profiles


def with_gaps(X, share, seed=0):
    X = X.copy()
    X[np.random.default_rng(seed).random(X.shape) < share] = np.nan
    return X


@pytest.fixture(scope="module")
def wine():
    return load_wine(return_X_y=True)


@pytest.fixture(scope="module")
def fitted(wine):
    X = with_gaps(wine[0], 0.3)
    X[7] = np.nan
    with pytest.warns(UserWarning, match="1 row holds no value"):
        return KNet(3, random_state=0).fit(X), X


def test_a_missing_cell_gets_its_expected_value(rng):
    mixing = rng.normal(size=(5, 5))
    X = rng.normal(size=(3000, 5)) @ mixing
    scaling = Scaling.linear(np.zeros(5), np.ones(5))
    covariance = np.cov(X.T)
    for share in (0.0, 0.2):
        gaps = learn_gaps(with_gaps(X, share), scaling)
        row = X[:1].copy()
        row[0, [1, 3]] = np.nan
        known = [0, 2, 4]
        weights = np.linalg.solve(covariance[np.ix_(known, known)], covariance[np.ix_(known, [1, 3])])
        expected = X[0, known] @ weights
        np.testing.assert_allclose(gaps.fill(row)[0, [1, 3]], expected, atol=0.25 * X.std())
        np.testing.assert_array_equal(gaps.fill(row)[0, known], X[0, known])
        np.testing.assert_allclose(gaps.fill(np.full((1, 5), np.nan))[0], X.mean(0), atol=0.25)


def test_scaling_uses_the_values_that_are_present(rng):
    X = np.column_stack([rng.normal(5, 3, 400), rng.lognormal(0, 2, 400)])
    G = with_gaps(X, 0.4)
    Z = learn_scaling(G, "auto")(G)
    np.testing.assert_array_equal(np.isnan(Z), np.isnan(G))
    np.testing.assert_allclose(np.nanmean(Z, 0), 0, atol=1e-9)
    np.testing.assert_allclose(np.nanstd(Z, 0), 1, atol=1e-9)


def test_clusters_are_found_better_than_with_medians(wine):
    X, y = wine
    own, medians = [], []
    for seed in range(3):
        G = with_gaps(X, 0.3, seed)
        own.append(ari(y, KNet(3, random_state=seed).fit(G).labels_))
        filled = SimpleImputer(strategy="median").fit_transform(G)
        medians.append(ari(y, KNet(3, random_state=seed).fit(filled).labels_))
    assert np.mean(own) > np.mean(medians) + 0.05
    assert np.mean(own) > 0.7


def test_rows_without_values_have_no_label_and_no_certainty(fitted, wine):
    model, X = fitted
    assert model.labels_[7] == -1
    assert (np.delete(model.labels_, 7) >= 0).all()
    assert 7 not in model.train_indices_
    np.testing.assert_array_equal(model.predict(X), model.labels_)
    np.testing.assert_allclose(model.predict_proba(X)[7], 1 / 3)
    complete = KNet(3, random_state=0).fit(wine[0])  # it has never seen a gap
    row = wine[0][:1].copy()
    certain = [complete.predict_proba(row).max()]
    for j in range(12):
        row[0, j] = np.nan
        certain.append(complete.predict_proba(row).max())
    assert certain[0] > 0.9
    assert certain[-1] < 0.6
    assert complete.predict(np.full((1, 13), np.nan)) == [-1]


def test_files_and_precisions_treat_gaps_as_the_model_does(fitted, tmp_path):
    model, X = fitted
    model.save(tmp_path / "m.safetensors")
    for other in (load(tmp_path / "m.safetensors"), load_light(tmp_path / "m.safetensors")):
        np.testing.assert_array_equal(other.predict_proba(X), model.predict_proba(X))
        np.testing.assert_array_equal(other.predict(X, reject=0.05), model.predict(X, reject=0.05))
    assert (model.predict(X.astype(np.float32)) == model.labels_).mean() > 0.99


def test_wide_tables_have_gaps_too(rng):
    centers = rng.normal(size=(3, 90)) * 2
    y = rng.integers(3, size=300)
    X = with_gaps(centers[y] + rng.normal(size=(300, 90)), 0.3)
    model = KNet(3, random_state=0).fit(X)
    assert model.predictor_.preparation.projection is not None
    assert ari(y, model.labels_) > 0.95


def test_a_gap_satisfies_no_condition(rng):
    """A third of the rows have no value in the column that tells the clusters apart."""
    labels = np.repeat([0, 1], 200)
    X = np.column_stack([labels * 10 + rng.uniform(0, 4, 400), rng.normal(size=400)])
    X[::3, 0] = np.nan
    rules = find_rules(X, labels, [Feature("a", "number", (0,)), Feature("b", "number", (1,))])
    for rule in rules:
        assert len(rule.conditions) == 1
        np.testing.assert_array_equal(rule.holds(X), (labels == rule.cluster) & ~np.isnan(X[:, 0]))
        assert rule.covers == rule.holds(X)[labels == rule.cluster].mean()
        assert rule.purity == 1


def test_figures_are_those_of_the_values_that_are_present(fitted):
    model, X = fitted
    rows = sample_rows(model, X, 1000)
    assert len(rows.rows) == len(X) - 1  # without the row that has no value
    features = [Feature(f"x{j}", "number", (j,)) for j in range(13)]
    for place, line in enumerate(profiles(rows, features, np.arange(13, 0, -1.0), 13)):
        known = rows.X[:, place][~np.isnan(rows.X[:, place])]
        assert line.missing == pytest.approx(1 - len(known) / len(rows.X))
        assert line.overall == features[place].middle(float(np.median(known)))
        own = [rows.X[rows.labels == cluster, place] for cluster in range(3)]
        assert line.texts == [features[place].middle(float(np.nanmedian(values))) for values in own]
    assert features[0].cell(np.full(13, np.nan)) == MISSING


def test_a_column_that_is_mostly_missing_is_named(rng):
    X = rng.normal(size=(200, 3))
    X[:120, 1] = np.nan
    model = KNet(2, random_state=0)
    with pytest.warns(UserWarning, match=r"Most cells are missing in 1 \(60%\)"):
        model.fit(X)
    assert any("Most cells" in text for text in model.caveats_)


def test_a_column_counts_as_often_as_its_weight_says(rng):
    groups, other = np.repeat([0, 1], 150), rng.permutation(np.repeat([0, 1], 150))
    X = np.column_stack([groups * 4 + rng.normal(size=300), other * 4 + rng.normal(size=300)])
    for weights, wanted in (((9.0, 1.0), groups), ((1.0, 9.0), other)):
        model = KNet(2, random_state=0, advanced=Advanced(column_weights=weights)).fit(X)
        assert ari(wanted, model.labels_) > 0.85
    twice = Advanced(column_weights=(2.0, 1.0))
    A, B = (
        KNet(2, random_state=0, advanced=advanced).fit(rows).predictor_.preparation(rows)
        for rows, advanced in ((X, twice), (X[:, [0, 0, 1]], None))
    )
    np.testing.assert_allclose(pdist(A), pdist(B))
    with pytest.raises(ValueError, match="one number for each of the 2 columns"):
        KNet(2, advanced=Advanced(column_weights=(1.0,))).fit(X)
    with pytest.raises(ValueError, match="'column_weights' parameter of Advanced must be None or a tuple of positive"):
        KNet(2, advanced=Advanced(column_weights=(1.0, 0.0))).fit(X)
