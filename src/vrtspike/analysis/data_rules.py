"""Symptoms of a run that waits for its data."""

from __future__ import annotations

from typing import Any

from vrtspike.analysis.figures import STALL, RunFigures
from vrtspike.analysis.finding import WORTH_A_WARNING, Finding, by_gain, rule, speed_up
from vrtspike.config.run_schema import RunSettings

NOTHING_TO_GAIN = 0.01
"""Share of a run's time; what takes less is not reported."""
DATA_MS = 10.0
STALLED_SHARE = 0.01
CACHE_HIT_RATE = 0.60
CACHE_HIT_RATE_TARGET = 0.75
MEMORY_FOR_CACHE_PERCENT = 70.0
CACHE_OF_MEMORY = 0.5
"""Most that a cache should take of a machine's memory."""
MOST_PREFETCH = 8


@rule(
    symptom="waiting for data",
    cause="too few workers, too short a queue, chunks that are read and decoded again and again",
    measured="section `step/data` without stalls: wait for one micro-batch, and its share of a "
    "step",
    limit=f"hint: over {DATA_MS:.0f} ms and {NOTHING_TO_GAIN:.0%} of a step; warning: over "
    f"{WORTH_A_WARNING:.0%}, however short",
    cure="more workers, a longer queue; workers that stay, page-locked memory, stored voxel "
    "counts, the reader with a cache and its cache, where they are off; then a faster disk",
)
def data_wait(figures: RunFigures, settings: RunSettings) -> Finding | None:
    """Steps that wait for data."""
    wait, share = figures.speed.data_ms, figures.speed.data_share
    if not wait or not share:
        return None
    usual = share - (figures.speed.stalled_share or 0.0)  # more workers end no stalls
    wait, share = wait * usual / share, usual
    if share < NOTHING_TO_GAIN:
        return None
    if wait <= DATA_MS and share <= WORTH_A_WARNING:
        return None
    return Finding(
        data_wait.symptom,
        by_gain(share),
        share,
        f"{wait:.1f} ms wait for each batch, {share:.1%} of a step's time "
        f"(limits {DATA_MS:.0f} ms and {WORTH_A_WARNING:.0%})",
        "more workers, a longer queue, a cache that is used; then look at the disk",
        f"at most {speed_up(share)} more samples a second, where the wait vanishes",
        faster_data(figures, settings),
    )


def faster_data(figures: RunFigures, settings: RunSettings) -> dict[str, Any]:
    """What of the data's way is not at its fastest."""
    loader, reader = settings.DATALOADER, settings.value("DATA.READER")
    keys: dict[str, Any] = {}
    if loader.TRAIN_WORKERS != "auto":
        keys["DATALOADER.TRAIN_WORKERS"] = "auto"  # TOTAL_WORKERS decides nothing beside it
    elif loader.TOTAL_WORKERS == "auto":
        keys["DATALOADER.TOTAL_WORKERS"] = "cpu*1.0"
    elif isinstance(loader.TOTAL_WORKERS, int):
        keys["DATALOADER.TOTAL_WORKERS"] = "auto"
    if loader.TRAIN_PREFETCH_FACTOR < MOST_PREFETCH:
        keys["DATALOADER.TRAIN_PREFETCH_FACTOR"] = min(
            MOST_PREFETCH, 2 * loader.TRAIN_PREFETCH_FACTOR
        )
    if not loader.PERSISTENT_WORKERS:
        keys["DATALOADER.PERSISTENT_WORKERS"] = True
    if figures.memory.has_gpu and not loader.PIN_MEMORY:
        keys["DATALOADER.PIN_MEMORY"] = True
    if settings.value("MODEL.USE_SPIKE") and not settings.value("DATA.USE_PRECOMPUTED_VOXELS"):
        keys["DATA.USE_PRECOMPUTED_VOXELS"] = True
    if reader not in (None, "tensorstore"):
        keys["DATA.READER"] = "tensorstore"  # the other one has no cache and is slower
    elif reader and not settings.value("DATA.USE_RAM_CACHE") and _has_memory(figures):
        keys["DATA.USE_RAM_CACHE"] = True
    return keys


@rule(
    symptom="stalls of the data loader",
    cause="workers that start anew in every epoch; a disk or network that hangs",
    measured=f"section `step/data`: steps that wait longer than {STALL} usual steps take",
    limit=f"their waits take over {NOTHING_TO_GAIN:.0%} of all steps' time; warning: over "
    f"{WORTH_A_WARNING:.0%}",
    cure="workers that stay from epoch to epoch (`DATALOADER.PERSISTENT_WORKERS`); a disk or "
    "network that hangs at times: copy the stores to a local disk. A loader that never answers: "
    "`DATALOADER.TOTAL_WORKERS=0` reads in the training process, where the fault shows",
)
def stalls(figures: RunFigures, settings: RunSettings) -> Finding | None:
    """Single steps that wait for data out of all proportion."""
    speed = figures.speed
    share, longest = speed.stalled_share, speed.longest_wait_ms
    if not share or longest is None or share <= STALLED_SHARE:
        return None
    keys = {} if settings.DATALOADER.PERSISTENT_WORKERS else {"DATALOADER.PERSISTENT_WORKERS": True}
    return Finding(
        stalls.symptom,
        by_gain(share),
        share,
        f"{speed.stalls} steps waited for data longer than {STALL} usual steps take, up to "
        f"{longest / 1e3:.1f} s, {share:.1%} of all steps' time",
        "workers that stay from one epoch to the next"
        if keys
        else "look at the disk or network that the stores lie on; copy them to a local disk",
        f"at most {speed_up(share)} more samples a second",
        keys,
    )


@rule(
    symptom="cache misses",
    cause="a cache smaller than what an epoch reads, in random order",
    measured="`cache.hit_rate` of the memory log, where there is a cache and it is full",
    limit=f"under {CACHE_HIT_RATE:.0%} (target {CACHE_HIT_RATE_TARGET:.0%}), where steps wait for "
    f"data over {NOTHING_TO_GAIN:.0%} of their time",
    cure="a cache of twice the size, up to half of the machine's memory; clips that lie near each "
    "other one after the other (`DATALOADER.SHUFFLE_BLOCK`, another order of samples)",
)
def cold_cache(figures: RunFigures, settings: RunSettings) -> Finding | None:
    """A cache that mostly misses."""
    rate, share = figures.memory.cache_hit_rate, figures.speed.data_share
    if rate is None or rate >= CACHE_HIT_RATE:
        return None
    if not uses_cache(settings) or figures.memory.cache_is_full is False:
        return None  # what is not full misses what is read for the first time
    if share is not None and share < NOTHING_TO_GAIN:
        return None
    stake = (share or 0.0) * (1 - rate)
    size = larger_cache(figures, settings)
    blocks = "DATALOADER.SHUFFLE_BLOCK keeps clips together that share chunks (another order)"
    return Finding(
        cold_cache.symptom,
        by_gain(stake),
        stake,
        f"{rate:.0%} of the chunks were found in the cache (limit {CACHE_HIT_RATE:.0%}, target "
        f"{CACHE_HIT_RATE_TARGET:.0%})",
        f"a larger cache, or {blocks}" if size else f"no memory for a larger cache; {blocks}",
        "with a random order the hit rate grows in proportion to the cache",
        {"DATA.CACHE_SIZE_GB": size} if size else {},
    )


def uses_cache(settings: RunSettings) -> bool:
    """Whether a run reads its data through a cache."""
    if not settings.value("DATA.USE_RAM_CACHE") or settings.value("DATA.READER") != "tensorstore":
        return False
    return bool(settings.value("DATA.CACHE_SIZE_GB") > 0)


def larger_cache(figures: RunFigures, settings: RunSettings) -> float | None:
    """Twice the cache, or what of that may be taken of the machine's memory; None for no more."""
    size, total = settings.value("DATA.CACHE_SIZE_GB"), figures.memory.system_total_gb
    if not _has_memory(figures):
        return None
    most = 2 * size if total is None else min(2 * size, CACHE_OF_MEMORY * total)
    return round(most, 1) if most > 1.1 * size else None


def _has_memory(figures: RunFigures) -> bool:
    used = figures.memory.system_percent
    return used is None or used < MEMORY_FOR_CACHE_PERCENT
