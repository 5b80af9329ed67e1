"""Compilation of a model's transformer blocks.

The whole model cannot be compiled: the flow warps change shape from clip to clip. The blocks are
where the time goes, and all of them are instances of one class.
"""

from __future__ import annotations

from torch import nn

from vrtspike.models.tmsa import TMSABlock


def compile_blocks(model: nn.Module, mode: str = "default", backend: str = "inductor") -> int:
    """Compile every transformer block in place; checkpointing stays outside and goes on working.

    Args:
        model: any module with transformer blocks in it.
        mode: ``default``, ``reduce-overhead`` or ``max-autotune``, as ``torch.compile`` takes it.
        backend: compiler to use.

    Returns:
        Number of compiled blocks.
    """
    blocks = [module for module in model.modules() if isinstance(module, TMSABlock)]
    for block in blocks:
        # Sizes differ between scales; one graph for all of them compiles once.
        options = {"mode": mode} if backend == "inductor" else {}
        block.compile(backend=backend, dynamic=True, **options)
    return len(blocks)
