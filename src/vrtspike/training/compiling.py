"""Compilation of a model's blocks."""

from __future__ import annotations

from torch import nn

from vrtspike.config.train_schema import TrainSettings


def compile_model(model: nn.Module, train: TrainSettings) -> nn.Module:
    """Compile a model in place where ``TRAIN.COMPILE_MODEL`` is set.

    A model that knows its blocks (a method ``compile_blocks(mode=...)``) compiles those; another
    one is compiled as a whole.
    """
    if train.COMPILE_MODEL:
        compile_blocks = getattr(model, "compile_blocks", None)
        if compile_blocks is None:
            model.compile(mode=train.COMPILE_MODE)
        else:
            compile_blocks(mode=train.COMPILE_MODE)
    return model
