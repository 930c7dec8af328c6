"""Fixtures that several test files share."""

import numpy as np
import pytest


def pytest_configure(config):
    """Let tests fit noise and groups that differ in a single column; tests/test_caveats.py tests these warnings."""
    for text in ("The data do not support", "Column .* alone reproduces"):
        config.addinivalue_line("filterwarnings", f"ignore:{text}:knet.exceptions.KNetDataWarning")


@pytest.fixture(params=[0, 1, 2])
def seed(request):
    """Run a test under several seeds, so that it does not depend on a lucky seed."""
    return request.param


@pytest.fixture
def rng(seed):
    return np.random.default_rng(seed)


@pytest.fixture
def random_state(seed):
    """Return the source of random numbers that training uses."""
    return np.random.RandomState(seed)
