"""Findings on a run's speed and training, the most important first."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import pandas as pd
from ruamel.yaml import YAML

from vrtspike.analysis.diagnosis.learning_symptoms import (
    exploding_gradient,
    loss_not_finite,
    vanishing_gradient,
)
from vrtspike.analysis.diagnosis.loading_symptoms import cold_cache, data_wait
from vrtspike.analysis.diagnosis.memory_symptoms import full_memory, gpu_headroom, growing_memory
from vrtspike.analysis.diagnosis.speed_symptoms import idle_gpu, low_throughput, slow_forward
from vrtspike.analysis.diagnosis.symptom import Finding, RunFacts, Severity, Symptom
from vrtspike.analysis.diagnosis.task_advice import task_advice
from vrtspike.analysis.run_measurements import RunMeasurements
from vrtspike.config.run_schema import RunSettings
from vrtspike.config.yaml_documents import unflatten

SEVERITIES: tuple[Severity, ...] = get_args(Severity)
COLUMNS = ["rank", "severity", "symptom", "evidence", "change", "keys", "effect"]

SYMPTOMS: Sequence[Symptom] = (
    loss_not_finite,
    exploding_gradient,
    vanishing_gradient,
    full_memory,
    growing_memory,
    data_wait,
    cold_cache,
    idle_gpu,
    slow_forward,
    low_throughput,
    gpu_headroom,
)
"""All symptoms, in the order of docs/findings.md."""


def diagnose_run(
    measurements: RunMeasurements, settings: RunSettings, precision: str | None = None
) -> list[Finding]:
    """Return all findings for a run, the most important first.

    Args:
        measurements: measurements of the run.
        settings: settings of the run.
        precision: recorded arithmetic of the run, if any.
    """
    run = RunFacts(measurements, settings, precision)
    findings = []
    for symptom in SYMPTOMS:
        finding = symptom.find(run)
        if finding is not None:
            findings.append(finding)
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
    document = unflatten(keys)
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
