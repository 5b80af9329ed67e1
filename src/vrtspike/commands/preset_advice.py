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
from pathlib import Path

from vrtspike.commands.hardware import Machine, Speed, free_bytes
from vrtspike.config.problems import find_problem
from vrtspike.config.run_schema import RunSettings
from vrtspike.config.workflow import Workflow
from vrtspike.deblurring.costs import TrainingCost, training_cost
from vrtspike.deblurring.data.clips.dataset import held_out
from vrtspike.deblurring.data_size import GB, GOPRO, DataSize, measure_data
from vrtspike.deblurring.datasets import Dataset, DeblurringWorkflow
from vrtspike.deblurring.problem import training_weights
from vrtspike.deblurring.settings import Settings
from vrtspike.errors import DataError
from vrtspike.io.files import folder_size
from vrtspike.training.workers import resolve_workers

PREFERRED = ("fast", "baseline", "low_memory", "low_ram", "opt", "compact", "light")
"""Order in which presets that fit are recommended: the published network first, the faster before
the more economical; the light model last."""

UNTRAINED_START = (
    "it trains from random weights, for comparisons and timing; for the best figures start from "
    "VRT's weights (reproduce, docs/training.md)"
)
VRT_NOTE = "VRT-Spike (reproduce) also uses neighbouring frames, but trains for days"
_USABLE = 0.9
"""Share of a GPU's memory that a training may fill."""
_PROCESS_GIB = {"cuda": 3.0, "cpu": 1.2}
"""System memory of a training process: estimated with CUDA, measured on a CPU (``demo``)."""
_WORKER_GIB = 0.15
"""PSS of a data loading worker without the cache: measured (``demo``)."""
_FLOAT32 = 2.0
"""Memory of float32 relative to half precision, which the table counts."""
MAX_BATCH_GROWTH = 4
"""Largest factor on the samples of a step; beyond it a run would have too few steps."""


@dataclass(frozen=True)
class PresetData:
    """The data of presets.

    Attributes:
        dataset: its paths.
        size: number and size of its frames; those of GoPro where the data are missing.
        missing: why the data are missing; None if they are there.
        store_bytes: size of its finished stores, by number of bins.
        existing_bytes: size of the stores that exist.
    """

    dataset: Dataset
    size: DataSize
    missing: str | None
    store_bytes: Mapping[int, int]
    existing_bytes: int

    def missing_bytes(self, bins: int) -> int:
        """Bytes that are still to be written for its stores."""
        return max(0, self.store_bytes[bins] - self.existing_bytes)


@dataclass(frozen=True)
class Fit:
    """Resources that a preset needs, and whether they are available.

    Attributes:
        name: of the preset.
        cost: None for a model whose cost was never counted.
        memory_gib: system memory.
        hours: of training.
        reasons: why it does not fit; empty if it does.
    """

    name: str
    cost: TrainingCost | None
    memory_gib: float
    hours: float | None
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Advice:
    """The result of :func:`advise`.

    Attributes:
        budget: that was available.
        data: by the name of the data set.
        fits: one for each preset.
        command: the recommended one; None where nothing fits.
        reason: why it is recommended.
        batches: batches that fit, by preset, from :func:`advise_batch`.
    """

    budget: Budget
    data: Mapping[str, PresetData]
    fits: Sequence[Fit]
    command: str | None
    reason: str
    batches: Mapping[str, str]


def advise(workflow: Workflow, machine: Machine, speed: Speed, max_hours: float) -> Advice:
    """Compare the needs of every preset with a machine.

    Args:
        workflow: the configuration.
        machine: to train on.
        speed: of the machine.
        max_hours: that a training may take.
    """
    budget = Budget(machine, speed, free_bytes(Path(workflow.settings.RESULTS)), max_hours)
    data: dict[str, PresetData] = {}
    fits = []
    deblurring = DeblurringWorkflow(workflow)
    for name, settings in deblurring.presets.items():
        if name not in workflow.presets:
            continue  # a sweep's presets need about what their base does
        dataset = deblurring.dataset(name)
        if dataset.name not in data:
            data[dataset.name] = find_data(deblurring, dataset)
        fits.append(budget.assess(name, settings, data[dataset.name]))
    fits += [Fit(name, None, 0.0, None, ("its file is wrong",)) for name in workflow.broken]
    command, reason = recommend(deblurring, fits, data, machine)
    batches = dict(batch_advice(workflow, fits, machine))
    if not deblurring.presets and batches:
        command = f"snakemake --cores {machine.cpus} train_{shlex.quote(next(iter(batches)))}"
        reason = "its batches fit; hours are estimated for the deblurring only"
    return Advice(budget, data, fits, command, reason, batches)


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
    for name, settings in workflow.presets.items():
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
    keys = f"TRAIN.BATCH_SIZE={batch}"
    if steps > 1 or train.GRADIENT_ACCUMULATION_STEPS > 1:
        keys += f" TRAIN.GRADIENT_ACCUMULATION_STEPS={steps}"
    return f"{fits} fit: {keys}{how}"


def find_data(deblurring: DeblurringWorkflow, dataset: Dataset) -> PresetData:
    """Size of a data set and of its stores; that of GoPro where it is missing."""
    missing: str | None = None
    try:
        size = measure_data(dataset)
    except DataError as error:
        size, missing = GOPRO, str(error).splitlines()[0]
    numbers = [
        settings.DATA.NUM_VOXEL_BINS
        for name, settings in deblurring.presets.items()
        if deblurring.dataset(name).name == dataset.name
    ]
    bins = {number: size.store_bytes(number) for number in numbers}
    there = folder_size(deblurring.results / "data" / dataset.name)[1]
    return PresetData(dataset, size, missing, bins, there)


@dataclass(frozen=True)
class Budget:
    """Resources available for a training.

    Attributes:
        machine: to train on.
        speed: of the machine.
        free: bytes for stores and checkpoints.
        max_hours: that a training may take.
    """

    machine: Machine
    speed: Speed
    free: int
    max_hours: float

    @property
    def gpus(self) -> int:
        """How many GPUs; 0 for a training on the CPU."""
        return self.machine.gpu.count if self.machine.gpu else 0

    def assess(self, name: str, settings: Settings, data: PresetData) -> Fit:
        """Whether one preset fits, with all reasons against it."""
        split = settings.DATA.TRAIN_SPLIT
        frames = data.size.frames.get(split, GOPRO.frames["train"])
        sequences = data.size.sequences.get(split, GOPRO.sequences["train"])
        if settings.DATA.VALIDATION == "held_out":
            trained = sequences - len(held_out([str(n) for n in range(sequences)]))
            # As if all sequences had the same length.
            frames, sequences = frames * trained // max(1, sequences), trained
        cost = training_cost(name, settings, sequences, frames, self.gpus)
        if cost is None:
            return Fit(name, None, 0.0, None, ("the cost of its model was never counted",))
        memory = self._memory_gib(settings, cost)
        hours = self.speed.seconds(cost, max(1, self.gpus)) / 3600
        disk: float = data.missing_bytes(settings.DATA.NUM_VOXEL_BINS)
        disk += cost.checkpoint_gib(settings.TRAIN.KEEP_LAST) * 2**30
        weights = training_weights(settings).items()
        missing = [f"{key}: {path} is not there" for key, path in weights if not path.is_file()]
        reasons = (*self._shortages(cost, memory, hours, disk), *missing)
        return Fit(name, cost, memory, hours, reasons)

    def _memory_gib(self, settings: Settings, cost: TrainingCost) -> float:
        """System memory of a training: its processes, their workers, and the cache."""
        workers = resolve_workers(settings.DATALOADER, self.gpus, self.machine.cpus)
        data, processes = settings.DATA, max(1, self.gpus)
        cache = data.CACHE_SIZE_GB * GB / 2**30 if data.USE_RAM_CACHE else 0.0
        each = _PROCESS_GIB["cuda" if self.gpus else "cpu"]
        each += (workers.train + workers.val) * _WORKER_GIB
        return processes * each + cache + (0.0 if self.gpus else _FLOAT32 * cost.gpu_gib)

    def _shortages(
        self, cost: TrainingCost, memory: float, hours: float, disk: float
    ) -> Iterator[str]:
        gpu, here = self.machine.gpu, self.machine.memory_gib
        if gpu is not None and cost.gpu_gib > _USABLE * gpu.memory_gib:
            yield f"needs {cost.gpu_gib:.0f} of {gpu.memory_gib:.0f} GiB of GPU memory"
        if memory > here:
            yield f"needs {memory:.0f} of {here:.0f} GiB of memory"
        if hours > self.max_hours:
            yield f"takes more than {self.max_hours:.0f} hours"
        if disk > self.free:
            yield f"needs {disk / GB:.0f} GB of disk, {self.free / GB:.0f} are free"


def recommend(
    deblurring: DeblurringWorkflow,
    fits: Sequence[Fit],
    data: Mapping[str, PresetData],
    machine: Machine,
) -> tuple[str | None, str]:
    """The command for the best preset that fits, and why."""
    names = [f.name for f in fits if not f.reasons and deblurring.dataset(f.name).kind != "demo"]
    names.sort(key=lambda n: (PREFERRED.index(n) if n in PREFERRED else len(PREFERRED), n))
    if names:
        others = f" ({', '.join(names[1:])} would fit, too)" if len(names) > 1 else ""
        dataset = deblurring.dataset(names[0]).name
        first = "; its data are missing, set DATA.ROOT first" if data[dataset].missing else ""
        model = deblurring.preset(names[0]).MODEL
        if model.TYPE != "vrt_spike":
            first += f"; {VRT_NOTE}"
        elif model.VRT.PRETRAINED is None:
            first += f"; {UNTRAINED_START}"
        command = f"snakemake --cores {machine.cpus} train_{shlex.quote(names[0])}"
        return command, f"it fits{others}{first}"
    if any(not fit.reasons for fit in fits):
        return "make demo", "only the preset of the generated data fits this machine"
    return None, "no preset fits"


def advice_lines(advice: Advice) -> list[str]:
    """The advice as lines of text."""
    budget, machine = advice.budget, advice.budget.machine
    gpu = machine.gpu
    on = "no GPU" if gpu is None else f"{gpu.count} x {gpu.name} with {gpu.memory_gib:.0f} GiB"
    lines = [
        f"machine: {on}, {machine.cpus} CPUs, {machine.memory_gib:.0f} GiB of memory",
        f"speed:   {budget.speed.source}",
        f"disk:    {budget.free / GB:.0f} GB free for results",
    ]
    for name, data in advice.data.items():
        lines += _data_lines(name, data)
    if advice.fits:
        lines += ["", *_table(advice)]
    if advice.batches:
        lines += ["", "samples of a micro-step, and the learning rate by the square-root rule:"]
        lines += [f"  {name:<14}{text}" for name, text in advice.batches.items()]
    lines.append("")
    if advice.fits:
        lines.append(
            "Memory and hours are estimated from a counted step (docs/presets.md); validation is "
            "not included."
        )
    if advice.command is None:
        return [*lines, f"nothing to recommend: {advice.reason}"]
    return [*lines, f"recommended: {advice.command}", f"because {advice.reason}"]


def _data_lines(name: str, data: PresetData) -> Iterator[str]:
    size = data.size
    parts = [f"{size.frames[s]} frames of {n} sequences in {s}" for s, n in size.sequences.items()]
    height, width = size.rgb_size
    if data.missing is not None and data.dataset.kind != "raw":
        yield f"data:    {name}: {data.dataset.root} is generated first"
        return
    missing = "" if data.missing is None else " is not there; the figures are those of GoPro"
    yield f"data:    {name}: {data.dataset.root}{missing}"
    yield f"         {', '.join(parts)}, {height} x {width}"
    if size.faults:
        yield f"         {len(size.faults)} with faults are left out (vrtspike doctor)"
    for bins, needed in data.store_bytes.items():
        yield (
            f"         stores of {bins} bins need {needed / GB:.1f} GB, "
            f"{data.existing_bytes / GB:.1f} GB are there"
        )


def _table(advice: Advice) -> Iterator[str]:
    row = "{:<14} {:>11} {:>11} {:>11} {:>11}   {}"
    yield row.format("preset", "GPU memory", "memory", "steps", "hours", "fits")
    for fit in advice.fits:
        cells = ["", "", "", ""]
        if fit.cost is not None and fit.hours is not None:
            gpu = "-" if advice.budget.machine.gpu is None else f"{fit.cost.gpu_gib:.1f} GiB"
            memory = f"{fit.memory_gib:.1f} GiB"
            cells = [gpu, memory, f"{fit.cost.steps:,}", f"{fit.hours:,.2f}"]
        fits = f"no: {'; '.join(fit.reasons)}" if fit.reasons else "yes"
        yield row.format(fit.name, *cells, fits)
