"""Symptoms of a run that spoils its result, exhausts the machine or leaves memory unused."""

from __future__ import annotations

from typing import Any

from vrtspike.analysis.figures import RunFigures
from vrtspike.analysis.finding import Finding
from vrtspike.config import Settings

SYSTEM_MEMORY_PERCENT = 90.0
GPU_MEMORY_USABLE = 0.90
GPU_HEADROOM = 0.25
GRADIENT_EXPLOSION = 100.0


def not_finite(figures: RunFigures, settings: Settings) -> Finding | None:
    """A loss that is not a number."""
    health = figures.health
    if health.losses_not_finite == 0:
        return None
    return Finding(
        "loss not finite",
        "error",
        1.0,
        f"{health.losses_not_finite} of {health.logged_steps} logged losses are not finite, the "
        f"first at step {health.first_not_finite}",
        "calmer arithmetic and tighter clipping",
        "the loss stays finite; bf16 has the range of float32 and needs no loss scale",
        _calmer(settings),
    )


def exploding_gradient(figures: RunFigures, settings: Settings) -> Finding | None:
    """A gradient norm far above its usual value."""
    median, largest = figures.health.gradient_norm_median, figures.health.gradient_norm_max
    if median is None or largest is None or largest <= GRADIENT_EXPLOSION * median:
        return None
    return Finding(
        "gradient norm exploding",
        "error",
        0.5,
        f"largest gradient norm {largest:.3g}, {largest / median:.0f} times the median "
        f"{median:.3g} (limit {GRADIENT_EXPLOSION:.0f} times)",
        "calmer arithmetic and tighter clipping",
        "single bad batches move the weights less",
        _calmer(settings),
    )


def _calmer(settings: Settings) -> dict[str, Any]:
    train = settings.TRAIN
    keys: dict[str, Any] = {}
    if train.PRECISION in ("16-mixed", "mixed"):
        keys["TRAIN.PRECISION"] = "bf16-mixed"
        keys["TRAIN.AMP_INIT_SCALE"] = min(train.AMP_INIT_SCALE, 1024.0)
    keys["TRAIN.MAX_GRAD_NORM"] = 1.0 if train.MAX_GRAD_NORM is None else train.MAX_GRAD_NORM / 2
    return keys


def full_memory(figures: RunFigures, settings: Settings) -> Finding | None:
    """System memory close to its end."""
    used = figures.memory.system_percent
    if used is None or used <= SYSTEM_MEMORY_PERCENT:
        return None
    keys: dict[str, Any] = {"DATA.CACHE_SIZE_GB": settings.DATA.CACHE_SIZE_GB / 2}
    if isinstance(settings.DATALOADER.TOTAL_WORKERS, int):
        keys["DATALOADER.TOTAL_WORKERS"] = max(1, settings.DATALOADER.TOTAL_WORKERS // 2)
    elif settings.DATALOADER.TOTAL_WORKERS == "auto":
        keys["DATALOADER.TOTAL_WORKERS"] = "cpu*0.4"
    return Finding(
        "system memory nearly full",
        "error",
        used / 100,
        f"{used:.0f} % of the system's memory in use at the peak (limit "
        f"{SYSTEM_MEMORY_PERCENT:.0f} %)",
        "a smaller cache and fewer workers, before the system ends the run",
        f"about {settings.DATA.CACHE_SIZE_GB / 2:.1f} GB less for the cache",
        keys,
    )


def gpu_headroom(figures: RunFigures, settings: Settings) -> Finding | None:
    """Memory of the GPU that a larger batch, or less recomputation, could use."""
    peak, total, activations = (
        figures.memory.gpu_peak_mb,
        figures.memory.gpu_total_mb,
        figures.memory.gpu_activations_mb,
    )
    if not peak or not total or peak >= total * (1 - GPU_HEADROOM):
        return None
    free = GPU_MEMORY_USABLE * total - peak
    batch = settings.TRAIN.BATCH_SIZE
    keys: dict[str, Any] = {}
    change = "larger crops or batches would fit"
    effect = f"{free / 1024:.1f} GB more can be used"
    if activations:
        more = int(free // (activations / batch))
        if more >= 1:
            keys["TRAIN.BATCH_SIZE"] = batch + more
            change = f"batches of {batch + more} fit by the numbers, or less recomputation"
            effect = (
                f"{activations / batch / 1024:.1f} GB of activations a sample; scale the learning "
                "rate with the batch (TRAIN.SCALE_LR)"
            )
    return Finding(
        "unused GPU memory",
        "hint",
        free / total,
        f"peak {peak / 1024:.1f} of {total / 1024:.1f} GB, {1 - peak / total:.0%} never used",
        change,
        effect,
        keys,
    )
