"""Pictures among files: the suffixes that each reader takes, and the pictures of a folder."""

from __future__ import annotations

from pathlib import Path

DATASET_SUFFIXES = (".png", ".jpg", ".jpeg")
"""Suffixes of the frames of a data set, in small letters; capitals are read as well."""
FRAME_SUFFIXES = (*DATASET_SUFFIXES, ".bmp")
"""Suffixes of frames that a simulation or a calibration takes."""
READABLE_SUFFIXES = (*FRAME_SUFFIXES, ".tif", ".tiff", ".webp")
"""Suffixes of frames to restore."""


def is_picture(name: str, suffixes: tuple[str, ...]) -> bool:
    """Return whether a name is that of a visible picture.

    macOS writes a hidden file beside each one on disks of other systems.

    >>> [is_picture(name, FRAME_SUFFIXES) for name in ("01.PNG", "._01.png", "01.txt")]
    [True, False, False]
    """
    return name.lower().endswith(suffixes) and not name.startswith(".")


def list_pictures(folder: Path, suffixes: tuple[str, ...]) -> list[Path]:
    """Return the visible pictures of a folder in no order; none if there is no folder."""
    if not folder.is_dir():
        return []
    return [path for path in folder.iterdir() if is_picture(path.name, suffixes)]
