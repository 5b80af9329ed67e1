"""What a finding is, and what a rule that makes it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from vrtspike.analysis.figures import RunFigures
from vrtspike.config.run_schema import RunSettings

Severity = Literal["error", "warning", "hint"]
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "hint")

WORTH_A_WARNING = 0.05
"""Share of a run's time; what can gain less is a hint."""


@dataclass(frozen=True)
class Finding:
    """One thing to change.

    Attributes:
        symptom: short name of the rule.
        severity: ``error`` spoils the result or ends the run, ``warning`` costs a good part of the
            time or puts the run at risk, ``hint`` is a possibility.
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

    @property
    def key_lines(self) -> list[str]:
        """``KEY: value`` for each key."""
        return [key_line(key, value) for key, value in self.keys.items()]


def key_line(key: str, value: object) -> str:
    """A key and its value as a preset writes it.

    >>> key_line("A.B", True), key_line("A.B", None), key_line("A.B", [2, 8]), key_line("A", "auto")
    ('A.B: true', 'A.B: null', 'A.B: [2, 8]', 'A: auto')
    """
    return f"{key}: {value if isinstance(value, str) else json.dumps(value)}"


Look = Callable[[RunFigures, RunSettings], Finding | None]


@dataclass(frozen=True)
class Rule:
    """A symptom and how it is looked for; called as the function that looks.

    Attributes:
        symptom: its name, that of its findings.
        cause: what is behind it as a rule.
        measured: from which figures.
        limit: from where on it is reported, and as what.
        cure: what helps.
        look: answers with a finding or nothing.
    """

    symptom: str
    cause: str
    measured: str
    limit: str
    cure: str
    look: Look

    def __call__(self, figures: RunFigures, settings: RunSettings) -> Finding | None:
        """The finding, where a run has the symptom."""
        return self.look(figures, settings)


def rule(
    *, symptom: str, cause: str, measured: str, limit: str, cure: str
) -> Callable[[Look], Rule]:
    """Make a function a :class:`Rule`; the texts are a row of ``docs/findings.md``."""

    def made(look: Look) -> Rule:
        return Rule(symptom, cause, measured, limit, cure, look)

    return made


def by_gain(share: float) -> Severity:
    """How much it matters that a share of a run's time (0 to 1) could be saved.

    >>> by_gain(0.05), by_gain(0.008)
    ('warning', 'hint')
    """
    return "warning" if share >= WORTH_A_WARNING else "hint"


def speed_up(share: float) -> str:
    """By how much a run is faster that is spared a share of its time.

    >>> speed_up(0.2)
    '25%'
    """
    return f"{1 / (1 - share) - 1:.0%}" if share < 0.999 else "1000 times"
