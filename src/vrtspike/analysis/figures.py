"""Figures of a run's logs, for findings and comparisons."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

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
    # Also of no rows: without a type these would have no means.
    steady = without_warm_up(timing).astype({"ms": float})
    grouped = steady.groupby("section", sort=False, observed=True)["ms"]
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


def throughput(steps: pd.DataFrame, timing: pd.DataFrame) -> pd.DataFrame:
    """Samples and frames per second of each timed step.

    Args:
        steps: rows of ``step``, ``samples``, ``frames``.
        timing: rows of ``step``, ``section``, ``ms`` with the section ``step``.

    Returns:
        ``step``, ``samples_per_second``, ``frames_per_second``.
    """
    timed = timing[(timing["section"] == ROOT) & (timing["ms"] > 0)]
    whole = steps.merge(timed, on="step").set_index("step")
    rates = whole[["samples", "frames"]].div(whole["ms"] / 1e3, axis="index")
    return rates.add_suffix("_per_second").reset_index()


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


NOT_LOGGED = math.nan
"""Compares as false with every limit."""


@dataclass(frozen=True)
class Speed:
    """Times after the warm-up: means in milliseconds, shares of the step's time (0 to 1).

    ``data_ms``, ``forward_ms`` and ``slowest_section`` are per micro-batch and process, so that
    presets with different gradient accumulation can be compared; ``step_ms`` is a whole step.
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
    """Losses, gradient norms and validations; ``best`` holds each metric's best value.

    ``first_`` and ``last_gradient_norms`` are medians over the first and the last tenth of the
    logged steps of a long run.
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

    ``process_mb`` includes the data loading workers. ``growth_mb`` is its growth in the second half
    of the run, over ``growth_steps`` steps, unless a cache was being filled. ``cache_hit_rate``
    (0 to 1) and ``cache_is_full`` are the last logged values, ``gpu_utilisation`` is the median;
    ``gpu_activations_mb`` is the peak less parameters, gradients and optimiser state.
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
        """Whether the run used a GPU."""
        return self.gpu_total_mb > 0


@dataclass(frozen=True)
class RunFigures:
    """All figures of a run."""

    speed: Speed = Speed()
    health: Health = Health()
    memory: Memory = Memory()


def run_figures(logs: RunLogs, micro_batches: int, metrics: Mapping[str, Metric]) -> RunFigures:
    """The figures of a run.

    Args:
        logs: what it logged.
        micro_batches: forward passes of one process in a step
            (``TRAIN.GRADIENT_ACCUMULATION_STEPS``).
        metrics: of the problem.
    """
    return RunFigures(_speed(logs, micro_batches), _health(logs, metrics), _memory(logs))


def _speed(logs: RunLogs, micro_batches: int) -> Speed:
    sections = summarize_sections(logs.timing)
    mean, share = (sections.set_index("section")[column] for column in ("mean", "share"))
    each = mean / micro_batches
    steady = without_warm_up(logs.timing)
    whole = steady[steady["section"] == ROOT].merge(logs.steps, on="step")
    seconds = float(whole["ms"].sum()) / 1e3
    return Speed(
        step_ms=mean.get(ROOT, NOT_LOGGED),
        data_ms=each.get(DATA, NOT_LOGGED),
        data_share=share.get(DATA, NOT_LOGGED),
        forward_ms=each.get(FORWARD, NOT_LOGGED),
        recomputation_share=share.get(RECOMPUTATION, NOT_LOGGED),
        slowest_section=_slowest_leaf(each),
        step_parts=step_parts(sections),
        samples_per_second=float(whole["samples"].sum()) / seconds if seconds else NOT_LOGGED,
    )


def _slowest_leaf(milliseconds: pd.Series) -> tuple[str, float] | None:
    """The slowest section of the forward pass that contains no other, with its milliseconds."""
    inner = milliseconds[milliseconds.index.str.startswith(f"{FORWARD}/")]
    leaves = inner.drop([name.rpartition("/")[0] for name in inner.index], errors="ignore")
    if leaves.empty:
        return None
    return str(leaves.idxmax()).removeprefix(f"{FORWARD}/"), float(leaves.max())


def _health(logs: RunLogs, metrics: Mapping[str, Metric]) -> Health:
    losses, norms = _numbers(logs.train, "loss"), _numbers(logs.train, "grad_norm").dropna()
    not_finite = logs.train["step"][losses.isna()]
    tenth = len(norms) // TREND_PARTS if len(norms) >= MIN_TREND_STEPS else 0
    measured = {name: _numbers(logs.validation, name).dropna() for name in metrics}
    return Health(
        logged_steps=len(losses),
        losses_not_finite=len(not_finite),
        first_not_finite=None if not_finite.empty else int(not_finite.iloc[0]),
        last_loss=_last(losses),
        gradient_norm_median=norms.median(),
        gradient_norm_max=norms.max(),
        first_gradient_norms=norms.iloc[:tenth].median(),
        last_gradient_norms=norms.iloc[len(norms) - tenth :].median(),
        best={name: metrics[name].best(of) for name, of in measured.items() if len(of)},
    )


def _memory(logs: RunLogs) -> Memory:
    def numbers(column: str) -> pd.Series:
        return _numbers(logs.memory, column)

    processes = numbers("process_mb") + numbers("children_mb")
    growth, growth_steps = _growth(logs.memory, processes)
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


def _growth(memory: pd.DataFrame, processes: pd.Series) -> tuple[float, int | None]:
    """Memory growth in the second half of a run in megabytes, and that half's steps.

    There is none in a run with few lines, and while a cache is being filled, whose growth ends.
    """
    half = len(memory) // 2
    items = _numbers(memory, "cache.items").iloc[half:].dropna()
    is_filling = len(items) > 0 and items.iloc[-1] > CACHE_GROWTH * items.iloc[0]
    if half < MIN_MEMORY_LINES // 2 or is_filling:
        return NOT_LOGGED, None
    steps = int(memory["step"].iloc[-1] - memory["step"].iloc[half])
    # The minimum of three lines, because one of them may have been measured in a validation.
    before, after = processes.iloc[half : half + 3], processes.iloc[-3:]
    return float(after.min() - before.min()), steps


def _numbers(table: pd.DataFrame, column: str) -> pd.Series:
    """A column as numbers; what is not finite is missing."""
    if column not in table:
        return pd.Series(dtype=float)
    return pd.to_numeric(table[column]).astype(float).replace([math.inf, -math.inf], math.nan)


def _last(values: pd.Series) -> float:
    return values.iloc[-1] if len(values) else NOT_LOGGED
