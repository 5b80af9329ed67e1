"""Validation: metrics over all samples of all processes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, islice
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from vrtspike.config.run_schema import MAIN_METRIC, EarlyStoppingSettings
from vrtspike.launching.signals import StopRequest
from vrtspike.monitoring.timing import section
from vrtspike.system.errors import RunError
from vrtspike.training.distributed import DistributedContext
from vrtspike.training.objectives import TrainingParts
from vrtspike.training.precision import Precision

ValidationPictures: TypeAlias = dict[str, NDArray[np.uint8]]
"""Named uint8 (H, W, 3) RGB pictures."""


@torch.no_grad()
def validate_model(
    model: nn.Module,
    parts: TrainingParts,
    ranks: DistributedContext,
    precision: Precision,
    stop: StopRequest,
) -> tuple[dict[str, float], ValidationPictures] | None:
    """Run the model over the validation samples of a training.

    Returns:
        the metrics, means over all samples of all processes, and pictures of the first sample, only
        on the first process; None if a process was requested to stop.

    Raises:
        FloatingPointError: if the model gives values that are not finite; on all processes alike,
            naming the samples.
    """
    was_training = model.training
    model.eval()
    objective = parts.objective
    batches = parts.validation_batches
    assert batches is not None
    metrics: list[dict[str, float]] = []
    pictures: ValidationPictures = {}
    spoiled = ""
    source = iter(batches)
    try:
        for round_ in range(batches.rounds):
            flags = torch.tensor([spoiled != "", stop.received is not None], dtype=torch.float32)
            is_spoiled, is_stopping = (ranks.sum(flags.to(ranks.device)) > 0).tolist()
            if is_spoiled:
                break
            if is_stopping:
                return None
            # In the last round this process may have no batch left.
            for raw in islice(source, 1):
                batch = objective.prepare(raw, ranks.device)
                with (
                    section("forward"),
                    # Each size of whole frames would be compiled.
                    torch.compiler.set_stance("force_eager"),
                    precision.autocast(),
                ):
                    output = objective.forward(model, batch).float()
                if not output.isfinite().all():
                    # The other processes wait for this one's next collective operation.
                    spoiled = batches.sample_names(round_)
                    continue
                with section("metrics"):
                    metrics += objective.metrics(output, batch)
                if round_ == 0 and ranks.is_main:
                    pictures = objective.pictures(output, batch)
    finally:
        model.train(was_training)
    metrics_of_ranks, spoiled_of_ranks = zip(*ranks.gather((metrics, spoiled)), strict=True)
    names = ", ".join(filter(None, spoiled_of_ranks))
    if names:
        raise FloatingPointError(f"the model gives values that are not finite for {names}")
    samples = list(chain.from_iterable(metrics_of_ranks))
    means = {name: float(np.mean([sample[name] for sample in samples])) for name in samples[0]}
    return means, pictures


def watched_metric(
    main: str, stopping: EarlyStoppingSettings | None, metrics: Mapping[str, float]
) -> str:
    """Return the metric that decides which weights are the best, and early stopping.

    Args:
        main: the main metric of the objective.
        stopping: section EARLY_STOPPING, which may name another one; None without early stopping.
        metrics: metrics of a validation.

    Raises:
        RunError: if validation has no metric of this name.
    """
    watched = main
    if stopping is not None and stopping.METRIC != MAIN_METRIC:
        watched = stopping.METRIC
    if watched in metrics:
        return watched
    names = ", ".join(metrics)
    if watched == main:
        raise RunError(
            f"the objective's metric is {watched}, but its metrics are {names}; correct "
            "Objective.metric"
        )
    raise RunError(
        f"TRAIN.EARLY_STOPPING.METRIC is {watched}, but validation gives {names}; set it to "
        f"{MAIN_METRIC} for {main}"
    )
