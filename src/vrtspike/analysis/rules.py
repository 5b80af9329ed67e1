"""Conditions of the symptoms in ``advice.yaml``: the observation in a run, and proposed keys.

Each takes a run and the limits of its symptom, and yields an observation if the run has it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from vrtspike.analysis.figures import RunFigures
from vrtspike.config.run_schema import DataloaderSettings, RunSettings

Severity = Literal["error", "warning", "hint"]
Keys = dict[str, Any]
Limits = Mapping[str, float]

WARNING_SHARE = 0.05
"""Share of a run's time; findings that could save less are hints."""
MAX_PREFETCH = 8
MEMORY_FOR_CACHE_PERCENT = 70.0
"""Used system memory up to which a larger cache is proposed."""
CACHE_OF_MEMORY = 0.5
"""Largest proposed share of a machine's memory for a cache."""
GPU_MEMORY_USABLE = 0.90
CHUNK_TOKENS = 65536


@dataclass(frozen=True)
class Run:
    """Figures and settings of a run; figures that were not logged are beyond no limit."""

    figures: RunFigures
    settings: RunSettings

    @property
    def has_loss_scale(self) -> bool:
        """Whether it trains in float16."""
        return self.settings.TRAIN.PRECISION in ("16-mixed", "mixed")

    @property
    def smaller_model(self) -> str:
        """Changes that make the network cheaper and change the result."""
        depth = self.settings.value("MODEL.depth_key")
        if depth is None:
            return "a smaller model, which changes the result"
        return (
            f"fewer blocks ({depth}) in the slowest stage, windows of 7 or 6 pixels "
            "(MODEL.WINDOW_SIZE) or smaller crops (DATA.CROP_SIZE), which change the result"
        )

    @property
    def recomputation(self) -> list[str]:
        """Settings that store activations, the one that saves least memory first."""
        return [f"{key}=false" for key in self.settings.recompute_keys]


@dataclass(frozen=True)
class Observation:
    """The result of a condition that holds.

    Attributes:
        weight: affected share of the run's time (0 to 1).
        values: for the texts of ``advice.yaml``, by name; these may use the run, too.
        keys: dotted configuration keys and their proposed values.
        gain: share of the run's time that can be saved.
        severity: replaces that of the table or of the gain.
        change: name of the text if the table has several.
    """

    weight: float
    values: Mapping[str, Any] = field(default_factory=dict)
    keys: Keys = field(default_factory=dict)
    gain: float = 0.0
    severity: Severity | None = None
    change: str | None = None


Condition = Callable[[Run, Limits], Iterator[Observation]]


def not_finite(run: Run, limit: Limits) -> Iterator[Observation]:
    """A loss that is not a number."""
    if run.figures.health.losses_not_finite:
        yield Observation(1.0, keys=_more_stable(run))


def exploding_gradient(run: Run, limit: Limits) -> Iterator[Observation]:
    """A gradient norm far above the median."""
    health = run.figures.health
    median, largest = health.gradient_norm_median, health.gradient_norm_max
    if largest > limit["times"] * median:
        harmed = run.settings.TRAIN.MAX_GRAD_NORM is None or health.losses_not_finite > 0
        severity: Severity | None = "error" if harmed else None
        yield Observation(0.5, {"times": largest / median}, _more_stable(run), severity=severity)


def vanishing_gradient(run: Run, limit: Limits) -> Iterator[Observation]:
    """A gradient norm that has fallen to nearly zero."""
    health = run.figures.health
    if health.last_gradient_norms < limit["ratio"] * health.first_gradient_norms:
        yield Observation(0.5, keys={"TRAIN.PRECISION": "bf16-mixed"} if run.has_loss_scale else {})


def _more_stable(run: Run) -> Keys:
    train = run.settings.TRAIN
    keys: Keys = {}
    if run.has_loss_scale:
        keys["TRAIN.PRECISION"] = "bf16-mixed"
        keys["TRAIN.AMP_INIT_SCALE"] = min(train.AMP_INIT_SCALE, 1024.0)
    norm = train.MAX_GRAD_NORM
    return keys | {"TRAIN.MAX_GRAD_NORM": 1.0 if norm is None else norm / 2}


def full_memory(run: Run, limit: Limits) -> Iterator[Observation]:
    """System memory nearly full."""
    used, own = run.figures.memory.system_percent, run.figures.memory.process_mb
    if used > limit["percent"]:
        this_run = f"; this run with its workers: {own / 1024:.1f} GiB" if own > 0 else ""
        keys, less = Keys(), ""
        if uses_cache(run.settings):
            size = run.settings.value("DATA.CACHE_SIZE_GB") / 2
            keys["DATA.CACHE_SIZE_GB"] = size
            less = f"about {size:.1f} GB less for the cache; "
        keys |= _fewer_workers(run.settings.DATALOADER)
        yield Observation(used / 100, {"this_run": this_run, "less": less}, keys)


def _workers(loader: DataloaderSettings) -> tuple[str, int | str]:
    """The key that decides the number of workers, and its value."""
    if loader.TRAIN_WORKERS != "auto":
        return "DATALOADER.TRAIN_WORKERS", loader.TRAIN_WORKERS
    return "DATALOADER.TOTAL_WORKERS", loader.TOTAL_WORKERS


def _fewer_workers(loader: DataloaderSettings) -> Keys:
    key, workers = _workers(loader)
    keys: Keys = {}
    if workers == "auto":
        keys[key] = "cpu*0.4"
    elif isinstance(workers, int) and workers > 1:
        keys[key] = workers // 2
    if loader.TRAIN_PREFETCH_FACTOR > 2:
        keys["DATALOADER.TRAIN_PREFETCH_FACTOR"] = loader.TRAIN_PREFETCH_FACTOR // 2
    return keys


def growing_memory(run: Run, limit: Limits) -> Iterator[Observation]:
    """A run whose memory grows."""
    growth, own = run.figures.memory.growth_mb, run.figures.memory.process_mb
    if growth > max(limit["mb"], limit["share"] * own):
        yield Observation(growth / own)


def data_wait(run: Run, limit: Limits) -> Iterator[Observation]:
    """Steps that wait for data."""
    wait, share = run.figures.speed.data_ms, run.figures.speed.data_share
    if share >= limit["least"] and (wait > limit["ms"] or share > limit["share"]):
        yield Observation(share, keys=_faster_data(run), gain=share)


def _faster_data(run: Run) -> Keys:
    """Keys that make data loading faster and are not set yet."""
    loader, settings = run.settings.DATALOADER, run.settings
    keys: Keys = {}
    key, workers = _workers(loader)
    if workers == "auto" or isinstance(workers, int):
        keys[key] = "cpu*1.0" if workers == "auto" else "auto"
    if loader.TRAIN_PREFETCH_FACTOR < MAX_PREFETCH:
        twice = min(MAX_PREFETCH, 2 * loader.TRAIN_PREFETCH_FACTOR)
        keys["DATALOADER.TRAIN_PREFETCH_FACTOR"] = twice
    off = {
        "DATALOADER.PIN_MEMORY": run.figures.memory.has_gpu and not loader.PIN_MEMORY,
        "DATA.USE_PRECOMPUTED_VOXELS": settings.value("MODEL.USE_SPIKE")
        and not settings.value("DATA.USE_PRECOMPUTED_VOXELS"),
        "DATA.USE_RAM_CACHE": settings.value("DATA.USE_RAM_CACHE") is False and _has_memory(run),
    }
    return keys | {key: True for key, is_off in off.items() if is_off}


def cold_cache(run: Run, limit: Limits) -> Iterator[Observation]:
    """A cache that mostly misses."""
    memory, share = run.figures.memory, run.figures.speed.data_share
    is_filling = memory.cache_is_full is False  # then misses are normal
    if (
        memory.cache_hit_rate < limit["rate"]
        and uses_cache(run.settings)
        and not is_filling
        and not share < limit["least"]
    ):
        stake = 0.0 if math.isnan(share) else share * (1 - memory.cache_hit_rate)
        yield Observation(stake, keys=_larger_cache(run), gain=stake)


def uses_cache(settings: RunSettings) -> bool:
    """Whether a run reads its data through a cache."""
    return bool(settings.value("DATA.USE_RAM_CACHE") and settings.value("DATA.CACHE_SIZE_GB") > 0)


def _larger_cache(run: Run) -> Keys:
    """Twice the cache's size, within the limit, if it can be larger."""
    size, memory_mb = run.settings.value("DATA.CACHE_SIZE_GB"), run.figures.memory.system_total_mb
    most = 2 * size
    if memory_mb > 0:
        most = min(most, CACHE_OF_MEMORY * float(memory_mb) * 2**20 / 1e9)
    can_grow = _has_memory(run) and most > 1.1 * size
    return {"DATA.CACHE_SIZE_GB": round(most, 1)} if can_grow else {}


def _has_memory(run: Run) -> bool:
    return not run.figures.memory.system_percent >= MEMORY_FOR_CACHE_PERCENT


def idle_gpu(run: Run, limit: Limits) -> Iterator[Observation]:
    """Low GPU utilisation."""
    busy = run.figures.memory.gpu_utilisation
    if busy < limit["percent"]:
        waits = run.figures.speed.data_share > WARNING_SHARE
        can_compile = not waits and not run.settings.TRAIN.COMPILE_MODEL
        yield Observation(
            1 - busy / 100,
            keys={"TRAIN.COMPILE_MODEL": True} if can_compile else {},
            gain=1 - busy / limit["target"],
            change="data" if waits else None,
        )


def slow_forward(run: Run, limit: Limits) -> Iterator[Observation]:
    """A forward pass over the limit."""
    forward, part = run.figures.speed.forward_ms, run.figures.speed.slowest_section
    if forward > limit["ms"]:
        slowest, keys = "", _faster_arithmetic(run)
        if part is not None:
            slowest = f"; most of it in {part[0]}, {part[1]:.0f} ms ({part[1] / forward:.0%})"
            keys |= _larger_chunks(part[0], run.settings)
        share = run.figures.speed.step_parts.get("forward", 1.0)
        severity: Severity | None = None if keys else "hint"
        yield Observation(share, {"slowest": slowest}, keys, gain=share, severity=severity)


def _faster_arithmetic(run: Run) -> Keys:
    """Half precision and compiled blocks, on a GPU that has neither."""
    train = run.settings.TRAIN
    keys: Keys = {}
    if run.figures.memory.has_gpu and train.PRECISION == "32":
        keys["TRAIN.PRECISION"] = "bf16-mixed"
    if run.figures.memory.has_gpu and not train.COMPILE_MODEL:
        keys["TRAIN.COMPILE_MODEL"] = True
    return keys


def _larger_chunks(section: str, settings: RunSettings) -> Keys:
    """Larger chunks for the temporal attention, if that is the slowest part."""
    for part, name in (("fusion", "MODEL.FUSE"), ("spike_attention", "MODEL.SPIKE_TSA")):
        chunks = settings.value(name)
        is_adaptive = chunks and part in section and chunks.ADAPTIVE_CHUNK
        if is_adaptive and chunks.MAX_BATCH_TOKENS < CHUNK_TOKENS:
            return {f"{name}.MAX_BATCH_TOKENS": CHUNK_TOKENS}
    return {}


def low_throughput(run: Run, limit: Limits) -> Iterator[Observation]:
    """Low throughput, with advice on the largest part of a step."""
    speed, memory = run.figures.speed, run.figures.memory
    if speed.samples_per_second < limit["rate"]:
        parts = speed.step_parts or {"what was not timed": 1.0}
        part, share = max(parts.items(), key=lambda each: each[1])
        used = memory.gpu_peak_mb / memory.gpu_total_mb
        values = {"part": part, "order": ", then ".join(run.recomputation), "used": used}
        # What helps against a wait for data, its own symptom proposes.
        change = part if part in ("data", "optimizer", "forward", "backward") else "other"
        gain, keys = share, Keys()
        if part == "backward" and run.recomputation:
            # If it was not timed: it is at most another forward pass.
            gain = speed.step_parts.get("forward", share)
            if speed.recomputation_share > 0:
                gain = speed.recomputation_share
            change = "full" if used > GPU_MEMORY_USABLE else "recompute"
            if change == "recompute":
                keys[run.settings.recompute_keys[0]] = False
        severity: Severity | None = None if keys else "hint"
        yield Observation(share, values, keys, gain=gain, severity=severity, change=change)


def gpu_headroom(run: Run, limit: Limits) -> Iterator[Observation]:
    """Unused GPU memory, for larger batches or less recomputation."""
    memory, train = run.figures.memory, run.settings.TRAIN
    peak, total = memory.gpu_peak_mb / 1024, memory.gpu_total_mb / 1024
    if peak < total * (1 - limit["share"]):
        free, larger = GPU_MEMORY_USABLE * total - peak, "larger batches may fit"
        sample, keys = memory.gpu_activations_mb / 1024 / train.BATCH_SIZE, Keys()
        if free >= sample:
            most = train.BATCH_SIZE + int(free // sample)
            larger = f"batches of {most} fit by the numbers, {sample:.1f} GiB a sample"
            # The same samples per optimiser step, in fewer micro-steps.
            step = train.BATCH_SIZE * train.GRADIENT_ACCUMULATION_STEPS
            batch = max(size for size in range(1, most + 1) if step % size == 0)
            if batch > train.BATCH_SIZE:
                keys["TRAIN.BATCH_SIZE"] = batch
                keys["TRAIN.GRADIENT_ACCUMULATION_STEPS"] = step // batch
        recompute = "".join(f"; or recompute less ({key})" for key in run.recomputation[:1])
        values = {"peak": peak, "total": total, "free": free, "unused": 1 - peak / total}
        yield Observation(free / total, {**values, "larger": larger, "recompute": recompute}, keys)
