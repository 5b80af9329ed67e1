"""Figures of a run's logs, for findings and comparisons."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from vrtspike.analysis.run_logs import RunLogs
from vrtspike.config.problems import Metric
from vrtspike.monitoring.timing_layout import ROOT, tree_order

WARM_UP_STEPS = 1
"""First steps that are left out, because of compilation, autotuning and the first batches."""

SUMMARY_COLUMNS = ["section", "depth", "count", "mean", "p50", "p95", "min", "max", "share"]


def without_warm_up(timing: pd.DataFrame) -> pd.DataFrame:
    """The rows of ``timing`` without its first steps, if there are more."""
    steps = timing["step"].drop_duplicates()
    if len(steps) <= WARM_UP_STEPS:
        return timing
    return timing[~timing["step"].isin(steps.iloc[:WARM_UP_STEPS])]


def summarize_sections(timing: pd.DataFrame) -> pd.DataFrame:
    """One row per section in the order of a tree, parents before their children.

    Args:
        timing: rows of ``step``, ``section``, ``ms``, from :func:`read_run_logs`.

    Returns:
        ``section``, ``depth`` (0 at the top), ``count`` of steps in which it ran, ``mean``,
        ``p50``, ``p95``, ``min``, ``max`` in milliseconds, ``share`` of the time of all steps
        (0 to 1; not a number for sections outside steps where no step was timed).
    """
    if timing.empty:
        types = {name: str if name == "section" else float for name in SUMMARY_COLUMNS}
        return pd.DataFrame(columns=SUMMARY_COLUMNS).astype(types)
    grouped = without_warm_up(timing).groupby("section", sort=False)["ms"]
    table = grouped.describe(percentiles=[0.5, 0.95])
    table = table.rename(columns={"50%": "p50", "95%": "p95"})
    table.index = table.index.astype(str)
    total = table["count"] * table["mean"]
    table["share"] = total / (total.get(ROOT) or math.nan)
    table["depth"] = table.index.str.count("/")
    table = table.loc[tree_order(table.index)].rename_axis("section")
    return table.reset_index()[SUMMARY_COLUMNS]


def step_parts(sections: pd.DataFrame) -> dict[str, float]:
    """Share of the step (0 to 1) of each section directly under it, and of the rest."""
    shares = sections.set_index("section")["share"].dropna()
    children = shares[shares.index.str.match(rf"{ROOT}/[^/]+$")]
    parts = {str(name).removeprefix(f"{ROOT}/"): float(v) for name, v in children.items()}
    return parts | {"other": max(0.0, 1.0 - sum(parts.values()))} if parts else {}


def throughput(steps: pd.DataFrame, timing: pd.DataFrame, points: int = 100) -> pd.DataFrame:
    """Samples per second over the run, averaged over neighbouring steps.

    Args:
        steps: rows of ``step``, ``samples``, ``frames``.
        timing: rows of ``step``, ``section``, ``ms`` with the section ``step``.
        points: largest number of rows.

    Returns:
        ``step`` (the last of the averaged ones), ``samples_per_second``, ``frames_per_second``.
    """
    whole = timing.loc[timing["section"] == ROOT, ["step", "ms"]]
    merged = steps.merge(whole, on="step")
    merged = merged[merged["ms"] > 0]
    if merged.empty:
        return pd.DataFrame(columns=["step", "samples_per_second", "frames_per_second"])
    width = -(-len(merged) // points)
    groups = merged.groupby(pd.RangeIndex(len(merged)) // width)
    seconds = groups["ms"].sum() / 1e3
    return pd.DataFrame(
        {
            "step": groups["step"].last(),
            "samples_per_second": groups["samples"].sum() / seconds,
            "frames_per_second": groups["frames"].sum() / seconds,
        }
    )


DATA = f"{ROOT}/data"
FORWARD = f"{ROOT}/forward"
BACKWARD = f"{ROOT}/backward"
RECOMPUTATION = f"{BACKWARD}/recomputation"

TREND_PARTS = 10
"""Trends compare the first and the last tenth of a run."""
MIN_TREND_STEPS = 5 * TREND_PARTS
"""Logged steps that a trend needs at least."""
MIN_MEMORY_LINES = 12
"""Lines of the memory log that memory growth needs at least."""
CACHE_GROWTH = 1.02
"""A cache whose number of items grows by less than this in half a run counts as filled."""


@dataclass(frozen=True)
class Speed:
    """Times after the warm-up: means in milliseconds, shares of the step's time (0 to 1).

    ``data_ms``, ``forward_ms`` and ``slowest_section`` are per micro-batch and process, so that
    presets with different gradient accumulation can be compared; ``step_ms`` is a whole step.
    """

    step_ms: float | None = None
    data_ms: float | None = None
    data_share: float | None = None
    forward_ms: float | None = None
    recomputation_share: float | None = None
    slowest_section: tuple[str, float] | None = None
    step_parts: dict[str, float] = field(default_factory=dict)
    samples_per_second: float | None = None


@dataclass(frozen=True)
class Health:
    """Losses, gradient norms and validations; ``best`` holds each metric's best value.

    ``first_`` and ``last_`` are medians over the first and the last tenth of the logged steps, None
    in short runs.
    """

    logged_steps: int = 0
    losses_not_finite: int = 0
    first_not_finite: int | None = None
    last_loss: float | None = None
    gradient_norm_median: float | None = None
    gradient_norm_max: float | None = None
    first_losses: float | None = None
    last_losses: float | None = None
    first_gradient_norms: float | None = None
    last_gradient_norms: float | None = None
    best: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Memory:
    """Peak memory of the logging process in megabytes (2**20 bytes).

    ``process_mb`` includes the data loading workers. ``growth_mb`` is its growth in the second half
    of the run, over ``growth_steps`` steps; None while a cache was being filled.
    ``cache_hit_rate`` (0 to 1) and ``cache_is_full`` are the last logged values,
    ``gpu_utilisation`` is the median; ``gpu_activations_mb`` is the peak less parameters, gradients
    and optimiser state.
    """

    process_mb: float | None = None
    growth_mb: float | None = None
    growth_steps: int | None = None
    system_percent: float | None = None
    system_total_mb: float | None = None
    gpu_peak_mb: float | None = None
    gpu_total_mb: float | None = None
    gpu_activations_mb: float | None = None
    gpu_utilisation: float | None = None
    cache_hit_rate: float | None = None
    cache_is_full: bool | None = None

    @property
    def system_total_gb(self) -> float | None:
        """Memory of the machine in GB of 10**9 bytes, as ``DATA.CACHE_SIZE_GB`` counts."""
        return None if self.system_total_mb is None else self.system_total_mb * 2**20 / 1e9

    @property
    def has_gpu(self) -> bool:
        """Whether the run used a GPU."""
        return self.gpu_total_mb is not None


@dataclass(frozen=True)
class RunFigures:
    """All figures of a run; None for figures that were not logged."""

    speed: Speed = Speed()
    health: Health = Health()
    memory: Memory = Memory()
    processes: int = 1


def run_figures(
    logs: RunLogs,
    micro_batches: int,
    processes: int = 1,
    metrics: Mapping[str, Metric] | None = None,
) -> RunFigures:
    """The figures of a run.

    Args:
        logs: what it logged.
        micro_batches: forward passes of one process in a step
            (``TRAIN.GRADIENT_ACCUMULATION_STEPS``).
        processes: number of training processes.
        metrics: of the problem, the main one first; None ignores validation.
    """
    health = _health(logs, list((metrics or {}).values()))
    return RunFigures(_speed(logs, micro_batches), health, _memory(logs), processes)


def _speed(logs: RunLogs, micro_batches: int) -> Speed:
    sections = summarize_sections(logs.timing)
    by_name = sections.set_index("section")
    mean, share = (by_name[column].dropna() for column in ("mean", "share"))
    each = {str(name): float(ms) / micro_batches for name, ms in mean.items()}
    steady = without_warm_up(logs.timing)
    whole = steady[steady["section"] == ROOT]
    seconds = float(whole["ms"].sum()) / 1e3
    counted = logs.steps[logs.steps["step"].isin(whole["step"])]
    return Speed(
        step_ms=mean.get(ROOT),
        data_ms=each.get(DATA),
        data_share=share.get(DATA),
        forward_ms=each.get(FORWARD),
        recomputation_share=share.get(RECOMPUTATION),
        slowest_section=_slowest_leaf(each),
        step_parts=step_parts(sections),
        samples_per_second=float(counted["samples"].sum()) / seconds if seconds else None,
    )


def _slowest_leaf(milliseconds: Mapping[str, float]) -> tuple[str, float] | None:
    """The slowest section of the forward pass that contains no other, with its milliseconds."""
    parents = {name.rpartition("/")[0] for name in milliseconds}
    leaves = {
        name.removeprefix(f"{FORWARD}/"): ms
        for name, ms in milliseconds.items()
        if name.startswith(f"{FORWARD}/") and name not in parents
    }
    return max(leaves.items(), key=lambda leaf: leaf[1], default=None)


def _health(logs: RunLogs, metrics: Sequence[Metric]) -> Health:
    losses = _numbers(logs.train, "loss")
    not_finite = logs.train["step"][~np.isfinite(losses)]
    norms = _numbers(logs.train, "grad_norm").dropna()
    measured = {m: _numbers(logs.validation, m.name).dropna() for m in metrics}
    best = {m.name: _finite(m.best(values)) for m, values in measured.items() if len(values)}
    first_losses, last_losses = _ends(losses)
    first_norms, last_norms = _ends(norms)
    return Health(
        logged_steps=len(losses),
        losses_not_finite=len(not_finite),
        first_not_finite=None if not_finite.empty else int(not_finite.iloc[0]),
        last_loss=None if losses.empty else _finite(losses.iloc[-1]),
        gradient_norm_median=_finite(norms.median()),
        gradient_norm_max=_finite(norms.max()),
        first_losses=first_losses,
        last_losses=last_losses,
        first_gradient_norms=first_norms,
        last_gradient_norms=last_norms,
        best={name: value for name, value in best.items() if value is not None},
    )


def _ends(values: pd.Series) -> tuple[float | None, float | None]:
    """Medians of the first and the last tenth; None where there are too few."""
    if len(values) < MIN_TREND_STEPS:
        return None, None
    size = len(values) // TREND_PARTS
    return _finite(values.iloc[:size].median()), _finite(values.iloc[-size:].median())


def _memory(logs: RunLogs) -> Memory:
    def largest(column: str) -> float | None:
        return _finite(_numbers(logs.memory, column).max())

    rates = _numbers(logs.memory, "cache.hit_rate").dropna()
    full = _numbers(logs.memory, "cache.full").dropna()
    processes = _numbers(logs.memory, "process_mb") + _numbers(logs.memory, "children_mb")
    growth, growth_steps = _growth(logs.memory, processes)
    return Memory(
        process_mb=_finite(processes.max()),
        growth_mb=growth,
        growth_steps=growth_steps,
        system_percent=largest("system_percent"),
        system_total_mb=largest("system_total_mb"),
        gpu_peak_mb=largest("gpu.peak_mb"),
        gpu_total_mb=largest("gpu.total_mb"),
        gpu_activations_mb=logs.gpu_categories.get("activations_mb"),
        gpu_utilisation=_finite(_numbers(logs.memory, "gpu.utilisation_percent").median()),
        cache_hit_rate=float(rates.iloc[-1]) if len(rates) else None,
        cache_is_full=bool(full.iloc[-1]) if len(full) else None,
    )


def _growth(memory: pd.DataFrame, processes: pd.Series) -> tuple[float | None, int | None]:
    """Memory growth in the second half of a run in megabytes, and that half's steps.

    None for a run with too few lines, and while a cache is being filled, whose growth ends.
    """
    half = len(memory) // 2
    if half < MIN_MEMORY_LINES // 2 or _finite(processes.iloc[half:].min()) is None:
        return None, None
    items = _numbers(memory, "cache.items").iloc[half:].dropna()
    if len(items) and items.iloc[-1] > CACHE_GROWTH * items.iloc[0]:
        return None, None
    steps = int(memory["step"].iloc[-1] - memory["step"].iloc[half])
    # The minimum of three lines, because one of them may have been measured in a validation.
    before, after = processes.iloc[half : half + 3], processes.iloc[-3:]
    return float(after.min() - before.min()), steps


def _numbers(table: pd.DataFrame, column: str) -> pd.Series:
    if column not in table:
        return pd.Series(dtype=float)
    return pd.to_numeric(table[column]).astype(float)


def _finite(value: Any) -> float | None:  # noqa: ANN401 - any scalar of pandas
    number = float(value)
    return number if math.isfinite(number) else None
