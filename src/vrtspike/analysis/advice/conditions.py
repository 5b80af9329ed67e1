"""Conditions of the symptoms in ``advice.yaml``: observations in a run, and proposed keys.

A condition takes a run and the limits of its symptom, and yields an observation if it holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from vrtspike.analysis.advice.task_advice import TaskAdvice, task_advice
from vrtspike.analysis.run_measurements import RunMeasurements, Speed
from vrtspike.config.run_schema import DataloaderSettings, RunSettings

Severity = Literal["error", "warning", "hint"]
Keys = dict[str, Any]
Thresholds = Mapping[str, float]

WARNING_SHARE = 0.05
"""Share of a run's time; findings that could save less are hints."""
MAX_PREFETCH = 8
MEMORY_FOR_CACHE_PERCENT = 70.0
"""Largest use of system memory at which a larger cache is proposed."""
CACHE_OF_MEMORY = 0.5
"""Largest proposed share of a machine's memory for a cache."""
GPU_MEMORY_USABLE = 0.90


@dataclass(frozen=True)
class RunFacts:
    """Measurements and settings of a run.

    Attributes:
        measurements: measurements of the run; those that were not logged exceed no limit.
        settings: settings of the run.
    """

    measurements: RunMeasurements
    settings: RunSettings

    @property
    def advice(self) -> TaskAdvice:
        """Keys and words of the run's task."""
        return task_advice(self.settings)

    @property
    def has_loss_scale(self) -> bool:
        """True if it trains in float16."""
        return self.settings.TRAIN.PRECISION in ("16-mixed", "mixed")

    @property
    def recomputation(self) -> list[str]:
        """Settings that store activations instead, in the order of the memory that they take."""
        return [f"{key}=false" for key in self.advice.recompute_keys]


@dataclass(frozen=True)
class Observation:
    """The result of a condition that holds.

    Attributes:
        weight: affected share of the run's time (0 to 1).
        values: values for the texts of ``advice.yaml``, by name; the texts may also use the run.
        keys: dotted configuration keys and their proposed values.
        gain: share of the run's time that can be saved.
        severity: severity in place of the one that follows from the table or the gain.
        change: name of the text, if the table has several.
    """

    weight: float
    values: Mapping[str, Any] = field(default_factory=dict)
    keys: Keys = field(default_factory=dict)
    gain: float = 0.0
    severity: Severity | None = None
    change: str | None = None


Condition = Callable[[RunFacts, Thresholds], Iterator[Observation]]


def not_finite(run: RunFacts, limit: Thresholds) -> Iterator[Observation]:
    """Find a loss that is not a number."""
    if run.measurements.health.losses_not_finite:
        yield Observation(1.0, keys=_more_stable(run))


def exploding_gradient(run: RunFacts, limit: Thresholds) -> Iterator[Observation]:
    """Find a gradient norm far above the median."""
    health = run.measurements.health
    median = health.gradient_norm_median
    largest = health.gradient_norm_max
    if largest > limit["times"] * median:
        is_harmful = run.settings.TRAIN.MAX_GRAD_NORM is None or health.losses_not_finite > 0
        severity: Severity | None = "error" if is_harmful else None
        yield Observation(0.5, {"times": largest / median}, _more_stable(run), severity=severity)


def vanishing_gradient(run: RunFacts, limit: Thresholds) -> Iterator[Observation]:
    """Find a gradient norm that has fallen to nearly zero."""
    health = run.measurements.health
    if health.last_gradient_norms < limit["ratio"] * health.first_gradient_norms:
        keys: Keys = {}
        if run.has_loss_scale:
            keys["TRAIN.PRECISION"] = "bf16-mixed"
        yield Observation(0.5, keys=keys)


def _more_stable(run: RunFacts) -> Keys:
    """Return keys that make training more stable."""
    train = run.settings.TRAIN
    keys: Keys = {}
    if run.has_loss_scale:
        keys["TRAIN.PRECISION"] = "bf16-mixed"
        keys["TRAIN.AMP_INIT_SCALE"] = min(train.AMP_INIT_SCALE, 1024.0)
    norm = train.MAX_GRAD_NORM
    keys["TRAIN.MAX_GRAD_NORM"] = 1.0 if norm is None else norm / 2
    return keys


def full_memory(run: RunFacts, limit: Thresholds) -> Iterator[Observation]:
    """Find system memory that is nearly full."""
    used = run.measurements.memory.system_percent
    process_mb = run.measurements.memory.process_mb
    if used > limit["percent"]:
        this_run = ""
        if process_mb > 0:
            this_run = f"; this run with its workers: {process_mb / 1024:.1f} GiB"
        keys: Keys = {}
        less = ""
        if run.settings.cache_gb > 0:
            size = run.settings.cache_gb / 2
            keys[run.settings.cache_key] = size
            less = f"about {size:.1f} GB less for the cache; "
        keys |= _fewer_workers(run.settings.DATALOADER)
        yield Observation(used / 100, {"this_run": this_run, "less": less}, keys)


def _workers(loader: DataloaderSettings) -> tuple[str, int | str]:
    """Return the key that sets the number of workers, and its value."""
    if loader.TRAIN_WORKERS != "auto":
        return "DATALOADER.TRAIN_WORKERS", loader.TRAIN_WORKERS
    return "DATALOADER.TOTAL_WORKERS", loader.TOTAL_WORKERS


def _fewer_workers(loader: DataloaderSettings) -> Keys:
    """Return keys that reduce the number of workers and of prefetched batches."""
    key, workers = _workers(loader)
    keys: Keys = {}
    if workers == "auto":
        keys[key] = "cpu*0.4"
    elif isinstance(workers, int) and workers > 1:
        keys[key] = workers // 2
    if loader.TRAIN_PREFETCH_FACTOR > 2:
        keys["DATALOADER.TRAIN_PREFETCH_FACTOR"] = loader.TRAIN_PREFETCH_FACTOR // 2
    return keys


def growing_memory(run: RunFacts, limit: Thresholds) -> Iterator[Observation]:
    """Find a run whose memory grows."""
    growth = run.measurements.memory.growth_mb
    process_mb = run.measurements.memory.process_mb
    if growth > max(limit["mb"], limit["share"] * process_mb):
        yield Observation(growth / process_mb)


def data_wait(run: RunFacts, limit: Thresholds) -> Iterator[Observation]:
    """Find steps that wait for data."""
    wait = run.measurements.speed.data_ms
    share = run.measurements.speed.data_share
    if share >= limit["least"] and (wait > limit["ms"] or share > limit["share"]):
        yield Observation(share, keys=_faster_data(run), gain=share)


def _faster_data(run: RunFacts) -> Keys:
    """Return keys that make data loading faster and are not set yet."""
    loader = run.settings.DATALOADER
    keys: Keys = {}
    key, workers = _workers(loader)
    if workers == "auto":
        keys[key] = "cpu*1.0"
    elif isinstance(workers, int):
        keys[key] = "auto"
    if loader.TRAIN_PREFETCH_FACTOR < MAX_PREFETCH:
        factor = 2 * loader.TRAIN_PREFETCH_FACTOR
        keys["DATALOADER.TRAIN_PREFETCH_FACTOR"] = min(MAX_PREFETCH, factor)
    if run.measurements.memory.has_gpu and not loader.PIN_MEMORY:
        keys["DATALOADER.PIN_MEMORY"] = True
    return keys | run.advice.faster_loading(has_memory=_has_memory(run))


def cold_cache(run: RunFacts, limit: Thresholds) -> Iterator[Observation]:
    """Find a cache that mostly misses."""
    memory = run.measurements.memory
    share = run.measurements.speed.data_share
    is_filling = memory.cache_is_full is False  # misses are normal in a cache that is being filled
    is_fast = share < limit["least"]  # False if the share was not logged, which is NaN
    if (
        memory.cache_hit_rate < limit["rate"]
        and run.settings.cache_gb > 0
        and not is_filling
        and not is_fast
    ):
        gain = 0.0 if math.isnan(share) else share * (1 - memory.cache_hit_rate)
        yield Observation(gain, keys=_larger_cache(run), gain=gain)


def _larger_cache(run: RunFacts) -> Keys:
    """Return the key for a cache of twice the size, if the machine's memory allows one."""
    size = run.settings.cache_gb
    memory_mb = run.measurements.memory.system_total_mb
    larger = 2 * size
    if memory_mb > 0:
        larger = min(larger, CACHE_OF_MEMORY * float(memory_mb) * 2**20 / 1e9)
    if not _has_memory(run) or larger <= 1.1 * size:
        return {}
    return {run.settings.cache_key: round(larger, 1)}


def _has_memory(run: RunFacts) -> bool:
    """Return whether system memory is free for a larger cache; true if it was not logged."""
    used = run.measurements.memory.system_percent
    return math.isnan(used) or used < MEMORY_FOR_CACHE_PERCENT


def idle_gpu(run: RunFacts, limit: Thresholds) -> Iterator[Observation]:
    """Find low GPU utilisation."""
    busy = run.measurements.memory.gpu_utilisation
    if busy < limit["percent"]:
        waits = run.measurements.speed.data_share > WARNING_SHARE
        keys: Keys = {}
        if not waits and not run.settings.TRAIN.COMPILE_MODEL:
            keys["TRAIN.COMPILE_MODEL"] = True
        yield Observation(
            1 - busy / 100,
            keys=keys,
            gain=1 - busy / limit["target"],
            change="data" if waits else None,
        )


def slow_forward(run: RunFacts, limit: Thresholds) -> Iterator[Observation]:
    """Find a forward pass over the limit."""
    forward = run.measurements.speed.forward_ms
    slowest_section = run.measurements.speed.slowest_section
    if forward > limit["ms"]:
        slowest = ""
        keys = _faster_arithmetic(run)
        if slowest_section is not None:
            section, section_ms = slowest_section
            section_share = section_ms / forward
            slowest = f"; most of it in {section}, {section_ms:.0f} ms ({section_share:.0%})"
            keys |= run.advice.faster_section(section)
        share = run.measurements.speed.step_parts.get("forward", 1.0)
        severity: Severity | None = None if keys else "hint"
        yield Observation(share, {"slowest": slowest}, keys, gain=share, severity=severity)


def _faster_arithmetic(run: RunFacts) -> Keys:
    """Return keys for half precision and compiled blocks on a GPU, if they are not set yet."""
    train = run.settings.TRAIN
    keys: Keys = {}
    if run.measurements.memory.has_gpu and train.PRECISION == "32":
        keys["TRAIN.PRECISION"] = "bf16-mixed"
    if run.measurements.memory.has_gpu and not train.COMPILE_MODEL:
        keys["TRAIN.COMPILE_MODEL"] = True
    return keys


def low_throughput(run: RunFacts, limit: Thresholds) -> Iterator[Observation]:
    """Find low throughput, with advice on the largest part of a step."""
    speed = run.measurements.speed
    if speed.samples_per_second < limit["rate"]:
        parts = speed.step_parts or {"what was not timed": 1.0}
        part, share = max(parts.items(), key=lambda item: item[1])
        used = run.measurements.memory.gpu_peak_mb / run.measurements.memory.gpu_total_mb
        savings = run.settings.TRAIN.memory_changes
        values = {
            "part": part,
            "order": ", then ".join(run.recomputation),
            "used": used,
            "savings": f": {', or '.join(savings)}" if savings else "",
        }
        keys: Keys = {}
        gain = share
        # The wait for data is a symptom of its own, with its own keys.
        change = part if part in ("data", "optimizer", "forward", "backward") else "other"
        if part == "backward" and run.recomputation:
            gain = _recomputed_share(speed, share)
            change = "full" if used > GPU_MEMORY_USABLE else "recompute"
            if change == "recompute":
                keys[run.advice.recompute_keys[0]] = False
        severity: Severity | None = None if keys else "hint"
        yield Observation(share, values, keys, gain=gain, severity=severity, change=change)


def _recomputed_share(speed: Speed, backward: float) -> float:
    """Return the share of the step that recomputation takes.

    If the section was not timed, the time of the forward pass is an upper limit.

    Args:
        speed: times of the run.
        backward: share of the backward pass, if the forward pass was not timed either.
    """
    if speed.recomputation_share > 0:
        return speed.recomputation_share
    return speed.step_parts.get("forward", backward)


def gpu_headroom(run: RunFacts, limit: Thresholds) -> Iterator[Observation]:
    """Find unused GPU memory, for larger batches or less recomputation."""
    memory = run.measurements.memory
    batch_size = run.settings.TRAIN.BATCH_SIZE
    peak = memory.gpu_peak_mb / 1024
    total = memory.gpu_total_mb / 1024
    if peak < total * (1 - limit["share"]):
        free = GPU_MEMORY_USABLE * total - peak
        sample = memory.gpu_activations_mb / 1024 / batch_size
        larger = "larger batches may fit"
        keys: Keys = {}
        if free >= sample:
            max_batch = batch_size + int(free // sample)
            larger = f"batches of {max_batch} fit by the numbers, {sample:.1f} GiB a sample"
            keys = _larger_micro_batch(run.settings, max_batch)
        recompute = ""
        if run.recomputation:
            recompute = f"; or recompute less ({run.recomputation[0]})"
        values = {
            "peak": peak,
            "total": total,
            "free": free,
            "unused": 1 - peak / total,
            "larger": larger,
            "recompute": recompute,
        }
        yield Observation(free / total, values, keys)


def _larger_micro_batch(settings: RunSettings, max_batch: int) -> Keys:
    """Return keys for optimiser steps of equal samples in fewer micro-steps, if possible."""
    train = settings.TRAIN
    samples = train.samples_per_step
    batch = max(size for size in range(1, max_batch + 1) if samples % size == 0)
    if batch <= train.BATCH_SIZE:
        return {}
    return {
        "TRAIN.BATCH_SIZE": batch,
        "TRAIN.GRADIENT_ACCUMULATION_STEPS": samples // batch,
    }
