"""Compilation of a model's transformer blocks.

The whole model cannot be compiled: the flow warps change shape from clip to clip. The blocks are
where the time goes, and all of them are instances of one class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from vrtspike.deblurring.models.recompile_limit import with_recompile_limit
from vrtspike.deblurring.models.tmsa import TMSABlock

# Blocks share graphs; they differ in width, attention, shifted or clipped windows. The published
# model has about a dozen kinds, and PyTorch's own limit, 8, would leave the rest uncompiled.
_KINDS = 64


def compile_blocks(
    model: nn.Module, mode: str = "default", backend: str | Callable[..., Any] = "inductor"
) -> int:
    """Compile every transformer block in place, with the checkpointing inside of it.

    Args:
        model: any module with transformer blocks in it.
        mode: ``default``, ``reduce-overhead`` or ``max-autotune``, as ``torch.compile`` takes it.
        backend: compiler to use, as ``torch.compile`` takes it.

    Returns:
        Number of compiled blocks.
    """
    blocks = [module for module in model.modules() if isinstance(module, TMSABlock)]
    chosen = mode if backend == "inductor" else None  # the only one that knows modes
    for block in blocks:
        # Sizes differ between scales; dynamic graphs serve all of them.
        compiled = torch.compile(block._call_impl, backend=backend, dynamic=True, mode=chosen)
        # As nn.Module.compile sets it.
        block._compiled_call_impl = with_recompile_limit(compiled, _KINDS)
    return len(blocks)
