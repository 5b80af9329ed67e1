"""NVIDIA's driver library as a file: what :mod:`vrtspike.monitoring.nvml` asks of the real one.

``FAKE_GPUS`` names a JSON list of GPUs; where it is missing there is no driver. A GPU has
``uuid``, ``total`` and ``used`` (GiB), and may have ``processes`` (numbers), ``parts`` (GPUs) and
``divided``. One with ``lost`` does not answer; one without ``total`` has no memory of its own.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace

NVML_DEVICE_MIG_ENABLE = 1
GIB = 2**30


class NVMLError(Exception):
    pass


class NVMLError_NotSupported(NVMLError):
    pass


def _gpus():
    path = os.environ.get("FAKE_GPUS")
    if path is None:
        raise NVMLError("no driver")
    return json.loads(Path(path).read_text())


def nvmlInit():
    _gpus()


def nvmlShutdown():
    pass


def nvmlSystemGetDriverVersion():
    return "570.1"


def nvmlDeviceGetCount():
    return len(_gpus())


def nvmlDeviceGetHandleByIndex(index):
    gpu = _gpus()[index]
    if gpu.get("lost"):
        raise NVMLError("GPU is lost")
    return gpu


def nvmlDeviceGetUUID(handle):
    return handle["uuid"]


def nvmlDeviceGetName(handle):
    return handle.get("name", "NVIDIA A100-SXM4-40GB")


def nvmlDeviceGetMemoryInfo(handle):
    if "total" not in handle:
        raise NVMLError_NotSupported("Not Supported")
    total, used = (int(handle[key] * GIB) for key in ("total", "used"))
    return SimpleNamespace(total=total, free=total - used, used=used)


def nvmlDeviceGetComputeRunningProcesses(handle):
    used = int(handle["used"] * GIB)
    return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid in handle.get("processes", [])]


def nvmlDeviceGetMigMode(handle):
    if "parts" not in handle:
        raise NVMLError("not supported")
    divided = int(handle.get("divided", True))
    return divided, divided


def nvmlDeviceGetMaxMigDeviceCount(handle):
    return 7


def nvmlDeviceGetMigDeviceHandleByIndex(handle, index):
    # Places are not filled in order: the real one has gaps, too.
    if index % 2 == 0 or index // 2 >= len(handle["parts"]):
        raise NVMLError("not found")
    return handle["parts"][index // 2]
