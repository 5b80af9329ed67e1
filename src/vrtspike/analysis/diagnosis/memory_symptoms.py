"""Symptoms of a training that takes too much memory, or leaves a GPU's memory unused."""

from __future__ import annotations

from vrtspike.analysis.diagnosis.symptom import Finding, Keys, RunFacts, symptom
from vrtspike.config.run_schema import DataloaderSettings, RunSettings
from vrtspike.monitoring.process_memory import HIGH_PERCENT

MAX_GROWTH_SHARE = 0.1
MAX_GROWTH_MB = 500
MAX_UNUSED_SHARE = 0.25
GPU_MEMORY_USABLE = 0.90


@symptom(
    "system memory nearly full",
    measured="`system_percent` of the memory log, the largest",
    reported=f"over {HIGH_PERCENT} %",
    cause="the cache, loading workers with their queues, other programs",
)
def full_memory(run: RunFacts) -> Finding | None:
    """Find system memory that is nearly full."""
    used = run.measurements.memory.system_percent
    process_mb = run.measurements.memory.process_mb
    if not used > HIGH_PERCENT:
        return None
    this_run = ""
    if process_mb > 0:
        this_run = f"; this run with its workers: {process_mb / 1024:.1f} GiB"
    keys: Keys = {}
    effect = "fewer processes, each with its own queue of batches"
    if run.settings.cache_gb > 0:
        size = run.settings.cache_gb / 2
        keys[run.settings.cache_key] = size
        effect = f"about {size:.1f} GB less for the cache; {effect}"
    return Finding(
        severity="error",
        weight=used / 100,
        evidence=(
            f"{used:.0f} % of the system's memory in use at the peak (limit {HIGH_PERCENT} %)"
            f"{this_run}"
        ),
        change="a smaller cache and fewer workers, before the system ends the run",
        effect=effect,
        keys=keys | _fewer_workers(run.settings.DATALOADER),
    )


def _fewer_workers(loader: DataloaderSettings) -> Keys:
    """Return keys that reduce the number of workers and of prefetched batches."""
    key, workers = loader.workers_key, loader.workers
    keys: Keys = {}
    if workers == "auto":
        keys[key] = "cpu*0.4"
    elif isinstance(workers, int) and workers > 1:
        keys[key] = workers // 2
    if loader.TRAIN_PREFETCH_FACTOR > 2:
        keys["DATALOADER.TRAIN_PREFETCH_FACTOR"] = loader.TRAIN_PREFETCH_FACTOR // 2
    return keys


@symptom(
    "memory grows",
    measured=(
        "`process_mb` with `children_mb`: growth over the second half of the last start, once the "
        "cache has reached its final size"
    ),
    reported=f"over {MAX_GROWTH_SHARE:.0%} of the largest value, and {MAX_GROWTH_MB} MB",
    cause="loading workers that keep the data they have read",
)
def growing_memory(run: RunFacts) -> Finding | None:
    """Find a run whose memory grows."""
    memory = run.measurements.memory
    if not memory.growth_mb > max(MAX_GROWTH_MB, MAX_GROWTH_SHARE * memory.process_mb):
        return None
    return Finding(
        severity="warning",
        weight=memory.growth_mb / memory.process_mb,
        evidence=(
            f"{memory.growth_mb:.0f} MB more within {memory.growth_steps} steps, of "
            f"{memory.process_mb:.0f} MB at most"
        ),
        change="fewer workers; look which process grows",
        effect="fewer processes gather",
    )


@symptom(
    "unused GPU memory",
    measured="`gpu.peak_mb` and `gpu.total_mb` of the memory log, activations of a sample",
    reported=f"over {MAX_UNUSED_SHARE:.0%} never used",
    cause="a preset for a smaller GPU; batches of a single sample, which use a large GPU badly",
)
def gpu_headroom(run: RunFacts) -> Finding | None:
    """Find unused GPU memory, for larger batches or less recomputation."""
    memory = run.measurements.memory
    peak = memory.gpu_peak_mb / 1024
    total = memory.gpu_total_mb / 1024
    if not peak < total * (1 - MAX_UNUSED_SHARE):
        return None
    batch_size = run.settings.TRAIN.BATCH_SIZE
    free = GPU_MEMORY_USABLE * total - peak
    sample = memory.gpu_activations_mb / 1024 / batch_size
    change = "larger batches may fit"
    keys: Keys = {}
    if free >= sample:
        max_batch = batch_size + int(free // sample)
        change = f"batches of {max_batch} fit by the numbers, {sample:.1f} GiB a sample"
        keys = _larger_micro_batch(run.settings, max_batch)
    if run.recomputation:
        change += f"; or recompute less ({run.recomputation[0]})"
    return Finding(
        severity="hint",
        weight=free / total,
        evidence=f"peak {peak:.1f} of {total:.1f} GiB, {1 - peak / total:.0%} never used",
        change=change,
        effect=f"{free:.1f} GiB more can be used",
        keys=keys,
    )


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
