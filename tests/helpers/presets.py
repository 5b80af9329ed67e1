"""The presets that the project comes with."""

from __future__ import annotations

from pathlib import Path

from vrtspike.config import load_preset
from vrtspike.deblurring_settings import DeblurringSettings


def deblurring_presets(repository: Path) -> dict[str, DeblurringSettings]:
    """Those of deblurring, by name."""
    presets = {
        path.stem: load_preset(path)
        for path in sorted((repository / "config/presets").glob("*.yaml"))
    }
    return {name: s for name, s in presets.items() if isinstance(s, DeblurringSettings)}
