"""The handful of figures of a run that findings and comparisons are made from."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from vrtspike.analysis.sections import step_parts, summarize_sections, without_warm_up
from vrtspike.deblurring.metrics.table import METRICS
from vrtspike.monitoring.timing_layout import ROOT
from vrtspike.runs.logs import RunLogs

DATA = f"{ROOT}/data"
FORWARD = f"{ROOT}/forward"
BACKWARD = f"{ROOT}/backward"
RECOMPUTATION = f"{BACKWARD}/recomputation"


@dataclass(frozen=True)
class Speed:
    """Times after the warm-up: means in milliseconds, shares of the step's time (0 to 1).

    ``data_ms``, ``forward_ms`` and ``slowest_section`` are for one micro-batch of one process, so
    that presets with different gradient accumulation compare; ``step_ms`` is a whole step.
    """

    step_ms: float | None = None
    data_ms: float | None = None
    data_share: float | None = None
    forward_ms: float | None = None
    recomputation_share: float | None = None
    slowest_section: tuple[str, float] | None = None
    step_parts: dict[str, float] = field(default_factory=dict)
    samples_per_second: float | None = None
    frames_per_second: float | None = None


@dataclass(frozen=True)
class Health:
    """Whether training went well; ``best`` holds the best value of each validation metric."""

    logged_steps: int = 0
    losses_not_finite: int = 0
    first_not_finite: int | None = None
    last_loss: float | None = None
    gradient_norm_median: float | None = None
    gradient_norm_max: float | None = None
    best: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Memory:
    """Largest values of a run in megabytes (2**20 bytes), of the process that logs.

    ``process_mb`` includes the data loading workers; ``cache_hit_rate`` (0 to 1) is the last one
    logged; ``gpu_activations_mb`` is the peak less parameters, gradients and optimiser state.
    """

    process_mb: float | None = None
    system_percent: float | None = None
    gpu_peak_mb: float | None = None
    gpu_total_mb: float | None = None
    gpu_activations_mb: float | None = None
    gpu_utilisation: float | None = None
    cache_hit_rate: float | None = None

    @property
    def has_gpu(self) -> bool:
        """Whether the run used a GPU."""
        return self.gpu_total_mb is not None


@dataclass(frozen=True)
class RunFigures:
    """One run in numbers; None where nothing was logged that would give the number."""

    speed: Speed = Speed()
    health: Health = Health()
    memory: Memory = Memory()


def run_figures(logs: RunLogs, micro_batches: int) -> RunFigures:
    """The figures of a run.

    Args:
        logs: what it logged.
        micro_batches: forward passes of one process in a step
            (``TRAIN.GRADIENT_ACCUMULATION_STEPS``).
    """
    return RunFigures(_speed(logs, micro_batches), _health(logs), _memory(logs))


def _speed(logs: RunLogs, micro_batches: int) -> Speed:
    sections = summarize_sections(logs.timing)
    by_name = sections.set_index("section")
    steady = without_warm_up(logs.timing)
    whole = steady[steady["section"] == ROOT]
    seconds = float(whole["ms"].sum()) / 1e3
    counted = logs.steps[logs.steps["step"].isin(whole["step"])]
    return Speed(
        step_ms=_value(by_name, ROOT, "mean"),
        data_ms=_value(by_name, DATA, "mean", micro_batches),
        data_share=_value(by_name, DATA, "share"),
        forward_ms=_value(by_name, FORWARD, "mean", micro_batches),
        recomputation_share=_value(by_name, RECOMPUTATION, "share"),
        slowest_section=_slowest_leaf(sections, micro_batches),
        step_parts=step_parts(sections),
        samples_per_second=float(counted["samples"].sum()) / seconds if seconds else None,
        frames_per_second=float(counted["frames"].sum()) / seconds if seconds else None,
    )


def _slowest_leaf(sections: pd.DataFrame, micro_batches: int) -> tuple[str, float] | None:
    """The slowest section of the forward pass that holds no other, with its milliseconds."""
    names = [str(name) for name in sections["section"]]
    parents = {name.rpartition("/")[0] for name in names}
    leaves = {
        name.removeprefix(FORWARD + "/"): float(mean) / micro_batches
        for name, mean in zip(names, sections["mean"], strict=True)
        if name.startswith(FORWARD + "/") and name not in parents
    }
    return max(leaves.items(), key=lambda leaf: leaf[1], default=None)


def _health(logs: RunLogs) -> Health:
    losses = [float(loss) for loss in logs.train["loss"]]
    lost = [
        int(step)
        for step, loss in zip(logs.train["step"], losses, strict=True)
        if not math.isfinite(loss)
    ]
    norms = _numbers(logs.train, "grad_norm").dropna()
    return Health(
        logged_steps=len(losses),
        losses_not_finite=len(lost),
        first_not_finite=lost[0] if lost else None,
        last_loss=_finite(losses[-1]) if losses else None,
        gradient_norm_median=_finite(norms.median()),
        gradient_norm_max=_finite(norms.max()),
        best=_best(logs.validation),
    )


def _best(validation: pd.DataFrame) -> dict[str, float]:
    columns = {metric: _numbers(validation, metric.name).dropna() for metric in METRICS.values()}
    found = {metric.name: _finite(metric.best(v)) for metric, v in columns.items() if len(v)}
    return {name: value for name, value in found.items() if value is not None}


def _memory(logs: RunLogs) -> Memory:
    def largest(column: str) -> float | None:
        return _finite(_numbers(logs.memory, column).max())

    rates = _numbers(logs.memory, "cache.hit_rate").dropna()
    processes = _numbers(logs.memory, "process_mb") + _numbers(logs.memory, "children_mb")
    return Memory(
        process_mb=_finite(processes.max()),
        system_percent=largest("system_percent"),
        gpu_peak_mb=largest("gpu.peak_mb"),
        gpu_total_mb=largest("gpu.total_mb"),
        gpu_activations_mb=logs.gpu_categories.get("activations_mb"),
        gpu_utilisation=largest("gpu.utilisation_percent"),
        cache_hit_rate=float(rates.iloc[-1]) if len(rates) else None,
    )


def _numbers(table: pd.DataFrame, column: str) -> pd.Series:
    if column not in table:
        return pd.Series(dtype=float)
    return pd.to_numeric(table[column]).astype(float)


def _value(table: pd.DataFrame, row: str, column: str, parts: int = 1) -> float | None:
    value = _finite(table.at[row, column]) if row in table.index else None
    return None if value is None else value / parts


def _finite(value: Any) -> float | None:  # noqa: ANN401 - any scalar of pandas
    number = float(value)
    return number if math.isfinite(number) else None
