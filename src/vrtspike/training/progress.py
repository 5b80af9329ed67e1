"""Progress of a run: counters, validation, speed, and the arithmetic of a step."""

from __future__ import annotations

import math
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from vrtspike.cluster.signals import StopRequest
from vrtspike.monitoring.timing import seconds, section
from vrtspike.monitoring.timing_layout import Arithmetic
from vrtspike.training.distributed import Ranks
from vrtspike.training.precision import Precision
from vrtspike.training.tasks import Trainable

_SMOOTHING = 0.1

Pictures: TypeAlias = dict[str, NDArray[np.uint8]]
"""Named uint8 (H, W, 3) RGB pictures."""


@dataclass(frozen=True)
class StepResult:
    """Result of one optimiser step, equal on every process except ``data_ms``.

    Attributes:
        losses: weighted terms, averaged over micro-steps and processes.
        learning_rate: of the step; that of a parameter group is this times its factor.
        gradient_norm: before clipping.
        skipped: whether the update was skipped because the gradients were not finite.
        samples: samples of the step, of all processes.
        frames: frames of the step, of all processes.
        data_ms: milliseconds this process waited for data.
    """

    losses: dict[str, float]
    learning_rate: float
    gradient_norm: float
    skipped: bool
    samples: int
    frames: int
    data_ms: float

    @property
    def loss(self) -> float:
        """The sum of all terms."""
        return sum(self.losses.values())


@dataclass
class Progress:
    """The part of a run's state that is neither weights nor optimiser; checkpoints hold it.

    Attributes:
        step: finished optimiser steps.
        samples: samples seen, of all processes.
        skipped: steps without an update because of gradients that were not finite.
        skipped_in_a_row: skipped steps since the last update.
        validated_step: the step after which validation last ran.
        metrics: the figures of the last validation.
        best: best value of each metric so far.
        best_step: the step at which the watched metric was at its best.
        without_improvement: validations since the watched metric was at its best.
        epoch_samples: samples of the present epoch, of all processes.
        epoch_seconds: its running time, validations and checkpoints included.
    """

    step: int = 0
    samples: int = 0
    skipped: int = 0
    skipped_in_a_row: int = 0
    validated_step: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    best: dict[str, float] = field(default_factory=dict)
    best_step: int = 0
    without_improvement: int = 0
    epoch_samples: int = 0
    epoch_seconds: float = 0.0

    def state_dict(self) -> dict[str, Any]:
        """All fields."""
        return dict(vars(self))

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        vars(self).update(state_dict)

    def count(self, result: StepResult) -> None:
        """Count a finished step."""
        self.step += 1
        self.samples += result.samples
        self.epoch_samples += result.samples
        self.skipped += result.skipped
        self.skipped_in_a_row = self.skipped_in_a_row + 1 if result.skipped else 0

    def note_validation(
        self, metrics: dict[str, float], watched: str, lower: Collection[str] = ()
    ) -> bool:
        """Record the metrics of a validation.

        Args:
            metrics: by name; NaN is never better than anything.
            watched: the metric that decides which weights are the best, and early stopping.
            lower: names of the metrics of which smaller values are better.

        Returns:
            whether ``watched`` is the best so far.
        """
        signs = {name: -1.0 if name in lower else 1.0 for name in metrics}
        better = {
            name
            for name, sign in signs.items()
            if sign * metrics[name] > sign * self.best.get(name, -sign * math.inf)
        }
        self.validated_step = self.step
        self.metrics = dict(metrics)
        self.best |= {name: metrics[name] for name in better}
        self.without_improvement = 0 if watched in better else self.without_improvement + 1
        if watched in better:
            self.best_step = self.step
        return watched in better

    def figures(self) -> dict[str, Any]:
        """The entries for ``run.json``."""
        return {
            "samples": self.samples,
            "skipped_steps": self.skipped,
            "metrics": self.metrics,
            "best": self.best,
            "best_step": self.best_step,
        }

    def close_epoch(self) -> dict[str, float]:
        """Return time and throughput of the epoch and start the next one."""
        found = {
            "seconds": round(self.epoch_seconds, 3),
            "samples": self.epoch_samples,
            "samples_per_second": round(self.epoch_samples / max(self.epoch_seconds, 1e-9), 4),
        }
        self.epoch_seconds, self.epoch_samples = 0.0, 0
        return found


class Speed:
    """Smoothed samples per second, and the remaining time.

    Args:
        step: finished steps at the start of this process.
        total: steps of the run.
    """

    def __init__(self, step: int, total: int) -> None:
        self._first, self._total = step, total
        self._start = self._last = time.monotonic()
        self.samples_per_second = 0.0

    def count(self, samples: int) -> float:
        """Count the samples of a finished step; returns the step's seconds."""
        now = time.monotonic()
        seconds = now - self._last
        rate = samples / max(seconds, 1e-9)
        old = self.samples_per_second
        self.samples_per_second = old + _SMOOTHING * (rate - old) if old else rate
        self._last = now
        return seconds

    def remaining(self, step: int) -> float:
        """Seconds to the end at the mean speed of this process, validations included."""
        done = step - self._first
        return (self._total - step) * (self._last - self._start) / done if done else 0.0


@torch.no_grad()
def validate(
    model: nn.Module, problem: Trainable, ranks: Ranks, precision: Precision, stop: StopRequest
) -> tuple[dict[str, float], Pictures] | None:
    """Run the model over the validation samples of the problem, which has some.

    Returns:
        the metrics, means over all samples of all processes, and pictures of the first sample, only
        on the first process; None if a process was asked to stop.

    Raises:
        FloatingPointError: if the model gives values that are not finite.
    """
    was_training = model.training
    model.eval()
    found: list[dict[str, float]] = []
    pictures: Pictures = {}
    task, batches = problem.task, problem.validation
    assert batches is not None
    source = iter(batches)
    try:
        for round_ in range(batches.rounds):
            if ranks.sum(torch.tensor(float(stop.received is not None), device=ranks.device)) > 0:
                return None
            # In the last round this process may have no batch left.
            for raw in islice(source, 1):
                batch = task.prepare(raw, ranks.device)
                with section("forward"), precision.autocast():
                    output = task.forward(model, batch).float()
                if not output.isfinite().all():
                    raise FloatingPointError("the model gives values that are not finite")
                with section("metrics"):
                    found += task.metrics(output, batch)
                if round_ == 0 and ranks.is_main:
                    pictures = task.pictures(output, batch)
    finally:
        model.train(was_training)
    samples = [metrics for part in ranks.gather(found) for metrics in part]
    means = {name: float(np.mean([each[name] for each in samples])) for name in samples[0]}
    return means, pictures


TRAINING_FACTOR = 3
"""Forward and backward (twice the operations of forward); recomputation does not count."""

_REPEATS = 5
_SIZES = {"cuda": 8192, "cpu": 1024}


@torch.no_grad()
def estimate_arithmetic(
    problem: Trainable,
    batch: Any,  # noqa: ANN401 - from a loader
    precision: Precision,
    ranks: Ranks,
) -> Arithmetic:
    """FLOPs of a sample, and peak FLOP/s of the run's devices; changes no state.

    Args:
        problem: its model is run once, in evaluation mode.
        batch: from the data loader.
        precision: of the run.
        ranks: the processes; their devices are assumed to be equal.
    """
    model, task = problem.model, problem.task
    prepared = task.prepare(batch, ranks.device)
    samples, _ = task.size(prepared)
    was_training = model.training
    model.eval()
    # The counter does not see operations of compiled blocks.
    with (
        precision.autocast(),
        torch.compiler.set_stance("force_eager"),
        FlopCounterMode(display=False) as counter,
    ):
        task.forward(model, prepared)
    model.train(was_training)
    peak = measure_peak(ranks.device, precision.compute_type) * ranks.world_size
    return Arithmetic(TRAINING_FACTOR * counter.get_total_flops() / samples, peak)


def measure_peak(device: torch.device, dtype: torch.dtype) -> float:
    """FLOP/s of a large square matrix product, the best of several."""
    size = _SIZES[device.type]
    a = torch.ones(size, size, device=device, dtype=dtype)
    return 2 * size**3 / min(seconds(device, lambda: torch.mm(a, a)) for _ in range(_REPEATS))
