"""What a finding is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Severity = Literal["error", "warning", "hint"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "hint")


@dataclass(frozen=True)
class Finding:
    """One thing to change.

    Attributes:
        symptom: short name of the rule.
        severity: ``error`` spoils the result, ``warning`` costs time or memory, ``hint`` is a
            possibility.
        weight: share of the run's time (0 to 1) that is at stake; ranks findings of one severity.
        figure: what was measured, with the limit it crossed.
        change: what to do, in words.
        keys: dotted configuration keys and their proposed values; empty where a person must choose.
        effect: what to expect.
    """

    symptom: str
    severity: Severity
    weight: float
    figure: str
    change: str
    effect: str
    keys: Mapping[str, Any] = field(default_factory=dict)
