"""Validation: every sample once, on whichever process, with the same figures on all."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from vrtspike.launching.signals import StopRequest
from vrtspike.monitoring.timing import section
from vrtspike.training.batches import ValidationBatches
from vrtspike.training.distributed import Ranks
from vrtspike.training.precision import Precision
from vrtspike.training.tasks import Task


@dataclass(frozen=True)
class Validation:
    """Figures of one validation.

    Attributes:
        metrics: mean over all samples of all processes.
        pictures: of the first sample, on the process that had it.
    """

    metrics: dict[str, float]
    pictures: dict[str, NDArray[np.uint8]] = field(default_factory=dict)


@torch.no_grad()
def validate(
    model: nn.Module,
    task: Task,
    batches: ValidationBatches,
    ranks: Ranks,
    precision: Precision,
    stop: StopRequest,
) -> Validation | None:
    """Run the model over the validation samples.

    Returns:
        the figures; None if a process was asked to stop meanwhile.
    """
    was_training = model.training
    model.eval()
    found: list[dict[str, float]] = []
    pictures: dict[str, NDArray[np.uint8]] = {}
    source = iter(batches)
    try:
        for round_ in range(batches.rounds):
            if _someone_stops(ranks, stop):
                return None
            # The last round may find this process without a batch.
            for raw in islice(source, 1):
                batch = task.prepare(raw, ranks.device)
                with section("forward"), precision.autocast():
                    output = task.forward(model, batch).float()
                with section("metrics"):
                    found += task.metrics(output, batch)
                if round_ == 0 and ranks.is_main:
                    pictures = task.pictures(output, batch)
    finally:
        model.train(was_training)
    return Validation(_mean([m for part in ranks.gather(found) for m in part]), pictures)


def _someone_stops(ranks: Ranks, stop: StopRequest) -> bool:
    wish = torch.tensor(float(stop.received is not None), device=ranks.device)
    return bool(ranks.sum(wish) > 0)


def _mean(samples: list[dict[str, float]]) -> dict[str, float]:
    return {name: float(np.mean([sample[name] for sample in samples])) for name in samples[0]}
