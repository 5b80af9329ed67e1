"""Types of matrix products that a trained model may compute in."""

from __future__ import annotations

from vrtspike.errors import ConfigError

PRECISIONS = ("auto", "float32", "bfloat16", "float16")


def require_precision(precision: str, device_type: str) -> None:
    """Refuse types of matrix products that do not exist, or that a device computes for hours.

    Raises:
        ConfigError: naming what there is.
    """
    if precision not in PRECISIONS:
        raise ConfigError(f"precision: found {precision}, expected {', '.join(PRECISIONS)}")
    if precision == "float16" and device_type == "cpu":
        raise ConfigError(
            "precision: found float16 on a CPU, where products of that type take many times as "
            "long as any other; choose float32 or bfloat16, or a GPU"
        )
