"""Compilation of a model's transformer blocks, with a higher limit of graphs than PyTorch's.

The whole model cannot be compiled: the flow warps change shape from clip to clip. The blocks are
where the time goes, and all of them are instances of one class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch import nn

P = ParamSpec("P")
R = TypeVar("R")

# Blocks share graphs; they differ in width, attention, shifted or clipped windows. The published
# model has about a dozen kinds, and PyTorch's own limit, 8, would leave the rest uncompiled.
_KINDS = 64


def with_recompile_limit(compiled: Callable[P, R], limit: int) -> Callable[P, R]:
    """Let a compiled function have up to ``limit`` graphs.

    PyTorch's own limit is 8 for each function; what comes after runs uncompiled. ``torch.compile``
    takes no limit in PyTorch 2.11, so PyTorch's setting is changed while the function runs.

    Args:
        compiled: what ``torch.compile`` returned.
        limit: how many graphs it may have.

    Returns:
        a function of the same arguments.
    """

    @wraps(compiled)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        with torch._dynamo.config.patch(recompile_limit=limit):
            return compiled(*args, **kwargs)

    return run


def compile_modules(
    modules: Iterable[nn.Module],
    mode: str = "default",
    backend: str | Callable[..., Any] = "inductor",
) -> None:
    """Compile modules of one class in place, with the checkpointing inside of them.

    Args:
        modules: the blocks of a model.
        mode: ``default``, ``reduce-overhead`` or ``max-autotune``, as ``torch.compile`` takes it.
        backend: compiler to use, as ``torch.compile`` takes it.
    """
    chosen = mode if backend == "inductor" else None  # the only one that knows modes
    for module in modules:
        # Sizes differ between scales; dynamic graphs serve all of them.
        compiled = torch.compile(module._call_impl, backend=backend, dynamic=True, mode=chosen)
        # As nn.Module.compile sets it.
        module._compiled_call_impl = with_recompile_limit(compiled, _KINDS)
