"""How reliable labels are: refits on other rows and with other seeds."""

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import make_blobs

from knet import Advanced, KNet
from knet.explore.samples import sample_rows
from knet.explore.stability import _compare, sample_stability


def test_separated_clusters_are_stable_throughout(seed):
    X = make_blobs(150, centers=[[0, 0], [9, 0], [0, 9]], random_state=seed)[0]
    model = KNet(3, random_state=seed, n_init=1).fit(X)
    found = model.stability(X, n_refits=2)
    assert found.overall > 0.95
    assert found.clusters.min() > 0.95
    assert found.rows.shape == (150,)
    assert found.rows.mean() > 0.95


def test_a_cloud_cut_at_random_is_not_stable(seed):
    X = np.random.default_rng(seed).normal(size=(200, 4))
    model = KNet(4, random_state=seed, n_init=1, max_iter=2).fit(X)
    found = model.stability(X, n_refits=3)
    assert found.overall < 0.7
    assert found.rows.min() < 1
    assert ((found.rows >= 0) & (found.rows <= 1)).all()


def test_agreement_counted_by_hand():
    labels = np.array([0, 0, 0, 1, 1, 1])
    same_but_renamed, one_moved = np.array([1, 1, 1, 0, 0, 0]), np.array([0, 0, 1, 1, 1, 1])
    found = _compare(labels, [same_but_renamed, one_moved], 3, 3)
    np.testing.assert_allclose(found.rows, [1, 1, 0.5, 1, 1, 1])
    np.testing.assert_allclose(found.clusters, [(1 + 2 / 3) / 2, (1 + 3 / 4) / 2, np.nan])
    assert 0 < found.overall < 1


def test_tables_keep_their_columns_and_results_repeat():
    X = pd.DataFrame(make_blobs(80, centers=[[0, 0], [9, 0]], random_state=0)[0], columns=["a", "b"])
    model = KNet(2, random_state=0, n_init=1).fit(X)
    found, again = (model.stability(X, n_refits=2, random_state=0, n_jobs=n_jobs) for n_jobs in (1, 2))
    assert found.overall == again.overall
    assert found.rows.tolist() == again.rows.tolist()


def test_refits_keep_the_parameters_but_store_no_embeddings(monkeypatch):
    X = make_blobs(80, centers=[[0, 0], [9, 0]], random_state=0)[0]
    advanced = Advanced(degrees="differentiated", keep_embeddings=True, steps_per_iter=5)
    model = KNet(2, random_state=0, n_init=1, max_iter=1, tol=1.0, advanced=advanced).fit(X)
    fitted, fit = [], KNet.fit
    monkeypatch.setattr(KNet, "fit", lambda self, X: fitted.append(self) or fit(self, X))
    model.stability(X, n_refits=1)
    params = fitted[0].get_params()
    assert params["advanced__degrees"] == "differentiated"
    assert params["advanced__keep_embeddings"] is False
    assert params["random_state"] != 0
    assert model.advanced is advanced
    assert advanced.keep_embeddings is True


def test_no_refits_are_refused():
    X = make_blobs(40, centers=2, random_state=0)[0]
    with pytest.raises(ValueError, match="n_refits must be at least 1"):
        KNet(2, random_state=0, n_init=1, max_iter=1).fit(X).stability(X, n_refits=0)


def test_a_result_is_short_as_text_and_a_table(seed):
    X = make_blobs(150, centers=[[0, 0], [9, 0], [0, 9]], random_state=seed)[0]
    found = KNet(3, random_state=seed, max_iter=1).fit(X).stability(X, n_refits=1)
    assert repr(found) == "<stability 1.00 over 1 refit; clusters: 1, 1, 1>"
    frame = found.to_frame()
    assert frame.columns.tolist() == ["cluster", "n_rows", "stability"]
    assert frame["n_rows"].tolist() == [50, 50, 50]
    assert "<td>50</td>" in found._repr_html_()
    assert found.caveat == ""
    assert found.word == "stable"


def test_too_few_rows_are_said():
    X = np.array([[0.0, 1.0], [0.0, 2.0], [9.0, 9.0]])
    found = KNet(2, random_state=0).fit(X).stability(X, n_refits=2)
    assert not found.is_known
    assert "too few rows" in repr(found)
    labels = np.repeat([0, 1, 3], [200, 8, 25])
    some = _compare(labels, [labels], 4, 116)
    assert some.is_known
    assert some.too_small.tolist() == [1]  # half of 8 rows are 4, half of 25 are more than 10, and cluster 2 is empty
    assert some.caveat.endswith("of them): 1.")
    assert "clusters: 1, 1, -, 1" in repr(some)


def test_rows_that_a_refit_sees_are_counted_in_large_data():
    labels = np.repeat([0, 1], [99_900, 100])
    assert _compare(labels, [labels], 2, 1000).too_small.tolist() == [1]


def test_the_stability_of_a_sample_keeps_sparse_rows_sparse(seed):
    rng = np.random.default_rng(seed)
    topics = rng.dirichlet(np.full(300, 0.05), size=3)
    counts = np.stack([rng.multinomial(60, topics[label]) for label in rng.integers(3, size=300)])
    X = csr_array(counts.astype(float))
    model = KNet(3, random_state=seed).fit(X)
    rows = sample_rows(model, X, 2000)
    found = sample_stability(model, X, rows, n_refits=2, random_state=0)
    assert found.overall > 0.9
    assert found.doubts == []


def test_doubts_name_clusters_that_refits_do_not_find():
    labels = np.repeat([0, 1, 2], [400, 400, 40])
    split = labels.copy()
    split[-40:] = np.arange(40) % 2  # the small cluster is divided among the others
    assert _compare(labels, [labels], 3, 420).doubts == []
    assert "find other clusters" in _compare(labels, [np.arange(840) % 3], 3, 420).doubts[0]
    assert _compare(labels, [split], 3, 420).doubts == [
        "Refits do not find these clusters again (overlap below 0.5): 2."
    ]
