"""Model files: the round trip, the content of a file, and the messages for bad files."""

import json
import os
import pickle
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from torch import nn

import knet
from knet import Advanced, KNet, load
from knet.datasets import make_moon
from knet.exceptions import KNetError, ModelFileError
from knet.metrics import rand_index
from knet.model import file as model_file
from knet.model import read
from tests.model_files import forge, parts

pytestmark = pytest.mark.filterwarnings("ignore::knet.exceptions.KNetConvergenceWarning")

QUICK = {"max_iter": 2, "tol": 0.0, "random_state": 0, "advanced": Advanced(steps_per_iter=10)}
METHODS = ("predict", "predict_proba", "transform", "score_samples", "kernel", "recluster")


def rows(n=80, d=3, dtype=np.float64, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, d))
    X[: n // 2] += 5
    return X.astype(dtype)


@pytest.fixture(scope="module")
def model():
    return KNet(2, **QUICK).fit(rows())


@pytest.fixture(scope="module")
def saved(model, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model.safetensors"
    model.save(path)
    return path


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


def plain_params(model):
    """Return all parameters, those of `advanced` by name; the object itself is replaced by whether there is one."""
    return model.get_params() | {"advanced": model.advanced is not None}


def assert_refused(path, match, **options):
    """Assert a clear error message of a single line that names the file."""
    with pytest.raises(ModelFileError, match=match) as caught:
        load(path, **options)
    message = str(caught.value)
    assert "\n" not in message
    assert path.name in message
    assert isinstance(caught.value, KNetError)


# The round trip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"n_clusters": 1},
        {"n_components": 2, "hidden_layer_sizes": (7, 5, 9)},
        {"n_components": 5, "scale": "none", "advanced": Advanced(steps_per_iter=10, reconstruction_weight=1.0)},
        {"u_update": "sma", "n_init": 2, "train_size": 0.5},
        {"hidden_layer_sizes": (4,), "max_iter": 1, "advanced": None},
    ],
)
def test_a_round_trip_changes_no_bit(path, dtype, options):
    X, X_new = rows(dtype=dtype), rows(40, dtype=dtype, seed=1)
    model = KNet(**({"n_clusters": 3} | QUICK | options)).fit(X)
    model.save(path)
    loaded = load(path)
    for data in (X, X_new):
        for method in METHODS:
            before, after = getattr(model, method)(data), getattr(loaded, method)(data)
            np.testing.assert_array_equal(before, after, err_msg=method)
            assert before.dtype == after.dtype
    np.testing.assert_array_equal(loaded.predict(X), model.labels_)
    np.testing.assert_array_equal(loaded.cluster_centers_, model.cluster_centers_)
    assert plain_params(loaded) == plain_params(model)
    assert loaded.sigma_ == model.sigma_
    assert loaded.best_iter_ == model.best_iter_
    assert loaded.history_ == model.history_
    assert loaded.n_iter_ == model.n_iter_
    assert loaded.n_features_in_ == 3
    assert loaded.caveats_ == model.caveats_
    assert loaded.selection_ == model.selection_
    assert loaded.get_feature_names_out().tolist() == model.get_feature_names_out().tolist()


def test_a_second_round_trip_changes_no_byte_of_the_tensors(saved, path):
    load(saved).save(path)
    first, second = load_file(saved), load_file(path)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert parts(saved)[1] == parts(path)[1]


def test_feature_names_are_kept_and_checked(path):
    X = pd.DataFrame(rows(), columns=["height", "weight", "größe"])
    KNet(2, **QUICK).fit(X).save(path)
    loaded = load(path)
    assert loaded.feature_names_in_.tolist() == list(X.columns)
    loaded.predict(X)
    with pytest.raises(ValueError, match="feature names"):
        loaded.predict(X.rename(columns={"height": "age"}))


def test_a_loaded_model_can_be_fitted_again(saved, model):
    np.testing.assert_array_equal(load(saved).fit(rows()).labels_, model.labels_)


def test_a_fit_after_loading_forgets_the_extra_data_of_the_file(model, path):
    model_file.save(model, path, extra={"table": {"columns": ["a", "b", "c"]}})
    refitted = load(path).fit(rows(d=2))
    assert not getattr(refitted, "extra_", None)
    refitted.save(path, overwrite=True)
    assert load(path).extra_ == {}


@pytest.mark.filterwarnings("ignore::knet.exceptions.KNetDataWarning")
def test_caveats_go_round(path):
    model = KNet(3, **QUICK).fit(np.random.default_rng(0).normal(size=(80, 2)))
    assert model.caveats_
    model.save(path)
    assert load(path).caveats_ == model.caveats_
    assert load(path).fit(rows()).caveats_ != model.caveats_


def test_extra_data_goes_round(model, path):
    extra = {"note": "ünïcode", "numbers": [1, 2.5, None], "nested": {"a": True}}
    model_file.save(model, path, extra=extra)
    assert load(path).extra_ == extra
    load(path).save(path, overwrite=True)
    assert load(path).extra_ == extra


def test_extra_data_that_is_not_plain_is_refused_before_anything_is_written(model, path):
    with pytest.raises(TypeError):
        model_file.save(model, path, extra={"x": object()})
    assert list(path.parent.iterdir()) == []


def test_a_callback_and_a_generator_are_not_stored(path):
    X = rows()
    model = KNet(2, **QUICK | {"random_state": np.random.RandomState(0), "callback": lambda row: None}).fit(X)
    model.save(path)
    loaded = load(path)
    assert sorted(parts(path)[1]["unsaved"]) == ["callback", "random_state"]
    assert loaded.callback is None
    assert loaded.random_state is None
    np.testing.assert_array_equal(loaded.predict(X), model.labels_)
    loaded.fit(X)


def test_a_function_as_a_parameter_has_to_be_set_again_before_a_fit(path):
    def own_step(L, U):
        return np.linalg.qr(L @ U)[0]

    X = rows()
    model = KNet(2, u_update=own_step, **QUICK).fit(X)
    model.save(path)
    assert parts(path)[1]["unsaved"] == ["u_update"]
    load(path).save(path, overwrite=True)  # also after a second round trip
    loaded = load(path)
    for method in METHODS:
        np.testing.assert_array_equal(getattr(loaded, method)(X), getattr(model, method)(X))
    for refit in (loaded, clone(loaded)):
        with pytest.raises(ValueError, match=r"'u_update' parameter of KNet .*not stored in the model file; set it"):
            refit.fit(X)
    np.testing.assert_array_equal(loaded.set_params(u_update=own_step).fit(X).labels_, model.labels_)


def test_numpy_numbers_as_parameters_are_kept(path):
    sizes = (np.int64(6), np.int32(5))
    options = QUICK | {"advanced": Advanced(memory_budget=np.float64(64), steps_per_iter=np.int64(10))}
    KNet(np.int64(2), learning_rate=np.float32(0.5) / 256, hidden_layer_sizes=sizes, **options).fit(rows()).save(path)
    loaded = load(path)
    assert loaded.n_clusters == 2
    assert loaded.learning_rate == pytest.approx(0.5 / 256)
    assert loaded.hidden_layer_sizes == (6, 5)
    assert loaded.advanced.memory_budget == 64
    assert loaded.advanced.steps_per_iter == 10


def test_threads_that_share_a_model_get_the_labels_of_one_call(saved):
    X = rows(20_000, seed=2)
    expected = load(saved).predict(X)
    before = torch.get_num_threads()
    for dtype in (np.float64, np.float32):
        shared = load(saved)  # nothing is cached in it yet
        same = expected if dtype == np.float64 else load(saved).predict(X.astype(dtype))
        with ThreadPoolExecutor(8) as pool:
            for labels in pool.map(shared.predict, [X.astype(dtype)] * 24):
                np.testing.assert_array_equal(labels, same)
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("kind", [str, lambda path: path])
def test_paths_of_any_kind(model, path, kind):
    model.save(kind(path))
    load(kind(path))


# The content of a file


def test_the_header_says_what_made_it(saved):
    metadata, header, _ = parts(saved)
    assert metadata["format"] == "knet-model"
    assert header["format_version"] == read.FORMAT_VERSION
    assert header["versions"]["knet"] == knet.__version__
    assert {"python", "numpy", "scikit-learn", "torch"} <= set(header["versions"])
    assert header["params"]["n_clusters"] == 2
    assert header["params"]["advanced"]["steps_per_iter"] == 10
    assert header["unsaved"] == []


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_clusters", [1, 2])  # with one cluster the embedding stays the identity
def test_no_training_row_is_in_the_file(path, dtype, n_clusters):
    X = rows(200, dtype=dtype)
    model = KNet(n_clusters, **QUICK).fit(X)
    model.save(path)
    content = path.read_bytes()
    for table in (X, model.predictor_.scaling(X)):
        for row in table:
            assert row.tobytes() not in content
    assert model.cluster_centers_[0].tobytes() in content  # the search does find values that are in the file


def test_the_file_does_not_grow_with_the_rows(tmp_path):
    for n in (1100, 8100):
        KNet(2, **QUICK | {"max_iter": 1}).fit(rows(n)).save(tmp_path / str(n))
    small, large = ((tmp_path / str(n)).stat().st_size for n in (1100, 8100))
    assert abs(large - small) < rows(7000).nbytes / 20  # some landmarks more or less, of at most 256
    assert all(value.shape[0] <= 256 for value in load_file(tmp_path / "8100").values() if value.ndim)


def test_nothing_in_the_file_is_executed(monkeypatch, saved):
    def forbidden(*args, **kwargs):
        raise AssertionError("loading must not unpickle")

    for module, name in ((torch, "load"), (pickle, "load"), (pickle, "loads"), (pickle, "Unpickler")):
        monkeypatch.setattr(module, name, forbidden)
    load(saved).predict(rows())
    content = saved.read_bytes()
    n_header = int.from_bytes(content[:8], "little")
    json.loads(content[8 : 8 + n_header])  # the file consists of this text and the numbers of its tensors
    assert len(content) == 8 + n_header + sum(value.nbytes for value in load_file(saved).values())


# Damaged files


def test_a_file_cut_at_any_length_is_refused(saved, path):
    content = saved.read_bytes()
    for length in [*range(12), *range(100, len(content), len(content) // 25), len(content) - 1]:
        path.write_bytes(content[:length])
        assert_refused(path, "damaged")


def test_a_file_with_something_appended_is_refused(saved, path):
    path.write_bytes(saved.read_bytes() + b"x" * 64)
    assert_refused(path, "damaged")


@pytest.mark.parametrize("seed", range(5))
def test_random_bytes_are_refused(path, seed):
    path.write_bytes(np.random.default_rng(seed).bytes(5000))
    assert_refused(path, "damaged")


@pytest.mark.parametrize("content", [b"", b"{}", b"\x80\x04N.", b"PK\x03\x04rest", b"a,b\n1,2\n"])
def test_other_kinds_of_file_are_refused(path, content):
    path.write_bytes(content)
    assert_refused(path, "damaged")


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}, {"format": "other-model", "header": "{}"}])
def test_safetensors_of_others_are_refused(path, metadata):
    save_file({"x": torch.zeros(3)}, path, metadata)
    assert_refused(path, "knet did not write it")


def test_a_flipped_byte_anywhere_is_refused(saved, path):
    content = saved.read_bytes()
    n_header = 8 + int.from_bytes(content[:8], "little")
    places = [*range(8, n_header, n_header // 40), *range(n_header, len(content), len(content) // 40)]
    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        if damaged[place : place + 1] != content[place : place + 1]:
            assert_refused(path, "model")


def test_another_format_says_what_to_do(saved, path):
    _, header, tensors = parts(saved)
    forge(path, header | {"format_version": 4}, tensors)
    assert_refused(path, r"format version 4; this knet reads version 3\. Upgrade knet")
    forge(path, header | {"format_version": 2}, tensors)
    assert_refused(path, r"format version 2; this knet reads version 3\. Fit the model again")


def test_a_missing_tensor_is_refused_even_with_a_valid_digest(saved, path):
    _, header, tensors = parts(saved)
    for name in (
        "shift",
        "scale",
        "tail_width",
        "centers",
        "landmarks",
        "weights",
        "encoder.weights.0",
        "encoder.skip",
    ):
        forge(path, header, {other: value for other, value in tensors.items() if other != name})
        assert_refused(path, "complete|does not fit")


def test_a_missing_entry_of_the_header_is_refused(saved, path):
    _, header, tensors = parts(saved)
    assert header.keys() == {"format_version", *read.HEADER}
    for name in header:
        forge(path, {other: value for other, value in header.items() if other != name}, tensors)
        assert_refused(path, "complete.*version" if name == "format_version" else f"has no '{name}'")


@pytest.mark.parametrize("text", ["", "not json", "[]", "null", "3"])
def test_a_header_that_is_not_an_object_is_refused(saved, path, text):
    forge(path, text, parts(saved)[2])
    assert_refused(path, "model")


def test_an_unknown_parameter_is_refused(saved, path):
    _, header, tensors = parts(saved)
    for params in (header["params"] | {"__class__": "x"}, {"n_clusters": 2}):
        forge(path, header | {"params": params}, tensors)
        assert_refused(path, "parameters are not those of KNet")
    params = header["params"]
    forge(path, header | {"params": params | {"advanced": params["advanced"] | {"more": 1}}}, tensors)
    assert_refused(path, "'advanced' is not complete")


@pytest.mark.parametrize("value", ["wide", None, [1, 2]])
def test_a_header_of_wrong_types_is_refused(saved, path, value):
    _, header, tensors = parts(saved)
    forge(path, header | {"sigma": value}, tensors)
    assert_refused(path, "model")


@pytest.mark.parametrize("name", ["encoder.weights.1", "encoder.biases.0"])
def test_tensors_of_a_wrong_shape_are_refused(saved, path, name):
    _, header, tensors = parts(saved)
    forge(path, header, tensors | {name: torch.zeros(1, 2, 2, dtype=torch.float64)})
    assert_refused(path, "does not fit")


def test_a_missing_file_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no model file .*gone"):
        load(tmp_path / "gone")
    with pytest.raises(FileNotFoundError, match="no model file"):
        load(tmp_path)


# Writing


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
@pytest.mark.parametrize("place", ["write_bytes", "replace", "fsync"])
@pytest.mark.parametrize("existing", [True, False])
def test_a_crash_leaves_the_old_file_and_no_other(monkeypatch, model, path, place, existing, error):
    if existing:
        model.save(path)
    before = path.read_bytes() if existing else None

    def crash(*args, **kwargs):
        if place == "write_bytes":
            with open(args[0], "wb") as file:
                file.write(b"half")
        raise error

    monkeypatch.setattr(Path if place == "write_bytes" else os, place, crash)
    with pytest.raises(type(error)):
        model.save(path, overwrite=True)
    monkeypatch.undo()
    assert [file.name for file in path.parent.iterdir()] == ([path.name] if existing else [])
    if existing:
        assert path.read_bytes() == before
        load(path)


def test_saving_replaces_a_file_only_if_asked_and_leaves_nothing_else(model, path):
    path.write_bytes(b"old")
    with pytest.raises(FileExistsError, match=r"exists already\. Use overwrite=True"):
        model.save(path)
    assert path.read_bytes() == b"old"
    model.save(path, overwrite=True)
    load(path)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_the_file_has_the_permissions_of_any_new_file(model, path):
    model.save(path)
    other = path.with_name("plain")
    other.touch()
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(other.stat().st_mode)


def test_an_unfitted_model_is_not_saved(path):
    with pytest.raises(NotFittedError):
        KNet(2).save(path)
    assert list(path.parent.iterdir()) == []


def test_saving_into_a_folder_that_does_not_exist_is_an_error(model, tmp_path):
    with pytest.raises(FileNotFoundError):
        model.save(tmp_path / "no" / "model")


# A user's own module


def own(width=6):
    return nn.Sequential(nn.Linear(3, width), nn.Tanh(), nn.BatchNorm1d(width), nn.Linear(width, 2))


@pytest.mark.parametrize("seed", range(4))
def test_own_module_is_kept_as_it_was_when_held_out_rows_agreed(path, seed):
    """Training goes on with the module after an iteration was kept, and a large learning rate then ruins it."""
    X, _ = make_moon(300, random_state=seed)
    torch.manual_seed(seed)
    module = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 2))
    model = KNet(2, encoder=module, learning_rate=10.0, random_state=seed).fit(X)
    assert rand_index(model.start_labels_, model.labels_[model.train_indices_]) > 0.95
    model.save(path)
    np.testing.assert_array_equal(load(path, encoder=module).predict(X), model.labels_)


@pytest.fixture
def own_file(path):
    KNet(2, encoder=own(), **QUICK).fit(rows(dtype=np.float32)).save(path)
    return path


def test_own_module_is_asked_for(own_file):
    assert_refused(own_file, r"encoder of your own.*load\(path, encoder=")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_own_module_goes_round(path, dtype):
    X = rows(dtype=dtype)
    model = KNet(2, encoder=own(), **QUICK).fit(X)
    model.save(path)
    loaded = load(path, encoder=own())
    for method in METHODS:
        np.testing.assert_array_equal(getattr(model, method)(X), getattr(loaded, method)(X))


def test_a_fit_after_loading_uses_the_given_module(own_file):
    module = own()
    loaded = load(own_file, encoder=module)
    assert loaded.encoder is module
    X = rows(dtype=np.float32)
    np.testing.assert_array_equal(loaded.fit(X).labels_, KNet(2, encoder=module, **QUICK).fit(X).labels_)
    assert loaded.transform(X).shape == (len(X), 2)


def test_loading_leaves_the_given_module_alone(own_file):
    module = own()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    load(own_file, encoder=module)
    assert all(torch.equal(before[name], value) for name, value in module.state_dict().items())
    assert all(parameter.requires_grad for parameter in module.parameters())


@pytest.mark.parametrize("module", [own(7), nn.Linear(3, 2), nn.Identity()])
def test_a_wrong_module_is_refused(own_file, module):
    assert_refused(own_file, "does not fit", encoder=module)
