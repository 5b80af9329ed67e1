"""What a machine has: processors, memory, GPUs, disk."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from vrtspike.cpus import available_cpus
from vrtspike.deblurring.costs import table
from vrtspike.errors import RunError
from vrtspike.launching.gpus import usable_gpus
from vrtspike.monitoring.nvml import driver_version, installed_gpus
from vrtspike.monitoring.process_memory import system_memory


@dataclass(frozen=True)
class GpuKind:
    """GPUs of one machine, of which the smallest counts.

    Attributes:
        name: of the first.
        count: that this process may use.
        memory_gib: of the smallest.
        driver: version; empty for a GPU that is not here.
        bandwidth: bytes a second, if the table knows it.
    """

    name: str
    count: int
    memory_gib: float
    driver: str = ""
    bandwidth: float | None = None


@dataclass(frozen=True)
class Machine:
    """A machine.

    Attributes:
        cpus: that this process may use.
        memory_gib: of the machine, or of the container.
        gpu: None for none.
    """

    cpus: int
    memory_gib: float
    gpu: GpuKind | None


def this_machine() -> Machine:
    """The machine that this runs on."""
    return Machine(available_cpus(), system_memory().bound[1] / 1024, find_gpus())


def find_gpus() -> GpuKind | None:
    """The GPUs that this process may use; None where there is none, or no driver."""
    found = usable_gpus(installed_gpus(), os.environ.get("CUDA_VISIBLE_DEVICES"))
    # What NVML does not know has no name and no size: a device that a batch system has hidden.
    known = [gpu for gpu in found if gpu.total]
    if not known:
        return None
    return GpuKind(
        known[0].name,
        len(known),
        min(gpu.total for gpu in known) / 2**30,
        driver_version(),
        known_bandwidth(known[0].name),
    )


def known_bandwidth(name: str) -> float | None:
    """Of a GPU that the table has.

    >>> known_bandwidth("NVIDIA H100 80GB HBM3"), known_bandwidth("Tesla T4")
    (3350000000000.0, None)
    """
    words = name.replace("-", " ").split()
    return next((g["bandwidth"] for kind, g in table()["gpus"].items() if kind in words), None)


def named_gpu(name: str, count: int) -> GpuKind:
    """A GPU of the table, for a machine that is elsewhere.

    Raises:
        RunError: if the table does not have it.
    """
    known = table()["gpus"]
    kind = name.upper()
    if kind not in known:
        raise RunError(f"--gpu {name}: the table has {', '.join(known)}; or run on that machine")
    return GpuKind(kind, count, known[kind]["memory_gib"], "", known[kind]["bandwidth"])


def existing(path: Path) -> Path:
    """The path, or the nearest folder above it that exists and that this user may look at."""
    path = path.absolute()
    return next(place for place in (path, *path.parents) if _exists(place))


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def free_bytes(path: Path) -> int:
    """What may still be written where a path stands or will stand."""
    return shutil.disk_usage(existing(path)).free
