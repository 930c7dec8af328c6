"""The written-out Adam against torch's own."""

import torch
from torch import nn

from knet.train.adam import Adam


def test_adam_takes_the_steps_of_torchs_own(generator):
    start = torch.randn(4, 3, generator=generator, dtype=torch.float64)
    target = torch.randn(4, 3, generator=generator, dtype=torch.float64)
    ours, theirs = nn.Parameter(start.clone()), nn.Parameter(start.clone())
    own, reference = Adam([ours], 0.05), torch.optim.Adam([theirs], 0.05)
    for _ in range(30):
        for parameter, optimizer in ((ours, own), (theirs, reference)):
            optimizer.zero_grad()
            ((parameter - target) ** 4).sum().backward()
            optimizer.step()
        torch.testing.assert_close(ours, theirs, rtol=1e-9, atol=1e-12)


def test_parameters_without_a_gradient_stay():
    used, unused, frozen = (nn.Parameter(torch.ones(2)) for _ in range(3))
    frozen.requires_grad_(False)
    optimizer = Adam([used, unused, frozen], 0.1)
    used.sum().backward()
    optimizer.step()
    assert not torch.equal(used, torch.ones(2))
    assert torch.equal(unused, torch.ones(2))
    assert torch.equal(frozen, torch.ones(2))
