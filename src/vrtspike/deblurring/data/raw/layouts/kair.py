"""``<root>/{<split>_GT,<split>_GT_blurred,<split>_spike}/<sequence>/NNNNNN.{png,dat}``."""

from __future__ import annotations

from pathlib import Path

from vrtspike.deblurring.data.raw.layouts.folders import FolderLayout
from vrtspike.deblurring.data.raw.layouts.listing import is_folder


def looks_like_kair(root: Path, split: str) -> bool:
    """It has a folder for the sharp frames of the split."""
    return is_folder(root / f"{split}_GT")


KAIR = FolderLayout(
    name="kair",
    used_by="KAIR, the training code of VRT",
    looks_like=looks_like_kair,
    blur="{split}_GT_blurred{gamma}/{sequence}",
    sharp="{split}_GT/{sequence}",
    spike="{split}_spike/{sequence}",
    streams=("{split}_spike/{sequence}", "{split}_spike/{sequence}/spike"),
)
