"""What is computed again, by policy and device."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from vrtspike.deblurring.models import recomputation
from vrtspike.deblurring.models.recomputation import keeps_all

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


@pytest.mark.parametrize("device", [CPU, CUDA])
def test_a_policy_that_is_asked_for_holds_on_every_device(device: torch.device) -> None:
    assert keeps_all("none", device)
    assert not keeps_all("cheap", device)


@pytest.mark.parametrize(("gib", "expected"), [(24, False), (48, False), (80, True), (141, True)])
def test_large_gpus_keep_everything(
    monkeypatch: pytest.MonkeyPatch, gib: int, expected: bool
) -> None:
    # Somewhat less than its name says is what a GPU has.
    monkeypatch.setattr(recomputation, "_memory", lambda _: int(0.98 * gib * 2**30))
    assert keeps_all("auto", CUDA) == expected
    assert not keeps_all("auto", CPU)


def test_a_step_that_is_counted_runs_on_a_large_gpu() -> None:
    with FakeTensorMode():
        assert keeps_all("auto", CUDA)
        assert not keeps_all("auto", CPU)
