"""Check that recorded spikes fit the frames of a clip, in contents and in time."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import numpy as np
from numpy.typing import NDArray

from vrtspike.data.checks.alignment import align, center_tolerance, mismatch, misplacement
from vrtspike.data.exposure import EXPOSURE_TABLE
from vrtspike.io.images import luma
from vrtspike.restoration.inputs.clip_spikes import ClipSpikes
from vrtspike.restoration.inputs.input_clip import InputClip
from vrtspike.system.errors import list_faults

_TIMED_FRAMES = 8
"""Approximate number of frames whose time is checked."""
_FAR_REACH = 4.0
"""Exposures before and after its own in which a frame is searched if its spikes do not fit."""
_SINGLE_FRAME = 2.0
"""Tolerance of a single frame, as a multiple of that of a whole clip: its time is less certain."""


def find_spike_mismatches(clip: InputClip) -> dict[int | None, str]:
    """Check the spikes of a clip against its frames.

    Reads every spike file. An exposure of a single step is left out: it is not a picture that could
    be compared.

    Returns:
        messages by number of the frame: on frames that their spikes do not show or that their
        exposures miss. The message on wrong exposures of the whole clip has None for a number.
    """
    spikes = clip.spikes
    if spikes is None:
        return {}
    compared = [
        number
        for number, frame in enumerate(spikes.frames)
        if frame.path is not None and frame.exposure.steps >= 2
    ]
    if not compared:
        return {}
    mismatches = _mismatches(clip, spikes, compared)
    timed = compared[:: max(1, len(compared) // _TIMED_FRAMES)]
    offsets = _offsets(clip, spikes, timed)
    tolerance = center_tolerance(spikes.frames[compared[0]].exposure.steps)
    distances = [abs(offset) for offset in offsets.values()]
    if distances and median(distances) > tolerance:
        whole = (
            f"{spikes.location}: frames are most like the spikes {median(distances):.0f} steps "
            f"from their exposures; give the right ones by {EXPOSURE_TABLE} or another layout"
        )
        doubts: dict[int | None, str] = dict(mismatches.items())
        doubts[None] = whole
        return doubts
    doubts_of_frames = dict(mismatches)
    if len(mismatches) < len(compared) / 2:
        # The other frames fit, so a single exposure is wrong, not the sensor or the whole table.
        single = list(mismatches)[:_TIMED_FRAMES]
        offsets |= _offsets(clip, spikes, single, reach=_FAR_REACH)
        for number, offset in offsets.items():
            limit = tolerance if number in mismatches else _SINGLE_FRAME * tolerance
            if abs(offset) > limit:
                doubts_of_frames[number] = _wrong_exposure(clip, spikes, number, offset)
    return {number: doubts_of_frames[number] for number in sorted(doubts_of_frames)}


def doubts_message(doubts: Sequence[str]) -> str:
    """Return the warning on spikes that do not fit the frames.

    Args:
        doubts: messages from :func:`find_spike_mismatches`.
    """
    title = "warning: spikes that do not fit"
    advice = "The frames are restored all the same; do not trust these."
    return list_faults(title, doubts, advice, limit=10)


def _gray(clip: InputClip, index: int) -> NDArray[np.uint8]:
    return luma(clip.frames.frame(index)).astype(np.uint8)


def _mismatches(clip: InputClip, spikes: ClipSpikes, indices: Sequence[int]) -> dict[int, str]:
    """Return messages on the frames that their spikes do not show, by number."""
    size = (int(clip.size[0] / clip.ratio), int(clip.size[1] / clip.ratio))
    faults = {}
    for number in indices:
        frame = spikes.frames[number]
        alignment = align(frame.read(frame.exposure), _gray(clip, number), blurry=True)
        fault = mismatch(alignment, str(frame.path), clip.frames.describe(number), size)
        if fault:
            faults[number] = fault
    return faults


def _offsets(
    clip: InputClip, spikes: ClipSpikes, indices: Sequence[int], reach: float = 0.5
) -> dict[int, float]:
    """Return steps from the exposures of frames to the spikes most like them.

    Args:
        clip: the frames.
        spikes: recorded or simulated spikes of these frames.
        indices: numbers of the frames to locate.
        reach: part of an exposure that is searched before and after it.

    Returns:
        offsets by number of the frame; frames that cannot be located are left out.
    """
    offsets = {}
    for number in indices:
        frame = spikes.frames[number]
        recorded, exposure = frame.around(int(reach * frame.exposure.steps))
        offset = misplacement(recorded, _gray(clip, number), exposure)
        if offset is not None:
            offsets[number] = offset
    return offsets


def _wrong_exposure(clip: InputClip, spikes: ClipSpikes, index: int, offset: float) -> str:
    """Return the message on a single frame whose exposure is wrong."""
    frame = spikes.frames[index]
    table = next((path for path in spikes.files if path.name == EXPOSURE_TABLE), None)
    if table is None:
        location = frame.path
        advice = "check this file"
    else:
        location = table
        advice = "correct its line"
    direction = "later" if offset > 0 else "earlier"
    exposure = frame.exposure
    return (
        f"{location}, frame {clip.names[index]}: found the exposure of steps {exposure.start} to "
        f"{exposure.stop - 1}, but the frame is most like the spikes {abs(offset):.0f} steps "
        f"{direction}, while other frames fit their exposures; {advice}"
    )
