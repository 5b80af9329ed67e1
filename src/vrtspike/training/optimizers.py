"""Optimisers by name, their parameter groups, and the learning rate for a batch size."""

from __future__ import annotations

import math
import warnings
from collections.abc import Collection
from importlib.util import find_spec

import torch
from torch import nn

from vrtspike.config.train_schema import OptimSettings, TrainSettings

FLOW_RATE = 0.25
"""Learning rate of the flow parameters relative to the others, once they are trained."""


def scaled_learning_rate(train: TrainSettings, micro_batches: int) -> float:
    """``OPTIM.LR`` for the global batch of this run, as ``SCALE_LR`` says.

    The ratio of the global batch to ``BASE_BATCH_SIZE`` scales the rate linearly (Goyal et al.,
    2017) or by its square root.

    Args:
        train: the rate and how it is scaled.
        micro_batches: micro-batches of ``BATCH_SIZE`` in an optimiser step, of all processes.
    """
    ratio = train.BATCH_SIZE * micro_batches / train.BASE_BATCH_SIZE
    factor = {"none": 1.0, "sqrt": math.sqrt(ratio), "linear": ratio}[train.SCALE_LR]
    return train.OPTIM.LR * factor


def parameter_groups(
    model: nn.Module, learning_rate: float, slow: Collection[str] = ()
) -> list[dict[str, object]]:
    """Groups for an optimiser: all parameters at the full rate, those in ``slow`` at a quarter.

    Args:
        model: its trainable parameters are grouped.
        learning_rate: the full rate.
        slow: names of parameters for the second group.

    Raises:
        ValueError: if a name in ``slow`` is no parameter of the model.
    """
    named = {name: p for name, p in model.named_parameters() if p.requires_grad}
    unknown = sorted(set(slow) - {name for name, _ in model.named_parameters()})
    if unknown:
        raise ValueError(f"the model has no parameter {unknown[0]!r}")
    groups = [
        {"params": [p for n, p in named.items() if n not in slow], "lr": learning_rate},
        {"params": [p for n, p in named.items() if n in slow], "lr": learning_rate * FLOW_RATE},
    ]
    return [group for group in groups if group["params"]]


def build_optimizer(
    groups: list[dict[str, object]], settings: OptimSettings
) -> torch.optim.Optimizer:
    """The optimiser that ``OPTIM.TYPE`` names.

    ``adamw8bit`` (Dettmers et al., 2022) needs bitsandbytes; without it AdamW is taken and one
    warning says so.
    """
    kind = settings.TYPE
    if kind == "adamw8bit" and find_spec("bitsandbytes") is None:
        warnings.warn(
            "TRAIN.OPTIM.TYPE is adamw8bit, but the package bitsandbytes is not installed: "
            "training with adamw instead (its moments take four times the memory). "
            "Install bitsandbytes, or set TRAIN.OPTIM.TYPE to adamw.",
            stacklevel=2,
        )
        kind = "adamw"
    if kind == "adamw8bit":
        # Imported here: it takes seconds and most runs do not need it.
        from bitsandbytes.optim import AdamW8bit

        optimizer: torch.optim.Optimizer = AdamW8bit(
            groups,
            betas=settings.BETAS,
            weight_decay=settings.WEIGHT_DECAY,
            is_paged=settings.PAGED,
        )
        return optimizer
    return torch.optim.AdamW(groups, betas=settings.BETAS, weight_decay=settings.WEIGHT_DECAY)
