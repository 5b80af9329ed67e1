"""Batches of presets that fit a device, their gain in time, and their learning rates.

Larger micro-batches with the samples of a step unchanged come first: they launch fewer operations
and change no learning rate. A step over n times as many samples has gradients whose noise is
smaller by the root of n, so the rate may be larger by as much (Krizhevsky, "One weird trick for
parallelizing convolutional neural networks", 2014).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from vrtspike.config.run_schema import RunSettings
from vrtspike.config.tasks import find_task, has_part
from vrtspike.config.workflow import WorkflowConfig
from vrtspike.deblurring.advice.hardware import Machine
from vrtspike.deblurring.advice.resources import FLOAT32, PresetFit, training_hours
from vrtspike.deblurring.training_cost import ClipCost, TrainingCost

MAX_BATCH_GROWTH = 4
"""Largest factor on the samples of a step; beyond it a run would have too few steps."""

MIN_GAIN = 0.01
"""Smallest share of the hours that is worth a line."""


def batch_advice(
    workflow: WorkflowConfig, fits: Sequence[PresetFit], machine: Machine
) -> Iterator[tuple[str, str]]:
    """Advise batches for each preset of any task whose model fits.

    Args:
        workflow: configuration with the presets.
        fits: presets whose memory was counted before.
        machine: the machine; without a GPU its system memory counts.

    Yields:
        name of the preset, and the batches as text.
    """
    costs = {fit.name: fit.cost for fit in fits if fit.cost is not None}
    for name, settings in workflow.presets.items():
        if settings.unchanged_weights is not None:
            continue  # the preset trains nothing
        task = find_task(settings.TASK)
        hours = None
        if name in costs:
            memory = _counted_memory(costs[name].largest, machine)
            hours = partial(training_hours, costs[name], machine)
        elif has_part(task, "memory"):
            memory = task.memory(settings)
        else:
            continue
        text = advise_batch(settings, *memory, machine.usable_gib, hours)
        if text:
            yield name, text


def _counted_memory(cost: ClipCost, machine: Machine) -> tuple[float, float]:
    """Return the GiB of a training without clips, and of each clip."""
    factor = 1.0 if machine.gpu else FLOAT32
    return cost.state_gib, factor * cost.clip_gib


def advise_batch(
    settings: RunSettings,
    fixed: float,
    sample: float,
    usable: float,
    hours: Callable[[int], float] | None = None,
) -> str:
    """Advise batches of a preset on a device.

    The largest micro-batch that fits comes first; accumulation keeps the samples of a step. If the
    samples of a step fit into one micro-step, the batch may also grow by a power of two, at most by
    :data:`MAX_BATCH_GROWTH`.

    Args:
        settings: settings of the preset.
        fixed: GiB of a training without samples.
        sample: GiB for each sample of a micro-step.
        usable: GiB of the device that may be filled.
        hours: function from the samples of a micro-step to the hours of the training, if known.

    Returns:
        keys and values; empty if no sample fits.

    >>> train = {"BATCH_SIZE": 16, "GRADIENT_ACCUMULATION_STEPS": 1, "SCALE_LR": "sqrt"}
    >>> advise_batch(RunSettings.model_validate({"TRAIN": train}), 4.0, 0.5, 24.0)
    '40 fit: TRAIN.BATCH_SIZE=32 (TRAIN.SCALE_LR scales the rate)'
    """
    accumulates = settings.TRAIN.GRADIENT_ACCUMULATION_STEPS > 1
    step_samples = settings.TRAIN.samples_per_step
    fitting = int((usable - fixed) / sample)
    if fitting < 1:
        return ""
    proposals = []
    if accumulates or fitting < step_samples:
        batch = _largest_divisor(step_samples, fitting)
        keys = _batch_keys(batch, step_samples // batch, accumulates)
        gain = _gain_text(settings.TRAIN.BATCH_SIZE, batch, hours)
        proposals.append(f"{keys}, {step_samples} samples a step as before{gain}")
    growth = 1
    if fitting >= step_samples:
        growth = min(MAX_BATCH_GROWTH, 2 ** int(math.log2(fitting / step_samples)))
    if growth > 1:
        keys = _batch_keys(growth * step_samples, 1, accumulates)
        proposals.append(f"{keys}{_rate_text(settings, step_samples, growth)}")
    if not proposals:
        proposals.append(f"{_batch_keys(step_samples, 1, accumulates)} as before")
    return f"{fitting} fit: {'; or '.join(proposals)}"


def micro_batch_keys(settings: RunSettings, cost: TrainingCost, machine: Machine) -> str:
    """Return keys of the largest micro-batch that fits with the samples of a step unchanged.

    Args:
        settings: settings of the preset.
        cost: cost of its training.
        machine: the machine; without a GPU its system memory counts.

    Returns:
        keys and values; empty if no sample fits.
    """
    fixed, sample = _counted_memory(cost.largest, machine)
    fitting = int((machine.usable_gib - fixed) / sample)
    if fitting < 1:
        return ""
    step_samples = settings.TRAIN.samples_per_step
    batch = _largest_divisor(step_samples, fitting)
    return _batch_keys(batch, step_samples // batch, accumulates=True)


def _largest_divisor(number: int, limit: int) -> int:
    """Return the largest divisor of ``number`` that is at most ``limit``."""
    return max(n for n in range(1, min(limit, number) + 1) if number % n == 0)


def _batch_keys(batch: int, micro_steps: int, accumulates: bool) -> str:
    """Return the keys of a batch; ``accumulates``: the preset has several micro-steps."""
    keys = f"TRAIN.BATCH_SIZE={batch}"
    if micro_steps > 1 or accumulates:
        keys += f" TRAIN.GRADIENT_ACCUMULATION_STEPS={micro_steps}"
    return keys


def _gain_text(batch: int, larger: int, hours: Callable[[int], float] | None) -> str:
    """Return the hours that larger micro-batches save; empty if they are unknown or few."""
    if hours is None:
        return ""
    before = hours(batch)
    saved = before - hours(larger)
    if saved < MIN_GAIN * before:
        return ""
    return f": saves {saved:,.2f} of {before:,.2f} hours"


def _rate_text(settings: RunSettings, step_samples: int, growth: int) -> str:
    """Return the learning rate for a step with ``growth`` times ``step_samples`` samples."""
    if settings.TRAIN.SCALE_LR != "none":
        return " (TRAIN.SCALE_LR scales the rate)"
    rate = settings.TRAIN.OPTIM.LR
    larger = rate * math.sqrt(growth)
    ratio = f"{step_samples * growth}/{step_samples}"
    return f" TRAIN.OPTIM.LR={larger:.3g} ({rate:g} x sqrt({ratio}))"
