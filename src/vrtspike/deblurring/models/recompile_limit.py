"""More graphs of one function than PyTorch compiles unasked."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

import torch

P = ParamSpec("P")
R = TypeVar("R")


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
