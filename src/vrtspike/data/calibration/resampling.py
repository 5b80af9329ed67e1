"""Resample a data set onto the grid and the clock of its spike sensor."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from vrtspike.data.calibration.cameras import Calibration, require_frame_size
from vrtspike.data.calibration.homography import warp_to_sensor
from vrtspike.data.exposure import EXPOSURE_TABLE, Exposure, exposure_table, read_exposures
from vrtspike.data.raw.layouts.files import SENSOR_FILE, STREAM_FILE
from vrtspike.data.raw.layouts.folders import match_frames
from vrtspike.data.raw.spikes import count_steps
from vrtspike.data.simulation.sequence import frame_files
from vrtspike.io.files import atomic_write_text, replaced_folder
from vrtspike.io.images import read_rgb, write_png
from vrtspike.system.errors import DataError


def resample(calibration: Calibration, root: Path, output: Path) -> list[Path]:
    """Write a data set whose frames are resampled to the sensor's grid, with corrected times.

    Args:
        calibration: calibration of the two cameras.
        root: ``<split>/<sequence>/`` with ``blur/``, perhaps ``sharp/``, ``spike.dat`` and
            ``exposures.csv``.
        output: the data set's folder to write, of layout ``stream``.

    Returns:
        the folders of the sequences that were written.

    Raises:
        DataError: if there are no sequences, one has no frames or no spikes, or exposures that
            leave them, a frame has another size, or the output holds other sequences.
    """
    sources = sorted({p.parent for p in root.glob("*/*/*") if p.name in ("blur", STREAM_FILE)})
    if not sources:
        raise DataError(f"{root}: no <split>/<sequence>/{STREAM_FILE} in it")
    exposures = {source: _moved_exposures(calibration, source) for source in sources}
    targets = {source: output / source.relative_to(root) for source in sources}
    others = {path.parent for path in output.glob(f"*/*/{EXPOSURE_TABLE}")} - set(targets.values())
    if others:
        raise DataError(f"{min(others)}: no sequence of {root} has this name; remove the folder")
    rows, columns = calibration.file_size
    atomic_write_text(output / SENSOR_FILE, f"spike_h: {rows}\nspike_w: {columns}\n")
    for source, target in targets.items():
        with replaced_folder(target) as folder:
            _warp_frames(calibration, source, folder)
            atomic_write_text(folder / EXPOSURE_TABLE, exposure_table(exposures[source]))
            shutil.copyfile(source / STREAM_FILE, folder / STREAM_FILE)
    return list(targets.values())


def _warp_frames(calibration: Calibration, source: Path, folder: Path) -> None:
    """Write the frames of a sequence as the sensor sees them."""
    homography = np.array(calibration.homography)
    for part in ("blur", "sharp"):
        if not (source / part).is_dir():
            continue
        for path in frame_files(source / part):
            picture = read_rgb(path)
            require_frame_size(path, picture, calibration.frame_size)
            warped = warp_to_sensor(picture, homography, calibration.sensor_size)
            write_png(folder / part / f"{path.stem}.png", warped)


def _moved_exposures(calibration: Calibration, source: Path) -> dict[str, Exposure]:
    """Return the exposures of a recording at their corrected times.

    The shutter opens with a step, the sharp instant need not; it stays within its exposure.

    Raises:
        DataError: if the recording has no spikes, or exposures leave them.
    """
    names = [path.stem for path in frame_files(source / "blur")]
    table = read_exposures(source / EXPOSURE_TABLE, has_sharp=(source / "sharp").is_dir())
    spikes = source / STREAM_FILE
    if not spikes.is_file():
        raise DataError(f"{spikes}: no such file; expected the spikes of the sequence")
    total = count_steps(spikes, *calibration.file_size)
    offset = 0.0 if calibration.offset is None else calibration.offset.offset_steps
    exposures = {}
    outside = []
    for name, exposure in match_frames(table, names).items():
        moved = exposure.moved(round(offset))
        sharp = min(max(moved.start, exposure.sharp + offset), moved.stop)
        exposures[name] = moved._replace(sharp=sharp)
        if moved.start < 0 or moved.stop > total:
            outside.append(name)
    if outside:
        raise DataError(
            f"{source / EXPOSURE_TABLE}: {offset:+.2f} steps later the exposures of "
            f"{', '.join(outside)} leave the {total} steps of {STREAM_FILE}; remove these frames "
            "and their lines"
        )
    return exposures
