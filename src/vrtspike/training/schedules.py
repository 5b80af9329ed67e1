"""The learning rate over the steps of a run."""

from __future__ import annotations

import math

import torch

from vrtspike.config.run_schema import RunSettings
from vrtspike.config.train_schema import ScheduleSettings


def total_steps(settings: RunSettings, per_epoch: int, micro_batches: int) -> int:
    """Optimiser steps of a run; accumulation goes on across the end of an epoch.

    Args:
        settings: ``EPOCHS`` (or the phases' epochs) and ``MAX_STEPS``.
        per_epoch: micro-batches of an epoch.
        micro_batches: micro-batches of a step, over all processes.

    >>> total_steps(RunSettings(), per_epoch=60, micro_batches=6)  # 40 epochs
    400
    """
    train = settings.TRAIN
    epochs = sum(phase.EPOCHS for phase in train.PROGRESSIVE) or train.EPOCHS
    steps = max(1, epochs * per_epoch // micro_batches)
    return steps if train.MAX_STEPS is None else min(steps, train.MAX_STEPS)


def cosine_factor(step: int, total: int, warmup: int, floor: float) -> float:
    """The factor on the learning rate for the step after ``step`` finished ones.

    Linear from ``1/warmup`` to 1 over the first ``warmup`` steps, then half a cosine down to
    ``floor``, which the last step reaches (Loshchilov and Hutter, 2017, without restarts).

    Args:
        step: finished optimiser steps, from 0.
        total: optimiser steps of the run.
        warmup: steps of warm-up; at most ``total`` count.
        floor: the last factor, ``MIN_LR / LR``.

    >>> [round(cosine_factor(step, total=6, warmup=2, floor=0.1), 3) for step in range(6)]
    [0.5, 1.0, 1.0, 0.775, 0.325, 0.1]
    """
    warmup = min(warmup, total)
    if step < warmup:
        return (step + 1) / warmup
    remaining = max(1, total - 1 - warmup)
    progress = min(1.0, (step - warmup) / remaining)
    return floor + (1.0 - floor) * 0.5 * (1.0 + math.cos(math.pi * progress))


class Schedule:
    """Sets each parameter group's rate to its own base rate times a factor of the step.

    The factor depends on the step alone, so a resumed run has the rate of an undisturbed one
    without any state.

    Args:
        optimizer: its groups' present rates are the base rates.
        settings: shape, warm-up and last rate.
        learning_rate: the rate to which ``MIN_LR`` refers; a group with a fraction of it ends at
            that fraction of ``MIN_LR``.
        total: optimiser steps of the run.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        settings: ScheduleSettings,
        learning_rate: float,
        total: int,
    ) -> None:
        self._optimizer = optimizer
        self._learning_rate = learning_rate
        self._base = [float(group["lr"]) for group in optimizer.param_groups]
        self._warmup = settings.WARMUP_STEPS
        self._floor = min(1.0, settings.MIN_LR / learning_rate)
        self._total = total

    def apply(self, step: int) -> float:
        """Set the rates for the step after ``step`` finished ones.

        Returns:
            ``learning_rate`` in this step, of which each group has its share.
        """
        factor = cosine_factor(step, self._total, self._warmup, self._floor)
        for group, base in zip(self._optimizer.param_groups, self._base, strict=True):
            group["lr"] = base * factor
        return self._learning_rate * factor
