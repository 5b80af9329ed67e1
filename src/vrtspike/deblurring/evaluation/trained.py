"""A trained model from its result folder, ready to restore: what :func:`vrtspike.load` gives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from vrtspike.deblurring.data.exposure import Exposure
from vrtspike.deblurring.data.store.voxels import Statistics
from vrtspike.deblurring.evaluation.given_clips import GivenClip, Spikes, open_clip
from vrtspike.deblurring.evaluation.pictures import Pictures, array_pictures
from vrtspike.deblurring.evaluation.precision import require_precision
from vrtspike.deblurring.evaluation.restore import (
    Compute,
    load_model,
    restore_frames,
    torch_compute,
)
from vrtspike.deblurring.evaluation.tile_memory import (
    MOST_PER_PIXEL,
    SHARE,
    bytes_per_pixel,
    choose_size,
    free_memory,
)
from vrtspike.deblurring.evaluation.tiling import Progress, Tiling, tile_unit, tiling_for
from vrtspike.deblurring.settings import Settings, deblurring_settings
from vrtspike.deblurring.statistics import read_statistics
from vrtspike.errors import ConfigError, RunError
from vrtspike.io.files import file_digest
from vrtspike.reporting.packed import find_model
from vrtspike.runs.identity import RunIdentity
from vrtspike.runs.names import WEIGHTS
from vrtspike.runs.published import read_finished
from vrtspike.training.precision import resolve_precision

_HALF = {"bf16-mixed": "bfloat16", "16-mixed": "float16"}


class ClipModel(ABC):
    """A trained model and what is needed to feed it, whatever computes it.

    Attributes:
        run: who it is: name, fingerprint, settings.
        weights: SHA-256 of its file of weights.
        device: where it computes.
        precision: ``float32``, or the half type that its matrix products are made in.
    """

    run: RunIdentity
    weights: str
    device: torch.device
    precision: str

    @property
    @abstractmethod
    def compute(self) -> Compute:
        """Restores a batch of tiles."""

    @abstractmethod
    def bytes_per_pixel(self, frames: int, ratio: int) -> float:
        """What it needs to restore a tile, beside its weights, for each pixel of each frame.

        Args:
            frames: of a temporal window.
            ratio: pixels of a frame for each spike pixel along each side.
        """

    def __repr__(self) -> str:
        """A line: a notebook shows it, and the network has a thousand."""
        return (
            f"<{type(self).__name__} {self.run.name} ({self.run.fingerprint}), "
            f"{'with' if self.takes_spikes else 'without'} spikes, {self.precision} on "
            f"{self.device}>"
        )

    @property
    def settings(self) -> Settings:
        """What it was trained with, complete."""
        return deblurring_settings(self.run.settings)

    @property
    def takes_spikes(self) -> bool:
        """Whether it restores with spikes."""
        return self.settings.MODEL.USE_SPIKE

    def restore(
        self,
        frames: NDArray[np.uint8],
        spikes: NDArray[np.uint8] | Sequence[NDArray[np.uint8]] | None = None,
        *,
        exposures: Sequence[Exposure] | None = None,
        simulate_spikes: bool = False,
        tile: int | None = None,
        progress: Progress | None = None,
    ) -> NDArray[np.uint8]:
        """Restore a clip.

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

        Returns:
            uint8 (T, H, W, 3) RGB.

        Raises:
            ConfigError: if the model takes spikes and there are none, or the other way round.
            DataError: if frames or spikes are of another kind, or do not fit together.
            RunError: if the memory is too small.
        """
        source = self.open_source(
            array_pictures(frames), spikes, exposures=exposures, simulate_spikes=simulate_spikes
        )
        tiling = self.tiling(source, tile)
        return np.stack(list(self.restore_source(source, tiling, progress=progress)))

    def open_source(
        self,
        frames: Path | Pictures,
        spikes: Spikes | None = None,
        *,
        exposures: Sequence[Exposure] | None = None,
        simulate_spikes: bool = False,
        sensor: tuple[int, int] | None = None,
    ) -> GivenClip:
        """A clip with the spikes that the model takes.

        Args:
            frames: a folder of pictures, a video file, or frames that were opened before.
            spikes: recorded ones.
            exposures: of spikes in memory, as for :meth:`restore`.
            simulate_spikes: simulate them from the blurry frames.
            sensor: rows and columns of spike files; None as for :func:`recorded_spikes`.

        Raises:
            ConfigError: if the model takes spikes and there are none, or the other way round.
            DataError: if frames or spikes cannot be used.
        """
        return open_clip(
            self.run,
            frames,
            spikes,
            simulate_spikes=simulate_spikes,
            sensor=sensor,
            exposures=exposures,
        )

    def tiling(self, source: GivenClip, tile: int | None = None) -> Tiling:
        """How a clip is cut: TEST.TILE of the run, with tiles as large as memory allows.

        Args:
            source: the clip.
            tile: largest side of a tile in pixels, 0 for whole frames; None fits it to the free
                memory.

        Raises:
            RunError: if the memory is too small.
            ConfigError: if ``tile`` is no even number.
        """
        settings = self.settings
        asked = tiling_for(settings.TEST.TILE, settings.DATA.CLIP_LEN)
        unit = tile_unit(source.ratio.numerator)
        overlap = -(-asked.overlap // unit) * unit
        if tile is not None:
            if tile:
                whole = source.ratio.numerator
                overlap = min(overlap, tile // (4 * whole) * 2 * whole)
            return Tiling(tile, overlap, asked.frames, asked.frames_overlap)
        shape = (len(source.names), *source.size)
        fitted = Tiling(2 * overlap, overlap, asked.frames, asked.frames_overlap)
        frames = min(asked.frames, shape[0])
        free = SHARE[self.device.type] * free_memory(self.device)
        if shape[1] * shape[2] * frames * MOST_PER_PIXEL <= free:
            return Tiling(0, overlap, asked.frames, asked.frames_overlap)
        need = self.bytes_per_pixel(frames, max(1, round(source.ratio)))
        size = choose_size(shape, fitted, unit, int(free / need))
        return Tiling(size, overlap, asked.frames, asked.frames_overlap)

    def restore_source(
        self,
        source: GivenClip,
        tiling: Tiling,
        *,
        wanted: Collection[int] | None = None,
        progress: Progress | None = None,
    ) -> Iterator[NDArray[np.uint8]]:
        """Restore a clip frame by frame.

        Args:
            source: from :meth:`open_source`.
            tiling: from :meth:`tiling`.
            wanted: the frames to restore, by their positions; None for all.
            progress: called with the tiles done and their total.

        Yields:
            uint8 (H, W, 3) RGB, one per frame that is wanted, in order.

        Raises:
            RunError: if the memory of the device does not suffice.
        """
        try:
            yield from restore_frames(
                self.compute,
                source,
                tiling,
                with_spikes=self.takes_spikes,
                readers=1,
                wanted=wanted,
                progress=progress,
            )
        except torch.OutOfMemoryError as error:
            raise RunError(
                f"the memory of the device is full with {tiling.describe()}; choose smaller ones "
                f"(--tile), or end other programs: {error}"
            ) from error


@dataclass(frozen=True, repr=False)
class TrainedModel(ClipModel):
    """A model in PyTorch with the weights of a finished run.

    Attributes:
        network: called as ``network(blur, voxels)``; in float32, on the device.
        statistics: what its spikes are standardised with; None for a model without spikes.
    """

    run: RunIdentity
    weights: str
    network: nn.Module
    statistics: Statistics | None
    device: torch.device
    precision: str

    @property
    def dtype(self) -> torch.dtype:
        """The type of matrix products."""
        found: torch.dtype = getattr(torch, self.precision)
        return found

    @property
    def compute(self) -> Compute:
        """Restores a batch of tiles."""
        return torch_compute(self.network, self.statistics, self.device, self.dtype)

    def bytes_per_pixel(self, frames: int, ratio: int) -> float:
        """Measured on a GPU, counted on a CPU."""
        bins = self.settings.DATA.NUM_VOXEL_BINS if self.takes_spikes else None
        return bytes_per_pixel(self.network, bins, frames, self.device, self.dtype, ratio)


def load(
    run: str | Path, *, device: str | torch.device | None = None, precision: str = "auto"
) -> ClipModel:
    """Load a trained model.

    Args:
        run: the result folder of a finished run, such as ``results/train/demo``, where weights,
            settings and the statistics of spikes lie together; what ``vrtspike pack`` or
            ``vrtspike export`` has made of one; or ``owner/name`` of the Hugging Face hub.
        device: ``cpu`` or ``cuda``; None takes a GPU where there is one.
        precision: ``float32``, ``bfloat16`` or ``float16``; ``auto`` is float32 on a CPU and on a
            GPU the half type that suits it.

    Raises:
        ConfigError: if there is no such device or precision.
        RunError: if the folder is not that of a finished run, or a file in it is damaged.

    Returns:
        a :class:`TrainedModel`; of a file of ONNX another one, on the CPU in float32.
    """
    folder = find_model(run)
    if folder.suffix == ".onnx":
        return _load_onnx(folder, device, precision)
    found = _device(device)
    require_precision(precision, found.type)
    published = read_finished(folder)
    weights = folder / WEIGHTS
    settings = deblurring_settings(published.settings, published.name)
    return TrainedModel(
        published,
        file_digest(weights),
        load_model(weights, settings, found),
        read_statistics(folder) if settings.MODEL.USE_SPIKE else None,
        found,
        choose_precision(precision, found),
    )


def _load_onnx(path: Path, device: str | torch.device | None, precision: str) -> ClipModel:
    from vrtspike.deblurring.evaluation.onnx_model import load_onnx

    if device not in (None, "cpu", torch.device("cpu")) or precision not in ("auto", "float32"):
        raise ConfigError(
            f"{path}: is computed on the CPU in float32, found device {device} and precision "
            f"{precision}; leave them out, or load the run itself"
        )
    return load_onnx(path)


def _device(asked: str | torch.device | None) -> torch.device:
    if asked is None:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if str(asked).partition(":")[0] not in ("cpu", "cuda"):
        raise ConfigError(f"device: found {asked}, expected cpu or cuda")
    if str(asked) != "cpu" and not torch.cuda.is_available():
        raise ConfigError(f"device: found {asked}, and there is no GPU that PyTorch can use")
    return torch.device(asked)


def choose_precision(name: str, device: torch.device) -> str:
    """``name``, or for ``auto`` what suits the device."""
    if name != "auto":
        return name
    if device.type == "cpu":
        return "float32"
    return _HALF[resolve_precision("mixed", device)]
