"""Requirements of the control with shuffled spikes (MODEL.SPIKE_ORDER) on other keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vrtspike.settings.data import DataSettings
    from vrtspike.settings.evaluation import TestSettings

MIN_TRAINED_FRAMES = 3
"""Frames of the shortest training clips without neighbours: two frames can only be swapped, an
order that a model learns as easily as the recorded one."""
MIN_RESTORED_FRAMES = 2
"""Frames of the shortest temporal window of a restoration."""


def require_other_spikes(data: DataSettings, test: TestSettings) -> None:
    """Reject clips in which a frame could get no spikes but those of its own exposure.

    Raises:
        ValueError: naming the keys.
    """
    if data.CONTEXT_STEPS:
        raise ValueError(
            f"MODEL.SPIKE_ORDER is shuffled and DATA.CONTEXT_STEPS is {data.CONTEXT_STEPS}; "
            "expected 0, because the spikes of another frame would include some of the frame's own "
            "exposure: set DATA.CONTEXT_STEPS to 0 in all models that you compare"
        )
    if not data.NEIGHBOURS:
        _require_frames("DATA.CLIP_LEN", data.CLIP_LEN, MIN_TRAINED_FRAMES)
    window = test.TILE.FRAMES or data.CLIP_LEN
    _require_frames("TEST.TILE.FRAMES (null: DATA.CLIP_LEN)", window, MIN_RESTORED_FRAMES)


def _require_frames(name: str, frames: int, min_frames: int) -> None:
    """Reject clips without other frames whose spikes a frame could get.

    Raises:
        ValueError: naming the key.
    """
    if frames < min_frames:
        raise ValueError(
            f"MODEL.SPIKE_ORDER is shuffled and {name} is {frames}; expected {min_frames} or "
            f"more, so that there are other frames' spikes to give: raise {name}, or set "
            "MODEL.SPIKE_ORDER to recorded"
        )
