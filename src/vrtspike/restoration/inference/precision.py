"""Devices that a trained model may compute on, and types of its matrix products."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrtspike.system.errors import ConfigError

if TYPE_CHECKING:
    import torch

PRECISIONS = ("auto", "float32", "bfloat16", "float16")


def choose_device(device: str | torch.device | None) -> torch.device:
    """Return the device of a name; None is a GPU if there is one, else the CPU.

    Raises:
        ConfigError: if it is neither the CPU nor a GPU of this machine.
    """
    import torch

    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if device is None:
        return torch.device("cuda" if gpus else "cpu")
    usable = ["cpu"]
    if gpus:
        usable += ["cuda", *(f"cuda:{index}" for index in range(gpus))]
    if str(device) in usable:
        return torch.device(device)
    expected = f"one of {', '.join(usable)}"
    if not gpus:
        expected = "cpu; PyTorch has no CUDA GPU on this machine"
    raise ConfigError(f"device: found {device}, expected {expected}")


def choose_precision(name: str, device: torch.device) -> str:
    """Check the name of a precision; ``auto`` gives the fastest one of the device.

    Raises:
        ConfigError: if the name is unknown, or the device is far too slow with this type.
    """
    from vrtspike.training.precision import resolve_precision

    if name not in PRECISIONS:
        raise ConfigError(f"precision: found {name}, expected {', '.join(PRECISIONS)}")
    if name == "float16" and device.type == "cpu":
        raise ConfigError(
            "precision: found float16 on a CPU, where products of that type take many times as "
            "long as any other; choose float32 or bfloat16, or a GPU"
        )
    if name != "auto":
        return name
    if device.type == "cpu":
        return "float32"
    return "bfloat16" if resolve_precision("mixed", device) == "bf16-mixed" else "float16"
