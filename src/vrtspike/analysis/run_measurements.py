"""Measurements of a run, from its logs: for findings and comparisons."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import pandas as pd

from vrtspike.analysis.run_logs import RunLogs
from vrtspike.analysis.section_times import (
    DATA,
    FORWARD,
    RECOMPUTATION,
    step_parts,
    summarize_sections,
    without_warm_up,
)
from vrtspike.config.tasks import Metric
from vrtspike.monitoring.timing_text import STEP_SECTION

TREND_PARTS = 10
"""Number of parts of a run; trends compare the first part with the last."""
MIN_TREND_STEPS = 5 * TREND_PARTS
"""Minimum number of logged steps of a trend."""
MIN_MEMORY_LINES = 12
"""Minimum number of lines of the memory log from which growth is computed."""
CACHE_GROWTH = 1.02
"""Factor on the number of cached items in half a run; a cache that grows by less is full."""


NOT_LOGGED = math.nan
"""Value that was not logged; comparisons with every limit are false."""


@dataclass(frozen=True)
class Speed:
    """Times after each warm-up: means in milliseconds, shares of the step's time (0 to 1).

    Times per micro-batch are those of one process, so that presets with different gradient
    accumulation can be compared.

    Attributes:
        step_ms: time of a whole step.
        data_ms: wait for data, per micro-batch.
        data_share: share of the wait for data.
        forward_ms: time of the forward pass, per micro-batch.
        recomputation_share: share of the recomputation of activations.
        slowest_section: slowest section of the forward pass that contains no other, and its time
            per micro-batch.
        step_parts: share of each section directly under the step, and of the rest.
        samples_per_second: samples of the steps per second.
    """

    step_ms: float = NOT_LOGGED
    data_ms: float = NOT_LOGGED
    data_share: float = NOT_LOGGED
    forward_ms: float = NOT_LOGGED
    recomputation_share: float = NOT_LOGGED
    slowest_section: tuple[str, float] | None = None
    step_parts: dict[str, float] = field(default_factory=dict)
    samples_per_second: float = NOT_LOGGED


@dataclass(frozen=True)
class Health:
    """Losses, gradient norms and validations.

    Attributes:
        logged_steps: number of logged steps.
        losses_not_finite: number of logged losses that are not finite.
        first_not_finite: step of the first of these losses; None without one.
        last_loss: last logged loss.
        gradient_norm_median: median over the logged steps.
        gradient_norm_max: largest gradient norm.
        first_gradient_norms: median over the first tenth of the logged steps of a long run.
        last_gradient_norms: median over the last tenth of them.
        best: best value of each metric in validations.
    """

    logged_steps: int = 0
    losses_not_finite: int = 0
    first_not_finite: int | None = None
    last_loss: float = NOT_LOGGED
    gradient_norm_median: float = NOT_LOGGED
    gradient_norm_max: float = NOT_LOGGED
    first_gradient_norms: float = NOT_LOGGED
    last_gradient_norms: float = NOT_LOGGED
    best: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Memory:
    """Peak memory of the logging process in megabytes (2**20 bytes).

    Attributes:
        process_mb: memory of the process with its data loading workers.
        growth_mb: growth of ``process_mb`` in the second half of the last start, unless a cache was
            being filled.
        growth_steps: number of steps of that half.
        system_percent: used share of the system's memory in percent.
        system_total_mb: memory of the system.
        gpu_peak_mb: memory of the GPU at its peak.
        gpu_total_mb: total memory of the GPU.
        gpu_activations_mb: ``gpu_peak_mb`` less parameters, gradients and optimiser state.
        gpu_utilisation: median of the GPU's utilisation in percent.
        cache_hit_rate: last logged hit rate of the cache, 0 to 1.
        cache_is_full: last logged state of the cache; None without one.
    """

    process_mb: float = NOT_LOGGED
    growth_mb: float = NOT_LOGGED
    growth_steps: int | None = None
    system_percent: float = NOT_LOGGED
    system_total_mb: float = NOT_LOGGED
    gpu_peak_mb: float = NOT_LOGGED
    gpu_total_mb: float = NOT_LOGGED
    gpu_activations_mb: float = NOT_LOGGED
    gpu_utilisation: float = NOT_LOGGED
    cache_hit_rate: float = NOT_LOGGED
    cache_is_full: bool | None = None

    @property
    def has_gpu(self) -> bool:
        """True if the run used a GPU."""
        return self.gpu_total_mb > 0


@dataclass(frozen=True)
class RunMeasurements:
    """All measurements of a run.

    Attributes:
        speed: times and throughput.
        health: losses, gradient norms and validations.
        memory: memory of process, system and GPU.
    """

    speed: Speed = Speed()
    health: Health = Health()
    memory: Memory = Memory()


def measure_run(logs: RunLogs, micro_steps: int, metrics: Mapping[str, Metric]) -> RunMeasurements:
    """Compute the measurements of a run.

    Args:
        logs: logs of the run.
        micro_steps: forward passes of one process in a step.
        metrics: metrics of the task.
    """
    return RunMeasurements(_speed(logs, micro_steps), _health(logs, metrics), _memory(logs))


def _speed(logs: RunLogs, micro_steps: int) -> Speed:
    sections = summarize_sections(logs.timing, logs.starts)
    by_name = sections.set_index("section")
    mean = by_name["mean"]
    share = by_name["share"]
    mean_per_micro_batch = mean / micro_steps
    steady = without_warm_up(logs.timing, logs.starts)
    whole = steady[steady["section"] == STEP_SECTION].merge(logs.steps, on="step")
    seconds = float(whole["ms"].sum()) / 1e3
    return Speed(
        step_ms=mean.get(STEP_SECTION, NOT_LOGGED),
        data_ms=mean_per_micro_batch.get(DATA, NOT_LOGGED),
        data_share=share.get(DATA, NOT_LOGGED),
        forward_ms=mean_per_micro_batch.get(FORWARD, NOT_LOGGED),
        recomputation_share=share.get(RECOMPUTATION, NOT_LOGGED),
        slowest_section=_slowest_leaf(mean_per_micro_batch),
        step_parts=step_parts(sections),
        samples_per_second=float(whole["samples"].sum()) / seconds if seconds else NOT_LOGGED,
    )


def _slowest_leaf(milliseconds: pd.Series) -> tuple[str, float] | None:
    """Return the slowest innermost section of the forward pass, with its milliseconds."""
    inner = milliseconds[milliseconds.index.str.startswith(f"{FORWARD}/")]
    leaves = inner.drop([name.rpartition("/")[0] for name in inner.index], errors="ignore")
    if leaves.empty:
        return None
    return str(leaves.idxmax()).removeprefix(f"{FORWARD}/"), float(leaves.max())


def _health(logs: RunLogs, metrics: Mapping[str, Metric]) -> Health:
    losses = _numbers(logs.train, "loss")
    norms = _numbers(logs.train, "grad_norm").dropna()
    not_finite = logs.train["step"][losses.isna()]
    tenth = len(norms) // TREND_PARTS if len(norms) >= MIN_TREND_STEPS else 0
    validations = {name: _numbers(logs.validation, name).dropna() for name in metrics}
    return Health(
        logged_steps=len(losses),
        losses_not_finite=len(not_finite),
        first_not_finite=None if not_finite.empty else int(not_finite.iloc[0]),
        last_loss=_last(losses),
        gradient_norm_median=norms.median(),
        gradient_norm_max=norms.max(),
        first_gradient_norms=norms.iloc[:tenth].median(),
        last_gradient_norms=norms.iloc[len(norms) - tenth :].median(),
        best={
            name: metrics[name].best(values) for name, values in validations.items() if len(values)
        },
    )


def _memory(logs: RunLogs) -> Memory:
    def numbers(column: str) -> pd.Series:
        return _numbers(logs.memory, column)

    processes = numbers("process_mb") + numbers("children_mb")
    growth, growth_steps = _growth(_since_last_start(logs), processes)
    full = numbers("cache.full").dropna()
    return Memory(
        process_mb=processes.max(),
        growth_mb=growth,
        growth_steps=growth_steps,
        system_percent=numbers("system_percent").max(),
        system_total_mb=numbers("system_total_mb").max(),
        gpu_peak_mb=numbers("gpu.peak_mb").max(),
        gpu_total_mb=numbers("gpu.total_mb").max(),
        gpu_activations_mb=logs.gpu_activations_mb,
        gpu_utilisation=numbers("gpu.utilisation_percent").median(),
        cache_hit_rate=_last(numbers("cache.hit_rate").dropna()),
        cache_is_full=bool(full.iloc[-1]) if len(full) else None,
    )


def _since_last_start(logs: RunLogs) -> pd.DataFrame:
    """Return the records of memory of the last start, or all if no starts are known."""
    if logs.starts.empty:
        return logs.memory
    return logs.memory[logs.memory["time"] >= logs.starts["time"].max()]


def _growth(memory: pd.DataFrame, processes: pd.Series) -> tuple[float, int | None]:
    """Return the growth of memory in the second half of a start in megabytes, and its steps.

    The growth is not computed for a start with few records, or while a cache is being filled.
    """
    half = len(memory) // 2
    items = _numbers(memory, "cache.items").iloc[half:].dropna()
    is_filling = len(items) > 0 and items.iloc[-1] > CACHE_GROWTH * items.iloc[0]
    if half < MIN_MEMORY_LINES // 2 or is_filling:
        return NOT_LOGGED, None
    steps = int(memory["step"].iloc[-1] - memory["step"].iloc[half])
    recorded = processes[memory.index]
    # Take the minimum of three records, because one of them may have been measured during a
    # validation.
    before = recorded.iloc[half : half + 3].min()
    after = recorded.iloc[-3:].min()
    return float(after - before), steps


def _numbers(table: pd.DataFrame, column: str) -> pd.Series:
    """Return a column as numbers; values that are not finite become missing."""
    if column not in table:
        return pd.Series(dtype=float)
    return pd.to_numeric(table[column]).astype(float).replace([math.inf, -math.inf], math.nan)


def _last(values: pd.Series) -> float:
    return values.iloc[-1] if len(values) else NOT_LOGGED
