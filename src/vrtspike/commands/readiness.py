"""``vrtspike doctor``: checks of the machine and of the project."""

from __future__ import annotations

import os
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

from vrtspike.analysis.findings import advice
from vrtspike.commands.hardware import GpuKind, find_gpus, free_bytes
from vrtspike.commands.preset_advice import PresetData, find_data, stores_needed
from vrtspike.config.problems import find_problem
from vrtspike.config.workflow import Workflow, read_plan
from vrtspike.deblurring.data.clips.requirements import require_spikes
from vrtspike.deblurring.data_size import GB
from vrtspike.deblurring.datasets import Dataset, DeblurringPlan
from vrtspike.deblurring.settings import Settings
from vrtspike.errors import DataError, UserError
from vrtspike.io.locks import lock_file
from vrtspike.io.pretrained import PUBLISHED, verify_weights
from vrtspike.monitoring.process_memory import system_memory
from vrtspike.runs.names import WEIGHTS
from vrtspike.system.cpus import available_cpus
from vrtspike.system.surroundings import environment_faults, nearest_existing

State = Literal["ok", "note", "missing", "broken"]
_MARKS: dict[State, str] = {"ok": "✓", "note": "·", "missing": "○", "broken": "✗"}

MACHINE, PRESETS, OPTIONAL = "every command, make demo too", "your presets (PRESETS)", "optional"
"""Titles of groups of checks: what they are needed for."""

OLDEST_PYTHON, NEWEST_PYTHON = (3, 11), (3, 13)
DRIVERS = {13: 580, 12: 525}
"""Oldest NVIDIA driver for each major version of CUDA (docs/install.md)."""
_LITTLE_DISK = 2 * GB
_LITTLE_MEMORY_MB = 4096
_LITTLE_SHARED_MB = 1024
_COMPILERS = ("cc", "gcc", "clang")
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
    entry = advice()["machine"][symptom]
    return Check(entry["check"].format(**values), state, found, entry["cure"].format(**values))


def all_checks(configfiles: Sequence[Path], overrides: Sequence[str]) -> Iterator[Check | str]:
    """The checks of machine and project, each group after its title.

    Outside of a project's folder only the machine is checked.
    """
    yield MACHINE
    yield from machine_checks()
    if Path("config/config.yaml").is_file() or configfiles:
        yield from project_checks(configfiles, overrides)
    else:
        yield Check(
            "project",
            "note",
            f"{Path.cwd()} is not the project's folder: configuration, data and weights are not "
            "checked",
        )
    yield OPTIONAL
    yield from optional_checks()


def show_checks(checks: Iterator[Check | str], show: Callable[[str], None]) -> bool:
    """Show every result, and a summary at the end; returns whether nothing is broken."""
    title = MACHINE
    broken: list[tuple[str, str]] = []
    missing: list[str] = []
    for check in checks:
        if isinstance(check, str):
            title = check
            show(f"{title}:")
            continue
        if check.state == "broken":
            broken.append((title, check.name))
        if check.state == "missing":
            missing.append(check.name)
        show(f"{_MARKS[check.state]} {check.name}: {check.found}")
        if check.cure:
            show(f"    -> {check.cure}")
    show(_closing(broken, missing))
    return not broken


def _closing(broken: Sequence[tuple[str, str]], missing: Sequence[str]) -> str:
    """The summary: what can be run, and what must be fixed or provided first."""
    if any(title == MACHINE for title, _ in broken):
        return f"fix first: {', '.join(name for _, name in broken)}"
    needed = [*(name for _, name in broken), *missing]
    if not needed:
        return "ready: make demo, and your presets"
    return f"ready: make demo; your presets need first: {', '.join(needed)}"


def machine_checks() -> Iterator[Check]:
    """Checks that every command needs."""
    gpu = find_gpus()
    yield python_check(sys.version_info[:3])
    yield packages_check()
    yield from torch_checks(gpu)
    if gpu is not None:
        yield compiler_check(needed=True)
    for reason in environment_faults():
        yield fault("surroundings", reason)
    yield from memory_checks()
    yield video_check()


def optional_checks() -> Iterator[Check]:
    """Checks of optional programs."""
    if find_gpus() is None:
        yield compiler_check(needed=False)
    yield git_check()


def python_check(version: tuple[int, int, int]) -> Check:
    """Check the version of Python."""
    found = ".".join(map(str, version))
    if version[:2] < OLDEST_PYTHON:
        return fault("python", found)
    if version[:2] > NEWEST_PYTHON:
        newest = ".".join(map(str, NEWEST_PYTHON))
        return Check("Python", "note", f"{found}; tested up to {newest}")
    return Check("Python", "ok", f"{found} ({sys.executable})")


_EXTRAS = ("train", "sst", "workflow")
"""Extras that the commands and `make demo` need."""


def packages_check() -> Check:
    """Check the versions of all packages."""
    from packaging.requirements import Requirement

    try:
        lines = metadata.requires("vrtspike") or []
    except metadata.PackageNotFoundError:
        return fault("not_installed", "vrtspike is not installed")
    wrong = []
    for requirement in map(Requirement, lines):
        marker = requirement.marker
        if requirement.name == "vrtspike" or not (
            marker is None or any(marker.evaluate({"extra": extra}) for extra in _EXTRAS)
        ):
            continue
        try:
            version = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            wrong.append(f"{requirement.name} is missing")
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            wrong.append(f"{requirement.name} {version}, {requirement.specifier} is needed")
    if wrong:
        return fault("packages", "; ".join(wrong))
    return Check("packages", "ok", "all are there")


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
    found = f"{gpu.count} x {gpu.name}, {gpu.memory_gib:.0f} GiB, driver {gpu.driver}"
    reason = driver_fault(gpu.driver, cuda)
    if reason is not None:
        yield fault("driver", f"{found}; {reason}")
    elif not torch.cuda.is_available():
        yield fault("unusable_gpu", f"{found}; PyTorch cannot use it")
    else:
        yield _compute_check(found)


def driver_fault(driver: str, cuda: str | None) -> str | None:
    """Why a driver does not work with PyTorch; None if it does.

    Args:
        driver: its version, such as ``535.104.05``.
        cuda: CUDA version of PyTorch, such as ``13.0``; None for none.
    """
    if cuda is None:
        return "this PyTorch is built without CUDA"
    needed = DRIVERS.get(int(cuda.split(".")[0]))
    number = driver.split(".")[0]
    if needed is not None and number.isdigit() and int(number) < needed:
        return f"CUDA {cuda} needs driver {needed} or newer"
    return None


def _compute_check(found: str) -> Check:
    """Check the GPU by a matrix product, which fails if PyTorch is built for other GPUs."""
    import torch

    try:
        ones = torch.ones(64, 64, device="cuda")
        right = float((ones @ ones).sum()) == 64.0**3
    except RuntimeError as error:
        line = str(error).splitlines()[0]
        return fault("gpu_build", f"{found}; {line}")
    if not right:
        return fault("gpu_arithmetic", f"{found}; it computes wrong products")
    return Check("GPU", "ok", found)


def compiler_check(*, needed: bool) -> Check:
    """Check that C programs with Python's headers can be compiled, as Triton does.

    Args:
        needed: whether there is a GPU; only GPUs need a compiler.
    """
    names = [os.environ["CC"]] if os.environ.get("CC") else list(_COMPILERS)
    path = next((found for name in names if (found := shutil.which(name))), None)
    reason = "none" if path is None else _compile_fault(path)
    if reason is None:
        return Check("compiler", "ok", str(path))
    if not needed:
        return Check("compiler", "note", f"{reason}; only GPUs need one")
    return fault("compiler", f"{reason}: kernels for the GPU cannot be made")


def _compile_fault(compiler: str) -> str | None:
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "check.c"
        source.write_text(_PROGRAM)
        headers = sysconfig.get_paths()["include"]
        command = [compiler, "-c", f"-I{headers}", str(source), "-o", f"{name}/check.o"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return None
    line = next((row for row in done.stderr.splitlines() if "error" in row), done.stderr[:200])
    return f"{compiler} fails ({line.strip()})"


def memory_checks() -> Iterator[Check]:
    """Check memory and shared memory."""
    system = system_memory()
    free, total = system.available_within_limit, system.bound[1]
    found = f"{free / 1024:.1f} of {total / 1024:.1f} GiB free, {available_cpus()} CPUs"
    if free < _LITTLE_MEMORY_MB:
        yield fault("memory", found, "note")
    else:
        yield Check("memory", "ok", found)
    if system.shared_total is None or system.shared_total >= _LITTLE_SHARED_MB:
        size = "" if system.shared_total is None else f"{system.shared_total / 1024:.1f} GiB"
        yield Check("shared memory", "ok", size or "none of its own")
    else:
        size = f"{system.shared_total:.0f} MB"
        yield fault("shared_memory", f"/dev/shm has {size}, too little for loading workers")


def video_check() -> Check:
    """Check the H.264 encoder."""
    try:
        import av

        av.codec.Codec("libx264", "w")
    except (ImportError, ValueError) as error:
        return fault("encoder", f"no encoder ({error})")
    return Check("H.264", "ok", "libx264")


def git_check() -> Check:
    """Check git, with which runs record their commit."""
    path = shutil.which("git")
    if path is None:
        return fault("git", "none: runs do not record their commit", "note")
    return Check("git", "ok", path)


def project_checks(configfiles: Sequence[Path], overrides: Sequence[str]) -> Iterator[Check | str]:
    """Check configuration, disk, data and weights of the project in the working directory.

    Args:
        configfiles: overlays of ``config/config.yaml``.
        overrides: ``KEY=value``.
    """
    try:
        plan = read_plan(configfiles, overrides)
        deblurring = DeblurringPlan(plan)
        datasets = {
            deblurring.dataset(name).name: deblurring.dataset(name)
            for name in presets_of(deblurring)
        }
    except UserError as error:
        yield fault("configuration", str(error))
        return
    yield Check("configuration", "ok", f"presets {', '.join(plan.settings.PRESETS)}")
    for name, reason in plan.broken.items():
        yield fault("preset", reason, "note", preset=name)
    data = {name: find_data(deblurring, dataset) for name, dataset in datasets.items()}
    yield from disk_checks(deblurring, data)
    yield PRESETS
    for name, dataset in datasets.items():
        yield data_check(deblurring, dataset, data[name])
    yield from other_data_checks(plan)
    yield from weight_checks(plan)


def presets_of(deblurring: DeblurringPlan) -> list[str]:
    """The deblurring presets in PRESETS.

    Raises:
        ConfigError: if a preset is unknown or invalid.
    """
    names = deblurring.plan.settings.PRESETS
    return [name for name in names if isinstance(deblurring.plan.preset(name), Settings)]


def other_data_checks(plan: Workflow) -> Iterator[Check]:
    """Check the raw files of presets in PRESETS whose data the rule ``prepare`` makes."""
    for preset in plan.settings.PRESETS:
        settings = plan.preset(preset)
        problem = find_problem(settings.TASK)
        if problem.OWN_STAGES:
            continue
        name = f"data ({preset})"
        try:
            files = problem.data_files(settings)
        except UserError as error:
            found = _without_advice(str(error).splitlines()[0])
            yield fault("data_of_preset", found, "missing", dataset=preset)
            continue
        found = f"{len(files)} files" if files else "generated by the workflow"
        yield Check(name, "ok", found)


def disk_checks(deblurring: DeblurringPlan, data: dict[str, PresetData]) -> Iterator[Check]:
    """Check space, permissions and locks of RESULTS and RUNS."""
    settings = deblurring.plan.settings
    bins = {
        (deblurring.dataset(name).name, deblurring.preset(name).DATA.NUM_VOXEL_BINS)
        for name in presets_of(deblurring)
    }
    stores = sum(
        stores_needed(data[name], number) for name, number in bins if data[name].missing is None
    )
    for key, place, needed in (("RESULTS", settings.RESULTS, stores), ("RUNS", settings.RUNS, 0.0)):
        yield disk_check(key, Path(place), needed)


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


def data_check(deblurring: DeblurringPlan, dataset: Dataset, data: PresetData) -> Check:
    """Check a data set by its file names."""
    name = f"data ({dataset.name})"
    if data.missing is not None:
        if dataset.kind != "raw":
            return Check(name, "note", f"{dataset.root} is generated by the workflow")
        found = _without_advice(data.missing)
        state: State = "broken" if Path(dataset.root).exists() else "missing"
        return fault("data_missing", found, state, dataset=dataset.name)
    size = data.size
    counts = [f"{size.sequences[s]} sequences in {s}" for s in size.sequences]
    found = f"{dataset.root}: {', '.join(counts)}, {'' if size.spike_size else 'no '}spikes"
    for preset in presets_of(deblurring):
        if deblurring.dataset(preset).name != dataset.name:
            continue
        try:
            require_spikes(
                f"preset {preset}", size.spike_size is not None, deblurring.preset(preset)
            )
        except UserError as error:
            return fault("data_without_spikes", str(error), dataset=dataset.name)
    if size.faults:
        first = next(f"{where}: {faults[0]}" for where, faults in size.faults.items())
        state = "broken" if dataset.on_error == "stop" else "note"
        found = f"{found}; {len(size.faults)} with faults ({first})"
        return fault("data_faults", found, state, dataset=dataset.name)
    return Check(name, "ok", found)


def _without_advice(error: object) -> str:
    """An error message without its advice, because the check has its own."""
    return str(error).split("; ")[0]


def weight_checks(plan: Workflow) -> Iterator[Check]:
    """Check the files of weights that the presets in PRESETS read."""
    files: dict[Path, str] = {}
    for preset in plan.settings.PRESETS:
        settings = plan.preset(preset)
        problem = find_problem(settings.TASK)
        read = problem.training_weights(settings) | problem.evaluation_weights(settings)
        for key, path in read.items():
            files.setdefault(path, key)
    if not files:
        yield Check("weights", "ok", "none are needed")
    trained = Path(plan.settings.RESULTS, "train")
    trained_here = [trained / name / WEIGHTS for name in plan.names]
    for path, key in files.items():
        yield weight_check(path, key, is_trained_here=path in trained_here)


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
