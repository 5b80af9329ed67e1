"""The refusing mode itself: it sees every kind of wait."""

from __future__ import annotations

import pytest
import torch

from tests.stalls import GPU, NoStalls, StallError, without_data

WAITS = {
    "item": lambda x: x.sum().item(),
    "tolist": lambda x: x.tolist(),
    "truth": lambda x: bool(x.any()),
    "mask": lambda x: x[x > 0],
    "nonzero": lambda x: x.nonzero(),
    "list": lambda x: torch.tensor([1.0, 2.0], device=x.device) * x,
    "new_tensor": lambda x: x.new_tensor([1.0, 2.0]),
    "blocking": lambda x: torch.ones(2).to(x.device),
    "assigned": lambda x: x.copy_(torch.ones(2)),
    "back": lambda x: x.to("cpu", non_blocking=True),
}


@pytest.mark.parametrize("name", WAITS)
def test_each_kind_of_wait_is_refused(name):
    with without_data(), NoStalls(), pytest.raises(StallError):
        WAITS[name](torch.ones(2, device=GPU))


def test_what_does_not_wait_passes():
    with without_data(), NoStalls() as watched:
        x = torch.arange(2, device=GPU) * 2.0
        x = x + torch.ones(2).to(GPU, non_blocking=True)
        x.copy_(torch.ones(2), non_blocking=True)
        x[torch.zeros(1, dtype=torch.int64, device=GPU)].sum() + x.new_full((), 3.0)
    assert watched.copies == 2
