"""Progress of a run: counters, best metrics, throughput and remaining time."""

from __future__ import annotations

import math
import time
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from vrtspike.system.errors import RunError

_SMOOTHING = 0.1
"""Weight of the last step in the throughput."""


@dataclass(frozen=True)
class StepResult:
    """Result of one optimiser step, equal on every process except ``data_ms``.

    Attributes:
        losses: weighted terms, averaged over micro-steps and processes.
        learning_rate: learning rate of the step; a parameter group has this rate times its factor.
        gradient_norm: norm of the gradient before clipping.
        skipped: true if the update was skipped because the gradients were not finite.
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

    def record(self, samples_per_second: float) -> dict[str, Any]:
        """Return the values for ``metrics.jsonl``."""
        return {
            "loss": self.loss,
            "losses": self.losses,
            "lr": self.learning_rate,
            "grad_norm": self.gradient_norm,
            "skipped": self.skipped,
            "samples_per_second": round(samples_per_second, 4),
            "data_ms": round(self.data_ms, 3),
        }


@dataclass(frozen=True)
class Epochs:
    """Epochs of a run, counted from 1. An epoch may end within a step, which belongs to it.

    Attributes:
        micro_batches_per_epoch: micro-batches of an epoch.
        micro_batches_per_step: micro-batches of an optimiser step, of all processes together.

    >>> epochs = Epochs(micro_batches_per_epoch=5, micro_batches_per_step=2)
    >>> [epochs.number_of_step(step) for step in range(1, 7)]
    [1, 1, 1, 2, 2, 3]
    >>> [step for step in range(1, 7) if epochs.is_last_step(step)]
    [3, 5]
    """

    micro_batches_per_epoch: int
    micro_batches_per_step: int

    def number_of_step(self, step: int) -> int:
        """Return the epoch in which a step begins."""
        return (step - 1) * self.micro_batches_per_step // self.micro_batches_per_epoch + 1

    def is_last_step(self, step: int) -> bool:
        """Return whether the epoch of a step ends with it."""
        finished = step * self.micro_batches_per_step // self.micro_batches_per_epoch
        return finished >= self.number_of_step(step)


@dataclass
class RunCounters:
    """Counters and best metrics of a run, the part of its state other than weights and optimiser.

    Checkpoints hold it by the key ``progress``.

    Attributes:
        step: finished optimiser steps.
        samples: processed samples, of all processes.
        skipped: steps without an update because of gradients that were not finite.
        skipped_in_a_row: skipped steps since the last update.
        validated_step: the step after which validation last ran.
        metrics: metrics of the last validation.
        best: best value of each metric so far.
        best_step: the step at which the watched metric was at its best.
        without_improvement: validations since the watched metric was at its best.
        epoch_samples: samples of the current epoch, of all processes.
        epoch_seconds: running time of the current epoch, validations and checkpoints included.
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
        """Return all fields."""
        return dict(vars(self))

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`.

        Raises:
            RunError: if it is that of another version of this project.
        """
        if state_dict.keys() != vars(self).keys():
            raise RunError(
                f"progress of the checkpoint: found keys {', '.join(sorted(state_dict))}, expected "
                f"{', '.join(vars(self))}: another version of this project wrote it; continue with "
                "that version, or remove the run's folder to begin again"
            )
        vars(self).update(state_dict)

    def count(self, result: StepResult) -> None:
        """Count a finished step."""
        self.step += 1
        self.samples += result.samples
        self.epoch_samples += result.samples
        self.skipped += result.skipped
        if result.skipped:
            self.skipped_in_a_row += 1
        else:
            self.skipped_in_a_row = 0

    def note_validation(
        self, metrics: dict[str, float], watched: str, lower: Collection[str] = ()
    ) -> bool:
        """Record the metrics of a validation.

        Args:
            metrics: metrics by name; NaN is never better than anything.
            watched: the metric that decides which weights are the best, and early stopping.
            lower: names of metrics whose smaller values are better.

        Returns:
            true if ``watched`` is better than ever before.
        """
        improved = {}
        for name, value in metrics.items():
            if self._is_better(name, value, lower):
                improved[name] = value
        self.validated_step = self.step
        self.metrics = dict(metrics)
        self.best |= improved
        if watched not in improved:
            self.without_improvement += 1
            return False
        self.without_improvement = 0
        self.best_step = self.step
        return True

    def _is_better(self, name: str, value: float, lower: Collection[str]) -> bool:
        """Compare a value with the best one so far; NaN is never better."""
        if name in lower:
            return value < self.best.get(name, math.inf)
        return value > self.best.get(name, -math.inf)

    def entries(self) -> dict[str, Any]:
        """Return the entries for ``run.json``."""
        return {
            "samples": self.samples,
            "skipped_steps": self.skipped,
            "metrics": self.metrics,
            "best": self.best,
            "best_step": self.best_step,
        }

    def close_epoch(self) -> dict[str, float]:
        """Return time and throughput of the epoch and start the next one."""
        values = {
            "seconds": round(self.epoch_seconds, 3),
            "samples": self.epoch_samples,
            "samples_per_second": round(self.epoch_samples / max(self.epoch_seconds, 1e-9), 4),
        }
        self.epoch_seconds = 0.0
        self.epoch_samples = 0
        return values


class Throughput:
    """Smoothed samples per second, and the remaining time.

    Args:
        step: finished steps at the start of this process.
        total_steps: optimiser steps of the run.
    """

    def __init__(self, step: int, total_steps: int) -> None:
        self._first = step
        self._total_steps = total_steps
        self._start = time.monotonic()
        self._last = self._start
        self.samples_per_second = 0.0

    def count(self, samples: int) -> float:
        """Count the samples of a finished step; return the step's seconds."""
        now = time.monotonic()
        seconds = now - self._last
        rate = samples / max(seconds, 1e-9)
        if self.samples_per_second:
            self.samples_per_second += _SMOOTHING * (rate - self.samples_per_second)
        else:
            self.samples_per_second = rate
        self._last = now
        return seconds

    def remaining_seconds(self, step: int) -> float:
        """Return the seconds to the end at this process's mean speed, validations included."""
        steps = step - self._first
        if steps == 0:
            return 0.0
        return (self._total_steps - step) * (self._last - self._start) / steps
