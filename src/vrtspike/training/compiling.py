"""How a model is compiled where ``TRAIN.COMPILE_MODEL`` is set."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from torch import nn

Compiler: TypeAlias = Callable[[nn.Module, str], object]
"""Compiles a model in place, in a mode of ``torch.compile``."""


def compile_whole(model: nn.Module, mode: str) -> None:
    """Compile a model as one graph; for models whose shapes do not change from step to step."""
    model.compile(mode=mode)
