"""Whether a machine and a configuration are ready: every check with what was found and the mend."""

from __future__ import annotations

import contextlib
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

from vrtspike.config.workflow import Workflow
from vrtspike.cpus import available_cpus
from vrtspike.deblurring.data.clips.requirements import require_spikes
from vrtspike.deblurring.data_size import GB
from vrtspike.deblurring.settings import Settings
from vrtspike.deblurring.videos import Dataset, Videos
from vrtspike.deblurring.weight_files import TEACHER
from vrtspike.errors import DataError, UserError
from vrtspike.locks import lock_file
from vrtspike.machine.advise import DataFound, find_data, read_plan, stores_needed
from vrtspike.machine.hardware import GpuKind, existing, find_gpus, free_bytes
from vrtspike.monitoring.process_memory import system_memory
from vrtspike.pretrained import PUBLISHED, verify_weights
from vrtspike.problems import find_problem

State = Literal["ok", "note", "broken"]

OLDEST_PYTHON, NEWEST_PYTHON = (3, 11), (3, 13)
DRIVERS = {13: 580, 12: 525}
"""First NVIDIA driver that runs builds of a CUDA generation (docs/install.md)."""
_LITTLE_DISK = 2 * GB
_LITTLE_MEMORY_MB = 4096
_LITTLE_SHARED_MB = 1024
_COMPILERS = ("cc", "gcc", "clang")
_PROGRAM = "#include <Python.h>\nint main(void) { return Py_IsInitialized(); }\n"


@dataclass(frozen=True)
class Check:
    """What was looked at.

    Attributes:
        name: of it.
        state: ``note`` is nothing wrong, but good to know.
        found: what there is.
        mend: what to do; empty where there is nothing to do.
    """

    name: str
    state: State
    found: str
    mend: str = ""


def machine_checks() -> Iterator[Check]:
    """What every command needs of the machine and of its Python."""
    gpu = find_gpus()
    yield python_check(sys.version_info[:3])
    yield packages_check()
    yield from torch_checks(gpu)
    yield compiler_check(needed=gpu is not None)
    yield from memory_checks()
    yield video_check()
    yield git_check()


def python_check(version: tuple[int, int, int]) -> Check:
    """Whether the project runs on this Python."""
    found = ".".join(map(str, version))
    if version[:2] < OLDEST_PYTHON:
        return Check("Python", "broken", found, "use 3.11 or newer: make setup PYTHON=python3.12")
    if version[:2] > NEWEST_PYTHON:
        newest = ".".join(map(str, NEWEST_PYTHON))
        return Check("Python", "note", f"{found}; tested up to {newest}")
    return Check("Python", "ok", f"{found} ({sys.executable})")


def packages_check() -> Check:
    """Whether every package is there at a version that the project allows."""
    from packaging.requirements import Requirement

    try:
        lines = metadata.requires("vrtspike") or []
    except metadata.PackageNotFoundError:
        return Check("packages", "broken", "vrtspike is not installed", "make setup")
    wrong, count = [], 0
    for requirement in map(Requirement, lines):
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": ""}):
            continue
        count += 1
        try:
            version = metadata.version(requirement.name)
        except metadata.PackageNotFoundError:
            wrong.append(f"{requirement.name} is missing")
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            wrong.append(f"{requirement.name} {version}, {requirement.specifier} is needed")
    if wrong:
        return Check("packages", "broken", "; ".join(wrong), "make setup (or pip install -e .)")
    return Check("packages", "ok", f"all {count} are there")


def torch_checks(gpu: GpuKind | None) -> Iterator[Check]:
    """PyTorch, the GPUs, and whether both go together.

    Args:
        gpu: of this machine.
    """
    try:
        import torch
    except (ImportError, OSError) as error:
        yield Check("PyTorch", "broken", str(error), "make setup; docs/install.md")
        return
    cuda = torch.version.cuda
    built = f"{torch.__version__}, built for {f'CUDA {cuda}' if cuda else 'the CPU alone'}"
    yield Check("PyTorch", "ok", built)
    if gpu is None:
        yield Check("GPU", "note", "no NVIDIA GPU here: trainings run on the CPU, slowly")
        return
    found = f"{gpu.count} x {gpu.name}, {gpu.memory_gib:.0f} GiB, driver {gpu.driver}"
    fault = driver_fault(gpu.driver, cuda)
    if fault is not None:
        yield Check("GPU", "broken", f"{found}; {fault}", "docs/install.md: which PyTorch for it")
    elif not torch.cuda.is_available():
        mend = "see whether nvidia-smi works, and CUDA_VISIBLE_DEVICES"
        yield Check("GPU", "broken", f"{found}; PyTorch cannot use it", mend)
    else:
        yield _compute_check(found)


def driver_fault(driver: str, cuda: str | None) -> str | None:
    """Why a driver does not serve a build of PyTorch; None if it does.

    Args:
        driver: its version, such as ``535.104.05``.
        cuda: that PyTorch was built for, such as ``13.0``; None for none.
    """
    if cuda is None:
        return "this PyTorch is built without CUDA"
    needed = DRIVERS.get(int(cuda.split(".")[0]))
    number = driver.split(".")[0]
    if needed is not None and number.isdigit() and int(number) < needed:
        return f"CUDA {cuda} needs driver {needed} or newer"
    return None


def _compute_check(found: str) -> Check:
    """A product on the GPU: what is built for another kind of GPU fails here."""
    import torch

    try:
        ones = torch.ones(64, 64, device="cuda")
        right = float((ones @ ones).sum()) == 64.0**3
    except RuntimeError as error:
        line = str(error).splitlines()[0]
        return Check("GPU", "broken", f"{found}; {line}", "docs/install.md: builds and GPUs")
    state: State = "ok" if right else "broken"
    return Check("GPU", state, found, "" if right else "it computes wrong products; replace it")


def compiler_check(*, needed: bool) -> Check:
    """Whether a C program with Python's headers can be compiled, as Triton does for its kernels.

    Args:
        needed: whether there is a GPU; without one nothing is compiled.
    """
    names = [os.environ["CC"]] if os.environ.get("CC") else list(_COMPILERS)
    path = next((found for name in names if (found := shutil.which(name))), None)
    fault = "none" if path is None else _compile_fault(path)
    if fault is None:
        return Check("compiler", "ok", str(path))
    if not needed:
        return Check("compiler", "note", f"{fault}; only GPUs need one")
    mend = "install gcc and the headers of this Python (python3-dev), or name a compiler by CC"
    return Check("compiler", "broken", f"{fault}: kernels for the GPU cannot be made", mend)


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
    """CPUs, memory, and what workers hand batches over by."""
    system = system_memory()
    free, total = system.room, system.bound[1]
    found = f"{free / 1024:.1f} of {total / 1024:.1f} GiB free, {available_cpus()} CPUs"
    if free < _LITTLE_MEMORY_MB:
        yield Check("memory", "note", found, "end other programs: ps aux --sort=-rss | head")
    else:
        yield Check("memory", "ok", found)
    if system.shared_total is None or system.shared_total >= _LITTLE_SHARED_MB:
        size = "" if system.shared_total is None else f"{system.shared_total / 1024:.1f} GiB"
        yield Check("shared memory", "ok", size or "none of its own")
    else:
        yield Check(
            "shared memory",
            "broken",
            f"/dev/shm has {system.shared_total:.0f} MB, too little for loading workers",
            "start the container with --shm-size=8g, or set DATALOADER.TOTAL_WORKERS: 0",
        )


def video_check() -> Check:
    """Whether videos can be written that browsers play."""
    try:
        import av

        av.codec.Codec("libx264", "w")
    except (ImportError, ValueError) as error:
        return Check("H.264", "broken", f"no encoder ({error})", "pip install --force-reinstall av")
    return Check("H.264", "ok", "libx264")


def git_check() -> Check:
    """Whether runs can record the commit that trained them."""
    path = shutil.which("git")
    if path is None:
        return Check("git", "note", "none: runs do not record their commit", "install git")
    return Check("git", "ok", path)


def project_checks(configfiles: Sequence[Path], overrides: Sequence[str]) -> Iterator[Check]:
    """Configuration, disk, data and weights of the project in this folder.

    Args:
        configfiles: laid over ``config/config.yaml``.
        overrides: ``KEY=value``.
    """
    try:
        plan = read_plan(configfiles, overrides)
        videos = Videos(plan)
        datasets = {videos.dataset(name).name: videos.dataset(name) for name in asked(videos)}
    except UserError as error:
        yield Check("configuration", "broken", str(error), "mend it; config/README.md has all keys")
        return
    count = len(plan.folder_names)
    yield Check("configuration", "ok", f"presets {', '.join(plan.settings.PRESETS)} of {count}")
    for name, fault in plan.broken.items():
        yield Check(f"preset {name}", "note", fault, "mend its file; the other presets do not mind")
    data = {name: find_data(videos, dataset) for name, dataset in datasets.items()}
    yield from disk_checks(videos, data)
    for name, dataset in datasets.items():
        yield data_check(videos, dataset, data[name])
    yield from other_data_checks(plan)
    yield from weight_checks(plan)


def asked(videos: Videos) -> list[str]:
    """The configured presets of the deblurring; one that cannot be used is among them.

    Raises:
        ConfigError: if a name is none of a preset.
    """
    names = videos.plan.settings.PRESETS
    return [name for name in names if isinstance(videos.plan.preset(name), Settings)]


def other_data_checks(plan: Workflow) -> Iterator[Check]:
    """The raw files of configured presets whose data no stages of their own prepare."""
    for preset in plan.settings.PRESETS:
        settings = plan.preset(preset)
        problem = find_problem(settings.TASK)
        if problem.OWN_STAGES:
            continue
        name = f"data ({preset})"
        try:
            files = problem.data_files(settings)
        except UserError as error:
            fault = _without_advice(str(error).splitlines()[0])
            yield Check(name, "broken", fault, "set DATA.ROOT of the preset")
            continue
        found = f"{len(files)} files" if files else "generated by the workflow"
        yield Check(name, "ok", found)


def disk_checks(videos: Videos, data: dict[str, DataFound]) -> Iterator[Check]:
    """Room, permission and locks where results and runs go."""
    settings = videos.plan.settings
    bins = {(videos.dataset(name).name, videos.preset(name).DATA.K) for name in asked(videos)}
    stores = sum(
        stores_needed(data[name], number) for name, number in bins if data[name].missing is None
    )
    for key, place, needed in (("RESULTS", settings.RESULTS, stores), ("RUNS", settings.RUNS, 0.0)):
        yield disk_check(key, Path(place), needed)


def disk_check(key: str, path: Path, needed: float) -> Check:
    """One folder that is written to.

    Args:
        key: that names it.
        path: the folder, which need not exist yet.
        needed: bytes that stores will take.
    """
    name, place, free = f"disk ({key})", existing(path), free_bytes(path)
    found = f"{path}: {free / GB:.0f} GB free"
    if needed:
        found += f", stores need {needed / GB:.1f} GB more"
    try:
        with tempfile.NamedTemporaryFile(dir=place) as stream:
            lock_file(stream.fileno(), Path(stream.name))
    except UserError as error:
        return Check(name, "broken", str(error), f"set {key} to another disk")
    except OSError as error:
        fault = f"{place}: cannot be written ({error.strerror})"
        return Check(name, "broken", fault, f"set {key} to a folder of yours")
    if free < needed + _LITTLE_DISK:
        return Check(name, "broken", found, f"free space, or set {key} to another disk")
    return Check(name, "ok", found)


def data_check(videos: Videos, dataset: Dataset, data: DataFound) -> Check:
    """A data set that presets train on, as far as names show."""
    name = f"data ({dataset.name})"
    if data.missing is not None:
        if dataset.kind != "raw":
            return Check(name, "note", f"{dataset.root} is generated by the workflow")
        mend = "set DATA.ROOT in config/config.yaml; without data: make demo"
        return Check(name, "broken", _without_advice(data.missing), mend)
    size = data.size
    counts = [f"{size.sequences[s]} sequences in {s}" for s in size.sequences]
    found = f"{dataset.root}: {', '.join(counts)}, {'' if size.spike_size else 'no '}spikes"
    for preset in asked(videos):
        if videos.dataset(preset).name != dataset.name:
            continue
        try:
            require_spikes(f"preset {preset}", size.spike_size is not None, videos.preset(preset))
        except UserError as error:
            return Check(name, "broken", str(error), "vrtspike show FILE.dat looks at spikes")
    if size.faults:
        first = next(f"{where}: {faults[0]}" for where, faults in size.faults.items())
        state: State = "broken" if dataset.on_error == "stop" else "note"
        mend = "mend them, or leave them out with DATA.ON_ERROR: exclude"
        return Check(name, state, f"{found}; {len(size.faults)} with faults ({first})", mend)
    return Check(name, "ok", found)


def _without_advice(error: object) -> str:
    """What was found, of a message that also says what to do, which the check says itself."""
    return str(error).split("; ")[0]


def weight_checks(plan: Workflow) -> Iterator[Check]:
    """Every file of weights that the configured presets read, once."""
    files: dict[Path, str] = {}
    for preset in plan.settings.PRESETS:
        settings = plan.preset(preset)
        problem = find_problem(settings.TASK)
        read = problem.training_weights(settings) | problem.evaluation_weights(settings)
        for key, path in read.items():
            files.setdefault(path, key)
    if not files:
        yield Check("weights", "ok", "none are needed")
    for path, key in files.items():
        yield weight_check(path, key)


def weight_check(path: Path, key: str) -> Check:
    """One file of weights.

    Args:
        path: of it.
        key: that asks for it.
    """
    name = f"weights ({key})"
    if path.name in PUBLISHED:
        try:
            verify_weights(path)
        except DataError as error:
            remove = f"remove {path}, then: " if path.exists() else ""
            mend = f"{remove}snakemake --cores 1 weights"
            return Check(name, "broken", _without_advice(error), mend)
        return Check(name, "ok", f"{path}, as published")
    if path.is_file():
        return Check(name, "ok", str(path))
    if key == TEACHER:
        return Check(name, "note", f"{path} is not there: the teacher is trained first")
    mend = "docs/training.md says where published weights are had; or remove the key"
    return Check(name, "broken", f"{path}: no such file", mend)


def all_checks(configfiles: Sequence[Path], overrides: Sequence[str]) -> Iterator[Check]:
    """Machine and project; outside of a project the machine alone."""
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


def show_checks(checks: Iterator[Check], show: Callable[[str], None]) -> int:
    """Tell every check as it is done; returns how many are broken."""
    marks = _marks(sys.stdout.encoding)
    broken = 0
    for check in checks:
        broken += check.state == "broken"
        show(f"{marks[check.state]} {check.name}: {check.found}")
        if check.mend:
            show(f"    -> {check.mend}")
    return broken


def _marks(encoding: str | None) -> dict[State, str]:
    """Tick, dot and cross, or words where the terminal does not know these."""
    marks: dict[State, str] = {"ok": "✓", "note": "·", "broken": "✗"}
    with contextlib.suppress(UnicodeEncodeError, LookupError):
        "".join(marks.values()).encode(encoding or "ascii")
        return marks
    return {"ok": "[ok]", "note": "[--]", "broken": "[no]"}
