"""Which preset fits a machine and its data: memory, hours, disk, and one line to type."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vrtspike.config.workflow import Workflow
from vrtspike.deblurring.costs import TrainingCost, training_cost
from vrtspike.deblurring.data_size import GB, GOPRO, DataSize, measure_data
from vrtspike.deblurring.settings import Settings
from vrtspike.deblurring.videos import Dataset, Videos
from vrtspike.deblurring.weight_files import training_weights
from vrtspike.errors import DataError
from vrtspike.files import folder_bytes
from vrtspike.machine.batches import BatchAdvice, advise_batch
from vrtspike.machine.hardware import Machine, free_bytes
from vrtspike.machine.speed import Speed
from vrtspike.problems import find_problem
from vrtspike.training.workers import resolve_workers

PREFERRED = ("fast", "baseline", "low_memory", "low_ram", "opt", "compact")
"""Which of several presets that fit is recommended: those of the published network first, what
takes memory for speed before what does not."""

_USABLE = 0.95
"""Share of a GPU's memory that a training may fill."""
_PROCESS_GIB = {"cuda": 3.0, "cpu": 1.2}
"""System memory of a training process: estimated with CUDA, measured on a CPU (``demo``)."""
_WORKER_GIB = 0.15
"""Of a loading worker beside the cache: measured (``demo``), what it shares divided."""
_FLOAT32 = 2.0
"""Times the memory of half precision, which the table counts."""


@dataclass(frozen=True)
class DataFound:
    """The data of presets.

    Attributes:
        dataset: where they are.
        size: of it; that of GoPro where it is not there yet.
        missing: why it is not; None if it is.
        store_bytes: that its stores will take, for each number of bins.
        there_bytes: that they take already.
    """

    dataset: Dataset
    size: DataSize
    missing: str | None
    store_bytes: Mapping[int, int]
    there_bytes: int


@dataclass(frozen=True)
class Fit:
    """Whether a preset fits.

    Attributes:
        name: of the preset.
        cost: None for a model that was never counted.
        memory_gib: system memory it needs.
        hours: of training.
        reasons: why it does not fit; empty if it does.
    """

    name: str
    cost: TrainingCost | None
    memory_gib: float
    hours: float | None
    reasons: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class Advice:
    """What is said about a machine.

    Attributes:
        machine: which one.
        speed: of it.
        data: by the name of the data set.
        fits: a preset each.
        free: bytes where results go.
        command: to type; None where nothing fits.
        because: why that.
        batches: by preset, for a device that is known; those that do not fit have none.
    """

    machine: Machine
    speed: Speed
    data: Mapping[str, DataFound]
    fits: Sequence[Fit]
    free: int
    command: str | None
    because: str
    batches: Mapping[str, BatchAdvice] = field(default_factory=dict)


def advise(plan: Workflow, machine: Machine, speed: Speed, most_hours: float) -> Advice:
    """Weigh every preset of a configuration.

    Args:
        plan: the configuration.
        machine: to train on.
        speed: of it.
        most_hours: that a training may take.
    """
    results = Path(plan.settings.RESULTS)
    free = free_bytes(results)
    data: dict[str, DataFound] = {}
    fits = []
    videos = Videos(plan)
    for name, settings in videos.presets.items():
        dataset = videos.dataset(name)
        if dataset.name not in data:
            data[dataset.name] = find_data(videos, dataset)
        found = data[dataset.name]
        fits.append(weigh(name, settings, found, machine, speed, free, most_hours))
    fits += [Fit(name, None, 0.0, None, ("its file is wrong",)) for name in plan.broken]
    command, because = recommend(videos, fits, data, machine)
    batches = dict(batch_advice(plan, fits, machine))
    if not videos.presets and batches:
        command = f"snakemake --cores {machine.cpus} train_{shlex.quote(next(iter(batches)))}"
        because = "its batches fit; hours are estimated for videos only"
    return Advice(machine, speed, data, fits, free, command, because, batches)


def batch_advice(
    plan: Workflow, fits: Sequence[Fit], machine: Machine
) -> Iterator[tuple[str, BatchAdvice]]:
    """The batches of each preset whose model fits at all, of every problem.

    Args:
        plan: the configuration.
        fits: presets whose memory was counted before.
        machine: its GPU's memory counts, or its own where it has none.
    """
    room = _USABLE * (machine.memory_gib if machine.gpu is None else machine.gpu.memory_gib)
    counted = {fit.name: fit.cost.largest for fit in fits if fit.cost is not None}
    for name, settings in plan.presets.items():
        if name in counted:
            cost, times = counted[name], 1.0 if machine.gpu else _FLOAT32
            fixed, sample = cost.peak_gib - cost.kept_gib, cost.kept_gib
            memory: tuple[float, float] | None = (times * fixed, times * sample)
        else:
            memory = find_problem(settings.TASK).memory(settings)
        if memory is not None:
            found = advise_batch(settings, *memory, room)
            if found.fits:
                yield name, found


def find_data(videos: Videos, dataset: Dataset) -> DataFound:
    """What a data set is, or stands in for it; and the stores that are there."""
    missing: str | None = None
    size = GOPRO
    try:
        size = measure_data(dataset)
    except DataError as error:
        missing = str(error).splitlines()[0]
    used = [s for name, s in videos.presets.items() if videos.dataset(name).name == dataset.name]
    bins = {settings.DATA.K: size.store_bytes(settings.DATA.K) for settings in used}
    there = folder_bytes(videos.results / "data" / dataset.name)
    return DataFound(dataset, size, missing, bins, there)


def weigh(
    name: str,
    settings: Settings,
    data: DataFound,
    machine: Machine,
    speed: Speed,
    free: int,
    most_hours: float,
) -> Fit:
    """Whether one preset fits; all reasons against it are found.

    Args:
        name: of the preset.
        settings: of it.
        data: that it trains on.
        machine: to train on.
        speed: of it.
        free: bytes for stores and checkpoints.
        most_hours: that it may take.
    """
    split = settings.DATA.TRAIN_SPLIT
    frames = data.size.frames.get(split, GOPRO.frames["train"])
    sequences = data.size.sequences.get(split, GOPRO.sequences["train"])
    gpus = machine.gpu.count if machine.gpu else 0
    cost = training_cost(name, settings, sequences, frames, gpus)
    if cost is None:
        return Fit(name, None, 0.0, None, ("its model was never counted",))
    memory = system_gib(settings, cost, machine)
    hours = speed.seconds(cost, max(1, gpus)) / 3600
    return Fit(
        name,
        cost,
        memory,
        hours,
        tuple(_reasons(settings, cost, data, machine, memory, hours, free, most_hours)),
    )


def system_gib(settings: Settings, cost: TrainingCost, machine: Machine) -> float:
    """System memory of a training: its processes, their workers, and the cache."""
    gpus = machine.gpu.count if machine.gpu else 0
    workers = resolve_workers(settings.DATALOADER, gpus, machine.cpus)
    data = settings.DATA
    cached = data.USE_RAM_CACHE and data.READER == "tensorstore"
    cache = data.CACHE_SIZE_GB * GB / 2**30 if cached else 0.0
    processes = max(1, gpus) * _PROCESS_GIB["cuda" if gpus else "cpu"]
    computing = 0.0 if gpus else _FLOAT32 * cost.gpu_gib
    loading = max(1, gpus) * (workers.train + workers.val) * _WORKER_GIB
    return processes + computing + loading + cache


def _reasons(
    settings: Settings,
    cost: TrainingCost,
    data: DataFound,
    machine: Machine,
    memory: float,
    hours: float,
    free: int,
    most_hours: float,
) -> Iterator[str]:
    """Why a preset does not fit."""
    gpu = machine.gpu
    if gpu is not None and cost.gpu_gib > _USABLE * gpu.memory_gib:
        yield f"needs {cost.gpu_gib:.0f} of {gpu.memory_gib:.0f} GiB of GPU memory"
    if memory > machine.memory_gib:
        yield f"needs {memory:.0f} of {machine.memory_gib:.0f} GiB of memory"
    if hours > most_hours:
        yield f"takes more than {most_hours:.0f} hours"
    needed = stores_needed(data, settings.DATA.K)
    needed += cost.checkpoint_gib(settings.TRAIN.KEEP_LAST) * 2**30
    if needed > free:
        yield f"needs {needed / GB:.0f} GB of disk, {free / GB:.0f} are free"
    for key, path in training_weights(settings).items():
        if not path.is_file():
            yield f"{key}: {path} is not there"


def stores_needed(data: DataFound, bins: int) -> float:
    """Bytes that the stores of a data set still need."""
    return max(0, data.store_bytes[bins] - data.there_bytes)


def recommend(
    videos: Videos, fits: Sequence[Fit], data: Mapping[str, DataFound], machine: Machine
) -> tuple[str | None, str]:
    """The command for the best preset that fits, and why."""
    names = [f.name for f in fits if not f.reasons and videos.dataset(f.name).kind != "demo"]
    names.sort(key=lambda n: (PREFERRED.index(n) if n in PREFERRED else len(PREFERRED), n))
    if names:
        others = f" ({', '.join(names[1:])} would fit, too)" if len(names) > 1 else ""
        dataset = videos.dataset(names[0]).name
        first = "; set DATA.ROOT first, there are no data yet" if data[dataset].missing else ""
        command = f"snakemake --cores {machine.cpus} train_{shlex.quote(names[0])}"
        return command, f"it fits{others}{first}"
    if any(not fit.reasons for fit in fits):
        return "make demo", "of the presets only the generated data's fits this machine"
    return None, "no preset fits"
