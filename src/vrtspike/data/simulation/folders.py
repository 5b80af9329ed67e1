"""Simulation of whole data sets: folders of sharp frames, or pairs of blurry and sharp videos."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

from vrtspike.data.raw.layouts.registry import AUTO, find_sequence, frame_faults
from vrtspike.data.raw.survey import survey
from vrtspike.data.simulation.sensor import SimulatedSensor
from vrtspike.data.simulation.sequence import (
    FrameFolder,
    frame_files,
    simulate_pairs,
    write_sequence,
)
from vrtspike.io.images import read_rgb
from vrtspike.system.errors import DataError, list_faults, named_faults
from vrtspike.system.progress_bar import progress_bar

FRAMES_PER_EXPOSURE = 11
"""Frames of an exposure, unless an option or the name of the folder gives the number."""
SPLITS = ("train", "test")
"""Splits of a data set of pairs, if none are given."""


def simulate_folders(
    folders: Sequence[FrameFolder],
    output: Path,
    sensor: SimulatedSensor,
    frames_per_exposure: int | None = None,
    show: Callable[[str], None] = print,
) -> None:
    """Simulate a sequence from each folder of successive sharp frames.

    Args:
        folders: the folders, with the sequences that they become.
        output: folder of the data set.
        sensor: the simulated sensor, and the averaging of frames.
        frames_per_exposure: frames of a blurry one; None takes the number in the name of the
            folder, or :data:`FRAMES_PER_EXPOSURE`.
        show: called with a line for each sequence.

    Raises:
        DataError: with the faults of all folders. Faulty frames are found before anything is
            written, because a simulation takes long.
    """
    _for_each(
        folders,
        lambda folder: _check_folder(folder, output),
        "folders that cannot be simulated, nothing was written",
        "Fix these and run again.",
    )
    _for_each(
        folders,
        lambda folder: _simulate_folder(folder, output, sensor, frames_per_exposure, show),
        "folders that could not be simulated",
        "The other folders are done; fix these and run again.",
    )


def refuse_pairs(root: Path, splits: Sequence[str] = SPLITS) -> None:
    """Refuse a data set with blurry frames, which would be taken for sharp ones.

    Raises:
        DataError: naming its layout.
    """
    for split in splits:
        with contextlib.suppress(DataError):  # no known layout
            layout = survey(root, [split], "blur")["layout"]
            break
    else:
        return
    raise DataError(
        f"{root}: found blurry frames beside sharp ones (layout {layout}), expected folders of "
        "sharp frames only; scripts/simulate.py --pairs simulates the spikes of such a data set"
    )


def simulate_spikes_of_pairs(
    root: Path,
    output: Path,
    sensor: SimulatedSensor,
    splits: Sequence[str] | None = None,
    layout: str = AUTO,
    show: Callable[[str], None] = print,
) -> None:
    """Simulate the spikes of all sequences of a data set that has none.

    Each sequence has a seed of its own, counted from that of ``sensor``.

    Args:
        root: folder of the data set.
        output: folder of the spikes, for DATA.SPIKE_ROOT.
        sensor: settings of the sensor.
        splits: splits of the data set; None takes those of :data:`SPLITS` that hold sequences.
        layout: layout of the data set.
        show: called with a line for each sequence, and for each split that is left out.

    Raises:
        DataError: if it has spikes, or sequences with faults; then nothing is written.
    """
    title = f"{root}: nothing was simulated"
    names, left_out = _sound_sequences(root, splits, layout, title)
    for fault in left_out:
        show(f"left out: {fault}")
    files = {name: find_sequence(root, name, "blur", layout) for name in names}
    # All sequences are checked before the first is simulated, which takes long.
    frame_errors = named_faults({name: frame_faults(frames) for name, frames in files.items()})
    if frame_errors:
        raise DataError(list_faults(title, frame_errors, "Fix these."))
    for number, name in enumerate(names):
        folder = output / name
        seeded = sensor.model_copy(update={"SEED": sensor.SEED + number})
        with progress_bar(f"simulate {name}") as progress:
            count = simulate_pairs(root, files[name], folder, seeded, progress=progress)
        show(f"{folder}: spikes of {count} frames")


def _sound_sequences(
    root: Path, splits: Sequence[str] | None, layout: str, title: str
) -> tuple[list[str], list[str]]:
    """Return the sequences of a data set without spikes, and the faults of those left out.

    Faulty sequences are left out if their split was not asked for and has no sound one.

    Args:
        root: as for :func:`simulate_spikes_of_pairs`, likewise ``splits`` and ``layout``.
        title: first line of an error on faulty sequences.

    Raises:
        DataError: if the data set has spikes, or faulty sequences that are not left out.
    """
    surveyed = survey(root, splits or SPLITS, "blur", layout)
    if surveyed["spikes"]:
        raise DataError(f"{root}: has spikes already; expected a data set without any")
    sequences = surveyed["sequences"]
    required = set(splits or {sequence["split"] for sequence in sequences})
    faulty = {}
    left_out = {}
    for name, faults in surveyed["excluded"].items():
        split, _, _ = name.rpartition("/")
        if name in required or split in required:
            faulty[name] = faults
        else:
            left_out[name] = faults
    if faulty:
        advice = "Fix them, or leave their split out."
        raise DataError(list_faults(title, named_faults(faulty), advice))
    names = [f"{sequence['split']}/{sequence['name']}" for sequence in sequences]
    return names, named_faults(left_out)


def _for_each(
    folders: Sequence[FrameFolder],
    action: Callable[[FrameFolder], None],
    title: str,
    advice: str,
) -> None:
    """Call a function with each folder, and collect the faults.

    Raises:
        DataError: at the end, with the faults of all folders.
    """
    faults = []
    for folder in folders:
        try:
            action(folder)
        except DataError as error:
            message = str(error).removeprefix(f"{folder.path}: ")
            faults.append(f"{folder.path}: {message}")
    if faults:
        raise DataError(list_faults(title, faults, advice))


def _check_folder(source: FrameFolder, output: Path) -> None:
    """Refuse frames that cannot be simulated, or that the results would replace.

    Raises:
        DataError: naming the folder.
    """
    frame_files(source.path)
    folder = output / source.split / source.sequence
    if source.path.resolve().is_relative_to(folder.resolve()):
        raise DataError(f"{source.path}: the output would replace these frames; choose another")


def _simulate_folder(
    source: FrameFolder,
    output: Path,
    sensor: SimulatedSensor,
    frames_per_exposure: int | None,
    show: Callable[[str], None],
) -> None:
    """Simulate one sequence, see :func:`simulate_folders`."""
    folder = output / source.split / source.sequence
    length = frames_per_exposure or source.frames_per_exposure or FRAMES_PER_EXPOSURE
    files = frame_files(source.path)
    with progress_bar(f"simulate {source.split}/{source.sequence}") as progress:
        exposures, left = write_sequence(
            folder,
            map(read_rgb, files),
            frames_per_exposure=length,
            sensor=sensor,
            progress=lambda done: progress(done, len(files)),
        )
    line = f"{folder}: {exposures} exposures from {exposures * length} frames"
    if left:
        line += f", {left} frames left over"
    show(line)
