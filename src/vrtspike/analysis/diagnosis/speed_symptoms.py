"""Symptoms of a slow training: parts of its step, and the use of its GPU."""

from __future__ import annotations

from vrtspike.analysis.diagnosis.memory_symptoms import GPU_MEMORY_USABLE
from vrtspike.analysis.diagnosis.symptom import (
    WARNING_SHARE,
    Finding,
    Keys,
    RunFacts,
    Severity,
    more_samples_text,
    severity_of_gain,
    symptom,
)
from vrtspike.analysis.run_measurements import Speed

MIN_BUSY_PERCENT = 50
TARGET_BUSY_PERCENT = 90
MAX_FORWARD_MS = 1500
MIN_SAMPLES_PER_SECOND = 1


@symptom(
    "GPU idle",
    measured="`gpu.utilisation_percent` of the memory log, the median",
    reported=f"under {MIN_BUSY_PERCENT} % (target {TARGET_BUSY_PERCENT} %)",
    cause="slow data loading, batches too small for the device, many small kernels",
)
def idle_gpu(run: RunFacts) -> Finding | None:
    """Find low GPU utilisation."""
    busy = run.measurements.memory.gpu_utilisation
    if not busy < MIN_BUSY_PERCENT:
        return None
    keys: Keys = {}
    change = "look at what the host does: LOG.PROFILE_STEPS"
    if run.measurements.speed.data_share > WARNING_SHARE:
        change = "steps wait for data: begin with that"
    elif not run.settings.TRAIN.COMPILE_MODEL:
        keys["TRAIN.COMPILE_MODEL"] = True
        change = "compiled blocks, and larger batches where GPU memory is unused"
    gain = 1 - busy / TARGET_BUSY_PERCENT
    return Finding(
        severity=severity_of_gain(gain),
        weight=1 - busy / 100,
        evidence=(
            f"the GPU is busy {busy:.0f} % of the time (limit {MIN_BUSY_PERCENT} %, target "
            f"{TARGET_BUSY_PERCENT} %)"
        ),
        change=change,
        effect=f"{more_samples_text(gain)} at the target",
        keys=keys,
    )


@symptom(
    "slow forward pass",
    measured="section `step/forward` of one micro-batch, and its slowest part",
    reported=(
        f"over {MAX_FORWARD_MS} ms; a warning if a key helps that does not change the network"
    ),
    cause=(
        "float32, blocks that are not compiled; parts at full resolution, such as VRT's stages 1 "
        "and 8"
    ),
)
def slow_forward(run: RunFacts) -> Finding | None:
    """Find a forward pass over the limit."""
    speed = run.measurements.speed
    forward = speed.forward_ms
    if not forward > MAX_FORWARD_MS:
        return None
    evidence = f"{forward:.0f} ms forward (limit {MAX_FORWARD_MS} ms)"
    keys = _faster_arithmetic(run)
    if speed.slowest_section is not None:
        section, section_ms = speed.slowest_section
        evidence += f"; most of it in {section}, {section_ms:.0f} ms ({section_ms / forward:.0%})"
        keys |= run.advice.faster_section(section)
    share = speed.step_parts.get("forward", 1.0)
    severity: Severity = "hint"
    change = run.advice.smaller_model
    if keys:
        severity = severity_of_gain(share)
        change = f"the keys below leave the network as it is; beyond them: {change}"
    return Finding(
        severity=severity,
        weight=share,
        evidence=evidence,
        change=change,
        effect=(
            f"{more_samples_text(share)} if it took no time; run some steps with the change and "
            "compare"
        ),
        keys=keys,
    )


def _faster_arithmetic(run: RunFacts) -> Keys:
    """Return keys for half precision and compiled blocks on a GPU, if they are not set yet."""
    train = run.settings.TRAIN
    keys: Keys = {}
    if run.measurements.memory.has_gpu and train.PRECISION == "32":
        keys["TRAIN.PRECISION"] = "bf16-mixed"
    if run.measurements.memory.has_gpu and not train.COMPILE_MODEL:
        keys["TRAIN.COMPILE_MODEL"] = True
    return keys


@symptom(
    "low throughput",
    measured="samples of all steps over their time; the largest part of a step",
    reported=(
        f"under {MIN_SAMPLES_PER_SECOND} sample a second; a warning if recomputation can be turned "
        "off"
    ),
    cause="the largest part of a step, most often backward with recomputation",
)
def low_throughput(run: RunFacts) -> Finding | None:
    """Find low throughput, with advice on the largest part of a step."""
    speed = run.measurements.speed
    if not speed.samples_per_second < MIN_SAMPLES_PER_SECOND:
        return None
    parts = speed.step_parts or {"what was not timed": 1.0}
    part, share = max(parts.items(), key=lambda item: item[1])
    severity: Severity = "hint"
    keys: Keys = {}
    gain = share
    if part == "backward" and run.recomputation:
        gain = _recomputed_share(speed, share)
        change = "backward computes parts of forward again: store them instead, key by key "
        change += f"({', then '.join(run.recomputation)}); "
        memory = run.measurements.memory
        used = memory.gpu_peak_mb / memory.gpu_total_mb
        if used > GPU_MEMORY_USABLE:
            change += f"the GPU's memory is {used:.0%} full, so free some first"
            savings = run.settings.TRAIN.memory_saving_changes
            if savings:
                change += f": {', or '.join(savings)}"
        else:
            change += "watch the memory"
            keys[run.advice.recompute_keys[0]] = False
            severity = severity_of_gain(gain)
    else:
        change = _change_of_part(part, run)
    return Finding(
        severity=severity,
        weight=share,
        evidence=(
            f"{speed.samples_per_second:.3g} samples a second (limit {MIN_SAMPLES_PER_SECOND}); "
            f"{part} takes {share:.0%} of a step"
        ),
        change=change,
        effect=more_samples_text(gain),
        keys=keys,
    )


def _change_of_part(part: str, run: RunFacts) -> str:
    """Return what makes a part of a step cheaper, without recomputation.

    Args:
        part: the largest part of a step.
        run: measurements and settings of the run.
    """
    cheaper_network = (
        "half precision and compiled blocks (TRAIN.PRECISION, COMPILE_MODEL), or "
        f"{run.advice.smaller_model}"
    )
    changes = {
        # The wait for data is a symptom of its own, with its own keys.
        "data": "steps wait for data most of all: see there",
        "optimizer": (
            "more micro-steps to an optimiser step (TRAIN.GRADIENT_ACCUMULATION_STEPS): it is then "
            "shared by more samples, a larger batch for which TRAIN.SCALE_LR has a rate"
        ),
        "forward": cheaper_network,
        "backward": (
            "nothing is recomputed, so backward costs about twice forward and what makes forward "
            f"cheaper makes it cheaper: {cheaper_network}"
        ),
    }
    other = f"{part} is the largest part of a step; LOG.PROFILE_STEPS=[20,22] shows what it does"
    return changes.get(part, other)


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
