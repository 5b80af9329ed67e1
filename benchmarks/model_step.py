"""A training step of a model as the benchmarks time it and count its memory and arithmetic."""

from __future__ import annotations

import platform
import time
from contextlib import AbstractContextManager, nullcontext
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch
from torch import Tensor, nn

from vrtspike.training.progress import TRAINING_FACTOR, count_flops

GIB = 2**30
PRECISIONS = {"32": None, "bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}


def step_flops(model: nn.Module, inputs: tuple[Tensor, ...]) -> float:
    """FLOPs of forward and backward pass of a model."""
    return float(TRAINING_FACTOR * count_flops(lambda: model(*inputs)))


def loss(restored: Tensor) -> Tensor:
    """Charbonnier loss against grey, in float32."""
    return ((restored.float() - 0.5).square() + 1e-6).sqrt().mean()


def autocast(dtype: torch.dtype | None, device: torch.device) -> AbstractContextManager[object]:
    """A precision of ``PRECISIONS``."""
    return nullcontext() if dtype is None else torch.autocast(device.type, dtype=dtype)


def step(
    dtype: torch.dtype | None, model: nn.Module, inputs: tuple[Tensor, Tensor]
) -> tuple[float, float]:
    """Seconds of a forward and a backward pass."""
    device = inputs[0].device
    model.zero_grad(set_to_none=True)
    start = now(device)
    with autocast(dtype, device):
        value = loss(model(*inputs))
    middle = now(device)
    value.backward()
    return middle - start, now(device) - middle


def now(device: torch.device) -> float:
    """A clock that waits for the device."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


def describe(device: torch.device) -> dict[str, object]:
    """Machine and versions, as the results need them."""
    name = torch.cuda.get_device_name() if device.type == "cuda" else processor()
    return {
        "device": name,
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "torchvision": installed("torchvision"),
        "python": platform.python_version(),
        "cuda": torch.version.cuda if device.type == "cuda" else None,
    }


def installed(package: str) -> str | None:
    """Version of a package, None where it is missing."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def processor() -> str:
    """The CPU's name, where Linux tells it, else its architecture."""
    table = Path("/proc/cpuinfo")
    lines = table.read_text(encoding="utf-8").splitlines() if table.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
