"""Arithmetic of a training step: FLOPs of a sample, and peak FLOP/s of a device."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from vrtspike.monitoring.timing import time_call
from vrtspike.monitoring.timing_text import FlopEstimate
from vrtspike.training.distributed import DistributedContext
from vrtspike.training.objectives import TrainingParts
from vrtspike.training.precision import Precision

TRAINING_FACTOR = 3
"""Operations of both passes per operation of the forward pass, without recomputation."""

MATRIX_SIZES = {"cuda": 8192, "cpu": 1024}
"""Rows and columns of the matrices whose product is timed, by type of device."""

_REPEATS = 5


@torch.no_grad()
def estimate_flops(
    parts: TrainingParts,
    batch: Any,  # noqa: ANN401 - from a loader
    precision: Precision,
    ranks: DistributedContext,
) -> FlopEstimate:
    """Estimate the FLOPs of a sample and the peak FLOP/s of the run's devices.

    Args:
        parts: model and objective; the model is run once, in evaluation mode.
        batch: batch from the data loader.
        precision: precision of the run.
        ranks: the processes; their devices are assumed to be equal.
    """
    model = parts.model
    objective = parts.objective
    prepared = objective.prepare(batch, ranks.device)
    samples, _ = objective.batch_counts(prepared)
    was_training = model.training
    model.eval()
    # The counter does not see operations of compiled blocks.
    with (
        precision.autocast(),
        torch.compiler.set_stance("force_eager"),
        FlopCounterMode(display=False) as counter,
    ):
        objective.forward(model, prepared)
    model.train(was_training)
    peak = measure_peak(ranks.device, precision.compute_type) * ranks.world_size
    return FlopEstimate(TRAINING_FACTOR * counter.get_total_flops() / samples, peak)


def measure_peak(device: torch.device, dtype: torch.dtype) -> float:
    """Measure the FLOP/s of a large square matrix product, the best of several."""
    size = MATRIX_SIZES[device.type]
    matrix = torch.ones(size, size, device=device, dtype=dtype)
    times = [time_call(device, lambda: torch.mm(matrix, matrix)) for _ in range(_REPEATS)]
    return 2 * size**3 / min(times)
