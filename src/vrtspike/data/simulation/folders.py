"""Simulation of whole data sets: folders of sharp frames, or pairs of blurry and sharp videos."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from vrtspike.data.data_source import AUTO, RawFolder
from vrtspike.data.manifests import surveyed_sequences
from vrtspike.data.raw.layouts.files import SequenceFiles
from vrtspike.data.raw.layouts.registry import frame_faults
from vrtspike.data.raw.layouts.spk_gopro import STEPS_PER_SOURCE_FRAME
from vrtspike.data.raw.survey import survey, survey_files
from vrtspike.data.simulation.sensor import SimulatedSensor
from vrtspike.data.simulation.sequence import (
    FrameFolder,
    frame_files,
    frame_folders,
    simulate_pairs,
    write_sequence,
)
from vrtspike.io.images import read_rgb
from vrtspike.system.errors import ConfigError, DataError, list_faults, named_faults
from vrtspike.system.progress_bar import progress_bar

DEFAULT_FRAMES_PER_EXPOSURE = 11
"""Frames of an exposure, unless an option or the name of the folder gives the number."""
STEPS_OF_PAIRS = 88
"""Spike steps from one frame of a pair to the next, unless an option gives the number."""
SPLITS = ("train", "test")
"""Splits of a data set of pairs, if none are given."""


def option_name(key: str) -> str:
    """Return the option of a key.

    >>> option_name("STEPS_PER_FRAME")
    '--steps-per-frame'
    """
    return f"--{key.lower().replace('_', '-')}"


def simulate(
    output: Path,
    sensor: Mapping[str, object],
    *,
    frames: Path | None = None,
    source: Path | None = None,
    pairs: Path | None = None,
    splits: Sequence[str] | None = None,
    layout: str | None = None,
    split: str | None = None,
    sequence: str | None = None,
    frames_per_exposure: int | None = None,
) -> None:
    """Simulate one sequence or many, from one of ``frames``, ``source`` and ``pairs``.

    Args:
        output: folder of the data set; with ``pairs`` the folder of the spikes.
        sensor: values of :class:`SimulatedSensor` by key, as texts or numbers; without
            STEPS_PER_FRAME a default that depends on the source.
        frames: folder of the pictures of one sequence.
        source: folder with many such folders.
        pairs: data set of blurry and sharp frames.
        splits: splits of ``pairs``.
        layout: layout of ``pairs``.
        split: split of sequences whose folder names none.
        sequence: name of the sequence of ``frames``.
        frames_per_exposure: frames averaged into a blurry one.

    Raises:
        ConfigError: naming options that change nothing, or are out of their range.
        DataError: naming folders whose frames cannot be used.
    """
    of_pairs = {"splits": splits, "layout": layout}
    of_frames = {
        "split": split,
        "frames_per_exposure": frames_per_exposure,
        "gamma": sensor.get("GAMMA"),
    }
    if pairs is not None:
        _refuse_unused("pairs", {"sequence": sequence, **of_frames})
        simulated = _read_sensor(sensor, STEPS_OF_PAIRS)
        simulate_spikes_of_pairs(pairs, output, simulated, splits, layout or AUTO)
        return
    simulated = _read_sensor(sensor, STEPS_PER_SOURCE_FRAME)
    if source is not None:
        _refuse_unused("source", {"sequence": sequence, **of_pairs})
        refuse_pairs(source)
        folders = frame_folders(source, split or "train")
    elif frames is not None:
        _refuse_unused("frames", of_pairs)
        folders = [FrameFolder(frames, split or "train", sequence or frames.resolve().name)]
    else:
        raise ConfigError("found no frames, expected one of --frames, --source and --pairs")
    simulate_folders(folders, output, simulated, frames_per_exposure)


def _refuse_unused(source: str, options: Mapping[str, object]) -> None:
    """Reject options that change nothing with a source of frames."""
    names = [option_name(name) for name, value in options.items() if value is not None]
    if names:
        raise ConfigError(
            f"found {' and '.join(names)} with --{source}, which changes nothing there"
        )


def _read_sensor(keys: Mapping[str, object], steps_per_frame: int) -> SimulatedSensor:
    """Return the sensor that options describe.

    Raises:
        ConfigError: if options are out of their range.
    """
    values = dict(keys)
    if values.get("STEPS_PER_FRAME") is None:
        values["STEPS_PER_FRAME"] = steps_per_frame
    try:
        return SimulatedSensor.model_validate(values)
    except ValidationError as error:
        faults = []
        for detail in error.errors():
            options = [option_name(str(name)) for name in detail["loc"]]
            faults.append(": ".join([*options, detail["msg"]]))
        raise ConfigError("; ".join(faults)) from error


def simulate_folders(
    folders: Sequence[FrameFolder],
    output: Path,
    sensor: SimulatedSensor,
    frames_per_exposure: int | None = None,
) -> None:
    """Simulate a sequence from each folder of successive sharp frames.

    Args:
        folders: the folders, with the sequences that they become.
        output: folder of the data set.
        sensor: the simulated sensor, and the averaging of frames.
        frames_per_exposure: frames of a blurry one; None takes the number in the name of the
            folder, or :data:`DEFAULT_FRAMES_PER_EXPOSURE`.

    Raises:
        DataError: with the faults of all folders. Faulty frames are found before anything is
            written, because a simulation takes long.
    """
    _for_each(
        folders,
        lambda folder: _require_usable_frames(folder, output),
        "folders that cannot be simulated, nothing was written",
        "Fix these and run again.",
    )
    _for_each(
        folders,
        lambda folder: _simulate_folder(folder, output, sensor, frames_per_exposure),
        "folders that could not be simulated",
        "The other folders are done; fix these and run again.",
    )


def refuse_pairs(root: Path) -> None:
    """Reject a data set with blurry frames, which would be taken for sharp ones.

    Raises:
        DataError: naming its layout.
    """
    try:
        layout = survey(RawFolder(root), SPLITS)["layout"]
    except DataError:  # no known layout
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
) -> None:
    """Simulate the spikes of all sequences of a data set that has none.

    Each sequence has a seed of its own, counted from that of ``sensor``.

    Args:
        root: folder of the data set.
        output: folder of the spikes, for DATA.SPIKE_ROOT.
        sensor: settings of the sensor.
        splits: splits of the data set; None takes those of :data:`SPLITS` that hold sequences.
        layout: layout of the data set.

    Raises:
        DataError: if it has spikes, or sequences with faults; then nothing is written.
    """
    title = f"{root}: nothing was simulated"
    files = _sound_sequences(root, splits, layout, title)
    # All sequences are checked before the first is simulated, which takes long.
    frame_errors = named_faults({name: frame_faults(frames) for name, frames in files.items()})
    if frame_errors:
        raise DataError(list_faults(title, frame_errors, "Fix these."))
    for index, (name, sequence) in enumerate(files.items()):
        folder = output / name
        seeded = sensor.model_copy(update={"SEED": sensor.SEED + index})
        with progress_bar(f"simulate {name}") as progress:
            count = simulate_pairs(root, sequence, folder, seeded, progress=progress)
        print(f"{folder}: spikes of {count} frames")


def _sound_sequences(
    root: Path, splits: Sequence[str] | None, layout: str, title: str
) -> dict[str, SequenceFiles]:
    """Return the files of a data set without spikes, and print the faults of those left out.

    Faulty sequences are left out if their split was not asked for and has no sound one.

    Args:
        root: as for :func:`simulate_spikes_of_pairs`, likewise ``splits`` and ``layout``.
        title: first line of an error on faulty sequences.

    Returns:
        the files of each sequence, by ``<split>/<name>``.

    Raises:
        DataError: if the data set has spikes, or faulty sequences that are not left out.
    """
    data_survey, files = survey_files(RawFolder(root, layout=layout), splits or SPLITS)
    if data_survey["spikes"]:
        raise DataError(f"{root}: has spikes already; expected a data set without any")
    required = set(splits or {sequence["split"] for sequence in data_survey["sequences"]})
    faulty = {}
    left_out = {}
    for name, faults in data_survey["excluded"].items():
        split, _, _ = name.rpartition("/")
        if name in required or split in required:
            faulty[name] = faults
        else:
            left_out[name] = faults
    if faulty:
        advice = "Fix them, or leave their split out."
        raise DataError(list_faults(title, named_faults(faulty), advice))
    for fault in named_faults(left_out):
        print(f"left out: {fault}")
    return {name: files[name] for name in surveyed_sequences(data_survey)}


def _for_each(
    folders: Sequence[FrameFolder], action: Callable[[FrameFolder], None], title: str, advice: str
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


def _require_usable_frames(source: FrameFolder, output: Path) -> None:
    """Reject frames that cannot be simulated, or that the results would replace."""
    frame_files(source.path)
    folder = output / source.split / source.sequence
    if source.path.resolve().is_relative_to(folder.resolve()):
        raise DataError(f"{source.path}: the output would replace these frames; choose another")


def _simulate_folder(
    source: FrameFolder, output: Path, sensor: SimulatedSensor, frames_per_exposure: int | None
) -> None:
    """Simulate one sequence, see :func:`simulate_folders`."""
    folder = output / source.split / source.sequence
    length = frames_per_exposure or source.frames_per_exposure or DEFAULT_FRAMES_PER_EXPOSURE
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
    print(line)
