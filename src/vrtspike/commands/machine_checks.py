"""Whether a machine can train: Python, packages, GPU, compiler, memory, encoder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from vrtspike.analysis.advice import advice
from vrtspike.commands.hardware import GpuKind, find_gpus
from vrtspike.monitoring.process_memory import system_memory
from vrtspike.system.cpus import available_cpus
from vrtspike.system.surroundings import environment_faults

State = Literal["ok", "note", "missing", "broken"]

MACHINE, PRESETS, OPTIONAL = "every command, make demo too", "your presets (PRESETS)", "optional"
"""Titles of groups of checks: what needs what is looked at."""

OLDEST_PYTHON, NEWEST_PYTHON = (3, 11), (3, 13)
DRIVERS = {13: 580, 12: 525}
"""First NVIDIA driver that runs builds of a CUDA generation (docs/install.md)."""
_LITTLE_MEMORY_MB = 4096
_LITTLE_SHARED_MB = 1024
_COMPILERS = ("cc", "gcc", "clang")
_PROGRAM = "#include <Python.h>\nint main(void) { return Py_IsInitialized(); }\n"


@dataclass(frozen=True)
class Check:
    """What was looked at.

    Attributes:
        name: of it.
        state: ``note`` is nothing wrong, but good to know; ``missing`` is to be given or fetched.
        found: what there is.
        cure: what to do; empty where there is nothing to do.
    """

    name: str
    state: State
    found: str
    cure: str = ""


def fault(symptom: str, found: str, state: State = "broken", **values: object) -> Check:
    """A check that found something wrong.

    Args:
        symptom: its name in the section ``machine`` of the table.
        found: what there is.
        state: how bad it is.
        values: of the names in the table's texts.
    """
    entry = advice()["machine"][symptom]
    return Check(entry["check"].format(**values), state, found, entry["cure"].format(**values))


def machine_checks() -> Iterator[Check]:
    """What every command needs of the machine and of its Python."""
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
    """What is used where it is there."""
    if find_gpus() is None:
        yield compiler_check(needed=False)
    yield git_check()


def python_check(version: tuple[int, int, int]) -> Check:
    """Whether the project runs on this Python."""
    found = ".".join(map(str, version))
    if version[:2] < OLDEST_PYTHON:
        return fault("python", found)
    if version[:2] > NEWEST_PYTHON:
        newest = ".".join(map(str, NEWEST_PYTHON))
        return Check("Python", "note", f"{found}; tested up to {newest}")
    return Check("Python", "ok", f"{found} ({sys.executable})")


_EXTRAS = ("train", "sst", "workflow")
"""What the commands and `make demo` take beside what restoring does."""


def packages_check() -> Check:
    """Whether every package is there at a version that the project allows."""
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
    """PyTorch, the GPUs, and whether both go together.

    Args:
        gpu: of this machine.
    """
    try:
        import torch
    except (ImportError, OSError) as error:
        yield fault("torch", str(error))
        return
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
        return fault("gpu_build", f"{found}; {line}")
    if not right:
        return fault("gpu_arithmetic", f"{found}; it computes wrong products")
    return Check("GPU", "ok", found)


def compiler_check(*, needed: bool) -> Check:
    """Whether a C program with Python's headers can be compiled, as Triton does for its kernels.

    Args:
        needed: whether there is a GPU; without one nothing is compiled.
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
    """CPUs, memory, and what workers hand batches over by."""
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
    """Whether videos can be written that browsers play."""
    try:
        import av

        av.codec.Codec("libx264", "w")
    except (ImportError, ValueError) as error:
        return fault("encoder", f"no encoder ({error})")
    return Check("H.264", "ok", "libx264")


def git_check() -> Check:
    """Whether runs can record the commit that trained them."""
    path = shutil.which("git")
    if path is None:
        return fault("git", "none: runs do not record their commit", "note")
    return Check("git", "ok", path)
