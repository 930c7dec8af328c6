"""The machine that a fit runs on: its device, and random generators that leave those of the host program alone."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from sklearn.utils import check_random_state


def resolve_device(device: str | torch.device) -> torch.device:
    """Return the device to compute on; "auto" takes cuda, then mps, then cpu."""
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
def own_randomness(rng: np.random.RandomState, device: torch.device) -> Iterator[torch.Generator]:
    """Seed torch from `rng` for the time of a fit and leave the host's generators and modes as they were."""
    seed = int(rng.randint(np.iinfo(np.int32).max))
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices=devices), torch.inference_mode(False), torch.enable_grad():
        torch.manual_seed(seed)  # for a user's own module, which may draw (dropout)
        yield torch.Generator().manual_seed(seed)
