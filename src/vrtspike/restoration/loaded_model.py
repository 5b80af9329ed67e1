"""A trained model in memory, as the steps of a restoration use it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from vrtspike.data.clips.recording_limits import RecordingLimits
from vrtspike.data.store.voxels import Statistics
from vrtspike.restoration.checks.clip_check import find_doubts
from vrtspike.restoration.checks.outside_training import LimitCheck, compare_with_limits, is_worse
from vrtspike.restoration.inference.tiling import TileRestorer, Tiling, fit_tiling
from vrtspike.restoration.inputs.given_clip import GivenClip
from vrtspike.restoration.restore import restore_frames
from vrtspike.runs.identity import RunIdentity
from vrtspike.settings import Settings, deblurring_settings
from vrtspike.system.errors import DataError
from vrtspike.system.progress_bar import ProgressCallback


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
        """Messages on spikes that do not fit the frames, see :func:`find_doubts`.

        The first use reads every spike file.
        """
        return find_doubts(self.source)

    @property
    def is_judged(self) -> bool:
        """True if each restored frame is compared with spikes that the model has not seen.

        Spikes that do not fit the frames cannot rank two pictures.
        """
        return self.check.is_outside and not self.doubts


@dataclass(frozen=True, repr=False)
class LoadedModel:
    """A trained model, with the preparation of its inputs.

    :class:`~vrtspike.restoration.trained.TrainedModel` adds the calls of users, and describes the
    attributes.
    """

    run: RunIdentity
    weights: str
    device: torch.device
    precision: str
    restore_tiles: TileRestorer
    network: nn.Module | None = None
    statistics: Statistics | None = None
    ratio: int | None = None
    limits: RecordingLimits | None = None

    @property
    def settings(self) -> Settings:
        """The complete settings that it was trained with."""
        return deblurring_settings(self.run.settings)

    def tiling(self, source: GivenClip, tile: int | None = None) -> Tiling:
        """Return the tiling of a clip: TEST.TILE of the run, with tiles as large as memory allows.

        Args:
            source: the clip.
            tile: largest side of a tile in pixels, 0 for whole frames; None fits it to the free
                memory.

        Raises:
            DataError: if the model takes another ratio of frame and sensor.
            ConfigError: if ``tile`` is negative or does not fall on whole pixels of the sensor.
            RunError: if the memory is too small.
        """
        settings = self.settings
        shape = (len(source.names), *source.size)
        if settings.MODEL.USE_SPIKE and self.ratio not in (None, source.ratio):
            raise DataError(
                f"{source.pictures.location}: frames {source.ratio} times as large as the sensor; "
                f"this model takes {self.ratio}; vrtspike export RUN --ratio N writes one for "
                "another whole number, a run itself restores all"
            )
        return fit_tiling(settings, shape, source.ratio.numerator, self.device, tile)

    def prepare(self, source: GivenClip, tiling: Tiling, *, anyway: bool) -> PreparedClip:
        """Check a clip against the recordings that the model was trained on.

        Args:
            source: the clip.
            tiling: its tiling, such as from :meth:`tiling`.
            anyway: accept a recording far outside these, too.

        Raises:
            DataError: if the recording lies far outside, or cannot be read.
        """
        pictures = source.pictures
        location = str(pictures.location)
        check = compare_with_limits(self.limits, source)
        if not anyway:
            check.require_near(location)
        notes = []
        if pictures.conversion:
            notes.append(f"{location}: {pictures.conversion}")
        if pictures.bits > 8 and self.network is None:
            notes.append(
                f"{location}: an ONNX model takes 8 bits: frames are rounded before they are "
                "restored"
            )
        if check.is_outside:
            notes.append(check.warning(location))
        return PreparedClip(source, tiling, check, tuple(notes))

    def restore_prepared(
        self,
        clip: PreparedClip,
        *,
        wanted: Collection[int] | None = None,
        progress: ProgressCallback | None = None,
    ) -> Iterator[tuple[NDArray[np.uint8] | NDArray[np.uint16], bool]]:
        """Restore a clip frame by frame, and keep frames blurry that would become worse.

        Args:
            clip: clip from :meth:`prepare`.
            wanted: the frames to restore, by their positions; None for all.
            progress: called with the tiles done and their total.

        Yields:
            one per wanted frame, in order: the restored frame, or the blurry one if that fits the
            unseen spikes better; and True if it is the blurry one.

        Raises:
            RunError: as :meth:`restore_source`.
        """
        kept_indices = range(len(clip.source.names)) if wanted is None else sorted(wanted)
        adapted = clip.check.adapt(clip.source)
        frames = self.restore_source(adapted, clip.tiling, wanted=wanted, progress=progress)
        for number, image in zip(kept_indices, frames, strict=True):
            if clip.is_judged and is_worse(clip.source, number, image):
                yield clip.source.pictures.exact_frame(number), True
            else:
                yield image, False

    def restore_source(
        self,
        source: GivenClip,
        tiling: Tiling,
        *,
        wanted: Collection[int] | None = None,
        progress: ProgressCallback | None = None,
    ) -> Iterator[NDArray[np.uint8] | NDArray[np.uint16]]:
        """Restore a clip frame by frame.

        Args:
            source: clip from :func:`~vrtspike.restoration.inputs.given_clip.open_clip`.
            tiling: tiling from :meth:`tiling`.
            wanted: the frames to restore, by their positions; None for all.
            progress: called with the tiles done and their total.

        Yields:
            one per wanted frame, in order: uint16 (H, W, 3) RGB of 16-bit pictures, else uint8.

        Raises:
            RunError: if the memory of the device is too small, or the model gives values that are
                not finite.
        """
        return restore_frames(
            self.restore_tiles,
            source,
            tiling,
            readers=1,
            wanted=wanted,
            progress=progress,
            bits=source.pictures.bits,
        )
