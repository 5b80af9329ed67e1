"""Devices that a trained model may compute on, and types of its matrix products."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrtspike.system.errors import ConfigError

if TYPE_CHECKING:
    import torch

PRECISIONS = ("auto", "float32", "bfloat16", "float16")


def choose_device(device: str | torch.device | None) -> torch.device:
    """Return the device of a name; None is a GPU if there is one, else the CPU."""
    import torch

    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    return torch.device(device)


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
