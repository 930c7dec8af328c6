"""The machine that a fit runs on: its devices, and random generators that leave those of the host program alone."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.utils import check_random_state


def resolve_device(device: Any) -> Any:
    """Return the device of torch to compute on; "auto" takes cuda, then mps, then cpu."""
    import torch

    if device == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
        return torch.device(name)
    try:
        return torch.empty(0, device=device).device
    except (RuntimeError, AssertionError, TypeError) as error:
        raise ValueError(
            f"The 'device' parameter of KNet must be 'auto' or a torch device that this machine has. Got {device!r} "
            "instead; use 'auto' or 'cpu'."
        ) from error


def random_generator(random_state: object) -> np.random.RandomState:
    """Return the generator of a `random_state`; a `numpy.random.Generator` seeds it with its next number."""
    if isinstance(random_state, np.random.Generator):
        random_state = int(random_state.integers(2**32))
    generator: np.random.RandomState = check_random_state(random_state)
    return generator


@contextmanager
def training_randomness(rng: np.random.RandomState, device: object) -> Iterator[np.random.RandomState]:
    """Yield a generator for training that `rng` seeds, and seed torch from it, too, unless the device is "cpu".

    A user's own module computes on a device of torch; without one, torch is not imported.
    """
    seed = int(rng.randint(np.iinfo(np.int32).max))
    if device == "cpu":
        yield np.random.RandomState(seed)
        return
    from knet.train.own_encoder import seeded_torch

    with seeded_torch(seed):
        yield np.random.RandomState(seed)
