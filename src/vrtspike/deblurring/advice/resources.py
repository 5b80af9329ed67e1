"""Resources that a preset needs, against those of a machine: memory, hours, disk, data, weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vrtspike.data.clips.merging import held_out
from vrtspike.data.clips.requirements import largest_crop
from vrtspike.data.data_size import GB, GOPRO, DataSize, measure_data
from vrtspike.data.data_source import DataSource
from vrtspike.deblurring.advice.hardware import Machine
from vrtspike.deblurring.task import training_weights
from vrtspike.deblurring.training_cost import TrainingCost, training_cost
from vrtspike.deblurring_settings import DeblurringSettings
from vrtspike.deblurring_settings.stores import StoreOptions
from vrtspike.io.files import folder_size
from vrtspike.system.errors import DataError
from vrtspike.training.workers import resolve_worker_counts

FLOAT32 = 2.0
"""Memory of clips in float32 relative to half precision, which the table counts; the state of a
training is in float32 everywhere."""
MIN_STEPS = 1000
"""Minimum number of optimiser steps of a useful training, except for presets of generated data."""
_MULTI_GPU_EFFICIENCY = 0.9
"""Parallel efficiency of several GPUs: an assumption."""
_PROCESS_GIB = {"cuda": 3.0, "cpu": 1.2}
"""System memory of a training process: estimated with CUDA, measured on a CPU (``demo``)."""
_WORKER_GIB = 0.15
"""Measured PSS of a data loading worker without the cache (``demo``)."""


@dataclass(frozen=True)
class Reason:
    """A reason why a preset does not fit.

    Attributes:
        symptom: the fault, with counted and measured values.
        cure: changes that help.
    """

    symptom: str
    cure: str


BROKEN = Reason("its file is wrong", "file: vrtspike doctor says what is wrong in it")
"""Reason to reject a preset whose file cannot be read."""


@dataclass(frozen=True)
class PresetData:
    """The data of a preset.

    Attributes:
        data_source: paths of the data set.
        size: number and size of its frames; those of GoPro if the data are missing.
        missing: why the data are missing; None if they exist.
        stored_bytes: size of the stores that exist, by their number of bins.
    """

    data_source: DataSource
    size: DataSize
    missing: str | None
    stored_bytes: Mapping[int, int]

    def existing_bytes(self, options: StoreOptions) -> int:
        """Return the bytes of stores that exist."""
        return self.stored_bytes.get(options.bins, 0)

    def missing_bytes(self, options: StoreOptions) -> int:
        """Return the bytes of stores that are still to be written."""
        return max(0, self.size.store_bytes(options) - self.existing_bytes(options))


@dataclass(frozen=True)
class PresetFit:
    """Resources that a preset needs, and the reasons why it does not fit.

    Attributes:
        name: name of the preset.
        reasons: reasons why it does not fit; empty if it does.
        cost: cost of the training; None for a model whose cost was never counted.
        memory_gib: system memory of the training.
        hours: duration of the training.
    """

    name: str
    reasons: Sequence[Reason]
    cost: TrainingCost | None = None
    memory_gib: float = 0.0
    hours: float = 0.0


def find_data(results: Path, data_source: DataSource) -> PresetData:
    """Measure a data set and its stores; missing data count as those of GoPro.

    Args:
        results: folder of all results.
        data_source: paths of the data set.
    """
    missing: str | None = None
    try:
        size = measure_data(data_source)
    except DataError as error:
        size = GOPRO
        missing = str(error).splitlines()[0]
    return PresetData(
        data_source, size, missing, _stored_bytes(results / "data" / data_source.name)
    )


def _stored_bytes(folder: Path) -> dict[int, int]:
    """Measure the stores in the folder of a data set, ``k<bins>``, by their number of bins."""
    sizes = {}
    for path in folder.glob("k*"):
        bins = path.name.removeprefix("k")
        if bins.isdigit():
            _, sizes[int(bins)] = folder_size(path)
    return sizes


def assess(
    name: str,
    settings: DeblurringSettings,
    data: PresetData,
    machine: Machine,
    free: int,
    max_hours: float,
) -> PresetFit:
    """Assess whether a preset fits, and list all reasons why not.

    Args:
        name: name of the preset.
        settings: settings of the preset.
        data: data of the preset.
        machine: the machine to train on.
        free: bytes of disk for stores and checkpoints.
        max_hours: largest duration of a training.
    """
    sequences, frames = _training_size(settings, data)
    cost = training_cost(name, settings, sequences, frames, machine.gpu_count)
    if cost is None:
        uncounted = Reason(
            "the cost of its model has not been counted",
            "cost: a run with TRAIN.MAX_STEPS=20 and vrtspike analyze show memory and speed",
        )
        return PresetFit(name, [uncounted])
    memory = _memory_gib(settings, cost, machine)
    hours = training_hours(cost, machine, cost.batch)
    stores = data.missing_bytes(StoreOptions.from_settings(settings.DATA))
    disk = stores + cost.checkpoint_gib(settings.TRAIN.KEEP_LAST) * 2**30
    reasons = [
        *_data_reasons(settings, data, cost.steps),
        *_memory_reasons(cost, memory, machine),
    ]
    if hours > max_hours:
        symptom = f"takes more than {max_hours:.0f} hours"
        cure = (
            "hours: more GPUs, the preset light or light_small, fewer TRAIN.EPOCHS, or a larger "
            "--hours"
        )
        reasons.append(Reason(symptom, cure))
    if disk > free:
        symptom = f"needs {disk / GB:.0f} GB of disk, {free / GB:.0f} are free"
        reasons.append(Reason(symptom, "disk: free space, or set RESULTS to another disk"))
    reasons += _missing_weights(settings)
    return PresetFit(name, reasons, cost, memory, hours)


def _missing_weights(settings: DeblurringSettings) -> Iterator[Reason]:
    """Yield a reason for each missing file of weights that a training needs."""
    for key, path in training_weights(settings).items():
        if not path.is_file():
            yield Reason(
                f"{key}: {path} is not there",
                "weights: snakemake --cores 1 weights, or by hand (docs/training.md); "
                "MODEL.PRETRAINED accepts any trained model",
            )


def training_hours(cost: TrainingCost, machine: Machine, batch: int) -> float:
    """Predict the hours of a training with ``batch`` clips a micro-step."""
    seconds = machine.step_speed.seconds(
        operations=cost.clips / batch * cost.largest.operations,
        moved_tb=cost.clips * cost.moved_tb,
        tflop=cost.clips * cost.run_tflop,
    )
    efficiency = _MULTI_GPU_EFFICIENCY if machine.gpu_count > 1 else 1.0
    return seconds / efficiency / 3600


def _training_size(settings: DeblurringSettings, data: PresetData) -> tuple[int, int]:
    """Count sequences and blurry frames of a training; those of GoPro for an unknown split."""
    split = settings.DATA.TRAIN_SPLIT
    frames = data.size.frames.get(split, GOPRO.frames["train"])
    sequences = data.size.sequences.get(split, GOPRO.sequences["train"])
    if settings.DATA.VALIDATION != "held_out":
        return sequences, frames
    trained = sequences - len(held_out([str(index) for index in range(sequences)]))
    # The estimate assumes sequences of equal length.
    return trained, frames * trained // max(1, sequences)


def _data_reasons(settings: DeblurringSettings, data: PresetData, steps: int) -> list[Reason]:
    """Return reasons why a preset does not fit its data: small frames, too few clips."""
    reasons = []
    height, width = data.size.rgb_size
    crop = largest_crop(settings)
    if crop > min(height, width):
        symptom = f"its crops of {crop} x {crop} do not fit into frames of {height} x {width}"
        cure = "crops: a smaller DATA.CROP_SIZE, or light_small (96 x 96)"
        reasons.append(Reason(symptom, cure))
    if steps < MIN_STEPS and data.data_source.kind != "demo":
        symptom = f"makes {steps:,} steps of these clips, fewer than {MIN_STEPS:,}"
        cure = "steps: more TRAIN.EPOCHS, or light_small, which is made for small data sets"
        reasons.append(Reason(symptom, cure))
    return reasons


def _memory_reasons(cost: TrainingCost, memory_gib: float, machine: Machine) -> list[Reason]:
    """Return the reasons why a preset does not fit the memory of GPU and system."""
    reasons = []
    gpu = machine.gpu
    if gpu is not None and cost.gpu_gib > machine.usable_gib:
        symptom = f"needs {cost.gpu_gib:.0f} of {gpu.memory_gib:.0f} GiB of GPU memory"
        cure = (
            "GPU memory: lower TRAIN.BATCH_SIZE, if above 1, or DATA.CROP_SIZE; for VRT-Spike, set "
            "both MODEL.VRT.USE_CHECKPOINT_ keys, if off"
        )
        reasons.append(Reason(symptom, cure))
    if memory_gib > machine.memory_gib:
        symptom = f"needs {memory_gib:.0f} of {machine.memory_gib:.0f} GiB of memory"
        cure = "memory: lower DATA.CACHE_SIZE_GB and DATALOADER.TOTAL_WORKERS"
        reasons.append(Reason(symptom, cure))
    return reasons


def _memory_gib(settings: DeblurringSettings, cost: TrainingCost, machine: Machine) -> float:
    """Return the system memory of a training: its processes, their workers, and the cache."""
    gpus = machine.gpu_count
    workers = resolve_worker_counts(settings.DATALOADER, gpus, machine.cpus)
    process = _PROCESS_GIB["cuda" if gpus else "cpu"]
    process += (workers.train + workers.val) * _WORKER_GIB
    memory = max(1, gpus) * process
    if settings.DATA.USE_RAM_CACHE:
        memory += settings.DATA.CACHE_SIZE_GB * GB / 2**30
    if not gpus:
        memory += cost.largest.state_gib + FLOAT32 * cost.batch * cost.largest.clip_gib
    return memory
