"""Launches of kernels: on which device, with what, and noted where tensors have no data."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from vrtspike.deblurring.models.ops.launch import (
    TracingMode,
    capability_of,
    has_products_from_shared_memory,
    launch,
    processors_of,
    tile,
)

CPU = torch.device("cpu")


class Kernel:
    """Remembers what it is launched with."""

    arg_names = ("x", "count", "BLOCK")

    def __init__(self) -> None:
        self.launches: list[tuple[Any, ...]] = []

    def __getitem__(self, grid: tuple[int, ...]):
        return lambda *args, **options: self.launches.append((grid, args, options))


def test_kernels_are_launched_on_the_device_of_their_tensors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kernel, x, devices = Kernel(), torch.ones(3), []

    def device_of(tensor: torch.Tensor):
        devices.append(tensor)
        return nullcontext()

    monkeypatch.setattr(torch.cuda, "device_of", device_of)
    launch(kernel, [2, 3], 7, x, BLOCK=16, num_warps=4)
    assert kernel.launches == [((2, 3), (7, x), {"BLOCK": 16, "num_warps": 4})]
    assert devices[0] is x


def test_without_data_launches_are_noted_or_left_out() -> None:
    kernel, notes = Kernel(), []
    with TracingMode(lambda *note: notes.append(note)):
        x = torch.empty(3, device="cuda")
        launch(kernel, (2,), x, 5, BLOCK=16)
    assert notes == [(kernel, (2,), {"x": x, "count": 5, "BLOCK": 16})]
    with FakeTensorMode():
        launch(kernel, (2,), torch.empty(3), 5, BLOCK=16)
    assert not kernel.launches
    assert len(notes) == 1


@pytest.mark.parametrize(
    ("capability", "from_shared_memory"),
    [((8, 0), False), ((8, 9), False), ((9, 0), True), ((10, 0), True), ((12, 0), False)],
)
def test_what_products_are_made_from(capability: tuple[int, int], from_shared_memory: bool) -> None:
    assert has_products_from_shared_memory(capability) == from_shared_memory


def test_the_interpreter_stands_for_an_h100() -> None:
    assert capability_of(CPU) == (9, 0)
    assert processors_of(CPU) == 4


def test_tiles_are_powers_of_two_and_no_smaller_than_asked() -> None:
    assert [tile(length) for length in (1, 16, 17, 100, 128, 129)] == [16, 16, 32, 128, 128, 256]
    assert tile(3, least=2) == 4
