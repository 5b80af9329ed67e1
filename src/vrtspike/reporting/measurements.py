"""Measurements for the report page: training curves, time, memory, and alignment."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd

from vrtspike.analysis.performance import Analysis
from vrtspike.analysis.run_logs import RunLogs
from vrtspike.analysis.section_times import summarize_sections, throughput
from vrtspike.config.problems import Metric
from vrtspike.io.files import finite_or_null
from vrtspike.reporting.run_quality import Contents, read_table, records

POINTS = 800
"""Largest number of points of a curve."""

RATES = {"samples_per_second": "samples per second"}
MEMORY = {
    "process_mb": "process",
    "children_mb": "loading processes",
    "system_used_mb": "whole machine",
    "gpu.allocated_mb": "GPU, in use",
    "gpu.reserved_mb": "GPU, reserved",
    "gpu.peak_mb": "GPU, peak",
}


def curves_of(
    table: pd.DataFrame, columns: Mapping[str, str], points: int = POINTS
) -> dict[str, Contents]:
    """Return the curves of columns, if the table has them and they contain numbers.

    Args:
        table: table with a column ``step``; values that are not finite are ignored.
        columns: titles by column.
        points: largest number of points; neighbouring values are averaged.

    Returns:
        by title ``steps``: the last step of each point; ``values``: means, None without finite
        values; ``width``: logged steps per point.
    """
    curves: dict[str, Contents] = {}
    for column, title in columns.items():
        if column not in table:
            continue
        rows = table.dropna(subset=[column])
        if rows.empty:
            continue
        width = -(-len(rows) // points)
        values = pd.to_numeric(rows[column]).replace([np.inf, -np.inf], np.nan)
        finite = rows.assign(values=values).sort_values("step", kind="stable")
        groups = finite.groupby(np.arange(len(finite)) // width)
        means = records(groups.agg(steps=("step", "last"), values=("values", "mean")))
        curves[title] = {
            "steps": [mean["steps"] for mean in means],
            "values": [mean["values"] for mean in means],
            "width": width,
        }
    return curves


def training_curves(logs: RunLogs, metrics: Mapping[str, Metric]) -> dict[str, Contents]:
    """Return the curves of a run by title, for ``train`` and ``validation``.

    Args:
        logs: logs of the run.
        metrics: metrics of its problem.
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


def performance(analysis: Analysis) -> Contents:
    """Return time and memory of a run, with findings.

    Returns:
        figures of :class:`vrtspike.analysis.figures.RunFigures`; ``parts``: their share of a step,
        0 to 1; ``sections`` of :func:`~vrtspike.analysis.section_times.summarize_sections`;
        curves of ``throughput`` and ``memory`` (megabytes of 2**20 bytes) by title; ``findings``,
        the most important first, keys as ``KEY: value``.
    """
    speed = analysis.figures.speed
    memory = analysis.figures.memory
    logs = analysis.logs
    times = {name: getattr(speed, name) for name in ("step_ms", "samples_per_second", "data_share")}
    sizes = {name: getattr(memory, name) for name in ("process_mb", "gpu_peak_mb")}
    return {
        **finite_or_null(times | sizes),
        "parts": speed.step_parts,
        "sections": records(summarize_sections(logs.timing)),
        "throughput": curves_of(throughput(logs.steps, logs.timing), RATES),
        "memory": curves_of(logs.memory, MEMORY),
        "findings": [
            asdict(finding) | {"keys": finding.key_lines} for finding in analysis.findings
        ],
    }


def read_alignment(path: Path) -> Contents | None:
    """Read the alignment of a data set from its table; None without a table.

    Args:
        path: ``results/data/<data set>/alignment.csv``.

    Returns:
        the name of the ``dataset``; ``exposures``: number of aligned frames, 0 without spikes;
        medians of the ``offset`` (measured less expected centre of an exposure, in spike steps) and
        of the ``correlation`` of spikes and sharp frame; ``rows``, one per sequence: ``split``,
        ``sequence``, ``exposures``, and both medians with their extremes ``_low`` and ``_high``.
    """
    if not path.is_file():
        return None
    table = read_table(path, "prepare the data again")
    table["offset"] = table["center"] - table["expected_center"]
    aggregations = {"exposures": ("frame", "size")}
    for name in ("offset", "correlation"):
        aggregations[name] = (name, "median")
        aggregations[f"{name}_low"] = (name, "min")
        aggregations[f"{name}_high"] = (name, "max")
    groups = table.groupby(["split", "sequence"], as_index=False)
    sequences = groups.agg(**aggregations)
    (medians,) = records(table[["offset", "correlation"]].median().to_frame().T)
    return {
        "dataset": path.parent.name,
        "exposures": len(table),
        **medians,
        "rows": records(sequences),
    }
