"""What users of scikit-learn and of notebooks expect: a score, visible progress, any kind of random state."""

import io
import logging
import pydoc
import subprocess
import sys

import numpy as np
import pytest
from sklearn.datasets import load_wine, make_blobs, make_circles
from sklearn.model_selection import GridSearchCV, KFold

import knet
import knet.metrics
from knet import Advanced, KNet
from knet.datasets import make_moon
from knet.progress import IterationReporter, ProgressLine
from knet.start.number import value_of
from tests.estimators import wrong_rows_change

ROW = {"iteration": 1, "hsic": 1.5, "reconstruction": 0.0, "u_change": 0.25, "seconds": 0.125}


def blobs(centers=3, n=150, seed=0):
    return make_blobs(n, 3, centers=centers, cluster_std=0.3, center_box=(-4, 4), random_state=seed)


# The score


@pytest.mark.filterwarnings("ignore::knet.exceptions.KNetDataWarning")
def test_a_grid_search_needs_no_scoring_and_finds_the_number_of_clusters():
    folds = KFold(2, shuffle=True, random_state=0)
    for X in (blobs(seed=1)[0], make_moon(300, random_state=0)[0], load_wine().data):
        expected = knet.scan(X, 5, random_state=0).best
        search = GridSearchCV(KNet(max_iter=3, random_state=0), {"n_clusters": [2, 3, 4]}, cv=folds).fit(X)
        assert search.best_params_ == {"n_clusters": expected}
        assert np.ptp(search.cv_results_["mean_test_score"]) > 0.1


@pytest.mark.filterwarnings("ignore::knet.exceptions.KNetDataWarning")
def test_the_score_prefers_the_number_that_scan_finds_in_wine():
    X = load_wine().data
    scores = {c: KNet(c, max_iter=3, random_state=0).fit(X).score(X) for c in (2, 3, 4)}
    assert max(scores, key=scores.get) == knet.scan(X, 5, random_state=0).best == 3


def value(X, labels):
    return value_of(X, labels, np.random.RandomState(0))


@pytest.mark.parametrize("seed", range(3))
def test_the_score_is_highest_for_the_true_groups_of_any_shape(seed):
    X, y = make_circles(300, noise=0.03, factor=0.4, random_state=seed)
    divided = np.where(X[:, 0] > 0, y, y + 2)
    by_side = (X[:, 0] > 0).astype(np.int64)
    assert value(X, y) > max(value(X, divided), value(X, by_side)) + 1
    X, y = blobs(4, seed=seed + 20)
    merged = np.minimum(y, 2)
    assert value(X, y) > value(X, merged)
    noise = np.random.default_rng(seed).uniform(size=(300, 2))
    for n_groups in (2, 5, 10):
        assert value(noise, (noise[:, 0] * n_groups).astype(np.int64)) < 1


def test_the_score_of_a_single_cluster_is_zero():
    X = np.arange(12.0).reshape(6, 2)
    assert value(X, np.zeros(6, np.int64)) == 0
    assert np.isfinite(value(X, np.arange(6)))
    assert np.isfinite(value(X[:3], np.array([0, 0, 1])))


def test_the_score_of_many_rows_uses_a_fixed_sample():
    X = blobs(n=5000)[0]
    model = KNet(3, max_iter=1, random_state=0).fit(X)
    assert model.score(X) == model.score(X, y=None) > 0.5


# Progress


def test_verbose_shows_iterations_without_any_setup_of_logging():
    script = (
        "from knet import KNet; from sklearn.datasets import make_blobs\n"
        "KNet(2, max_iter=2, verbose=1, random_state=0).fit(make_blobs(60, random_state=0)[0])"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert result.stdout == ""
    assert result.stderr.startswith("iteration 1: HSIC")
    logged = "import logging; logging.basicConfig(level=logging.INFO)\n" + script
    lines = subprocess.run([sys.executable, "-c", logged], capture_output=True, text=True, timeout=120).stderr
    assert lines.count("iteration 1:") == 1
    assert lines.startswith("INFO:knet:iteration 1")


def test_a_line_has_a_reconstruction_only_if_there_is_one(caplog):
    with caplog.at_level(logging.INFO, logger="knet"):
        report = IterationReporter(1)
        report(ROW)
        report(ROW | {"reconstruction": 0.75})
    assert caplog.messages == [
        "iteration 1: HSIC 1.5000, change of K_U 0.2500, 0.12 s",
        "iteration 1: HSIC 1.5000, reconstruction 0.7500, change of K_U 0.2500, 0.12 s",
    ]


def test_a_model_with_a_decoder_reports_its_reconstruction(caplog):
    with caplog.at_level(logging.INFO, logger="knet"):
        KNet(2, max_iter=1, verbose=1, random_state=0, advanced=Advanced(reconstruction_weight=1.0)).fit(blobs()[0])
    assert "reconstruction" in caplog.text


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("verbose", [1, True])
@pytest.mark.parametrize("stop", [None, KeyboardInterrupt])
def test_on_a_terminal_a_line_is_rewritten_and_removed_at_the_end(monkeypatch, verbose, stop):
    def interrupt(row):
        if stop is not None:
            raise stop

    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    try:
        with wrong_rows_change(-1):
            KNet(2, max_iter=2, tol=0.0, verbose=verbose, random_state=0, callback=interrupt).fit(blobs(2)[0])
    except KeyboardInterrupt:
        assert stop is not None
    lines = stream.getvalue().split("\r")
    assert [line.split(":")[0] for line in lines[1:-1]] == ["iteration 1", "iteration 2"][: 1 if stop else 2]
    assert all(line.endswith("\033[K") for line in lines[1:])
    assert lines[-1] == "\033[K"
    assert "\n" not in stream.getvalue()


class Full(io.StringIO):
    def write(self, text):
        raise OSError(28, "No space left on device")


@pytest.mark.parametrize("stream", [None, Full()])
def test_progress_that_cannot_be_printed_does_not_end_a_fit(monkeypatch, stream):
    monkeypatch.setattr(sys, "stderr", stream)
    with ProgressLine() as line:
        line.show("10 rows")
    assert KNet(2, max_iter=1, verbose=1, random_state=0).fit(blobs(2)[0]).n_iter_ == 1


# Random states


def test_a_generator_is_a_random_state():
    X = blobs()[0]
    first, second = (KNet(3, max_iter=2, random_state=np.random.default_rng(5)).fit(X) for _ in range(2))
    np.testing.assert_array_equal(first.transform(X), second.transform(X))
    generator = np.random.default_rng(5)
    model = KNet(3, max_iter=2, random_state=generator).fit(X)
    np.testing.assert_array_equal(model.transform(X), first.transform(X))
    assert not np.array_equal(model.fit(X).transform(X), first.transform(X))  # a generator moves on, like a RandomState
    assert model.recluster(X).shape == (len(X),)


def test_help_is_readable():
    for public in (knet.KNet, knet.LightModel, knet.Labeler, knet.scan, knet.load, knet.load_light, knet.metrics.nmi):
        text = pydoc.render_doc(public, renderer=pydoc.plaintext)
        assert "numpy._typing" not in text, public
        assert "ndarray[tuple" not in text, public
