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
def wrong_rows_change(by: int) -> Iterator[None]:
    """Pretend, after psi has followed a partition, that each iteration changes how many held-out rows are wrong."""

    def followed(*args):
        found, numbers = follow(*args), count(100, by)
        split = SimpleNamespace(held_out=found.split.held_out, wrong=lambda psi: np.array(next(numbers)))
        return replace(found, split=split, wrong=split.wrong(found.encoder))

    with patch("knet.train.training.follow", followed):
        yield
