"""The GPUs of this machine as NVIDIA's driver lists them (NVML)."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pynvml


@dataclass(frozen=True)
class Gpu:
    """A GPU, or a MIG instance of one.

    Attributes:
        uuid: a value for ``CUDA_VISIBLE_DEVICES``.
        index: index of the GPU in ``nvidia-smi``.
        name: name of the model.
        total: bytes of memory; 0 if the driver does not tell.
        free: bytes of free memory.
        is_mig_instance: true for a MIG instance.
    """

    uuid: str
    index: int = 0
    name: str = ""
    total: int = 0
    free: int = 0
    is_mig_instance: bool = False


@contextlib.contextmanager
def _driver() -> Iterator[range]:
    """Open NVML for the body, and yield the indices of the GPUs; none without a driver."""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        yield range(0)
        return
    try:
        yield range(pynvml.nvmlDeviceGetCount())
    finally:
        pynvml.nvmlShutdown()


def installed_gpus() -> list[Gpu]:
    """Return the machine's GPUs, or their MIG instances; empty without a driver.

    A GPU that does not answer, as one that was lost from the bus, is left out with a warning.
    """
    gpus: list[Gpu] = []
    with _driver() as indices:
        for index in indices:
            try:
                gpus += _devices(index)
            except pynvml.NVMLError as error:
                warnings.warn(
                    f"GPU {index} is left out: the driver answers {error}; see nvidia-smi, and "
                    "restart the machine",
                    stacklevel=2,
                )
    return gpus


def _devices(index: int) -> list[Gpu]:
    """Return a GPU, or its MIG instances.

    Raises:
        NVMLError: if it does not answer.
    """
    handle = pynvml.nvmlDeviceGetHandleByIndex(index)
    parts = _mig_instances(handle)
    gpus = []
    for device in parts or [handle]:
        uuid = str(pynvml.nvmlDeviceGetUUID(device))
        name = str(pynvml.nvmlDeviceGetName(device))
        gpus.append(Gpu(uuid, index, name, *_memory(device), bool(parts)))
    return gpus


def _memory(device: Any) -> tuple[int, int]:  # noqa: ANN401 - NVML's
    """Return the bytes of memory and of free memory; 0 for a GPU that shares the machine's."""
    try:
        memory = pynvml.nvmlDeviceGetMemoryInfo(device)
    except pynvml.NVMLError_NotSupported:
        return 0, 0
    return memory.total, memory.free


def driver_version() -> str:
    """Return the version of the driver; empty without a driver or a GPU."""
    with _driver() as indices:
        return str(pynvml.nvmlSystemGetDriverVersion()) if indices else ""


def gpu_memory() -> dict[int, float]:
    """Return the megabytes (2**20 bytes) on all GPUs by process ID.

    Empty without a driver; in a container, processes outside of it may be missing.
    """
    megabytes: dict[int, float] = {}
    with _driver() as indices, contextlib.suppress(pynvml.NVMLError):
        for index in indices:
            handle = pynvml.nvmlDeviceGetHandleByIndex(index)
            for device in _mig_instances(handle) or [handle]:
                for process in pynvml.nvmlDeviceGetComputeRunningProcesses(device):
                    used = (process.usedGpuMemory or 0) / 2**20
                    megabytes[process.pid] = megabytes.get(process.pid, 0.0) + used
    return megabytes


def _mig_instances(handle: Any) -> list[Any]:  # noqa: ANN401 - NVML's
    """Return the MIG instances of a GPU; empty without MIG."""
    try:
        current, _ = pynvml.nvmlDeviceGetMigMode(handle)
    except pynvml.NVMLError:
        return []
    if current != pynvml.NVML_DEVICE_MIG_ENABLE:
        return []
    instances = []
    for index in range(pynvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
        # Some indices may be unused.
        with contextlib.suppress(pynvml.NVMLError):
            instances.append(pynvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index))
    return instances
