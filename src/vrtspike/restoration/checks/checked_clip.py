"""A clip with the results of all checks that a restoration makes before it computes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from vrtspike.data.clips.recording_limits import RecordingLimits
from vrtspike.restoration.checks.limit_check import LimitCheck, compare_with_limits
from vrtspike.restoration.checks.spike_fit import find_spike_mismatches
from vrtspike.restoration.inputs.input_clip import InputClip


@dataclass(frozen=True)
class CheckedClip:
    """A clip that may be restored, from :func:`check_clip`.

    Attributes:
        source: the clip as it was given.
        limit_check: the recording compared with those that the model was trained on.
        notes: messages for the user on the conversion of frames, and a warning on a recording
            outside the limits.
    """

    source: InputClip
    limit_check: LimitCheck
    notes: tuple[str, ...]

    @cached_property
    def doubts(self) -> Mapping[int | None, str]:
        """Messages on spikes that do not fit the frames, see :func:`find_spike_mismatches`.

        The first use reads every spike file.
        """
        return find_spike_mismatches(self.source)

    @property
    def is_judged(self) -> bool:
        """True if each restored frame is compared with spikes that the model has not seen.

        Spikes that do not fit the frames cannot rank two pictures.
        """
        return self.limit_check.is_outside and not self.doubts


def check_clip(
    source: InputClip, trained: RecordingLimits | None, *, keeps_16_bits: bool, anyway: bool
) -> CheckedClip:
    """Check a clip against the recordings that a model was trained on.

    Args:
        source: the clip.
        trained: the ranges of these recordings; None if they were not stored.
        keeps_16_bits: True if the model restores frames of 16 bits without rounding them first.
        anyway: also accept a recording far outside the ranges.

    Raises:
        DataError: if the recording lies far outside, or cannot be read.
    """
    clip_frames = source.frames
    location = clip_frames.location
    limit_check = compare_with_limits(trained, source)
    if not anyway:
        limit_check.require_near(location)
    notes = []
    if clip_frames.conversion:
        notes.append(f"{location}: {clip_frames.conversion}")
    if clip_frames.bits > 8 and not keeps_16_bits:
        notes.append(
            f"{location}: an ONNX model takes 8 bits: frames are rounded before they are restored"
        )
    if limit_check.is_outside:
        notes.append(limit_check.warning(location))
    return CheckedClip(source, limit_check, tuple(notes))
