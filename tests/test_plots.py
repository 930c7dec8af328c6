"""Plots: for two and for forty clusters, for every kind of table, on a bounded number of rows, without show()."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError

from knet import Advanced, KNet
from knet.explore import samples
from knet.model.predictor import Predictor

pytest.importorskip("matplotlib")
from matplotlib.figure import Figure

from knet.explore.features import Feature, importance
from knet.show import drawing, planes, plots
from knet.show.profiles import profiles

FUNCTIONS = [
    plots.data,
    plots.embedding,
    plots.raw_kernel,
    plots.learned_kernel,
    plots.history,
    plots.spectrum,
    plots.silhouettes,
    plots.profiles,
    plots.explanation,
]


def fitted(n_clusters, n_features=3, n_samples=400, **params):
    X, _ = make_blobs(n_samples, n_features, centers=n_clusters, cluster_std=0.3, random_state=0)
    params = {"max_iter": 2, "advanced": Advanced(steps_per_iter=20), "tol": 1.0, "random_state": 0, **params}
    return KNet(n_clusters, **params).fit(X), X


@pytest.fixture(scope="module", params=[2, 40], ids=["two clusters", "forty clusters"])
def case(request):
    return fitted(request.param)


@pytest.fixture
def ax():
    return Figure(layout="constrained").subplots()


def test_draws_on_the_axes_given(case):
    model, X = case
    for plot in FUNCTIONS:
        ax = Figure(layout="constrained").subplots()
        assert plot(model, X, ax) is ax, plot
        assert ax.get_title(loc="left"), plot
        ax.get_figure().canvas.draw()


def test_a_model_that_is_not_fitted_is_refused(tmp_path):
    for plot in (*FUNCTIONS, plots.figure1, plots.selection, plots.animation):
        X = tmp_path / "a.gif" if plot is plots.animation else np.zeros((5, 2))
        with pytest.raises(NotFittedError):
            plot(KNet(2), X)


def test_makes_its_own_axes_and_never_shows(case, monkeypatch):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    monkeypatch.setattr(pyplot, "show", lambda *a, **k: pytest.fail("show() was called"))
    ax = plots.embedding(*case)
    pyplot.close(ax.get_figure())


def test_forty_clusters_have_forty_looks():
    assert len({(plots.color(cluster), plots.marker(cluster)) for cluster in range(40)}) == 40


def test_figure1_has_the_four_panels(case):
    figure = plots.figure1(*case, title="Figure 1")
    titles = [ax.get_title(loc="left") for ax in figure.axes[:4]]
    assert titles == ["Data", "Kernel of the data", "Embedding", "Learned kernel"]


def test_kernel_is_white_at_zero_and_ordered_by_cluster(case, ax):
    model, X = case
    K = np.asarray(plots.learned_kernel(model, X, ax).images[0].get_array())
    assert drawing.WHITE_TO_BLUE(0.0)[:3] == (1, 1, 1)
    assert 0 <= K.min() <= K.max() <= 1
    labels = np.sort(samples.sample_rows(model, X, plots.MATRIX_ROWS).labels)
    same = labels[:, None] == labels
    assert K[same].mean() > K[~same].mean()


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame, lambda t: pa.table(pd.DataFrame(t))])
def test_takes_tables(kind):
    X, _ = make_blobs(300, 3, centers=2, random_state=0)
    columns = {name: X[:, j] for j, name in enumerate("abc")}
    model = KNet(2, max_iter=1, tol=1.0, advanced=Advanced(steps_per_iter=5), random_state=0).fit(kind(columns))
    drawn = samples.sample_rows(model, kind(columns), 50)
    np.testing.assert_allclose(drawn.X, X[drawn.rows])
    np.testing.assert_array_equal(drawn.labels, model.labels_[drawn.rows])


def test_large_data_is_sampled_and_the_size_is_printed(ax, monkeypatch):
    model, X = fitted(3)
    n_read, assign, embed = [], Predictor.assign, Predictor.embed
    monkeypatch.setattr(Predictor, "assign", lambda self, X: n_read.append(len(X)) or assign(self, X))
    monkeypatch.setattr(Predictor, "embed", lambda self, X: n_read.append(len(X)) or embed(self, X))
    plots.embedding(model, np.tile(X, (2500, 1)), ax)
    assert 0 < max(n_read) <= samples.POOL_ROWS
    assert any("of 1,000,000 rows" in text.get_text() for text in ax.texts)


def test_small_clusters_are_not_lost_in_a_sample():
    labels = np.r_[np.zeros(10_000, np.int64), np.ones(4, np.int64)]
    kept = samples._stratified(labels, 100, np.random.default_rng(0))
    assert (labels[kept] == 1).sum() == 3
    assert len(kept) <= 103


@pytest.mark.parametrize("n_features", [1, 2, 5])
def test_any_width_becomes_a_plane(n_features):
    points = np.random.default_rng(0).normal(size=(20, n_features))
    flat, note = planes.plane(points)
    assert flat.shape == (20, 2)
    assert bool(note) == (n_features != 2)


def test_plane_keeps_the_distances_of_flat_data():
    rng = np.random.default_rng(0)
    flat = rng.normal(size=(30, 2))
    turned = flat @ np.linalg.qr(rng.normal(size=(6, 2)))[0].T
    found, note = planes.plane(turned)
    np.testing.assert_allclose(np.linalg.norm(found[0] - found[1]), np.linalg.norm(flat[0] - flat[1]))
    assert "100%" in note


def test_one_cluster_is_drawn(ax):
    model, X = fitted(1)
    plots.silhouettes(model, X, ax)
    plots.history(model, X, Figure().subplots())


def test_names_with_dollars_are_printed_not_interpreted(ax):
    X = pd.DataFrame(make_blobs(100, 2, centers=2, random_state=0)[0], columns=["$\\frac$", "<b>" * 20])
    model = KNet(2, max_iter=1, tol=1.0, advanced=Advanced(steps_per_iter=5), random_state=0).fit(X)
    plots.profiles(model, X, ax).get_figure().canvas.draw()


def test_profiles_find_the_column_that_the_clusters_explain():
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 100)
    X = np.column_stack([rng.normal(size=200), labels * 5 + rng.normal(size=200), np.ones(200)])
    features = [Feature(name, "number", (j,)) for j, name in enumerate("abc")]
    shares = importance(X, labels, features)
    found = profiles(samples.Sample(np.arange(200), X, X, X, labels, 200), features, shares, 3)
    assert found[0].name == "b"
    assert found[2].explained == 0
    assert found[0].deviations[1] > 0.5 > -0.5 > found[0].deviations[0]
    assert found[2].deviations.tolist() == [0, 0]


def test_silhouettes_name_the_spaces():
    with pytest.raises(ValueError, match="'embedding' or 'data'"):
        plots.silhouettes(None, None, space="input")


def test_selection_draws_every_candidate_and_marks_the_chosen(ax):
    model, _ = fitted(2)
    model.selection_ = None
    with pytest.raises(ValueError, match="no record of the choice of its start"):
        plots.selection(model)
    model.selection_ = [
        {"method": "graph 10", "conductance": 0.2, "gain": 1.0, "score": 2.0, "chosen": True},
        {"method": "k-means", "conductance": 0.1, "gain": 0.5, "score": 1.0, "chosen": False},
        {"method": "genie 0.3", "conductance": 0.4, "gain": 0.1, "score": 0.5, "chosen": False},
    ]
    assert plots.selection(model, ax=ax) is ax
    ax.get_figure().canvas.draw()
    names, bars = [label.get_text() for label in ax.get_yticklabels()], ax.patches
    assert names == ["genie 0.3", "graph 10", "k-means"]  # the smallest conductance on top
    assert [bar.get_width() for bar in bars] == [0.4, 0.2, 0.1]
    assert bars[1].get_facecolor() != bars[0].get_facecolor() == bars[2].get_facecolor()
    assert "chosen: graph 10" in ax.get_title() + "".join(text.get_text() for text in ax.texts)


@pytest.mark.parametrize("suffix", ["gif", "webp"])
def test_animation_has_a_frame_per_iteration(tmp_path, suffix, ax):
    from PIL import Image

    model, X = fitted(2)
    for plot in (plots.iteration, lambda model: plots.animation(model, tmp_path / "none.gif")):
        with pytest.raises(ValueError, match="keep_embeddings=True"):
            plot(model)
    Psi = model.transform(X)
    model.embeddings_ = np.stack([Psi * scale for scale in (0.2, 0.5, 1.0)])
    path = tmp_path / f"frames.{suffix}"
    plots.animation(model, path, size=200)
    with Image.open(path) as image:
        assert image.n_frames == 3
    with pytest.raises(FileExistsError, match=r"exists already\. Use overwrite=True"):
        plots.animation(model, path, size=240)
    with Image.open(path) as image:
        assert image.size == (200, 200)
    plots.animation(model, path, size=240, overwrite=True)
    with Image.open(path) as image:
        assert image.size == (240, 240)
    model.best_iter_ = 1
    titles = [plots.iteration(model, ax=ax, number=number).get_title(loc="left") for number in range(3)]
    assert titles == ["Start", "The start is followed", "Iteration 1"]


def test_methods_with_dollars_are_printed_not_interpreted(ax):
    model, _ = fitted(2)
    model.selection_ = [{"method": "$\\frac$ $x", "conductance": 0.2, "chosen": True}]
    plots.selection(model, ax=ax).get_figure().canvas.draw()
    assert ax.get_yticklabels()[0].get_text() == "\\$\\frac\\$ \\$x"
