"""Known labels and pairs: kept exactly, useful for other rows, and refused with a reason if they contradict."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_wine, make_blobs
from typer.testing import CliRunner

from knet import KNet
from knet.cli.app import app
from knet.metrics import ari
from knet.start.evidence import read_evidence
from knet.start.settle import settle

pytestmark = pytest.mark.filterwarnings("ignore::knet.exceptions.KNetDataWarning")


def some_labels(y, n_per_class, seed):
    """Return the labels of a few rows of each class, and -1 for the others."""
    known, rng = np.full(len(y), -1), np.random.RandomState(seed)
    for label in np.unique(y):
        known[rng.permutation(np.flatnonzero(y == label))[:n_per_class]] = label
    return known


def overlapping(seed):
    """Return three long groups whose largest gap is not between the classes, and the classes."""
    rng = np.random.RandomState(seed)
    X = np.vstack([rng.normal(size=(120, 3)) * (4, 1, 1) + (0, 3.2 * k, 0) for k in range(3)])
    return X, np.repeat([0, 1, 2], 120)


def test_known_labels_are_kept_and_help_the_other_rows():
    gains = []
    for seed in range(3):
        X, y = overlapping(seed)
        known = some_labels(y, 6, seed)
        model = KNet(3, random_state=seed).fit(X, known=known)
        without = KNet(3, random_state=seed).fit(X)
        labelled = known >= 0
        assert (model.labels_[labelled] == known[labelled]).all()
        predicted = model.predict(X)
        assert model.contradicted_.tolist() == np.flatnonzero(predicted != model.labels_).tolist()
        assert set(model.contradicted_) <= set(np.flatnonzero(labelled))
        gains.append(ari(y[~labelled], model.labels_[~labelled]) - ari(y[~labelled], without.labels_[~labelled]))
    assert np.mean(gains) > 0.03


def test_labels_choose_among_groupings_that_structure_alone_cannot_tell_apart():
    rng = np.random.RandomState(0)
    X = np.array([(i, j) for i in (0, 6) for j in (0, 6)])[rng.randint(4, size=400)] + rng.normal(size=(400, 2))
    for column in range(2):  # four blobs in a square: both halvings are equally good
        y = (X[:, column] > 3).astype(int)
        model = KNet(2, random_state=0).fit(X, known=some_labels(y, 5, column))
        assert ari(y, model.labels_) > 0.95


def test_names_become_the_names_of_clusters_and_other_clusters_are_still_found():
    X, y = make_blobs(300, centers=[(0, 0), (8, 0), (0, 8)], random_state=3)
    names = np.array(["small", "large", "other"], dtype=object)[y]
    names[some_labels(y, 4, 0) < 0] = None
    names[y == 2] = None
    for n_clusters in (3, "auto"):
        model = KNet(n_clusters, random_state=0).fit(X, known=names)
        assert model.names_ == {0: "large", 1: "small"}
        assert (model.labels_[names == "large"] == 0).all()
        assert (model.labels_[names == "small"] == 1).all()
        assert model.n_clusters_ == 3
        assert ari(y, model.labels_) > 0.99


def test_several_groups_of_the_same_known_label_are_one_cluster_if_the_number_is_free():
    X, y = make_blobs(400, centers=[(0, 0), (9, 0), (0, 9), (9, 9)], random_state=1)
    classes = y // 2
    model = KNet("auto", random_state=0).fit(X, known=some_labels(classes, 30, 1))
    assert model.n_clusters_ == 2
    assert ari(classes, model.labels_) > 0.99


def test_pairs_are_kept_exactly():
    X, y = load_wine(return_X_y=True)
    for seed in range(2):
        rng = np.random.RandomState(seed)
        pairs = rng.randint(len(y), size=(60, 2))
        pairs = pairs[pairs[:, 0] != pairs[:, 1]]
        same = y[pairs[:, 0]] == y[pairs[:, 1]]
        wrong = [[0, 70], [70, 150]]  # three cultivars in one set, against the structure
        labels = KNet(4, random_state=0).fit(X, must_link=[*pairs[same], *wrong]).labels_
        assert (labels[pairs[same, 0]] == labels[pairs[same, 1]]).all()
        assert labels[0] == labels[70] == labels[150]
        labels = KNet(3, random_state=0).fit(X, must_link=pairs[same], cannot_link=pairs[~same]).labels_
        assert (labels[pairs[same, 0]] == labels[pairs[same, 1]]).all()
        assert (labels[pairs[~same, 0]] != labels[pairs[~same, 1]]).all()


def test_sets_are_the_closure_of_pairs_and_labels():
    rng = np.random.RandomState(0)
    for _ in range(20):
        groups = rng.randint(6, size=40)
        known = np.where(rng.uniform(size=40) < 0.3, groups, -1)
        pairs = rng.randint(40, size=(30, 2))
        same = groups[pairs[:, 0]] == groups[pairs[:, 1]]
        evidence = read_evidence(known, pairs[same], pairs[~same], 40, 6)
        sets = evidence.sets
        assert (sets[pairs[same, 0]] == sets[pairs[same, 1]]).all()
        assert (evidence.row_labels[known >= 0] == known[known >= 0]).all()
        for number in range(sets.max() + 1):
            assert len(set(groups[sets == number])) == 1
        settled = settle(evidence, rng.uniform(size=(len(evidence.labels), 6)))
        labels = settled[sets]
        assert (labels[known >= 0] == known[known >= 0]).all()
        assert (labels[pairs[~same, 0]] != labels[pairs[~same, 1]]).all()


def test_many_pairs_are_settled():
    rng = np.random.RandomState(0)
    groups = rng.randint(5, size=20_000)
    pairs = rng.randint(20_000, size=(10_000, 2))
    same = groups[pairs[:, 0]] == groups[pairs[:, 1]]
    evidence = read_evidence(None, pairs[same], pairs[~same], 20_000, 5)
    affinity = np.full((len(evidence.labels), 5), 0.1)
    affinity[np.arange(len(affinity)), [groups[evidence.sets == 0][0]] * len(affinity)] += 0.5  # all prefer one label
    labels = settle(evidence, affinity)[evidence.sets]
    assert (labels[pairs[~same, 0]] != labels[pairs[~same, 1]]).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"known": [0, 1]}, r"one label per row, shape \(30,\). Got shape \(2,\)"),
        ({"known": [5.5] * 4 + [(1,)] + [None] * 25}, "whole numbers or texts"),
        ({"known": ["a", "b", "c", *[None] * 27]}, "3 different labels, more than n_clusters=2. Raise n_clusters"),
        ({"must_link": [[0, 30]]}, r"row numbers from 0 to 29. Got \[0, 30\] as pair 0"),
        ({"must_link": [[0.5, 1]]}, "pairs of row numbers"),
        ({"cannot_link": [[3, 3]]}, "cannot_link puts rows 3 and 3 apart"),
        ({"must_link": [[0, 1], [1, 2]], "cannot_link": [[0, 2]]}, "rows 0 and 2 apart, .* together: 0, 1 and 2"),
        ({"known": [0, 0, *[-1] * 28], "cannot_link": [[0, 1]]}, "known gives both the label 0"),
        (
            {"known": [0, -1, 1, *[-1] * 27], "must_link": [[0, 1], [1, 2]]},
            "rows 2, 1 and 0 together, but known gives rows 2 and 0 different labels",
        ),
        ({"cannot_link": [[0, 1], [1, 2], [2, 0]]}, "every two of the rows 0, 1, 2 apart, which needs 3 clusters"),
    ],
)
def test_contradictions_are_named(arguments, message):
    X = np.random.RandomState(0).normal(size=(30, 2))
    with pytest.raises(ValueError, match=message):
        KNet(2, random_state=0).fit(X, **arguments)


def test_evidence_needs_the_start_that_uses_it():
    X = np.random.RandomState(0).normal(size=(30, 2))
    with pytest.raises(ValueError, match="need sigma='auto'"):
        KNet(2, sigma="median", random_state=0).fit(X, known=[0, 1, *[-1] * 28])


def test_weights_and_known_labels_work_together():
    X, y = make_blobs(90, centers=[(0, 0), (8, 0), (0, 8)], random_state=3)
    known = some_labels(y, 2, 0)
    weights = np.where(np.arange(90) % 2 == 0, 2, 1)
    model = KNet(3, random_state=0).fit(X, sample_weight=weights, known=known)
    assert (model.labels_[known >= 0] == known[known >= 0]).all()
    assert ari(y, model.labels_) == 1.0


def test_the_command_keeps_known_labels_and_pairs(tmp_path):
    X, y = make_blobs(120, centers=[(0, 0), (5, 0), (0, 5)], random_state=3)
    known = some_labels(y, 4, 0)
    table = pd.DataFrame({"id": [f"r{i}" for i in range(120)], "a": X[:, 0], "b": X[:, 1]})
    table["kind"] = np.where(known < 0, None, np.array(["ant", "bee", "cow"], dtype=object)[y])
    table.to_csv(tmp_path / "data.csv", index=False)
    pairs = pd.DataFrame({"first": ["r0", "r1"], "second": ["r5", "r7"]})
    pairs.to_csv(tmp_path / "together.csv", index=False)
    options = ["--id-col", "id", "--known", "kind", "--must-link", str(tmp_path / "together.csv"), "--json", "-f"]
    outputs = ["--labels", str(tmp_path / "labels.csv"), "--n-refits", "0", "-c", "3"]
    done = CliRunner().invoke(app, ["fit", str(tmp_path / "data.csv"), *options, *outputs])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["names"] == {"0": "ant", "1": "bee", "2": "cow"}
    labels = pd.read_csv(tmp_path / "labels.csv")["label"]
    assert (labels[known >= 0] == known[known >= 0]).all()
    assert labels[0] == labels[5]
    assert labels[1] == labels[7]
    pairs.assign(second=["r5", "nobody"]).to_csv(tmp_path / "together.csv", index=False)
    done = CliRunner().invoke(app, ["fit", str(tmp_path / "data.csv"), *options, *outputs])
    assert done.exit_code == 2
    assert "has the id 'nobody', which names no row of the table" in done.stderr
