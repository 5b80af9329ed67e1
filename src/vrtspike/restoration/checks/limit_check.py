"""Comparison of a recording with the limits of a model, and restoration outside of them.

The gain, the brightness of one spike, matters most. Its ratio to the largest gain in training is
the *grain*. The thresholds were measured with the demo's light model (docs/metrics-evidence.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from vrtspike.data.clips.recording_limits import RecordingLimits
from vrtspike.data.rgb_images import Image
from vrtspike.io.images import to_8_bit
from vrtspike.restoration.checks.no_reference import unseen_agreement
from vrtspike.restoration.inputs.clip_source import ClipSource
from vrtspike.restoration.inputs.clip_spikes import SIMULATED
from vrtspike.restoration.inputs.input_clip import InputClip
from vrtspike.system.errors import DataError, list_faults

TOLERANCES = {"gain": 1.25, "rate": 1.5, "ratio": 1.0, "steps": 1.25}
"""Factor by which a recording may lie outside a range without a message: scenes differ."""

POOLED_FROM = 2.25
"""Grain from which spikes are averaged over 3 x 3 pixels."""

MAX_GRAIN = 5.0
"""Largest grain at which a recording is still restored."""

MAX_RATIO = 3.0
"""Largest ratio of frame size to sensor size, relative to that of the training, that is
restored."""

POOLED = 3
"""Side of the square of sensor pixels that spikes are averaged over."""

_TITLES = {
    "gain": "gain",
    "rate": "mean rate",
    "ratio": "frame size / sensor size",
    "steps": "steps of an exposure",
}


@dataclass(frozen=True)
class LimitCheck:
    """A recording compared with the limits of a model.

    Attributes:
        trained: the limits; None for a model that has none.
        recording: the ranges of the recording; None if they were not compared.
        messages: one for each range that the recording lies outside of.
        grain: gain over the largest of the training; None if they were not compared.
    """

    trained: RecordingLimits | None = None
    recording: RecordingLimits | None = None
    messages: tuple[str, ...] = ()
    grain: float | None = None

    @property
    def is_outside(self) -> bool:
        """True if the recording lies outside of a range."""
        return bool(self.messages)

    @property
    def is_pooled(self) -> bool:
        """True if spikes are too few for single pixels."""
        return self.grain is not None and self.grain >= POOLED_FROM

    def require_near(self, location: str) -> None:
        """Reject a recording so far outside that restored frames would be no better.

        Args:
            location: the recording.

        Raises:
            DataError: naming each range.
        """
        reasons = []
        if self.grain is not None and self.grain > MAX_GRAIN:
            reasons.append(
                f"a spike stands for {self.grain:.2g} times as much brightness as in the coarsest "
                f"of them, and at most {MAX_GRAIN:g} times are restored"
            )
        if self.trained is not None and self.recording is not None:
            factor = self.recording.ratio[1] / self.trained.ratio[1]
            if factor > MAX_RATIO:
                reasons.append(
                    f"the sensor is {factor:.2g} times as coarse, and at most {MAX_RATIO:g} times "
                    "are restored"
                )
        if not reasons:
            return
        title = f"{location}: far outside the recordings that the model was trained on: "
        title += "; ".join(reasons)
        advice = (
            "Restored frames would be no better than the blurry ones. Take a model that was "
            "trained on such recordings (DATA.THRESHOLD_AUGMENT raises its gains), or restore them "
            "all the same (anyway)."
        )
        raise DataError(list_faults(title, self.messages, advice))

    def warning(self, location: str) -> str:
        """Return the message before a recording outside the limits is restored."""
        advice = "Restored frames may be worse than the blurry ones."
        if self.is_pooled:
            advice += (
                f" Spikes are averaged over {POOLED} x {POOLED} pixels, as they are too few for "
                "single ones."
            )
        title = f"warning: {location}: outside the recordings that the model was trained on"
        return list_faults(title, self.messages, advice)

    def contents(self) -> dict[str, Any]:
        """Return JSON values for the record."""
        return {
            "trained": None if self.trained is None else self.trained.contents(),
            "recording": None if self.recording is None else self.recording.contents(),
            "outside": list(self.messages),
            "grain": self.grain,
            "pooled": POOLED if self.is_pooled else 1,
        }

    def adapt(self, clip: InputClip) -> ClipSource:
        """Return the clip as input of the model: its spikes averaged if they are too few."""
        return PooledClip(clip) if self.is_pooled else clip


class PooledClip(ClipSource):
    """A clip whose spikes are averaged over squares of pixels.

    Counts stay integers: they and the steps of their bins are multiplied by the same number.
    """

    def __init__(self, clip: InputClip) -> None:
        super().__init__(clip.names, clip.size, clip.ratio)
        self.bits = clip.bits
        self._clip = clip

    def blurry_frames(self, frames: slice) -> NDArray[Any]:
        """Return consecutive frames of the clip."""
        return self._clip.blurry_frames(frames)

    def count_spikes(self, frames: slice) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
        """Return averaged counts, and the steps of their bins."""
        counts, bin_steps = self._clip.count_spikes(frames)
        factor = min(POOLED**2, 255 // int(bin_steps.max()))
        return _pool(counts, factor), (factor * bin_steps.astype(np.int64)).astype(np.uint8)

    def gain(self) -> float | None:
        """Return the gain of the clip."""
        return self._clip.gain()


def compare_with_limits(limits: RecordingLimits | None, clip: InputClip) -> LimitCheck:
    """Compare a recording with the limits of a model; reads all frames and spikes.

    Nothing is compared without limits, without spikes, or with simulated spikes.

    Raises:
        DataError: if frames or spikes cannot be read.
    """
    if limits is None or clip.spikes is None or clip.spikes.origin == SIMULATED:
        return LimitCheck(limits)
    gain = clip.gain()
    rate = clip.rate()
    assert gain is not None, "a clip with spikes has a gain"
    assert rate is not None, "a clip with spikes has a rate"
    ratio = float(clip.ratio)
    steps = [spikes.exposure.steps for spikes in clip.spikes.frames]
    recording = RecordingLimits(
        (gain, gain), (rate, rate), (ratio, ratio), (min(steps), max(steps))
    )
    messages = []
    for name in TOLERANCES:
        message = _deviation(name, getattr(recording, name), getattr(limits, name))
        if message:
            messages.append(message)
    grain = gain / limits.gain[1]
    return LimitCheck(limits, recording, tuple(messages), grain)


def is_worse(clip: InputClip, index: int, restored: Image | NDArray[np.uint16]) -> bool:
    """Return True if a restored frame fits unseen spikes less than the blurry one.

    Args:
        clip: clip with recorded spikes.
        index: number of the frame.
        restored: (H, W, 3), 8 or 16 bits.

    Returns:
        False also if the model has seen everything that was recorded.
    """
    frames = [clip.frames.frame(index), to_8_bit(restored)]
    agreements = unseen_agreement(clip, index, frames)
    return agreements is not None and agreements[1] < agreements[0]


def kept_frames_warning(names: Sequence[str]) -> str:
    """Return the message on frames that stay blurry."""
    title = "warning: frames that were restored worse than the blurry ones"
    advice = (
        "They fit spikes that the model has not seen less than the blurry frames, which are given "
        "back in their place."
    )
    return list_faults(title, names, advice, limit=10)


def _deviation(name: str, values: tuple[float, float], trained: tuple[float, float]) -> str:
    """Return the message on a range that values lie outside of; empty if they lie inside."""
    low, high = trained
    tolerance = TOLERANCES[name]
    excess = values[1] / high
    shortfall = low / values[0]
    if max(excess, shortfall) <= tolerance:
        return ""
    if excess > shortfall:
        value = values[1]
        distance = f"{excess:.2g} times the largest"
    else:
        value = values[0]
        distance = f"{1 / shortfall:.2g} times the smallest"
    trained_on = f"{low:.3g}"
    if f"{high:.3g}" != trained_on:
        trained_on += f" to {high:.3g}"
    return f"{_TITLES[name]} {value:.3g}, trained on {trained_on} ({distance})"


def _pool(counts: NDArray[np.uint8], factor: int) -> NDArray[np.uint8]:
    """Return means over squares of pixels, multiplied and rounded: uint8 (T, K, h, w)."""
    pooled = np.empty_like(counts)
    size = (POOLED, POOLED)
    for source, target in zip(counts, pooled, strict=True):
        for plane, result in zip(source, target, strict=True):
            mean = cv2.blur(plane.astype(np.float32), size, borderType=cv2.BORDER_REFLECT_101)
            result[:] = np.rint(factor * mean)
    return pooled
