"""Random decisions that a layer takes on the host, and where they come from in a recorded pass.

A layer that skips work by chance decides on the host: what is not launched costs nothing. A
pass that is recorded as a CUDA graph runs again without the host. In it such a layer launches
all it has, and kernels read factors on the device: some leave out what is dropped, the others
multiply. Before each replay these are drawn as if the pass were run, by the same generator and
in the same order, and sent at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

import torch
from torch import Tensor, nn

Draw: TypeAlias = Callable[[int], Tensor]
"""From a number of samples to their factors, float32 (samples,) on the host, drawn by PyTorch's
generator of the CPU."""


class DrawTable:
    """The factors of all calls of a recorded pass, in one tensor on the device.

    Args:
        device: where the pass runs.
        capacity: factors of all calls together.
    """

    def __init__(self, device: torch.device, capacity: int = 65536) -> None:
        self._values = torch.ones(capacity, device=device)
        self._calls: list[tuple[Draw, int]] = []
        self._used = 0

    def place(self, draw: Draw, samples: int) -> Tensor:
        """While a pass is recorded: (samples,) float32, where ``draw``'s factors will stand.

        Raises:
            RuntimeError: in a backward pass (what is computed again has to get its factors as an
                argument, it would find those of another call), or if the table is full.
        """
        if torch._C._current_graph_task_id() != -1:
            raise RuntimeError("a random decision stands inside of what backward computes again")
        end = self._used + samples
        if end > len(self._values):
            raise RuntimeError(f"more than {len(self._values)} random decisions in one pass")
        place = self._values[self._used : end]
        self._calls.append((draw, samples))
        self._used = end
        return place

    def redraw(self) -> None:
        """Draw the factors of every call anew and send them, without waiting for the device."""
        if self._calls:
            drawn = torch.cat([draw(samples) for draw, samples in self._calls])
            if self._values.is_cuda:
                drawn = drawn.pin_memory()
            self._values[: self._used].copy_(drawn, non_blocking=True)


@contextmanager
def drawing_from(table: DrawTable, model: nn.Module) -> Iterator[None]:
    """Give the table to the layers that decide on the host; those have ``draw_table``, else None.

    Args:
        table: whose factors they read within the body, in which their pass is recorded.
        model: any module with such layers in it, or without.
    """
    layers = [module for module in model.modules() if hasattr(module, "draw_table")]
    for layer in layers:
        layer.draw_table = table  # type: ignore[assignment]
    try:
        yield
    finally:
        for layer in layers:
            layer.draw_table = None  # type: ignore[assignment]
