"""Hardware of a machine: CPUs, memory, GPUs, disk; and its training speed."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch

from vrtspike.cluster.gpus import usable_gpus
from vrtspike.errors import RunError
from vrtspike.monitoring.nvml import driver_version, installed_gpus
from vrtspike.monitoring.process_memory import system_memory
from vrtspike.system.cpus import available_cpus
from vrtspike.system.surroundings import nearest_existing
from vrtspike.training.progress import measure_peak

GPU_EFFICIENCY = 0.1
"""FLOP/s of a training step relative to the GPU's data sheet: an assumption; many operations are
limited by memory bandwidth."""
TRAINING_EFFICIENCY = 0.48
"""FLOP/s of a training step relative to a matrix product: measured with ``demo`` on two cores, 0.38
to 0.48 under load."""
_MATMUL_EFFICIENCY = 0.75
"""FLOP/s of a large matrix product relative to the data sheet."""


GPUS = {
    "A6000": (48, 154.8),
    "4090": (24, 165.2),
    "A100": (80, 312.0),
    "H100": (80, 989.0),
    "H200": (141, 989.0),
}
"""GiB of memory, and TFLOP/s of dense matrix products in half precision with sums in float32: data
sheets of NVIDIA RTX A6000, GeForce RTX 4090, A100 80 GB SXM, H100 SXM and H200 SXM."""


@dataclass(frozen=True)
class GpuKind:
    """The GPUs of a machine.

    Attributes:
        name: of the first GPU.
        count: number of usable GPUs.
        memory_gib: of the smallest GPU.
        driver: version; empty for another machine's GPU.
        tflops: of the data sheet of another machine's GPU.
    """

    name: str
    count: int
    memory_gib: float
    driver: str = ""
    tflops: float | None = None


@dataclass(frozen=True)
class Machine:
    """A machine.

    Attributes:
        cpus: number of usable CPUs.
        memory_gib: of the machine, or of the container.
        gpu: its GPUs; None for none.
    """

    cpus: int
    memory_gib: float
    gpu: GpuKind | None


def this_machine() -> Machine:
    """This machine."""
    return Machine(available_cpus(), system_memory().bound[1] / 1024, find_gpus())


def find_gpus() -> GpuKind | None:
    """The GPUs that this process may use; None without GPU or driver."""
    found = usable_gpus(installed_gpus(), os.environ.get("CUDA_VISIBLE_DEVICES"))
    # Without size: devices of a batch system that NVML does not see.
    known = [gpu for gpu in found if gpu.total]
    if not known:
        return None
    smallest = min(gpu.total for gpu in known) / 2**30
    return GpuKind(known[0].name, len(known), smallest, driver_version())


def named_gpu(name: str, count: int) -> GpuKind:
    """GPUs of another machine, from :data:`GPUS`.

    Raises:
        RunError: if the name is unknown.
    """
    kind = name.upper()
    if kind not in GPUS:
        raise RunError(f"--gpu {name}: expected {', '.join(GPUS)}; or run on that machine")
    memory_gib, tflops = GPUS[kind]
    return GpuKind(kind, count, memory_gib, "", tflops)


def free_bytes(path: Path) -> int:
    """Free bytes on the disk of a path, which need not exist."""
    return shutil.disk_usage(nearest_existing(path)).free


class Speed(NamedTuple):
    """Training speed of a machine."""

    tflops: float
    """TFLOP/s of a training step on one GPU, or on all CPUs."""
    source: str
    """Of that figure, in words."""


def measure_speed(gpu: GpuKind | None) -> Speed:
    """Training speed: measured on this machine's GPU or CPUs, else from a data sheet.

    Args:
        gpu: of this machine or of another one; None for the CPUs of this machine.

    Raises:
        RunError: if the GPU does not work.
    """
    if gpu is None:
        rate = TRAINING_EFFICIENCY * measure_peak(torch.device("cpu"), torch.float32) / 1e12
        return Speed(rate, f"{1e3 * rate:.0f} GFLOP/s in a training step, by a product now")
    tflops, source = gpu.tflops, f"of {gpu.name}'s data sheet"
    if tflops is None:
        try:
            peak = measure_peak(torch.device("cuda"), torch.float16)
        except (RuntimeError, AssertionError) as error:
            raise RunError(f"{gpu.name} does not compute ({error}); see vrtspike doctor") from error
        tflops, source = peak / 1e12 / _MATMUL_EFFICIENCY, "by a product now"
    return Speed(
        GPU_EFFICIENCY * tflops, f"{GPU_EFFICIENCY:.0%} of the {tflops:.0f} TFLOP/s {source}"
    )
