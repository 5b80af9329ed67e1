"""Presets that have to be of the deblurring."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from vrtspike.config.loading import load_preset
from vrtspike.deblurring.settings.schema import Settings, deblurring_settings


def load_video_preset(path: str | Path, overrides: Sequence[str] = ()) -> Settings:
    """:func:`vrtspike.config.loading.load_preset` of a preset of the deblurring.

    Raises:
        ConfigError: likewise, or if it is one of another problem.
    """
    return deblurring_settings(load_preset(path, overrides), Path(path).stem)
