"""Which preset fits a machine and its data: memory, hours, disk, batches, and one line to type.

A step over n times as many samples has gradients whose noise is smaller by the root of n, so the
rate may be larger by as much (Krizhevsky, "One weird trick for parallelizing convolutional neural
networks", 2014).
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from vrtspike.analysis.findings import advice_texts
from vrtspike.commands.hardware import Machine
from vrtspike.config.problems import find_problem
from vrtspike.config.run_schema import RunSettings
from vrtspike.config.workflow import Workflow
from vrtspike.data.clips.merging import held_out
from vrtspike.data.clips.requirements import largest_crop
from vrtspike.data.data_size import GB, GOPRO, DataSize, measure_data
from vrtspike.data.datasets import Dataset, DeblurringWorkflow
from vrtspike.deblurring.costs import TrainingCost, training_cost
from vrtspike.deblurring.problem import training_weights
from vrtspike.io.files import folder_size
from vrtspike.settings import Settings
from vrtspike.system.errors import DataError
from vrtspike.system.surroundings import free_bytes
from vrtspike.training.workers import resolve_workers

PREFERRED = (
    "fast",
    "baseline",
    "low_memory",
    "low_ram",
    "opt",
    "compact",
    "light",
    "light_small",
    "finetune",
)
"""Order in which presets that fit are recommended: the published network first, the faster before
the more economical; the light model last, then what suits small data sets."""

UNTRAINED_START = (
    "it trains from random weights, for comparisons and timing; for the best figures start from "
    "VRT's weights (reproduce, docs/training.md)"
)
_MULTI_GPU_EFFICIENCY = 0.9
"""Parallel efficiency of several GPUs: an assumption."""
_USABLE = 0.9
"""Share of a GPU's memory that a training may fill."""
_PROCESS_GIB = {"cuda": 3.0, "cpu": 1.2}
"""System memory of a training process: estimated with CUDA, measured on a CPU (``demo``)."""
_WORKER_GIB = 0.15
"""PSS of a data loading worker without the cache: measured (``demo``)."""
_FLOAT32 = 2.0
"""Memory of float32 relative to half precision, which the table counts."""
MIN_STEPS = 1000
"""Fewest optimiser steps that are worth a training, but for presets of generated data."""
MAX_BATCH_GROWTH = 4
"""Largest factor on the samples of a step; beyond it a run would have too few steps."""
reason = partial(advice_texts, "presets")
"""A reason against a preset, by its name and with its values."""
_ROW = "{:<14} {:>11} {:>11} {:>11} {:>11}   {}"


@dataclass(frozen=True)
class PresetData:
    """The data of presets.

    Attributes:
        dataset: its paths.
        size: number and size of its frames; those of GoPro where the data are missing.
        missing: why the data are missing; None if they are there.
        existing_bytes: size of the stores that exist.
    """

    dataset: Dataset
    size: DataSize
    missing: str | None
    existing_bytes: int

    def missing_bytes(self, bins: int) -> int:
        """Bytes that are still to be written for its stores."""
        return max(0, self.size.store_bytes(bins) - self.existing_bytes)


@dataclass(frozen=True)
class Fit:
    """Resources that a preset needs, and whether they are available.

    Attributes:
        name: of the preset.
        reasons: why it does not fit, ``symptom`` with figures and ``cure``; empty if it does.
        cost: None for a model whose cost was never counted.
        memory_gib: system memory.
        hours: of training.
    """

    name: str
    reasons: Sequence[Mapping[str, str]]
    cost: TrainingCost | None = None
    memory_gib: float = 0.0
    hours: float = 0.0


@dataclass(frozen=True)
class Advice:
    """The result of :func:`advise`.

    Attributes:
        lines: as text.
        fits: one for each preset.
        command: the recommended one; None where nothing fits.
    """

    lines: Sequence[str]
    fits: Sequence[Fit]
    command: str | None


def advise(workflow: Workflow, machine: Machine, max_hours: float) -> Advice:
    """Compare the needs of every preset that trains with a machine.

    Args:
        workflow: the configuration.
        machine: to train on.
        max_hours: that a training may take.
    """
    deblurring, gpu = DeblurringWorkflow(workflow), machine.gpu
    free = free_bytes(deblurring.results)
    # A sweep's presets need about what their base does; one that trains nothing needs nothing.
    presets = {
        name: settings
        for name, settings in deblurring.presets.items()
        if name in workflow.presets and settings.kept_start is None
    }
    datasets = {name: deblurring.dataset(name) for name in presets}
    data = {each: find_data(deblurring.results, each) for each in dict.fromkeys(datasets.values())}
    fits = [
        assess(name, settings, data[datasets[name]], machine, free, max_hours)
        for name, settings in presets.items()
    ]
    fits += [Fit(name, [reason("broken")]) for name in workflow.broken]
    batches = dict(batch_advice(workflow, fits, machine))
    on = "no GPU" if gpu is None else f"{gpu.count} x {gpu.name} with {gpu.memory_gib:.0f} GiB"
    lines = [
        f"machine: {on}, {machine.cpus} CPUs, {machine.memory_gib:.0f} GiB of memory",
        f"speed:   {machine.speed}",
        f"disk:    {free / GB:.0f} GB free for results",
    ]
    for dataset, each in data.items():
        takers = (settings for n, settings in presets.items() if datasets[n] == dataset)
        lines += _data_lines(each, dict.fromkeys(one.DATA.NUM_VOXEL_BINS for one in takers))
    if fits:
        lines += ["", *_table(fits, machine)]
    if cures := dict.fromkeys(each["cure"] for fit in fits for each in fit.reasons):
        lines += ["", "where a preset does not fit:", *(f"  {cure}" for cure in cures)]
    if batches:
        lines += ["", "samples of a micro-step, and the learning rate by the square-root rule:"]
        lines += [f"  {name:<14}{text}" for name, text in batches.items()]
    lines.append("")
    if fits:
        lines.append(
            "Memory and hours are estimated from a counted step (docs/presets.md); validation is "
            "not included."
        )
    fitting = {fit.name: data[datasets[fit.name]] for fit in fits if not fit.reasons}
    train = f"snakemake --cores {machine.cpus} train_"
    command, why = recommend(fitting, presets, train)
    if not presets and batches:
        command = f"{train}{shlex.quote(next(iter(batches)))}"
        why = "its batches fit; hours are estimated for the deblurring only"
    if command is None:
        return Advice([*lines, f"nothing to recommend: {why}"], fits, None)
    return Advice([*lines, f"recommended: {command}", f"because {why}"], fits, command)


def find_data(results: Path, dataset: Dataset) -> PresetData:
    """Size of a data set and of its stores; that of GoPro where it is missing."""
    missing: str | None = None
    try:
        size = measure_data(dataset)
    except DataError as error:
        size, missing = GOPRO, str(error).splitlines()[0]
    return PresetData(dataset, size, missing, folder_size(results / "data" / dataset.name)[1])


def assess(
    name: str,
    settings: Settings,
    data: PresetData,
    machine: Machine,
    free: int,
    max_hours: float,
) -> Fit:
    """Whether one preset fits, with all reasons against it.

    Args:
        name: of the preset.
        settings: of the preset.
        data: that it trains on.
        machine: to train on.
        free: bytes for stores and checkpoints.
        max_hours: that a training may take.
    """
    gpu, split = machine.gpu, settings.DATA.TRAIN_SPLIT
    gpus = gpu.count if gpu else 0
    frames = data.size.frames.get(split, GOPRO.frames["train"])
    sequences = data.size.sequences.get(split, GOPRO.sequences["train"])
    if settings.DATA.VALIDATION == "held_out":
        trained = sequences - len(held_out([str(n) for n in range(sequences)]))
        # As if all sequences had the same length.
        frames, sequences = frames * trained // max(1, sequences), trained
    cost = training_cost(name, settings, sequences, frames, gpus)
    if cost is None:
        return Fit(name, [reason("uncounted")])
    memory = _memory_gib(settings, cost, gpus, machine.cpus)
    efficiency = _MULTI_GPU_EFFICIENCY if gpus > 1 else 1.0
    hours = cost.clips * cost.run_tflop / machine.tflops / efficiency / 3600
    disk: float = data.missing_bytes(settings.DATA.NUM_VOXEL_BINS)
    disk += cost.checkpoint_gib(settings.TRAIN.KEEP_LAST) * 2**30
    reasons = _data_reasons(settings, data, cost.steps)
    if gpu is not None and cost.gpu_gib > _USABLE * gpu.memory_gib:
        reasons.append(reason("gpu_memory", needed=cost.gpu_gib, there=gpu.memory_gib))
    if memory > machine.memory_gib:
        reasons.append(reason("memory", needed=memory, there=machine.memory_gib))
    if hours > max_hours:
        reasons.append(reason("hours", most=max_hours))
    if disk > free:
        reasons.append(reason("disk", needed=disk / GB, free=free / GB))
    weights = training_weights(settings).items()
    reasons += [reason("weights", key=k, path=path) for k, path in weights if not path.is_file()]
    return Fit(name, reasons, cost, memory, hours)


def _data_reasons(settings: Settings, data: PresetData, steps: int) -> list[Mapping[str, str]]:
    """Reasons against a preset in its data: frames below its crops, too few clips for its steps."""
    reasons: list[Mapping[str, str]] = []
    height, width = data.size.rgb_size
    crop = largest_crop(settings)
    if crop > min(height, width):
        reasons.append(reason("crop", crop=crop, height=height, width=width))
    if steps < MIN_STEPS and data.dataset.kind != "demo":
        reasons.append(reason("steps", steps=steps, least=MIN_STEPS))
    return reasons


def _memory_gib(settings: Settings, cost: TrainingCost, gpus: int, cpus: int) -> float:
    """System memory of a training: its processes, their workers, and the cache."""
    workers = resolve_workers(settings.DATALOADER, gpus, cpus)
    data = settings.DATA
    cache = data.CACHE_SIZE_GB * GB / 2**30 if data.USE_RAM_CACHE else 0.0
    each = _PROCESS_GIB["cuda" if gpus else "cpu"] + (workers.train + workers.val) * _WORKER_GIB
    return max(1, gpus) * each + cache + (0.0 if gpus else _FLOAT32 * cost.gpu_gib)


def batch_advice(
    workflow: Workflow, fits: Sequence[Fit], machine: Machine
) -> Iterator[tuple[str, str]]:
    """The batches of each preset whose model fits at all, of every problem.

    Args:
        workflow: the configuration.
        fits: presets whose memory was counted before.
        machine: its GPU's memory counts, or its own where it has none.
    """
    usable = _USABLE * (machine.memory_gib if machine.gpu is None else machine.gpu.memory_gib)
    counted = {fit.name: fit.cost.largest for fit in fits if fit.cost is not None}
    trained = {n: each for n, each in workflow.presets.items() if each.kept_start is None}
    for name, settings in trained.items():
        if name in counted:
            cost, times = counted[name], 1.0 if machine.gpu else _FLOAT32
            memory: tuple[float, float] | None = (times * cost.state_gib, times * cost.clip_gib)
        else:
            memory = find_problem(settings.TASK).memory(settings)
        if memory is not None and (text := advise_batch(settings, *memory, usable)):
            yield name, text


def advise_batch(settings: RunSettings, fixed: float, sample: float, usable: float) -> str:
    """The batches of a preset on a device, with keys and values; empty if no sample fits.

    If the samples of a step fit into one micro-step, the batch grows by a power of two, at most by
    :data:`MAX_BATCH_GROWTH`. Otherwise a micro-step takes as many as fit, and accumulation keeps
    the samples of a step.

    Args:
        settings: of the preset.
        fixed: GiB that a training takes by itself.
        sample: GiB for each sample of a micro-step.
        usable: GiB of the device that may be filled.

    >>> train = {"BATCH_SIZE": 16, "GRADIENT_ACCUMULATION_STEPS": 1, "SCALE_LR": "sqrt"}
    >>> advise_batch(RunSettings.model_validate({"TRAIN": train}), 4.0, 0.5, 24.0)
    '40 fit: TRAIN.BATCH_SIZE=32 (TRAIN.SCALE_LR scales the rate)'
    """
    train = settings.TRAIN
    before, rate = train.BATCH_SIZE * train.GRADIENT_ACCUMULATION_STEPS, train.OPTIM.LR
    fits = int((usable - fixed) / sample)
    if fits < 1:
        return ""
    batch, steps, how = before, 1, f", {before} samples a step as before"
    if fits < before:
        batch = max(n for n in range(1, fits + 1) if before % n == 0)
        steps = before // batch
    elif (growth := min(MAX_BATCH_GROWTH, 2 ** int(math.log2(fits / before)))) > 1:
        batch = before * growth
        larger = rate * math.sqrt(growth)
        how = f" TRAIN.OPTIM.LR={larger:.3g} ({rate:g} x sqrt({batch}/{before}))"
        if train.SCALE_LR != "none":
            how = " (TRAIN.SCALE_LR scales the rate)"
    keys = f"TRAIN.BATCH_SIZE={batch}"
    if steps > 1 or train.GRADIENT_ACCUMULATION_STEPS > 1:
        keys += f" TRAIN.GRADIENT_ACCUMULATION_STEPS={steps}"
    return f"{fits} fit: {keys}{how}"


def recommend(
    fitting: Mapping[str, PresetData], presets: Mapping[str, Settings], train: str
) -> tuple[str | None, str]:
    """The command for the best preset that fits, and why.

    Args:
        fitting: the presets that fit, with their data.
        presets: settings by name.
        train: beginning of the command.
    """
    names = [name for name, data in fitting.items() if data.dataset.kind != "demo"]
    if names:
        best = min(names, key=lambda n: (PREFERRED.index(n) if n in PREFERRED else 99, n))
        reason, model = "it fits", presets[best].MODEL
        if fitting[best].missing:
            reason += "; its data are missing, set DATA.ROOT first"
        if model.TYPE == "vrt_spike" and model.VRT.PRETRAINED is None:
            reason += f"; {UNTRAINED_START}"
        return f"{train}{shlex.quote(best)}", reason
    if fitting:
        return "make demo", "only the preset of the generated data fits this machine"
    return None, "no preset fits"


def _data_lines(data: PresetData, bins: Mapping[int, None]) -> Iterator[str]:
    size, dataset = data.size, data.dataset
    if data.missing is not None and dataset.kind != "raw":
        yield f"data:    {dataset.name}: {dataset.root} is generated first"
        return
    missing = "" if data.missing is None else " is not there; the figures are those of GoPro"
    yield f"data:    {dataset.name}: {dataset.root}{missing}"
    parts = [f"{size.frames[s]} frames of {n} sequences in {s}" for s, n in size.sequences.items()]
    height, width = size.rgb_size
    yield f"         {', '.join(parts)}, {height} x {width}"
    for number in bins:
        yield (
            f"         stores of {number} bins need {size.store_bytes(number) / GB:.1f} GB, "
            f"{data.existing_bytes / GB:.1f} GB are there"
        )


def _table(fits: Sequence[Fit], machine: Machine) -> Iterator[str]:
    yield _ROW.format("preset", "GPU memory", "memory", "steps", "hours", "fits")
    for fit in fits:
        cells = ["", "", "", ""]
        if fit.cost is not None:
            gpu = "-" if machine.gpu is None else f"{fit.cost.gpu_gib:.1f} GiB"
            memory = f"{fit.memory_gib:.1f} GiB"
            cells = [gpu, memory, f"{fit.cost.steps:,}", f"{fit.hours:,.2f}"]
        against = "; ".join(each["symptom"] for each in fit.reasons)
        yield _ROW.format(fit.name, *cells, f"no: {against}" if against else "yes")
