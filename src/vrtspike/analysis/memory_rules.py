"""Symptoms of a run that exhausts the memory of machine or GPU, or leaves it unused."""

from __future__ import annotations

from typing import Any

from vrtspike.analysis.data_rules import CACHE_OF_MEMORY, uses_cache
from vrtspike.analysis.figures import RunFigures
from vrtspike.analysis.finding import Finding, rule
from vrtspike.config.run_schema import RunSettings

SYSTEM_MEMORY_PERCENT = 90.0
GROWTH = 0.10
GROWTH_MB = 500.0
GPU_MEMORY_USABLE = 0.90
GPU_HEADROOM = 0.25
GPU_NEARLY_FULL = 0.95
OPTIMIZER_SHARE = 0.20
OPTIMIZER_SAVED = 0.75
"""Of an optimiser's state, with moments of 8 bits instead of 32."""


@rule(
    symptom="system memory nearly full",
    cause="cache, workers with their queues, other programs",
    measured="`system_percent` of the memory log, the largest",
    limit=f"over {SYSTEM_MEMORY_PERCENT:.0f} %",
    cure="half of the cache, of the workers and of their queue; other programs on the machine",
)
def full_memory(figures: RunFigures, settings: RunSettings) -> Finding | None:
    """System memory close to its end."""
    used = figures.memory.system_percent
    if used is None or used <= SYSTEM_MEMORY_PERCENT:
        return None
    keys: dict[str, Any] = {}
    effect = "fewer processes, each with its own queue of batches"
    if uses_cache(settings):
        half = settings.value("DATA.CACHE_SIZE_GB") / 2
        keys["DATA.CACHE_SIZE_GB"] = half
        effect = f"about {half:.1f} GB less for the cache; {effect}"
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


def _fewer_workers(settings: RunSettings) -> dict[str, Any]:
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
def growing_memory(figures: RunFigures, settings: RunSettings) -> Finding | None:
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
def large_cache(figures: RunFigures, settings: RunSettings) -> Finding | None:
    """A cache that may leave too little for everything else."""
    machine = figures.memory.system_total_gb
    if machine is None or not uses_cache(settings):
        return None
    size = settings.value("DATA.CACHE_SIZE_GB")
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
def full_gpu(figures: RunFigures, settings: RunSettings) -> Finding | None:
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
        change = _less_memory(settings)
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


def _has_crops(settings: RunSettings) -> bool:
    return settings.value("DATA.CROP_SIZE") is not None


def _less_memory(settings: RunSettings) -> str:
    """What takes less memory where batches and moments are as small as they can be."""
    ways = []
    if settings.value("MODEL.VRT.USE_CHECKPOINT_ATTN") is not None:
        ways.append("recomputation (MODEL.VRT.USE_CHECKPOINT_ATTN, USE_CHECKPOINT_FFN)")
    if _has_crops(settings):
        ways.append("smaller crops")
    return ", ".join(ways) or "a smaller model"


@rule(
    symptom="optimiser fills the GPU",
    cause="two moments of 32 bits for every parameter",
    measured="`optimizer_mb` over `peak_mb` of what filled the GPU, where it is used by more than "
    f"{1 - GPU_HEADROOM:.0%}",
    limit=f"over {OPTIMIZER_SHARE:.0%} with `adamw`",
    cure="`TRAIN.OPTIM.TYPE: adamw8bit`; what it frees takes larger batches, or parts that are no "
    "longer recomputed",
)
def large_optimizer(figures: RunFigures, settings: RunSettings) -> Finding | None:
    """Moments of the optimiser where activations could be."""
    memory = figures.memory
    peak, total, state = memory.gpu_peak_mb, memory.gpu_total_mb, memory.gpu_optimizer_mb
    if not peak or not total or not state or settings.TRAIN.OPTIM.TYPE != "adamw":
        return None
    if state <= OPTIMIZER_SHARE * peak or peak < (1 - GPU_HEADROOM) * total:
        return None
    freed = OPTIMIZER_SAVED * state
    use = "larger batches"
    if settings.recomputing:
        use = f"{settings.recomputing[0]}=false, or larger batches"
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
def gpu_headroom(figures: RunFigures, settings: RunSettings) -> Finding | None:
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
    change = f"larger {'crops or ' if _has_crops(settings) else ''}batches may fit"
    effect = f"{free / 1024:.1f} GiB more can be used"
    if keys and activations:
        change = f"batches of {keys['TRAIN.BATCH_SIZE']} fit by the numbers"
        effect = f"{activations / batch / 1024:.1f} GiB of activations a sample"
    if settings.recomputing:
        change += f"; or recompute less ({settings.recomputing[0]}=false)"
    return Finding(
        gpu_headroom.symptom,
        "hint",
        free / total,
        f"peak {peak / 1024:.1f} of {total / 1024:.1f} GiB, {1 - peak / total:.0%} never used",
        change,
        effect,
        keys,
    )


def larger_batch(figures: RunFigures, settings: RunSettings, most: int) -> dict[str, Any]:
    """Batches of up to ``most`` samples, and what keeps the learning rate's meaning."""
    train = settings.TRAIN
    step = train.BATCH_SIZE * train.GRADIENT_ACCUMULATION_STEPS
    equal = max(size for size in range(1, most + 1) if step % size == 0)
    if equal > train.BATCH_SIZE:
        # An optimiser step sees as many samples as before, in fewer micro-steps.
        return {
            "TRAIN.BATCH_SIZE": equal,
            "TRAIN.GRADIENT_ACCUMULATION_STEPS": step // equal,
        }
    keys: dict[str, Any] = {"TRAIN.BATCH_SIZE": most}
    if train.SCALE_LR == "none":
        keys |= {"TRAIN.SCALE_LR": "sqrt", "TRAIN.BASE_BATCH_SIZE": step * figures.processes}
    return keys
