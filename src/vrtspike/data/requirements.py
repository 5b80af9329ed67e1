"""What a preset asks of a data set.

It stays within the standard library, because it is asked while the workflow plans.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vrtspike.errors import ConfigError

if TYPE_CHECKING:
    from vrtspike.config.schema import Settings


def require_spikes(dataset: str, has_spikes: bool, settings: Settings) -> None:
    """Refuse a model with spikes for a data set without.

    Args:
        dataset: what is refused, for the message.
        has_spikes: whether its sequences have spikes.
        settings: of the preset.

    Raises:
        ConfigError: if MODEL.USE_SPIKE is true and there are no spikes.
    """
    if settings.MODEL.USE_SPIKE and not has_spikes:
        raise ConfigError(
            f"{dataset}: no sequence of this data set has spike files, but MODEL.USE_SPIKE is "
            "true. Set MODEL.USE_SPIKE to false (the ablation without spikes), put spike files "
            "beside the frames (docs/data-formats.md says where) and run the workflow again, or "
            "simulate them from 240 fps frames (config/examples/high_frame_rate.yaml)"
        )
