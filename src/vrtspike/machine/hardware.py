"""What a machine has: processors, memory, GPUs, disk; and how fast it trains."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vrtspike.cluster.gpus import usable_gpus
from vrtspike.deblurring.costs import TrainingCost, gpu_ms, table
from vrtspike.errors import RunError
from vrtspike.monitoring.nvml import driver_version, installed_gpus
from vrtspike.monitoring.process_memory import system_memory
from vrtspike.system.cpus import available_cpus

TOGETHER = 0.9
"""Share of their speed that several GPUs keep beside each other: an assumption."""
TRAINING_SHARE = 0.48
"""Of the arithmetic of a matrix product, what a training step of the preset ``demo`` reaches:
measured on two cores, 0.38 to 0.48 with other programs beside."""
_SIDE, _PRODUCTS = 1024, 10
_COPY_BYTES, _COPIES = 2**30, 5
_REACHED = 0.83
"""Share of the data sheet's bandwidth that a copy reaches (``benchmarks/gpus.py``)."""


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


@dataclass(frozen=True)
class Speed:
    """How fast a machine computes.

    Attributes:
        bandwidth: of a GPU, bytes a second by the data sheet; None without one.
        tflops: of all CPUs, for a training step.
        source: where that is from, in words.
    """

    bandwidth: float | None
    tflops: float
    source: str

    def seconds(self, cost: TrainingCost, gpus: int) -> float:
        """Of a whole training on so many GPUs."""
        if self.bandwidth is None:
            return cost.clips * cost.mean.tflop / self.tflops
        share = TOGETHER if gpus > 1 else 1.0
        return cost.clips * gpu_ms(cost.mean, self.bandwidth) / 1e3 / share


def measure_speed(machine: Machine, *, probe: bool) -> Speed:
    """How fast a machine computes: known by its GPU's name, probed, or taken from the table.

    Args:
        machine: this one, or one that is elsewhere.
        probe: whether this machine may be asked.

    Raises:
        RunError: if the GPU is not in the table and may not be asked, or does not answer.
    """
    gpu, cpu = machine.gpu, table()["cpu"]
    if gpu is not None:
        if gpu.bandwidth is not None:
            return Speed(gpu.bandwidth, 0.0, f"that of {gpu.name} by its data sheet")
        if not probe:
            raise RunError(f"{gpu.name} is not in the table; leave out --no-probe")
        try:
            found = gpu_bandwidth()
        except (RuntimeError, AssertionError) as error:
            raise RunError(f"{gpu.name} does not compute ({error}); see vrtspike doctor") from error
        return Speed(found, 0.0, f"{found / 1e12:.2f} TB/s of memory bandwidth, measured now")
    if probe:
        rate = cpu_tflops()
        return Speed(None, rate, f"{1e3 * rate:.0f} GFLOP/s in a training step, by a product now")
    rate = cpu["tflops_per_thread"] * machine.cpus
    source = f"{1e3 * rate:.0f} GFLOP/s, as measured on {cpu['name']}"
    return Speed(None, rate, source)


def cpu_tflops() -> float:
    """TFLOP/s of a training step on all CPUs of this process, by products of matrices; in 0.5 s."""
    random = np.random.default_rng(0)
    one, other = random.random((2, _SIDE, _SIDE), np.float32)
    return TRAINING_SHARE * 2 * _SIDE**3 / _shortest(lambda: one @ other, _PRODUCTS) / 1e12


def gpu_bandwidth() -> float:
    """Bytes a second of this machine's first GPU, as a data sheet would give them."""
    import torch

    source = torch.empty(_COPY_BYTES, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)

    def copy() -> None:
        target.copy_(source)
        torch.cuda.synchronize()

    return 2 * _COPY_BYTES / _shortest(copy, _COPIES) / _REACHED


def _shortest(work: Callable[[], object], repeats: int) -> float:
    """Seconds; the shortest of several, since other programs may be at work."""
    work()
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)
