"""``<root>/<split>/<sequence>/{blur,sharp}/NNNNNN.png`` and ``spike/NNNNNN.dat``."""

from __future__ import annotations

from pathlib import Path

from vrtspike.deblurring.data.raw.layouts.folders import FolderLayout
from vrtspike.deblurring.data.raw.layouts.listing import is_folder


def looks_like_spk_gopro(root: Path, split: str) -> bool:
    """It has a folder for the split, as others have: it is asked last."""
    return is_folder(root / split)


SPK_GOPRO = FolderLayout(
    name="spk_gopro",
    used_by="GOPRO_Large, Spk-GoPro",
    looks_like=looks_like_spk_gopro,
    blur="{split}/{sequence}/blur{gamma}",
    sharp="{split}/{sequence}/sharp",
    spike="{split}/{sequence}/spike",
    streams=("{split}/{sequence}/spike", "{split}/{sequence}/spike/spike"),
)
