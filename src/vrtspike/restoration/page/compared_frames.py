"""Restored frames of another model, shown beside those of a clip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vrtspike.io.images import read_picture
from vrtspike.restoration.folder.record import RESTORE_RECORD, RESTORED, read_earlier_record
from vrtspike.restoration.inputs.clip_frames import READABLE_SUFFIXES, files_by_name, require_size
from vrtspike.runs.file_names import RUN_RECORD
from vrtspike.system.errors import RunError


@dataclass(frozen=True)
class ComparedFrames:
    """Frames that were restored before.

    Attributes:
        label: name of the model, or of the folder if no record names one.
        files: the frames, in the order of the clip.
        origin: the model and its fingerprint, or the folder.
    """

    label: str
    files: Sequence[Path]
    origin: str


def is_restored_folder(path: Path) -> bool:
    """Return whether a path is a folder of frames with or without a record, and no model."""
    if (path / RESTORE_RECORD).is_file():
        return True
    if not path.is_dir() or (path / RUN_RECORD).is_file():
        return False
    return any(file.suffix.lower() in READABLE_SUFFIXES for file in path.iterdir())


def read_compared(folder: Path, names: Sequence[str], size: tuple[int, int]) -> ComparedFrames:
    """Find the frames of a clip in a folder of restored frames.

    Args:
        folder: output of ``vrtspike restore``, or a folder of pictures named as the frames.
        names: names of the frames of the clip.
        size: their height and width.

    Raises:
        ConfigError: if ``restore.json`` is not a record of restored frames.
        DataError: if frames are missing, or the first has another size.
        RunError: if the restoration is not finished.
    """
    record = read_earlier_record(folder / RESTORE_RECORD)
    picture_folder = folder
    label = folder.absolute().name
    origin = str(folder)
    if record:
        if not record.get("frames"):
            raise RunError(
                f"{folder / RESTORE_RECORD}: no frames are recorded, the restoration is not "
                "finished; repeat vrtspike restore, which continues it"
            )
        picture_folder = folder / RESTORED
        label = record["model"]["name"]
        origin = f"{label}, {record['model']['fingerprint']}"
    files = files_by_name(picture_folder, names, "no restored frame to compare with")
    first = files[names[0]]
    require_size(str(first), read_picture(first).rgb, size)
    return ComparedFrames(label, list(files.values()), origin)
