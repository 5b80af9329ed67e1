"""A trained model in memory: the result of :func:`vrtspike.load`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from vrtspike.data.clips.recording_limits import RecordingLimits
from vrtspike.data.exposure import Exposure
from vrtspike.data.voxels.normalization import VoxelStatistics
from vrtspike.deblurring_settings import DeblurringSettings, require_deblurring_settings
from vrtspike.restoration.checks.checked_clip import CheckedClip, check_clip
from vrtspike.restoration.checks.limit_check import is_worse, kept_frames_warning
from vrtspike.restoration.checks.no_reference import load_no_reference
from vrtspike.restoration.checks.spike_fit import doubts_message
from vrtspike.restoration.folder.opened_request import OpenedRequest, open_request
from vrtspike.restoration.folder.output_folder import Note, OutputFolder
from vrtspike.restoration.folder.record import ModelEntry
from vrtspike.restoration.folder.request import RestoreRequest
from vrtspike.restoration.folder.restored_folder import RestoredFolder
from vrtspike.restoration.inference.tiling import TileModel, Tiling, fit_tiling
from vrtspike.restoration.inputs.clip_frames import InputFrames
from vrtspike.restoration.inputs.clip_source import ClipSource
from vrtspike.restoration.inputs.input_clip import InputClip, InputSpikes, open_clip
from vrtspike.restoration.page.writing import add_page
from vrtspike.restoration.tiled_inference import restore_frames
from vrtspike.runs.identity import RunIdentity
from vrtspike.system.caller_warnings import warn_caller
from vrtspike.system.errors import DataError
from vrtspike.system.progress_bar import OpenProgress, ProgressCallback, progress_bar


@dataclass(frozen=True, repr=False)
class TrainedModel:
    """A trained model that restores clips, into memory or into a folder.

    Attributes:
        run: its identity: name, fingerprint, settings.
        weights: SHA-256 of its file of weights.
        device: the device that computes.
        precision: ``float32``, or the half type of its matrix products.
        tile_model: function that restores a batch of tiles.
        network: called as ``network(blur, voxels)``; None for an ONNX file.
        statistics: mean and deviation that its spikes are standardised with; None for a model
            without spikes and for an ONNX file, which holds them itself.
        ratio: pixels of a frame for each spike pixel along each side; None if it takes any.
        limits: ranges of the recordings that it was trained on; None if these were not stored.
    """

    run: RunIdentity
    weights: str
    device: torch.device
    precision: str
    tile_model: TileModel
    network: nn.Module | None = None
    statistics: VoxelStatistics | None = None
    ratio: int | None = None
    limits: RecordingLimits | None = None

    def __repr__(self) -> str:
        """Return its run, size and device, and the inputs it takes, in two lines."""
        size = "ONNX file"
        if self.network is not None:
            parameters = sum(parameter.numel() for parameter in self.network.parameters())
            size = f"{parameters / 1e6:.2f} M weights"
        inputs = "blurry frames alone"
        if self.settings.MODEL.USE_SPIKE:
            bins = self.settings.DATA.NUM_VOXEL_BINS
            inputs = f"blurry frames and spikes, in {bins} bins per frame"
        if self.ratio is not None:
            inputs += f"; frames are {self.ratio} times as large as the sensor"
        return (
            f"{self.run.name} ({self.run.fingerprint}), {size}, {self.precision} on {self.device}\n"
            f"takes {inputs}"
        )

    @property
    def settings(self) -> DeblurringSettings:
        """The complete settings that it was trained with."""
        return require_deblurring_settings(self.run.settings, self.run.name)

    @property
    def _is_onnx(self) -> bool:
        """True for an ONNX file: it takes 8-bit frames, and computes those beside a window, too."""
        return self.network is None

    def restore(
        self,
        frames: InputFrames,
        spikes: InputSpikes | None = None,
        *,
        exposures: Sequence[Exposure] | None = None,
        simulate_spikes: bool = False,
        sensor: tuple[int, int] | None = None,
        layout: str | None = None,
        tile: int | None = None,
        progress: ProgressCallback | None = None,
        anyway: bool = False,
    ) -> NDArray[Any]:
        """Restore a clip, and return its frames.

        A clip outside the recordings that the model was trained on gives a warning. Frames of such
        a clip stay blurry if spikes that the model has not seen fit the restored frames less.

        Args:
            frames: blurry frames, uint8 (T, H, W, 3) RGB, of any number and size; or the path of
                a folder of pictures or of a video file.
            spikes: uint8 (S, h, w) of 0 and 1, divided evenly among the frames, or an array like
                this for each frame; H x W is h x w times a whole number. Or the path of a folder
                of spike files or of one file for all frames. None for a model without.
            exposures: exposure of each frame, within the steps of its spikes: whole numbers
                0 <= start < stop and a number sharp from start to stop; spikes for the whole clip
                are not divided then. None takes those of the layout of the run's data.
            simulate_spikes: simulate them from the blurry frames; they add no information.
            sensor: rows and columns of spike files; None takes the size in the files or beside
                them, that of the layout, or half the frames' size.
            layout: layout of spikes, which gives their exposures unless there is a table of them;
                None is that of the run's data set, if it was named there, else ``spk_gopro``.
            tile: largest side of a tile in pixels, 0 for whole frames; None fits it to the free
                memory.
            progress: called with the tiles done and their total.
            anyway: also restore a clip far outside the recordings of the training.

        Returns:
            uint8 (T, H, W, 3) RGB; uint16 for pictures of 16 bits.

        Raises:
            ConfigError: if the model takes spikes and there are none, or the other way round.
            DataError: if frames, spikes or exposures cannot be read, have another type, do not fit
                together, or lie far outside the recordings that the model was trained on.
            RunError: if the memory is too small.
        """
        source = open_clip(
            self.run,
            frames,
            spikes,
            simulate_spikes=simulate_spikes,
            sensor=sensor,
            layout=layout,
            exposures=exposures,
        )
        tiling = self.tiling(source, tile)
        clip = self._check(source, anyway=anyway)
        for note in clip.notes:
            warn_caller(note)
        if clip.doubts:
            warn_caller(doubts_message(list(clip.doubts.values())))
        images: list[NDArray[Any]] = []
        worse = []
        for image, is_blurry in self._frames_or_blurry(clip, tiling, progress=progress):
            if is_blurry:
                worse.append(source.names[len(images)])
            images.append(image)
        if worse:
            warn_caller(kept_frames_warning(worse))
        return np.stack(images)

    def restore_folder(
        self,
        frames: str | Path,
        spikes: str | Path | None,
        output: str | Path,
        *,
        sharp: str | Path | None = None,
        open_progress: OpenProgress = progress_bar,
        **options: Any,  # noqa: ANN401 - the fields of RestoreRequest, which have types
    ) -> RestoredFolder:
        """Restore a clip into a folder, as the command ``vrtspike restore`` does.

        Frames are read, restored and written one by one, so that clips of any length fit into
        memory. Repeat the call to continue after an interruption. Warnings of the result are also
        given as Python warnings.

        Args:
            frames: folder of blurry frames, or a video file.
            spikes: folder of spike files named as the frames, or one file for all; None with
                ``simulate_spikes`` and for a model without spikes.
            output: folder for ``restored/<frame>.png`` and ``restore.json``.
            sharp: folder of sharp frames of the same names, to compare with.
            open_progress: opens the progress of a step by its title.
            options: other options of
                :class:`~vrtspike.restoration.folder.request.RestoreRequest`, which describes them:
                ``simulate_spikes``, ``sensor``, ``layout``, ``video``, ``side_by_side``, ``tile``,
                ``overwrite``, ``no_reference``, ``page``, ``anyway``.

        Raises:
            ConfigError: if ``output`` is not a folder or holds something else, or spikes are
                missing or superfluous.
            DataError: as for :meth:`restore`.
            RunError: if the memory is too small.
            TypeError: if there is no such option.
        """
        request = RestoreRequest(
            Path(frames),
            Path(output),
            None if spikes is None else Path(spikes),
            sharp=None if sharp is None else Path(sharp),
            **options,
        )
        notes: list[str] = []
        opened = open_request(self.run, request)
        restored = self.restore_opened(opened, open_progress=open_progress, note=notes.append)
        result = replace(add_page(opened, restored, open_progress=open_progress), notes=notes)
        for warning in result.warnings:
            warn_caller(warning)
        return result

    def restore_opened(
        self, opened: OpenedRequest, *, open_progress: OpenProgress, note: Note = print
    ) -> RestoredFolder:
        """Restore a clip into a folder, without the page; frames that are already in it stay.

        Args:
            opened: request with opened inputs.
            open_progress: opens the progress of a step.
            note: called with notes and warnings for the user.

        Raises:
            ConfigError: if ``output`` holds something else.
            DataError: if an input cannot be used, or lies far outside the recordings that the model
                was trained on.
            RunError: if the memory is too small.
        """
        # Everything is checked before anything is removed or written.
        request = opened.request
        metric_functions = {name: load_no_reference(name) for name in request.no_reference}
        model: ModelEntry = {
            "name": self.run.name,
            "fingerprint": self.run.fingerprint,
            "weights": self.weights,
        }
        output = OutputFolder(opened, model, self.precision, note)
        tiling = output.tiling or self.tiling(opened.source, request.tile)
        clip = self._check(opened.source, anyway=request.anyway)
        output.begin(clip, tiling, self.device.type)
        if output.missing:
            output.record_doubts(clip)
            with open_progress("restore, tiles") as show:
                frames = self._frames_or_blurry(clip, tiling, wanted=output.missing, progress=show)
                output.write_frames(image for image, _ in frames)
        output.measure(clip, metric_functions, open_progress)
        return RestoredFolder(request.output, output.record, no_reference=request.no_reference)

    def tiling(self, source: InputClip, tile: int | None = None) -> Tiling:
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
                f"{source.frames.location}: frames {source.ratio} times as large as the sensor; "
                f"this model takes {self.ratio}; vrtspike export RUN --ratio N writes one for "
                "another whole number, a run itself restores all"
            )
        extra_frames = 2 if self._is_onnx else 0
        ratio = source.ratio.numerator
        return fit_tiling(settings, shape, ratio, self.device, tile, extra_frames)

    def restore_source(
        self,
        source: ClipSource,
        tiling: Tiling,
        *,
        wanted: Collection[int] | None = None,
        progress: ProgressCallback | None = None,
    ) -> Iterator[NDArray[np.uint8] | NDArray[np.uint16]]:
        """Restore a clip frame by frame.

        Args:
            source: clip from :func:`~vrtspike.restoration.inputs.input_clip.open_clip`.
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
            self.tile_model,
            source,
            tiling,
            readers=1,
            wanted=wanted,
            progress=progress,
            bits=source.bits,
        )

    def _check(self, source: InputClip, *, anyway: bool) -> CheckedClip:
        """Check a clip against the recordings of the training; the errors of :func:`check_clip`."""
        return check_clip(source, self.limits, keeps_16_bits=not self._is_onnx, anyway=anyway)

    def _frames_or_blurry(
        self,
        clip: CheckedClip,
        tiling: Tiling,
        *,
        wanted: Collection[int] | None = None,
        progress: ProgressCallback | None = None,
    ) -> Iterator[tuple[NDArray[np.uint8] | NDArray[np.uint16], bool]]:
        """Restore a clip frame by frame, and keep frames blurry that would become worse.

        Yields:
            one per wanted frame, in order: the restored frame, or the blurry one if that fits the
            unseen spikes better; and True if it is the blurry one.
        """
        numbers = range(len(clip.source.names)) if wanted is None else sorted(wanted)
        source = clip.limit_check.adapt(clip.source)
        frames = self.restore_source(source, tiling, wanted=wanted, progress=progress)
        for number, image in zip(numbers, frames, strict=True):
            if clip.is_judged and is_worse(clip.source, number, image):
                yield clip.source.frames.exact_frame(number), True
            else:
                yield image, False
