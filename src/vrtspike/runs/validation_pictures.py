"""Files of the pictures that validations write: ``pictures/step_00000400_restored.png``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from vrtspike.runs.file_names import PICTURES_FOLDER

MAX_VALIDATIONS = 8
"""Validations whose pictures a published result has."""
_NAME = re.compile(r"step_(\d+)_(.+)\.png")


def picture_file(folder: Path, step: int, name: str) -> Path:
    """Return the file of a picture.

    Args:
        folder: folder of the run or of its published result.
        step: step of the validation.
        name: name of the picture.

    >>> picture_file(Path("run"), 400, "restored")
    PosixPath('run/pictures/step_00000400_restored.png')
    """
    return folder / PICTURES_FOLDER / f"step_{step:08d}_{name}.png"


def find_pictures(folder: Path) -> dict[int, dict[str, Path]]:
    """Find the pictures of a run or of its published result.

    Returns:
        the files by name, for each step in order.
    """
    pictures: dict[int, dict[str, Path]] = {}
    for path in sorted((folder / PICTURES_FOLDER).glob("step_*.png")):
        match = _NAME.fullmatch(path.name)
        if match is not None:
            pictures.setdefault(int(match[1]), {})[match[2]] = path
    return dict(sorted(pictures.items()))


def spread_steps(steps: Sequence[int]) -> list[int]:
    """Choose at most :data:`MAX_VALIDATIONS` steps, evenly by number, with the first and last.

    >>> spread_steps(range(0, 1600, 100))
    [0, 200, 400, 600, 900, 1100, 1300, 1500]
    """
    if len(steps) <= MAX_VALIDATIONS:
        return list(steps)
    stride = (len(steps) - 1) / (MAX_VALIDATIONS - 1)
    return [steps[round(index * stride)] for index in range(MAX_VALIDATIONS)]
