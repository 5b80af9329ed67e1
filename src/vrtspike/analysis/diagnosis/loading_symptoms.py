"""Symptoms of slow data loading."""

from __future__ import annotations

import math

from vrtspike.analysis.diagnosis.symptom import (
    Finding,
    Keys,
    RunFacts,
    more_samples_text,
    severity_of_gain,
    symptom,
)

MAX_WAIT_MS = 10
MAX_WAIT_SHARE = 0.05
MIN_WAIT_SHARE = 0.01
"""Share of a step below which waiting for data costs nothing."""
MIN_HIT_RATE = 0.6
TARGET_HIT_RATE = 0.75
MAX_PREFETCH = 8
MEMORY_FOR_CACHE_PERCENT = 70.0
"""Largest use of system memory at which a larger cache is proposed."""
CACHE_OF_MEMORY = 0.5
"""Largest proposed share of a machine's memory for a cache."""


@symptom(
    "waiting for data",
    measured="section `step/data`: wait for one micro-batch, and its share of a step",
    reported=(
        f"hint: over {MAX_WAIT_MS} ms and {MIN_WAIT_SHARE:.0%} of a step; warning: over "
        f"{MAX_WAIT_SHARE:.0%} of a step"
    ),
    cause="too few loading workers, a short queue, chunks that are read and decoded repeatedly",
)
def data_wait(run: RunFacts) -> Finding | None:
    """Find steps that wait for data."""
    wait = run.measurements.speed.data_ms
    share = run.measurements.speed.data_share
    if not (share >= MIN_WAIT_SHARE and (wait > MAX_WAIT_MS or share > MAX_WAIT_SHARE)):
        return None
    return Finding(
        severity=severity_of_gain(share),
        weight=share,
        evidence=(
            f"{wait:.1f} ms wait for each batch, {share:.1%} of a step's time (limits "
            f"{MAX_WAIT_MS} ms and {MAX_WAIT_SHARE:.0%})"
        ),
        change="more workers, a longer queue, a cache that is used; then look at the disk",
        effect=f"{more_samples_text(share)}, where the wait vanishes",
        keys=_faster_data(run),
    )


def _faster_data(run: RunFacts) -> Keys:
    """Return keys that make data loading faster and are not set yet."""
    loader = run.settings.DATALOADER
    keys: Keys = {}
    key, workers = loader.workers_key, loader.workers
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


@symptom(
    "cache misses",
    measured="`cache.hit_rate` of the memory log, if there is a cache and it is full",
    reported=(
        f"under {MIN_HIT_RATE:.0%} (target {TARGET_HIT_RATE:.0%}), if steps wait for data for over "
        f"{MIN_WAIT_SHARE:.0%} of their time"
    ),
    cause="a cache smaller than the chunks of an epoch, which are read in random order",
)
def cold_cache(run: RunFacts) -> Finding | None:
    """Find a cache that mostly misses."""
    memory = run.measurements.memory
    share = run.measurements.speed.data_share
    is_filling = memory.cache_is_full is False  # misses are normal in a cache that is being filled
    is_fast = share < MIN_WAIT_SHARE  # False if the share was not logged, which is NaN
    if not memory.cache_hit_rate < MIN_HIT_RATE or run.settings.cache_gb == 0:
        return None
    if is_filling or is_fast:
        return None
    gain = 0.0 if math.isnan(share) else share * (1 - memory.cache_hit_rate)
    keys = _larger_cache(run)
    change = (
        "no memory for a larger cache; DATALOADER.SHUFFLE_BLOCK keeps clips together that share "
        "chunks (another order)"
    )
    if keys:
        change = (
            "a larger cache, or DATALOADER.SHUFFLE_BLOCK, which keeps clips together that share "
            "chunks (another order)"
        )
    return Finding(
        severity=severity_of_gain(gain),
        weight=gain,
        evidence=(
            f"{memory.cache_hit_rate:.0%} of the chunks were found in the cache (limit "
            f"{MIN_HIT_RATE:.0%}, target {TARGET_HIT_RATE:.0%})"
        ),
        change=change,
        effect="with a random order the hit rate grows in proportion to the cache",
        keys=keys,
    )


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
