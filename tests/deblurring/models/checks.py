"""What several tests of models ask."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor


def run_check(name: str, *arguments: str, interpreted: bool = True) -> None:
    """Run ``name`` in a process of its own, as Triton decides when imported whether it interprets.

    Raises:
        AssertionError: it failed; with what it printed.
    """
    command = [sys.executable, str(Path(__file__).parent / name), *arguments]
    environment = {**os.environ, "TRITON_INTERPRET": "1"} if interpreted else None
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def kept_by(run: Callable[[], object]) -> dict[int, Tensor]:
    """Tensors that autograd keeps of a call, by their place in memory."""
    kept: dict[int, Tensor] = {}

    def pack(tensor: Tensor) -> Tensor:
        kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        run()
    return kept


def assert_same(found: list[Tensor], expected: list[Tensor], leaves: list[Tensor]) -> None:
    """Results and gradients are equal but for rounding."""
    torch.testing.assert_close(found, expected)
    grads = [torch.randn_like(t) for t in expected]
    torch.testing.assert_close(
        torch.autograd.grad(found, leaves, grads), torch.autograd.grad(expected, leaves, grads)
    )
