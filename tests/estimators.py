"""KNet from a flat list of parameters, for tests that vary the advanced ones too, and fits of several iterations."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np

from knet import Advanced, KNet
from knet.train.follow import follow

ADVANCED = set(Advanced().get_params())


def make_knet(*args, **params):
    """Return KNet(*args, **params), with the parameters that belong to `Advanced` moved there."""
    advanced = {name: params.pop(name) for name in ADVANCED & params.keys()}
    return KNet(*args, **params, **({"advanced": Advanced(**advanced)} if advanced else {}))


@contextmanager
def every_iteration_gains() -> Iterator[None]:
    """Let Algorithm 1 go on after psi has followed a partition, as if one held-out row less were wrong each time."""

    def followed(*args):
        found, numbers = follow(*args), count(0, -1)
        gaining = SimpleNamespace(held_out=found.split.held_out, wrong=lambda psi: np.array(next(numbers)))
        return replace(found, split=gaining)

    with patch("knet.train.training.follow", followed):
        yield
