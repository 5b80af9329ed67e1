"""A clip after the checks for a model, before anything is restored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from vrtspike.restoration.checks.clip_check import check_clip
from vrtspike.restoration.checks.outside_training import LimitCheck
from vrtspike.restoration.given_clips import GivenClip
from vrtspike.restoration.inference.tiling import Tiling


@dataclass(frozen=True)
class PreparedClip:
    """A clip that was checked against a model and is ready to be restored.

    Attributes:
        source: the clip as it was given.
        tiling: windows that its frames are restored in.
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
