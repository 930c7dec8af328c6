"""KNet on real worker processes: a LocalCluster with two of them, from Python and from the command line."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import make_blobs
from typer.testing import CliRunner

import knet.dask
from knet import Advanced, KNet
from knet.cli import app as cli
from knet.dask import files
from knet.model import blocks
from knet.tables.conversion import Conversion

dask = pytest.importorskip("dask")
da = pytest.importorskip("dask.array")
dd = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

NAMES = ["a", "b", "c"]
METHODS = ["predict", "predict_proba", "score_samples", "transform"]
KNET = Path(sys.executable).with_name("knet")


@pytest.fixture(scope="module")
def made_before(model, frame):
    """A lazy result that was made when there was no cluster yet."""
    with pytest.raises(ValueError, match="client"):
        distributed.get_client()
    return model.predict(dd.from_pandas(frame, npartitions=5))


@pytest.fixture(scope="module")
def client(made_before):
    options = {"n_workers": 2, "threads_per_worker": 2, "processes": True, "dashboard_address": ":0"}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        yield client


def fitted(X, seed=0):
    short = {"sigma": "median", "n_init": 1, "max_iter": 1, "tol": 1.0, "advanced": Advanced(steps_per_iter=20)}
    return KNet(3, random_state=seed, **short).fit(X)


@pytest.fixture(scope="module")
def frame():
    X = make_blobs(3000, 3, centers=3, cluster_std=0.4, center_box=(-4, 4), random_state=0)[0]
    return pd.DataFrame(X, columns=NAMES)


@pytest.fixture(scope="module")
def model(frame):
    return fitted(frame)


# From Python


@pytest.mark.parametrize("method", METHODS)
def test_processes_give_what_memory_gives(client, model, frame, method):
    expected = getattr(model, method)(frame)
    ddf = dd.from_pandas(frame.assign(own=frame.index.astype(str)), npartitions=7)[NAMES]
    on_frame = getattr(model, method)(ddf[ddf.a > 0]).compute()
    np.testing.assert_allclose(on_frame, expected[frame.a > 0], rtol=1e-9)
    array_model = fitted(frame.to_numpy())
    many = da.from_array(frame.to_numpy(), chunks=(413, 3))
    unknown = many[many[:, 0] > 0]
    expected = getattr(array_model, method)(frame.to_numpy()[frame.a > 0])
    np.testing.assert_allclose(getattr(array_model, method)(unknown).compute(), expected, rtol=1e-9)


@pytest.mark.parametrize("kind", ["string", "category"])
def test_uneven_and_empty_partitions_with_identifiers(client, model, frame, kind):
    table = frame.assign(own=(frame.index % 11).astype(str)).astype({"own": kind})
    ends = np.cumsum([0, 0, 5, 2000, 0, 995])
    parts = [table.iloc[start:end] for start, end in pairwise(ends)]
    ddf = dd.from_map(lambda part: part, parts, meta=table.iloc[:0])
    found = knet.dask.label(model, ddf, keep=["own"], outputs=["label", "score"]).compute()
    assert np.array_equal(found.label, model.predict(frame))
    assert found.own.astype(str).tolist() == table.own.astype(str).tolist()


def test_every_process_loads_the_model_once(client, frame):
    model = fitted(frame, seed=5)
    client.run(blocks._load.cache_clear)
    ddf = dd.from_pandas(frame, npartitions=40)
    model.predict(ddf).compute()
    model.score_samples(ddf).compute()
    loads = [info.misses for info in client.run(blocks._load.cache_info).values()]
    assert sum(loads) >= 1
    assert max(loads) == 1


def test_a_graph_made_without_a_cluster_runs_on_one(made_before, client, model, frame):
    assert np.array_equal(made_before.compute(), model.predict(frame))


def test_a_worker_killed_in_the_middle_changes_nothing(client, model, frame, tmp_path):
    n_blocks, folder = 60, str(tmp_path)

    def slow(part):
        (Path(folder) / f"{os.getpid()}-{part.index[0]}").touch()
        time.sleep(0.1)
        return part

    ddf = dd.from_pandas(frame, npartitions=n_blocks).map_partitions(slow, meta=frame.iloc[:0])
    future = client.compute(model.predict(ddf))
    while len(list(tmp_path.iterdir())) < n_blocks // 4:
        assert future.status == "pending"
        time.sleep(0.02)
    victim = int(next(tmp_path.iterdir()).name.split("-")[0])
    begun = len(list(tmp_path.iterdir()))
    os.kill(victim, signal.SIGKILL)
    assert begun < n_blocks
    assert np.array_equal(future.result(timeout=300), model.predict(frame))
    client.wait_for_workers(2, timeout=300)
    assert victim not in client.run(os.getpid).values()


def test_sample_and_fit_do_not_depend_on_the_workers(client, frame):
    many = da.from_array(frame.to_numpy(), chunks=(190, 2))
    expected = knet.dask.sample(many, 500, random_state=3)
    here, there = (KNet(3, sigma="median", n_init=1, max_iter=1, tol=1.0, random_state=0) for _ in range(2))
    knet.dask.fit(there, many, sample_size=500)
    with dask.config.set(scheduler="sync"):
        assert np.array_equal(knet.dask.sample(many, 500, random_state=3), expected)
        knet.dask.fit(here, many, sample_size=500)
    assert blocks.fingerprint(here) == blocks.fingerprint(there)
    assert np.array_equal(there.labels_.compute(), there.predict(frame.to_numpy()))


def test_reductions_on_processes(client, model, frame):
    ddf = dd.from_pandas(frame, npartitions=30)
    found = knet.dask.summarize(model, ddf)
    groups = frame.groupby(model.predict(frame))
    assert found.sizes.tolist() == groups.size().tolist()
    np.testing.assert_allclose(found.means, groups.mean(), rtol=1e-9)
    drift = knet.dask.drift(model, ddf)
    trained = np.bincount(model.labels_[model.train_indices_], minlength=3) / model.n_train_
    assert drift.size_shift == pytest.approx(np.abs(found.sizes / len(frame) - trained).sum() / 2)
    assert (
        drift.unfamiliar == found.unfamiliar == (model.score_samples(frame) < model.predictor_.threshold(0.01)).mean()
    )


def test_fits_run_on_the_workers_through_joblib(client, frame):
    def fit_there(seed):
        return os.getpid(), fitted(frame[:300], seed).labels_

    with joblib.parallel_config(backend="dask"):
        found = joblib.Parallel()(joblib.delayed(fit_there)(seed) for seed in range(3))
    assert {pid for pid, _ in found} <= set(client.run(os.getpid).values())
    for seed, (_, labels) in enumerate(found):
        assert np.array_equal(labels, fitted(frame[:300], seed).labels_)


def test_a_scan_runs_on_the_workers_through_joblib(client):
    X = make_blobs(120, centers=[[0, 0], [9, 0], [0, 9]], random_state=0)[0]
    here = knet.scan(X, 3, n_resamples=2, random_state=0)
    with joblib.parallel_config(backend="dask"):
        assert knet.scan(X, 3, n_resamples=2, random_state=0, n_jobs=-1) == here
    assert here.best == 3


def test_a_model_file_that_a_worker_lacks_is_named(client, frame, tmp_path):
    fitted(frame, seed=9).save(tmp_path / "gone.safetensors")
    lazy = knet.dask.predict(tmp_path / "gone.safetensors", dd.from_pandas(frame, npartitions=3))
    (tmp_path / "gone.safetensors").unlink()
    with pytest.raises(FileNotFoundError, match=r"worker on .* has no model file .*gone\.safetensors"):
        lazy.compute()


# From the command line


@pytest.fixture
def big(frame, tmp_path):
    """A folder of six Parquet files, one of them empty and two below a folder of their own, and a model file."""
    folder = tmp_path / "big"
    (folder / "day=2").mkdir(parents=True)
    table = frame.assign(own=[f"row {i}" for i in range(len(frame))])
    cuts = [0, 500, 500, 600, 1500, 2400, 3000]
    names = ["0", "1", "2", "3", "day=2/0", "day=2/1"]
    for name, start, end in zip(names, cuts[:-1], cuts[1:], strict=True):
        pq.write_table(pa.Table.from_pandas(table.iloc[start:end], preserve_index=False), folder / f"{name}.parquet")
    return folder


@pytest.fixture
def model_file(model, tmp_path):
    model.save(tmp_path / "m.safetensors")
    return tmp_path / "m.safetensors"


def call(client, *args):
    address = client.scheduler.address
    return CliRunner().invoke(cli.app, ["predict", *map(str, args), "--dask", address, "--json"])


def labels_of(folder):
    parts = [pd.read_parquet(path) for path in sorted(folder.rglob("*.parquet"))]
    return pd.concat(parts, ignore_index=True)


def test_a_folder_is_labelled_file_by_file(client, big, model_file, model, frame, tmp_path):
    out = tmp_path / "out"
    done = call(client, model_file, big, "-o", out, "--id-col", "own", "--proba", "--score", "--embedding")
    assert done.exit_code == 0, done.stderr
    said = json.loads(done.stdout)
    assert (said["rows"], said["parts"], said["skipped"]) == (3000, 6, 0)
    assert said["sizes"] == np.bincount(model.predict(frame)).tolist()
    written = sorted(str(path.relative_to(out)) for path in out.rglob("*.parquet"))
    assert written == sorted(str(path.relative_to(big)) for path in big.rglob("*.parquet"))
    found = labels_of(out)
    assert found.own.tolist() == [f"row {i}" for i in range(3000)]
    assert np.array_equal(found.label, model.predict(frame))
    np.testing.assert_allclose(found.filter(like="proba_"), model.predict_proba(frame), rtol=1e-9)
    np.testing.assert_allclose(found.score, model.score_samples(frame), rtol=1e-9)
    np.testing.assert_allclose(found.filter(like="embedding_"), model.transform(frame), rtol=1e-9)
    assert pq.read_schema(out / "1.parquet").equals(pq.read_schema(out / "0.parquet"))  # the empty one has its columns
    assert json.loads((out / "_knet.json").read_text())["model"] == blocks.fingerprint(model)
    again = call(client, model_file, big, "-o", out, "--id-col", "own", "--proba", "--score", "--embedding")
    assert json.loads(again.stdout)["skipped"] == 6
    assert json.loads(again.stdout)["sizes"] == said["sizes"]


def test_a_lost_scheduler_is_one_line(client, big, model_file, tmp_path, monkeypatch):
    def lost(future, part):
        raise files.CommClosedError("in <TCP (closed)>: Stream is closed")

    monkeypatch.setattr(files, "_result", lost)
    result = call(client, model_file, big, "-o", tmp_path / "out")
    assert result.exit_code == 2
    assert "connection to the Dask scheduler was lost" in result.stderr
    assert "run the command again" in result.stderr


def test_a_second_run_does_what_is_left(client, big, model_file, model, frame, tmp_path):
    out = tmp_path / "out"
    assert json.loads(call(client, model_file, big / "[0-2].parquet", "-o", out).stdout)["parts"] == 3
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*.parquet")}
    (out / ".3.parquet.0123abcd.unfinished").write_text("left by a killed worker")
    done = json.loads(call(client, model_file, big, "-o", out).stdout)
    assert (done["parts"], done["skipped"]) == (6, 3)
    assert all(path.stat().st_mtime_ns == moment for path, moment in before.items())
    assert np.array_equal(labels_of(out).label, model.predict(frame))
    assert not list(out.glob(".*"))
    pq.write_table(pa.Table.from_pandas(frame.iloc[:7]), big / "2.parquet")  # a source that changed is labelled again
    done = json.loads(call(client, model_file, big, "-o", out).stdout)
    assert (done["skipped"], done["rows"]) == (5, 2907)


def test_a_run_that_failed_goes_on_after_the_repair(client, big, model_file, frame, tmp_path):
    sound = (big / "3.parquet").read_bytes()
    pq.write_table(pa.Table.from_pandas(frame.iloc[:9].assign(b="x")), big / "3.parquet")
    done = call(client, model_file, big, "-o", tmp_path / "out")
    assert done.exit_code == 2
    assert done.stderr.count("\n") == 1
    assert f"knet: {big / '3.parquet'}: Column 'b' holds" in done.stderr
    (big / "3.parquet").write_bytes(sound)
    done = json.loads(call(client, model_file, big, "-o", tmp_path / "out").stdout)
    assert done["rows"] == 3000


def test_models_are_never_mixed(client, big, model_file, frame, tmp_path):
    out = tmp_path / "out"
    assert call(client, model_file, big, "-o", out).exit_code == 0
    fitted(frame, seed=1).save(tmp_path / "other.safetensors")
    refused = call(client, tmp_path / "other.safetensors", big / "0.parquet", "-o", out)
    assert refused.exit_code == 2
    assert "contains the labels of another model" in refused.stderr
    assert "use --force to replace them" in refused.stderr
    refused = call(client, model_file, big, "-o", out, "--score")
    assert refused.exit_code == 2
    assert "contains other columns" in refused.stderr
    done = call(client, tmp_path / "other.safetensors", big / "0.parquet", "-o", out, "--force")
    assert done.exit_code == 0, done.stderr
    assert [path.name for path in out.rglob("*.parquet")] == ["0.parquet"]  # nothing of the other model is left
    assert len(labels_of(out)) == 500


def test_folders_that_are_not_knets_are_left_alone(client, big, model_file, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("precious")
    for options in ([], ["--force"]):
        refused = call(client, model_file, big, "-o", tmp_path / "out", *options)
        assert refused.exit_code == 2
        assert "is not empty, and knet did not write it" in refused.stderr
    refused = call(client, model_file, big / "*.parquet", "-o", big)
    assert refused.exit_code == 2
    assert "is also the input folder" in refused.stderr


def test_large_files_are_split_at_row_groups(client, model_file, model, frame, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "PART_ROWS", 1000)
    (tmp_path / "in").mkdir()
    pq.write_table(pa.Table.from_pandas(frame), tmp_path / "in" / "one.parquet", row_group_size=400)
    done = json.loads(call(client, model_file, tmp_path / "in", "-o", tmp_path / "out").stdout)
    assert done["parts"] == 3
    names = [path.name for path in sorted((tmp_path / "out").glob("*.parquet"))]
    assert names == ["one-00000.parquet", "one-00001.parquet", "one-00002.parquet"]
    assert np.array_equal(labels_of(tmp_path / "out").label, model.predict(frame))
    pq.write_table(pa.Table.from_pandas(frame[:900]), tmp_path / "in" / "one.parquet", row_group_size=400)
    json.loads(call(client, model_file, tmp_path / "in", "-o", tmp_path / "out").stdout)
    assert [path.name for path in (tmp_path / "out").glob("*.parquet")] == ["one.parquet"]


def test_other_formats_and_recipes(client, tmp_path):
    table = pd.DataFrame(
        {"id": ["007", "008"] * 60, "x": np.r_[np.zeros(60), np.ones(60)], "kind": ["u"] * 60 + ["v"] * 60}
    )
    table.to_csv(tmp_path / "train.csv", index=False)
    runner = CliRunner()
    options = ["-c", "2", "--max-iter", "1", "--one-hot", "--id-col", "id", "-o", str(tmp_path / "m.safetensors")]
    assert runner.invoke(cli.app, ["fit", str(tmp_path / "train.csv"), *options]).exit_code == 0
    (tmp_path / "in").mkdir()
    table.assign(kind=["w"] * 3 + list(table.kind[3:])).to_csv(tmp_path / "in" / "a.csv", index=False)
    table[:50].to_parquet(tmp_path / "in" / "b.parquet")
    (tmp_path / "in" / "notes.txt").write_text("not a table")
    done = call(client, tmp_path / "m.safetensors", tmp_path / "in", "-o", tmp_path / "out")
    assert done.exit_code == 0, done.stderr
    assert "3 rows have a value in 'kind' that was not seen in training" in done.stderr
    found = pd.read_parquet(tmp_path / "out" / "a.csv.parquet")
    assert found.id.tolist() == table.id.tolist()
    plain = runner.invoke(cli.app, ["predict", str(tmp_path / "m.safetensors"), str(tmp_path / "in" / "a.csv")])
    assert [int(line.split(",")[1]) for line in plain.stdout.splitlines()[1:]] == found.label.tolist()


def test_mistakes_are_said_in_one_line(client, big, model_file, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "CONNECT_SECONDS", 1)
    monkeypatch.setattr(files, "WORKER_SECONDS", 1)
    pq.write_table(pa.table({"a": [1.0], "B": [2.0], "c": [3.0]}), tmp_path / "wrong.parquet")
    address = client.scheduler.address
    out = ["-o", str(tmp_path / "out")]
    with distributed.LocalCluster(n_workers=0, dashboard_address=":0") as bare:
        for args, text in (
            ([big, *out, "--dask", "tcp://127.0.0.1:9"], "No Dask scheduler answers at tcp://127.0.0.1:9"),
            ([big, *out, "--dask", bare.scheduler_address], "has no workers"),
            ([big, *out, "--dask", "local:0"], "must be local:N or the address of a scheduler"),
            ([big, *out, "--dask", "four"], "must be local:N or the address of a scheduler"),
            ([big, "--dask", address], "needs --output"),
            ([big, *out, "--target", "own", "--dask", address], "allows no --target"),
            ([tmp_path / "none/*.parquet", *out, "--dask", address], "There is no file"),
            ([tmp_path / "wrong.parquet", *out, "--dask", address], "needs the column 'b'"),
            ([big, *out, "--id-col", "ow", "--dask", address], "Did you mean 'own'?"),
            ([tmp_path / "*.safetensors", *out, "--dask", address], "knet cannot read"),
        ):
            done = CliRunner().invoke(cli.app, ["predict", str(model_file), *map(str, args)])
            assert done.exit_code == 2, done.output
            assert text in done.stderr
            assert done.stderr.count("\n") == 1
    assert not (tmp_path / "out").exists()
    client.run(lambda: __import__("sys").modules.__setitem__("knet.dask.files", None))
    done = call(client, model_file, big, *out)
    client.run(lambda: __import__("sys").modules.pop("knet.dask.files"))
    assert done.exit_code == 2
    assert "have no knet.dask.files. Install knet-clustering[dask,tables] there" in done.stderr
    monkeypatch.setattr(files, "__version__", "9.9")
    done = call(client, model_file, big, *out)
    assert done.exit_code == 2
    assert "this is 9.9. Install the same one" in done.stderr


def test_a_file_that_a_worker_lacks_is_named(model, tmp_path):
    recipe = Conversion.of_numbers(NAMES)
    job = files.Job(blocks.ModelRef.of(model), recipe, ("label",), (), None, 1)
    part = files.FilePart(str(tmp_path / "gone.parquet"), tmp_path / "out.parquet")
    with pytest.raises(FileNotFoundError, match=r"worker on .* cannot read .*gone\.parquet"):
        files.label_part(part, job)


def test_outputs_without_labels(model, frame, tmp_path):
    frame.to_parquet(tmp_path / "in.parquet")
    part = files.FilePart(str(tmp_path / "in.parquet"), tmp_path / "out.parquet")
    job = files.Job(blocks.ModelRef.of(model), Conversion.of_numbers(NAMES), ("score", "proba"), (), None, 1)
    done = files.label_part(part, job)
    assert done.rows == len(frame)
    assert done.sizes == np.bincount(model.predict(frame)).tolist()
    found = pd.read_parquet(tmp_path / "out.parquet")
    assert list(found.columns) == ["proba_0", "proba_1", "proba_2", "score"]
    np.testing.assert_allclose(found.score, model.score_samples(frame), rtol=1e-9)
    again = files.label_part(part, job)
    assert (again.rows, again.sizes, again.skipped) == (done.rows, done.sizes, True)


def test_two_files_for_one_output_are_refused(frame, tmp_path):
    frame.to_parquet(tmp_path / "a.csv.parquet")
    frame.to_csv(tmp_path / "a.csv", index=False)
    with pytest.raises(ValueError, match="Two input files would write"):
        files.plan(str(tmp_path), tmp_path / "out")


def test_the_scheduler_never_stores_all_parts_and_a_killed_worker_changes_nothing(client, model, tmp_path):
    pq.write_table(pa.table({name: [1.0] for name in NAMES}), tmp_path / "one.parquet")
    many = [files.FilePart(str(tmp_path / "one.parquet"), tmp_path / f"{i}.parquet") for i in range(150)]
    job = files.Job(blocks.ModelRef.of(model), Conversion.of_numbers(NAMES), ("label",), (), None, 1)
    most, n_done = 0, 0
    for done in files.run(client, many, job):
        n_done += done.rows
        if n_done == 20:
            os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)
        most = max(most, client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)))
    assert n_done == len(list(tmp_path.glob("[0-9]*.parquet"))) == 150
    assert most <= 2 * (files.IN_FLIGHT * 4 + 1)


def test_local_processes_from_the_shell_and_a_kill_in_the_middle(client, big, model_file, model, frame, tmp_path):
    out = tmp_path / "out"
    command = [KNET, "predict", model_file, big, "-o", out, "--dask", "local:2", "--json"]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env)
    watch = threading.Thread(target=_kill_when, args=(run, out), daemon=True)
    watch.start()
    run.communicate(timeout=300)
    watch.join(timeout=10)
    assert run.returncode == -signal.SIGKILL
    n_finished = len([path for path in out.rglob("*.parquet") if not path.name.startswith(".")])
    assert n_finished >= 1
    said = json.loads(call(client, model_file, big, "-o", out).stdout)
    assert said["rows"] == 3000
    assert said["skipped"] >= n_finished
    assert np.array_equal(labels_of(out).label, model.predict(frame))


def _kill_when(process, folder):
    """Kill a process as soon as a first file is finished."""
    while not [path for path in folder.rglob("*.parquet") if not path.name.startswith(".")]:
        time.sleep(0.002)
    process.kill()
