"""The written-out Adam against torch's own."""

import numpy as np
import pytest
import torch
from torch import nn

from knet.train.adam import Adam


@pytest.mark.parametrize(("dtype", "rtol", "atol"), [(np.float64, 1e-9, 1e-12), (np.float32, 1e-4, 1e-6)])
def test_adam_takes_the_steps_of_torchs_own(rng, dtype, rtol, atol):
    start, target = rng.normal(size=12).astype(dtype), rng.normal(size=12).astype(dtype)
    ours, theirs = start.copy(), nn.Parameter(torch.tensor(start))
    own, reference = Adam(ours, 0.05), torch.optim.Adam([theirs], 0.05)
    for _ in range(30):
        own.step(4 * (ours - target) ** 3)
        reference.zero_grad()
        ((theirs - torch.from_numpy(target)) ** 4).sum().backward()
        reference.step()
        np.testing.assert_allclose(ours, theirs.detach(), rtol=rtol, atol=atol)
    assert ours.dtype == dtype


def test_a_learning_rate_that_changes_is_that_of_torch(rng):
    start, rates = rng.normal(size=5), [0.1, 0.03, 0.01, 0.0]
    ours, theirs = start.copy(), nn.Parameter(torch.tensor(start))
    own, reference = Adam(ours, 1.0), torch.optim.Adam([theirs], 1.0)
    for rate in rates:
        own.learning_rate = reference.param_groups[0]["lr"] = rate
        own.step(2 * ours)
        reference.zero_grad()
        theirs.square().sum().backward()
        reference.step()
        np.testing.assert_allclose(ours, theirs.detach(), rtol=1e-9, atol=1e-12)


def test_weights_are_moved_in_place_and_the_gradient_is_left_alone(rng):
    theta, gradient = rng.normal(size=8), rng.normal(size=8)
    view, before = theta[2:4], gradient.copy()
    optimizer = Adam(theta, 0.1)
    expected = theta - 0.1 * np.sign(gradient)  # what a first step is
    optimizer.step(gradient)
    np.testing.assert_allclose(theta, expected, atol=1e-6)
    np.testing.assert_array_equal(view, theta[2:4])
    np.testing.assert_array_equal(gradient, before)


def test_weights_without_a_gradient_stay():
    theta = np.ones(4)
    optimizer = Adam(theta, 0.1)
    for _ in range(5):
        optimizer.step(np.array([1.0, 0.0, -1.0, 0.0]))
    assert (theta[[1, 3]] == 1).all()
    assert (theta[[0, 2]] != 1).all()


def test_an_array_without_weights_can_be_stepped():
    Adam(np.empty(0), 0.1).step(np.empty(0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tiny_gradients_make_no_denormal_numbers(dtype):
    optimizer = Adam(np.ones(3, dtype=dtype), 1e-3)
    for _ in range(6000):  # the longest training
        optimizer.step(np.full(3, 1e-20, dtype=dtype))
    assert (optimizer.square >= np.finfo(dtype).tiny).all()
