"""What the training loop must know about a problem: from batch to loss, from batch to metrics.

The loop calls these methods and nothing else of a problem, so another model, data set or purpose
plugs in by another task. ``tests/training/forecast.py`` is a small second one.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

Batch: TypeAlias = Any
"""What :meth:`Task.prepare` returns; only the task looks inside."""


class Task(Protocol):
    """A problem to train for.

    Larger values of a metric are better, unless a task has an attribute ``lower_is_better`` that
    holds its name (see :func:`lower_is_better`).

    A task may have a method ``variant(step)``, which returns a hashable value: equal for two steps
    (numbers of finished ones) if :meth:`forward` and :meth:`losses` do the same work in both, on
    batches of equal sizes, with the same parameters, and neither reads a value of a tensor on the
    host. Its micro-steps can then be recorded as a CUDA graph (``TRAIN.CUDA_GRAPH``); without it
    each is launched kernel by kernel.
    """

    metric: str
    """Name of the main metric."""

    def prepare(self, batch: Any, device: torch.device) -> Batch:  # noqa: ANN401 - from a loader
        """Bring a batch of the data loader to the device in the form the other methods take."""

    def forward(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        """The model's output for a batch; runs in the precision of the run."""

    def losses(self, output: torch.Tensor, batch: Batch, step: int) -> dict[str, torch.Tensor]:
        """The weighted terms whose sum is minimised, each a scalar; runs in float32.

        Args:
            output: from :meth:`forward`, in float32.
            batch: what it was computed from.
            step: finished optimiser steps, for terms that are not computed every time.
        """

    def metrics(self, output: torch.Tensor, batch: Batch) -> list[dict[str, float]]:
        """The metrics of each sample of a validation batch."""

    def size(self, batch: Batch) -> tuple[int, int]:
        """Samples and frames of a batch, for throughput."""

    def pictures(self, output: torch.Tensor, batch: Batch) -> dict[str, NDArray[np.uint8]]:
        """Named uint8 (H, W, 3) RGB pictures of the first sample; may be empty."""


def lower_is_better(task: Task) -> frozenset[str]:
    """Names of the metrics of which smaller values are better: errors and distances.

    They are the task's attribute ``lower_is_better``; a task without it has none.
    """
    return frozenset(getattr(task, "lower_is_better", ()))
