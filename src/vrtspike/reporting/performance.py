"""Where the time and the memory of a run went, and what its findings say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vrtspike.analysis.finding import key_line
from vrtspike.reporting.curves import Curve, curves_of
from vrtspike.reporting.evaluations import rows_of
from vrtspike.reporting.stored import Stage

STAGE = Stage("performance analysis", "analyse again")

SECTION_COLUMNS = ("section", "depth", "p50", "p95", "share")
"""Of ``timing.csv``: times in milliseconds, the share of a step from 0 to 1."""

RATES = {"samples_per_second": "samples per second", "frames_per_second": "frames per second"}
MEMORY = {
    "process_mb": "process",
    "children_mb": "loading processes",
    "system_used_mb": "whole machine",
    "gpu.allocated_mb": "GPU, in use",
    "gpu.reserved_mb": "GPU, reserved",
    "gpu.peak_mb": "GPU, peak",
}


@dataclass(frozen=True)
class Finding:
    """One thing to change; as :class:`vrtspike.analysis.finding.Finding`, in words only.

    Attributes:
        severity: ``error``, ``warning`` or ``hint``.
        symptom: what was found.
        figure: by which figure.
        change: what to do.
        effect: what to expect.
        keys: proposed settings, ``KEY: value``.
    """

    severity: str
    symptom: str
    figure: str
    change: str
    effect: str
    keys: tuple[str, ...]


@dataclass(frozen=True)
class Performance:
    """The performance analysis of one run.

    Attributes:
        step_ms: mean time of a step.
        samples_per_second: mean of the run.
        data_share: share of a step that waits for data, 0 to 1.
        process_mb: largest memory of the process with its loading processes.
        gpu_peak_mb: largest memory in use on the GPU; None on a CPU.
        gpu_total_mb: what the GPU has.
        parts: share of a step by part, 0 to 1.
        sections: rows as :data:`SECTION_COLUMNS`, parents before their children.
        throughput: curves by title.
        memory: curves by title, in megabytes (2**20 bytes).
        findings: the most important first.
    """

    step_ms: float | None
    samples_per_second: float | None
    data_share: float | None
    process_mb: float | None
    gpu_peak_mb: float | None
    gpu_total_mb: float | None
    parts: Mapping[str, float]
    sections: tuple[tuple[Any, ...], ...]
    throughput: Mapping[str, Curve]
    memory: Mapping[str, Curve]
    findings: tuple[Finding, ...]


def read_performance(folder: Path, fingerprint: str) -> Performance | str:
    """The performance analysis in a folder, or why there is none.

    Args:
        folder: ``results/performance/<preset>``.
        fingerprint: of the run it has to be of.

    Raises:
        RunError: if a file of it is damaged or missing.
    """
    path = folder / "findings.json"
    if not path.is_file():
        return "not analysed"
    contents = STAGE.read_json_of(path, fingerprint)
    if isinstance(contents, str):
        return contents
    speed, memory = contents["figures"]["speed"], contents["figures"]["memory"]
    sections = STAGE.read_table(folder / "timing.csv").reindex(columns=list(SECTION_COLUMNS))
    return Performance(
        step_ms=speed["step_ms"],
        samples_per_second=speed["samples_per_second"],
        data_share=speed["data_share"],
        process_mb=memory["process_mb"],
        gpu_peak_mb=memory["gpu_peak_mb"],
        gpu_total_mb=memory["gpu_total_mb"],
        parts=speed["step_parts"],
        sections=tuple(map(tuple, rows_of(sections))),
        throughput=curves_of(STAGE.read_table(folder / "throughput.csv"), RATES),
        memory=curves_of(STAGE.read_table(folder / "memory.csv"), MEMORY),
        findings=tuple(map(_finding, contents["findings"])),
    )


def _finding(entry: Mapping[str, Any]) -> Finding:
    return Finding(
        severity=str(entry["severity"]),
        symptom=str(entry["symptom"]),
        figure=str(entry["figure"]),
        change=str(entry["change"]),
        effect=str(entry["effect"]),
        keys=tuple(key_line(key, value) for key, value in entry["keys"].items()),
    )
