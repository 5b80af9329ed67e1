"""Findings on a run's speed and training, the most important first.

Symptoms, limits and texts are in ``advice.yaml``, the conditions in
:mod:`vrtspike.analysis.advice.conditions`. Effects are upper bounds computed from the run's own
values.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, get_args

import pandas as pd
from ruamel.yaml import YAML

from vrtspike.analysis.advice import conditions
from vrtspike.analysis.advice.conditions import (
    WARNING_SHARE,
    Condition,
    Observation,
    RunFacts,
    Severity,
)
from vrtspike.analysis.advice.task_advice import task_advice
from vrtspike.analysis.run_measurements import RunMeasurements
from vrtspike.config.run_schema import RunSettings
from vrtspike.config.texts import packaged_texts
from vrtspike.config.yaml_documents import nested

SEVERITIES: tuple[Severity, ...] = get_args(Severity)
COLUMNS = ["rank", "severity", "symptom", "evidence", "change", "keys", "effect"]


@dataclass(frozen=True)
class Finding:
    """A proposed change.

    Attributes:
        symptom: name of the symptom in ``advice.yaml``.
        severity: ``error``: spoils the result or ends the run; ``warning``: costs much time or
            endangers the run; ``hint``: a possible improvement.
        weight: affected share of the run's time (0 to 1); ranks findings of one severity.
        evidence: the measured value and its limit.
        change: sentence that says what to change.
        keys: dotted configuration keys and their proposed values; empty if the user must choose.
        effect: expected effect.
    """

    symptom: str
    severity: Severity
    weight: float
    evidence: str
    change: str
    effect: str
    keys: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key_lines(self) -> list[str]:
        """``KEY: value`` for each key."""
        return [key_line(key, value) for key, value in self.keys.items()]


@dataclass(frozen=True)
class Symptom:
    """An entry of ``advice.yaml``, which documents the attributes."""

    symptom: str
    condition: str
    measured: str
    reported: str
    cause: str
    evidence: str
    change: str | Mapping[str, str]
    effect: str
    limit: Mapping[str, float] = field(default_factory=dict)
    severity: Severity | None = None

    def findings(self, run: RunFacts) -> Iterator[Finding]:
        """Yield a finding if a run has the symptom."""
        condition: Condition = getattr(conditions, self.condition)
        for observation in condition(run, self.limit):
            values = {
                **vars(run.measurements),
                "run": run,
                "limit": self.limit,
                **vars(observation),
            }
            values |= {"faster": speed_up(observation.gain), **observation.values}
            by_gain: Severity = "warning" if observation.gain >= WARNING_SHARE else "hint"
            yield Finding(
                self.symptom,
                observation.severity or self.severity or by_gain,
                observation.weight,
                self.evidence.format(**values),
                self._change(observation).format(**values),
                self.effect.format(**values),
                observation.keys,
            )

    def _change(self, observation: Observation) -> str:
        """Return the text of the advice for an observation."""
        if isinstance(self.change, str):
            return self.change
        if observation.change:
            return self.change[observation.change]
        return self.change["keys" if observation.keys else "nothing"]


@cache
def symptoms() -> Mapping[str, Symptom]:
    """Return all symptoms by name, in the order of the page."""
    entries = packaged_texts(__package__, "advice.yaml")
    return {entry["symptom"]: Symptom(**entry) for entry in entries}


def find(measurements: RunMeasurements, settings: RunSettings) -> list[Finding]:
    """Return all findings for a run, the most important first.

    Args:
        measurements: measurements of the run.
        settings: settings of the run.
    """
    run = RunFacts(measurements, settings)
    findings = [finding for symptom in symptoms().values() for finding in symptom.findings(run)]
    return sorted(
        findings, key=lambda finding: (SEVERITIES.index(finding.severity), -finding.weight)
    )


def findings_table(findings: Sequence[Finding]) -> pd.DataFrame:
    """Return findings as rows of text, ranked from 1."""
    rows = [
        (rank, f.severity, f.symptom, f.evidence, f.change, "; ".join(f.key_lines), f.effect)
        for rank, f in enumerate(findings, start=1)
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def finding_lines(findings: Sequence[Finding]) -> list[str]:
    """Return findings as lines for a terminal, the most important first."""
    lines = []
    for rank, finding in enumerate(findings, start=1):
        lines.append(f"{rank}. {finding.symptom} ({finding.severity}): {finding.evidence}")
        lines.append(f"   {finding.change}; {finding.effect}")
        lines += [f"   {line}" for line in finding.key_lines]
    return lines or ["no findings: no symptom crossed its limit"]


def key_line(key: str, value: object) -> str:
    """Return a key and its value as in a preset file.

    >>> key_line("A.B", True), key_line("A.B", None), key_line("A.B", [2, 8]), key_line("A", "auto")
    ('A.B: true', 'A.B: null', 'A.B: [2, 8]', 'A: auto')
    """
    return f"{key}: {value if isinstance(value, str) else json.dumps(value)}"


def speed_up(share: float) -> str:
    """Format the speed-up of a run by saving a share of its time.

    >>> speed_up(0.2)
    '25%'
    """
    if share >= 0.999:
        return "1000 times"
    return f"{1 / (1 - share) - 1:.0%}"


BATCH_KEYS = ("TRAIN.BATCH_SIZE", "TRAIN.GRADIENT_ACCUMULATION_STEPS")


def proposed_keys(findings: Sequence[Finding], settings: RunSettings) -> dict[str, Any]:
    """Return the proposed keys of all findings; on conflicts the more important finding wins.

    Of several changes that use more GPU memory only the first is taken, because each was estimated
    alone: larger batches, or less recomputation.

    Args:
        findings: findings of a run, the most important first.
        settings: settings of the run.
    """
    memory_keys = {*BATCH_KEYS, *task_advice(settings).recompute_keys}
    accepted: dict[str, Any] = {}
    for finding in findings:
        is_full = not memory_keys.isdisjoint(accepted)
        keys = {k: v for k, v in finding.keys.items() if not (is_full and k in memory_keys)}
        accepted = {**keys, **accepted}
    return accepted


def preset_text(run: str, base: str, keys: Mapping[str, Any], findings: Sequence[Finding]) -> str:
    """Return a preset file with ``keys``, each with the finding that proposes it.

    Args:
        run: name of the run.
        base: preset that it was trained with; empty if that has no file.
        keys: dotted keys and values.
        findings: findings that propose them.
    """
    lines = [f"# Proposed from a run of {run}. Save as config/presets/<name>.yaml to use it."]
    document = nested(keys)
    if base:
        document = {"BASE": base, **document}
    else:
        lines.append("# Put in: BASE, the preset that it was trained with.")
    if not keys:
        lines.append("# No finding proposes another value; this preset equals its base.")
    for key, value in keys.items():
        origin = next(
            finding for finding in findings if key in finding.keys and finding.keys[key] == value
        )
        lines.append(f"# {key}: {origin.symptom}: {origin.evidence}")
    stream = io.StringIO()
    YAML().dump(document, stream)
    return "\n".join(lines) + "\n" + stream.getvalue()
