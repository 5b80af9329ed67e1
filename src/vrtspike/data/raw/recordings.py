"""The spikes of each frame: their file, and their steps in it.

A table ``exposures.csv`` gives them, else the layout of the files.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from vrtspike.data.exposure import Exposure, read_exposures
from vrtspike.data.raw.layouts.files import SENSOR_FILE, SensorArea, SequenceFiles, sensor_size
from vrtspike.data.raw.layouts.folders import MAX_LINES, match_frames
from vrtspike.data.raw.layouts.layout import Layout
from vrtspike.data.raw.layouts.registry import LAYOUTS
from vrtspike.data.raw.numbering import frame_order
from vrtspike.data.raw.spikes import Sensor, count_steps, npz_sensor
from vrtspike.system.errors import DataError, first_few


def find_sensor(
    spikes: Path,
    spike_size: tuple[int, int] | None,
    sensor_file: Path | None,
    layout: Layout | None = None,
    frame: tuple[int, int] | None = None,
) -> Sensor:
    """Return the sensor of a spike file.

    Rows and columns come from the first of these that gives them: ``spike_size``,
    ``sensor_file``, an ``.npz`` file, the layout, the size of the frames divided by the layout's
    ratio. Files of some cameras have columns that are not image, such as the last 16 of 416 of
    Vidar dumps: the sensor's area leaves them out.

    Args:
        spikes: path of the spike file.
        spike_size: rows and columns in the file (DATA.SPIKE_SIZE); None if unknown.
        sensor_file: path of a ``config.yaml`` with rows and columns; None without one.
        layout: layout of the data set; it may give rows and columns, or the area of the picture.
            None for a layout whose frames are twice as large as the sensor.
        frame: rows and columns of a frame; None if unknown. Frames with the shape of all columns
            (832 columns for 416 in the file) show that all of them are picture.

    Raises:
        DataError: if one of these files cannot be read, or none gives the size.

    >>> find_sensor(Path("a.dat"), (250, 416), None, frame=(500, 800))
    Sensor(size=(250, 416), area=SensorArea(top=0, left=0, rows=250, columns=400))
    """
    size = spike_size
    if size is None and sensor_file is not None:
        size = sensor_size(sensor_file)
    if size is None:
        size = npz_sensor(spikes)
    if size is None and layout is not None:
        size = layout.sensor
    if size is None:
        if frame is None:
            raise DataError(
                f"{spikes}: nothing tells the sensor's size; give its rows and columns, or "
                f"spike_h and spike_w in a {SENSOR_FILE} beside the file"
            )
        ratio = layout.ratio if layout else 2
        size = (max(1, frame[0] // ratio), max(1, frame[1] // ratio))
    if layout is not None and layout.area is not None and size == layout.sensor:
        return Sensor(size, layout.area)
    rows, columns = size
    has_whole_frame = frame is not None and frame[1] * rows == frame[0] * columns
    # Columns at the end of a row that are not image, for cameras of this size.
    header = 0
    if not has_whole_frame and size == (1000, 1024):
        header = 24
    elif not has_whole_frame and columns == 416:
        header = 16
    return Sensor(size, SensorArea(0, 0, rows, columns - header))


def sequence_sensor(
    root: Path, files: SequenceFiles, frame: tuple[int, int], spike_size: tuple[int, int] | None
) -> Sensor:
    """:func:`find_sensor` for the spike files of a sequence."""
    first = files.stream or next(iter(files.spikes.values()))
    sensor_file = root / files.sensor_file if files.sensor_file else None
    return find_sensor(root / first, spike_size, sensor_file, LAYOUTS[files.layout], frame)


@dataclass(frozen=True)
class Recording:
    """The spikes of one frame.

    Attributes:
        path: path of their file, relative to the data set's root.
        total: steps of the whole file.
        exposure: exposure within the file.
    """

    path: str
    total: int
    exposure: Exposure


def find_recordings(
    root: Path,
    paths: Mapping[str, str],
    size: tuple[int, int],
    layout: Layout,
    table: str | None = None,
    frame_names: Collection[str] | None = None,
    has_sharp: bool = True,
) -> tuple[dict[str, Recording], list[str]]:
    """Find the spikes of each frame; frames of one file have equal parts of it, in order.

    Args:
        root: root of the data set.
        paths: paths of the spike file of each frame, by the frame's name, in order.
        size: rows and columns of the sensor as in the files.
        layout: layout of the files.
        table: path of a table of exposures, which overrides the layout; names may lack zeros.
        frame_names: names of all frames; lines of the table for others are a fault. None allows
            them.
        has_sharp: see :func:`vrtspike.data.exposure.read_exposures`.

    Returns:
        the recordings of frames, and the faults of the others.

    Raises:
        DataError: if the table cannot be read.
    """
    names = list(paths) if frame_names is None else frame_names
    exposures = None
    if table:
        exposures = match_frames(read_exposures(root / table, has_sharp=has_sharp), names)
    faults: list[str] = []
    if frame_names is not None and exposures is not None:
        faults += _lines_without_frame(exposures, frame_names, root / str(table))
    recordings: dict[str, Recording] = {}
    frames = Counter(paths.values())
    ends = Counter[str]()
    for name, path in paths.items():
        file = root / path
        try:
            total = count_steps(file, *size)
            if exposures is None:
                steps = _equal_part(file, total, frames[path], size)
                exposure = layout.exposure_of(steps, file).moved(ends[path])
                ends[path] += steps
            else:
                exposure = _exposure_in(exposures, name, root / str(table), file, total)
            recordings[name] = Recording(path, total, exposure)
        except DataError as error:
            faults.append(str(error))
    if table is not None:
        faults += _overlaps(recordings, root / table)
    return recordings, list(dict.fromkeys(faults))


def _equal_part(file: Path, total: int, frames: int, size: tuple[int, int]) -> int:
    """Return steps of each frame of a spike file that is divided evenly.

    Args:
        file: path of the spikes.
        total: steps of the spike file.
        frames: number of frames that share it.
        size: rows and columns of the sensor, for the message.

    Raises:
        DataError: if the steps cannot be divided evenly.
    """
    steps, rest = divmod(total, frames)
    if rest:
        raise DataError(
            f"{file}: {total} steps cannot be divided evenly among {frames} blurry "
            f"frames; frames or spikes are missing, or the sensor size {size[0]} x {size[1]} is "
            "wrong"
        )
    return steps


def _lines_without_frame(
    exposures: Collection[str], frame_names: Collection[str], table: Path
) -> list[str]:
    """Return the fault of a table with lines for missing frames."""
    unmatched = sorted(set(exposures) - set(frame_names))
    if not unmatched:
        return []
    names = first_few(sorted(frame_names, key=frame_order))
    return [
        f"{table}: found {len(unmatched)} lines without a frame, the first of "
        f"{unmatched[0]}; correct the names (frames are called {names}), put the frames back, or "
        "remove the lines"
    ]


def _exposure_in(
    exposures: Mapping[str, Exposure], name: str, table: Path, spikes: Path, total: int
) -> Exposure:
    """Return the exposure of a frame in a table.

    Raises:
        DataError: if it has no line, or one that leaves the ``total`` steps of its spikes.
    """
    if name not in exposures:
        raise DataError(f"{table}: no line for frame {name}; add it")
    exposure = exposures[name]
    if exposure.stop > total:
        raise DataError(
            f"{table}, frame {name}: found stop {exposure.stop}, expected at most {total}, the "
            f"steps of {spikes}"
        )
    return exposure


def _overlaps(recordings: Mapping[str, Recording], table: Path) -> list[str]:
    """Return faults of exposures that begin before the previous frame's has ended.

    Args:
        recordings: recordings of the frames, in order.
        table: table of their exposures; those of a layout follow each other.
    """
    faults = []
    for (previous_name, previous), (name, recording) in pairwise(recordings.items()):
        exposure = recording.exposure
        if recording.path != previous.path or exposure.start >= previous.exposure.stop:
            continue
        if exposure == previous.exposure:
            overlap = f"found the same exposure for the frames {previous_name} and {name}"
        else:
            overlap = (
                f"found start {exposure.start} of frame {name}, before stop "
                f"{previous.exposure.stop} of frame {previous_name}"
            )
        faults.append(f"{table}: {overlap}; correct the lines: a shutter opens after it has closed")
    if len(faults) > MAX_LINES:
        return [f"{faults[0]} ({len(faults)} pairs of frames)"]
    return faults
