"""Symptoms of a run whose steps are slower than they could be."""

from __future__ import annotations

from typing import Any

from vrtspike.analysis.data_rules import faster_data
from vrtspike.analysis.figures import RunFigures
from vrtspike.analysis.finding import WORTH_A_WARNING, Finding, by_gain, rule, speed_up
from vrtspike.analysis.memory_rules import GPU_MEMORY_USABLE, larger_batch
from vrtspike.config.run_schema import RunSettings

GPU_UTILISATION = 50.0
GPU_UTILISATION_TARGET = 90.0
FORWARD_MS = 1500.0
SAMPLES_PER_SECOND = 1.0
LOSS_SHARE = 0.10
SYNC_SHARE = 0.10
VALIDATION_SHARE = 0.20
CHECKPOINT_SHARE = 0.05
CHUNK_TOKENS = 65536


@rule(
    symptom="GPU idle",
    cause="data that come late; batches too small for the device, many small kernels",
    measured="`gpu.utilisation_percent` of the memory log, the median",
    limit=f"under {GPU_UTILISATION:.0f} % (target {GPU_UTILISATION_TARGET:.0f} %)",
    cure="where steps wait for data, that first; else batches of twice the size, if they fit, with "
    "half of the micro-steps, and compiled blocks",
)
def idle_gpu(figures: RunFigures, settings: RunSettings) -> Finding | None:
    """A device that is idle half of the time."""
    busy = figures.memory.gpu_utilisation
    if busy is None or busy >= GPU_UTILISATION:
        return None
    gain = 1 - busy / GPU_UTILISATION_TARGET
    keys: dict[str, Any] = {}
    if (figures.speed.data_share or 0.0) > WORTH_A_WARNING:
        change = "steps wait for data: begin with that"
    else:
        keys = _larger_work(figures, settings)
        change = "more work at a time: larger batches, compiled blocks"
        if not keys:
            change = "look at what the host does: LOG.PROFILE_STEPS"
    return Finding(
        idle_gpu.symptom,
        by_gain(gain),
        1 - busy / 100,
        f"the GPU is busy {busy:.0f} % of the time (limit {GPU_UTILISATION:.0f} %, target "
        f"{GPU_UTILISATION_TARGET:.0f} %)",
        change,
        f"at most {speed_up(gain)} more samples a second at the target",
        keys,
    )


def _larger_work(figures: RunFigures, settings: RunSettings) -> dict[str, Any]:
    """Batches of twice the size where they fit, and compiled blocks."""
    train, memory = settings.TRAIN, figures.memory
    keys: dict[str, Any] = {}
    peak, total, more = memory.gpu_peak_mb, memory.gpu_total_mb, memory.gpu_activations_mb
    known = peak is not None and total is not None and more is not None
    if not known or peak + more <= GPU_MEMORY_USABLE * total:  # type: ignore[operator]
        keys |= larger_batch(figures, settings, most=2 * train.BATCH_SIZE)
    if not train.COMPILE_MODEL:
        keys["TRAIN.COMPILE_MODEL"] = True
    return keys


@rule(
    symptom="slow forward pass",
    cause="float32, kernels one by one; stages 1 and 8 work at full size",
    measured="section `step/forward` of one micro-batch, and its slowest part",
    limit=f"over {FORWARD_MS:.0f} ms; a warning where something helps that leaves the network as "
    "it is",
    cure="on a GPU half precision and compiled blocks; larger chunks, where fusion or the "
    "attention along time is the slowest part; else fewer blocks in the slowest stage "
    "(`MODEL.VRT_DEPTHS`), windows of 7 or 6 (`MODEL.WINDOW_SIZE`), smaller crops",
)
def slow_forward(figures: RunFigures, settings: RunSettings) -> Finding | None:
    """A forward pass over the limit."""
    forward = figures.speed.forward_ms
    if forward is None or forward <= FORWARD_MS:
        return None
    slowest = ""
    keys = _faster_arithmetic(figures, settings)
    if figures.speed.slowest_section is not None:
        name, ms = figures.speed.slowest_section
        slowest = f"; most of it in {name}, {ms:.0f} ms ({ms / forward:.0%})"
        keys |= _larger_chunks(name, settings)
    share = figures.speed.step_parts.get("forward", 1.0)
    return Finding(
        slow_forward.symptom,
        by_gain(share) if keys else "hint",
        share,
        f"{forward:.0f} ms forward (limit {FORWARD_MS:.0f} ms){slowest}",
        _less_arithmetic(settings)
        if not keys
        else "the keys below leave the network as it is; beyond them: "
        + _less_arithmetic(settings),
        f"at most {speed_up(share)} more samples a second if it took no time; run some steps with "
        "the change and compare",
        keys,
    )


def _faster_arithmetic(figures: RunFigures, settings: RunSettings) -> dict[str, Any]:
    """Half precision and compiled blocks, on a GPU that has neither."""
    keys: dict[str, Any] = {}
    if figures.memory.has_gpu and settings.TRAIN.PRECISION == "32":
        keys["TRAIN.PRECISION"] = "bf16-mixed"
    if figures.memory.has_gpu and not settings.TRAIN.COMPILE_MODEL:
        keys["TRAIN.COMPILE_MODEL"] = True
    return keys


def _larger_chunks(section: str, settings: RunSettings) -> dict[str, Any]:
    """More pixels at a time for the attention along time, where that is the slowest part."""
    for part, name, chunks in (
        ("fusion", "FUSE", settings.value("MODEL.FUSE")),
        ("spike_attention", "SPIKE_TSA", settings.value("MODEL.SPIKE_TSA")),
    ):
        if (
            chunks
            and part in section
            and chunks.ADAPTIVE_CHUNK
            and chunks.MAX_BATCH_TOKENS < CHUNK_TOKENS
        ):
            return {f"MODEL.{name}.MAX_BATCH_TOKENS": CHUNK_TOKENS}
    return {}


def _less_arithmetic(settings: RunSettings) -> str:
    """What costs less and gives another network."""
    depth = settings.value("MODEL.depth_key")
    if depth is None:
        crops = settings.value("DATA.CROP_SIZE") is not None
        words = " or smaller crops (DATA.CROP_SIZE), which change" if crops else ", which changes"
        return f"a smaller model{words} the result"
    return (
        f"fewer blocks ({depth}) in the slowest stage, windows of 7 or 6 pixels "
        "(MODEL.WINDOW_SIZE) or smaller crops (DATA.CROP_SIZE), which change the result"
    )


@rule(
    symptom="float32 on a GPU",
    cause="a preset for the CPU, or the way back from a loss that was not finite",
    measured="`TRAIN.PRECISION` of a run on a GPU",
    limit="`32`, where the forward pass is not slow",
    cure="`bf16-mixed`: half the memory for activations, and matrix units that are several times "
    "as fast",
)
def single_precision(figures: RunFigures, settings: RunSettings) -> Finding | None:
    """Arithmetic in float32 where the device has faster one."""
    if not figures.memory.has_gpu or settings.TRAIN.PRECISION != "32":
        return None
    if (figures.speed.forward_ms or 0.0) > FORWARD_MS:
        return None  # the slow forward pass proposes it
    parts = figures.speed.step_parts
    share = parts.get("forward", 0.0) + parts.get("backward", 0.0)
    return Finding(
        single_precision.symptom,
        "hint",
        share,
        f"TRAIN.PRECISION is 32; {share:.0%} of a step are forward and backward",
        "half precision, with float32 where it matters",
        "half the memory for activations; the time is to be measured. Compare the validation",
        {"TRAIN.PRECISION": "bf16-mixed"},
    )


@rule(
    symptom="deterministic algorithms",
    cause="left on after a comparison",
    measured="`DETERMINISTIC` of a run on a GPU",
    limit="`true`",
    cure="`false`, unless two runs have to be equal to the last bit",
)
def deterministic(figures: RunFigures, settings: RunSettings) -> Finding | None:
    """Algorithms that are chosen to be repeatable and not to be fast."""
    if not figures.memory.has_gpu or not settings.DETERMINISTIC:
        return None
    return Finding(
        deterministic.symptom,
        "hint",
        0.0,
        "DETERMINISTIC is true",
        "let cuDNN choose the fastest algorithms, unless two runs have to be equal to the last bit",
        "some per cent, where convolutions take the time; measure it",
        {"DETERMINISTIC": False},
    )


@rule(
    symptom="low throughput",
    cause="the largest part of a step, most often backward with recomputation",
    measured="samples of all steps over their time; the largest part of a step",
    limit=f"under {SAMPLES_PER_SECOND:.0f} sample a second; a warning where something helps that "
    "leaves the network as it is",
    cure="begin with the largest part. Backward: switch recomputation off, where memory allows, "
    "first `MODEL.VRT.USE_CHECKPOINT_FFN`, then `USE_CHECKPOINT_ATTN`; without recomputation, what "
    "makes forward cheaper makes backward cheaper. Data, loss, sync: their own rows. Optimiser: "
    "more micro-steps to a step",
)
def low_throughput(figures: RunFigures, settings: RunSettings) -> Finding | None:
    """Less than one sample a second."""
    speed = figures.speed
    rate = speed.samples_per_second
    if rate is None or rate >= SAMPLES_PER_SECOND:
        return None
    figure = f"{rate:.3g} samples a second (limit {SAMPLES_PER_SECOND:.0f})"
    if not speed.step_parts:
        return Finding(
            low_throughput.symptom,
            "hint",
            1.0,
            f"{figure}; the parts of a step were not timed",
            "time them (LOG.ENABLE_TIMING_LOG), and begin with the largest",
            "what to expect is seen then",
        )
    name, share = max(speed.step_parts.items(), key=lambda part: part[1])
    keys, change, gain = _advice(name, share, figures, settings)
    if gain is None:
        effect = f"at most {speed_up(share)} more samples a second if {name} took no time"
    else:
        effect = f"at most {speed_up(gain)} more samples a second"
    return Finding(
        low_throughput.symptom,
        by_gain(share if gain is None else gain) if keys else "hint",
        share,
        f"{figure}; {name} takes {share:.0%} of a step",
        change,
        effect,
        keys,
    )


def _advice(
    name: str, share: float, figures: RunFigures, settings: RunSettings
) -> tuple[dict[str, Any], str, float | None]:
    """What to do about the largest part of a step: keys, words, and the share that can be saved.

    The share is None where nothing bounds it but the part itself.
    """
    if name == "data":
        return faster_data(figures, settings), "steps wait for data most of all: see there", None
    if name == "loss":
        return {}, "the terms of the loss take most of a step: see there", None
    if name == "sync":
        return {}, "exchanging gradients takes most of a step: see there", None
    if name == "optimizer":
        return (
            {},
            "more micro-steps to an optimiser step (TRAIN.GRADIENT_ACCUMULATION_STEPS): it is then "
            "shared by more samples, a larger batch for which TRAIN.SCALE_LR has a rate",
            None,
        )
    if name == "backward" and settings.recomputing:
        return _less_recomputation(figures, settings)
    keys = _faster_arithmetic(figures, settings)
    words = _less_arithmetic(settings)
    if keys:
        words = f"half precision and compiled blocks, where proposed; beyond that {words}"
    if name == "backward":
        words = (
            "nothing is recomputed, so backward costs about twice forward and what makes forward "
            f"cheaper makes it cheaper: {words}"
        )
    return keys, words if name in ("forward", "backward") else _profile(name), None


def _profile(name: str) -> str:
    return f"{name} is the largest part of a step; LOG.PROFILE_STEPS=[20,22] shows what it does"


def _less_recomputation(
    figures: RunFigures, settings: RunSettings
) -> tuple[dict[str, Any], str, float | None]:
    """Backward without computing again what was not stored, where memory allows."""
    first, *then = settings.recomputing
    # Where it was not timed: what is computed again is forward once more, at most.
    gain = figures.speed.recomputation_share
    if gain is None:
        gain = figures.speed.step_parts.get("forward")
    memory = figures.memory
    order = f"{first}=false" + "".join(f", then {name}=false" for name in then)
    change = f"backward computes parts of forward again: store them instead, key by key ({order})"
    if memory.gpu_peak_mb and memory.gpu_total_mb:
        used = memory.gpu_peak_mb / memory.gpu_total_mb
        if used > GPU_MEMORY_USABLE:
            return (
                {},
                f"{change}; the GPU's memory is {used:.0%} full, so make room first: "
                "TRAIN.OPTIM.TYPE=adamw8bit, or a smaller TRAIN.BATCH_SIZE with more "
                "TRAIN.GRADIENT_ACCUMULATION_STEPS",
                gain,
            )
    return {first: False}, f"{change}; watch the memory", gain


@rule(
    symptom="slow loss",
    cause="a network for a perceptual term, forward and backward in each step",
    measured="section `step/loss`, share of a step, where a term has a network of its own",
    limit=f"over {LOSS_SHARE:.0%}",
    cure="compute it in every second step only (`LOSS.VGG_PERCEPTUAL.EVERY`), or fewer layers",
)
def slow_loss(figures: RunFigures, settings: RunSettings) -> Finding | None:
    """Perceptual terms that take a good part of a step."""
    share = figures.speed.step_parts.get("loss", 0.0)
    active = settings.value("LOSS.active", {})
    networks = [name for name in active if name != "CHARBONNIER"]
    if share <= LOSS_SHARE or not networks:
        return None
    vgg = active.get("VGG_PERCEPTUAL")
    keys = {"LOSS.VGG_PERCEPTUAL.EVERY": 2 * vgg.EVERY} if vgg else {}
    return Finding(
        slow_loss.symptom,
        by_gain(share / 2),
        share,
        f"the loss takes {share:.0%} of a step (limit {LOSS_SHARE:.0%}); with networks of their "
        f"own: {', '.join(networks)}",
        "compute the perceptual term in fewer steps, which changes the result"
        if keys
        else "look which term needs its network, and leave it out for PSNR",
        f"at most {speed_up(share / 2)} more samples a second, and as much again in backward",
        keys,
    )


@rule(
    symptom="slow exchange of gradients",
    cause="a slow connection between GPUs, exchanges after little work",
    measured="section `step/sync`, share of a step",
    limit=f"over {SYNC_SHARE:.0%}",
    cure="more micro-steps to an optimiser step (`TRAIN.GRADIENT_ACCUMULATION_STEPS`); a faster "
    "connection between the GPUs, or fewer of them",
)
def slow_sync(figures: RunFigures, settings: RunSettings) -> Finding | None:
    """Processes that wait for each other's gradients."""
    share = figures.speed.step_parts.get("sync", 0.0)
    if share <= SYNC_SHARE:
        return None
    return Finding(
        slow_sync.symptom,
        by_gain(share / 2),
        share,
        f"exchanging gradients takes {share:.0%} of a step (limit {SYNC_SHARE:.0%})",
        f"TRAIN.GRADIENT_ACCUMULATION_STEPS={2 * settings.TRAIN.GRADIENT_ACCUMULATION_STEPS} "
        "halves it for each sample, a larger batch for which TRAIN.SCALE_LR has a rate; or fewer "
        "GPUs",
        f"about {speed_up(share / 2)} more samples a second",
    )


@rule(
    symptom="much time in validation",
    cause="validations too close to each other, or many frames",
    measured="section `validation`, share of all that was timed",
    limit=f"over {VALIDATION_SHARE:.0%}",
    cure="validate half as often (`LOG.VAL_EVERY_STEPS`); batches in validation "
    "(`TRAIN.VAL_BATCH_SIZE`)",
)
def slow_validation(figures: RunFigures, settings: RunSettings) -> Finding | None:
    """A run that measures more than it should."""
    return _too_often(
        slow_validation.symptom,
        figures.speed.validation_share,
        VALIDATION_SHARE,
        "LOG.VAL_EVERY_STEPS",
        settings.LOG.VAL_EVERY_STEPS,
    )


@rule(
    symptom="much time in checkpoints",
    cause="checkpoints too close to each other, a slow disk",
    measured="section `checkpoint`, share of all that was timed",
    limit=f"over {CHECKPOINT_SHARE:.0%}",
    cure="save half as often (`TRAIN.SAVE_EVERY_STEPS`); a faster disk for `RUNS`",
)
def slow_checkpoints(figures: RunFigures, settings: RunSettings) -> Finding | None:
    """A run that saves its state too often."""
    return _too_often(
        slow_checkpoints.symptom,
        figures.speed.checkpoint_share,
        CHECKPOINT_SHARE,
        "TRAIN.SAVE_EVERY_STEPS",
        settings.TRAIN.SAVE_EVERY_STEPS,
    )


def _too_often(
    symptom: str, share: float | None, limit: float, key: str, interval: int
) -> Finding | None:
    """Something beside the steps that takes over ``limit`` of the time, and is done every so often.

    Done half as often it takes half of its time.
    """
    if share is None or share <= limit:
        return None
    return Finding(
        symptom,
        by_gain(share / 2),
        share,
        f"{share:.0%} of the run's time (limit {limit:.0%}), every {interval} steps",
        "half as often",
        f"about {speed_up(share / 2)} more samples a second",
        {key: 2 * interval},
    )
