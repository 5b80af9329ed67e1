"""Symptoms of a run that spoils its result, exhausts the machine or leaves memory unused."""

from __future__ import annotations

from typing import Any

from vrtspike.analysis.figures import RunFigures
from vrtspike.analysis.finding import Finding, rule
from vrtspike.analysis.speed_rules import (
    CACHE_OF_MEMORY,
    GPU_MEMORY_USABLE,
    larger_batch,
    uses_cache,
)
from vrtspike.config import Settings

SYSTEM_MEMORY_PERCENT = 90.0
GROWTH = 0.10
GROWTH_MB = 500.0
GPU_HEADROOM = 0.25
GPU_NEARLY_FULL = 0.95
OPTIMIZER_SHARE = 0.20
OPTIMIZER_SAVED = 0.75
"""Of an optimiser's state, with moments of 8 bits instead of 32."""
GRADIENT_EXPLOSION = 100.0
GRADIENT_VANISHING = 1e-3
SKIPPED_SHARE = 0.05
FALLEN = 0.99
"""Of the first losses; a loss that stays above it has not fallen."""
LATER_VALIDATIONS = 5


@rule(
    symptom="loss not finite",
    cause="numbers beyond the range of 16 bits, too large a first loss scale, a step too far",
    measured="`loss` of every logged step",
    limit="one that is no number",
    cure="`bf16-mixed` instead of `16-mixed`, or a first loss scale of 1024 "
    "(`TRAIN.AMP_INIT_SCALE`); half of `TRAIN.MAX_GRAD_NORM`; a longer warm-up, a lower rate; if "
    "it stays, `TRAIN.PRECISION: '32'`",
)
def not_finite(figures: RunFigures, settings: Settings) -> Finding | None:
    """A loss that is not a number."""
    health = figures.health
    if health.losses_not_finite == 0:
        return None
    return Finding(
        not_finite.symptom,
        "error",
        1.0,
        f"{health.losses_not_finite} of {health.logged_steps} logged losses are not finite, the "
        f"first at step {health.first_not_finite}",
        f"calmer arithmetic and tighter clipping; {_calmer_words(settings)}",
        "the loss stays finite; bf16 has the range of float32 and needs no loss scale",
        _calmer(settings),
    )


@rule(
    symptom="gradient norm exploding",
    cause="a bad batch, a rate that is too high, too short a warm-up",
    measured="`grad_norm` of every logged step, the largest over the median",
    limit=f"over {GRADIENT_EXPLOSION:.0f} times; an error without clipping or where the loss was "
    "lost, else a warning",
    cure="as for a loss that is not finite",
)
def exploding_gradient(figures: RunFigures, settings: Settings) -> Finding | None:
    """A gradient norm far above its usual value."""
    median, largest = figures.health.gradient_norm_median, figures.health.gradient_norm_max
    if median is None or largest is None or largest <= GRADIENT_EXPLOSION * median:
        return None
    harmed = settings.TRAIN.MAX_GRAD_NORM is None or figures.health.losses_not_finite > 0
    return Finding(
        exploding_gradient.symptom,
        "error" if harmed else "warning",
        0.5,
        f"largest gradient norm {largest:.3g}, {largest / median:.0f} times the median "
        f"{median:.3g} (limit {GRADIENT_EXPLOSION:.0f} times)",
        f"calmer arithmetic and tighter clipping; {_calmer_words(settings)}",
        "single bad batches move the weights less",
        _calmer(settings),
    )


@rule(
    symptom="gradient norm vanishing",
    cause="small gradients that are 0 in 16 bits; weights that were destroyed",
    measured="`grad_norm`, median of the last tenth of the logged steps over that of the first",
    limit=f"under {GRADIENT_VANISHING:g}",
    cure="`bf16-mixed` instead of `16-mixed`, whose small gradients become 0; else look whether "
    "the loss is 0 or the rate has destroyed the weights (`TRAIN.OPTIM.LR`)",
)
def vanishing_gradient(figures: RunFigures, settings: Settings) -> Finding | None:
    """A gradient that has come to nothing."""
    first, last = figures.health.first_gradient_norms, figures.health.last_gradient_norms
    if first is None or last is None or last >= GRADIENT_VANISHING * first:
        return None
    keys = {"TRAIN.PRECISION": "bf16-mixed"} if _has_loss_scale(settings) else {}
    return Finding(
        vanishing_gradient.symptom,
        "error",
        0.5,
        f"median gradient norm {last:.3g} in the last tenth of the steps, {first:.3g} in the first "
        f"(limit {GRADIENT_VANISHING:g} of it)",
        "bf16, whose small numbers do not become 0"
        if keys
        else "a lower rate (TRAIN.OPTIM.LR) or a longer warm-up, from the beginning",
        "the model goes on learning",
        keys,
    )


@rule(
    symptom="skipped steps",
    cause="a loss scale too large for 16 bits",
    measured="`skipped` of every logged step: its gradient was not finite",
    limit=f"over {SKIPPED_SHARE:.0%} of them",
    cure="`bf16-mixed`, or a smaller `TRAIN.AMP_INIT_SCALE`",
)
def skipped_steps(figures: RunFigures, settings: Settings) -> Finding | None:
    """Optimiser steps that were computed for nothing."""
    health = figures.health
    share = health.skipped_steps / max(1, health.logged_steps)
    if share <= SKIPPED_SHARE:
        return None
    return Finding(
        skipped_steps.symptom,
        "warning",
        share,
        f"{health.skipped_steps} of {health.logged_steps} logged steps were skipped, for their "
        f"gradient was not finite (limit {SKIPPED_SHARE:.0%})",
        f"calmer arithmetic and tighter clipping; {_calmer_words(settings)}",
        f"{share:.0%} of the run's time is used",
        _calmer(settings),
    )


def _has_loss_scale(settings: Settings) -> bool:
    return settings.TRAIN.PRECISION in ("16-mixed", "mixed")


def _calmer(settings: Settings) -> dict[str, Any]:
    train = settings.TRAIN
    keys: dict[str, Any] = {}
    if _has_loss_scale(settings):
        keys["TRAIN.PRECISION"] = "bf16-mixed"
        keys["TRAIN.AMP_INIT_SCALE"] = min(train.AMP_INIT_SCALE, 1024.0)
    keys["TRAIN.MAX_GRAD_NORM"] = 1.0 if train.MAX_GRAD_NORM is None else train.MAX_GRAD_NORM / 2
    return keys


def _calmer_words(settings: Settings) -> str:
    """What else helps."""
    calm = "a longer warm-up (TRAIN.SCHED.WARMUP_STEPS) or a lower rate (TRAIN.OPTIM.LR)"
    if settings.TRAIN.PRECISION == "32":
        return f"if that is not enough, {calm}"
    return f"if that is not enough, {calm}, then TRAIN.PRECISION: '32'"


@rule(
    symptom="loss does not fall",
    cause="a rate that is too high or low, wrong weights at the start, spikes of other frames",
    measured="`loss`, median of the last tenth of the logged steps over that of the first",
    limit=f"over {FALLEN:.0%}; a hint where training began with `MODEL.VRT.PRETRAINED`",
    cure="a lower `TRAIN.OPTIM.LR` or a longer warm-up; then the weights that it started from, "
    "and the alignment of spikes and frames (`alignment.csv`)",
)
def stuck_loss(figures: RunFigures, settings: Settings) -> Finding | None:
    """A run that does not learn."""
    first, last = figures.health.first_losses, figures.health.last_losses
    if first is None or last is None or last <= FALLEN * first:
        return None
    trained = settings.MODEL.VRT.PRETRAINED is not None
    return Finding(
        stuck_loss.symptom,
        "hint" if trained else "warning",
        0.0 if trained else 1.0,
        f"median loss {last:.3g} in the last tenth of the steps, {first:.3g} in the first",
        "a lower rate; then look at the weights it started from, and at the alignment of spikes "
        "and frames (results/data/<data set>/alignment.csv)",
        "the weights it started from may have been trained to their end: compare the validation"
        if trained
        else "a loss that falls",
        {} if trained else {"TRAIN.OPTIM.LR": settings.TRAIN.OPTIM.LR / 2},
    )


@rule(
    symptom="validation no longer improves",
    cause="more epochs than the data are worth",
    measured="validations after the best one, by the first metric that was measured",
    limit=f"{LATER_VALIDATIONS} or more, without `TRAIN.EARLY_STOPPING`",
    cure="`TRAIN.EARLY_STOPPING`, or fewer epochs; the best weights are kept in any case "
    "(`best.safetensors` of the run)",
)
def late_run(figures: RunFigures, settings: Settings) -> Finding | None:
    """A run that goes on long after its best validation."""
    health = figures.health
    if settings.TRAIN.EARLY_STOPPING is not None or health.best_step is None:
        return None
    if health.later_validations < LATER_VALIDATIONS:
        return None
    return Finding(
        late_run.symptom,
        "hint",
        0.0,
        f"the best validation was after step {health.best_step}; none of the "
        f"{health.later_validations} later ones was better",
        "stop early, or look whether the model learns the training data by heart",
        "the time of the steps after the best ones",
        {"TRAIN.EARLY_STOPPING": {"METRIC": "main", "PATIENCE": LATER_VALIDATIONS}},
    )


@rule(
    symptom="system memory nearly full",
    cause="cache, workers with their queues, other programs",
    measured="`system_percent` of the memory log, the largest",
    limit=f"over {SYSTEM_MEMORY_PERCENT:.0f} %",
    cure="half of the cache, of the workers and of their queue; other programs on the machine",
)
def full_memory(figures: RunFigures, settings: Settings) -> Finding | None:
    """System memory close to its end."""
    used = figures.memory.system_percent
    if used is None or used <= SYSTEM_MEMORY_PERCENT:
        return None
    keys: dict[str, Any] = {}
    effect = "fewer processes, each with its own queue of batches"
    if uses_cache(settings):
        keys["DATA.CACHE_SIZE_GB"] = settings.DATA.CACHE_SIZE_GB / 2
        effect = f"about {settings.DATA.CACHE_SIZE_GB / 2:.1f} GB less for the cache; {effect}"
    keys |= _fewer_workers(settings)
    own = figures.memory.process_mb
    part = "" if own is None else f"; this run with its workers: {own / 1024:.1f} GiB"
    return Finding(
        full_memory.symptom,
        "error",
        used / 100,
        f"{used:.0f} % of the system's memory in use at the peak (limit "
        f"{SYSTEM_MEMORY_PERCENT:.0f} %){part}",
        "a smaller cache and fewer workers, before the system ends the run",
        effect,
        keys,
    )


def _fewer_workers(settings: Settings) -> dict[str, Any]:
    loader = settings.DATALOADER
    keys: dict[str, Any] = {}
    if loader.TRAIN_WORKERS != "auto":
        if loader.TRAIN_WORKERS > 1:
            keys["DATALOADER.TRAIN_WORKERS"] = loader.TRAIN_WORKERS // 2
    elif loader.TOTAL_WORKERS == "auto":
        keys["DATALOADER.TOTAL_WORKERS"] = "cpu*0.4"
    elif isinstance(loader.TOTAL_WORKERS, int) and loader.TOTAL_WORKERS > 1:
        keys["DATALOADER.TOTAL_WORKERS"] = loader.TOTAL_WORKERS // 2
    if loader.TRAIN_PREFETCH_FACTOR > 2:
        keys["DATALOADER.TRAIN_PREFETCH_FACTOR"] = loader.TRAIN_PREFETCH_FACTOR // 2
    return keys


@rule(
    symptom="memory grows",
    cause="workers that gather what they have read",
    measured="`process_mb` with `children_mb`: growth over the second half of the run, once the "
    "cache is as full as it gets",
    limit=f"over {GROWTH:.0%} of the largest value, and {GROWTH_MB:.0f} MB",
    cure="workers that begin anew in every epoch (`DATALOADER.PERSISTENT_WORKERS: false`), fewer "
    "of them; a stopped run continues where it was",
)
def growing_memory(figures: RunFigures, settings: Settings) -> Finding | None:
    """A run that takes more and more memory."""
    memory = figures.memory
    growth, steps, own = memory.growth_mb, memory.growth_steps, memory.process_mb
    if growth is None or own is None or growth <= max(GROWTH_MB, GROWTH * own):
        return None
    when = ""
    if memory.system_total_mb and memory.system_percent is not None and steps:
        free = memory.system_total_mb * (1 - memory.system_percent / 100)
        when = f"; at this pace the machine is full after {free / growth * steps:,.0f} more"
    loader = settings.DATALOADER
    keys = {"DATALOADER.PERSISTENT_WORKERS": False} if loader.PERSISTENT_WORKERS else {}
    return Finding(
        growing_memory.symptom,
        "warning",
        growth / own,
        f"{growth:.0f} MB more within {steps} steps, of {own:.0f} MB at most{when}",
        "workers that begin anew in every epoch"
        if keys
        else "fewer workers; look which process grows",
        "what workers have gathered is given back after each epoch",
        keys,
    )


@rule(
    symptom="cache of most of the memory",
    cause="a preset of a larger machine",
    measured="`DATA.CACHE_SIZE_GB` over the machine's memory",
    limit=f"over {CACHE_OF_MEMORY:.0%}",
    cure="half of the memory, so that workers, page-locked batches and other programs have room",
)
def large_cache(figures: RunFigures, settings: Settings) -> Finding | None:
    """A cache that may leave too little for everything else."""
    total = figures.memory.system_total_mb
    if total is None or not uses_cache(settings):
        return None
    size, machine = settings.DATA.CACHE_SIZE_GB, total * 2**20 / 1e9
    if size <= CACHE_OF_MEMORY * machine:
        return None
    most = int(10 * CACHE_OF_MEMORY * machine) / 10
    return Finding(
        large_cache.symptom,
        "hint",
        size / machine,
        f"DATA.CACHE_SIZE_GB is {size:g}, the machine has {machine:.1f} GB (limit "
        f"{CACHE_OF_MEMORY:.0%})",
        "a smaller cache, so that a run which fills it is not ended by the system",
        f"{size - most:.1f} GB stay free",
        {"DATA.CACHE_SIZE_GB": most},
    )


@rule(
    symptom="GPU memory nearly full",
    cause="batches, crops or clips as large as they can be",
    measured="`gpu.peak_mb` over `gpu.total_mb` of the memory log",
    limit=f"over {GPU_NEARLY_FULL:.0%}",
    cure="smaller batches with more micro-steps, recomputation (`MODEL.VRT.USE_CHECKPOINT_ATTN`, "
    "`USE_CHECKPOINT_FFN`), moments in 8 bits (`TRAIN.OPTIM.TYPE: adamw8bit`), smaller crops",
)
def full_gpu(figures: RunFigures, settings: Settings) -> Finding | None:
    """A GPU on which the next larger clip may not fit."""
    peak, total = figures.memory.gpu_peak_mb, figures.memory.gpu_total_mb
    if not peak or not total or peak <= GPU_NEARLY_FULL * total:
        return None
    train = settings.TRAIN
    keys: dict[str, Any] = {}
    if train.BATCH_SIZE % 2 == 0:
        keys = {
            "TRAIN.BATCH_SIZE": train.BATCH_SIZE // 2,
            "TRAIN.GRADIENT_ACCUMULATION_STEPS": 2 * train.GRADIENT_ACCUMULATION_STEPS,
        }
        change = "half of the batch in twice as many micro-steps"
    elif train.OPTIM.TYPE == "adamw":
        keys = {"TRAIN.OPTIM.TYPE": "adamw8bit"}
        change = "moments in 8 bits"
    else:
        change = "recomputation (MODEL.VRT.USE_CHECKPOINT_ATTN, USE_CHECKPOINT_FFN), smaller crops"
    return Finding(
        full_gpu.symptom,
        "hint",
        peak / total,
        f"peak {peak / 1024:.1f} of {total / 1024:.1f} GiB, {peak / total:.0%} (limit "
        f"{GPU_NEARLY_FULL:.0%})",
        f"{change}, if a run ends with too little memory",
        "room for other programs on the GPU and for what its memory is broken up into",
        keys,
    )


@rule(
    symptom="optimiser fills the GPU",
    cause="two moments of 32 bits for every parameter",
    measured="`optimizer_mb` over `peak_mb` of what filled the GPU, where it is used by more than "
    f"{1 - GPU_HEADROOM:.0%}",
    limit=f"over {OPTIMIZER_SHARE:.0%} with `adamw`",
    cure="`TRAIN.OPTIM.TYPE: adamw8bit`; what it frees takes larger batches, or parts that are no "
    "longer recomputed",
)
def large_optimizer(figures: RunFigures, settings: Settings) -> Finding | None:
    """Moments of the optimiser where activations could be."""
    memory = figures.memory
    peak, total, state = memory.gpu_peak_mb, memory.gpu_total_mb, memory.gpu_optimizer_mb
    if not peak or not total or not state or settings.TRAIN.OPTIM.TYPE != "adamw":
        return None
    if state <= OPTIMIZER_SHARE * peak or peak < (1 - GPU_HEADROOM) * total:
        return None
    freed = OPTIMIZER_SAVED * state
    use = "larger batches"
    if settings.MODEL.recomputing:
        use = f"{settings.MODEL.recomputing[0]}=false, or larger batches"
    return Finding(
        large_optimizer.symptom,
        "hint",
        freed / total,
        f"the optimiser's state is {state / 1024:.1f} GiB of {peak / 1024:.1f} GiB at the peak, "
        f"{state / peak:.0%} (limit {OPTIMIZER_SHARE:.0%})",
        f"moments in 8 bits (needs bitsandbytes); use the room for {use}",
        f"about {freed / 1024:.1f} GiB are free",
        {"TRAIN.OPTIM.TYPE": "adamw8bit"},
    )


@rule(
    symptom="unused GPU memory",
    cause="a preset of a smaller GPU; batches of one sample use a large one badly",
    measured="`gpu.peak_mb` and `gpu.total_mb` of the memory log, activations of a sample",
    limit=f"over {GPU_HEADROOM:.0%} never used",
    cure="less recomputation; larger batches with as many micro-steps less, or with a learning "
    "rate for them (`TRAIN.SCALE_LR`); larger crops",
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
    more = int(free // (activations / batch)) if activations else 0
    keys = larger_batch(figures, settings, most=batch + more) if more >= 1 else {}
    change = "larger crops or batches may fit"
    effect = f"{free / 1024:.1f} GiB more can be used"
    if keys and activations:
        change = f"batches of {keys['TRAIN.BATCH_SIZE']} fit by the numbers"
        effect = f"{activations / batch / 1024:.1f} GiB of activations a sample"
    if settings.MODEL.recomputing:
        change += f"; or recompute less ({settings.MODEL.recomputing[0]}=false)"
    return Finding(
        gpu_headroom.symptom,
        "hint",
        free / total,
        f"peak {peak / 1024:.1f} of {total / 1024:.1f} GiB, {1 - peak / total:.0%} never used",
        change,
        effect,
        keys,
    )
