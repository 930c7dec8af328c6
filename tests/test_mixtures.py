"""Gaussian groups and mixtures, and the columns as the choice of a start sees them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score

from knet.start import mixtures
from knet.start.columns import FEW_VALUES, MAX_COLUMNS, comparable_columns, principal_components, spread_few_values
from knet.start.mixtures import (
    PRIOR_SHARE,
    Gaussians,
    Moments,
    Products,
    gaussian_mixture,
    overall_covariance,
    rounding_variance,
    split_groups,
)

TWO_PI = np.log(2 * np.pi)


def rows(rng, n=120, d=3):
    return rng.normal(size=(n, d)) @ rng.normal(size=(d, d)) + rng.normal(size=d)


def fit(X, weights, tied=False, rounding=None):
    """Return the Gaussians of weighted rows, computed group by group."""
    rounding = np.zeros(X.shape[1]) if rounding is None else rounding
    sizes = weights.sum(0) + 1e-10
    means = weights.T @ X / sizes[:, None]
    scatters = np.stack(
        [((X - mean) * own[:, None]).T @ (X - mean) for own, mean in zip(weights.T, means, strict=True)]
    )
    scatters = scatters.sum(0)[None] if tied else scatters
    return Gaussians.shrunken(sizes, means, scatters, overall_covariance(X, rounding), rounding)


def covariance(A):
    """Return S for A = L^-1 with S = L L'."""
    L = np.linalg.inv(A)
    return L @ L.T


# Gaussians


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("d", [1, 2, 6])
def test_log_joint_is_that_of_scipy(rng, tied, d):
    X, weights = rows(rng, d=d), rng.dirichlet(np.ones(3), 120)
    model, shares = fit(X, weights, tied), weights.mean(0)
    for group in range(3):
        own = covariance(model.inverses[0 if tied else group])
        expected = np.log(shares[group]) + multivariate_normal(model.means[group], own).logpdf(X)
        np.testing.assert_allclose(model.log_joint(X)[:, group] - d / 2 * TWO_PI, expected, rtol=1e-9)
    assert len(model.inverses) == (1 if tied else 3)
    np.testing.assert_allclose(model.means, weights.T @ X / weights.sum(0)[:, None])


@pytest.mark.parametrize("tied", [False, True])
def test_log_own_is_the_entry_of_the_own_group(rng, tied):
    X, labels = rows(rng), rng.integers(0, 4, 120)
    model = fit(X, np.eye(4)[labels], tied, rounding=np.full(3, 0.01))
    order, groups = split_groups(X, labels)
    np.testing.assert_allclose(model.log_own(groups), model.log_joint(X)[order, labels[order]])


@pytest.mark.parametrize("tied", [False, True])
def test_groups_give_the_gaussians_of_their_indicators(rng, tied):
    X, labels, rounding = rows(rng), rng.integers(0, 4, 120), np.full(3, 0.01)
    moments = Moments.of(split_groups(X, labels)[1])
    by_groups = Gaussians.of(moments, overall_covariance(X, rounding), rounding)[int(tied)]
    by_weights = fit(X, np.eye(4)[labels], tied, rounding=rounding)
    for name in ("means", "inverses", "constants"):
        np.testing.assert_allclose(getattr(by_groups, name), getattr(by_weights, name), rtol=1e-6, atol=1e-9)
    expected = by_groups.log_own(split_groups(X, labels)[1]).mean()
    assert by_groups.mean_log_own(moments) == pytest.approx(expected)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("d", [1, 2, 6])
def test_products_give_the_gaussians_and_probabilities_of_the_rows(rng, tied, d):
    X, weights = rows(rng, d=d), rng.dirichlet(np.ones(3), 120)
    by_products, expected = Products(X).gaussians(weights.T, tied=tied), fit(X, weights, tied, rounding_variance(X))
    for name in ("means", "inverses", "constants"):  # sums are in single precision
        np.testing.assert_allclose(getattr(by_products, name), getattr(expected, name), rtol=1e-5, atol=1e-5)
    P, likelihood = Products(X).probabilities(by_products)
    np.testing.assert_allclose(P.T, by_products.probabilities(X), atol=1e-5)
    assert likelihood == pytest.approx(logsumexp(by_products.log_joint(X), axis=1).mean(), abs=1e-5)


@pytest.mark.parametrize("tied", [False, True])
def test_single_precision_is_enough_for_columns_that_are_nearly_equal_and_groups_that_are_tight(rng, tied):
    y = np.repeat([0, 1, 2], 200)
    X = rng.normal(size=(600, 1)) * [1, 1, 0] + 1e-3 * rng.normal(size=(600, 3)) + 1e3
    X[:, 2] += y  # groups of width 0.001 at distance 1
    weights = 0.9 * np.eye(3)[y] + 0.1 / 3
    by_products, expected = Products(X).gaussians(weights.T, tied=tied), fit(X, weights, tied, rounding_variance(X))
    for model in (by_products, expected):
        np.testing.assert_allclose(Products(X).probabilities(model)[0].T, model.probabilities(X), atol=1e-3)
    np.testing.assert_allclose(by_products.log_joint(X), expected.log_joint(X), rtol=1e-3, atol=1e-3)


def test_covariances_are_shrunk_towards_a_share_of_the_overall_one(rng):
    X, labels = rows(rng), rng.integers(0, 2, 120)
    overall, d = overall_covariance(X, np.zeros(3)), 3
    model = fit(X, np.eye(2)[labels])
    for group in range(2):
        own, n = np.cov(X[labels == group].T, bias=True), (labels == group).sum()
        expected = (n * own + (d + 1) * PRIOR_SHARE * overall) / (n + d + 1)
        np.testing.assert_allclose(covariance(model.inverses[group]), expected, rtol=1e-6)
    tied = sum((labels == g).sum() * np.cov(X[labels == g].T, bias=True) for g in range(2))
    expected = (tied + (d + 1) * PRIOR_SHARE * overall) / (120 + d + 1)
    np.testing.assert_allclose(covariance(fit(X, np.eye(2)[labels], tied=True).inverses[0]), expected, rtol=1e-6)


@pytest.mark.parametrize("tied", [False, True])
def test_groups_without_spread_or_rows_have_finite_densities(rng, tied):
    X = rows(rng)
    X[:, 1] = 4.0  # constant
    X[:, 2] = X[:, 0]  # the same column twice
    labels = np.zeros(120, dtype=int)
    labels[0] = 1  # a group of one row, and an empty one
    model = fit(X, np.eye(3)[labels], tied)
    assert np.isfinite(model.log_joint(X)).all()
    assert not (model.log_joint(X).argmax(1) == 2).any()


def test_rounding_costs_the_mean_loss_over_the_hidden_values(rng):
    """A rounded value stands for a spread: its log density is the mean over that spread."""
    X, rounding = rows(rng, d=2), np.array([0.3, 0.0])
    model = fit(X, np.ones((120, 1)), rounding=rounding)
    S = covariance(model.inverses[0])
    nodes = np.array([-1, 1]) * np.sqrt(0.3)  # two points with the right variance: exact for quadratic functions
    spread = [multivariate_normal(model.means[0], S).logpdf(X + np.array([step, 0])) for step in nodes]
    np.testing.assert_allclose(model.log_joint(X)[:, 0] - TWO_PI, np.mean(spread, axis=0), rtol=1e-9)


# Expectation maximisation


def likelihoods(X, start, n_clusters, tied, monkeypatch):
    """Return the models of all iterations and the penalised log-likelihoods that maximisation must not lower."""
    models, original = [], Products.gaussians

    def recorded(*args, **options):
        models.append(original(*args, **options))
        return models[-1]

    monkeypatch.setattr(Products, "gaussians", recorded)
    monkeypatch.setattr(mixtures, "TOL", -np.inf)
    gaussian_mixture(Products(X), start, n_clusters, tied=tied)
    overall, d = overall_covariance(X, rounding_variance(X)), X.shape[1]
    values = []
    for model in models:
        prior = 0.0
        for A in model.inverses:  # of the inverse Wishart distribution whose mode the shrunken covariances are
            prior += (d + 1) * (np.log(A.diagonal()).sum() - PRIOR_SHARE / 2 * np.trace(A @ overall @ A.T))
        values.append(logsumexp(model.log_joint(X), axis=1).sum() + prior)
    return models, values


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("kind", ["normal", "heavy", "rounded"])
def test_maximisation_never_lowers_the_likelihood(rng, monkeypatch, tied, kind):
    X = {"normal": rows(rng), "heavy": rng.standard_t(2, size=(120, 3)), "rounded": np.round(rows(rng), 1)}[kind]
    models, values = likelihoods(X, rng.integers(0, 3, 120), 3, tied, monkeypatch)
    assert len(models) == mixtures.MAX_ITER
    assert np.diff(values).min() > -1e-5
    assert values[-1] > values[0]
    assert all(len(model.inverses) == (1 if tied else 3) for model in models)


@pytest.mark.parametrize("tied", [False, True])
def test_overlapping_groups_are_found_from_a_rough_start(seed, tied):
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1], 300)
    X = rng.normal(size=(600, 2)) * [6, 1] + y[:, None] * [0, 5]
    start = np.where(rng.uniform(size=600) < 0.25, 1 - y, y)  # a quarter is wrong
    found = gaussian_mixture(Products(X), start, 2, tied=tied)[1]
    assert adjusted_rand_score(y, found) > 0.93 > adjusted_rand_score(y, start)


def test_the_mixture_does_not_depend_on_the_order_of_rows(rng):
    X, start, order = rows(rng), rng.integers(0, 3, 120), rng.permutation(120)
    plain, labels = gaussian_mixture(Products(X), start, 3, tied=False)
    shuffled, moved = gaussian_mixture(Products(X[order]), start[order], 3, tied=False)
    np.testing.assert_allclose(plain.means, shuffled.means, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(labels[order], moved)


# Rounding


@settings(max_examples=50, deadline=None)
@given(st.integers(-3, 3), st.integers(0, 10**6))
def test_rounding_variance_is_that_of_a_uniform_step(power, seed):
    step = 10.0**power
    X = step * np.round(np.random.default_rng(seed).uniform(0, 20, size=(400, 1)))
    assert rounding_variance(X)[0] == pytest.approx(step**2 / 12)


def test_rounding_hides_nothing_in_constant_and_little_in_exact_columns(rng):
    X = np.column_stack([np.ones(500), rng.normal(size=500)])
    constant, exact = rounding_variance(X)
    assert constant == 0
    assert exact < 1e-4


def test_rounded_values_have_the_covariance_of_the_values_behind_them(rng):
    exact = rng.normal(size=(5000, 2))
    coarse = np.round(exact)
    assert np.var(coarse[:, 0]) - rounding_variance(coarse)[0] == pytest.approx(np.var(exact[:, 0]), rel=0.02)


def test_the_overall_covariance_is_positive_definite(rng):
    X = np.column_stack([rng.normal(size=50), np.ones(50)])
    S = overall_covariance(np.column_stack([X, X[:, 0]]), np.zeros(3))
    assert np.linalg.eigvalsh(S).min() > 0
    np.testing.assert_allclose(S, np.cov(np.column_stack([X, X[:, 0]]).T, bias=True), atol=1e-4)


# Columns


def standardized(X):
    return (X - X.mean(0)) / X.std(0)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, FEW_VALUES), st.integers(0, 10**6))
def test_few_values_are_spread_in_order_and_keep_mean_and_deviation(n_values, seed):
    rng = np.random.default_rng(seed)
    values = np.sort(rng.choice(100, n_values, replace=False))
    few = values[np.concatenate([np.arange(n_values), rng.integers(0, n_values, 100)])]
    X = standardized(np.column_stack([rng.normal(size=len(few)), few]))
    before = X.copy()
    out = spread_few_values(X, np.random.RandomState(seed))
    assert np.array_equal(X, before)
    np.testing.assert_array_equal(out[:, 0], X[:, 0])
    assert out[:, 1].mean() == pytest.approx(0, abs=1e-9)
    assert out[:, 1].std() == pytest.approx(X[:, 1].std())
    order = np.argsort(out[:, 1])
    assert (np.diff(few[order]) >= 0).all()
    assert len(np.unique(out[:, 1])) == len(few)


def test_the_gap_between_two_values_is_closed(rng):
    X = standardized(np.column_stack([rng.normal(size=1000), rng.integers(0, 2, 1000)]))
    out = np.sort(spread_few_values(X, np.random.RandomState(0))[:, 1])
    assert np.diff(out).max() < 0.05 < np.ptp(X[:, 1])


@pytest.mark.parametrize("kind", ["many only", "few only", "many and constant"])
def test_tables_of_one_kind_of_column_stay_as_they_are(rng, kind):
    many, few = rng.normal(size=(200, 2)), rng.integers(0, FEW_VALUES, (200, 3)).astype(float)
    X = {"many only": many, "few only": few, "many and constant": np.column_stack([many, np.ones(200)])}[kind]
    np.testing.assert_array_equal(spread_few_values(X, np.random.RandomState(0)), X)


def test_eleven_values_are_many(rng):
    X = np.column_stack([rng.normal(size=200), np.arange(200) % (FEW_VALUES + 1)])
    np.testing.assert_array_equal(spread_few_values(X, np.random.RandomState(0)), X)


def test_wide_tables_are_replaced_by_their_principal_components(rng):
    X = rng.normal(size=(150, 90)) * np.linspace(5, 1, 90)
    found = principal_components(X, np.random.RandomState(0))
    expected = PCA(MAX_COLUMNS).fit_transform(X)
    assert found.shape == (150, MAX_COLUMNS)
    np.testing.assert_allclose(np.sort(found.var(0)), np.sort(expected.var(0)))
    np.testing.assert_allclose(found @ found.T, expected @ expected.T, atol=1e-8)
    narrow = X[:, :MAX_COLUMNS]
    assert principal_components(narrow, np.random.RandomState(0)) is narrow


def test_both_steps_are_taken(rng):
    X = standardized(np.column_stack([rng.normal(size=(200, 80)), rng.integers(0, 2, 200)]))
    found = comparable_columns(X, np.random.RandomState(3))
    state = np.random.RandomState(3)
    np.testing.assert_allclose(found, principal_components(spread_few_values(X, state), state))
