"""Preparation of a clip for a model: checks, and messages, before anything is restored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from vrtspike.restoration.clip_check import check_clip
from vrtspike.restoration.given_clips import GivenClip
from vrtspike.restoration.recording_limits import LimitCheck, check_limits
from vrtspike.restoration.tiling import Tiling

if TYPE_CHECKING:
    from vrtspike.restoration.trained import TrainedModel


@dataclass(frozen=True)
class PreparedClip:
    """A clip that was checked against a model and is ready to be restored.

    Attributes:
        source: the clip as it was given.
        tiling: tiles that it is restored in.
        check: the recording compared with the limits of the model.
        notes: messages for the user on the conversion of frames, and a warning on a recording
            outside the limits.
    """

    source: GivenClip
    tiling: Tiling
    check: LimitCheck
    notes: tuple[str, ...]

    @cached_property
    def doubts(self) -> Mapping[int | None, str]:
        """Messages on spikes that do not fit the frames, see :func:`check_clip`.

        The first use reads every spike file.
        """
        return check_clip(self.source)

    @property
    def is_judged(self) -> bool:
        """True if each restored frame is compared with spikes that the model has not seen.

        Spikes that do not fit the frames cannot rank two pictures.
        """
        return self.check.is_outside and not self.doubts

    @property
    def adapted(self) -> GivenClip:
        """The clip as the model takes it: its spikes averaged if they are too few."""
        return self.check.adapt(self.source)


def prepare_clip(
    model: TrainedModel, source: GivenClip, tiling: Tiling, *, anyway: bool
) -> PreparedClip:
    """Check a clip against a model.

    Args:
        model: trained model that the clip must fit.
        source: the clip.
        tiling: its tiling, such as from :meth:`TrainedModel.tiling`.
        anyway: accept a recording far outside those that the model was trained on, too.

    Raises:
        DataError: if the recording lies far outside, or cannot be read.
    """
    pictures = source.pictures
    place = str(pictures.place)
    check = check_limits(model.limits, source)
    if not anyway:
        check.require_near(place)
    notes = []
    if pictures.conversion:
        notes.append(f"{place}: {pictures.conversion}")
    if pictures.bits > 8 and model.network is None:
        notes.append(
            f"{place}: an ONNX model takes 8 bits: frames are rounded before they are restored"
        )
    if check.is_outside:
        notes.append(check.warning(place))
    return PreparedClip(source, tiling, check, tuple(notes))
