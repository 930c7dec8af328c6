"""Labelling rows: single precision where the rows are, the same on any number of threads, files in constant memory."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest
import torch
from torch import nn

from knet.datasets import make_moon
from knet.model.encoder import RowMLP
from knet.model.landmarks import distant_rows, landmarks
from tests.estimators import make_knet

QUICK = {"sigma": "median", "n_init": 1, "max_iter": 2, "steps_per_iter": 20, "tol": 0.0, "random_state": 0}


@pytest.fixture(scope="module")
def rows():
    return make_moon(5000, random_state=0)[0]


@pytest.fixture(scope="module", params=[np.float32, np.float64])
def model(request, rows):
    with pytest.warns(match="max_iter"):
        return make_knet(2, **QUICK).fit(rows[::5].astype(request.param))


@pytest.mark.parametrize("method", ["predict", "transform", "predict_proba", "score_samples"])
def test_threads_do_not_change_the_answer(model, rows, method):
    before, answers = torch.get_num_threads(), []
    try:
        for n_threads in (1, 3):
            torch.set_num_threads(n_threads)
            answers.append(getattr(model, method)(rows))
    finally:
        torch.set_num_threads(before)
    np.testing.assert_array_equal(*answers)


def test_single_rows_pass_in_single_precision(model, rows, monkeypatch):
    seen = []
    forward = RowMLP.__call__
    monkeypatch.setattr(RowMLP, "__call__", lambda self, Z: (seen.append(Z.dtype), forward(self, Z))[1])
    psi = model.transform(rows.astype(np.float32))
    assert set(seen) == {np.dtype(np.float32)}
    np.testing.assert_allclose(psi, model.transform(rows), atol=1e-3)
    assert (model.predict(rows.astype(np.float32)) == model.predict(rows)).mean() > 0.999


def test_the_model_keeps_its_precision_after_single_rows(model, rows):
    before = model.predictor_.centers.dtype
    model.predict(rows.astype(np.float32))
    assert model.predictor_.centers.dtype == before
    assert all(value.dtype == before for value in model.predictor_.encoder.state().values())


def test_the_nearest_centre_is_the_nearest(model, rows):
    psi, centers = model.transform(rows), model.cluster_centers_
    distances = np.square(psi[:, None].astype(np.float64) - centers[None]).sum(-1)
    two = np.sort(distances, axis=1)
    clear = two[:, 1] - two[:, 0] > 1e-4
    assert clear.mean() > 0.9
    np.testing.assert_array_equal(model.predict(rows)[clear], distances.argmin(1)[clear])


class Busy(nn.Module):
    """A module that may not be entered twice at a time."""

    def __init__(self):
        super().__init__()
        self.layer, self.inside = nn.Linear(2, 2), 0

    def forward(self, X):
        self.inside += 1
        assert self.inside == 1
        Psi = self.layer(X)
        self.inside -= 1
        return Psi


@pytest.mark.filterwarnings("ignore::knet.exceptions.KNetConvergenceWarning")
def test_a_users_module_is_never_entered_twice_at_a_time(rows):
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        assert make_knet(2, encoder=Busy(), **QUICK).fit(rows).predict(np.tile(rows, (10, 1))).shape == (50_000,)
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int16"])
@pytest.mark.filterwarnings("ignore::knet.exceptions.KNetConvergenceWarning")
def test_a_file_gives_the_model_of_its_array(tmp_path, rows, dtype):
    X = (100 * rows).round().astype(dtype)
    file = np.memmap(tmp_path / "rows", dtype, "w+", shape=X.shape)
    file[:] = X
    plain = X if dtype != "int16" else X.astype(np.float64)
    ours, theirs = make_knet(2, **QUICK).fit(file), make_knet(2, **QUICK).fit(plain)
    np.testing.assert_array_equal(ours.labels_, theirs.labels_)
    np.testing.assert_array_equal(ours.transform(file), theirs.transform(plain))


def test_a_file_with_infinite_values_is_refused_by_name_of_column(tmp_path, model, rows):
    file = np.memmap(tmp_path / "rows", np.float64, "w+", shape=rows.shape)
    file[:] = rows
    file[4000, 1] = np.inf
    with pytest.raises(ValueError, match=r"1 infinite value in column 1 \(1\)"):
        model.predict(file)


def test_a_file_is_labelled_in_constant_memory(tmp_path):
    pytest.importorskip("resource")
    script = """
        import sys, threading, time, warnings
        import numpy as np
        from knet import KNet
        warnings.simplefilter("ignore")

        def own_memory():  # pages of the file itself belong to the system, which takes them back at will
            text = open("/proc/self/status").read()
            return int(text.split("RssAnon:")[1].split()[0]) / 1024

        def peak_of(n):
            file = np.memmap(sys.argv[1] + str(n), np.int16, "w+", shape=(n, 50))
            file[:] = np.random.default_rng(0).integers(-100, 100, (1, 50))
            file[::2] += np.int16(40)
            model = KNet(2, sigma="median", n_init=1, max_iter=1, train_size=300, random_state=0)
            before, peaks, done = own_memory(), [], threading.Event()

            def watch():
                while not done.is_set():
                    peaks.append(own_memory())
                    time.sleep(0.001)

            watcher = threading.Thread(target=watch)
            watcher.start()
            model.fit(file).predict(file)
            done.set()
            watcher.join()
            return max(peaks) - before

        peak_of(1000)
        print(peak_of(400_000))
    """
    if not sys.platform.startswith("linux"):
        pytest.skip("reads /proc")
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path / "rows")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert float(done.stdout) < 60  # MB; the rows as doubles would take 160, labels and order take 10


def test_landmarks_cover_small_far_groups_and_hide_single_rows(rng):
    for seed in range(5):
        X = np.concatenate([rng.normal(size=(3000, 2)), rng.normal(size=(8, 2)) / 100 + 50])
        places, counts = landmarks(X, np.random.RandomState(seed))
        assert np.linalg.norm(places - 50, axis=1).min() < 0.1
        assert counts.min() >= 2
        assert counts.sum() == pytest.approx(len(X))


def test_rows_proposed_together_are_distributed_as_if_drawn_one_after_another():
    X = np.array([0.0, 0.0, 1.0, 1.5, 4.0])[:, None]
    counts, expected = np.zeros((5, 5)), np.zeros((5, 5))  # how often a row is the second one, and another the third
    for seed in range(4000):
        first, second, third = distant_rows(X, 3, np.random.RandomState(seed))
        counts[second, third] += 1
    for first in range(5):
        nearest = np.square(X - X[first]).ravel()
        for second in np.flatnonzero(nearest):
            left = np.minimum(nearest, np.square(X - X[second]).ravel())
            expected[second] += nearest[second] / nearest.sum() / 5 * left / left.sum()
    np.testing.assert_allclose(counts / 4000, expected, atol=0.03)


def test_rows_proposed_together_differ_and_are_fewer_if_there_are_no_others(rng):
    X = rng.integers(5, size=(400, 2)).astype(np.float64)
    for n_rows in (20, 25, 30):
        found = distant_rows(X, n_rows, np.random.RandomState(0))
        assert len(np.unique(X[found], axis=0)) == len(found) == min(n_rows, 25)
