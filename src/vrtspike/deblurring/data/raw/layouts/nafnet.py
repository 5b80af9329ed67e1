"""``<root>/<split>/{input,target,spike}/<sequence>-NNNNNN.{png,dat}``."""

from __future__ import annotations

from pathlib import Path

from vrtspike.deblurring.data.raw.layouts.folders import FolderLayout
from vrtspike.deblurring.data.raw.layouts.listing import is_folder


def looks_like_nafnet(root: Path, split: str) -> bool:
    """It has a folder for all sharp frames of the split, and one for the blurry ones."""
    inputs = (root / split / name for name in ("input", "input_gamma"))
    return is_folder(root / split / "target") and any(is_folder(folder) for folder in inputs)


NAFNET = FolderLayout(
    name="nafnet",
    used_by="NAFNet, Restormer",
    looks_like=looks_like_nafnet,
    blur="{split}/input{gamma}",
    sharp="{split}/target",
    spike="{split}/spike",
    streams=("{split}/spike/{sequence}",),
    prefix="{sequence}-",
)
