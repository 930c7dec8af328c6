"""The number of clusters: found by one rule in `knet.scan` and `KNet("auto")`, with how clear it is."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure
from scipy.sparse import csr_matrix
from sklearn.datasets import make_blobs, make_circles
from sklearn.metrics import adjusted_rand_score
from typer.testing import CliRunner

import knet
from knet import KNet
from knet.cli.app import app
from knet.datasets import make_moon, make_spirals
from knet.exceptions import KNetDataWarning, ModelFileError
from knet.model.levels import join_clusters, level_columns
from knet.start import number as number_module
from knet.start.borders import CLEAR, PLAUSIBLE, _inner_links, links_between, merge_order, parallel_cuts, weakest_border
from knet.start.candidates import METHODS
from knet.start.neighbors import neighbor_graph, neighbors

COLUMNS = ["n_clusters", "verdict", "value", "border", "conductance", "gain", "smallest_group", "method", "next_step"]
SHOWN = ["n_clusters", "verdict", "value", "border", "smallest_group", "next_step"]

plots = pytest.importorskip("knet.show.plots", reason="plots need matplotlib")


def separated(seed):
    return {
        2: make_moon(400, random_state=seed)[0],
        3: make_spirals(600, random_state=seed)[0],
        4: make_blobs(300, centers=[[0, 0, 0], [9, 0, 0], [0, 9, 0], [0, 0, 9]], random_state=seed)[0],
    }


def three_pairs(seed):
    """Return rows of three pairs of groups that touch, and the pair of each row."""
    centers = [[0, 0], [0, 4.5], [12, 0], [12, 4.5], [6, 14], [10.5, 14]]
    X = np.repeat(centers, 200, axis=0) + np.random.default_rng(seed).normal(size=(1200, 2))
    return X, np.repeat([0, 1, 2], 400)


def without_groups(seed):
    rng = np.random.default_rng(seed)
    angle = rng.uniform(0, 2 * np.pi, 400)
    return {
        "normal": rng.normal(size=(300, 3)),
        "uniform": rng.uniform(size=(400, 2)),
        "exponential": rng.exponential(size=(300, 4)),
        "ring": np.c_[np.cos(angle), np.sin(angle)] + rng.normal(0, 0.08, (400, 2)),
        "half a ring": np.c_[np.cos(angle / 2), np.sin(angle / 2)] + rng.normal(0, 0.08, (400, 2)),
    }


@pytest.mark.parametrize("c", [2, 3, 4])
def test_separated_groups_are_counted(seed, c):
    found = knet.scan(separated(seed)[c], 6, random_state=seed)
    assert (found.best, found.verdict) == (c, "clear")
    assert c in found.levels
    assert found.advice.startswith(f"{c} clusters, clearly")


def test_groups_within_groups_have_several_levels():
    for seed in range(4):
        found = knet.scan(three_pairs(seed)[0], 8, random_state=seed)
        assert found.best > 3
        assert 3 in found.levels


def test_rows_without_groups_never_have_a_clear_number(seed):
    found = {name: knet.scan(X, 8, random_state=seed) for name, X in without_groups(seed).items()}
    assert [name for name, scan in found.items() if "clear" in {row["verdict"] for row in scan.table}] == []
    assert sum(scan.best == 1 or scan.verdict == "a guess" for scan in found.values()) >= 4
    assert all(scan.levels == [] for scan in found.values() if scan.best == 1 or scan.verdict == "a guess")
    assert knet.scan(without_groups(seed)["normal"], 8, random_state=seed).best == 1


def test_many_groups_are_found_without_asking():
    rng = np.random.default_rng(0)
    centers = np.stack(np.meshgrid(range(5), range(5)), -1).reshape(-1, 2)
    X = np.repeat(centers, 40, axis=0) + rng.normal(0, 0.12, (1000, 2))
    found = knet.scan(X, random_state=0)
    assert found.best == 25
    assert found.table[-1]["n_clusters"] > number_module.FIRST_MAX


def test_the_table_contains_what_the_advice_uses():
    X = make_circles(300, noise=0.04, factor=0.4, random_state=0)[0]
    found = knet.scan(X, 4, random_state=0)
    assert [row["n_clusters"] for row in found.table] == [2, 3, 4]
    for c, (row, following) in enumerate(zip(found.table, found.table[1:], strict=False), start=2):
        jump = np.log(following["conductance"] / row["conductance"]) - np.log((c + 1) / c) / 2
        assert row["value"] == pytest.approx(jump + 2 * row["gain"] / np.sqrt(2))
    for row in found.table:
        by_border = "clear" if row["border"] >= CLEAR else "plausible" if row["border"] >= PLAUSIBLE else "a guess"
        assert row["verdict"] in (by_border, "plausible")
        assert 0 < row["conductance"] <= 1
        assert row["smallest_group"] >= 1
        assert row["method"] in METHODS
        assert list(row) == COLUMNS
    assert found.best == found.levels[-1] == 2
    vague = knet.scan(np.random.default_rng(0).normal(size=(200, 2)) ** 3, 6, random_state=0)
    values = {row["n_clusters"]: row["value"] for row in vague.table}
    assert vague.best in (1, max(values, key=values.get))


def test_a_scan_is_a_rounded_table_as_text():
    found = knet.scan(make_moon(200, random_state=0)[0], 4, random_state=0)
    lines = repr(found).splitlines()
    assert lines[0].split() == SHOWN
    assert lines[-1] == found.advice
    assert len(lines) == 5
    assert max(map(len, lines[:-1])) < 120
    assert found.advice in found._repr_html_()
    frame = found.to_frame()
    assert frame.index.tolist() == [2, 3, 4]
    assert frame["value"].tolist() == [row["value"] for row in found.table]


def test_stability_is_measured_on_demand_with_any_number_of_jobs():
    X = pd.DataFrame(make_moon(200, random_state=0)[0], columns=["a", "b"])
    found = knet.scan(X, 4, random_state=3, n_resamples=2)
    assert found == knet.scan(X, 4, random_state=3, n_resamples=2, n_jobs=2)
    assert all(-1 <= row["stability"] <= 1 for row in found.table)
    assert found.table[0]["stability"] > found.table[-1]["stability"]
    assert "stability" not in knet.scan(X, 4, random_state=3).table[0]


def test_a_scan_uses_a_bounded_number_of_rows(monkeypatch):
    sizes, judge = [], number_module.Judge
    monkeypatch.setattr(number_module, "Judge", lambda X, near, **more: sizes.append(len(X)) or judge(X, near, **more))
    knet.scan(make_blobs(3000, centers=[[0, 0], [9, 0]], random_state=0)[0], 2, random_state=0)
    assert sizes == [number_module.SCAN_ROWS]


def test_the_units_of_columns_do_not_matter():
    X = make_blobs(200, centers=[[0, 0], [9, 0], [0, 9]], random_state=0)[0] * [1e-6, 1e6]
    assert knet.scan(X, 5, random_state=0).best == 3


def test_limits_are_applied_and_said(rng):
    found = knet.scan(rng.normal(size=(11, 2)), 20, random_state=0)
    assert [row["n_clusters"] for row in found.table] == [2, 3, 4]
    assert "too few different rows to compare more than 4 clusters" in found.advice
    few = knet.scan(np.repeat(np.eye(3), 20, axis=0), random_state=0)
    assert (few.best, few.table) == (1, [])
    assert "too few different rows" in few.advice
    assert few.advice in repr(few)
    assert few.advice in few._repr_html_()
    assert len(few.to_frame()) == 0
    assert "best: 1" in plots.scan(few).texts[0].get_text()


def test_wrong_arguments_are_refused_as_in_fit(rng):
    X = rng.normal(size=(100, 2))
    for wrong in (1, 2.5, "many"):
        with pytest.raises(ValueError, match="'max_clusters' parameter of scan"):
            knet.scan(X, wrong)
        with pytest.raises(ValueError, match="'max_clusters' parameter of KNet"):
            KNet(max_clusters=wrong).fit(X)
    with pytest.raises(ValueError, match="'n_clusters' parameter of KNet must be 'auto' or an integer >= 1"):
        KNet("aut").fit(X)
    X[3, 1] = np.inf
    with pytest.raises(ValueError, match="inf"):
        knet.scan(X)


@pytest.mark.parametrize("c", [2, 1])
def test_the_plot_marks_the_best(c):
    X = make_moon(200, random_state=0)[0] if c == 2 else np.random.default_rng(0).normal(size=(200, 3))
    found = knet.scan(X, 5, random_state=0)
    ax = plots.scan(found)
    assert found.best == c
    assert f"best: {c}" in ax.get_title() + "".join(text.get_text() for text in ax.texts)
    assert ax.get_lines()[0].get_ydata().tolist() == [row["border"] for row in found.table]
    drawn = {text.get_text() for text in ax.get_legend().get_texts()}
    assert drawn == {row["verdict"] for row in found.table}


def test_a_numpy_generator_is_a_random_state():
    X = make_moon(200, random_state=0)[0]
    first, second = (knet.scan(X, 3, random_state=np.random.default_rng(5)) for _ in range(2))
    assert first == second


# KNet("auto")


@pytest.mark.filterwarnings("ignore:.*are a guess")
def test_auto_finds_the_number_that_scan_finds(seed, tmp_path):
    for c, X in separated(seed).items():
        model = KNet(random_state=seed).fit(X)
        assert model.n_clusters == "auto"
        assert model.n_clusters_ == len(model.cluster_centers_) == c
        scanned = knet.scan(X, random_state=seed)
        assert model.number_ == vars(scanned)
        given = KNet(c, random_state=seed).fit(X)
        assert given.number_["verdict"] == "clear"
        assert given.number_["table"] == []
        assert adjusted_rand_score(given.labels_, model.labels_) == 1
    model.save(tmp_path / "m.safetensors")
    again = knet.load(tmp_path / "m.safetensors")
    assert (again.n_clusters, again.n_clusters_, again.number_) == ("auto", c, model.number_)
    assert again.hierarchy_ == model.hierarchy_
    assert np.array_equal(again.levels(X, [2, c]), model.levels(X, [2, c]))


def test_one_cluster_is_an_answer():
    X = np.random.default_rng(0).normal(size=(300, 3))
    model = KNet(random_state=0).fit(X)
    assert model.n_clusters_ == 1
    assert model.number_["advice"].startswith("1 cluster:")
    assert not model.labels_.any()
    assert model.levels(X).shape == (300, 1)
    same = KNet(random_state=0).fit(np.ones((20, 2)))
    assert same.n_clusters_ == 1


def test_a_guess_is_said_by_auto_and_max_clusters_bounds_it():
    X = np.random.default_rng(2).uniform(-1, 1, size=(400, 2))
    X[:, 1] = X[:, 1] / 4 + X[:, 0] ** 2  # a curved band: several Gaussians describe it better, but none has a border
    with pytest.warns(KNetDataWarning, match="are a guess"):
        model = KNet(max_clusters=3, random_state=0).fit(X)
    assert model.number_["verdict"] == "a guess"
    assert model.n_clusters_ <= 3
    assert any("a guess" in caveat for caveat in model.caveats_)


def test_a_number_changed_after_the_fit_is_not_saved(tmp_path):
    model = KNet(2, random_state=0).fit(make_moon(100, random_state=0)[0])
    model.n_clusters = 3
    with pytest.raises(ModelFileError, match="n_clusters is not its number of clusters"):
        model.save(tmp_path / "m.safetensors")


# levels


def test_levels_join_the_closest_clusters_first():
    rng = np.random.default_rng(0)
    centers = [[0, 0], [2.5, 0], [20, 0], [22.5, 0], [0, 40], [2.5, 40]]
    X = np.repeat(centers, 80, axis=0) + rng.normal(0, 0.6, (480, 2))
    pairs, rows = np.repeat([0, 1, 2], 160), np.arange(480)
    model = KNet(6, random_state=0).fit(X)
    levels = model.levels(X, [3, 6])
    assert np.array_equal(levels[:, 1], model.labels_)
    assert adjusted_rand_score(pairs, levels[:, 0]) > 0.98
    for fine in range(6):
        assert len(np.unique(levels[levels[:, 1] == fine, 0])) <= 1  # each fine cluster lies in one coarse cluster
    assert np.array_equal(model.levels(X[rows[::7]], [1, 2, 3, 4, 5, 6])[:, 2], levels[::7, 0])
    for wrong in ([0], [7]):
        with pytest.raises(ValueError, match="from 1 to 6"):
            model.levels(X, wrong)


def test_joining_is_nested_for_every_hierarchy(rng):
    for c in (1, 2, 5, 9):
        labels = rng.integers(c, size=200)
        graph = neighbor_graph(neighbors(rng.normal(size=(200, 3)), 10), 10)
        hierarchy = merge_order(graph, labels, c)
        counts = list(range(1, c + 1))
        levels = join_clusters(labels, hierarchy, counts)
        assert np.array_equal(levels[:, -1], labels)
        for coarse, fine in zip(levels.T, levels.T[1:], strict=False):
            assert len(set(zip(coarse, fine, strict=True))) == len(set(fine))
        assert [len(np.unique(level)) for level in levels.T] == [min(count, len(set(labels))) for count in counts]


def test_columns_of_levels_leave_rejected_rows_out():
    hierarchy = [[0, 2], [0, 3], [0, 1]]
    columns = level_columns(np.array([0, 1, 2, 3, -1]), hierarchy, [2, 3, 4])
    assert {name: column.tolist() for name, column in columns.items()} == {
        "level_1": [0, 1, 0, 0, -1],
        "level_2": [0, 1, 0, 2, -1],
    }
    assert level_columns(np.array([0]), [], [1]) == {}


def test_commands_write_coarser_levels(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    X, groups = three_pairs(0)
    np.savetxt("rows.csv", X, delimiter=",", header="a,b", comments="")
    knet = CliRunner().invoke
    fitted = knet(app, "fit rows.csv -o m.safetensors --labels fit.csv --n-refits 0".split())
    assert fitted.exit_code == 0, fitted.output
    again = knet(app, "predict m.safetensors rows.csv --levels -o predict.csv".split())
    assert again.exit_code == 0, again.output
    labels = np.genfromtxt("fit.csv", delimiter=",", names=True)
    assert "level_1" in labels.dtype.names
    assert adjusted_rand_score(groups, labels["level_1"]) == 1
    assert Path("fit.csv").read_bytes() == Path("predict.csv").read_bytes()


def test_the_picture_of_levels_has_a_leaf_for_each_cluster(rng):
    for c in (1, 2, 5):
        X = np.repeat(np.arange(c) * 10.0, 30)[:, None] + rng.normal(size=(30 * c, 1))
        ax = plots.levels(KNet(c, random_state=0).fit(X), ax=Figure().subplots())
        leaves = [label.get_text() for label in ax.get_xticklabels()]
        assert c == 1 or sorted(leaves) == [str(cluster) for cluster in range(c)]


def chain(*lengths):
    """Return the graph of rows in a line, of which each part has links to the next two, and the parts."""
    labels = np.repeat(np.arange(len(lengths)), lengths)
    links = np.zeros((len(labels), len(labels)))
    for row in range(len(labels) - 1):
        links[row, row + 1] = links[row + 1, row] = 1
    return csr_matrix(links), labels


def test_a_chain_is_cut_parallel_to_its_border():
    graph, labels = chain(12, 6)
    between = links_between(graph, labels)
    assert between.tolist() == [[22, 1], [1, 10]]
    cuts = parallel_cuts(graph, _inner_links(graph, labels), labels, between)
    assert cuts[0, 1] == pytest.approx(1)  # any cut through a chain breaks one link
    assert cuts[1, 0] == pytest.approx(1)
    border = weakest_border(graph, labels, 10)
    assert border.strength == pytest.approx(0)  # as many links across as inside
    assert (border.verdict, border.finding) == ("a guess", "groups of 12 and 6 rows run into each other")


def test_a_group_that_is_not_connected_is_said_to_fall_apart():
    graph, labels = chain(10, 10, 10)
    border = weakest_border(graph, np.where(labels == 2, 0, labels), 10)
    assert border.falls_apart == 20
    assert (border.verdict, border.finding) == ("a guess", "a group of 20 rows falls apart")


def test_borders_of_bent_bands_hold_only_between_bands(seed):
    X, y = make_circles(600, noise=0.05, factor=0.45, random_state=seed)
    graph = neighbor_graph(neighbors(X, 10), 10)
    assert weakest_border(graph, y, 10).verdict == "clear"
    by_angle = (np.arctan2(X[:, 1], X[:, 0]) + np.pi) // (2 * np.pi / 3.0001)
    pieces = (y * 3 + by_angle).astype(np.int64)
    assert weakest_border(graph, pieces, 10).strength < CLEAR
