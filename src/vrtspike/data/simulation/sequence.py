"""Sequences with simulated spikes, from videos of a high frame rate or from pairs of frames."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vrtspike.data.exposure import EXPOSURE_TABLE, Exposure, exposure_of_average, exposure_table
from vrtspike.data.raw.layouts.files import SENSOR_FILE, STREAM_FILE, SequenceFiles, gives_size
from vrtspike.data.raw.layouts.folders import FOREIGN
from vrtspike.data.raw.layouts.spk_gopro import STEPS_PER_SOURCE_FRAME, spk_gopro_exposure
from vrtspike.data.raw.numbering import find_gaps, frame_numbers, frame_order
from vrtspike.data.raw.spikes import pack_spikes
from vrtspike.data.simulation.sensor import (
    SPK_GOPRO_SENSOR,
    SimulatedSensor,
    stream_spikes,
    synthesize_blur,
)
from vrtspike.io.files import atomic_path, atomic_write_text, replaced_folder
from vrtspike.io.images import encode_png, read_rgb
from vrtspike.io.picture_files import FRAME_SUFFIXES, is_picture, list_pictures
from vrtspike.system.errors import DataError
from vrtspike.system.progress_bar import ProgressCallback


def frame_files(folder: Path) -> list[Path]:
    """Return pictures of a folder in the order of the numbers in their names (2 before 10).

    Raises:
        DataError: if the folder does not exist, holds no pictures, or frames are missing between
            them: their names are numbers (after a common prefix) in steps that are not all equal.
    """
    pictures = list_pictures(folder, FRAME_SUFFIXES)
    if not pictures:
        raise DataError(f"{folder}: no folder of frames ({', '.join(FRAME_SUFFIXES)})")
    files = sorted(pictures, key=lambda path: frame_order(path.stem))
    names = [path.stem for path in files]
    step, jumps = find_gaps(names, frame_numbers(names))
    if jumps:
        # Across a missing frame, motion would be twice as fast without any message.
        before, after = jumps[0]
        raise DataError(
            f"{folder}: frame numbers go from {before} to {after}, elsewhere in steps "
            f"of {step} ({len(jumps)} such places): frames are missing, or there twice. Put what "
            "follows a gap into a folder of its own (or the missing frames back); if no frame is "
            "missing, number them without gaps"
        )
    return files


@dataclass(frozen=True)
class FrameFolder:
    """A folder of successive sharp frames, and the sequence that it becomes."""

    path: Path
    split: str
    sequence: str

    @property
    def frames_per_exposure(self) -> int | None:
        """N in the manner of GoPro's names (7 in ``GOPR0372_07_00``); None in other names."""
        match = re.search(r"_(\d\d)_\d\d$", self.sequence)
        return int(match[1]) if match else None


def frame_folders(root: Path, split: str = "train") -> list[FrameFolder]:
    """Return all folders of pictures below a data set of sharp frames.

    GOPRO_Large_all (``train/GOPR0372_07_00/``), X4K1000FPS (``train/002/occ008.320/``,
    ``test/Type1/TEST01_003_f0433/``) and any other tree: the first folder below the root is the
    split, the others together name the sequence.

    Args:
        root: the data set's folder, or a single folder of pictures.
        split: split of folders directly in the root.

    Raises:
        DataError: if there are no pictures.
    """
    folders = []
    for name, subfolders, files in os.walk(root, followlinks=True):
        folder = Path(name)
        # ``walk`` visits only the subfolders that are left in the list.
        subfolders[:] = sorted(_searched_subfolders(folder, subfolders))
        if any(is_picture(file, FRAME_SUFFIXES) for file in files):
            parts = folder.relative_to(root).parts or (root.resolve().name,)
            if len(parts) == 1:
                parts = (split, *parts)
            folders.append(FrameFolder(folder, parts[0], "_".join(parts[1:])))
    if not folders:
        raise DataError(f"{root}: no folders of frames ({', '.join(FRAME_SUFFIXES)}) below it")
    counts = Counter(f"{folder.split}/{folder.sequence}" for folder in folders)
    duplicates = sorted(name for name, count in counts.items() if count > 1)
    if duplicates:
        raise DataError(
            f"{root}: several folders would become {', '.join(duplicates)}; rename them"
        )
    return folders


def _searched_subfolders(folder: Path, names: Iterable[str]) -> list[str]:
    """Return subfolders that are not foreign or hidden, and no links to folders above them."""
    searched = []
    for name in names:
        if name in FOREIGN or name.startswith("."):
            continue
        # Such a link would make a cycle.
        if not folder.resolve().is_relative_to((folder / name).resolve()):
            searched.append(name)
    return searched


def simulate_pairs(
    root: Path,
    files: SequenceFiles,
    folder: Path,
    sensor: SimulatedSensor,
    *,
    progress: ProgressCallback = lambda done, total: None,
) -> int:
    """Write the spikes of a video that has blurry and sharp frames, but no spikes.

    ``spike.dat`` holds the whole video, ``exposures.csv`` the exposure of each frame: from
    half-way to the frame before to half-way to the next one, with the sharp frame in the middle.

    Args:
        root: the data set's folder.
        files: files of the sequence, without faults.
        folder: folder of the files to write.
        sensor: settings of the sensor.
        progress: called with the frames done and their total.

    Returns:
        the number of frames.

    Raises:
        DataError: if frames are unreadable or of several sizes.
    """
    names = sorted(files.sharp, key=frame_order)
    # The scene stands still before the first frame as it does after the last one.
    frames = (read_rgb(root / files.sharp[name]) for name in (names[0], *names))
    intervals = stream_spikes(frames, sensor)
    with atomic_path(folder / STREAM_FILE) as temporary, temporary.open("wb") as stream:
        for done, interval in enumerate(intervals):
            stream.write(pack_spikes(interval))
            progress(done, len(names))
    steps = sensor.STEPS_PER_FRAME
    around_frame = Exposure(-(steps // 2), steps - steps // 2, 0)
    exposures = {}
    for position, name in enumerate(names, start=1):
        exposures[name] = around_frame.moved(steps * position)
    atomic_write_text(folder / EXPOSURE_TABLE, exposure_table(exposures))
    return len(names)


def write_sequence(
    folder: Path,
    frames: Iterable[NDArray[np.uint8]],
    *,
    frames_per_exposure: int,
    sensor: SimulatedSensor = SPK_GOPRO_SENSOR,
    replace: bool = False,
    progress: Callable[[int], None] = lambda done: None,
) -> tuple[int, int]:
    """Write ``blur/``, ``sharp/`` and ``spike/`` of one sequence from successive sharp frames.

    Files of an earlier run are replaced once all frames are written; other files stay. A table
    (``exposures.csv``) gives exposures that differ from those of Spk-GoPro.

    Exposures abut: exposure i averages frames i N to i N + N - 1, its sharp frame is the middle one
    and its spikes run from its first frame to just before the next exposure's. The sensor's charge
    carries over from exposure to exposure.

    Args:
        folder: the sequence's folder.
        frames: uint8 (H, W, 3), in order; only one exposure is held in memory.
        frames_per_exposure: N.
        sensor: the simulated sensor; with a GAMMA (see
            :func:`vrtspike.data.simulation.sensor.synthesize_blur`) the blurry frames go
            to ``blur_gamma/``, as in GoPro.
        replace: remove all other files of the folders.
        progress: called with the frames done.

    Returns:
        the number of exposures, and of frames at the end that did not fill one.

    Raises:
        DataError: if there are fewer frames than one exposure takes, sizes change or are odd, or
            the folders hold other files than the written ones.
    """
    if frames_per_exposure < 1:
        raise DataError(f"{frames_per_exposure} frames per exposure: at least 1 is needed")
    exposure = exposure_of_average(frames_per_exposure, sensor.STEPS_PER_FRAME)
    pictures, filmed = itertools.tee(frames)
    names: list[str] = []
    spikes: list[NDArray[np.bool_]] = []
    blur_name = "blur" if sensor.GAMMA is None else "blur_gamma"
    part_folders = [folder / name for name in (blur_name, "sharp", "spike")]
    with contextlib.ExitStack() as stack:
        temporary = [
            stack.enter_context(replaced_folder(part_folder)) for part_folder in part_folders
        ]
        for done, interval in enumerate(stream_spikes(filmed, sensor), start=1):
            spikes.append(interval)
            progress(done)
            if len(spikes) < frames_per_exposure:
                continue
            exposed = list(itertools.islice(pictures, frames_per_exposure))
            name = f"{len(names) + 1:06d}"
            _write_exposure(temporary, name, exposed, spikes, sensor)
            names.append(name)
            spikes.clear()
        if not names:
            raise DataError(
                f"{folder}: {len(spikes)} frames do not fill one exposure of "
                f"{frames_per_exposure}; give more frames or fewer per exposure"
            )
        if not replace:
            for part_folder, written in zip(part_folders, temporary, strict=True):
                _require_no_others(part_folder, written, len(names))
    if sensor.DOWNSCALE != SPK_GOPRO_SENSOR.DOWNSCALE or gives_size(folder / SENSOR_FILE):
        rows, columns = interval.shape[1:]
        atomic_write_text(folder / SENSOR_FILE, f"spike_h: {rows}\nspike_w: {columns}\n")
    # Without a table exposures are those of Spk-GoPro; an older one must not remain.
    is_usual = exposure == spk_gopro_exposure(exposure.steps)
    if is_usual and sensor.STEPS_PER_FRAME == STEPS_PER_SOURCE_FRAME:
        (folder / EXPOSURE_TABLE).unlink(missing_ok=True)
    else:
        atomic_write_text(folder / EXPOSURE_TABLE, exposure_table(dict.fromkeys(names, exposure)))
    return len(names), len(spikes)


def _write_exposure(
    folders: Sequence[Path],
    name: str,
    frames: Sequence[NDArray[np.uint8]],
    spikes: Sequence[NDArray[np.bool_]],
    sensor: SimulatedSensor,
) -> None:
    """Write the blurry frame, the sharp frame and the spikes of an exposure.

    Args:
        folders: folders of blurry frames, sharp frames and spikes.
        name: name of the files, without suffix.
        frames: frames of the exposure.
        spikes: spikes of the exposure, in parts.
        sensor: settings of the sensor.
    """
    blur, sharp, spike = folders
    (blur / f"{name}.png").write_bytes(encode_png(synthesize_blur(frames, sensor.GAMMA)))
    (sharp / f"{name}.png").write_bytes(encode_png(frames[len(frames) // 2]))
    (spike / f"{name}.dat").write_bytes(pack_spikes(np.concatenate(spikes)))


def _require_no_others(folder: Path, written: Path, count: int) -> None:
    """Reject a folder that is a link or holds other files than the written ones.

    Args:
        folder: the folder that is replaced.
        written: folder with the new files.
        count: number of the written files, for the message.
    """
    others = [path for path in folder.glob("*") if not (written / path.name).exists()]
    if others or folder.is_symlink():
        raise DataError(
            f"{folder}: found {'a link' if folder.is_symlink() else min(others).name}, "
            f"expected nothing but the {count} files that are written again; give "
            "another folder, or remove this one"
        )
