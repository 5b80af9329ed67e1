"""Time and memory of a run on the report page."""

from __future__ import annotations

from typing import TypedDict

from vrtspike.reporting.page_data.curves import Curve
from vrtspike.reporting.page_data.tables import TableRow


class FindingText(TypedDict):
    """A finding; see :class:`vrtspike.analysis.findings.Finding`, with keys as ``KEY: value``."""

    symptom: str
    severity: str
    evidence: str
    change: str
    effect: str
    keys: list[str]


class Performance(TypedDict):
    """Time and memory of a run.

    Attributes:
        step_ms, samples_per_second, data_share, process_mb, gpu_peak_mb: values of
            :class:`vrtspike.analysis.run_measurements.RunMeasurements`.
        parts: shares of a step, 0 to 1.
        sections: rows of :func:`vrtspike.analysis.section_times.summarize_sections`.
        throughput, memory: curves by title, memory in megabytes of 2**20 bytes.
        findings: the most important first.
    """

    step_ms: float | None
    samples_per_second: float | None
    data_share: float | None
    process_mb: float | None
    gpu_peak_mb: float | None
    parts: dict[str, float]
    sections: list[TableRow]
    throughput: dict[str, Curve]
    memory: dict[str, Curve]
    findings: list[FindingText]
