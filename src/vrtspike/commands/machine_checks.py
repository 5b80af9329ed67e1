"""Checks of ``vrtspike doctor``: Python, packages, GPU, compiler, memory, video encoder."""

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
"""Titles of groups of checks: what they are needed for."""

OLDEST_PYTHON, NEWEST_PYTHON = (3, 11), (3, 13)
DRIVERS = {13: 580, 12: 525}
"""Oldest NVIDIA driver for each major version of CUDA (docs/install.md)."""
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
