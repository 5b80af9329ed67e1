"""The interface between the training loop and what is trained: losses and metrics of a batch.

The loop calls nothing else of a problem. ``tests/training/forecast.py`` has a small objective.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from vrtspike.training.batches import NoBatches, ShuffledBatches, ValidationBatches

Batch: TypeAlias = Any
"""Result of :meth:`Objective.prepare`; only the objective uses its contents."""


class Objective(Protocol):
    """Losses and metrics of a batch.

    Larger values of a metric are better, unless its name is in the objective's attribute
    ``lower_is_better``, if it has one. Training calls, for each micro-batch, :meth:`prepare`,
    ``add_targets`` of a :class:`TargetedObjective`, :meth:`forward` and :meth:`losses`; validation
    calls :meth:`prepare`, :meth:`forward` and :meth:`metrics`.

    Attributes:
        metric: name of the main metric.
    """

    metric: str

    def prepare(self, batch: Any, device: torch.device) -> Batch:  # noqa: ANN401 - from a loader
        """Move a batch of the data loader to the device, in the form that the methods take."""

    def forward(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        """Return the model's output for a batch; runs in the precision of the run."""

    def losses(self, output: torch.Tensor, batch: Batch, step: int) -> dict[str, torch.Tensor]:
        """Return the weighted terms whose sum is minimised, each a scalar; runs in float32.

        Args:
            output: output of :meth:`forward`, in float32.
            batch: batch from :meth:`prepare`.
            step: finished optimiser steps, for terms that are not computed in every step.
        """

    def metrics(self, output: torch.Tensor, batch: Batch) -> list[dict[str, float]]:
        """Return the metrics of each sample of a validation batch."""

    def size(self, batch: Batch) -> tuple[int, int]:
        """Return the numbers of samples and frames of a batch, for throughput."""

    def pictures(self, output: torch.Tensor, batch: Batch) -> dict[str, NDArray[np.uint8]]:
        """Return named uint8 (H, W, 3) RGB pictures of the first sample; may be empty."""


class TargetedObjective(Objective, Protocol):
    """An objective that computes targets itself, such as a teacher's output.

    The class of the objective defines :meth:`add_targets`; the loop calls it for no other
    objective.
    """

    def add_targets(self, batch: Batch) -> Batch:
        """Return a training batch with further targets for :meth:`losses`; ``batch`` is not
        changed.

        Runs before :meth:`forward`, in the precision of the run.
        """


def with_targets(objective: Objective, batch: Batch) -> Batch:
    """Return a training batch as the losses of an objective need it.

    Args:
        objective: the objective; a :class:`TargetedObjective` adds its targets.
        batch: batch from :meth:`Objective.prepare`.
    """
    if not hasattr(objective, "add_targets"):
        return batch
    return cast("TargetedObjective", objective).add_targets(batch)


MEMORY_ADVICE = (
    "The memory of the device is full. Lower TRAIN.BATCH_SIZE and raise "
    "TRAIN.GRADIENT_ACCUMULATION_STEPS by the same factor, or set TRAIN.OPTIM.TYPE to adamw8bit."
)


@dataclass(frozen=True)
class Trainable:
    """Everything that one process needs for a training.

    Attributes:
        model: model on the device of the process; its method ``compile`` is called for
            TRAIN.COMPILE_MODEL.
        objective: losses and metrics.
        training: the training batches; none if the weights are not trained.
        validation: the validation batches of this process; None for no validation.
        note: a line for the log, such as how the model computes.
        memory_advice: keys to change, in this order, when the device's memory is full.
        rate_factors: factors on the learning rate, by parameter group.
        frozen_steps: number of first steps in which a parameter group is frozen.
    """

    model: nn.Module
    objective: Objective
    training: ShuffledBatches | NoBatches
    validation: ValidationBatches | None
    note: str = ""
    memory_advice: str = MEMORY_ADVICE
    rate_factors: Mapping[str, float] = field(default_factory=dict)
    frozen_steps: Mapping[str, int] = field(default_factory=dict)
