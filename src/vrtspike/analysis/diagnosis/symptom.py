"""The interface of symptoms, which are checks of a run's measurements, and findings from them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from vrtspike.analysis.diagnosis.task_advice import TaskAdvice, task_advice
from vrtspike.analysis.run_measurements import RunMeasurements
from vrtspike.config.run_schema import RunSettings

Severity = Literal["error", "warning", "hint"]
Keys = dict[str, Any]

WARNING_SHARE = 0.05
"""Share of a run's time; findings that could save less are hints."""


@dataclass(frozen=True)
class RunFacts:
    """Measurements and settings of a run.

    Attributes:
        measurements: measurements of the run; those that were not logged exceed no limit.
        settings: settings of the run.
        precision: arithmetic of the run on its device
            (:func:`vrtspike.training.precision.resolve_precision`); None where it was not
            recorded, as in text logs.
    """

    measurements: RunMeasurements
    settings: RunSettings
    precision: str | None = None

    @property
    def advice(self) -> TaskAdvice:
        """Keys and words of the run's task."""
        return task_advice(self.settings)

    @property
    def has_loss_scale(self) -> bool:
        """True if it trains in float16, or may have: ``mixed`` is float16 on older GPUs."""
        if self.precision is None:
            return self.settings.TRAIN.PRECISION in ("16-mixed", "mixed")
        return self.precision == "16-mixed"

    @property
    def recomputation(self) -> list[str]:
        """Settings that store activations instead, in the order of the memory that they take."""
        return [f"{key}=false" for key in self.advice.recompute_keys]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A symptom in a run, and a proposed change.

    Attributes:
        severity: ``error``: spoils the result or ends the run; ``warning``: costs much time or
            endangers the run; ``hint``: a possible improvement.
        weight: affected share of the run's time (0 to 1); ranks findings of one severity.
        evidence: the measured value and its limit.
        change: sentence that says what to change.
        effect: expected effect; an upper bound computed from the run's own values.
        keys: dotted configuration keys and their proposed values; empty if the user must choose.
        symptom: name of the symptom, which :meth:`Symptom.find` adds.
    """

    severity: Severity
    weight: float
    evidence: str
    change: str
    effect: str
    keys: Mapping[str, Any] = field(default_factory=dict)
    symptom: str = ""

    @property
    def key_lines(self) -> list[str]:
        """``KEY: value`` for each key."""
        return [key_line(key, value) for key, value in self.keys.items()]


Check = Callable[[RunFacts], Finding | None]


@dataclass(frozen=True)
class Symptom:
    """A check of a run, and its row of docs/findings.md.

    Attributes:
        name: name of the symptom.
        measured: measurement that shows it.
        reported: limit beyond which it is reported.
        cause: usual causes.
        check: function that returns a finding if a run has the symptom.
    """

    name: str
    measured: str
    reported: str
    cause: str
    check: Check

    def find(self, run: RunFacts) -> Finding | None:
        """Return a finding if a run has the symptom."""
        finding = self.check(run)
        return None if finding is None else replace(finding, symptom=self.name)


def symptom(name: str, *, measured: str, reported: str, cause: str) -> Callable[[Check], Symptom]:
    """Return a decorator that makes a symptom of its check; arguments as of :class:`Symptom`."""

    def decorate(check: Check) -> Symptom:
        return Symptom(name, measured, reported, cause, check)

    return decorate


def key_line(key: str, value: object) -> str:
    """Return a key and its value as in a preset file.

    >>> key_line("A.B", True), key_line("A.B", None), key_line("A.B", [2, 8]), key_line("A", "auto")
    ('A.B: true', 'A.B: null', 'A.B: [2, 8]', 'A: auto')
    """
    return f"{key}: {value if isinstance(value, str) else json.dumps(value)}"


def severity_of_gain(gain: float) -> Severity:
    """Return the severity of a finding that could save a share of the run's time.

    >>> severity_of_gain(0.05), severity_of_gain(0.04)
    ('warning', 'hint')
    """
    return "warning" if gain >= WARNING_SHARE else "hint"


def speed_up_text(share: float) -> str:
    """Format the speed-up of a run by saving a share of its time.

    >>> speed_up_text(0.2)
    '25%'
    """
    if share >= 0.999:
        return "1000 times"
    return f"{1 / (1 - share) - 1:.0%}"


def more_samples_text(gain: float) -> str:
    """Return the effect of saving a share of the run's time, as the start of a sentence."""
    return f"at most {speed_up_text(gain)} more samples a second"
