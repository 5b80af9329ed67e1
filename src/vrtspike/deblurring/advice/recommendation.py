"""Recommendation of a preset for a machine and its data, with the command that trains it."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial

from vrtspike.config.loading import override_settings
from vrtspike.config.workflow import WorkflowConfig
from vrtspike.config.yaml_documents import parse_overrides
from vrtspike.data.data_size import GB
from vrtspike.deblurring.advice.batch_sizes import batch_advice, micro_batch_keys
from vrtspike.deblurring.advice.hardware import Machine
from vrtspike.deblurring.advice.resources import BROKEN, PresetData, PresetFit, assess, find_data
from vrtspike.deblurring.planning.deblurring_config import DeblurringConfig
from vrtspike.deblurring_settings import DeblurringSettings, require_deblurring_settings
from vrtspike.deblurring_settings.stores import StoreOptions
from vrtspike.io.flatten import ABSENT
from vrtspike.system.home import DEMO_COMMAND
from vrtspike.system.user_environment import free_bytes

PREFERRED = ("light", "light_small", "finetune")
"""Presets to train a model for use, in the order in which they are recommended."""

COMPARISONS = (
    "baseline",
    "fast",
    "low_memory",
    "low_ram",
    "opt",
    "compact",
    "reproduce",
    "light_spk",
)
"""Presets for comparisons, with each other or with published results; listed, but never
recommended."""

BUNDLED_DATA = ("demo", "general")
"""Kinds of data that are generated for presets of the project alone."""

_ROW = "{:<14} {:>11} {:>11} {:>11} {:>11}   {}"
_METHOD = (
    "Memory and hours are estimated from a counted step (docs/presets.md); validation is not "
    "included."
)


@dataclass(frozen=True)
class MachineAdvice:
    """The result of :func:`advise_on_machine`.

    Attributes:
        lines: the advice as text.
        fits: one for each preset.
        command: the recommended command; None if nothing fits.
    """

    lines: Sequence[str]
    fits: Sequence[PresetFit]
    command: str | None


def advise_on_machine(
    workflow: WorkflowConfig, machine: Machine, max_hours: float
) -> MachineAdvice:
    """Compare the needs of every preset that trains with a machine.

    Args:
        workflow: configuration with the presets.
        machine: the machine to train on.
        max_hours: largest duration of a training.
    """
    deblurring = DeblurringConfig(workflow)
    free = free_bytes(deblurring.results)
    # Presets of a sweep are left out: they need about as much as their base.
    presets = {
        name: settings
        for name, settings in deblurring.presets.items()
        if name in workflow.presets and settings.unchanged_weights is None
    }
    measured = cache(partial(find_data, deblurring.results))
    data = {name: measured(deblurring.data_source(name)) for name in presets}

    def fit_of(name: str, settings: DeblurringSettings) -> PresetFit:
        return assess(name, settings, data[name], machine, free, max_hours)

    fits = [fit_of(name, settings) for name, settings in presets.items()]
    keys: dict[str, str] = {}
    for fit in fits:
        batch = fitting_micro_batch(fit, presets[fit.name], machine, fit_of)
        if batch is not None:
            keys[fit.name] = batch
    fits += [PresetFit(name, [BROKEN]) for name in workflow.broken]
    batches = dict(batch_advice(workflow, fits, machine))
    lines = [
        *_machine_lines(machine, free),
        *_datasets_lines(presets, data),
        *_table(fits, machine),
        *_cure_lines(fits),
        *_batch_lines(batches),
        "",
    ]
    if fits:
        lines.append(_METHOD)
    train = f"snakemake --cores {machine.cpus} train_"
    command, cause = recommend(keys, data, train)
    if not presets and batches:
        command = f"{train}{shlex.quote(next(iter(batches)))}"
        cause = "its batches fit; hours are estimated for deblurring only"
    if command is None:
        return MachineAdvice([*lines, f"nothing to recommend: {cause}"], fits, None)
    return MachineAdvice([*lines, f"recommended: {command}", f"because {cause}"], fits, command)


def fitting_micro_batch(
    fit: PresetFit,
    settings: DeblurringSettings,
    machine: Machine,
    fit_of: Callable[[str, DeblurringSettings], PresetFit],
) -> str | None:
    """Return the keys of smaller micro-batches with which a preset fits.

    Args:
        fit: the preset as it is.
        settings: settings of the preset.
        machine: the machine to train on.
        fit_of: function that assesses a preset with other settings.

    Returns:
        keys; empty if the preset fits as it is, None if no micro-batch fits.
    """
    if not fit.reasons:
        return ""
    if fit.cost is None:
        return None
    keys = micro_batch_keys(settings, fit.cost, machine)
    changed = override_settings(settings, parse_overrides(keys.split(), fit.name), fit.name)
    again = fit_of(fit.name, require_deblurring_settings(changed, fit.name))
    return None if again.reasons else keys


def recommend(
    keys: Mapping[str, str], data: Mapping[str, PresetData], train: str
) -> tuple[str | None, str]:
    """Return the command for the best preset that fits, and the reason.

    Args:
        keys: keys of smaller micro-batches by the name of each preset that fits; empty keys for one
            that fits as it is.
        data: data by the name of the preset.
        train: start of the command.
    """
    useful = [name for name in keys if name not in COMPARISONS]
    names = [name for name in useful if data[name].data_source.kind not in BUNDLED_DATA]
    if names:
        best = min(names, key=_preference)
        command = f"{train}{shlex.quote(best)}"
        cause = "it fits"
        if keys[best]:
            command += f' --config SET="{keys[best]}"'
            cause += " with these micro-batches; repeat --config in later commands"
        if data[best].missing:
            cause += "; its data are missing, set DATA.ROOT first"
        return command, cause
    if any(data[name].data_source.kind == "demo" for name in useful):
        return DEMO_COMMAND, "only the preset of the generated data fits this machine"
    if keys:
        return None, f"what fits is not for a first model: {', '.join(keys)} (README.md#presets)"
    return None, "no preset fits"


def _preference(name: str) -> tuple[int, str]:
    """Return the sorting key of presets, see :data:`PREFERRED`; others come last."""
    rank = PREFERRED.index(name) if name in PREFERRED else len(PREFERRED)
    return rank, name


def _machine_lines(machine: Machine, free: int) -> Iterator[str]:
    """Yield lines about the machine and its disk.

    Args:
        machine: GPUs, CPUs and memory.
        free: free bytes of the disk.
    """
    gpu = machine.gpu
    device = "no GPU"
    if gpu is not None:
        device = f"{gpu.count} x {gpu.name} with {gpu.memory_gib:.0f} GiB"
    yield f"machine: {device}, {machine.cpus} CPUs, {machine.memory_gib:.0f} GiB of memory"
    yield f"speed:   {machine.speed_description}"
    yield f"disk:    {free / GB:.0f} GB free for results"


def _datasets_lines(
    presets: Mapping[str, DeblurringSettings], data: Mapping[str, PresetData]
) -> Iterator[str]:
    """Yield lines about the data sets of all presets.

    Args:
        presets: settings by name.
        data: data by name.
    """
    stores: dict[str, dict[StoreOptions, None]] = {}
    sizes = {}
    for name, settings in presets.items():
        dataset = data[name].data_source.name
        sizes[dataset] = data[name]
        stores.setdefault(dataset, {})[StoreOptions.from_settings(settings.DATA)] = None
    for dataset, size in sizes.items():
        yield from _data_lines(size, stores[dataset])


def _data_lines(data: PresetData, stores: Iterable[StoreOptions]) -> Iterator[str]:
    """Yield lines about a data set.

    Args:
        data: paths and size of a data set.
        stores: options of its stores.
    """
    size = data.size
    dataset = data.data_source
    if data.missing is not None and dataset.kind != "raw":
        yield f"data:    {dataset.name}: {dataset.root} is generated first"
        return
    missing = "" if data.missing is None else " is not there; the numbers are those of GoPro"
    yield f"data:    {dataset.name}: {dataset.root}{missing}"
    parts = [
        f"{size.frames[split]} frames of {count} sequences in {split}"
        for split, count in size.sequences.items()
    ]
    height, width = size.rgb_size
    yield f"         {', '.join(parts)}, {height} x {width}"
    for options in stores:
        yield (
            f"         stores of {options.bins} bins need {size.store_bytes(options) / GB:.1f} GB, "
            f"{data.existing_bytes(options) / GB:.1f} GB are there"
        )


def _table(fits: Sequence[PresetFit], machine: Machine) -> Iterator[str]:
    """Yield rows with the resources of each preset, after an empty line."""
    if not fits:
        return
    yield ""
    yield _ROW.format("preset", "GPU memory", "memory", "steps", "hours", "fits")
    for fit in fits:
        cells = [ABSENT] * 4
        if fit.cost is not None:
            gpu = ABSENT if machine.gpu is None else f"{fit.cost.gpu_gib:.1f} GiB"
            memory = f"{fit.memory_gib:.1f} GiB"
            cells = [gpu, memory, f"{fit.cost.steps:,}", f"{fit.hours:,.2f}"]
        symptoms = "; ".join(reason.symptom for reason in fit.reasons)
        yield _ROW.format(fit.name, *cells, f"no: {symptoms}" if symptoms else "yes")


def _cure_lines(fits: Sequence[PresetFit]) -> list[str]:
    """Return lines with the cures of presets that do not fit, each once."""
    cures = dict.fromkeys(reason.cure for fit in fits for reason in fit.reasons)
    if not cures:
        return []
    return ["", "where a preset does not fit:", *(f"  {cure}" for cure in cures)]


def _batch_lines(batches: Mapping[str, str]) -> list[str]:
    """Return lines with the batches of each preset."""
    if not batches:
        return []
    title = "samples of a micro-step, and the learning rate by the square-root rule:"
    return ["", title, *(f"  {name:<15}{text}" for name, text in batches.items())]
