"""Measurements for the report page: training curves, time and memory."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from vrtspike.analysis.performance import RunAnalysis
from vrtspike.analysis.run_logs import RunLogs
from vrtspike.analysis.section_times import summarize_sections, throughput
from vrtspike.config.tasks import Metric
from vrtspike.io.files import finite_or_null
from vrtspike.reporting.evaluation_data import json_rows
from vrtspike.reporting.page_data import Curve, Curves
from vrtspike.system.rounding import ceil_div

POINTS = 800
"""Largest number of points of a curve."""

RATES = {"samples_per_second": "samples per second"}
MEMORY_SERIES = {
    "process_mb": "process",
    "children_mb": "loading processes",
    "system_used_mb": "whole machine",
    "gpu.allocated_mb": "GPU, in use",
    "gpu.reserved_mb": "GPU, reserved",
    "gpu.peak_mb": "GPU, peak",
}


def curves_of(
    table: pd.DataFrame, columns: Mapping[str, str], points: int = POINTS
) -> dict[str, Curve]:
    """Return the curves of columns, if the table has them and they contain numbers.

    Args:
        table: table with a column ``step``.
        columns: titles by column.
        points: largest number of points; neighbouring finite values are averaged, and points
            without any are None.

    Returns:
        the curves by title.
    """
    curves: dict[str, Curve] = {}
    for column, title in columns.items():
        if column not in table or table[column].isna().all():
            continue
        width = ceil_div(len(table), points)
        values = pd.to_numeric(table[column]).replace([np.inf, -np.inf], np.nan)
        finite = table.assign(values=values).sort_values("step", kind="stable")
        groups = finite.groupby(np.arange(len(finite)) // width)
        means = json_rows(groups.agg(steps=("step", "last"), values=("values", "mean")))
        curves[title] = {
            "steps": [mean["steps"] for mean in means],
            "values": [mean["values"] for mean in means],
            "width": width,
        }
    return curves


def training_curves(logs: RunLogs, metrics: Mapping[str, Metric]) -> Curves:
    """Return the curves of a run.

    Args:
        logs: logs of the run.
        metrics: metrics of its task.
    """
    titles = {"loss": "loss", **loss_terms(logs.train)}
    titles |= {"grad_norm": "gradient norm", "lr": "learning rate"}
    labels = {metric.name: metric.label for metric in metrics.values()}
    return {
        "train": curves_of(logs.train, titles),
        "validation": curves_of(logs.validation, labels),
    }


def loss_terms(columns: Iterable[Hashable]) -> dict[str, str]:
    """Titles of the terms of the loss, by column of a log; none if a single term is the loss."""
    names = [name for name in map(str, columns) if name.startswith("losses.")]
    if len(names) < 2:
        return {}
    return {name: f"loss: {name.partition('.')[2]}" for name in names}


def performance(analysis: RunAnalysis) -> dict[str, Any]:
    """Return time and memory of a run, with findings.

    Returns:
        ``step_ms``, ``samples_per_second``, ``data_share`` (share of a step that waits for data),
        ``process_mb`` and ``gpu_peak_mb`` (units of 2**20 bytes), each None if unknown; ``parts``,
        shares of a step by the name of its part; ``sections``, rows of the table of sections;
        ``throughput`` and ``memory``, curves by title; and ``findings``.
    """
    speed = analysis.measurements.speed
    memory = analysis.measurements.memory
    logs = analysis.logs
    return {
        "step_ms": finite_or_null(speed.step_ms),
        "samples_per_second": finite_or_null(speed.samples_per_second),
        "data_share": finite_or_null(speed.data_share),
        "process_mb": finite_or_null(memory.process_mb),
        "gpu_peak_mb": finite_or_null(memory.gpu_peak_mb),
        "parts": dict(speed.step_parts),
        "sections": json_rows(summarize_sections(logs.timing, logs.starts)),
        "throughput": curves_of(throughput(logs.steps, logs.timing), RATES),
        "memory": curves_of(logs.memory, MEMORY_SERIES),
        "findings": [
            {
                "symptom": finding.symptom,
                "severity": finding.severity,
                "evidence": finding.evidence,
                "change": finding.change,
                "effect": finding.effect,
                "keys": finding.key_lines,
            }
            for finding in analysis.findings
        ],
    }
