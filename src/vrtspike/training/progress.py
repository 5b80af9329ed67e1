"""How far a run is, how well it does, and how fast it goes."""

from __future__ import annotations

import math
import time
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from typing import Any

_SMOOTHING = 0.1


@dataclass(frozen=True)
class StepResult:
    """What one optimiser step came to, equal on every process but for ``data_ms``.

    Attributes:
        losses: weighted terms, averaged over micro-steps and processes.
        learning_rate: of the first parameter group.
        gradient_norm: before clipping.
        skipped: whether the gradients were not finite and nothing was changed.
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
    """The part of a run's state that is neither weights nor optimiser.

    Attributes:
        step: finished optimiser steps.
        samples: samples seen, of all processes.
        skipped: steps without an update because of gradients that were not finite.
        skipped_in_a_row: those among the latest steps without interruption.
        validated_step: the step after which validation last ran.
        metrics: the figures of the last validation.
        best: best value of each metric so far.
        best_step: the step of the best main metric.
        without_improvement: validations since the watched metric was at its best.
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

    def count(self, result: StepResult) -> None:
        """Count a finished step."""
        self.step += 1
        self.samples += result.samples
        self.skipped += result.skipped
        self.skipped_in_a_row = self.skipped_in_a_row + 1 if result.skipped else 0

    def note_validation(
        self, metrics: dict[str, float], main: str, watched: str, lower: Collection[str] = ()
    ) -> bool:
        """Take in the figures of a validation.

        Args:
            metrics: by name; NaN is never better than anything.
            main: the metric that decides which weights are the best.
            watched: the metric that early stopping watches.
            lower: names of the metrics of which smaller values are better.

        Returns:
            whether ``main`` is better than ever before.
        """
        better = {name for name, v in metrics.items() if self._improves(name, v, name in lower)}
        self.validated_step = self.step
        self.metrics = dict(metrics)
        self.best |= {name: metrics[name] for name in better}
        self.without_improvement = 0 if watched in better else self.without_improvement + 1
        if main in better:
            self.best_step = self.step
        return main in better

    def _improves(self, name: str, value: float, lower: bool) -> bool:
        if lower:
            return value < self.best.get(name, math.inf)
        return value > self.best.get(name, -math.inf)

    def figures(self) -> dict[str, Any]:
        """What a record of the run shows."""
        return {
            "samples": self.samples,
            "skipped_steps": self.skipped,
            "metrics": self.metrics,
            "best": self.best,
            "best_step": self.best_step,
        }

    def state_dict(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        for name, value in state.items():
            setattr(self, name, value)


@dataclass
class EpochPace:
    """Time and samples of the present epoch; it goes on where a run was interrupted.

    Attributes:
        seconds: in which the run was at work, validations and checkpoints included.
        samples: samples seen, of all processes.
    """

    seconds: float = 0.0
    samples: int = 0

    def count(self, seconds: float, samples: int) -> None:
        """Count a step."""
        self.seconds += seconds
        self.samples += samples

    @property
    def is_open(self) -> bool:
        """Whether anything was counted since the last epoch was closed."""
        return self.samples > 0

    def close(self) -> dict[str, float]:
        """The figures of the epoch; begins the next one."""
        found = {
            "seconds": round(self.seconds, 3),
            "samples": self.samples,
            "samples_per_second": round(self.samples / max(self.seconds, 1e-9), 4),
        }
        self.seconds, self.samples = 0.0, 0
        return found

    def state_dict(self) -> dict[str, Any]:
        """All fields."""
        return asdict(self)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore :meth:`state_dict`."""
        self.seconds, self.samples = state["seconds"], state["samples"]


class Speed:
    """Samples a second, smoothed, and the time that remains.

    Args:
        step: finished steps at the start of this process.
        total: steps of the run.
    """

    def __init__(self, step: int, total: int) -> None:
        self._first, self._total = step, total
        self._start = self._last = time.monotonic()
        self.samples_per_second = 0.0

    def count(self, samples: int) -> float:
        """Count the samples of a step that has just ended; returns the seconds since the last."""
        now = time.monotonic()
        seconds = now - self._last
        rate = samples / max(seconds, 1e-9)
        old = self.samples_per_second
        self.samples_per_second = old + _SMOOTHING * (rate - old) if old else rate
        self._last = now
        return seconds

    def remaining(self, step: int) -> float:
        """Seconds to the end at the mean pace of this process, validations included."""
        done = step - self._first
        return (self._total - step) * (self._last - self._start) / done if done else 0.0
