"""The interface between the training loop and what is trained: losses and metrics of a batch.

The loop calls nothing else of a task. ``tests/training/forecast.py`` has a small objective.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from vrtspike.system.errors import RunError
from vrtspike.training.batches import NoBatches, ShuffledBatches, ValidationBatches

Batch: TypeAlias = Any
"""Result of :meth:`Objective.prepare`; only the objective uses its contents."""


class Objective(ABC):
    """Losses and metrics of a batch: the base class of all objectives.

    Training calls, for each micro-batch, :meth:`prepare`, :meth:`add_targets`, :meth:`forward` and
    :meth:`losses`; validation calls :meth:`prepare`, :meth:`forward` and :meth:`metrics`.

    Attributes:
        metric: name of the main metric.
        lower_is_better: names of the metrics whose smaller values are better.
    """

    # So that a subclass may have slots of its own, see `fit`.
    __slots__ = ()

    metric: str
    lower_is_better: Collection[str] = frozenset()

    @abstractmethod
    def prepare(self, batch: Any, device: torch.device) -> Batch:  # noqa: ANN401 - from a loader
        """Move a batch of the data loader to the device, in the form that the methods take."""

    def add_targets(self, batch: Batch) -> Batch:
        """Return a training batch with further targets for :meth:`losses`, such as a teacher's.

        By default the batch itself. Runs before :meth:`forward`, in the precision of the run, and
        leaves the given batch unchanged.
        """
        return batch

    @abstractmethod
    def forward(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        """Return the model's output for a batch; runs in the precision of the run."""

    @abstractmethod
    def losses(self, output: torch.Tensor, batch: Batch, step: int) -> dict[str, torch.Tensor]:
        """Return the weighted terms whose sum is minimised, each a scalar; runs in float32.

        Args:
            output: output of :meth:`forward`, in float32.
            batch: batch from :meth:`add_targets`.
            step: finished optimiser steps, for terms that are not computed in every step.
        """

    @abstractmethod
    def metrics(self, output: torch.Tensor, batch: Batch) -> list[dict[str, float]]:
        """Return the metrics of each sample of a validation batch."""

    @abstractmethod
    def batch_counts(self, batch: Batch) -> tuple[int, int]:
        """Return the numbers of samples and frames of a batch, for throughput."""

    def pictures(self, output: torch.Tensor, batch: Batch) -> dict[str, NDArray[np.uint8]]:
        """Return named uint8 (H, W, 3) RGB pictures of the first sample; none by default."""
        return {}


@dataclass(frozen=True)
class TrainingParts:
    """Everything that one process needs for a training.

    Attributes:
        model: model on the device of the process; its method ``compile`` is called for
            TRAIN.COMPILE_MODEL.
        objective: losses and metrics.
        training_batches: the training batches; none if the weights are not trained.
        validation_batches: the validation batches of this process; None for no validation.
        note: a line for the log, such as how the model computes.
        lr_factors: factors on the learning rate, by parameter group.
        frozen_steps: number of first steps in which a parameter group is frozen.
        half_precision_weights: with ``bf16-mixed``, all parameters take part in the forward pass in
            bfloat16 (:class:`vrtspike.training.half_precision_weights.HalfPrecisionWeights`), not
            only those of products and convolutions.
    """

    model: nn.Module
    objective: Objective
    training_batches: ShuffledBatches | NoBatches
    validation_batches: ValidationBatches | None
    note: str = ""
    lr_factors: Mapping[str, float] = field(default_factory=dict)
    frozen_steps: Mapping[str, int] = field(default_factory=dict)
    half_precision_weights: bool = False

    def __post_init__(self) -> None:
        """Reject an objective without the defaults of the base class.

        Raises:
            RunError: naming its class.
        """
        if not isinstance(self.objective, Objective):
            kind = type(self.objective)
            raise RunError(
                f"objective: found an instance of {kind.__module__}.{kind.__qualname__}, expected "
                f"one of a subclass of {Objective.__module__}.Objective; derive the class from it"
            )
