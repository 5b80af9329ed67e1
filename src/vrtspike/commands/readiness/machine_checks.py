"""Checks of the machine: packages, PyTorch, GPU, compiler and shared memory."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Iterator
from importlib import metadata

from packaging.requirements import Requirement

from vrtspike.commands.readiness.check import Check
from vrtspike.deblurring.advice.hardware import MachineGpus
from vrtspike.monitoring.nvml import driver_version
from vrtspike.monitoring.process_memory import system_memory

_EXTRAS = ("train", "sst", "workflow")
"""Extras that the commands and the demo need."""
_PACKAGES_CURE = "pip install 'vrtspike[workflow]'; in a clone: make setup"
_COMPILER_CURE = (
    "install gcc and the headers of this Python (python3-dev), or name a compiler by CC"
)
_MIN_SHARED_MB = 1024
_PROGRAM = "#include <Python.h>\nint main(void) { return Py_IsInitialized(); }\n"


def packages_check() -> Check:
    """Check the versions of all packages."""
    try:
        lines = metadata.requires("vrtspike") or []
    except metadata.PackageNotFoundError:
        return Check("packages", "broken", "vrtspike is not installed", _PACKAGES_CURE)
    faults = []
    for requirement in map(Requirement, lines):
        name = requirement.name
        marker = requirement.marker
        if marker and not any(marker.evaluate({"extra": extra}) for extra in _EXTRAS):
            continue
        try:
            version = metadata.version(name)
        except metadata.PackageNotFoundError:
            faults.append(f"{name} is missing")
            continue
        if not requirement.specifier.contains(version, prereleases=True):
            faults.append(f"{name} {version}, {requirement.specifier} is needed")
    if faults:
        return Check("packages", "broken", "; ".join(faults), _PACKAGES_CURE)
    return Check("packages", "ok", "all installed")


def multiplies_exactly(device: str) -> bool:
    """Return whether a device computes a product of matrices whose result is exact in any type.

    Raises:
        RuntimeError, AssertionError: if PyTorch cannot use the device.
    """
    import torch

    ones = torch.ones(64, 64, device=device)
    return float((ones @ ones).sum()) == 64.0**3


def torch_checks(gpu: MachineGpus | None) -> Iterator[Check]:
    """Check PyTorch, the driver and the GPUs.

    Args:
        gpu: the GPUs of this machine.
    """
    import torch

    platform = f"CUDA {torch.version.cuda}" if torch.version.cuda else "the CPU alone"
    yield Check("PyTorch", "ok", f"{torch.__version__}, built for {platform}")
    if gpu is None:
        yield Check("GPU", "note", "no NVIDIA GPU here: trainings run on the CPU, slowly")
        return
    detail = f"{gpu.count} x {gpu.name}, {gpu.memory_gib:.0f} GiB, driver {driver_version()}"
    try:
        is_right = multiplies_exactly("cuda")
    except (RuntimeError, AssertionError) as error:
        # Causes: an old driver, a build without CUDA or for other GPUs, CUDA_VISIBLE_DEVICES.
        yield Check(
            "GPU",
            "broken",
            f"{detail}; {str(error).splitlines()[0]}",
            "docs/install.md: which PyTorch for which driver and GPU; nvidia-smi, "
            "CUDA_VISIBLE_DEVICES",
        )
        return
    if is_right:
        yield Check("GPU", "ok", detail)
    else:
        cure = "the GPU computes wrong products: replace it, or set GPUS: 0"
        yield Check("GPU", "broken", detail, cure)


def compiler_check() -> Check:
    """Check that C programs with Python's headers can be compiled, as Triton does for a GPU."""
    names = [os.environ["CC"]] if os.environ.get("CC") else ["cc", "gcc", "clang"]
    paths = [path for path in map(shutil.which, names) if path is not None]
    if not paths:
        detail = "none: kernels for the GPU cannot be made"
        return Check("compiler", "broken", detail, _COMPILER_CURE)
    path = paths[0]
    headers = sysconfig.get_paths()["include"]
    command = [path, "-fsyntax-only", f"-I{headers}", "-xc", "-"]
    completed = subprocess.run(command, input=_PROGRAM, capture_output=True, text=True, check=False)
    if completed.returncode:
        detail = f"{path} fails ({completed.stderr.strip()})"
        return Check("compiler", "broken", detail, _COMPILER_CURE)
    return Check("compiler", "ok", path)


def which_check() -> Iterator[Check]:
    """Check for the program ``which``, which Snakemake's Slurm plugin calls at every start."""
    has_plugin = importlib.util.find_spec("snakemake_executor_plugin_slurm") is not None
    if has_plugin and shutil.which("which") is None:
        yield Check(
            "program which",
            "broken",
            "missing: Snakemake's Slurm plugin calls it at every start",
            "install it: the package which (Red Hat, Fedora, Rocky) or debianutils (Debian, "
            "Ubuntu)",
        )


def shared_memory_check() -> Check:
    """Check the shared memory that loading workers pass batches in."""
    size = system_memory().shared_total
    if size is None:
        return Check("shared memory", "ok", "none of its own")
    if size < _MIN_SHARED_MB:
        detail = f"/dev/shm has {size:.0f} MB, too little for loading workers"
        cure = "start the container with --shm-size=8g, or set DATALOADER.TOTAL_WORKERS: 0"
        return Check("shared memory", "broken", detail, cure)
    return Check("shared memory", "ok", f"{size / 1024:.1f} GiB")
