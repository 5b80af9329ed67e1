"""A trained model from its result folder, ready to restore: what :func:`vrtspike.load` gives."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from vrtspike.data.clips.limits import Limits
from vrtspike.data.clips.run_statistics import read_limits, read_statistics
from vrtspike.data.exposure import Exposure
from vrtspike.data.store.voxels import Statistics
from vrtspike.io.files import file_digest
from vrtspike.restoration.given_clips import GivenClip, open_clip
from vrtspike.restoration.pictures import array_pictures
from vrtspike.restoration.precision import choose_precision
from vrtspike.restoration.recording_limits import check_limits, is_worse, worse_frames
from vrtspike.restoration.restore import Compute, load_model, restore_frames, torch_compute
from vrtspike.restoration.tiling import Progress, Tiling, fit_tiling
from vrtspike.runs.identity import RunIdentity
from vrtspike.runs.named_models import GENERAL, find_trained
from vrtspike.runs.names import WEIGHTS
from vrtspike.runs.published import read_finished
from vrtspike.settings import Settings, deblurring_settings
from vrtspike.system.errors import DataError


@dataclass(frozen=True, repr=False)
class TrainedModel:
    """A trained model and what is needed to feed it.

    Attributes:
        run: who it is: name, fingerprint, settings.
        weights: SHA-256 of its file of weights.
        device: where it computes.
        precision: ``float32``, or the half type that its matrix products are made in.
        compute: restores a batch of tiles.
        network: called as ``network(blur, voxels)``; None for a file of ONNX.
        statistics: what its spikes are standardised with; None for a model without spikes, or a
            file of ONNX, which knows them.
        ratio: pixels of a frame for each spike pixel along each side, if it takes only one.
        limits: the recordings that it was trained on; None where that was not stored.
    """

    run: RunIdentity
    weights: str
    device: torch.device
    precision: str
    compute: Compute
    network: nn.Module | None = None
    statistics: Statistics | None = None
    ratio: int | None = None
    limits: Limits | None = None

    @property
    def settings(self) -> Settings:
        """What it was trained with, complete."""
        return deblurring_settings(self.run.settings)

    def restore(
        self,
        frames: NDArray[np.uint8],
        spikes: NDArray[np.uint8] | Sequence[NDArray[np.uint8]] | None = None,
        *,
        exposures: Sequence[Exposure] | None = None,
        simulate_spikes: bool = False,
        tile: int | None = None,
        progress: Progress | None = None,
        anyway: bool = False,
    ) -> NDArray[np.uint8]:
        """Restore a clip.

        A clip outside the recordings that the model was trained on gives a warning; frames of it
        that are worse than the blurry ones by spikes that the model has not seen stay blurry.

        Args:
            frames: blurry frames, uint8 (T, H, W, 3) RGB, of any number and size.
            spikes: uint8 (S, h, w) of 0 and 1, divided evenly among the frames, or such an array
                for each frame; H x W is h x w times a whole number. None for a model without.
            exposures: of each frame, in steps of its spikes, of which those for the whole clip are
                then not divided; None is as the layout of the run's data has them.
            simulate_spikes: simulate them from the blurry frames; they add no information.
            tile: largest side of a tile in pixels, 0 for whole frames; None fits it to the free
                memory.
            progress: called with the tiles done and their total.
            anyway: restore a clip far outside these recordings, too.

        Returns:
            uint8 (T, H, W, 3) RGB.

        Raises:
            ConfigError: if the model takes spikes and there are none, or the other way round.
            DataError: if frames or spikes are of another kind, do not fit together, or lie far
                outside the recordings that the model was trained on.
            RunError: if the memory is too small.
        """
        source = open_clip(
            self.run,
            array_pictures(frames),
            spikes,
            simulate_spikes=simulate_spikes,
            exposures=exposures,
        )
        tiling = self.tiling(source, tile)
        check = check_limits(self.limits, source)
        place = str(source.pictures.place)
        if not anyway:
            check.require_near(place, "restore it all the same with anyway=True")
        if check.is_outside:
            warnings.warn(check.warning(place), stacklevel=2)
        adapted = check.adapt(source)
        restored = list(self.restore_source(adapted, tiling, progress=progress))
        if check.is_outside:
            context = self.settings.DATA.CONTEXT_STEPS
            worse = []
            for number, image in enumerate(restored):
                if is_worse(source, number, context, image):
                    worse.append(str(number))
                    restored[number] = source.pictures.frame(number)
            if worse:
                warnings.warn(worse_frames(worse), stacklevel=2)
        return np.stack(restored)

    def tiling(self, source: GivenClip, tile: int | None = None) -> Tiling:
        """How a clip is cut: TEST.TILE of the run, with tiles as large as memory allows.

        Args:
            source: the clip.
            tile: largest side of a tile in pixels, 0 for whole frames; None fits it to the free
                memory.

        Raises:
            DataError: if the sensor has another size than the model takes.
            ConfigError: if ``tile`` is negative or does not fall on whole pixels of the sensor.
            RunError: if the memory is too small.
        """
        settings, shape = self.settings, (len(source.names), *source.size)
        if settings.MODEL.USE_SPIKE and self.ratio not in (None, source.ratio):
            raise DataError(
                f"{source.pictures.place}: frames {source.ratio} times as large as the sensor; "
                f"this model takes {self.ratio}; vrtspike export RUN --ratio N writes one for "
                "another whole number, a run itself restores all"
            )
        return fit_tiling(settings, shape, source.ratio.numerator, self.device, tile)

    def restore_source(
        self,
        source: GivenClip,
        tiling: Tiling,
        *,
        wanted: Collection[int] | None = None,
        progress: Progress | None = None,
    ) -> Iterator[NDArray[np.uint8] | NDArray[np.uint16]]:
        """Restore a clip frame by frame.

        Args:
            source: from :func:`~vrtspike.restoration.given_clips.open_clip`.
            tiling: from :meth:`tiling`.
            wanted: the frames to restore, by their positions; None for all.
            progress: called with the tiles done and their total.

        Yields:
            (H, W, 3) RGB, one per frame that is wanted, in order: uint16 of 16-bit pictures, else
            uint8.

        Raises:
            RunError: if the memory of the device does not suffice, or the model gives values that
                are not finite.
        """
        return restore_frames(
            self.compute,
            source,
            tiling,
            readers=1,
            wanted=wanted,
            progress=progress,
            bits=source.pictures.bits,
        )


def load(
    run: str | Path = GENERAL,
    *,
    device: str | torch.device | None = None,
    precision: str = "auto",
) -> TrainedModel:
    """Load a trained model.

    Args:
        run: the result folder of a finished run, such as ``results/train/demo``, where weights,
            settings and the statistics of spikes lie together; what ``vrtspike pack`` or
            ``vrtspike export`` has made of one; ``owner/name`` of the Hugging Face hub; or
            ``general``, the package's own weights.
        device: ``cpu`` or ``cuda``; None takes a GPU where there is one.
        precision: ``float32``, ``bfloat16`` or ``float16``; ``auto`` is float32 on a CPU and on a
            GPU the half type that suits it.

    Raises:
        ConfigError: if there is no such precision.
        RunError: if the folder is not that of a finished run, or a file in it is damaged, or this
            installation lacks the weights.
    """
    folder = find_trained(run)
    if folder.suffix == ".onnx":
        from vrtspike.restoration.onnx_model import load_onnx

        return load_onnx(folder, device, precision)
    place = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    computed = choose_precision(precision, place)
    published = read_finished(folder)
    settings = deblurring_settings(published.settings, published.name)
    network = load_model(folder / WEIGHTS, settings, place)
    statistics = read_statistics(folder) if settings.MODEL.USE_SPIKE else None
    return TrainedModel(
        published,
        file_digest(folder / WEIGHTS),
        place,
        computed,
        torch_compute(network, statistics, place, getattr(torch, computed)),
        network,
        statistics,
        limits=read_limits(folder) if settings.MODEL.USE_SPIKE else None,
    )
