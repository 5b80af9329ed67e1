"""The arithmetic of a training run, from one of its batches."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from vrtspike.monitoring.arithmetic import TRAINING_FACTOR, count_flops, measure_peak
from vrtspike.monitoring.timing_layout import Arithmetic
from vrtspike.training.distributed import Ranks
from vrtspike.training.precision import Precision
from vrtspike.training.tasks import Task


@torch.no_grad()
def estimate_arithmetic(
    model: nn.Module,
    task: Task,
    batch: Any,  # noqa: ANN401 - from a loader
    precision: Precision,
    ranks: Ranks,
) -> Arithmetic:
    """Operations of a sample and what the devices of the run could do; changes no state.

    Args:
        model: run once, in evaluation mode.
        task: knows what a batch means.
        batch: as the data loader gives it.
        precision: of the run.
        ranks: the processes, which are taken to have equal devices.
    """
    prepared = task.prepare(batch, ranks.device)
    samples, _ = task.size(prepared)
    was_training = model.training
    model.eval()
    with precision.autocast():
        flops = count_flops(lambda: task.forward(model, prepared))
    model.train(was_training)
    peak = measure_peak(ranks.device, precision.compute_type) * ranks.world_size
    return Arithmetic(TRAINING_FACTOR * flops / samples, peak)
