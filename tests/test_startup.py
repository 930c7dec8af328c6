"""What is imported: labelling, `info` and every refusal need neither torch nor scikit-learn, a default fit no torch."""

import json
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from knet import KNet

HEAVY = ("torch", "sklearn", "scipy", "matplotlib", "dask", "pandas")
NOT_TO_FIT = (
    *("matplotlib", "dask", "pandas", "torch"),
    *(f"sklearn.{name}" for name in ("cluster", "ensemble", "metrics", "model_selection", "neighbors", "tree")),
)
SCRIPT = """
import json, sys
from knet.cli import main
try:
    main()
except SystemExit as end:
    code = end.code
print(json.dumps([code or 0, [name for name in {heavy} if name in sys.modules]]))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("startup")
    X = np.random.default_rng(0).normal(size=(40, 2))
    X[:20] += 5
    KNet(2, max_iter=1, random_state=0).fit(X).save(folder / "m.safetensors")
    np.save(folder / "rows.npy", X)
    text = "\n".join(["x0,x1", *(f"{a},{b}" for a, b in X)])
    (folder / "rows.csv").write_text(text)
    (folder / "word.csv").write_text(text + "\n1,n.a.\n")
    (folder / "other.csv").write_text("a,b\n1,2\n")
    (folder / "damaged.safetensors").write_text("{}")
    pq.write_table(pa.table({"x0": X[:, 0], "x1": X[:, 1]}), folder / "rows.parquet")
    return folder


def imported(folder, *args, heavy=HEAVY):
    """Run a command; return its exit code, the heavy modules that it imported, and standard error."""
    command = [sys.executable, "-c", SCRIPT.format(heavy=heavy), *args]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    return *json.loads(done.stdout.splitlines()[-1]), done.stderr


@pytest.mark.parametrize(
    "args",
    [
        "predict m.safetensors rows.csv -o out.csv -f",
        "predict m.safetensors rows.npy -o out.npy -f --proba --score --embedding",
        "predict m.safetensors rows.parquet -o out.parquet -f --threads 1",
        "embed m.safetensors rows.csv -o out.csv -f",
        "info m.safetensors --json",
    ],
)
def test_labelling_imports_nothing_heavy(folder, args):
    assert imported(folder, *args.split())[:2] == (0, [])


@pytest.mark.parametrize("args", ["--help", "--version", "fit --help", "predict --help"])
def test_help_imports_not_even_numpy_and_arrow(folder, args):
    assert imported(folder, *args.split(), heavy=(*HEAVY, "numpy", "pyarrow", "rich"))[:2] == (0, [])


def test_a_fit_imports_only_what_it_needs(folder):
    assert imported(folder, *"fit rows.csv -c 2 -o small.safetensors -f".split(), heavy=NOT_TO_FIT)[:2] == (0, [])


def test_commands_that_need_pandas_still_find_it(folder):
    args = "compare m.safetensors m.safetensors rows.csv -o moves.csv -f".split()
    assert imported(folder, *args, heavy=("pandas",))[:2] == (0, ["pandas"])
    assert (folder / "moves.csv").read_text().startswith("before,after,rows,match")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ("predict missing.safetensors rows.csv", "There is no model file missing.safetensors"),
        ("predict m.safetensors missing.csv", "There is no file missing.csv"),
        ("predict damaged.safetensors rows.csv", "damaged"),
        ("predict m.safetensors other.csv", "needs the columns 'x0', 'x1'"),
        ("predict m.safetensors word.csv", "'n.a.' in row"),
        ("predict m.safetensors rows.csv -o rows.parquet", "exists already"),
        ("embed m.safetensors rows.csv --sep xx", "sep"),
        ("info damaged.safetensors", "damaged"),
        ("report missing.safetensors rows.csv -o r.html", "There is no model file"),
        ("report damaged.safetensors rows.csv -o r.html", "damaged"),
        ("export missing.safetensors -o m.onnx", "There is no model file"),
        ("info missing.safetensors", "There is no model file"),
        ("report m.safetensors other.csv -o r.html", "needs the columns 'x0', 'x1'"),
        ("export m.safetensors -o m.pkl", ".onnx"),
        ("export damaged.safetensors -o m.onnx", "damaged"),
        ("scan missing.csv", "There is no file missing.csv"),
        ("scan rows.csv --columns z", "There is no column 'z'"),
        ("fit missing.csv -c 2", "There is no file missing.csv"),
        ("fit rows.csv -c 2 -o m.pkl", ".safetensors"),
        ("fit rows.csv -c 2 --columns z", "There is no column 'z'"),
        ("fit word.csv -c 2", "'n.a.' in row"),
        ("fit rows.csv -c 0", "'n_clusters' parameter of KNet must be 'auto' or an integer >= 1"),
        ("fit rows.csv -c 2 --sigma wide", "'sigma' parameter of KNet"),
        ("fit rows.csv -c 2 --train-size 0", "'train_size' parameter of KNet"),
        ("fit rows.csv -c 2 --max-iter 0", "'max_iter' parameter of KNet"),
    ],
)
def test_a_refusal_imports_nothing_heavy(folder, args, message):
    code, modules, error = imported(folder, *args.split())
    assert message in error
    assert (code, modules) == (2, [])


# A fit, in a process of its own

FIT = """
import sys, warnings
import numpy as np
from knet import Advanced, KNet, load
from knet.datasets import make_moon
warnings.simplefilter("ignore")
X, y = make_moon(120, random_state=0)
"""


def printed(code, folder):
    done = subprocess.run([sys.executable, "-c", FIT + code], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.split()


@pytest.mark.parametrize("device", ["'auto'", "'cpu'"])
def test_a_default_fit_needs_no_torch(tmp_path, device):
    code = f"""
model = KNet(2, device={device}, random_state=0).fit(X)
model.save("m.safetensors")
again = load("m.safetensors")
same = again.predict(X).tolist() == model.predict(X).tolist() == model.labels_.tolist()
again.predict_proba(X), again.transform(X), again.score(X)
print(same, "torch" in sys.modules)
"""
    assert printed(code, tmp_path) == ["True", "False"]


@pytest.mark.parametrize(
    "parameters",
    [
        "sigma='median', n_init=2, max_iter=2",
        "u_update='sma', max_iter=2",
        "sigma=0.3, max_iter=2, advanced=Advanced(init='pretrain')",
        "max_iter=2, advanced=Advanced(reconstruction_weight='balanced', keep_embeddings=True)",
        "max_iter=2, advanced=Advanced(degrees='differentiated')",
        "max_iter=1, advanced=Advanced(laplacian='nystroem')",
        "n_clusters='auto', max_iter=1",
    ],
)
def test_no_setting_of_the_default_network_needs_torch(tmp_path, parameters):
    number = "" if "n_clusters" in parameters else "2, "
    code = (
        f"model = KNet({number}{parameters}, random_state=0).fit(X)\nprint(len(model.labels_), 'torch' in sys.modules)"
    )
    assert printed(code, tmp_path) == ["120", "False"]


def test_a_fit_with_an_own_encoder_imports_what_it_needs(tmp_path):
    code = """
import torch
torch.manual_seed(0)
own = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 3))
state = torch.get_rng_state()
model = KNet(2, encoder=own, random_state=0).fit(X)
model.save("m.safetensors")
same = load("m.safetensors", encoder=own).predict(X).tolist() == model.predict(X).tolist()
print(same, torch.equal(torch.get_rng_state(), state), len(set(model.labels_.tolist())))
"""
    assert printed(code, tmp_path) == ["True", "True", "2"]


def test_a_default_fit_after_torch_was_imported_is_the_same(tmp_path):
    code = "print(*KNet(2, random_state=0).fit(X).transform(X)[0])"
    assert printed(code, tmp_path) == printed("import torch\n" + code, tmp_path)
