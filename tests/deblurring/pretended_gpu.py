"""A CUDA device that is not there, for tensors without data."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import torch
from torch import Tensor
from torch.autograd.function import FunctionCtx

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
DEVICE = torch.device("cuda", 0)


@contextmanager
def pretended_gpu(gib: float = 80.0) -> Iterator[None]:
    """Have steps be traced as on an H100, with the graph walked by hand.

    PyTorch's own engine asks the driver for its devices.

    Args:
        gib: memory of the device.
    """
    with mock.patch.object(sys, "path", [str(BENCHMARKS), *sys.path]):
        from step_trace import backward

    set_materialize = FunctionCtx.set_materialize_grads

    def note(node: FunctionCtx, value: bool) -> None:
        set_materialize(node, value)
        node.takes_none = not value

    def walk(loss: Tensor) -> None:
        backward(loss)

    facts = SimpleNamespace(multi_processor_count=132, total_memory=int(gib * 2**30))
    answers = {
        "torch.autograd.function.FunctionCtx.set_materialize_grads": note,
        "torch.cuda.amp.common.amp_definitely_not_available": lambda: False,
        "torch.cuda.is_bf16_supported": lambda *_, **__: True,
        "torch._C._current_graph_task_id": lambda: 0,
        "torch.cuda.get_device_capability": lambda *_: (9, 0),
        "torch.cuda.get_device_properties": lambda *_: facts,
        "torch.Tensor.backward": walk,
    }
    with ExitStack() as stack:
        for name, answer in answers.items():
            stack.enter_context(mock.patch(name, answer))
        yield
