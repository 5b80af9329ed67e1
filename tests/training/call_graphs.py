"""CUDA graphs without a GPU: what is captured are the calls, and a replay makes them again."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from unittest import mock

import torch
from torch import nn

from vrtspike.deblurring.models import stochastic_depth
from vrtspike.training.cuda_graphs import CudaGraphs
from vrtspike.training.micro_steps import Terms


class CallGraphs(CudaGraphs):
    """Counts captures, replays and releases.

    As with a CUDA graph, a capture calls the work but computes nothing: gradients and buffers of
    ``model`` stay. All replays return the same tensors.
    """

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self.captures = self.replays = self.releases = 0

    def side_stream(self) -> AbstractContextManager[None]:
        return nullcontext()

    def capture(self, work: Callable[[], Terms]) -> Callable[[], Terms]:
        self.captures += 1
        with capturing(), unchanged(self._model):
            static = work()

        def replay() -> Terms:
            self.replays += 1
            with capturing():
                for name, term in work().items():
                    static[name].copy_(term)
            return static

        return replay

    def release(self) -> None:
        self.releases += 1


def capturing() -> AbstractContextManager[object]:
    """Layers that draw on the host believe that a CUDA graph captures them."""
    return mock.patch.object(stochastic_depth, "_is_capturing", return_value=True)


@contextmanager
def unchanged(model: nn.Module) -> Iterator[None]:
    """Gradients and buffers have their values again after the body."""
    tensors = [p.grad for p in model.parameters() if p.grad is not None]
    tensors += [b for b in model.buffers() if b.is_contiguous()]
    values = [tensor.clone() for tensor in tensors]
    yield
    with torch.no_grad():
        for tensor, value in zip(tensors, values, strict=True):
            tensor.copy_(value)
