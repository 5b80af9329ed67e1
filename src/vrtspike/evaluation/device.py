"""The device that inference runs on."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, get_args

from vrtspike.errors import RunError
from vrtspike.launching.gpus import require_gpus, take_gpus
from vrtspike.monitoring.nvml import installed_gpus

if TYPE_CHECKING:
    import torch

DeviceName = Literal["auto", "cpu", "cuda"]
DEVICE_NAMES: tuple[DeviceName, ...] = get_args(DeviceName)
PRECISIONS = ("auto", "float32", "bfloat16", "float16")


@contextlib.contextmanager
def take_device(name: DeviceName, patience_s: float | None = None) -> Iterator[torch.device]:
    """Take one GPU, as training does, for the duration of the body; or the CPU.

    Call it before anything has used CUDA in this process.

    Args:
        name: ``auto`` takes a GPU where the machine has one.
        patience_s: seconds to wait for a GPU where all are in use; None waits until one is free.

    Raises:
        RunError: if ``cuda`` is asked for where there is none, or all GPUs stay in use.
    """
    import torch

    usable = require_gpus("auto", installed_gpus())
    if name == "cuda" and not usable:
        raise RunError("no GPU that this process may use; choose the device cpu or auto")
    if name == "cpu" or not usable:
        yield torch.device("cpu")
        return
    with take_gpus(1, tell=_tell, patience_s=patience_s) as devices:
        os.environ["CUDA_VISIBLE_DEVICES"] = devices.names[0]
        yield torch.device("cuda")


def _tell(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
