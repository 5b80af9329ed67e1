"""``vrtspike doctor``: checks of the machine and of the project."""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from vrtspike.analysis.findings import advice_texts
from vrtspike.commands.hardware import GpuKind, find_gpus
from vrtspike.commands.preset_advice import PresetData, find_data
from vrtspike.config.problems import find_problem
from vrtspike.config.run_schema import RunSettings
from vrtspike.config.workflow import Workflow, read_workflow
from vrtspike.data.data_size import GB
from vrtspike.data.datasets import Dataset, DeblurringWorkflow
from vrtspike.io.locks import lock_file
from vrtspike.io.pretrained import PUBLISHED, verify_weights
from vrtspike.monitoring.nvml import driver_version
from vrtspike.monitoring.process_memory import system_memory
from vrtspike.runs.names import WEIGHTS
from vrtspike.settings import Settings
from vrtspike.system.errors import DataError, UserError, named_faults
from vrtspike.system.surroundings import environment_faults, free_bytes, nearest_existing

State = Literal["ok", "note", "missing", "broken"]
_MARKS: dict[State, str] = {"ok": "✓", "note": "·", "missing": "○", "broken": "✗"}

MACHINE, PRESETS = "every command, make demo too", "your presets (PRESETS)"
"""Titles of groups of checks: what they are needed for."""

_LITTLE_DISK = 2 * GB
_LITTLE_SHARED_MB = 1024
_PROGRAM = "#include <Python.h>\nint main(void) { return Py_IsInitialized(); }\n"


@dataclass(frozen=True)
class Check:
    """The result of a check.

    Attributes:
        name: of the check.
        state: ``note``: information; ``missing``: must be provided or downloaded.
        found: what was found.
        cure: what to do; may be empty.
    """

    name: str
    state: State
    found: str
    cure: str = ""


def fault(symptom: str, found: str, state: State = "broken", **values: object) -> Check:
    """The result of a check that failed.

    Args:
        symptom: name in the section ``machine`` of ``advice.yaml``.
        found: what was found.
        state: of the result.
        values: for the texts of ``advice.yaml``.
    """
    entry = advice_texts("machine", symptom, **values)
    return Check(entry["check"], state, found, entry["cure"])


def all_checks(configfiles: Sequence[Path], overrides: Sequence[str]) -> Iterator[Check | str]:
    """The checks of machine and project, each group after its title.

    Outside of a project's folder only the machine is checked.
    """
    yield MACHINE
    gpu = find_gpus()
    yield Check("Python", "ok", f"{platform.python_version()} ({sys.executable})")
    yield packages_check()
    yield from torch_checks(gpu)
    if gpu is not None:
        yield compiler_check()
    yield from which_check()
    for reason in environment_faults():
        yield fault("surroundings", reason)
    yield shared_memory_check()
    if Path("config/config.yaml").is_file() or configfiles:
        yield from project_checks(configfiles, overrides)
    else:
        yield Check(
            "project",
            "note",
            f"{Path.cwd()} is not the project's folder: configuration, data and weights are not "
            "checked",
        )


def show_checks(checks: Iterator[Check | str], show: Callable[[str], None]) -> bool:
    """Show every result, and what is ready at the end; returns whether nothing is broken."""
    title = MACHINE
    found: list[tuple[str, Check]] = []
    for check in checks:
        if isinstance(check, str):
            title = check
            show(f"{title}:")
            continue
        found.append((title, check))
        show(f"{_MARKS[check.state]} {check.name}: {check.found}")
        if check.cure:
            show(f"    -> {check.cure}")
    broken = [check.name for _, check in found if check.state == "broken"]
    missing = [check.name for _, check in found if check.state == "missing"]
    if any(title == MACHINE and check.state == "broken" for title, check in found):
        show(f"fix first: {', '.join(broken)}")
    elif broken or missing:
        show(f"ready: make demo; your presets need first: {', '.join([*broken, *missing])}")
    elif not any(title == PRESETS for title, _ in found):
        show(
            "the machine is ready; configuration, data and weights were not checked: go to the "
            "project's folder and run this there"
        )
    else:
        show("ready: make demo, and your presets")
    return not broken


_EXTRAS = ("train", "sst", "workflow")
"""Extras that the commands and `make demo` need."""


def packages_check() -> Check:
    """Check the versions of all packages."""
    from packaging.requirements import Requirement

    try:
        lines = metadata.requires("vrtspike") or []
    except metadata.PackageNotFoundError:
        return fault("packages", "vrtspike is not installed")
    wrong = []
    for requirement in map(Requirement, lines):
        name, marker = requirement.name, requirement.marker
        if marker and not any(marker.evaluate({"extra": extra}) for extra in _EXTRAS):
            continue
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            wrong.append(f"{name} is missing")
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            wrong.append(f"{name} {version}, {requirement.specifier} is needed")
    return (
        fault("packages", "; ".join(wrong)) if wrong else Check("packages", "ok", "all are there")
    )


def torch_checks(gpu: GpuKind | None) -> Iterator[Check]:
    """Check PyTorch, the driver and the GPUs.

    Args:
        gpu: of this machine.
    """
    import torch

    cuda = torch.version.cuda
    built = f"{torch.__version__}, built for {f'CUDA {cuda}' if cuda else 'the CPU alone'}"
    yield Check("PyTorch", "ok", built)
    if gpu is None:
        yield Check("GPU", "note", "no NVIDIA GPU here: trainings run on the CPU, slowly")
        return
    found = f"{gpu.count} x {gpu.name}, {gpu.memory_gib:.0f} GiB, driver {driver_version()}"
    try:
        ones = torch.ones(64, 64, device="cuda")
        is_right = float((ones @ ones).sum()) == 64.0**3
    except (RuntimeError, AssertionError) as error:
        # An old driver, a build without CUDA or for other GPUs, CUDA_VISIBLE_DEVICES.
        yield fault("unusable_gpu", f"{found}; {str(error).splitlines()[0]}")
        return
    yield Check("GPU", "ok", found) if is_right else fault("gpu_arithmetic", found)


def compiler_check() -> Check:
    """Check that C programs with Python's headers can be compiled, as Triton does for a GPU."""
    names = [os.environ["CC"]] if os.environ.get("CC") else ["cc", "gcc", "clang"]
    path = next((found for name in names if (found := shutil.which(name))), None)
    if path is None:
        return fault("compiler", "none: kernels for the GPU cannot be made")
    headers = sysconfig.get_paths()["include"]
    command = [path, "-fsyntax-only", f"-I{headers}", "-xc", "-"]
    done = subprocess.run(command, input=_PROGRAM, capture_output=True, text=True, check=False)
    if done.returncode:
        return fault("compiler", f"{path} fails ({done.stderr.strip()})")
    return Check("compiler", "ok", path)


def which_check() -> Iterator[Check]:
    """Check for the program ``which``, without which Snakemake's Slurm plugin ends every call."""
    has_plugin = importlib.util.find_spec("snakemake_executor_plugin_slurm") is not None
    if has_plugin and shutil.which("which") is None:
        yield fault("which", "missing: Snakemake's Slurm plugin calls it at every start")


def shared_memory_check() -> Check:
    """Check shared memory, in which loading workers pass batches."""
    size = system_memory().shared_total
    if size is not None and size < _LITTLE_SHARED_MB:
        found = f"/dev/shm has {size:.0f} MB, too little for loading workers"
        return fault("shared_memory", found)
    found = "none of its own" if size is None else f"{size / 1024:.1f} GiB"
    return Check("shared memory", "ok", found)


def project_checks(configfiles: Sequence[Path], overrides: Sequence[str]) -> Iterator[Check | str]:
    """Check configuration, disk, data and weights of the project in the working directory.

    Args:
        configfiles: overlays of ``config/config.yaml``.
        overrides: ``KEY=value``.
    """
    try:
        workflow = read_workflow(configfiles, overrides)
        deblurring = DeblurringWorkflow(workflow)
        presets = {name: workflow.preset(name) for name in workflow.settings.PRESETS}
        takers: dict[Dataset, dict[str, Settings]] = {}
        for name, settings in presets.items():
            if isinstance(settings, Settings):
                takers.setdefault(deblurring.dataset(name), {})[name] = settings
    except UserError as error:
        yield fault("configuration", str(error))
        return
    yield Check("configuration", "ok", f"presets {', '.join(presets)}")
    for name, reason in workflow.broken.items():
        yield fault("preset", reason, "note", preset=name)
    data = {dataset: find_data(deblurring.results, dataset) for dataset in takers}
    stores = sum(
        data[dataset].missing_bytes(bins)
        for dataset, of in takers.items()
        for bins in {settings.DATA.NUM_VOXEL_BINS for settings in of.values()}
        if data[dataset].missing is None
    )
    yield disk_check("RESULTS", deblurring.results, stores)
    yield disk_check("RUNS", Path(workflow.settings.RUNS), 0.0)
    yield PRESETS
    for dataset, of in takers.items():
        yield data_check(data[dataset], [n for n, each in of.items() if each.MODEL.USE_SPIKE])
    for name, settings in presets.items():
        if not find_problem(settings.TASK).OWN_STAGES:
            yield raw_files_check(name, settings)
    yield from weight_checks(workflow)


def raw_files_check(preset: str, settings: RunSettings) -> Check:
    """Check the raw files of a preset whose data the rule ``prepare`` makes."""
    try:
        files = find_problem(settings.TASK).data_files(settings)
    except UserError as error:
        return fault("data_of_preset", _without_advice(error), "missing", dataset=preset)
    found = f"{len(files)} files" if files else "generated by the workflow"
    return Check(f"data ({preset})", "ok", found)


def disk_check(key: str, path: Path, needed: float) -> Check:
    """Check a folder for results.

    Args:
        key: of the configuration.
        path: the folder, which need not exist.
        needed: bytes that stores will need.
    """
    name, place, free = f"disk ({key})", nearest_existing(path), free_bytes(path)
    found = f"{path}: {free / GB:.0f} GB free"
    if needed:
        found += f", stores need {needed / GB:.1f} GB more"
    try:
        with tempfile.NamedTemporaryFile(dir=place) as stream:
            lock_file(stream.fileno(), Path(stream.name))
    except UserError as error:
        return fault("disk_locks", str(error), key=key)
    except OSError as error:
        reason = f"{place}: cannot be written ({error.strerror})"
        return fault("disk_permission", reason, key=key)
    if free < needed + _LITTLE_DISK:
        return fault("disk_space", found, key=key)
    return Check(name, "ok", found)


def data_check(data: PresetData, with_spikes: Sequence[str]) -> Check:
    """Check a data set by its file names.

    Args:
        data: the data set.
        with_spikes: names of the presets that take its spikes.
    """
    dataset, size = data.dataset, data.size
    name = f"data ({dataset.name})"
    if data.missing is not None:
        if dataset.kind != "raw":
            return Check(name, "note", f"{dataset.root} is generated by the workflow")
        state: State = "broken" if Path(dataset.root).exists() else "missing"
        reason = _without_advice(data.missing)
        return fault("data_missing", reason, state, dataset=dataset.name)
    counts = [f"{size.sequences[s]} sequences in {s}" for s in size.sequences]
    found = f"{dataset.root}: {', '.join(counts)}, {'' if size.spike_size else 'no '}spikes"
    if with_spikes and size.spike_size is None:
        found = f"{found}, MODEL.USE_SPIKE is true in {', '.join(with_spikes)}"
        return fault("data_without_spikes", found, dataset=dataset.name)
    if size.faults:
        first = named_faults(size.faults)[0]
        state = "broken" if dataset.on_error == "stop" else "note"
        found = f"{found}; {len(size.faults)} with faults ({first})"
        return fault("data_faults", found, state, dataset=dataset.name)
    return Check(name, "ok", found)


def _without_advice(error: object) -> str:
    """An error message without its advice, because the check has its own."""
    return str(error).splitlines()[0].split("; ")[0]


def weight_checks(workflow: Workflow) -> Iterator[Check]:
    """Check the files of weights that the presets in PRESETS read."""
    files: dict[Path, str] = {}
    for settings in map(workflow.preset, workflow.settings.PRESETS):
        problem = find_problem(settings.TASK)
        read = problem.training_weights(settings) | problem.evaluation_weights(settings)
        for key, path in read.items():
            files.setdefault(path, key)
    if not files:
        yield Check("weights", "ok", "none are needed")
    trained = Path(workflow.settings.RESULTS, "train")
    results = {trained / name / WEIGHTS for name in workflow.trainings}
    for path, key in files.items():
        yield weight_check(path, key, is_trained_here=path in results)


def weight_check(path: Path, key: str, *, is_trained_here: bool = False) -> Check:
    """Check a file of weights.

    Args:
        path: of the file.
        key: that names it.
        is_trained_here: whether it is the result of a preset of this project.
    """
    name = f"weights ({key})"
    if path.name in PUBLISHED:
        try:
            verify_weights(path)
        except DataError as error:
            if path.exists():
                return fault("weights_damaged", _without_advice(error), key=key, path=path)
            return fault("weights_published", _without_advice(error), "missing", key=key)
        return Check(name, "ok", f"{path}, as published")
    if path.is_file():
        return Check(name, "ok", str(path))
    if is_trained_here:
        return Check(name, "note", f"{path} is not there: that preset is trained first")
    return fault("weights_given", f"{path}: no such file", "missing", key=key)
