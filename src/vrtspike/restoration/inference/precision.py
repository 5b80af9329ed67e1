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
        device = "cuda" if gpus else "cpu"
    try:
        chosen = torch.device(device)
    except RuntimeError as error:  # no name of a device
        raise _unusable_device(device, gpus) from error
    is_gpu = chosen.type == "cuda" and (chosen.index or 0) < gpus
    if chosen.type != "cpu" and not is_gpu:
        raise _unusable_device(device, gpus)
    return chosen


def _unusable_device(device: str | torch.device, gpus: int) -> ConfigError:
    """Return the error that names a device and those of this machine."""
    if gpus:
        usable = ", ".join(["cpu", "cuda", *(f"cuda:{index}" for index in range(gpus))])
        return ConfigError(f"device: found {device}, expected one of {usable}")
    return ConfigError(
        f"device: found {device}, expected cpu; PyTorch has no CUDA GPU on this machine"
    )


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
