"""The record ``restore.json`` of an output folder, and the results that it names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from vrtspike.io.files import read_mapping, write_json
from vrtspike.system.errors import ConfigError, list_faults

RESTORED = "restored"
"""Folder of the restored frames."""
VIDEO = "restored.mp4"
SIDE_BY_SIDE = "side_by_side.mp4"
RESTORE_RECORD = "restore.json"
PAGE = "index.html"
PAGE_PICTURES = "page"
"""Folder of the page's pictures."""
COMPARED = "compared"
"""Folder that a second model restores into, with a record of its own."""
RESULT_PATHS = (RESTORED, VIDEO, SIDE_BY_SIDE, PAGE, PAGE_PICTURES)
"""Everything that is written beside the record."""
SCHEMA = 8

_ELSEWHERE = "give another folder"
_REPLACE = f"{_ELSEWHERE}, or overwrite what is in this one"


class ModelEntry(TypedDict):
    """The model of a record: names of its run, and the SHA-256 of its file of weights."""

    name: str
    fingerprint: str
    weights: str


SpikesEntry = TypedDict(
    "SpikesEntry",
    {"from": str, "version": str, "layout": str | None, "sensor": list[int] | None},
)
"""The spikes of a record: source, digest of the files, and the layout and the rows and columns that
files were read with."""

RecordIdentity = TypedDict(
    "RecordIdentity",
    {
        "schema": int,
        "model": ModelEntry,
        "blurry frames": str,
        "spikes": SpikesEntry,
        "precision": str,
    },
)
"""Entries of a record that are equal if frames of two calls belong together; ``blurry frames`` is a
digest of the files."""


class PathsEntry(TypedDict):
    """The paths of the inputs, as they were given."""

    input: str
    spikes: str | None
    sharp: str | None


class RestoreRecord(RecordIdentity):
    """The contents of ``restore.json``.

    ``frames`` holds the metrics of each frame by their names, ``verdicts`` the names of the frames
    that became worse, by metric: both are missing until all frames are restored. ``doubts`` are
    messages on spikes that do not fit, ``doubtful`` the names of their frames.
    """

    paths: PathsEntry
    size: list[int]
    tiling: dict[str, Any]
    recomputation: float
    device: str
    limits: dict[str, Any]
    seconds_per_frame: float | None
    written: list[str]
    doubts: list[str]
    doubtful: list[str]
    frames: NotRequired[list[dict[str, Any]]]
    verdicts: NotRequired[dict[str, list[str]]]


def read_earlier_record(path: Path) -> dict[str, Any]:
    """Return the record of an earlier call; empty if there is none.

    Raises:
        ConfigError: if the file is something else.
        RunError: if it is damaged.
    """
    if not path.is_file():
        return {}
    record = read_mapping(path, _ELSEWHERE)
    if not {"schema", "model"} <= record.keys():
        raise ConfigError(f"{path}: is not a record of restored frames; {_ELSEWHERE}")
    return record


def continued_record(
    output: Path, identity: RecordIdentity, earlier: dict[str, Any], tile: int | None
) -> dict[str, Any]:
    """Return the record of an earlier call that this one continues; empty if there are no frames.

    Args:
        output: the output folder.
        identity: entries that must be equal in the record.
        earlier: record from :func:`read_earlier_record`.
        tile: largest side of a tile; None is that of the record.

    Raises:
        ConfigError: if the folder holds frames of another model, input or tile size.
    """
    frames = output / RESTORED
    if not any(frames.glob("*.png")):
        return {}
    if not earlier:
        raise ConfigError(f"{frames}: holds frames restored by something else; {_ELSEWHERE}")
    differing = [name for name, value in identity.items() if earlier.get(name) != value]
    if differing:
        raise ConfigError(
            f"{frames}: holds frames restored with other {', '.join(differing)}; {_REPLACE}"
        )
    # Frames of other tiles differ a little: a clip would have a seam in time.
    earlier_tile = earlier["tiling"]["size"]
    if tile not in (None, earlier_tile):
        raise ConfigError(
            f"{output / RESTORE_RECORD}: found frames restored with tile {earlier_tile}; {_REPLACE}"
        )
    return earlier


def recorded_results(record: Mapping[str, Any]) -> list[str]:
    """Return the files that a record names, except those outside the places of results."""
    names = record.get("written", [])
    return [name for name in names if name in RESULT_PATHS or Path(name).parent == Path(RESTORED)]


def require_replaceable(output: Path, results: Sequence[str], recorded: Sequence[str]) -> None:
    """Reject an output folder with files that no record names.

    Args:
        output: the output folder.
        results: names of the files to write.
        recorded: names of the files in the record.

    Raises:
        ConfigError: naming them.
    """
    unnamed = set(results) - set(recorded)
    foreign = [name for name in sorted(unnamed) if (output / name).exists()]
    if foreign:
        title = f"{output}: files at the places of results that its record does not name"
        advice = "Move them, or give another folder."
        raise ConfigError(list_faults(title, foreign, advice, limit=10))


def remove_results(output: Path, recorded: Sequence[str], note: Callable[[str], None]) -> None:
    """Remove the files that a record names, and note the files that stay beside new results.

    Args:
        output: the output folder.
        recorded: names of the files in the record.
        note: called with the message on the others.
    """
    if PAGE_PICTURES in recorded:
        remove_page_pictures(output)
    for name in recorded:
        path = output / name
        if path.is_file() or path.is_symlink():
            path.unlink()
    others = []
    for folder in (output, output / RESTORED):
        if folder.is_dir():
            others += [path for path in folder.iterdir() if not path.name.startswith(".")]
    names = sorted(str(path.relative_to(output)) for path in others)
    kept = [name for name in names if name not in (RESTORE_RECORD, RESTORED, COMPARED)]
    if kept:
        title = f"warning: {output}: files that the record does not name stay"
        advice = "They are no results of this call; overwriting removes only recorded files."
        note(list_faults(title, kept, advice, limit=10))


def record_page(output: Path, record: RestoreRecord) -> RestoreRecord:
    """Return the record after the page was written, and write it to its file.

    The folder of the page's pictures is named only if there is one: a page may contain them.

    Args:
        output: the output folder.
        record: the record of the restoration, which names both.
    """
    if (output / PAGE_PICTURES).is_dir():
        return record
    written = [name for name in record["written"] if name != PAGE_PICTURES]
    changed: RestoreRecord = {**record, "written": written}
    write_json(output / RESTORE_RECORD, changed)
    return changed


def remove_page_pictures(output: Path) -> None:
    """Remove the pictures of the page; other files in their folder stay."""
    folder = output / PAGE_PICTURES
    for path in folder.glob("*.webp"):
        path.unlink()
    if folder.is_dir() and not any(folder.iterdir()):
        folder.rmdir()
