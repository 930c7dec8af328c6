"""IMSAT: its objective has the properties of its paper, and it finds plain clusters."""

import numpy as np
import pytest
import torch

from benchmarks import imsat
from benchmarks.imsat import IMSAT, adversarial_direction, build_network, divergence, entropy, frozen_statistics
from knet.metrics import ari


@pytest.fixture
def generator(seed):
    return torch.Generator().manual_seed(seed)


@pytest.fixture
def trained(generator):
    """Return a network with outputs far from uniform, and some rows."""
    network = build_network(3, 4, generator)
    torch.nn.init.normal_(network[-1].weight, generator=generator)
    return network, torch.randn(50, 3, generator=generator)


def test_entropy_is_log_c_for_uniform_and_0_for_certain():
    p = torch.tensor([[0.25, 0.25, 0.25, 0.25], [1.0, 0, 0, 0]])
    assert torch.allclose(entropy(p), torch.tensor([np.log(4), 0.0], dtype=torch.float32))


def test_the_gradient_is_finite_where_a_cluster_is_certain():
    logits = torch.tensor([[200.0, 0.0], [0.0, 300.0]], requires_grad=True)
    entropy(logits.softmax(1)).sum().backward()
    assert torch.isfinite(logits.grad).all()


def test_divergence_is_0_for_equal_distributions_and_positive_otherwise(generator):
    logits = torch.randn(20, 4, generator=generator)
    assert divergence(logits, logits + 3).item() == pytest.approx(0, abs=1e-6)
    assert divergence(logits, torch.randn(20, 4, generator=generator)) > 0.1


def test_the_adversarial_direction_changes_more_than_a_random_one(trained, generator):
    network, X = trained
    logits, eps = network(X).detach(), torch.full((50, 1), 0.2)
    with frozen_statistics(network):
        worst = adversarial_direction(network, X, eps, logits, generator)
        random = torch.nn.functional.normalize(torch.randn(X.shape, generator=generator), dim=1)
        assert torch.allclose(worst.norm(dim=1), torch.ones(50), atol=1e-4)
        changes = [divergence(logits, network(X + eps * d)).item() for d in (worst, random)]
    assert changes[0] > changes[1]


def test_perturbed_rows_leave_no_trace_in_the_statistics(trained):
    network, X = trained
    before = [norm.running_mean.clone() for norm in network if isinstance(norm, torch.nn.BatchNorm1d)]
    with frozen_statistics(network):
        network(X + 100)
    after = [norm.running_mean for norm in network if isinstance(norm, torch.nn.BatchNorm1d)]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))
    network(X + 100)
    assert not torch.equal(before[0], after[0])


def test_the_perturbation_is_a_quarter_of_the_distance_to_the_tenth_neighbour():
    X = np.arange(21, dtype=float)[:, None]
    sizes = IMSAT(2).prepare(X)
    assert sizes[10] == pytest.approx(0.25 * 5)  # five neighbours on each side
    assert sizes[0] == pytest.approx(0.25 * 10)


def test_plain_clusters_are_found_and_new_rows_labelled(monkeypatch):
    monkeypatch.setattr(imsat, "HIDDEN", 64)
    scores = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        y = np.arange(180) % 3
        X = rng.normal(size=(180, 2)) * 0.25 + np.array([[0, 0], [3, 0], [0, 3]])[y]
        model = IMSAT(3, epochs=60, random_state=seed).fit(X[:120])
        scores.append(ari(y, model.predict(X)))
    assert np.mean(scores) > 0.9


def test_the_same_seed_gives_the_same_labels(monkeypatch):
    monkeypatch.setattr(imsat, "HIDDEN", 32)
    X = np.random.default_rng(0).normal(size=(40, 2))
    first, second = (IMSAT(2, epochs=3, random_state=5).fit(X).predict(X) for _ in range(2))
    assert np.array_equal(first, second)
