"""Rows that are unlike the training rows are noticed; ordinary new rows and single rows are not."""

import json
import re
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import random_array
from scipy.stats import betabinom
from sklearn.datasets import load_wine, make_blobs
from sklearn.model_selection import train_test_split
from typer.testing import CliRunner

from knet import KNet, load, load_light
from knet.cli.app import app
from knet.exceptions import KNetDataWarning
from knet.model.reference import RARE, Reference, chance_of
from knet.rows.dense import dense_rows

NAMES = ("height", "width", "mass")


def quick(**params):
    return KNet(3, max_iter=1, random_state=0, **params)


def table(seed=0, n_rows=300):
    X, _ = make_blobs(n_rows, 3, centers=3, random_state=seed)
    return pd.DataFrame(X * [1, 10, 100] + [0, 0, 5000], columns=NAMES)


@pytest.fixture(scope="module")
def model():
    return quick().fit(table())


def test_the_chance_is_that_of_a_beta_binomial_count():
    for n_tails in (1, 2):
        for n_training in (50, 700):
            a = RARE * (n_training - 1) + n_tails
            for count, n_rows in ((1, 1), (3, 40), (12, 12), (100, 1000)):
                expected = betabinom.sf(count - 1, n_rows, a, n_training + 1 - a)
                assert chance_of(count, n_rows, n_training, n_tails) == pytest.approx(expected, rel=1e-6)
    assert chance_of(0, 10, 100) == 1


def test_ordinary_new_rows_and_single_rows_are_silent(model):
    wine = load_wine().data
    with warnings.catch_warnings():
        warnings.simplefilter("error", KNetDataWarning)
        for seed in range(4):
            trained, new = train_test_split(wine, test_size=0.5, random_state=seed)
            fitted = quick().fit(trained)
            fitted.predict(new)
            assert not fitted.drift(new).is_foreign
        model.predict(table()[:1] * 1000)  # strange, and alone


def test_other_units_are_noticed_and_named(model, tmp_path):
    foreign = table().assign(mass=lambda frame: frame.mass / 1000)
    expected = r"100% of the rows are unlike the training rows .*'mass' \(mean .*in training .*mostly "
    with pytest.warns(KNetDataWarning, match=expected) as caught:
        labels = model.predict(foreign)
    model.save(tmp_path / "m.safetensors")
    light = load_light(tmp_path / "m.safetensors")
    with pytest.warns(KNetDataWarning, match=re.escape(str(caught[0].message))):
        assert np.array_equal(light.predict(foreign), labels)
    for other in (load(tmp_path / "m.safetensors"), light, model):
        found = other.drift(foreign)
        assert found.is_foreign
        assert found.table()[0]["column"] == "mass"
        shift = (foreign.mass.mean() - table().mass.mean()) / table().mass.std(ddof=0)
        assert found.column_shift[2] == pytest.approx(shift)
        assert not other.drift(table()).is_foreign
        assert other.drift(table()).size_shift == 0


def test_one_foreign_column_of_many_is_noticed():
    rng = np.random.default_rng(0)
    X = np.column_stack([make_blobs(600, 3, centers=3, random_state=1)[0], rng.exponential(size=(600, 40))])
    fitted, other = quick().fit(X[:300]), X[300:].copy()
    assert not fitted.drift(other).is_foreign
    other[:, 7] += 100
    found = fitted.drift(other)
    assert found.is_foreign
    assert [line["column"] for line in found.table() if line["unusual"] > 0.1] == ["x7"]


def test_a_column_that_lost_its_spread_is_named(model):
    found = model.drift(table().assign(width=lambda frame: frame.width.mean()))
    assert found.is_foreign
    assert "'width' (mean" in found.advice


def test_a_few_strange_rows_among_many_are_no_drift(model):
    rows = table()
    rows.iloc[:15] *= 100
    found = model.drift(rows)
    assert found.unfamiliar >= 0.05
    assert not found.is_foreign


def test_the_reference_describes_any_finite_columns():
    X = np.array([[1e300, 5.0, np.nan, np.nan], [-1e300, 5.0, 2.0, np.nan], [1e300, 5.0, 4.0, np.nan]])
    found = Reference.of(X, np.array([0, 0, 1]), 3)
    assert all(np.isfinite(values).all() for values in found.arrays().values())
    assert found.cluster_sizes.tolist() == [2, 1, 0]
    assert found.column_means.tolist()[1:3] == [5, 3]
    assert found.column_deviations.tolist()[1] == 1  # of a constant column


def test_wide_sparse_rows_are_looked_at_in_bounded_memory(monkeypatch):
    X = random_array((300, 50), density=0.2, rng=np.random.default_rng(0)).tocsr()
    seen = []
    monkeypatch.setattr("knet.model.reference.MAX_VALUES", 50 * 120)
    monkeypatch.setattr("knet.model.drift.dense_rows", lambda rows: seen.append(rows.shape[0]) or dense_rows(rows))
    model = quick().fit(X)
    assert model.predictor_.reference.n_rows == 120
    model.predict(X)
    assert max(seen) == 120


def test_the_commands_say_it(tmp_path):
    table().to_csv(tmp_path / "rows.csv", index=False)
    table().assign(mass=lambda frame: frame.mass / 1000).to_csv(tmp_path / "units.csv", index=False)
    run = CliRunner().invoke
    names = [str(tmp_path / name) for name in ("m.safetensors", "rows.csv", "units.csv", "out.csv")]
    model, rows, units, out = names
    assert run(app, ["fit", rows, "-c", "3", "-o", model, "--n-refits", "0"]).exit_code == 0
    assert "unlike" not in run(app, ["predict", model, rows, "-o", out]).stderr
    said = run(app, ["predict", model, units, "-o", out, "--force"]).stderr
    assert "warning: 100% of the rows are unlike the training rows" in said
    assert "'mass' (mean" in said
    same, other = (json.loads(run(app, ["drift", model, name, "--json"]).stdout) for name in (rows, units))
    assert (same["is_foreign"], other["is_foreign"]) == (False, True)
    assert other["columns"][0]["column"] == "mass"
    assert other["columns"][0]["unusual"] == 1
    lines = run(app, ["drift", model, units]).stdout.splitlines()
    assert lines[0] == "column,unusual,shift,mean,training_mean,training_low,training_high"
    assert lines[1].startswith("mass,1,")
