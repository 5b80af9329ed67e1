"""The spikes of a clip in files: one for each frame, or one for all."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from vrtspike.data.exposure import TABLE, Exposure
from vrtspike.data.raw.layouts.files import SPIKE_SUFFIXES, sensor_file
from vrtspike.data.raw.layouts.folders import list_frames
from vrtspike.data.raw.layouts.layout import Layout
from vrtspike.data.raw.layouts.spk_gopro import SPK_GOPRO
from vrtspike.data.raw.recordings import find_recordings, find_sensor
from vrtspike.data.raw.spikes import PackedSpikes
from vrtspike.restoration.inputs.clip_frames import Pictures
from vrtspike.restoration.inputs.clip_spikes import ClipSpikes, FrameSpikes, frame_to_sensor_ratio
from vrtspike.system.errors import DataError, list_faults


def recorded_spikes(
    pictures: Pictures,
    path: Path,
    sensor: tuple[int, int] | None = None,
    layout: Layout = SPK_GOPRO,
) -> ClipSpikes:
    """Return spikes in files.

    A table ``exposures.csv`` in or beside the folder of spikes or of frames gives the exposures.
    Without one the layout does; a file for all frames is divided evenly first.

    Args:
        pictures: their blurry frames.
        path: a folder of ``.dat`` or ``.npz`` files with the frames' names, or one file for all
            frames.
        sensor: rows and columns of the sensor as in its files; None is the size in
            ``.npz`` files or a ``config.yaml`` beside them or above, else that of the layout, which
            is a part of the frames' size.
        layout: gives exposures and the sensor.

    Raises:
        DataError: listing every frame without a partner, or if a file has a wrong size.
    """
    if not path.exists():
        raise DataError(
            f"{path}: no such file or folder; expected the spikes (.dat or .npz) of "
            f"{pictures.place}"
        )
    names = pictures.names
    paths = [path] * len(names) if path.is_file() else _spike_files(path, names)
    file_sensor = find_sensor(paths[0], sensor, sensor_file(paths[0]), layout, pictures.size)
    ratio = frame_to_sensor_ratio(pictures, file_sensor.area.size)
    tables = _find_tables(path, pictures.place)
    table = str(tables[0]) if tables else None
    files = {name: str(file) for name, file in zip(names, paths, strict=True)}
    recordings, faults = find_recordings(
        Path(), files, file_sensor.size, layout, table, has_sharp=False
    )
    if faults:
        advice = "Each frame needs a spike file (.dat, .npz) of its name; check the sensor size."
        raise DataError(list_faults(f"{path}: frames without usable spikes", faults, advice))

    def read(file: Path, steps: Exposure) -> PackedSpikes:
        return file_sensor.read(file, steps.start, steps.steps)

    frames = [
        FrameSpikes(recording.exposure, recording.total, partial(read, file), file, file)
        for file, recording in zip(paths, recordings.values(), strict=True)
    ]
    inputs = [*dict.fromkeys(paths), *tables]
    return ClipSpikes("recorded", str(path), ratio, frames, inputs, file_sensor)


def _spike_files(folder: Path, frames: Sequence[str]) -> list[Path]:
    """Return the spike file of each frame.

    Raises:
        DataError: naming the frames without one.
    """
    place = folder.absolute()
    listing = list_frames(place.parent, f"{place.name}/", SPIKE_SUFFIXES, frames)
    files = listing.files
    missing = [name for name in frames if name not in files]
    faults = [*listing.faults, *(f"{folder / name}.dat: no such file" for name in missing)]
    if faults:
        title = f"{folder}: not one spike file for each frame"
        raise DataError(list_faults(title, faults, "Keep one (.dat, .npz) for each frame."))
    return [folder / Path(files[name]).name for name in frames]


def _find_tables(spikes: Path, frames: Path | str) -> list[Path]:
    """Return the table of exposures, if any, in or beside a folder of spikes or of frames.

    Args:
        spikes: a file or a folder.
        frames: likewise; a text is no place in the file system.

    Raises:
        DataError: if there are several.
    """
    folders = []
    for place in (spikes, frames):
        if isinstance(place, Path):
            folders += [place.absolute(), place.absolute().parent]
    tables = [folder / TABLE for folder in dict.fromkeys(folders) if (folder / TABLE).is_file()]
    if len(tables) > 1:
        raise DataError(f"several tables of exposures: {', '.join(map(str, tables))}; keep one")
    return tables
