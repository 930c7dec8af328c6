"""How honest the memberships are, and what the reject option rejects: `python -m benchmarks.certainty [--seeds 3]`.

Half of the rows of each case train, the other half is judged. Clusters are matched one to one to the true groups by the
training half. The expected calibration error is the mean over judged rows of |confidence - share right| in ten bins of
equal width; the confidence of a row is its largest membership. The AUC is the probability that a right label has a
higher confidence than a wrong one. A Gaussian mixture is fitted to the same scaled rows.

With `--beside CHECKOUT`, the code of another checkout runs the same cases. More data sets are judged with
`--battery FOLDER`, the generated battery and the files of `benchmarks.quality` in FOLDER, and with `--vectors FOLDER`,
files NAME.npz with texts or images as vectors X and their groups y; a folder that is missing is skipped. The mixture
gets 50 principal components of vectors, and one covariance for all groups.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import make_moons
from sklearn.decomposition import PCA
from sklearn.metrics import roc_auc_score
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler

from benchmarks.certainty_cases import CASES, NO_GROUPS, Data, make
from benchmarks.generated_battery import BATTERY
from benchmarks.generated_battery import make as make_generated
from benchmarks.quality import datasets
from knet import KNet

BINS = 10
MAX_ROWS = 3000  # of a file or a generated set, at most
COMPONENTS = 50  # of vectors, for the mixture
REJECT = 0.05
Row = dict[str, float]


def calibration_error(confidence: np.ndarray, right: np.ndarray) -> float:
    """Return the expected calibration error in bins of equal width."""
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    gaps = [abs((confidence - right)[bins == number].sum()) for number in range(BINS)]
    return float(sum(gaps) / len(right))


def judge(labels: np.ndarray, proba: np.ndarray, y: np.ndarray, n_train: int) -> Row:
    """Return accuracy, mean confidence, calibration error and AUC of the rows after the first `n_train`.

    Rows of noise, with a true group below 0, are not judged.
    """
    n_clusters = proba.shape[1]
    counts = np.zeros((n_clusters, max(n_clusters, int(y.max()) + 1)))
    known = y[:n_train] >= 0
    np.add.at(counts, (labels[:n_train][known], y[:n_train][known]), 1)
    group_of = dict(zip(*linear_sum_assignment(-counts), strict=True))
    judged = np.flatnonzero(y[n_train:] >= 0) + n_train
    right = np.array([group_of[label] for label in labels[judged]]) == y[judged]
    confidence = proba[judged].max(1)
    return {
        "accuracy": float(right.mean()),
        "confidence": float(confidence.mean()),
        "error": calibration_error(confidence, right),
        "auc": float(roc_auc_score(right, confidence)) if 0 < right.mean() < 1 else np.nan,
    }


def data_of(case: str, folder: Path | None) -> Data:
    """Return the rows of a case and their groups from 0; -1 is noise. A case is source:name:seed."""
    source, name, seed = case.split(":")
    if source == "case":
        return make(name, int(seed))
    if source == "generated":
        X, y = make_generated(name, int(seed))
    elif source == "vectors":
        with np.load(folder / f"{name}.npz") as file:
            X, y = file["X"].astype(np.float32), np.unique(file["y"], return_inverse=True)[1] + 1
    else:
        X, labelings = next((X, labelings) for own, X, labelings in datasets(folder / source) if own == name)
        y = labelings[0]
    order = np.random.default_rng(int(seed)).permutation(len(X))[:MAX_ROWS]
    return X[order], y[order] - 1


def measure(case: str, folder: Path | None) -> dict[str, Row]:
    """Return what knet and a Gaussian mixture reach in a case."""
    return compare(*data_of(case, folder), int(case.split(":")[2]), is_vectors=case.startswith("vectors:"))


def compare(X: np.ndarray, y: np.ndarray, seed: int, *, is_vectors: bool) -> dict[str, Row]:
    """Return what knet and a Gaussian mixture reach after training on the first half of the rows."""
    n_train, n_clusters = len(X) // 2, len(np.unique(y[y >= 0]))
    model = KNet(n_clusters, random_state=seed, device="cpu").fit(X[:n_train])
    scaler = PCA(COMPONENTS, random_state=seed) if is_vectors else StandardScaler()
    Z, kind = scaler.fit(X[:n_train]).transform(X), "tied" if is_vectors else "full"
    mixture = GaussianMixture(n_clusters, covariance_type=kind, n_init=3, reg_covar=1e-3, random_state=seed)
    mixture.fit(Z[:n_train])
    return {
        "knet": judge(model.predict(X), model.predict_proba(X), y, n_train),
        "mixture": judge(mixture.predict(Z), mixture.predict_proba(Z), y, n_train),
    }


def run_cases(checkout: Path, cases: list[str], folder: Path | None) -> Iterator[tuple[str, dict[str, Row]]]:
    """Yield each case and its rows, measured with the code of a checkout."""
    here = Path(__file__).parents[1]
    path = os.pathsep.join([str(checkout / "src"), str(here)])
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    options = [] if folder is None else ["--folder", str(folder)]
    command = [sys.executable, "-m", "benchmarks.certainty", *options, "--cases", json.dumps(cases)]
    with subprocess.Popen(command, env=environment, cwd=here, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            case, rows = json.loads(line)
            yield case, rows
    if process.returncode:
        raise SystemExit(process.returncode)


def names_in(battery: Path) -> dict[str, list[str]]:
    """Return the names of the generated data sets and of those in a folder, by family."""
    families = sorted(path.name for path in battery.iterdir() if any(path.glob("*.data.gz")))
    stored = {family: [name for name, *_ in datasets(battery / family)] for family in families}
    return {"generated": list(BATTERY), **stored}


def print_table(family: str, names: list[str], folder: Path | None, options: argparse.Namespace) -> None:
    """Judge all cases of a family and print one line per case, and the means."""
    checkouts = {"knet": Path(__file__).parents[1]} | ({"beside": options.beside} if options.beside else {})
    cases = [f"{family}:{name}:{seed}" for name in names for seed in range(options.seeds)]
    columns: dict[str, dict[str, list[Row]]] = {}
    for label, checkout in checkouts.items():
        for case, rows in run_cases(checkout, cases, folder):
            line = case.split(":")[1]
            columns.setdefault(label, {}).setdefault(line, []).append(rows["knet"])
            if label == "knet":
                columns.setdefault("mixture", {}).setdefault(line, []).append(rows["mixture"])
    print(f"\n{family:32}" + "".join(f" | {label:>7} right  sure error   AUC" for label in columns))
    for line in columns["knet"]:
        cells = [mean_row(rows[line]) for rows in columns.values()]
        print(f"{line:32}" + "".join(f" | {'':7} {format_row(cell)}" for cell in cells))
    judged = [line for line in columns["knet"] if line != NO_GROUPS]
    means = [mean_row([mean_row(rows[line]) for line in judged]) for rows in columns.values()]
    print(f"{'mean of those with groups':32}" + "".join(f" | {'':7} {format_row(mean)}" for mean in means), flush=True)


def mean_row(rows: list[Row]) -> Row:
    """Return the means of the entries; NaN (no wrong label) is left out."""
    with warnings.catch_warnings(action="ignore"):
        return {name: float(np.nanmean([row[name] for row in rows])) for name in rows[0]}


def format_row(row: Row) -> str:
    """Return a row as text."""
    return f"{row['accuracy']:5.3f} {row['confidence']:5.3f} {row['error']:5.3f} {row['auc']:5.3f}"


def moons_and_noise(seed: int) -> Data:
    """Return a thousand rows of two moons, and fifty uniform rows at a distance of at least 1 from all of them."""
    rng = np.random.default_rng(seed)
    X, y = make_moons(1000, noise=0.1, random_state=seed)
    noise = rng.uniform(-4.5, 5.5, (1000, 2))
    far = np.sqrt(np.square(noise[:, None] - X).sum(2)).min(1) > 1
    return np.vstack([X, noise[far][:50]]), np.append(y, np.full(50, -1))


def print_rejections(seeds: int) -> None:
    """Print what is rejected of new rows if noise is among the training rows too, and if it is not."""
    print(f"\nmoons and 5 % noise, reject={REJECT}   {'noise rejected':>15} {'rest rejected':>15}")
    for place in ("training and new rows", "new rows only"):
        shares = []
        for seed in range(seeds):
            X, y = moons_and_noise(seed)
            first = np.arange(len(X)) % 2 == 0
            trained = first if place.startswith("training") else first & (y >= 0)
            labels = KNet(2, random_state=seed, device="cpu").fit(X[trained]).predict(X[~first], reject=REJECT)
            shares.append([(labels[y[~first] < 0] == -1).mean(), (labels[y[~first] >= 0] == -1).mean()])
        noise, rest = np.mean(shares, 0)
        print(f"noise in {place:26} {noise:15.3f} {rest:15.3f}", flush=True)


def print_costs() -> None:
    """Print the share of a fit that certainty takes, and the time of memberships relative to that of labels."""
    from knet.model import summary

    spent, learn = [], summary.learn_certainty

    def timed(*args):
        started = time.process_time()
        certainty = learn(*args)
        spent.append(time.process_time() - started)
        return certainty

    print(f"\n{'certainty, share of the fit':32} median of 5")
    for name in ("moons, noise 0.15", "wine", "20 groups", "digits"):
        X, y = make(name, 0)
        shares = []
        for seed in range(5):
            started = time.process_time()
            with patch.object(summary, "learn_certainty", timed):
                KNet(len(np.unique(y)), random_state=seed, device="cpu").fit(X)
            shares.append(spent[-1] / (time.process_time() - started))
        print(f"{name:32} {np.median(shares):11.2f}")
    print(f"\n{'proba / predict, 200,000 rows':32} best of 5")
    for n_columns, n_clusters in ((2, 2), (10, 5), (30, 40)):
        rng = np.random.default_rng(0)
        X = (rng.normal(size=(n_clusters, n_columns)) * 5).repeat(50, 0) + rng.normal(size=(50 * n_clusters, n_columns))
        model = KNet(n_clusters, max_iter=1, random_state=0, device="cpu").fit(X)
        rows = rng.normal(size=(200_000, n_columns)) * 5
        best = [min(seconds(method, rows) for _ in range(5)) for method in (model.predict, model.predict_proba)]
        print(f"{f'{n_columns} columns, {n_clusters} clusters':32} {best[1] / best[0]:9.2f}", flush=True)


def seconds(method, rows: np.ndarray) -> float:
    """Return the processor time of a call."""
    started = time.process_time()
    method(rows)
    return time.process_time() - started


def main() -> int:
    """Print all tables; return the exit code."""
    parser = argparse.ArgumentParser(prog="certainty", description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--beside", type=Path, help="another checkout of knet, measured in the same run")
    parser.add_argument("--battery", type=Path, help="folder with batteries, which are judged too")
    parser.add_argument("--vectors", type=Path, help="folder with vectors, which are judged too")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--cases", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.cases is not None:
        for case in options.cases:
            print(json.dumps([case, measure(case, options.folder)]), flush=True)
        return 0
    print_table("case", list(CASES), None, options)
    if options.vectors is not None and options.vectors.is_dir():
        names = sorted(path.stem for path in options.vectors.glob("*.npz"))
        print_table("vectors", names, options.vectors, options)
    if options.battery is not None and options.battery.is_dir():
        for family, names in names_in(options.battery).items():
            print_table(family, names, options.battery, options)
    print_rejections(options.seeds)
    print_costs()
    return 0


if __name__ == "__main__":
    sys.exit(main())
