"""Symptoms of a run that is slower than it could be."""

from __future__ import annotations

from typing import Any

from vrtspike.analysis.figures import RunFigures
from vrtspike.analysis.finding import Finding
from vrtspike.config import Settings

DATA_MS = 10.0
DATA_SHARE = 0.05
GPU_UTILISATION = 50.0
GPU_UTILISATION_TARGET = 90.0
FORWARD_MS = 1500.0
SAMPLES_PER_SECOND = 1.0
CACHE_HIT_RATE = 0.60
CACHE_HIT_RATE_TARGET = 0.75
MEMORY_FOR_CACHE_PERCENT = 70.0
MOST_PREFETCH = 8


def data_wait(figures: RunFigures, settings: Settings) -> Finding | None:
    """Steps that wait for data."""
    wait, share = figures.speed.data_ms, figures.speed.data_share
    if wait is None or share is None or (wait <= DATA_MS and share <= DATA_SHARE):
        return None
    loader, data = settings.DATALOADER, settings.DATA
    keys: dict[str, Any] = {}
    if loader.TOTAL_WORKERS == "auto":
        keys["DATALOADER.TOTAL_WORKERS"] = "cpu*1.0"
    elif isinstance(loader.TOTAL_WORKERS, int):
        keys["DATALOADER.TOTAL_WORKERS"] = "auto"
    if loader.TRAIN_PREFETCH_FACTOR < MOST_PREFETCH:
        keys["DATALOADER.TRAIN_PREFETCH_FACTOR"] = min(
            MOST_PREFETCH, 2 * loader.TRAIN_PREFETCH_FACTOR
        )
    if not data.USE_RAM_CACHE:
        keys["DATA.USE_RAM_CACHE"] = True
    return Finding(
        "waiting for data",
        "warning",
        share,
        f"{wait:.1f} ms wait for each batch, {share:.1%} of a step's time "
        f"(limits {DATA_MS:.0f} ms and {DATA_SHARE:.0%})",
        "more workers, a longer queue, the cache; then look at the disk",
        f"at most {_gain(share)} more samples a second, where the wait vanishes",
        keys,
    )


def idle_gpu(figures: RunFigures, settings: Settings) -> Finding | None:
    """A device that is idle half of the time although data is there."""
    busy = figures.memory.gpu_utilisation
    if busy is None or busy >= GPU_UTILISATION:
        return None
    keys: dict[str, Any] = {"TRAIN.BATCH_SIZE": 2 * settings.TRAIN.BATCH_SIZE}
    if settings.TRAIN.GRADIENT_ACCUMULATION_STEPS % 2 == 0:
        # The batch an optimiser step sees, and with it the learning rate's meaning, stays.
        keys["TRAIN.GRADIENT_ACCUMULATION_STEPS"] = settings.TRAIN.GRADIENT_ACCUMULATION_STEPS // 2
    if not settings.TRAIN.COMPILE_MODEL:
        keys["TRAIN.COMPILE_MODEL"] = True
    return Finding(
        "GPU idle",
        "warning",
        1 - busy / 100,
        f"the GPU is busy {busy:.0f} % of the time (limit {GPU_UTILISATION:.0f} %, target "
        f"{GPU_UTILISATION_TARGET:.0f} %)",
        "larger batches, compiled blocks",
        f"at most {_gain(1 - busy / GPU_UTILISATION_TARGET)} more samples a second at the target",
        keys,
    )


def slow_forward(figures: RunFigures, settings: Settings) -> Finding | None:
    """A forward pass over the limit."""
    if figures.speed.forward_ms is None or figures.speed.forward_ms <= FORWARD_MS:
        return None
    slowest = ""
    if figures.speed.slowest_section is not None:
        name, ms = figures.speed.slowest_section
        slowest = f"; most of it in {name}, {ms:.0f} ms ({ms / figures.speed.forward_ms:.0%})"
    keys: dict[str, Any] = {}
    if figures.memory.has_gpu and settings.TRAIN.PRECISION == "32":
        keys["TRAIN.PRECISION"] = "bf16-mixed"
    if figures.memory.has_gpu and not settings.TRAIN.COMPILE_MODEL:
        keys["TRAIN.COMPILE_MODEL"] = True
    depth = settings.MODEL.depth_key
    smaller = f"fewer blocks ({depth}) in the slowest stage" if depth else "a smaller model"
    return Finding(
        "slow forward pass",
        "warning",
        figures.speed.step_parts.get("forward", 1.0),
        f"{figures.speed.forward_ms:.0f} ms forward (limit {FORWARD_MS:.0f} ms){slowest}",
        f"half precision and compiled blocks on a GPU; else {smaller} or smaller crops "
        "(DATA.CROP_SIZE), which change the result",
        "measure: run the preset for some steps and compare",
        keys,
    )


def low_throughput(figures: RunFigures, settings: Settings) -> Finding | None:
    """Less than one sample a second."""
    rate = figures.speed.samples_per_second
    if rate is None or rate >= SAMPLES_PER_SECOND:
        return None
    name, share = max(
        figures.speed.step_parts.items(), key=lambda part: part[1], default=("step", 1.0)
    )
    keys: dict[str, Any] = {}
    change = f"begin with {name}, the largest part of a step"
    recomputing = settings.MODEL.recomputing
    effect = f"at most {_gain(share)} more samples a second if {name} took no time"
    if name == "backward" and recomputing and figures.speed.recomputation_share is not None:
        change = (
            "backward is the largest part of a step and includes recomputation: switch it off "
            "where memory allows, key by key"
        )
        keys[recomputing[0]] = False
        effect = f"at most {_gain(figures.speed.recomputation_share)} more samples a second"
    return Finding(
        "low throughput",
        "warning",
        share,
        f"{rate:.3g} samples a second (limit {SAMPLES_PER_SECOND:.0f}); {name} takes {share:.0%} "
        "of a step",
        change,
        effect,
        keys,
    )


def cold_cache(figures: RunFigures, settings: Settings) -> Finding | None:
    """A cache that mostly misses."""
    rate = figures.memory.cache_hit_rate
    if rate is None or rate >= CACHE_HIT_RATE:
        return None
    keys: dict[str, Any] = {}
    effect = "fewer reads"
    if (
        figures.memory.system_percent is None
        or figures.memory.system_percent < MEMORY_FOR_CACHE_PERCENT
    ):
        keys["DATA.CACHE_SIZE_GB"] = 2 * settings.DATA.CACHE_SIZE_GB
        effect = "with a random order the hit rate grows in proportion to the cache"
    return Finding(
        "cache misses",
        "warning",
        (figures.speed.data_share or 0.0) * (1 - rate),
        f"{rate:.0%} of the chunks were found in the cache (limit {CACHE_HIT_RATE:.0%}, target "
        f"{CACHE_HIT_RATE_TARGET:.0%})",
        "a larger cache if the machine has the memory; where steps do not wait for data, leave it, "
        "or switch it off",
        effect,
        keys,
    )


def _gain(share: float) -> str:
    """The speed-up from removing a share of the time, in percent."""
    return f"{1 / (1 - share) - 1:.0%}" if share < 0.999 else "1000 times"
