"""Refits that keep the labels of clusters, groups of unfamiliar rows, and comparisons of clusterings."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine, make_blobs
from typer.testing import CliRunner

import knet
from knet import KNet
from knet.cli.app import app
from knet.explore.compare import UNFAMILIAR, compare_labels
from knet.explore.refit import unfamiliar_groups

pytestmark = pytest.mark.filterwarnings("ignore::knet.exceptions.KNetDataWarning")
CENTERS = [(0, 0), (9, 0), (0, 9)]


def blobs(n_rows=300, centers=CENTERS, seed=0):
    return make_blobs(n_rows, centers=centers, random_state=seed)[0]


def test_a_refit_on_the_same_rows_changes_nothing():
    X = load_wine().data
    model = KNet(3, max_iter=2, random_state=0).fit(X).rename({1: "light"})
    again = model.refit(X)
    assert (again.labels_ == model.labels_).mean() > 0.99
    assert again.names_ == {1: "light"}
    assert again.changes_.matches == {"0": "0", "light": "light", "2": "2"}


def test_few_new_rows_change_few_labels():
    changed, fresh_changed = [], []
    for seed in range(3):
        rng = np.random.RandomState(seed)
        X = np.vstack([rng.normal(size=(100, 3)) + 2.2 * k for k in range(3)])  # groups that overlap
        old = KNet(3, max_iter=2, random_state=seed).fit(X)
        more = np.vstack([X, rng.normal(size=(3, 3)) + 2.2])
        new = old.refit(more)
        changed.append((new.labels_[:300] != old.labels_).mean())
        fresh = KNet(3, max_iter=2, random_state=seed).fit(more)
        fresh_changed.append(compare_labels(old.labels_, fresh.labels_[:300]).share_moved)
    assert np.mean(changed) <= 0.01
    assert np.mean(changed) <= np.mean(fresh_changed) + 0.001


def test_new_clusters_get_new_labels_and_old_labels_are_never_used_again():
    X = blobs()
    model = KNet("auto", max_iter=2, random_state=0).fit(X)
    names = {0: "a", 1: "b", 2: "c"}
    model.rename(names)
    here = {name: X[model.labels_ == label].mean(0) for label, name in names.items()}
    grown = np.vstack([X, blobs(100, [(9, 9)], 1)])
    second = model.refit(grown)
    assert second.n_clusters_ == 4
    assert set(second.labels_) == {0, 1, 2, 3}
    assert (second.labels_[:300] == model.labels_).all()
    assert any("appeared: rows that were unfamiliar" in text for text in second.changes_.changes)
    left = grown[second.labels_ != 1]
    third = second.refit(left)
    assert set(third.labels_) == {0, 2, 3}
    assert third.changes_.changes[-1] == "Cluster b vanished: none of the rows belongs to it."
    assert third.names_ == {0: "a", 2: "c"}
    assert (third.predict([here["a"], here["c"], (9, 9)]) == [0, 2, 3]).all()
    assert third.predict_proba(left).shape == (len(left), 4)
    fourth = third.refit(np.vstack([left, blobs(100, [(-9, -9)], 2)]))
    assert set(fourth.labels_) == {0, 2, 3, 4}  # not 1 again


def test_a_refitted_model_is_saved_with_its_labels(tmp_path):
    X = blobs()
    model = KNet("auto", max_iter=2, random_state=0).fit(X)
    part = model.refit(X[model.labels_ != 0])
    assert set(part.labels_) == {1, 2}
    part.save(tmp_path / "m.safetensors")
    again = knet.load(tmp_path / "m.safetensors")
    assert (again.predict(X) == part.predict(X)).all()
    assert set(again.refit(X).labels_) == {1, 2, 3}


def test_unfamiliar_rows_that_form_groups_are_found():
    X = blobs()
    model = KNet(3, max_iter=2, random_state=0).fit(X)
    assert unfamiliar_groups(model, blobs(seed=5)) == []
    outliers = np.random.RandomState(0).uniform(-60, 60, size=(15, 2))
    assert unfamiliar_groups(model, np.vstack([X, outliers])) == []
    first, second = unfamiliar_groups(model, np.vstack([X, blobs(60, [(30, 30)], 1), blobs(30, [(-30, 9)], 2)]))
    assert set(first.rows) == set(range(300, 360))
    assert len(second.rows) == 30
    assert np.abs(first.center - 30).max() < 1


def test_changes_are_told_in_words():
    before = ["a"] * 60 + ["b"] * 40 + ["c"] * 40 + ["d"] * 30 + ["e"] * 20
    after = [0] * 40 + [1] * 20 + [2] * 80 + [3] * 27 + [2] * 3 + [4] * 20
    found = compare_labels(before, after)
    assert found.changes == [
        "Cluster a (60 rows) split into 0 (40 rows) and 1 (20 rows).",
        "Clusters b (40 rows) and c (40 rows) merged into 2 (83 rows).",
        "Cluster d stayed as 3: 27 of 30 rows, and 0 others.",
        "Cluster e stayed as 4: 20 of 20 rows, and 0 others.",
    ]
    assert found.matches["a"] == "0"
    assert {(move.before, move.after): move.n_rows for move in found.moves}["d", "2"] == 3
    assert len(found.moved_rows) == found.n_rows - sum(
        found.counts[found.before.index(old), found.after.index(new)] for old, new in found.matches.items()
    )
    assert found.low <= found.agreement <= found.high
    gone = compare_labels(["a"] * 10 + ["b"] * 10 + [UNFAMILIAR] * 5, [0] * 8 + [1] * 2 + [0] * 6 + [1] * 4 + [2] * 5)
    assert any(text.startswith("Cluster 2 (5 rows) appeared: rows that were unfamiliar") for text in gone.changes)
    same = compare_labels(before, before)
    assert same.agreement == same.low == same.high == 1.0
    assert same.share_moved == 0


def test_reasons_name_the_columns_that_separate_movers():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(200, 4))
    after = np.where(X[:, 2] > 0.5, 1, 0)
    found = knet.compare(np.zeros(200, int), after, X)
    (move,) = found.moves
    assert move.reasons[0].startswith("2 higher")
    json.dumps(found.to_dict())
    with pytest.raises(ValueError, match="A model needs rows"):
        knet.compare(KNet(2, max_iter=1, random_state=0).fit(X), after)
    with pytest.raises(ValueError, match="same rows"):
        knet.compare(after, [0, 1, 2])


def test_two_models_are_compared_by_their_labels_of_the_same_rows(tmp_path):
    X = blobs()
    first, second = (KNet(c, max_iter=2, random_state=0).fit(X) for c in (3, 2))
    second.save(tmp_path / "m.safetensors")
    for other in (second, tmp_path / "m.safetensors"):
        found = knet.compare(first, other, X)
        assert found.counts.sum() == 300
        assert any("merged into" in text for text in found.changes)


def test_the_commands_refit_and_compare_every_month(tmp_path):
    X = blobs(150)
    months = [X, np.vstack([X, blobs(60, [(9, 9)], 1)])]
    for month, rows in zip(("january", "february"), months, strict=True):
        pd.DataFrame({"id": np.arange(len(rows)), "a": rows[:, 0], "b": rows[:, 1]}).to_csv(
            tmp_path / f"{month}.csv", index=False
        )
    path = {name: str(tmp_path / name) for name in ("january.csv", "february.csv", "1.safetensors", "2.safetensors")}

    def run(*words):
        done = CliRunner().invoke(app, [str(word) for word in words])
        assert done.exit_code == 0, done.output
        return done

    run("fit", path["january.csv"], "--id-col", "id", "-o", path["1.safetensors"], "--n-refits", "0")
    labels, page = tmp_path / "labels.csv", tmp_path / "changes.html"
    words = [path["1.safetensors"], path["february.csv"], "-o", path["2.safetensors"]]
    done = run("refit", *words, "--labels", labels, "--report", page, "--json")
    summary = json.loads(done.stdout)
    assert summary["n_clusters"] == 4
    assert summary["moved"] == 0
    assert any("appeared" in text for text in summary["changes"])
    assert sorted(pd.read_csv(labels)["label"].unique()) == [0, 1, 2, 3]
    text = page.read_text(encoding="utf-8")
    assert "<svg" in text
    assert "appeared" in text
    done = run(
        "compare", path["1.safetensors"], path["2.safetensors"], path["february.csv"], "-o", tmp_path / "moves.csv"
    )
    assert "split into" in done.stdout
    assert pd.read_csv(tmp_path / "moves.csv")["rows"].sum() == 210
    table = pd.read_csv(path["february.csv"]).assign(old="x", new=["y"] * 100 + ["z"] * 110)
    table.to_csv(tmp_path / "labels2.csv", index=False)
    done = run("compare", "old", "new", tmp_path / "labels2.csv", "--json")
    assert json.loads(done.stdout)["matches"] == {"x": "z"}
