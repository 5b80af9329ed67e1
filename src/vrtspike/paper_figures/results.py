"""The results that figures show: restored frames of models, their clips and the PSNR of frames."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from vrtspike.data.rgb_images import Image
from vrtspike.system.errors import ConfigError, DataError
from vrtspike.system.suggestions import did_you_mean

FRAME_COLUMNS = ["sequence", "frame", "psnr_blur", "psnr"]
"""Columns of a table of PSNR by frame: names, PSNR of the blurry and of the restored frame."""

MAX_PSNR_DIFFERENCE = 0.01
"""Maximum difference in dB of a blurry frame's PSNR between two results of the same frames."""


@dataclass(frozen=True)
class Clip:
    """A sequence that was restored; frames are read by their names.

    Attributes:
        name: name of the sequence.
        frames: names of the frames that can be read, in order.
        blurry: returns a blurry frame.
        sharp: returns the sharp frame; None if there are none.
        spikes: returns the picture from the spikes of the instant, uint8 (h, w) of the sensor's
            size; None without spikes.
        motion: returns the length of the motion during the exposure in pixels of the frame; None
            without spikes.
        is_complete: no frame of the sequence is missing.
    """

    name: str
    frames: Sequence[str]
    blurry: Callable[[str], Image]
    sharp: Callable[[str], Image] | None = None
    spikes: Callable[[str], NDArray[np.uint8]] | None = None
    motion: Callable[[str], float] | None = None
    is_complete: bool = True


@dataclass(frozen=True)
class Cost:
    """Quality and cost of a model.

    Attributes:
        psnr: mean in dB.
        parameters: their number; None if unknown.
        seconds: for each frame; None if unknown.
        device: device that computed, ``cpu`` or ``cuda``.
        dataset: name of the test data.
        protocol: protocol that PSNR was measured under.
    """

    psnr: float
    parameters: float | None
    seconds: float | None
    device: str
    dataset: str
    protocol: str


@dataclass(frozen=True)
class ModelResult:
    """Restored frames of one model.

    Attributes:
        label: name in figures.
        source: folder, for messages.
        clips: restored sequences by name.
        restored: returns restored frames by the names of the sequence and of the frames, in order.
        frame_psnr: a row for each measured frame, :data:`FRAME_COLUMNS`; may be empty.
        cost: None if it was not measured.
        notes: sentences about what is missing.
    """

    label: str
    source: str
    clips: Mapping[str, Clip]
    restored: Callable[[str, Sequence[str]], Iterator[Image]]
    frame_psnr: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=FRAME_COLUMNS))
    cost: Cost | None = None
    notes: Sequence[str] = ()


def common_sequences(results: Sequence[ModelResult]) -> list[str]:
    """The sequences of all results, in the order of the first."""
    first, *others = results
    return [name for name in first.clips if all(name in other.clips for other in others)]


def common_frames(results: Sequence[ModelResult], sequence: str) -> list[str]:
    """The frames of a sequence that all results have, in order."""
    first, *others = (result.clips[sequence] for result in results)
    return [name for name in first.frames if all(name in other.frames for other in others)]


def is_complete(results: Sequence[ModelResult], sequence: str) -> bool:
    """Return whether all results have all frames of a sequence."""
    return all(result.clips[sequence].is_complete for result in results)


def require_sequence(results: Sequence[ModelResult], sequence: str, option: str) -> None:
    """Refuse a sequence that not all results have.

    Args:
        results: at least one.
        sequence: name of the sequence.
        option: text of the option that names it, for the message.

    Raises:
        ConfigError: with the sequences that all have.
    """
    names = common_sequences(results)
    if sequence not in names:
        raise ConfigError(
            f"{option}: no sequence {sequence!r}{did_you_mean(sequence, names)}; sequences of all "
            f"results: {', '.join(names) or 'none'}"
        )


def require_frame(results: Sequence[ModelResult], sequence: str, frame: str, option: str) -> None:
    """Refuse a frame that not all results have; arguments as for :func:`require_sequence`.

    Raises:
        ConfigError: with the first and the last frame of the sequence.
    """
    require_sequence(results, sequence, option)
    names = common_frames(results, sequence)
    if frame in names:
        return
    kept = "" if is_complete(results, sequence) else " kept as examples"
    valid = "none"
    if names:
        valid = f"{len(names)}, {names[0]} to {names[-1]}"
    raise ConfigError(
        f"{option}: no frame {frame!r} in sequence {sequence}{did_you_mean(frame, names)}; frames "
        f"of all results{kept}: {valid}"
    )


def common_blurry_frame(results: Sequence[ModelResult], sequence: str, frame: str) -> Image:
    """The blurry frame of all results.

    Raises:
        DataError: if two results have different blurry frames of this name.
    """
    first, *others = results
    blurry = first.clips[sequence].blurry(frame)
    for other in others:
        if not np.array_equal(blurry, other.clips[sequence].blurry(frame)):
            raise DataError(
                f"{first.source} and {other.source}: different blurry frames {sequence}/{frame}; "
                "give results of the same frames"
            )
    return blurry


def common_sharp_frame(results: Sequence[ModelResult], sequence: str, frame: str) -> Image | None:
    """The sharp frame of the first result that has one; None without any."""
    for result in results:
        sharp = result.clips[sequence].sharp
        if sharp is not None:
            return sharp(frame)
    return None


def joined_frame_psnr(results: Sequence[ModelResult]) -> pd.DataFrame:
    """The PSNR of the frames of all results, a row for each model and frame.

    Returns:
        ``sequence``, ``frame``, ``number`` (from 1), ``model``, ``psnr_blur``, ``psnr`` and
        ``gain`` in dB; frames that not all measured results have are left out.

    Raises:
        DataError: if the blurry frames of two results have different PSNR.
    """
    tables = []
    for result in results:
        if len(result.frame_psnr):
            tables.append(result.frame_psnr[FRAME_COLUMNS].assign(model=result.label))
    if not tables:
        return pd.DataFrame(columns=[*FRAME_COLUMNS, "number", "model", "gain"])
    table = pd.concat(tables, ignore_index=True)
    keys = ["sequence", "frame"]
    groups = table.groupby(keys, sort=False)
    table = table[groups["model"].transform("size") == len(tables)]
    spread = table.groupby(keys, sort=False)["psnr_blur"].agg(np.ptp).fillna(0.0)
    if len(spread) and spread.max() > MAX_PSNR_DIFFERENCE:
        sequence, frame = spread.index[int(spread.to_numpy().argmax())]
        raise DataError(
            f"{', '.join(result.source for result in results)}: the blurry frame "
            f"{sequence}/{frame} differs by {spread.max():.2f} dB between results; give results "
            "of the same frames, or another --protocol"
        )
    numbers = table.groupby(["model", "sequence"], sort=False).cumcount() + 1
    return table.assign(number=numbers, gain=table["psnr"] - table["psnr_blur"])
