"""The results in a folder of restored frames, as ``vrtspike restore`` writes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from vrtspike.config.tasks import DEFAULT_PROTOCOL
from vrtspike.data.raw.layouts.registry import spike_layout
from vrtspike.data.rgb_images import Image
from vrtspike.io.images import read_picture, to_8_bit
from vrtspike.paper_figures.recorded_spikes import RecordedSpikes
from vrtspike.paper_figures.results import FRAME_COLUMNS, ModelResult, RestoredSequence
from vrtspike.restoration.folder.record import RESTORE_RECORD, RESTORED, read_earlier_record
from vrtspike.restoration.inputs.clip_frames import (
    ClipFrames,
    open_frames,
    require_size,
    sequence_name,
    sharp_files,
)
from vrtspike.restoration.inputs.clip_spikes import ClipSpikes, recorded_spikes
from vrtspike.system.errors import ConfigError, DataError, RunError, list_faults

_PSNR = ("psnr_blur", "psnr")


class FolderSequence(RestoredSequence):
    """A sequence that ``vrtspike restore`` has restored.

    Args:
        name: name of the sequence.
        clip_frames: blurry frames.
        sharp_files: files of the sharp frames by name; empty without.
        restored_files: files of the restored frames by name.
        spikes: recorded spikes; None without.
    """

    def __init__(
        self,
        name: str,
        clip_frames: ClipFrames,
        sharp_files: Mapping[str, Path],
        restored_files: Mapping[str, Path],
        spikes: ClipSpikes | None,
    ) -> None:
        self.name = name
        self.frames = clip_frames.names
        self.has_recorded_spikes = spikes is not None
        self._clip_frames = clip_frames
        self._sharp_files = sharp_files
        self._restored_files = restored_files
        self._spikes = spikes
        self._numbers = {frame: number for number, frame in enumerate(clip_frames.names)}

    def blurry(self, frame: str) -> Image:
        """Return a blurry frame."""
        return self._clip_frames.frame(self._numbers[frame])

    def sharp(self, frame: str) -> Image | None:
        """Return a sharp frame; None without."""
        if not self._sharp_files:
            return None
        path = self._sharp_files[frame]
        image = to_8_bit(read_picture(path).rgb)
        require_size(str(path), image, self._clip_frames.size)
        return image

    def restored(self, frames: Sequence[str]) -> Iterator[Image]:
        """Yield restored frames."""
        for frame in frames:
            yield to_8_bit(read_picture(self._restored_files[frame]).rgb)

    def recorded(self, frame: str) -> RecordedSpikes:
        """Return the recorded spikes of a frame."""
        assert self._spikes is not None
        spikes, exposure = self._spikes.frames[self._numbers[frame]].around(0)
        location = f"{self._spikes.location}, frame {frame}"
        return RecordedSpikes(spikes, exposure, self._spikes.ratio, location)


def read_restored(
    folder: Path,
    protocol: str | None = None,
    label: str | None = None,
    sharp: Path | None = None,
) -> ModelResult:
    """Read a folder of restored frames with its record, and open the input.

    The sequence is named by the folder of the blurry frames, or the folder above ``blur``.

    Args:
        folder: output of ``vrtspike restore``.
        protocol: protocol of the PSNR; others than ``own`` are not measured there.
        label: name in figures; None takes the model's.
        sharp: folder of the sharp frames; None takes that of the record, if any.

    Raises:
        ConfigError: if another protocol is wanted.
        DataError: if the input, or a restored frame, is missing.
        RunError: if the restoration is not finished.
    """
    if protocol not in (None, DEFAULT_PROTOCOL):
        raise ConfigError(
            f"--protocol {protocol}: {folder} holds metrics of protocol {DEFAULT_PROTOCOL} alone; "
            "leave it out"
        )
    record = read_earlier_record(folder / RESTORE_RECORD)
    frame_metrics = record.get("frames")
    if not frame_metrics:
        raise RunError(
            f"{folder / RESTORE_RECORD}: no frames are recorded, the restoration is not finished; "
            "repeat vrtspike restore, which continues it"
        )
    name = label or record["model"]["name"]
    clip_frames = open_frames(_input(record, "input", folder))
    frames = [entry["frame"] for entry in frame_metrics]
    files = {frame: folder / RESTORED / f"{frame}.png" for frame in frames}
    missing = [str(path) for path in files.values() if not path.is_file()]
    names = set(clip_frames.names)
    missing += [f"{clip_frames.location}: {frame}" for frame in frames if frame not in names]
    if missing:
        title = f"{folder}: frames of the record that are not there"
        raise DataError(list_faults(title, missing, "Restore them again.", limit=10))
    clip = FolderSequence(
        sequence_name(Path(record["paths"]["input"])),
        clip_frames,
        _sharp_files(record, frames, folder, sharp),
        files,
        _open_spikes(record, clip_frames, folder),
    )
    return ModelResult(name, str(folder), {clip.name: clip}, _frame_psnr(frame_metrics, clip.name))


def _input(record: Mapping[str, Any], kind: str, folder: Path) -> Path:
    """Return the path of an input in the record.

    Raises:
        DataError: if it is not there.
    """
    path = Path(record["paths"][kind])
    if not path.exists():
        raise DataError(
            f"{path}: no such file or folder; {folder / RESTORE_RECORD} names it as its {kind}. "
            "Go to the folder in which vrtspike restore was called, or put it back"
        )
    return path


def _open_spikes(
    record: Mapping[str, Any], clip_frames: ClipFrames, folder: Path
) -> ClipSpikes | None:
    """Return the recorded spikes; None without, and for simulated ones.

    Raises:
        DataError: if they are not there, or the record names no layout that is known.
    """
    if record["paths"].get("spikes") is None:
        return None
    path = _input(record, "spikes", folder)
    spikes = record["spikes"]
    sensor = tuple(spikes["sensor"]) if spikes["sensor"] else None
    if spikes["layout"] is None:
        raise DataError(
            f"{folder / RESTORE_RECORD}: spikes.layout: found null from an earlier version, "
            "expected the layout that the spikes were read with; put there the DATA.LAYOUT of the "
            "model's preset (spk_gopro where it is auto), or restore again with --overwrite"
        )
    try:
        layout = spike_layout(spikes["layout"])
    except ConfigError as error:
        raise DataError(f"{folder / RESTORE_RECORD}: spikes.{error}") from None
    return recorded_spikes(clip_frames, path, sensor, layout)


def _sharp_files(
    record: Mapping[str, Any], frames: Sequence[str], folder: Path, sharp_folder: Path | None
) -> dict[str, Path]:
    """Return the files of the sharp frames by name; empty without any.

    Raises:
        DataError: naming frames without one.
    """
    picture_folder = sharp_folder
    if picture_folder is None and record["paths"].get("sharp") is not None:
        picture_folder = _input(record, "sharp", folder)
    if picture_folder is None:
        return {}
    return sharp_files(picture_folder, frames)


def _frame_psnr(frame_metrics: Sequence[Mapping[str, Any]], sequence: str) -> pd.DataFrame:
    """Return the PSNR of every frame; empty if it was not measured."""
    rows = [
        {"sequence": sequence, **{name: entry.get(name) for name in FRAME_COLUMNS[1:]}}
        for entry in frame_metrics
        if "psnr" in entry
    ]
    # Equal frames have null in place of an infinite PSNR.
    return pd.DataFrame(rows, columns=FRAME_COLUMNS).astype(dict.fromkeys(_PSNR, float))
